"""Guessing the role and the taxonomy of a column from its name, type and values, and suitable privacy models.

Domains are round numbers around the data; their ends are not taken from the data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import ValidationError

from shoal.core.arrays import IntArray
from shoal.core.dictionaries import encode_columns
from shoal.core.errors import ShoalError
from shoal.core.registry import find
from shoal.core.wording import count_noun
from shoal.models.base import Whole
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.plan.problem import most_concentrated
from shoal.policy.column_types import (
    CODES,
    FEW_CODES,
    FEW_TEXTS,
    MOST_CATEGORIES,
    NEARLY_UNIQUE,
    ColumnType,
    find_bounds,
    find_order,
    guess_type,
    is_free_text,
)
from shoal.policy.identifying import Look
from shoal.policy.policy import Role
from shoal.policy.profiling import MOST_DISTINCT, ColumnProfile, fold, read_vocabulary, words
from shoal.sources.base import Source
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.parse import texts, whole_numbers

FEW_CONTACTS = 10  # a column of telephones or addresses has more values
FEW_RECORDS = 20  # per unit, on average: values with fewer records may be keys
MOST_QUASI = 12
REPEATS = (
    "do several records belong to one person, household or company? If so, a class of k records may be fewer than k of "
    "them; declare this column as {}, and they are counted."
)
WEIGHTS = "may users of the data have these weights? They are left out now."
UNKNOWN = "its name says nothing"
DAYS = (
    "which days can occur at all? The policy has no min and max, so the domain is taken from the data: whole decades "
    "around it, open at both ends. Declare both if you know them; differential privacy needs them."
)
TAKEN = (
    "which numbers can occur at all? The domain was taken from the data, as {} around it, open at both ends: "
    "correct it."
)
_CALENDAR = (-719_162, 2_932_896)  # days since 1970 of the years 1 to 9999
LARGE_TABLE = 10_000
DIVERSE = "the values within a class must differ; the table as a whole has a diversity of"
ROOM = 1.5  # the whole table must be more diverse by this factor: otherwise a method could publish almost nothing
RARE = "other"  # name of the group of rare values
MOST_STEPS = 10_000  # finest values of an interval taxonomy
FARTHEST = 2**53

# Topics that others could know about a person, the best known first; only the first few columns stay quasi.
QUASI = ("sex", "age", "birth", "postal", "place", "origin", "family", "work", "schooling", "home", "date", "body")
SENSITIVE = frozenset({"health", "event", "wealth", "belief", "marks"})
INSENSITIVE = frozenset({"amount", "technical"})
_COUNTING = frozenset({"num", "number", "n", "count", "nombre", "anzahl", "nb"})
_KEYS = re.compile("id|no|nr|nbr|number|num|key|ref|identifier|.*nummer|.*nr")

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Guess(Generic[T]):
    """A guessed role, taxonomy or model, the reason for it, and open questions."""

    choice: T
    reason: str = ""
    questions: tuple[str, ...] = ()


Options = Mapping[str, Any]


def guess_role(column: ColumnProfile, kind: ColumnType, look: Look | None = None) -> Guess[Role] | None:
    """Guess a column's role from its values, name and type; None if they suggest no role."""
    if column.kind == "empty":
        return Guess("identifier", "no record has a value", ("is this column needed at all? It is left out now.",))
    if column.mixed_formats:
        return _ask_formats(column)
    topics = read_vocabulary().find_topics(column.name)
    if kind == "weight":
        return Guess("identifier", f"a weight of records, by its name ({how_many(column)})", (WEIGHTS,))
    identity = _by_identity(column, kind, topics)
    if look is not None:
        reasons = (identity.reason if identity and identity.choice == look.role else "", look.evidence)
        return Guess(look.role, "; ".join(filter(None, reasons)), identity.questions if identity else ())
    if identity:
        return identity
    if column.kind == "date":
        return Guess("quasi", f"dates ({how_many(column)}): others often know them")
    if column.kind == "text" and ("remarks" in topics or (kind == "text" and is_free_text(column))):
        question = "may it be published at all? Free text often contains names; it is left out now."
        return Guess("identifier", f"free text ({how_many(column)})", (question,))
    if topics & SENSITIVE == {"health"} and words(column.name) & _COUNTING:
        return Guess("insensitive", f"a count, by its name ({how_many(column)})")
    elsewhere = "event" in topics and topics & frozenset(QUASI) and kind != "truth"  # the place of an accident
    secret = topics & SENSITIVE - ({"event"} if elsewhere else frozenset())
    if secret or (kind == "prefix" and not topics & frozenset(QUASI)):
        return Guess("sensitive", f"by its {'name' if secret else 'codes'} ({how_many(column)})")
    if column.n_distinct == 1:
        return Guess("insensitive", "every record has the same value")
    if topics & frozenset(QUASI) or kind in ("age", "postcode", "weekday", "month"):
        return Guess("quasi", f"by its name ({how_many(column)})")
    if topics & INSENSITIVE:
        return Guess("insensitive", f"by its name ({how_many(column)})")
    return None


