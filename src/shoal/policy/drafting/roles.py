"""Which role a column probably has: by its name and by what it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shoal.policy.drafting.profiling import MOST_DISTINCT, ColumnProfile
from shoal.policy.policy import Role

NEARLY_UNIQUE = 0.9  # distinct values over records
MANY_NUMBERS = 1000  # distinct numbers from which on a measurement is taken for continuous
LONG_TEXT = 40  # characters, on average


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words of a column's name. Those of the first list name a person by themselves.
NAMES_A_PERSON = _listed(
    "email mail phone telephone telefon mobile fax ssn passport iban surname lastname firstname forename fullname "
    "username login mrn street nhs uuid guid"
)
PEOPLE = _listed("patient person customer client")
MAY_NAME_A_PERSON = PEOPLE | _listed("name id identifier number no nr key address index row")
SENSITIVE = _listed(
    "disease diagnosis diagnoses icd illness condition symptom symptoms treatment therapy drug drugs medication "
    "prescription procedure hiv health mental disability disabled salary income wage wages earnings wealth debt credit "
    "loan balance religion religious belief political politics party vote union sexual orientation crime criminal "
    "conviction offence offense genetic genome pregnant pregnancy abortion alcohol smoking smoker drinking result "
    "grade score"
)
QUASI = _listed(
    "age sex gender zip zipcode postcode postal plz pincode city town village county state region province district "
    "country nationality citizenship native birth born dob birthday birthdate date day month year admitted admission "
    "discharge discharged visit education degree school marital civil married relationship family children household "
    "parents housing race ethnic ethnicity language occupation job profession employer employment industry work "
    "workclass insurance height weight residence hours location place"
)
POSTAL = _listed("zip zipcode postcode postal plz pincode post")
AGE = frozenset({"age"})


@dataclass(frozen=True, slots=True)
class RoleGuess:
    """A role, why, and what a person has to decide."""

    role: Role
    reason: str
    questions: tuple[str, ...] = ()


def words(name: str) -> frozenset[str]:
    """Return the words of a column's name, and the name as one word.

    >>> sorted(words("Date_of-birthDay"))
    ['birth', 'birthday', 'date', 'dateofbirthday', 'day', 'of']
    """
    parts = [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+", name)]
    pieces = [piece.lower() for piece in re.split(r"[\W\d_]+", name) if piece]
    return frozenset([*parts, *pieces, "".join(pieces)])


def guess(column: ColumnProfile) -> RoleGuess:
    """Guess one column's role; in doubt the more careful one, with a question."""
    if column.kind == "empty":
        return RoleGuess("identifier", "no record has a value", ("is this column needed at all? It is left out now.",))
    return _by_identity(column) or _by_name(column) or _by_content(column)


def how_many(column: ColumnProfile) -> str:
    """Say how many values a column has."""
    count = f"{column.n_distinct:,}" if column.exact else f"more than {MOST_DISTINCT:,}"
    return f"{count} {'value' if column.exact and column.n_distinct == 1 else 'values'}"


def _nearly_unique(column: ColumnProfile) -> bool:
    return column.distinct_share >= NEARLY_UNIQUE


def _by_identity(column: ColumnProfile) -> RoleGuess | None:
    named = words(column.name)
    if named & NAMES_A_PERSON:
        return RoleGuess("identifier", f"its name says that it names a person ({how_many(column)})")
    if named & MAY_NAME_A_PERSON and not named & (QUASI | SENSITIVE):
        if _nearly_unique(column):
            return RoleGuess("identifier", f"by its name, and nearly every record has its own ({how_many(column)})")
        if column.distinct_share >= (0.02 if named & PEOPLE else 0.1) and column.kind in ("whole", "text"):
            question = (
                "do several records belong to one person? Then a class of k records may be fewer than k people: "
                "name this column as unit, and people are counted."
            )
            return RoleGuess("identifier", f"by its name, with {how_many(column)}", (question,))
    return None


def _by_name(column: ColumnProfile) -> RoleGuess | None:
    named = words(column.name)
    if column.kind == "date" and not named & SENSITIVE:
        return RoleGuess("quasi", f"dates ({how_many(column)}): others often know them")
    if named & SENSITIVE:
        return RoleGuess("sensitive", f"by its name ({how_many(column)})")
    if named & QUASI:
        if column.kind == "text" and _free_text(column):
            return _free_text_guess(column)
        return RoleGuess("quasi", f"by its name ({how_many(column)})")
    return None


def _by_content(column: ColumnProfile) -> RoleGuess:
    known = "could others know this of a person? If not, make it sensitive or insensitive."
    if column.kind == "text":
        if _free_text(column):
            return _free_text_guess(column)
        if _nearly_unique(column):
            question = "does it name a person? If not, make it quasi, with a taxonomy."
            return RoleGuess(
                "identifier", f"text of which nearly every record has its own ({how_many(column)})", (question,)
            )
        return RoleGuess("quasi", f"text with {how_many(column)}", (known,))
    if column.kind in ("whole", "decimal") and not (column.exact and column.n_distinct <= MANY_NUMBERS):
        if column.kind == "whole" and column.distinct_share == 1.0:
            question = "is it a number of a person or record? If not, make it quasi, with intervals."
            return RoleGuess(
                "identifier", f"whole numbers, a different one for every record ({how_many(column)})", (question,)
            )
        question = (
            f"could others know it, even roughly? {column.n_unique:,} of its values belong to one record only, and it "
            "is published as it is; if so, make it quasi, with intervals, or an identifier, or round it (technique)."
        )
        return RoleGuess("insensitive", f"numbers with {how_many(column)}, perhaps a measurement", (question,))
    if column.kind == "decimal" and _nearly_unique(column):
        question = "could others know it, even roughly? It is published as it is; if so, make it quasi, with intervals."
        return RoleGuess("insensitive", f"decimal numbers with {how_many(column)}, perhaps a measurement", (question,))
    return RoleGuess("quasi", f"{_NOUNS[column.kind]} with {how_many(column)}", (known,))


_NOUNS = {"whole": "whole numbers", "decimal": "decimal numbers", "truth": "truth values", "date": "dates"}


def _free_text(column: ColumnProfile) -> bool:
    return column.wordy and column.mean_length > LONG_TEXT and column.n_distinct > 1


def _free_text_guess(column: ColumnProfile) -> RoleGuess:
    question = "may it be published at all? Free text often holds names; it is left out now."
    return RoleGuess("identifier", f"free text ({how_many(column)})", (question,))
