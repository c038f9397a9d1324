"""What a column looks like, for people: how many values, how they are spread, what was left to decide."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from shoal.core.arrays import IntArray
from shoal.policy.drafting import DraftColumn
from shoal.policy.guessing import list_values
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
    ("quasi", "Quasi-identifier", "Others may know it of a person, such as age or town; it is published less exactly."),
    (
        "sensitive",
        "Sensitive",
        "Must not become known of a person, such as a diagnosis; it is published and protected.",
    ),
    ("insensitive", "Insensitive", "Nobody knows it of others and it harms nobody; it is published as it is."),
)


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


def described(profile: Sequence[ColumnProfile], drafted: Sequence[DraftColumn]) -> tuple[Column, ...]:
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
            plot=spread(column),
            suggested=draft.role,
            reason=draft.reason,
            questions=draft.questions,
        )
        for number, (column, draft) in enumerate(zip(profile, drafted, strict=True))
    )


def spread(column: ColumnProfile) -> Plot | None:
    """Draw how the values of a column are spread, as far as they were counted; None if that says nothing."""
    values, counts = list_values(column), column.counts[1:][column.counts[1:] > 0]
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
