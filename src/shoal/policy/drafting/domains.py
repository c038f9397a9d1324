"""Taxonomies by kind. Domains are round numbers around the data, never the data's own ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from shoal.core.errors import ShoalError
from shoal.core.registry import find
from shoal.policy.drafting.profiling import ColumnProfile
from shoal.policy.drafting.roles import AGE, POSTAL, how_many, words
from shoal.taxonomies.builders import TaxonomyBuilder

FEW_NUMBERS = 6  # distinct whole numbers up to which they are taken for codes
FEW_TEXTS = 12  # distinct texts up to which nobody needs groups
MOST_STEPS = 10_000  # finest values of an interval taxonomy
MOST_CATEGORIES = 20_000
FARTHEST = 2**53
OLDEST = 119  # whole numbers from 0 to 119 are cut evenly by every width below
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class TaxonomyGuess:
    """A taxonomy as a policy writes it (None: the one that fits the column's kind), why, and what to decide."""

    taxonomy: Mapping[str, Any] | None
    reason: str = ""
    questions: tuple[str, ...] = ()


FLAT = TaxonomyGuess({"flat": {}})


def quasi_taxonomy(column: ColumnProfile) -> TaxonomyGuess | None:
    """Choose a taxonomy under which every value of the column fits; None if there is no such one."""
    for guess in _candidates(column):
        if guess.taxonomy is not None and fits(column, guess.taxonomy):
            return guess
    return None


def guess_of_kind(column: ColumnProfile, kind: str) -> TaxonomyGuess | None:
    """Make a taxonomy of one kind, whatever the column's name suggests; None if its values have no such one."""
    if kind == "intervals" and column.kind in ("whole", "decimal"):
        return _intervals(column)
    if kind == "dates" and column.kind == "date":
        return _dates(column)
    return _mask(column) if kind == "mask" else None


def sensitive_taxonomy(column: ColumnProfile) -> TaxonomyGuess | None:
    """Leave sensitive values as they are, for so they are published; None if they are too many to compare."""
    return TaxonomyGuess(None) if column.exact and column.n_distinct <= MOST_CATEGORIES else None


def fits(column: ColumnProfile, taxonomy: Mapping[str, Any]) -> bool:
    """Whether the taxonomy is valid and has a place for every value that was counted."""
    ((name, parameters),) = taxonomy.items()
    try:
        builder = find("shoal.taxonomies.builders", TaxonomyBuilder, name, what="taxonomy").model_validate(parameters)
        return bool((builder.build(column.values).encode(seen_values(column)) >= 0).all())
    except (ShoalError, ValidationError):
        return False


def seen_values(column: ColumnProfile) -> pa.Array:
    """Return the distinct values of a column that are not texts for missing."""
    return column.values.filter(pa.array(column.counts[1:] > 0))


def _candidates(column: ColumnProfile) -> list[TaxonomyGuess]:
    named = words(column.name)
    found: list[TaxonomyGuess | None] = []
    if column.kind == "date":
        found.append(_dates(column))
    if named & POSTAL or (column.digits_only and column.leading_zeros):
        found.append(_mask(column))
    if (
        column.kind == "whole"
        and not (column.n_distinct <= FEW_NUMBERS and not named & AGE)
        and not column.leading_zeros
    ):
        found.append(_intervals(column))
    if column.kind == "decimal":
        found.append(_intervals(column))
    if column.exact and column.n_distinct <= MOST_CATEGORIES:
        found.append(_flat(column))
    return [guess for guess in found if guess is not None]


def _flat(column: ColumnProfile) -> TaxonomyGuess:
    if column.kind != "text" or column.n_distinct <= FEW_TEXTS:
        return FLAT
    question = (
        f"which of its {how_many(column)} belong together? Without groups a value is published as it is or as *; "
        "group them by a taxonomy, from a file or a tree."
    )
    return TaxonomyGuess({"flat": {}}, questions=(question,))


def _mask(column: ColumnProfile) -> TaxonomyGuess | None:
    if column.length is None or not 2 <= column.length <= 12 or column.kind not in ("whole", "text"):
        return None
    return TaxonomyGuess(
        {"mask": {"length": column.length}}, f"codes of {column.length} characters, masked from the end"
    )


def _dates(column: ColumnProfile) -> TaxonomyGuess | None:
    try:
        first, last = (_EPOCH + timedelta(days=day) for day in (column.lowest, column.highest))
    except OverflowError:  # years that no calendar of ours has
        return None
    parameters = {
        "levels": ["month", "quarter", "year", "decade"],
        "min": f"{first.year // 10 * 10:04d}-01-01",
        "max": f"{last.year // 10 * 10 + 9:04d}-12-31",
    }
    questions = ["which days may occur at all? The domain is whole decades around the data; other days are refused."]
    form = column.date_formats[0]
    if form:
        parameters["format"] = form
        if len(column.date_formats) > 1:
            questions.append("is the format right? Others fit every value as well.")
    return TaxonomyGuess({"dates": parameters}, questions=tuple(questions))


def _intervals(column: ColumnProfile) -> TaxonomyGuess | None:
    if not max(abs(column.lowest), abs(column.highest)) < FARTHEST / 4:
        return None
    if column.kind == "whole" and words(column.name) & AGE and column.lowest >= 0 and column.highest <= OLDEST:
        ages = {"min": 0, "max": OLDEST, "widths": [5, 10, 20, 40], "open": "high"}
        return TaxonomyGuess({"intervals": ages}, "ages")
    low, high = round_domain(column.lowest, column.highest, whole=column.kind == "whole")
    span = high - low
    if column.kind == "whole":
        step = max(Fraction(1), Fraction(10) ** math.ceil(math.log10(span / MOST_STEPS)))
        chosen = [int(width) for width in nested_widths(span) if width.denominator == 1 and width > step]
        parameters: dict[str, Any] = {"min": int(low), "max": int(high) - 1, "widths": chosen}
        if step > 1:
            parameters["step"] = int(step)
    else:
        decimals = [float(width) for width in nested_widths(span)]
        parameters = {"min": float(low), "max": float(high), "widths": decimals}
    parameters["open"] = "both"
    question = "which numbers may occur at all? The domain is round numbers around the data, open at both ends."
    return TaxonomyGuess({"intervals": parameters}, questions=(question,))


def round_domain(lowest: float, highest: float, *, whole: bool) -> tuple[Fraction, Fraction]:
    """Return round ends, the upper one excluded for whole numbers: multiples of the next 1, 2 or 5 times 10^n.

    >>> round_domain(1, 99, whole=True), round_domain(1987, 2023, whole=True)
    ((Fraction(0, 1), Fraction(100, 1)), (Fraction(1950, 1), Fraction(2050, 1)))
    """
    low, high = Fraction(lowest), Fraction(highest) + (1 if whole else 0)
    span = high - low
    if whole:
        span = max(span, Fraction(10))
    elif span == 0:
        span = max(abs(high), Fraction(1))
    unit = Fraction(10) ** math.floor(math.log10(span))
    size = next(factor * unit for factor in (1, 2, 5, 10, 20) if factor * unit >= span)
    return math.floor(low / size) * size, max(math.ceil(high / size), math.floor(low / size) + 1) * size


def nested_widths(span: Fraction) -> tuple[Fraction, ...]:
    """Return widths of which each is a multiple of the one before, for a span of 1, 2, 4 or 5 times 10^n.

    >>> [int(width) for width in nested_widths(Fraction(500))]
    [5, 10, 50, 100]
    """
    leading = span / Fraction(10) ** math.floor(math.log10(span))
    return tuple(span / parts for parts in ((100, 50, 10, 5) if leading == 5 else (100, 20, 10, 5)))
