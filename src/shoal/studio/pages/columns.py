"""Columns: what each looks like, which role it has and why, what is left to decide, and what another role changes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from shoal.columns.base import Technique
from shoal.core.arrays import IntArray
from shoal.core.errors import UsageError
from shoal.core.registry import discover
from shoal.core.wording import count_noun
from shoal.policy.column_types import ColumnType
from shoal.policy.guessing import ask_diversity, count_records, guess_quasi_taxonomy
from shoal.policy.policy import WrittenRole
from shoal.policy.profiling import ColumnProfile
from shoal.policy.reading import sentence
from shoal.reports.plots import Plot, histogram
from shoal.studio.answers import Content, Form, Place, Visit, page
from shoal.studio.pages.guarantees import list_parameters, read_number, read_values, show_values
from shoal.studio.project import Project
from shoal.taxonomies.parse import days, decimal_numbers, texts

MANY = 20  # columns beyond which all are shown in one table first
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
    "prefix": "codes whose first characters matter most",
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
        "Others may know it about a person, such as age or town; it is published less precisely.",
    ),
    (
        "sensitive",
        "Sensitive",
        "Must not be learned about a person, such as a diagnosis; it is published and protected.",
    ),
    ("insensitive", "Insensitive", "Nobody knows it about others and it harms nobody; it is published unchanged."),
    (
        "weight",
        "Survey weight",
        "How many people in the population a survey record represents; it is used but not published.",
    ),
    ("drop", "Left out", "Is not needed, such as remarks in free text; it is not published."),
)
PutAway = dict[str, Content]  # by column: the taxonomy and the models that a role had no use for


_LONGEST = 500  # characters of a description


def show(visit: Visit) -> Response:
    """Show the columns with their roles: many of them in one table, and one of these with all that is known of it."""
    project, query = visit.project, visit.request.query_params
    dense = query.get("view", "table" if len(project.profile) > MANY else "list") == "table"
    chosen = query.get("column", "")
    one = int(chosen) if chosen.isascii() and chosen.isdigit() and int(chosen) < len(project.profile) else None
    return visit.render(
        "columns.html",
        dense=dense,
        rows=[_describe(project, number, drawn=not dense) for number in range(len(project.profile))],
        row=None if one is None else _describe(project, one),
        picked=(),
        roles=ROLES,
        said="",
        announcement="",
        reopened=project.memory.pop("reopened", ""),
    )


def change_technique(visit: Visit) -> Response:
    """Give one column a technique, or none; one that was only chosen so far is answered with its fields."""
    project, form, number = visit.project, visit.form, visit.request.path_params["number"]
    if number >= len(project.profile):
        raise HTTPException(404)
    name, document, chosen = project.profile[number].name, project.document, form.get("technique")
    entry, wrong = entry_of(document, name), ""
    entry.pop("technique", None)
    known = discover("shoal.columns", Technique)
    if chosen in known:
        fields = list_parameters(known[chosen])
        values = read_values(fields, {field.name: form.getlist(field.name) for field in fields})
        try:
            known[chosen].model_validate(values)
            entry["technique"] = {chosen: values}
        except ValidationError as error:
            problem = error.errors(include_url=False, include_context=True)[0]
            wrong = ": ".join([*map(str, problem["loc"]), sentence(dict(problem), [field.name for field in fields])])
    elif chosen:
        raise UsageError("choose one of the techniques")
    if not wrong:
        document["attributes"] = {**document["attributes"], name: entry}
        project.change(form.revision, document)
    row = _describe(project, number)
    if wrong:
        shown = {field.name: form.get(field.name) for field in fields}
        row |= {"technique": chosen, "fields": fields, "given": shown, "wrong": wrong if any(shown.values()) else ""}
    said = f"Fill in what {chosen} needs" if wrong else f"{name} has {chosen or 'no technique'} now"
    return visit.render("column_row.html", row=row, roles=ROLES, said="", announcement=said)


def change_table(visit: Visit) -> Response:
    """Answer what is asked about the whole table."""
    document = visit.project.document
    if (missing := visit.form.get("missing")) not in ("category", "drop"):
        raise UsageError("choose how to treat records with missing values")
    document["missing"] = missing
    visit.project.change(visit.form.revision, document)
    return visit.to(visit.at("/columns"))


def _name_technique(entry: Mapping[str, Any]) -> str:
    given = entry.get("technique")
    return given if isinstance(given, str) else str(next(iter(given), "")) if isinstance(given, Mapping) else ""


def _describe_technique(entry: Mapping[str, Any]) -> Content:
    """Return the technique of a column, its fields, and those that a column of its role may have."""
    known, name = discover("shoal.columns", Technique), _name_technique(entry)
    fields = list_parameters(known[name]) if name in known else ()
    given = entry.get("technique")
    return {
        "techniques": [
            kind
            for kind in known.values()
            if entry.get("role") in kind.roles or (entry.get("role"), kind.name) == ("weight", "rounding")
        ],
        "technique": name,
        "fields": fields,
        "given": show_values(fields, _mapping(given.get(name)) if isinstance(given, Mapping) else {}),
        "wrong": "",
    }


def change_many(visit: Visit) -> Response:
    """Give every selected column one role, or single columns another one, and answer with the table of all."""
    project, form = visit.project, visit.form
    picked = {int(text) for text in form.getlist("column") if text.isascii() and text.isdigit()}
    together = "set" in form
    document, changed = project.document, []
    for number, profile in enumerate(project.profile):
        role = (form.get("role") if number in picked else "") if together else form.get(f"role-{number}")
        if role and role != entry_of(document, profile.name).get("role", ""):
            document, _ = with_role(document, profile, _check_role(role), put_away(project))
            changed.append(f"{profile.name} is {role} now")
    project.change(form.revision, document)
    if not visit.swapping:
        return visit.to(visit.at("/columns"))
    rows = [_describe(project, number, drawn=False) for number in range(len(project.profile))]
    said = changed[0] if len(changed) == 1 else f"{len(changed)} roles were changed"
    return visit.render(
        "columns_dense.html", rows=rows, roles=ROLES, picked=() if together else picked, announcement=said
    )


def _check_role(role: str) -> WrittenRole:
    found = next((known for known, _, _ in ROLES if known == role), None)
    if found is None:
        raise UsageError("choose one of the roles")
    return found


def put_away(project: Project) -> PutAway:
    """Return what roles that columns do not have any more needed."""
    found: PutAway = project.memory.setdefault("put away", {})
    return found


def change(visit: Visit) -> Response:
    """Give one column another role or description, and answer with its row."""
    project, form, number = visit.project, visit.form, visit.request.path_params["number"]
    if number >= len(project.profile):
        raise HTTPException(404)
    profile, document = project.profile[number], project.document
    said, announcement = "", f"Meaning of {profile.name} saved"
    role, description = form.get("role"), form.get("description")
    if "role" in form and role != entry_of(document, profile.name).get("role", ""):
        document, said = with_role(document, profile, _check_role(role), put_away(project))
        announcement = "; ".join(filter(None, [f"{profile.name} is {role} now", said]))
    if "weight" in form or "publish" in form:
        document = _with_details(document, profile.name, form)
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


def _describe(project: Project, number: int, *, drawn: bool = True) -> Content:
    """Return what is shown of a column; its plot is drawn once."""
    profile = project.profile[number]
    plots: dict[int, Plot | None] = project.memory.setdefault("columns", {})
    if drawn and number not in plots:
        plots[number] = draw_values(profile)
    entry = entry_of(project.document, profile.name)
    return {
        "number": number,
        "profile": profile,
        **_describe_technique(entry),
        "kind": KINDS[profile.kind],
        "draft": project.draft.columns[number],
        "type": TYPES[project.draft.columns[number].type],
        "plot": plots.get(number),
        "entry": entry,
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
        shown.append(count_noun(rest, "other"))
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
) -> tuple[Content, str]:
    """Return the policy with another role for one column, and what else was changed for that, in words.

    A quasi attribute gets the taxonomy that a draft would give it, a sensitive one the guarantee; guarantees about a
    column that is no longer sensitive cannot be kept. What goes is *put away* and comes back with the role.
    """
    attributes = _mapping(document.get("attributes"))
    entry = entry_of(document, column.name)
    own = put_away.setdefault(column.name, {})
    if "taxonomy" in entry:
        own["taxonomy"] = entry["taxonomy"]
    without = ("role", "taxonomy", "items", *(("technique", "publish") if role == "drop" else ()))
    kept = {key: value for key, value in entry.items() if key not in without}
    changed: Content = {"role": role}
    if role == "quasi" or (role == "sensitive" and "taxonomy" in entry):
        guessed = guess_quasi_taxonomy(column)
        taxonomy = own.get("taxonomy") or (guessed and guessed.choice)
        changed |= {"taxonomy": dict(taxonomy)} if taxonomy else {}
    attributes[column.name] = {**changed, **kept}
    privacy, said = _privacy(document.get("privacy"), column, role, own)
    result = {**document, "attributes": attributes}
    if role != "identifier" and document.get("unit") == column.name:
        result = {key: value for key, value in result.items() if key not in ("unit", "sample")}
        said = "; ".join(filter(None, [said, "records are now counted, not people"]))
    if privacy is not None:
        result["privacy"] = privacy
    return result, said


def _privacy(given: Any, column: ColumnProfile, role: WrittenRole, put_away: Content) -> tuple[list[Any] | None, str]:
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


def _with_details(document: Mapping[str, Any], name: str, form: Form) -> Content:
    """Return the policy with how much a quasi attribute matters, or with how a survey weight is published."""
    entry = entry_of(document, name)
    if entry.get("role") == "quasi" and (text := form.get("weight").strip()):
        entry.pop("weight", None)
        number = read_number(text)
        entry |= {} if number == 1 else {"weight": number}
    if entry.get("role") == "weight" and "publish" in form:
        entry.pop("publish", None)
        entry |= {"publish": chosen} if (chosen := form.get("publish")) not in ("", "none") else {}
    return {**document, "attributes": {**_mapping(document.get("attributes")), name: entry}}


def with_description(document: Mapping[str, Any], name: str, description: str) -> Content:
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


def entry_of(document: Mapping[str, Any], name: str) -> Content:
    """Return what a policy says of a column, its role and description among it; empty if nothing."""
    return _mapping(_mapping(document.get("attributes")).get(name))


def _mapping(given: Any) -> Content:
    return dict(given) if isinstance(given, Mapping) else {}


place = Place("Columns", "/columns", 10)
routes = [
    page("/projects/{project}/columns", show),
    page("/projects/{project}/columns/roles", change_many, "POST"),
    page("/projects/{project}/columns/table", change_table, "POST"),
    page("/projects/{project}/columns/{number:int}/technique", change_technique, "POST"),
    page("/projects/{project}/columns/{number:int}", change, "POST"),
]
