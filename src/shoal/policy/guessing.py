"""Which role and which taxonomy a column probably has, by its name and by what it holds.

Domains are round numbers around the data, never the data's own ends.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from shoal.core.errors import ShoalError
from shoal.core.registry import find
from shoal.policy.policy import Role
from shoal.policy.profiling import MOST_DISTINCT, ColumnProfile
from shoal.taxonomies.builders import TaxonomyBuilder

NEARLY_UNIQUE = 0.9  # distinct values over records
MANY_NUMBERS = 1000  # distinct numbers from which on a measurement is taken for continuous
LONG_TEXT = 40  # characters, on average
FEW_NUMBERS = 6  # distinct whole numbers up to which they are taken for codes
FEW_TEXTS = 12  # distinct texts up to which nobody needs groups
MOST_STEPS = 10_000  # finest values of an interval taxonomy
MOST_CATEGORIES = 20_000
FARTHEST = 2**53
OLDEST = 119  # whole numbers from 0 to 119 are cut evenly by every width below
_EPOCH = date(1970, 1, 1)

T = TypeVar("T", covariant=True)


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words of a column's name. Those of the first list name a person by themselves.
NAMES_A_PERSON = _split(
    "email mail phone telephone telefon mobile fax ssn passport iban surname lastname firstname forename fullname "
    "username login mrn street nhs uuid guid"
)
PEOPLE = _split("patient person customer client")
MAY_NAME_A_PERSON = PEOPLE | _split("name id identifier number no nr key address index row")
SENSITIVE = _split(
    "disease diagnosis diagnoses icd illness condition symptom symptoms treatment therapy drug drugs medication "
    "prescription procedure hiv health mental disability disabled salary income wage wages earnings wealth debt credit "
    "loan balance religion religious belief political politics party vote union sexual orientation crime criminal "
    "conviction offence offense genetic genome pregnant pregnancy abortion alcohol smoking smoker drinking result "
    "grade score"
)
QUASI = _split(
    "age sex gender zip zipcode postcode postal plz pincode city town village county state region province district "
    "country nationality citizenship native birth born dob birthday birthdate date day month year admitted admission "
    "discharge discharged visit education degree school marital civil married relationship family children household "
    "parents housing race ethnic ethnicity language occupation job profession employer employment industry work "
    "workclass insurance height weight residence hours location place"
)
POSTAL = _split("zip zipcode postcode postal plz pincode post")
AGE = frozenset({"age"})


@dataclass(frozen=True, slots=True)
class Guess(Generic[T]):
    """A role, a taxonomy or a model as a policy writes it, why, and what a person has to decide."""

    choice: T
    reason: str = ""
    questions: tuple[str, ...] = ()


Options = Mapping[str, Any]


def words(name: str) -> frozenset[str]:
    """Return the words of a column's name, and the name as one word.

    >>> sorted(words("Date_of-birthDay"))
    ['birth', 'birthday', 'date', 'dateofbirthday', 'day', 'of']
    """
    parts = [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+", name)]
    pieces = [piece.lower() for piece in re.split(r"[\W\d_]+", name) if piece]
    return frozenset([*parts, *pieces, "".join(pieces)])


def guess_role(column: ColumnProfile) -> Guess[Role]:
    """Guess one column's role; in doubt the more careful one, with a question."""
    if column.kind == "empty":
        return Guess("identifier", "no record has a value", ("is this column needed at all? It is left out now.",))
    return _by_identity(column) or _by_name(column) or _by_content(column)


def how_many(column: ColumnProfile) -> str:
    """Say how many values a column has."""
    count = f"{column.n_distinct:,}" if column.exact else f"more than {MOST_DISTINCT:,}"
    return f"{count} {'value' if column.exact and column.n_distinct == 1 else 'values'}"


def _by_identity(column: ColumnProfile) -> Guess[Role] | None:
    named = words(column.name)
    if named & NAMES_A_PERSON:
        return Guess("identifier", f"its name says that it names a person ({how_many(column)})")
    if named & MAY_NAME_A_PERSON and not named & (QUASI | SENSITIVE):
        if column.distinct_share >= NEARLY_UNIQUE:
            return Guess("identifier", f"by its name, and nearly every record has its own ({how_many(column)})")
        if column.distinct_share >= (0.02 if named & PEOPLE else 0.1) and column.kind in ("whole", "text"):
            question = (
                "do several records belong to one person? Then a class of k records may be fewer than k people: "
                "name this column as unit, and people are counted."
            )
            return Guess("identifier", f"by its name, with {how_many(column)}", (question,))
    return None


def _by_name(column: ColumnProfile) -> Guess[Role] | None:
    named = words(column.name)
    if column.kind == "date" and not named & SENSITIVE:
        return Guess("quasi", f"dates ({how_many(column)}): others often know them")
    if named & SENSITIVE:
        return Guess("sensitive", f"by its name ({how_many(column)})")
    if (
        column.kind == "text"
        and column.wordy
        and column.n_distinct > 1
        and column.n_characters > LONG_TEXT * column.n_values
    ):
        question = "may it be published at all? Free text often holds names; it is left out now."
        return Guess("identifier", f"free text ({how_many(column)})", (question,))
    if named & QUASI:
        return Guess("quasi", f"by its name ({how_many(column)})")
    return None


