"""Guessing the type of a column from its name and its values."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

from shoal.policy.profiling import ColumnProfile, fold, read_vocabulary, words
from shoal.taxonomies.parse import texts

NEARLY_UNIQUE = 0.9  # distinct values over records
LONG_TEXT = 40  # characters, on average
FEW_CODES = 30  # distinct whole numbers up to which they may be codes
FEW_TEXTS = 12  # distinct texts up to which groups are not necessary
MOST_CATEGORIES = 20_000
OLDEST = 119  # all widths below divide the 120 ages from 0 to 119
YEARS = (1880, 2040)
_BOUND = re.compile(r"(?:0|[1-9]\d*)(?:[.,]\d{3})*(?:[.,]\d+)?")  # of a class; 007 is three numbers
_CODE = re.compile(r"[A-Z]{0,2}\d{1,6}([.-]?\d{1,4}){0,3}[A-Z]?")
_PREFIXED = re.compile(r"[A-Z]\d{2}([.]?\d{1,4})?|\d{3}([.]\d{1,2})?|[EV]\d{2,3}([.]\d{1,2})?")
_CODED = ("code", "sex", "origin", "place", "family", "home", "work", "belief")  # topics whose numbers are codes
_OF_BODIES = frozenset({"kg", "lb", "g", "birth", "body"})
_BODIES = (2, 250)  # kilograms

ColumnType = Literal[
    "key", "text", "date", "year", "month", "weekday", "age", "postcode", "prefix", "truth", "ordered", "category",
    "weight", "number",
]  # fmt: skip
TYPES: tuple[ColumnType, ...] = get_args(ColumnType)
CODES = frozenset({"truth", "ordered", "category", "weekday"})  # types of values without distances

# Types and intervals of whole numbers by topic and range.
_BOUNDED: tuple[tuple[str, tuple[int, int], ColumnType, dict[str, object]], ...] = (
    ("age", (0, OLDEST), "age", {"min": 0, "max": OLDEST, "widths": [5, 10, 20, 40], "open": "high"}),
    ("month", (0, 12), "month", {"min": 1, "max": 12, "widths": [3, 6]}),
    ("weekday", (0, 7), "weekday", {}),
    ("day", (1, 31), "number", {"min": 1, "max": 31, "edges": [[6, 11, 16, 21, 26], [11, 21]]}),
    ("hour", (0, 23), "number", {"min": 0, "max": 23, "widths": [3, 6, 12]}),
)


def guess_type(column: ColumnProfile) -> ColumnType:
    """Guess the type of a column from its name and its values.

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
    if is_free_text(column):
        return "text"
    if column.distinct_share >= NEARLY_UNIQUE:
        return type_of_names(column)
    return "category"


class NumberRule(NamedTuple):
    """The type of a column of numbers for which this rule applies and no earlier one does."""

    name: str
    type: ColumnType
    applies: Callable[[ColumnProfile, frozenset[str]], bool]  # given the column and the topics of its name


LONG_NUMBER = 1e6  # equally long numbers from here on are codes if they repeat
REPEATED = 0.5  # distinct values over records, below which numbers repeat
LAST_ANSWER = 11  # the largest number of a scale
LAST_CODE = 7  # numbers from 1 to at most this are codes
FIRST_CODE = 100  # a few numbers from here on are codes

