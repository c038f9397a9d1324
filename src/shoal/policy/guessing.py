"""Which type, role and taxonomy a column probably has, by its name and by what it holds.

Domains are round numbers around the data, never the data's own ends.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np
from pydantic import ValidationError

from shoal.core.errors import ShoalError
from shoal.core.registry import find
from shoal.core.wording import count_noun
from shoal.policy.identifying import Look
from shoal.policy.policy import Role
from shoal.policy.profiling import MOST_DISTINCT, ColumnProfile, fold, read_vocabulary, words
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.parse import texts, whole_numbers

NEARLY_UNIQUE = 0.9  # distinct values over records
LONG_TEXT = 40  # characters, on average
FEW_CODES = 30  # distinct whole numbers up to which they may be codes
FEW_TEXTS = 12  # distinct texts up to which nobody needs groups
FEW_CONTACTS = 10  # a column of telephones or addresses has more values
FEW_RECORDS = 20  # of one unit, on average: values with fewer records may be keys
MOST_QUASI = 12
REPEATS = (
    "do several records belong to one person, household or company? If so, a class of k records may be fewer than k of "
    "them: declare this column as {}, and they are counted."
)
WEIGHTS = "may users of the data have these weights? They are left out now."
UNKNOWN = "its name says nothing"
DAYS = (
    "which days can occur at all? There is no min and max, so the domain is taken from the data: whole decades "
    "around it, open at both ends. Declare both if you know them; differential privacy needs them."
)
TAKEN = (
    "which numbers can occur at all? The domain was taken from the data, as {} around it, open at both ends: "
    "correct it."
)
_CALENDAR = (-719_162, 2_932_896)  # days since 1970 of the years 1 to 9999
RARE = "other"  # the group of rare values
MOST_STEPS = 10_000  # finest values of an interval taxonomy
MOST_CATEGORIES = 20_000
FARTHEST = 2**53
OLDEST = 119  # whole numbers from 0 to 119 are cut evenly by every width below
YEARS = (1880, 2040)
_BOUND = re.compile(r"(?:0|[1-9]\d*)(?:[.,]\d{3})*(?:[.,]\d+)?")  # of a class; 007 is three numbers
_CODE = re.compile(r"[A-Z]{0,2}\d{1,6}([.-]?\d{1,4}){0,3}[A-Z]?")
_PREFIXED = re.compile(r"[A-Z]\d{2}([.]?\d{1,4})?|\d{3}([.]\d{1,2})?|[EV]\d{2,3}([.]\d{1,2})?")

# What others could know of a person comes first where there are more quasi-identifiers than anybody can keep.
QUASI = ("sex", "age", "birth", "postal", "place", "origin", "family", "work", "schooling", "home", "date", "body")
SENSITIVE = frozenset({"health", "event", "wealth", "belief", "marks"})
INSENSITIVE = frozenset({"amount", "technical"})
_COUNTING = frozenset({"num", "number", "n", "count", "nombre", "anzahl", "nb"})
_KEYS = re.compile("id|no|nr|nbr|number|num|key|ref|identifier|.*nummer|.*nr")
_CODED = ("code", "sex", "origin", "place", "family", "home", "work", "belief")  # topics whose few numbers are codes
_OF_BODIES = frozenset({"kg", "lb", "g", "birth", "body"})
_BODIES = (2, 250)  # kilograms

ColumnType = Literal[
    "key", "text", "date", "year", "month", "weekday", "age", "postcode", "prefix", "truth", "ordered", "category",
    "weight", "number",
]  # fmt: skip
TYPES: tuple[ColumnType, ...] = get_args(ColumnType)
CODES = frozenset({"truth", "ordered", "category", "weekday"})  # values that have no distance

# Whole numbers by their topic and their range: the type, and the intervals.
_BOUNDED: tuple[tuple[str, tuple[int, int], ColumnType, dict[str, object]], ...] = (
    ("age", (0, OLDEST), "age", {"min": 0, "max": OLDEST, "widths": [5, 10, 20, 40], "open": "high"}),
    ("month", (0, 12), "month", {"min": 1, "max": 12, "widths": [3, 6]}),
    ("weekday", (0, 7), "weekday", {}),
    ("day", (1, 31), "number", {"min": 1, "max": 31, "edges": [[6, 11, 16, 21, 26], [11, 21]]}),
    ("hour", (0, 23), "number", {"min": 0, "max": 23, "widths": [3, 6, 12]}),
)

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Guess(Generic[T]):
    """A role, a taxonomy or a model as a policy writes it, why, and what a person has to decide."""

    choice: T
    reason: str = ""
    questions: tuple[str, ...] = ()


Options = Mapping[str, Any]


def guess_type(column: ColumnProfile) -> ColumnType:
    """Say what the values of a column are, by its name and by what it holds.

    >>> import pyarrow as pa
    >>> sexes = ColumnProfile("sex", pa.int64())
    >>> sexes.see(pa.array([1, 2, 2, 1]))
    >>> guess_type(sexes)
    'category'
    """
    if column.kind == "truth":
        return "truth"
    if column.kind == "date" or column.mixed_formats:
        return "date"
    if column.kind == "empty":
        return "text"
    if "postal" in read_vocabulary().find_topics(column.name):
        return "postcode"
    if column.distinct_share >= NEARLY_UNIQUE and column.n_distinct > FEW_CODES and _names_records(column):
        return "key"
    return _type_of_texts(column) if column.kind == "text" else _type_of_numbers(column)


def _type_of_texts(column: ColumnProfile) -> ColumnType:
    known = read_vocabulary()
    few = texts(column.values).to_pylist() if column.exact and column.n_distinct <= MOST_CATEGORIES else []
    plain = frozenset(map(fold, few if len(few) <= FEW_CODES else ()))
    if len(plain) == 2 and plain <= known.texts["truth"]:
        return "truth"
    if len(plain) > 2 and plain <= known.texts["months"]:
        return "month"
    if len(plain) > 2 and plain <= known.texts["weekdays"]:
        return "weekday"
    if plain and find_order(few):
        return "ordered"
    coded = bool(few) and all(map(_PREFIXED.fullmatch, few)) and len(few) > 4
    if coded and (any("." in text for text in few) or "health" in known.find_topics(column.name)):
        return "prefix"
    if _has_stems(column):
        return "prefix"
    if _is_free_text(column):
        return "text"
    if column.distinct_share >= NEARLY_UNIQUE:
        return type_of_names(column)
    return "category"


def _type_of_numbers(column: ColumnProfile) -> ColumnType:
    topics = read_vocabulary().find_topics(column.name)
    low, high, n = column.lowest, column.highest, column.n_distinct
    whole = column.kind == "whole"
    if "weight" in topics and not _weighs_people(column, topics):
        return "weight"
    if bounded := _find_bounds(column):
        return bounded[1]
    if whole and YEARS[0] <= low <= high <= YEARS[1] and n > 1 and not topics & {"amount", "wealth"}:
        return "year"
    if not whole or column.leading_zeros:
        return "category" if column.leading_zeros and whole else "number"
    if "nomenclature" in topics and _has_stems(column):
        return "prefix"
    if n > FEW_CODES:
        long = len(column.lengths) == 1 and high >= 1e6 and column.distinct_share < 0.5
        return "category" if "code" in topics or long else "number"
    if n == 2 and (low, high) == (0, 1):
        return "truth"
    if "scale" in topics and n > 2 and high <= 11:
        return "ordered"
    if "quantity" in topics and "code" not in topics:
        return "number"
    gaps = high - low + 1 > n
    few = n == 2 or (low == 1 and high <= 7) or (n <= FEW_TEXTS and (gaps or low >= 100))
    return "category" if few or not topics.isdisjoint(_CODED) else "number"


def _weighs_people(column: ColumnProfile, topics: frozenset[str]) -> bool:
    """Whether weights are kilograms, by the name's unit, or by their range if no word is about a survey's weights."""
    like = "body" in topics and _BODIES[0] <= column.lowest <= column.highest <= _BODIES[1]
    return bool(words(column.name) & _OF_BODIES) or (like and "calibration" not in topics)


def _find_bounds(column: ColumnProfile, kind: str = "") -> tuple[str, ColumnType, dict[str, object]] | None:
    """Return topic, type and intervals of numbers that are ages or parts of a date, by name or *kind*, and range."""
    topics = read_vocabulary().find_topics(column.name) | {kind}
    for topic, (first, last), found, intervals in _BOUNDED:
        part = topic in topics and not (found == "number" and "quantity" in topics)  # day, but not items per day
        if part and column.kind == "whole" and first <= column.lowest <= column.highest <= last:
            return topic, found, dict(intervals)
    return None


def _has_stems(column: ColumnProfile) -> bool:
    """Whether values are codes of several lengths of which longer ones begin with shorter ones, or share a stem.

    Half of the longer codes begin with another value of the column, or have a point behind what another has in front
    of its own.
    """
    if not column.exact or not FEW_TEXTS < column.n_distinct <= MOST_CATEGORIES or len(column.lengths) < 2:
        return False
    codes = set(texts(column.values).to_pylist())
    if column.distinct_share >= NEARLY_UNIQUE or not all(map(_CODE.fullmatch, codes)):
        return False
    shortest = min(map(len, codes))
    longer = [code for code in codes if len(code) > shortest]
    stems = Counter(code.partition(".")[0] for code in codes if "." in code)
    below = sum(
        stems[code.partition(".")[0]] > 1 or any(code[:end] in codes for end in range(shortest, len(code)))
        for code in longer
    )
    # Numbers behind one letter are those of records, and bare ones quantities.
    several = len({code[0] for code in codes if code[0].isalpha()}) > 1
    known = "nomenclature" in read_vocabulary().find_topics(column.name)
    return (several or known or bool(stems)) and below >= len(longer) / 2


def type_of_names(column: ColumnProfile) -> ColumnType:
    """Tell keys, which have digits and no blanks, from names and other texts about a person."""
    some = texts(column.values[:100]).to_pylist()
    digits = sum(any(map(str.isdigit, text)) for text in some)
    return "key" if digits > len(some) / 2 and not column.wordy else "text"


def find_order(values: Collection[str]) -> tuple[str, ...] | None:
    """Return three or more values in the order of a known scale, or of the bounds of classes; None without an order.

    >>> find_order(["5000 o más", "de 2000 a 4999", "menos de 2000"])
    ('menos de 2000', 'de 2000 a 4999', '5000 o más')
    """
    plain = {fold(value): value for value in values}
    if not 2 < len(plain) == len(values):
        return None
    for scale in read_vocabulary().scales:
        if plain.keys() <= set(scale):
            return tuple(plain[step] for step in scale if step in plain)
    found = sorted((bounds, value) for text, value in plain.items() if (bounds := _find_class(text)))
    apart = all(one[1] <= other[0] for (one, _), (other, _) in pairwise(found))
    return tuple(value for _, value in found) if len(found) == len(plain) and apart else None


def _find_class(text: str) -> tuple[float, float] | None:
    """Return the bounds of a class that is written with one or two numbers, or with a word for none."""
    text = text.replace(",", " - ") if text.startswith(("[", "(")) else text  # [0,10)
    known, numbers = read_vocabulary().texts, _BOUND.findall(text)
    around = frozenset(re.findall(r"[^\W\d_]+|[<>]=?|[^\w\s]", _BOUND.sub(" ", text)))
    if not around <= known["below"] | known["above"] | known["between"]:
        return (-math.inf, -math.inf) if text in known["nothing"] else None
    ends = [float(re.sub(r"[.,](?=\d{3}\b)", "", number).replace(",", ".")) for number in numbers]
    if len(ends) == 1 and around:
        below, above = around & known["below"], around & known["above"]
        return (-math.inf if below else ends[0], ends[0] if below else math.inf) if below or above else None
    return (ends[0], ends[-1]) if len(ends) in (1, 2) and ends[0] <= ends[-1] else None


def _names_records(column: ColumnProfile) -> bool:
    """Whether the name is that of a key, or whole numbers look like one: of one length, or without gaps."""
    if "key" in read_vocabulary().find_topics(column.name):
        return True
    if column.kind != "whole" or column.distinct_share < 1.0:
        return False
    return len(column.lengths) == 1 or column.highest - column.lowest < column.n_rows


def _is_free_text(column: ColumnProfile) -> bool:
    return column.wordy and column.n_distinct > 1 and column.n_characters > LONG_TEXT * column.n_values


def guess_role(column: ColumnProfile, kind: ColumnType, look: Look | None = None) -> Guess[Role] | None:
    """Guess one column's role by what its values look like, its name and its type; None if nothing says what it is."""
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
    if column.kind == "text" and ("remarks" in topics or (kind == "text" and _is_free_text(column))):
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
    """Return the place of a column's topic among those of quasi columns; their number if it has none."""
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
    """Whether an identifier is a key of people of whom some have several records, and every record has one."""
    known = read_vocabulary().find_unit(column.name) == unit or (look is not None and look.person)
    return known and column.exact and column.n_distinct < column.n_rows and not column.n_missing


