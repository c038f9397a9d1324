"""Columns for people: what each looks like, what was left to decide, and what another role changes in the policy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np

from shoal.core.arrays import IntArray
from shoal.policy.drafting import DraftColumn, ask_diversity
from shoal.policy.guessing import guess_quasi_taxonomy
from shoal.policy.policy import Role
from shoal.policy.profiling import ColumnProfile
from shoal.reports.plots import Plot, histogram
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
ROLES: tuple[tuple[Role, str, str], ...] = (
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
)
PutAway = dict[str, dict[str, Any]]  # by column: the taxonomy and the models that a role had no use for


@dataclass(frozen=True, slots=True)
class Column:
    """One column with its figures, as the page shows them; they do not change while the table is open."""

    number: int
    name: str
    kind: str
    n_distinct: int
    exact: bool
    n_missing: int
    missing_share: float
    plot: Plot | None
    suggested: Role
    reason: str
    questions: tuple[str, ...]


def describe_columns(profile: Sequence[ColumnProfile], drafted: Sequence[DraftColumn]) -> tuple[Column, ...]:
    """Describe each column of a table."""
    return tuple(
        Column(
            number=number,
            name=column.name,
            kind=KINDS[column.kind],
            n_distinct=column.n_distinct,
            exact=column.exact,
            n_missing=column.n_missing,
            missing_share=column.n_missing / column.n_rows if column.n_rows else 0.0,
            plot=draw_values(column),
            suggested=draft.role,
            reason=draft.reason,
            questions=draft.questions,
        )
        for number, (column, draft) in enumerate(zip(profile, drafted, strict=True))
    )


def draw_values(column: ColumnProfile) -> Plot | None:
    """Draw how the values of a column are spread, as far as they were counted; None if that says nothing."""
    values, counts = column.values, column.records
    if not len(values) or (column.kind == "text" and column.n_unique == column.n_distinct):
        return None
    title = f"Values of {column.name}"
    if column.kind in ("whole", "decimal") and len(values) > BARS:
        return histogram(*_numbers(decimal_numbers(values)[0], counts, whole=column.kind == "whole"), title)
    if column.kind == "date" and len(values) > BARS:
        return histogram(*_days(days(values, column.date_formats[0] or None)[0], counts), title, "from")
    labels = texts(values).to_pylist()
    if column.kind in ("whole", "decimal", "date"):
        order = np.argsort(np.asarray(decimal_numbers(values)[0]) if column.kind != "date" else np.array(labels))
        return histogram([labels[place] for place in order], [int(counts[place]) for place in order], title)
    order = np.argsort(-counts, kind="stable")
    most = order[: FREQUENT if len(order) > BARS else BARS]
    shown = [str(labels[place]) for place in most]
    amounts = [int(counts[place]) for place in most]
    if rest := len(order) - len(most):
        shown.append(f"{rest:,} others")
        amounts.append(int(counts.sum()) - sum(amounts))
    return histogram(shown, amounts, title)


def _numbers(numbers: np.ndarray, counts: IntArray, *, whole: bool) -> tuple[list[str], list[int]]:
    low, high = float(numbers.min()), float(numbers.max())
    edges = np.linspace(low, high + 1 if whole else high, BARS + 1)
    if whole:
        edges = np.unique(np.floor(edges))
    amounts, edges = np.histogram(numbers, bins=edges, weights=counts)
    ends = itertools.pairwise(edges)
    labels = [_whole_range(int(a), int(b)) if whole else f"{_short(a)} to {_short(b)}" for a, b in ends]
    return labels, [int(amount) for amount in amounts]


def _whole_range(start: int, stop: int) -> str:
    return f"{start}" if stop - start == 1 else f"{start} to {stop - 1}"


def _short(number: float) -> str:
    """Write a number with four digits, and as people do unless it is very large or small.

    >>> _short(50230.4), _short(0.25), _short(1234.56), _short(2.5e12)
    ('50,230', '0.25', '1,235', '2.5e+12')
    """
    return f"{number:,.0f}" if 1_000 <= abs(number) < 10_000_000 else f"{number:.4g}"


def _days(numbers: np.ndarray, counts: IntArray) -> tuple[list[str], list[int]]:
    edges = np.unique(np.floor(np.linspace(numbers.min(), numbers.max() + 1, BARS + 1)))
    amounts, edges = np.histogram(numbers, bins=edges, weights=counts)
    try:
        starts = [(_EPOCH + timedelta(days=int(day))).isoformat() for day in edges[:-1]]
    except OverflowError:  # years that no calendar of ours has
        starts = [f"day {int(day)}" for day in edges[:-1]]
    return starts, [int(amount) for amount in amounts]


def with_role(
    document: Mapping[str, Any], column: ColumnProfile, role: Role, put_away: PutAway
) -> tuple[dict[str, Any], str]:
    """Return the policy with another role for one column, and what else was changed for that, in words.

    A quasi attribute gets the taxonomy that a draft would give it, a sensitive one the guarantee; guarantees about a
    column that is no longer sensitive cannot be kept. What goes is *put away* and comes back with the role.
    """
    attributes = _mapping(document.get("attributes"))
    entry = _mapping(attributes.get(column.name))
    own = put_away.setdefault(column.name, {})
    if "taxonomy" in entry:
        own["taxonomy"] = entry["taxonomy"]
    kept = {key: value for key, value in entry.items() if key not in ("role", "taxonomy", "items")}
    changed: dict[str, Any] = {"role": role}
    if role == "quasi" or (role == "sensitive" and "taxonomy" in entry):
        taxonomy = own.get("taxonomy") or _guess_taxonomy(column)
        changed |= {} if taxonomy is None else {"taxonomy": taxonomy}
    attributes[column.name] = {**changed, **kept}
    privacy, said = _privacy(document.get("privacy"), column, role, own)
    result = {**document, "attributes": attributes}
    if privacy is not None:
        result["privacy"] = privacy
    return result, said


def _guess_taxonomy(column: ColumnProfile) -> dict[str, Any] | None:
    guessed = guess_quasi_taxonomy(column)
    return None if guessed is None else dict(guessed.choice)


def _privacy(given: Any, column: ColumnProfile, role: Role, put_away: dict[str, Any]) -> tuple[list[Any] | None, str]:
    """Return the models with those that the role needs, or None if they stay as they are."""
    if not isinstance(given, list):
        return None, ""
    own = [model for model in given if column.name in _attributes_of(model)]
    if role != "sensitive" and own:
        put_away["models"] = own
        return [model for model in given if model not in own], f"{_names(own)} about {column.name} was removed"
    if role == "sensitive" and not own:
        guessed = ask_diversity(column).choice
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
    entry = _mapping(attributes.get(name))
    entry.pop("description", None)
    if text := " ".join(description.split()):
        entry["description"] = text
    attributes[name] = entry
    return {**document, "attributes": attributes}


def role_of(document: Mapping[str, Any], name: str) -> str:
    """Return the role that a policy gives a column; empty if none."""
    return str(_mapping(_mapping(document.get("attributes")).get(name)).get("role", ""))


def description_of(document: Mapping[str, Any], name: str) -> str:
    """Return how a policy describes a column; empty if it does not."""
    return str(_mapping(_mapping(document.get("attributes")).get(name)).get("description") or "")


def _mapping(given: Any) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else {}
