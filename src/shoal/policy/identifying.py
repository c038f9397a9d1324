"""Identifiers by content: what the values of a column look like, whatever its name is.

These are the identifiers that HIPAA's safe harbour lists (45 CFR 164.514(b)(2)), as far as a table's values show them:
names, addresses, dates of birth, telephone numbers, numbers of people, accounts, cards, vehicles and devices, and
addresses in networks. Numbers with check digits are recognized by these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from shoal.core.arrays import IntArray
from shoal.core.wording import percent
from shoal.policy.profiling import ColumnProfile, fold, read_vocabulary
from shoal.taxonomies.parse import texts

MOST_SAMPLED = 1000  # distinct values that are looked at
FEWEST = 10  # distinct values below which nothing is said
_FIRST = 40  # of them decide whether the others are looked at
_LIFETIMES = 40 * 365  # days that dates of birth span
_COMMON = 0.4  # share of the records whose names are common ones, half of it for family names
_CAPITALIZED = 0.9  # share of the records whose words all are written as names are
_MOST_WORDS = 4  # of a name
_FEW_WORDS = 3  # of a remark
_MANY = 30  # distinct values of remarks and keys

# Topics of names (vocabulary.yaml) that a doubtful look does not contradict; it yields to all others.
_SAYS_NOTHING = frozenset({"person", "contact", "key", "people", "remarks", "birth", "date", "postal", "code"})
_REACHES = frozenset({"person", "contact", "postal"})
Check = Callable[[str], bool]


class Form(NamedTuple):
    """How values of one kind are written, and what they must satisfy without their blanks, points and hyphens."""

    what: str
    pattern: str
    check: Check | None = None
    type: Literal["key", "text", "postcode"] = "key"
    least: float = 0.9  # share of the values
    sure: bool = True  # whether it holds whatever the column's name says
    person: bool = False  # whether one stands for one person

    def fits(self, text: str) -> bool:
        """Whether a value is written like this."""
        if re.fullmatch(self.pattern, text) is None:
            return False
        return self.check is None or self.check(re.sub(r"[\s.\-/]", "", text))


@dataclass(frozen=True, slots=True)
class Look:
    """What most values of a column look like, and the evidence in numbers."""

    what: str
    role: Literal["identifier", "quasi"]
    type: Literal["key", "text", "postcode", "date"]
    share: float
    sampled: int
    person: bool = False
    by_record: bool = False  # the share is one of records: most people have common names, most names are rare

    @property
    def evidence(self) -> str:
        """Say it in words, without any value.

        >>> Look("e-mail addresses", "identifier", "text", 0.97, 500).evidence
        '97% of 500 sampled values look like e-mail addresses'
        """
        of = "the records with " if self.by_record else ""
        do = "have common" if self.by_record else "look like"
        return f"{percent(self.share)} of {of}{self.sampled:,} sampled values {do} {self.what}"

    def as_dict(self) -> dict[str, object]:
        return {"looks_like": self.what, "share": round(self.share, 3), "sampled": self.sampled}


def check_luhn(text: str) -> bool:
    """Whether the last digit is that of Luhn's formula (ISO/IEC 7812-1).

    >>> check_luhn("79927398713"), check_luhn("79927398710")
    (True, False)
    """
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(text)))
    return sum(sum(divmod(number, 10)) for number in doubled) % 10 == 0


def check_iban(text: str) -> bool:
    """Whether an IBAN's remainder is 1 (ISO 13616, ISO 7064 MOD 97-10).

    >>> check_iban("GB82WEST12345698765432"), check_iban("GB83WEST12345698765432")
    (True, False)
    """
    return int("".join(str(int(character, 36)) for character in text[4:] + text[:4])) % 97 == 1


def check_weights(text: str, weights: tuple[int, ...], modulus: int) -> bool:
    """Whether the digits, each times its weight, add up to a multiple of a number; leading zeros may be lost.

    >>> check_weights("111222333", (9, 8, 7, 6, 5, 4, 3, 2, -1), 11)
    True
    """
    digits = map(int, text.zfill(len(weights)))
    return sum(digit * weight for digit, weight in zip(digits, weights, strict=True)) % modulus == 0


def check_iso_7064(text: str) -> bool:
    """Whether the last digit is that of ISO 7064 MOD 11,10, as of German tax numbers.

    >>> check_iso_7064("86095742719"), check_iso_7064("86095742718")
    (True, False)
    """
    product = 10
    for digit in text[:-1]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(text[-1])


def _check_dni(text: str) -> bool:
    return text[-1] == "TRWAGMYFPDXBNJZSQVHLCKE"[int(text[:-1].translate(str.maketrans("XYZ", "012"))) % 23]


def _check_nir(text: str) -> bool:
    body = text[:-2].replace("2A", "19").replace("2B", "18")
    return 97 - int(body) % 97 == int(text[-2:])


def _sums(weights: tuple[int, ...], modulus: int) -> Check:
    return partial(check_weights, weights=weights, modulus=modulus)


def _has_both(text: str) -> bool:
    return any(map(str.isalpha, text)) and any(map(str.isdigit, text))


_STREET = (
    r"(?:.*\b\d+ ?[a-z]?,? .*\b(street|st|road|rd|lane|ln|avenue|ave|drive|dr|way|close|court|ct|blvd|boulevard|square|"
    r"terrace|crescent|gardens|place|pl)\b.*"  # English
    r"|.*(str\.|straße|strasse|weg|gasse|platz|allee|ring|damm|ufer|markt|straat|laan|plein|gracht|kade|dijk|singel)"
    r" ?\d+ ?[a-z]?"  # German and Dutch
    r"|\d+ ?(bis|ter)?,? (rue|avenue|av\.?|boulevard|bd\.?|place|chemin|impasse|allée|quai|cours|route) .+"  # French
    r"|(calle|c/|avda\.?|avenida|plaza|paseo|camino|via|viale|piazza|corso|largo|vicolo"  # Spanish, Italian
    r"|ul\.|al\.|aleja|os\.|pl\.) ?.+\d+.*)"  # Polish
)
_PLATE = (
    r"[A-ZÄÖÜ]{1,3}-[A-Z]{1,2} ?\d{1,4}[EH]?|[A-Z]{2}\d{2} ?[A-Z]{3}|[A-Z]{2}[- ]?\d{3}[- ]?[A-Z]{2}"
    r"|\d{4} ?[B-DF-HJ-NP-TV-Z]{3}"  # German, British, French and Italian, Spanish
)
_POSTCODE = (
    r"[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}|\d{4} ?[A-Z]{2}|[A-Z]\d[A-Z] ?\d[A-Z]\d|\d{2}-\d{3}|\d{4}-\d{3}|\d{3} \d{2}"
    r"|\d{5}-\d{4}"
)
_BYTE = r"(25[0-5]|2[0-4]\d|1?\d?\d)"
_IP = rf"{_BYTE}(\.{_BYTE}){{3}}|(?=.*::)[0-9A-Fa-f:]+|([0-9A-Fa-f]{{1,4}}:){{7}}[0-9A-Fa-f]{{1,4}}"
_IBAN = r"[A-Z]{2}\d{2}( ?[A-Z0-9]{4}){2,7}( ?[A-Z0-9]{1,4})?"


FORMS: tuple[Form, ...] = (
    Form("e-mail addresses", r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}", type="text"),
    Form("web addresses", r"(https?|ftp)://\S+|www\.\S+\.\S+", type="text"),
    Form("MAC addresses", r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}"),
    Form("IP addresses", _IP),
    Form("universal identifiers (UUID)", r"\{?[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\}?"),
    Form("hashes or keys in hexadecimal digits", r"([0-9a-f]{32,128}|[0-9A-F]{32,128})", _has_both),
    Form("file names", r"(?i).*\.(jpe?g|png|gif|tiff?|bmp|heic|dcm|pdf|docx?|xlsx?|txt|wav|mp[34]|mov)", type="text"),
    Form("bank account numbers (IBAN)", _IBAN, check_iban),
    Form("social security numbers", r"(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}", person=True),
    Form("national insurance numbers", r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D]", person=True),
    Form("Spanish identity numbers (DNI, NIE)", r"[XYZ\d]\d{7}-?[A-Z]", _check_dni, person=True),
    Form("Italian tax codes", r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", person=True),
    Form(
        "French social security numbers (NIR)",
        r"[12] ?\d{2} ?\d{2} ?(\d{2}|2A|2B) ?\d{3} ?\d{3} ?\d{2}",
        _check_nir,
        person=True,
    ),
    Form(
        "Polish identity numbers (PESEL)",
        r"\d{2}[02468][1-9]\d{7}|\d{2}[13579][0-2]\d{7}",
        _sums((1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1), 10),
        person=True,
    ),
    Form("German tax numbers", r"[1-9]\d ?\d{3} ?\d{3} ?\d{3}", check_iso_7064, person=True),
    Form("Dutch citizen service numbers (BSN)", r"\d{8,9}", _sums((9, 8, 7, 6, 5, 4, 3, 2, -1), 11), person=True),
    Form("NHS numbers", r"\d{3}[ -]?\d{3}[ -]?\d{4}", _sums((10, 9, 8, 7, 6, 5, 4, 3, 2, 1), 11), person=True),
    Form("Swiss social security numbers", r"756\.?\d{4}\.?\d{4}\.?\d{2}", _sums((1, 3) * 6 + (1,), 10), person=True),
    Form("device numbers (IMEI)", r"(0[1-9]|35|86|9[89])\d{13}", check_luhn),
    Form("payment card numbers", r"[2-6]\d{3}([ -]?\d){9,15}", check_luhn),
    Form("coordinates", r"\(?-?\d{1,3}\.\d{3,}[,; ]\s*-?\d{1,3}\.\d{3,}\)?", type="text"),
    Form("street addresses", f"(?i){_STREET}", type="text", least=0.6),
    Form(
        "telephone numbers",
        r"(\+|00)\d[\d ()/.-]{6,}|\(?0\d+\)?[ /.-][\d ()/.-]{5,}|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}",
        lambda text: 8 <= sum(map(str.isdigit, text)) <= 15,
        least=0.8,
        sure=False,
    ),
    Form("postcodes", _POSTCODE, type="postcode", sure=False),
    Form("licence plates", _PLATE, sure=False),
    Form("vehicle identification numbers", r"[A-HJ-NPR-Z0-9]{17}", _has_both, sure=False),
)
_NAME_WORD = re.compile(r"[^\W\d_][^\W\d_'’.-]*(['’-][^\W\d_]+)*\.?")
_PARTICLES = frozenset(
    {"de", "da", "di", "del", "della", "der", "den", "von", "van", "la", "le", "el", "al", "bin", "y", "e", "zu"}
)
_DIGITS = str.maketrans(dict.fromkeys("0123456789", "9"))


def look_at(column: ColumnProfile) -> Look | None:
    """Return what the values of a column look like, if that would name a person or a key of one; None otherwise."""
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
    for form in FORMS:
        if sum(map(form.fits, values[:_FIRST])) < form.least / 2 * min(len(values), _FIRST):
            continue
        share = sum(map(form.fits, values)) / len(values)
        if share >= form.least and (form.sure or _allows(column, _REACHES)):
            role: Literal["identifier", "quasi"] = "quasi" if form.type == "postcode" else "identifier"
            return Look(form.what, role, form.type, share, len(values), form.person)
    return _look_at_words(column, values, records) if column.kind == "text" and _allows(column) else None


def _allows(column: ColumnProfile, not_a_key: frozenset[str] = frozenset()) -> bool:
    """Whether the column's name says nothing that a doubtful look would contradict, nor that of a key and no more."""
    topics = read_vocabulary().find_topics(column.name)
    keyed = bool(not_a_key) and "key" in topics and not topics & not_a_key
    return not topics - _SAYS_NOTHING and not keyed


def _look_at_words(column: ColumnProfile, values: list[str], records: IntArray) -> Look | None:
    """Tell names, remarks and keys of one shape; names are counted by record, for most people have common ones."""
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