def _by_content(column: ColumnProfile) -> Guess[Role]:
    known = "could others know this of a person? If not, make it sensitive or insensitive."
    if column.kind == "text":
        if column.distinct_share >= NEARLY_UNIQUE:
            question = "does it name a person? If not, make it quasi, with a taxonomy."
            reason = f"text of which nearly every record has its own ({how_many(column)})"
            return Guess("identifier", reason, (question,))
        return Guess("quasi", f"text with {how_many(column)}", (known,))
    if column.kind in ("whole", "decimal") and not (column.exact and column.n_distinct <= MANY_NUMBERS):
        if column.kind == "whole" and column.distinct_share == 1.0:
            question = "is it a number of a person or record? If not, make it quasi, with intervals."
            reason = f"whole numbers, a different one for every record ({how_many(column)})"
            return Guess("identifier", reason, (question,))
        question = (
            f"could others know it, even roughly? {column.n_unique:,} of its values belong to one record only, and it "
            "is published as it is; if so, make it quasi, with intervals, or an identifier, or round it (technique)."
        )
        return Guess("insensitive", f"numbers with {how_many(column)}, perhaps a measurement", (question,))
    if column.kind == "decimal" and column.distinct_share >= NEARLY_UNIQUE:
        question = "could others know it, even roughly? It is published as it is; if so, make it quasi, with intervals."
        return Guess("insensitive", f"decimal numbers with {how_many(column)}, perhaps a measurement", (question,))
    return Guess("quasi", f"{_NOUNS[column.kind]} with {how_many(column)}", (known,))


_NOUNS = {"whole": "whole numbers", "decimal": "decimal numbers", "truth": "truth values", "date": "dates"}


def guess_quasi_taxonomy(column: ColumnProfile) -> Guess[Options] | None:
    """Choose a taxonomy under which every value of the column fits; None if there is no such one."""
    for guess in _candidates(column):
        if fits(column, guess.choice):
            return guess
    return None


def guess_taxonomy_of_kind(column: ColumnProfile, kind: str) -> Guess[Options] | None:
    """Make a taxonomy of one kind, whatever the column's name suggests; None if its values have no such one."""
    if kind == "intervals" and column.kind in ("whole", "decimal"):
        return _intervals(column)
    if kind == "dates" and column.kind == "date":
        return _dates(column)
    return _mask(column) if kind == "mask" else None


def fits(column: ColumnProfile, taxonomy: Mapping[str, Any]) -> bool:
    """Whether the taxonomy is valid and has a place for every value that was counted."""
    ((name, parameters),) = taxonomy.items()
    try:
        builder = find("shoal.taxonomies.builders", TaxonomyBuilder, name, what="taxonomy").model_validate(parameters)
        return bool((builder.build(column.values).encode(column.values) >= 0).all())
    except (ShoalError, ValidationError):
        return False


def _candidates(column: ColumnProfile) -> list[Guess[Options]]:
    named = words(column.name)
    found: list[Guess[Options] | None] = []
    if column.kind == "date":
        found.append(_dates(column))
    if named & POSTAL or (column.digits_only and column.leading_zeros):
        found.append(_mask(column))
    many = column.n_distinct > FEW_NUMBERS or named & AGE
    if column.kind == "decimal" or (column.kind == "whole" and many and not column.leading_zeros):
        found.append(_intervals(column))
    if column.exact and column.n_distinct <= MOST_CATEGORIES:
        found.append(_flat(column))
    return [guess for guess in found if guess is not None]


def _flat(column: ColumnProfile) -> Guess[Options]:
    question = (
        f"which of its {how_many(column)} belong together? Without groups a value is published as it is or as *; "
        "group them by a taxonomy, from a file or a tree."
    )
    many = column.kind == "text" and column.n_distinct > FEW_TEXTS
    return Guess({"flat": {}}, questions=(question,) if many else ())


def _mask(column: ColumnProfile) -> Guess[Options] | None:
    if column.length is None or not 2 <= column.length <= 12 or column.kind not in ("whole", "text"):
        return None
    return Guess({"mask": {"length": column.length}}, f"codes of {column.length} characters, masked from the end")


def _dates(column: ColumnProfile) -> Guess[Options] | None:
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
    return Guess({"dates": parameters}, questions=tuple(questions))


def _intervals(column: ColumnProfile) -> Guess[Options] | None:
    if not max(abs(column.lowest), abs(column.highest)) < FARTHEST / 4:
        return None
    if column.kind == "whole" and words(column.name) & AGE and column.lowest >= 0 and column.highest <= OLDEST:
        ages = {"min": 0, "max": OLDEST, "widths": [5, 10, 20, 40], "open": "high"}
        return Guess({"intervals": ages}, "ages")
    low, high = round_domain(column.lowest, column.highest, whole=column.kind == "whole")
    span = high - low
    if column.kind == "whole":
        step = max(Fraction(1), Fraction(10) ** math.ceil(math.log10(span / MOST_STEPS)))
        chosen = [int(width) for width in find_widths(span) if width.denominator == 1 and width > step]
        parameters: dict[str, Any] = {"min": int(low), "max": int(high) - 1, "widths": chosen}
        if step > 1:
            parameters["step"] = int(step)
    else:
        decimals = [float(width) for width in find_widths(span)]
        parameters = {"min": float(low), "max": float(high), "widths": decimals}
    parameters["open"] = "both"
    question = "which numbers may occur at all? The domain is round numbers around the data, open at both ends."
    return Guess({"intervals": parameters}, questions=(question,))


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