def _repeats_as_keys(column: ColumnProfile) -> bool:
    """Whether whole numbers look like keys of units with a few records each.

    They have about the same number of records, and are counted from 0 or 1, are all equally long, or are so far apart
    that quantities would rarely repeat: of N numbers below R, about N^2 / 2R do.
    """
    n, n_records, span = column.n_distinct, int(column.records.sum()), column.highest - column.lowest + 1
    if column.kind != "whole" or not FEW_CODES < n <= n_records <= FEW_RECORDS * n:
        return False
    most = int(column.records.max()) * n / n_records  # times the average
    sequence, long = column.lowest in (0, 1) and span == n, len(column.lengths) == 1 and column.lowest >= 1000
    step = int(np.gcd.reduce(np.diff(np.sort(whole_numbers(column.values)[0]))))  # amounts may all be rounded
    scattered = n_records - n > max(n_records / 10, 5 * n_records**2 * step / span)
    return (most <= 3 and sequence) or (most <= 5 and (long or scattered))


def guess_unknown_role(column: ColumnProfile, kind: ColumnType, *, careful: bool) -> Guess[Role]:
    """Guess the role of a column of which the name says nothing; if *careful*, others are thought to know it."""
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
    return Guess("insensitive", what)  # one question is asked about all such columns


def guess_quasi_taxonomy(
    column: ColumnProfile, kind: ColumnType | None = None, group_rare: int | None = None
) -> Guess[Options] | None:
    """Choose a taxonomy under which every value of the column fits; None if there is no such one.

    Categories with fewer records than *group_rare* are put into one group, if that is given.
    """
    kind = kind or guess_type(column)
    rare = _group_rare(column, group_rare) if group_rare and kind == "category" else None
    for guess in (*([rare] if rare else []), *_candidates(column, kind)):
        if fits(column, guess.choice):
            return guess
    return None


