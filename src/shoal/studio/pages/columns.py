"""Columns: what each looks like, which role it has and why, what is left to decide, and what another role changes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.responses import Response

from shoal.core.arrays import IntArray
from shoal.core.errors import UsageError
from shoal.policy.drafting import ask_diversity, count_records
from shoal.policy.guessing import ColumnType, guess_quasi_taxonomy
from shoal.policy.policy import WrittenRole
from shoal.policy.profiling import ColumnProfile
from shoal.reports.plots import Plot, histogram
from shoal.studio.answers import Place, Visit, page
from shoal.studio.project import Project
from shoal.taxonomies.parse import days, decimal_numbers, texts

BARS = 12  # of a histogram
FREQUENT = 8  # values of a column of texts that are shown
_EPOCH = date(1970, 1, 1)
KINDS = {
    "empty": "empty",
    "truth": "yes or no",
    "whole": "whole numbers",
    "decimal": "decimal numbers",
    "date": "dates",
    "text": "texts",
}
TYPES: dict[ColumnType, str] = {
    "key": "keys: numbers or codes of people or records",
    "text": "text",
    "date": "dates",
    "year": "years",
    "month": "months",
    "weekday": "days of the week",
    "age": "ages in years",
    "postcode": "postcodes",
    "prefix": "codes whose first characters say the most",
    "truth": "yes or no",
    "ordered": "steps of a scale, in order",
    "category": "categories, without an order",
    "weight": "survey weights",
    "number": "numbers",
}
ROLES: tuple[tuple[WrittenRole, str, str], ...] = (
    ("identifier", "Identifier", "Names a person, such as a name or a number; it is never published."),
    (
        "quasi",
        "Quasi-identifier",
        "Others may know it about a person, such as age or town; it is published less exactly.",
    ),
    (
        "sensitive",
        "Sensitive",
        "Must not be learned about a person, such as a diagnosis; it is published and protected.",
    ),
    ("insensitive", "Insensitive", "Nobody knows it about others and it harms nobody; it is published as it is."),
    (
        "weight",
        "Survey weight",
        "How many people of the population a record of a survey stands for; it is used, and not published.",
    ),
)
PutAway = dict[str, dict[str, Any]]  # by column: the taxonomy and the models that a role had no use for


_LONGEST = 500  # characters of a description


def show(visit: Visit) -> Response:
    """Show the columns with their roles."""
    rows = [_describe(visit.project, number) for number in range(len(visit.project.profile))]
    return visit.render("columns.html", rows=rows, roles=ROLES, said="", announcement="")


def change(visit: Visit) -> Response:
    """Give one column another role or description, and answer with its row."""
    project, form, number = visit.project, visit.form, visit.request.path_params["number"]
    if number >= len(project.profile):
        raise HTTPException(404)
    profile, document = project.profile[number], project.document
    said, announcement = "", f"Meaning of {profile.name} saved"
    role, description = form.get("role"), form.get("description")
    if "role" in form and role != entry_of(document, profile.name).get("role", ""):
        if role not in [known for known, _, _ in ROLES]:
            raise UsageError("choose one of the roles")
        put_away = project.memory.setdefault("put away", {})
        document, said = with_role(document, profile, role, put_away)
        announcement = "; ".join(filter(None, [f"{profile.name} is {role} now", said]))
    if "description" in form and entry_of(document, profile.name).get("role"):
        if len(description) > _LONGEST:
            raise UsageError(f"a description has at most {_LONGEST} characters")
        if description != entry_of(document, profile.name).get("description", ""):
            document = with_description(document, profile.name, description)
    project.change(form.revision, document)
    if visit.swapping:
        return visit.render(
            "column_row.html", row=_describe(project, number), roles=ROLES, said=said, announcement=announcement
        )
    return visit.to(visit.at("/columns"))


def _describe(project: Project, number: int) -> dict[str, Any]:
    """Return what is shown of a column; its plot is drawn once."""
    profile = project.profile[number]
    drawn: dict[int, Plot | None] = project.memory.setdefault("columns", {})
    if number not in drawn:
        drawn[number] = draw_values(profile)
    return {
        "number": number,
        "profile": profile,
        "kind": KINDS[profile.kind],
        "draft": project.draft.columns[number],
        "type": TYPES[project.draft.columns[number].type],
        "plot": drawn[number],
        "entry": entry_of(project.document, profile.name),
    }


def draw_values(column: ColumnProfile) -> Plot | None:
    """Draw how the values of a column are spread, as far as they were counted; None if that says nothing."""
    values, counts = column.values, column.records
    if not len(values) or (column.kind == "text" and column.n_unique == column.n_distinct):
        return None
    title, labels = f"Values of {column.name}", texts(values).to_pylist()
    if column.kind in ("whole", "decimal", "date"):
        is_date = column.kind == "date"
        numbers, _ = days(values, column.date_formats[0] or None) if is_date else decimal_numbers(values)
        if len(values) > BARS:
            shown, amounts = _count_intervals(column, np.asarray(numbers), counts)
            return histogram(shown, amounts, title, "from" if is_date else "value")
        order = np.argsort(numbers)
        return histogram([labels[place] for place in order], counts[order].tolist(), title)
    order = np.argsort(-counts, kind="stable")
    most = order[: FREQUENT if len(order) > BARS else BARS]
    shown, amounts = [str(labels[place]) for place in most], counts[most].tolist()
    if rest := len(order) - len(most):
        shown.append(f"{rest:,} others")
        amounts.append(int(counts.sum()) - sum(amounts))
    return histogram(shown, amounts, title)


def _count_intervals(column: ColumnProfile, numbers: np.ndarray, counts: IntArray) -> tuple[list[str], list[int]]:
    """Return the intervals of numbers or days, and the records in each."""
    whole = column.kind != "decimal"
    edges = np.linspace(numbers.min(), numbers.max() + whole, BARS + 1)
    if whole:
        edges = np.unique(np.floor(edges))
    amounts, edges = np.histogram(numbers, bins=edges, weights=counts)
    labels = [_interval_text(column.kind, float(a), float(b)) for a, b in itertools.pairwise(edges)]
    return labels, amounts.astype(int).tolist()


def _interval_text(kind: str, start: float, stop: float) -> str:
    """Write an interval: its days, its whole numbers, or its ends with four digits, as people do.

    >>> _interval_text("whole", 3, 7), _interval_text("decimal", 0.25, 50230.4), _interval_text("date", 0, 31)
    ('3 to 6', '0.25 to 50,230', '1970-01-01')
    """
    if kind == "date":
        try:
            return (_EPOCH + timedelta(days=int(start))).isoformat()
        except OverflowError:  # years that no calendar of ours has
            return f"day {int(start)}"
    if kind == "whole":
        return f"{start:.0f}" if stop - start == 1 else f"{start:.0f} to {stop - 1:.0f}"
    ends = (f"{end:,.0f}" if 1_000 <= abs(end) < 10_000_000 else f"{end:.4g}" for end in (start, stop))
    return " to ".join(ends)


def with_role(
    document: Mapping[str, Any], column: ColumnProfile, role: WrittenRole, put_away: PutAway
) -> tuple[dict[str, Any], str]:
    """Return the policy with another role for one column, and what else was changed for that, in words.

    A quasi attribute gets the taxonomy that a draft would give it, a sensitive one the guarantee; guarantees about a
    column that is no longer sensitive cannot be kept. What goes is *put away* and comes back with the role.
    """
    attributes = _mapping(document.get("attributes"))
    entry = entry_of(document, column.name)
    own = put_away.setdefault(column.name, {})
    if "taxonomy" in entry:
        own["taxonomy"] = entry["taxonomy"]
    kept = {key: value for key, value in entry.items() if key not in ("role", "taxonomy", "items")}
    changed: dict[str, Any] = {"role": role}
    if role == "quasi" or (role == "sensitive" and "taxonomy" in entry):
        guessed = guess_quasi_taxonomy(column)
        taxonomy = own.get("taxonomy") or (guessed and guessed.choice)
        changed |= {"taxonomy": dict(taxonomy)} if taxonomy else {}
    attributes[column.name] = {**changed, **kept}
    privacy, said = _privacy(document.get("privacy"), column, role, own)
    result = {**document, "attributes": attributes}
    if role != "identifier" and document.get("unit") == column.name:
        result = {key: value for key, value in result.items() if key not in ("unit", "sample")}
        said = "; ".join(filter(None, [said, "records are counted now, not people"]))
    if privacy is not None:
        result["privacy"] = privacy
    return result, said


def _privacy(
    given: Any, column: ColumnProfile, role: WrittenRole, put_away: dict[str, Any]
) -> tuple[list[Any] | None, str]:
    """Return the models with those that the role needs, or None if they stay as they are."""
    if not isinstance(given, list):
        return None, ""
    own = [model for model in given if column.name in _attributes_of(model)]
    if role != "sensitive" and own:
        put_away["models"] = own
        return [model for model in given if model not in own], f"{_names(own)} about {column.name} was removed"
    if role == "sensitive" and not own:
        guessed = ask_diversity(column.name, count_records(column)).choice
        added = put_away.pop("models", None) or ([] if guessed is None else [dict(guessed)])
        if added:
            return [*given, *added], f"{_names(added)} about {column.name} was added"
    return None, ""


def _names(models: list[Any]) -> str:
    return ", ".join(str(next(iter(model))) for model in models)


def _attributes_of(model: Any) -> tuple[str, ...]:
    """Return the attributes that a model of a policy names."""
    if not isinstance(model, Mapping) or len(model) != 1:
        return ()
    named = _mapping(next(iter(model.values()))).get("attribute")
    if isinstance(named, str):
        return (named,)
    return tuple(map(str, named)) if isinstance(named, list) else ()


def with_description(document: Mapping[str, Any], name: str, description: str) -> dict[str, Any]:
    """Return the policy with another description of a column; an empty one goes.

    >>> with_description({"attributes": {"age": {"role": "quasi"}}}, "age", " in years ")
    {'attributes': {'age': {'role': 'quasi', 'description': 'in years'}}}
    """
    attributes = _mapping(document.get("attributes"))
    entry = entry_of(document, name)
    entry.pop("description", None)
    if text := " ".join(description.split()):
        entry["description"] = text
    attributes[name] = entry
    return {**document, "attributes": attributes}


def entry_of(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what a policy says of a column, its role and description among it; empty if nothing."""
    return _mapping(_mapping(document.get("attributes")).get(name))


def _mapping(given: Any) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else {}


place = Place("Columns", "/columns", 10)
routes = [
    page("/projects/{project}/columns", show),
    page("/projects/{project}/columns/{number:int}", change, "POST"),
]