NUMBER_RULES = (
    NumberRule("decimals", "number", lambda column, _: column.kind != "whole"),
    NumberRule("leading zeros", "category", lambda column, _: column.leading_zeros),
    NumberRule("nomenclature", "prefix", lambda column, topics: "nomenclature" in topics and _has_stems(column)),
    NumberRule("many codes", "category", lambda column, topics: column.n_distinct > FEW_CODES and "code" in topics),
    NumberRule(
        "many long codes",
        "category",
        lambda column, _: (
            column.n_distinct > FEW_CODES
            and len(column.lengths) == 1
            and column.highest >= LONG_NUMBER
            and column.distinct_share < REPEATED
        ),
    ),
    NumberRule("many numbers", "number", lambda column, _: column.n_distinct > FEW_CODES),
    NumberRule(
        "0 and 1", "truth", lambda column, _: column.n_distinct == 2 and (column.lowest, column.highest) == (0, 1)
    ),
    NumberRule(
        "answers on a scale",
        "ordered",
        lambda column, topics: "scale" in topics and column.n_distinct > 2 and column.highest <= LAST_ANSWER,
    ),
    NumberRule("quantities", "number", lambda _, topics: "quantity" in topics and "code" not in topics),
    NumberRule("two codes", "category", lambda column, _: column.n_distinct == 2),
    NumberRule("codes from 1", "category", lambda column, _: column.lowest == 1 and column.highest <= LAST_CODE),
    NumberRule(
        "few codes with gaps",
        "category",
        lambda column, _: (
            column.n_distinct <= FEW_TEXTS
            and (column.highest - column.lowest + 1 > column.n_distinct or column.lowest >= FIRST_CODE)
        ),
    ),
    NumberRule("topics of codes", "category", lambda _, topics: not topics.isdisjoint(_CODED)),
    NumberRule("other numbers", "number", lambda *_: True),
)


def _type_of_numbers(column: ColumnProfile) -> ColumnType:
    topics = read_vocabulary().find_topics(column.name)
    if "weight" in topics and not _weighs_people(column, topics):
        return "weight"
    if bounds := find_bounds(column):
        return bounds[1]
    years = column.kind == "whole" and YEARS[0] <= column.lowest <= column.highest <= YEARS[1]
    if years and column.n_distinct > 1 and not topics & {"amount", "wealth"}:
        return "year"
    return next(rule.type for rule in NUMBER_RULES if rule.applies(column, topics))


def _weighs_people(column: ColumnProfile, topics: frozenset[str]) -> bool:
    """Whether weights are kilograms, by the unit in the name, or by their range unless they are a survey's weights."""
    like = "body" in topics and _BODIES[0] <= column.lowest <= column.highest <= _BODIES[1]
    return bool(words(column.name) & _OF_BODIES) or (like and "calibration" not in topics)


def find_bounds(column: ColumnProfile, kind: str = "") -> tuple[str, ColumnType, dict[str, object]] | None:
    """Return topic, type and intervals of ages and parts of dates, by the column's name or *kind* and its range."""
    topics = read_vocabulary().find_topics(column.name) | {kind}
    for topic, (first, last), found, intervals in _BOUNDED:
        part = topic in topics and not (found == "number" and "quantity" in topics)  # a day, but not items per day
        if part and column.kind == "whole" and first <= column.lowest <= column.highest <= last:
            return topic, found, dict(intervals)
    return None


def _has_stems(column: ColumnProfile) -> bool:
    """Whether the values are codes of a hierarchy, in which longer codes begin with shorter ones.

    At least half of the longer codes must begin with another code of the column, or share the part before a point with
    another code.
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
    # Numbers after a single letter are record numbers, and numbers alone are quantities.
    several = len({code[0] for code in codes if code[0].isalpha()}) > 1
    known = "nomenclature" in read_vocabulary().find_topics(column.name)
    return (several or known or bool(stems)) and below >= len(longer) / 2


def type_of_names(column: ColumnProfile) -> ColumnType:
    """Distinguish keys, which have digits and no blanks, from names and other texts."""
    some = texts(column.values[:100]).to_pylist()
    digits = sum(any(map(str.isdigit, text)) for text in some)
    return "key" if digits > len(some) / 2 and not column.wordy else "text"


def find_order(values: Collection[str]) -> tuple[str, ...] | None:
    """Return three or more values in the order of a known scale, or by the bounds of classes; None without an order.

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
    """Return the bounds of a class, which is written with one or two numbers or with a word such as none."""
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
    """Whether the name suggests a key, or all whole numbers differ and have one length or no gaps."""
    if "key" in read_vocabulary().find_topics(column.name):
        return True
    if column.kind != "whole" or column.distinct_share < 1.0:
        return False
    return len(column.lengths) == 1 or column.highest - column.lowest < column.n_rows


def is_free_text(column: ColumnProfile) -> bool:
    return column.wordy and column.n_distinct > 1 and column.n_characters > LONG_TEXT * column.n_values