def find_quasi_topic(name: str) -> int:
    """Return the rank of a column's topic among ``QUASI``, the number of these topics for other columns."""
    topics = read_vocabulary().find_topics(name)
    return next((place for place, topic in enumerate(QUASI) if topic in topics), len(QUASI))


def how_many(column: ColumnProfile) -> str:
    return count_noun(column.n_distinct, "value") if column.exact else f"more than {MOST_DISTINCT:,} values"


def _by_identity(column: ColumnProfile, kind: ColumnType, topics: frozenset[str]) -> Guess[Role] | None:
    if "person" in topics or ("contact" in topics and column.n_distinct > FEW_CONTACTS):
        return Guess("identifier", f"its name suggests that it identifies a person ({how_many(column)})")
    unit, about = read_vocabulary().find_unit(column.name), topics & (SENSITIVE | frozenset(QUASI))
    last = fold(re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", column.name.rstrip("_ "))[-1])
    ends = unit is not None or _KEYS.fullmatch(last) is not None
    told = ends or ("key" in topics and not about)
    key = kind == "key" and (told or not about | topics & INSENSITIVE)
    count = kind == "number" and not ends and words(column.name) & _COUNTING
    many = (column.distinct_share >= 0.1 or unit) and column.n_distinct > FEW_CONTACTS
    if not key and (not told or not many or count):
        return None
    own = "nearly every record has its own value" if column.distinct_share >= NEARLY_UNIQUE else "its values repeat"
    counted = column.n_unique == column.n_distinct or names_people(column)
    asked = () if counted else (REPEATS.format("household" if unit == "household" else "unit"),)
    return Guess("identifier", f"{'by its name, and ' if told else ''}{own} ({how_many(column)})", asked)


def _ask_formats(column: ColumnProfile) -> Guess[Role]:
    found = column.mixed_formats | {"no format": int(column.records.sum()) - sum(column.mixed_formats.values())}
    read = ", ".join(f"{form or 'ISO 8601'} ({n:,} records)" for form, n in found.items() if n)
    question = (
        f"which format do the dates of {column.name} have? Found: {read}. Write all of them in one format, then make "
        "the column quasi; it is left out now."
    )
    return Guess("identifier", f"dates in several formats ({how_many(column)})", (question,))


def names_people(column: ColumnProfile, look: Look | None = None, unit: str = "person") -> bool:
    """Whether an identifier is a complete key of people, some of whom have several records."""
    known = read_vocabulary().find_unit(column.name) == unit or (look is not None and look.person)
    return known and column.exact and column.n_distinct < column.n_rows and not column.n_missing


def _repeats_as_keys(column: ColumnProfile) -> bool:
    """Whether whole numbers look like keys of units with a few records each.

    All units must have similar numbers of records. The keys start at 0 or 1 without gaps, or are equally long, or are
    so far apart that quantities would rarely repeat: of N random numbers below R, about N^2 / 2R do.
    """
    n, n_records, span = column.n_distinct, int(column.records.sum()), column.highest - column.lowest + 1
    if column.kind != "whole" or not FEW_CODES < n <= n_records <= FEW_RECORDS * n:
        return False
    most = int(column.records.max()) * n / n_records  # as a multiple of the average
    sequence, long = column.lowest in (0, 1) and span == n, len(column.lengths) == 1 and column.lowest >= 1000
    step = int(np.gcd.reduce(np.diff(np.sort(whole_numbers(column.values)[0]))))  # above 1 for rounded amounts
    scattered = n_records - n > max(n_records / 10, 5 * n_records**2 * step / span)
    return (most <= 3 and sequence) or (most <= 5 and (long or scattered))


def guess_unknown_role(column: ColumnProfile, kind: ColumnType, *, careful: bool) -> Guess[Role]:
    """Guess the role of a column whose name suggests none; if *careful*, assume that others know the values."""
    if kind != "year" and _repeats_as_keys(column):
        reason = f"whole numbers that repeat like keys, {column.records.mean():.1f} records each ({how_many(column)})"
        return Guess("identifier", reason, (REPEATS.format("unit"),))
    if column.kind == "text" and column.distinct_share >= NEARLY_UNIQUE:
        question = "does it identify a person? If not, make it quasi, with a taxonomy."
        reason = f"text that differs in nearly every record ({how_many(column)})"
        return Guess("identifier", reason, (question,))
    alone = f", {column.n_unique:,} in only one record" if column.n_unique else ""
    what = f"{UNKNOWN} ({how_many(column)}{alone})"
    if careful or (column.kind == "text" and column.n_distinct > FEW_TEXTS):
        return Guess(
            "quasi", what, ("could others know this about a person? If not, make it sensitive or insensitive.",)
        )
    return Guess("insensitive", what)  # the draft asks one question about all these columns


def guess_quasi_taxonomy(
    column: ColumnProfile, kind: ColumnType | None = None, group_rare: int | None = None
) -> Guess[Options] | None:
    """Choose a taxonomy that covers every value of the column; None if no taxonomy does.

    Categories with fewer than *group_rare* records form one group, if that is given.
    """
    kind = kind or guess_type(column)
    rare = _group_rare(column, group_rare) if group_rare and kind == "category" else None
    for guess in (*([rare] if rare else []), *_candidates(column, kind)):
        if fits(column, guess.choice):
            return guess
    return None


def guess_taxonomy_of_kind(column: ColumnProfile, kind: str) -> Guess[Options] | None:
    """Choose parameters of one kind of taxonomy; None if the values do not fit that kind."""
    if kind == "intervals" and column.kind in ("whole", "decimal"):
        return _intervals(column, guess_type(column))
    if kind == "dates" and column.kind == "date":
        return _dates(column)
    return _mask(column, guess_type(column)) if kind == "mask" else None


def fits(column: ColumnProfile, taxonomy: Mapping[str, Any]) -> bool:
    """Whether the taxonomy is valid and covers every counted value."""
    ((name, parameters),) = taxonomy.items()
    try:
        builder = find("shoal.taxonomies.builders", TaxonomyBuilder, name, what="taxonomy").model_validate(parameters)
        return bool((builder.build(column.values).encode(column.values) >= 0).all())
    except (ShoalError, ValidationError):
        return False


def _candidates(column: ColumnProfile, kind: ColumnType) -> list[Guess[Options]]:
    found: list[Guess[Options] | None] = []
    if kind == "date":
        found.append(_dates(column))
    if kind in ("postcode", "prefix") or (column.digits_only and column.leading_zeros and kind in CODES):
        found.append(_mask(column, kind))
    if column.kind in ("whole", "decimal") and kind not in CODES:
        found.append(_intervals(column, kind))
    if column.exact and column.n_distinct <= MOST_CATEGORIES:
        found.append(_flat(column, kind))
    return [guess for guess in found if guess is not None]


def _flat(column: ColumnProfile, kind: ColumnType) -> Guess[Options]:
    scale = find_order(column.values.to_pylist()) if kind == "ordered" and column.kind == "text" else None
    if scale is not None:
        return Guess({"flat": {"values": list(scale)}}, "a scale, in its order")
    question = (
        f"which of its {how_many(column)} belong together? Without groups, a value is published unchanged or as *; "
        "group them by a taxonomy, from a file or a tree."
    )
    many = column.kind == "text" and column.n_distinct > FEW_TEXTS
    return Guess({"flat": {}}, questions=(question,) if many else ())


def _group_rare(column: ColumnProfile, fewest: int) -> Guess[Options] | None:
    """Put values with fewer than *fewest* records into one group; None unless several are rare and others are not."""
    if not column.exact or column.n_distinct > MOST_CATEGORIES:
        return None
    values = texts(column.values).to_pylist()
    rare = sorted(value for value, n in zip(values, column.records.tolist(), strict=True) if n < fewest)
    common = sorted(set(values) - set(rare))
    if len(rare) < 2 or not common:
        return None
    name = RARE if RARE not in values else f"{RARE} (rare)"
    question = (
        f"which of its values belong together? Those with fewer than {fewest} records are one group now, as requested. "
        "The group follows the data, and the policy and the manifest list its rare values; groups that were known "
        "beforehand reveal nothing."
    )
    return Guess({"groups": {**{value: {} for value in common}, name: rare}}, "grouped by frequency", (question,))


def _mask(column: ColumnProfile, kind: ColumnType) -> Guess[Options] | None:
    if column.kind not in ("whole", "text") or not 2 <= max(column.lengths, default=0) <= 12 or column.wordy:
        return None
    if len(column.lengths) > 1 and (kind == "prefix" or (kind == "postcode" and column.length is None)):
        return Guess({"mask": {}}, "codes of several lengths, grouped by how they begin")
    if column.length is None:
        return None
    return Guess({"mask": {"length": column.length}}, f"codes of {column.length} characters, masked from the end")


def _dates(column: ColumnProfile) -> Guess[Options] | None:
    if not _CALENDAR[0] <= column.lowest <= column.highest <= _CALENDAR[1]:
        return None
    parameters: dict[str, object] = {"levels": ["month", "quarter", "year", "decade"]}
    questions = [DAYS]
    form = column.date_formats[0]
    if "%H" in form or "%I" in form or (not form and max(column.lengths, default=0) > len("2024-01-01")):
        questions.append("may the time of day be dropped? The taxonomy has days and longer spans only.")
    if form:
        parameters["format"] = form
        if len(column.date_formats) > 1:
            questions.append("is the format right? Others fit every value as well.")
    return Guess({"dates": parameters}, questions=tuple(questions))


def _intervals(column: ColumnProfile, kind: ColumnType) -> Guess[Options] | None:
    if not max(abs(column.lowest), abs(column.highest)) < FARTHEST / 4:
        return None
    if (bounded := find_bounds(column, kind)) and bounded[2]:
        return Guess({"intervals": bounded[2]}, f"{bounded[0]}s")
    if kind == "year":
        first, last = (int(year) // 50 * 50 for year in (column.lowest, column.highest))
        years = {"min": first, "max": last + 49, "widths": [5, 10, 50], "open": "both"}
        return Guess({"intervals": years}, "years", (TAKEN.format("half centuries"),))
    low, high = round_domain(column.lowest, column.highest, whole=column.kind == "whole")
    span = high - low
    if column.kind == "whole":
        step = max(Fraction(1), Fraction(10) ** math.ceil(math.log10(span / MOST_STEPS)))
        chosen = [int(width) for width in find_widths(span) if width.denominator == 1 and width > step]
        parameters: dict[str, object] = {"min": int(low), "max": int(high) - 1, "widths": chosen}
        if step > 1:
            parameters["step"] = int(step)
    else:
        decimals = [float(width) for width in find_widths(span)]
        parameters = {"min": float(low), "max": float(high), "widths": decimals}
    parameters["open"] = "both"
    return Guess({"intervals": parameters}, questions=(TAKEN.format("round numbers"),))


def round_domain(lowest: float, highest: float, *, whole: bool) -> tuple[Fraction, Fraction]:
    """Return round ends: multiples of the smallest 1, 2 or 5 times 10^n that is not below the span of the data.

    For whole numbers the upper end is excluded.

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


def find_widths(span: Fraction) -> tuple[Fraction, ...]:
    """Return widths that are multiples of each other, for a span of 1, 2, 4 or 5 times 10^n.

    >>> [int(width) for width in find_widths(Fraction(500))]
    [5, 10, 50, 100]
    """
    leading = span / Fraction(10) ** math.floor(math.log10(span))
    return tuple(span / parts for parts in ((100, 50, 10, 5) if leading == 5 else (100, 20, 10, 5)))


def ask_k_anonymity(n_rows: int) -> Guess[Options | None]:
    """Propose k = 5, or k = 10 for large tables; tiny tables get a smaller k, but never 1."""
    k = 10 if n_rows > LARGE_TABLE else max(2, min(5, n_rows))
    question = f"is a table of {count_noun(n_rows, 'record')} worth publishing? People cannot hide among more."
    reason = f"every record shares its quasi values with {count_noun(k - 1, 'other')}"
    return Guess({"k-anonymity": {"k": k}}, reason, (question,) if k < 5 else ())


def count_records(column: ColumnProfile) -> IntArray:
    """Return (n_values,) the records of each value, with missing as a value."""
    return np.append(column.records, column.n_missing) if column.n_missing else column.records


def choose_diversity(
    source: Source, units: Sequence[str], secret: Sequence[ColumnProfile]
) -> tuple[list[Guess[Options | None]], bool]:
    """Propose the diversity that each sensitive column can have, and whether to publish one record per person for it.

    Diversity is counted among people and among households; each counts once, with the one of its values that makes the
    table least diverse. If that leaves no diversity, a sample of one record per person may have it.
    """
    by_records = [ask_diversity(profile.name, count_records(profile)) for profile in secret]
    if not units or not secret:
        return by_records, False
    names = [*units, *(profile.name for profile in secret)]
    _, columns = encode_columns(source.batches(names, dictionary=names))
    by_people = []
    for profile, values in zip(secret, columns[len(units) :], strict=True):
        every = []
        for unit in columns[: len(units)]:
            pairs = np.unique(values.astype(np.int64) << 32 | unit) >> 32
            counts = most_concentrated(np.bincount(pairs)[np.newaxis], np.array([len(np.unique(unit))]))[0]
            every.append(counts[counts > 0])
        by_people.append(ask_diversity(profile.name, min(every, key=_measure_diversity)))
    one_each = any(mine.choice is None is not all_.choice for mine, all_ in zip(by_people, by_records, strict=True))
    return (by_records if one_each else by_people), one_each


def _measure_diversity(counts: IntArray) -> float:
    whole = Whole(int(counts.sum()), counts)
    return EntropyLDiversity(l=1).worst(whole.as_class(), whole)


def ask_diversity(name: str, counts: IntArray) -> Guess[Options | None]:
    """Propose the strongest diversity of classes that a whole table with these *counts* allows."""
    reached = _measure_diversity(counts)
    for l in (3, 2):
        if reached >= ROOM * l:
            asked = {EntropyLDiversity.name: {"l": l, "attribute": name}}
            return Guess(asked, f"{DIVERSE} {reached:.2f} (exp of the entropy), the maximum")
    if len(counts) > 1:
        asked = {DistinctLDiversity.name: {"l": 2, "attribute": name}}
        return Guess(asked, f"{DIVERSE} only {reached:.2f}, so only two values are required")
    return Guess(
        None,
        "every record has the same value: nothing about it can be hidden",
        ("this sensitive column has only one value, which applies to everyone. Should it be published?",),
    )
