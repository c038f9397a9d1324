"""Recognizing identifiers by the values of a column, whatever its name is.

These are the identifiers that HIPAA's safe harbour lists (45 CFR 164.514(b)(2)), as far as a table's values show them:
names, addresses, dates of birth, telephone numbers, numbers of people, accounts, cards, vehicles and devices, and
addresses in networks. Numbers with check digits are recognized by these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Literal, NamedTuple

import numpy as np
import yaml

from shoal.core.arrays import IntArray
from shoal.core.wording import percent
from shoal.policy.profiling import ColumnProfile, fold, read_vocabulary
from shoal.taxonomies.parse import texts

MOST_SAMPLED = 1000  # distinct values that are examined
FEWEST = 10  # a column with fewer distinct values is not examined
_FIRST = 40  # of the values decide whether the rest are examined
_LIFETIMES = 40 * 365  # days between the first and the last date of birth, at least
_COMMON = 0.4  # share of the records with common given names; half of it suffices for family names
_CAPITALIZED = 0.9  # share of the records whose words are all written like names
_MOST_WORDS = 4  # words of a name
_FEW_WORDS = 3  # words of a remark
_MANY = 30  # distinct values of remarks and keys

# Topics of column names (vocabulary.yaml) that agree with a doubtful recognition; all others contradict it.
_SAYS_NOTHING = frozenset({"person", "contact", "key", "people", "remarks", "birth", "date", "postal", "code"})
_REACHES = frozenset({"person", "contact", "postal"})
Check = Callable[[str], bool]


class Form(NamedTuple):
    """The form of one kind of identifier; the check applies to values without blanks, points and hyphens."""

    what: str
    pattern: str
    check: Check | None = None
    type: Literal["key", "text", "postcode"] = "key"
    least: float = 0.9  # share of the values that must have this form
    sure: bool = True  # whether this holds for any name of the column
    person: bool = False  # whether each value identifies a person

    def fits(self, text: str) -> bool:
        if re.fullmatch(self.pattern, text) is None:
            return False
        return self.check is None or self.check(re.sub(r"[\s.\-/]", "", text))


@dataclass(frozen=True, slots=True)
class Look:
    """The kind of identifier that most values of a column look like, with the evidence."""

    what: str
    role: Literal["identifier", "quasi"]
    type: Literal["key", "text", "postcode", "date"]
    share: float
    sampled: int
    person: bool = False
    by_record: bool = False  # whether the share is of records: most people have common names, but most names are rare

    @property
    def evidence(self) -> str:
        """A sentence without values.

        >>> Look("e-mail addresses", "identifier", "text", 0.97, 500).evidence
        '97% of 500 sampled values look like e-mail addresses'
        """
        of = "the records with " if self.by_record else ""
        do = "have common" if self.by_record else "look like"
        return f"{percent(self.share)} of {of}{self.sampled:,} sampled values {do} {self.what}"

    def as_dict(self) -> dict[str, object]:
        return {"looks_like": self.what, "share": round(self.share, 3), "sampled": self.sampled}


def check_luhn(text: str) -> bool:
    """Check the last digit by Luhn's formula (ISO/IEC 7812-1).

    >>> check_luhn("79927398713"), check_luhn("79927398710")
    (True, False)
    """
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(text)))
    return sum(sum(divmod(number, 10)) for number in doubled) % 10 == 0


def check_iban(text: str) -> bool:
    """Check an IBAN's check digits (ISO 13616, ISO 7064 MOD 97-10).

    >>> check_iban("GB82WEST12345698765432"), check_iban("GB83WEST12345698765432")
    (True, False)
    """
    return int("".join(str(int(character, 36)) for character in text[4:] + text[:4])) % 97 == 1


def check_weights(text: str, weights: Sequence[int], modulus: int) -> bool:
    """Whether the weighted sum of digits is a multiple of the modulus; leading zeros may be missing.

    >>> check_weights("111222333", (9, 8, 7, 6, 5, 4, 3, 2, -1), 11)
    True
    """
    digits = map(int, text.zfill(len(weights)))
    return sum(digit * weight for digit, weight in zip(digits, weights, strict=True)) % modulus == 0


def check_iso_7064(text: str) -> bool:
    """Check the last digit by ISO 7064 MOD 11,10, as in German tax numbers.

    >>> check_iso_7064("86095742719"), check_iso_7064("86095742718")
    (True, False)
    """
    product = 10
    for digit in text[:-1]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(text[-1])


_DNI = str.maketrans("XYZ", "012")
_CHECKS: dict[str, Check] = {
    "iban": check_iban,
    "luhn": check_luhn,
    "iso-7064": check_iso_7064,
    "dni": lambda text: text[-1] == "TRWAGMYFPDXBNJZSQVHLCKE"[int(text[:-1].translate(_DNI)) % 23],
    "nir": lambda text: 97 - int(text[:-2].replace("2A", "19").replace("2B", "18")) % 97 == int(text[-2:]),
    "letters-and-digits": lambda text: any(map(str.isalpha, text)) and any(map(str.isdigit, text)),
    "telephone": lambda text: 8 <= sum(map(str.isdigit, text)) <= 15,
}


@cache
def read_forms() -> tuple[Form, ...]:
    """Read the forms of identifiers."""
    forms = []
    for entry in yaml.safe_load(resources.files("shoal.policy").joinpath("identifiers.yaml").read_text("utf-8")):
        check = entry.pop("check", None)
        weighted = isinstance(check, dict)
        entry["check"] = partial(check_weights, **check) if weighted else None if check is None else _CHECKS[check]
        forms.append(Form(**{**entry, "pattern": "".join(entry["pattern"])}))
    return tuple(forms)


_NAME_WORD = re.compile(r"[^\W\d_][^\W\d_'’.-]*(['’-][^\W\d_]+)*\.?")
_PARTICLES = frozenset(
    {"de", "da", "di", "del", "della", "der", "den", "von", "van", "la", "le", "el", "al", "bin", "y", "e", "zu"}
)
_DIGITS = str.maketrans(dict.fromkeys("0123456789", "9"))


def look_at(column: ColumnProfile) -> Look | None:
    """Return the kind of identifier that the values of a column look like, or None."""
    if column.n_distinct <= FEWEST or column.mixed_formats:
        return None
    if column.kind == "date":
        lifetimes = column.highest - column.lowest >= _LIFETIMES and _allows(column)
        return Look("dates of birth: they span decades", "quasi", "date", 1.0, column.n_distinct) if lifetimes else None
    if column.kind not in ("text", "whole"):
        return None
    step = max(1, column.n_distinct // MOST_SAMPLED)
    values = [text.strip() for text in texts(column.values[::step]).to_pylist()][:MOST_SAMPLED]
    records = column.records[::step][:MOST_SAMPLED]
    for form in read_forms():
        if sum(map(form.fits, values[:_FIRST])) < form.least / 2 * min(len(values), _FIRST):
            continue
        share = sum(map(form.fits, values)) / len(values)
        if share >= form.least and (form.sure or _allows(column, _REACHES)):
            role: Literal["identifier", "quasi"] = "quasi" if form.type == "postcode" else "identifier"
            return Look(form.what, role, form.type, share, len(values), form.person)
    return _look_at_words(column, values, records) if column.kind == "text" and _allows(column) else None


def _allows(column: ColumnProfile, not_a_key: frozenset[str] = frozenset()) -> bool:
    """Whether the column's name does not contradict a doubtful recognition, and does not only suggest a key."""
    topics = read_vocabulary().find_topics(column.name)
    keyed = bool(not_a_key) and "key" in topics and not topics & not_a_key
    return not topics - _SAYS_NOTHING and not keyed