def guess_taxonomy_of_kind(column: ColumnProfile, kind: str) -> Guess[Options] | None:
    """Make a taxonomy of one kind, whatever the column's name suggests; None if its values have no such one."""
    if kind == "intervals" and column.kind in ("whole", "decimal"):
        return _intervals(column, guess_type(column))
    if kind == "dates" and column.kind == "date":
        return _dates(column)
    return _mask(column, guess_type(column)) if kind == "mask" else None


def fits(column: ColumnProfile, taxonomy: Mapping[str, Any]) -> bool:
    """Whether the taxonomy is valid and has a place for every value that was counted."""
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
    """Put the values of fewer records than that into one group; None if there are no two of them, or no others."""
    if not column.exact or column.n_distinct > MOST_CATEGORIES:
        return None
    values = texts(column.values).to_pylist()
    rare = sorted(value for value, n in zip(values, column.records.tolist(), strict=True) if n < fewest)
    common = sorted(set(values) - set(rare))
    if len(rare) < 2 or not common:
        return None
    name = RARE if RARE not in values else f"{RARE} (rare)"
    question = (
        f"which of its values belong together? Those of fewer than {fewest} records are one group now, because it was "
        "asked for. It follows the data and names rare values here and in the manifest; groups that were known "
        "beforehand tell nothing."
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
    if (bounded := _find_bounds(column, kind)) and bounded[2]:
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


def find_widths(span: Fraction) -> tuple[Fraction, ...]:
    """Return widths of which each is a multiple of the one before, for a span of 1, 2, 4 or 5 times 10^n.

    >>> [int(width) for width in find_widths(Fraction(500))]
    [5, 10, 50, 100]
    """
    leading = span / Fraction(10) ** math.floor(math.log10(span))
    return tuple(span / parts for parts in ((100, 50, 10, 5) if leading == 5 else (100, 20, 10, 5)))