def _look_at_words(column: ColumnProfile, values: list[str], records: IntArray) -> Look | None:
    """Recognize names, remarks and keys of one shape; names are counted by record, because most people's are common."""
    known, parts = read_vocabulary().texts, [re.split(r"[\s,]+", value) for value in values]
    people = [len(words) <= _MOST_WORDS and all(map(_is_name_word, words)) for words in parts]
    single = np.array([len(words) == 1 for words in parts])

    def weigh(found: Iterable[bool]) -> float:
        return float(records[np.fromiter(found, dtype=bool, count=len(values))].sum() / records.sum())

    if weigh(people) >= _CAPITALIZED:
        given = weigh(any(fold(word) in known["given_names"] for word in words) for words in parts)
        family = weigh(any(fold(word) in known["family_names"] for word in words) for words in parts)
        what = "given names" if given >= family else "family names"
        if single.mean() < 0.5:
            what, given = "names of people", max(given, family)
        if given >= _COMMON or family >= _COMMON / 2:
            return Look(what, "identifier", "text", max(given, family), len(values), by_record=True)
    wordy = float(np.mean([sum(word[:1].isalpha() for word in words) >= _FEW_WORDS for words in parts]))
    if wordy >= 0.5 and column.distinct_share >= 0.2 and column.n_distinct > _MANY:
        return Look("remarks of several words", "identifier", "text", wordy, len(values))
    shapes = Counter(re.sub(r"[^\W\d_]", "A", value.translate(_DIGITS)) for value in values)
    shape, n = shapes.most_common(1)[0]
    if shape.count("9") >= 4 and "A" in shape and column.distinct_share >= 0.1 and column.n_distinct > _MANY:
        share = n / len(values)
        return Look("keys of one shape", "identifier", "key", share, len(values)) if share >= 0.9 else None
    return None


def _is_name_word(word: str) -> bool:
    return word.lower() in _PARTICLES or (_NAME_WORD.fullmatch(word) is not None and word[0].isupper())
