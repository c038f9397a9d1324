"""Profiles of columns from one pass over a table, and finding out how the table must be read."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from shoal.core.arrays import BoolArray, IntArray
from shoal.core.dictionaries import GrowingDictionary, factor_column
from shoal.core.progress import Progress
from shoal.sources.base import Source, SourceOptions
from shoal.sources.columns import is_text
from shoal.sources.delimited import find_encoding
from shoal.sources.opening import is_delimited, open_source
from shoal.taxonomies.parse import days, decimal_numbers, texts, whole_numbers

MOST_DISTINCT = 100_000  # distinct values of a column that are counted exactly
FORMATS = ("", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y")  # of dates; "" is ISO
_RARE_FORMATS = ("%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%d-%b-%Y")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %H:%M", "T%H:%M:%S")
_DATE_LIKE = r"^[0-9]{1,4}[-./ ]([0-9]{1,2}|[A-Za-z]{3,9})[-./ ][0-9]{2,4}\b|^[A-Za-z]{3,9} [0-9]{1,2}, [0-9]{4}\b"
_EARLIEST = -354_285  # days from 1970 back to the year 1000
_DATED = 0.9  # share of a column's records with dates, from which it is a column of dates
_OLD = range(90, 97)  # ages: if many more records have 99 than any of these, 99 means missing
_FEW = 1000  # values that are examined before the rest
_MOST_THREADS = 8
_LEADING_ZERO = "^0[0-9]"
_DIGITS = "^[0-9]+$"
_WORDS = r"\S\s+\S+\s+\S"
_LONGEST = 24  # characters of a text that means missing
_SHORT = 2  # characters of any text that means missing among numbers
_FEW_WORDS = 3  # markers in one column
_WIDE_GAP = 0.2  # between a marker and all other numbers, as a share of their range
_NUMBER = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|([0-9]{1,3}([.][0-9]{3})+|[0-9]+),[0-9]+)")
_WITH_COMMA = re.compile(r"[+-]?([0-9]{1,3}([.][0-9]{3})+|[0-9]+)(,[0-9]+)?")
_DECIMAL_COMMA = re.compile(r",([0-9]{1,2}|[0-9]{4,})$")
_BELOW = re.compile(r"-([1-9]|66|77|88|9[6-9]|666|777|888|99[6-9])([.,]0+)?")
_ABOVE = re.compile(r"(77+|88+|9+[6-9])([.,]0+)?")
_ABOVE_CODES = re.compile(r"[789]")

Kind = Literal["empty", "truth", "whole", "decimal", "date", "text"]


@dataclass(slots=True, eq=False)
class ColumnProfile:
    """Facts about a column from one pass over its batches; the values are never shown."""

    name: str
    arrow_type: pa.DataType
    dictionary: GrowingDictionary = field(default_factory=GrowingDictionary)
    counts: IntArray = field(
        default_factory=lambda: np.zeros(1, dtype=np.int64)
    )  # (n + 1,) records of each value, the first of missing
    exact: bool = True  # whether all distinct values were counted
    whole: bool = True
    decimal: bool = True
    date_formats: tuple[str, ...] = FORMATS  # that fit every value
    mixed_formats: dict[str, int] = field(default_factory=dict)  # records by format, if no format fits every value
    lowest: float = math.inf  # number, or day since 1970
    highest: float = -math.inf
    lengths: set[int] = field(default_factory=set)  # the shortest and the longest of each batch
    digits_only: bool = True
    leading_zeros: bool = False
    wordy: bool = False  # whether there are texts of three words or more
    n_characters: int = 0  # of all examined values
    n_rows: int = 0
    n_missing: int = 0
    n_values: int = 0  # examined

    def see(self, column: pa.Array) -> None:
        """Add the rows of a batch."""
        indices, values = factor_column(column)
        present = np.bincount(indices + 1, minlength=len(values) + 1)
        self.n_rows += len(indices)
        self.n_missing += int(present[0])
        used = present[1:] > 0
        if not used.all():
            values = values.filter(pa.array(used))
        new = self._remember(values, present[np.append(True, used)])
        for part in (new[:_FEW], new[_FEW:]):  # the first part rules out types that need not be tried on the rest
            if len(part):
                self._look(part)

    def _remember(self, values: pa.Array, records: IntArray) -> pa.Array:
        """Count values with (n_values + 1,) *records* until there are too many; return the new values."""
        if not self.exact:
            return values
        known = self.dictionary.size
        codes = self.dictionary.codes(values).astype(np.int64)
        if self.dictionary.size > MOST_DISTINCT + 1:
            self.exact = False
        counts = np.zeros(self.dictionary.size, dtype=np.int64)
        counts[: len(self.counts)] = self.counts
        counts[codes] += np.append(records[1:], records[0])  # the codes of a batch are distinct
        self.counts = counts
        return values.filter(pa.array(codes[:-1] >= known))

    def _look(self, values: pa.Array) -> None:
        """Rule out the types and formats that do not fit these values."""
        self.n_values += len(values)
        if self.decimal:
            numbers, numeric = decimal_numbers(values)
            self.decimal = bool(numeric.all())
            self.whole = self.whole and self.decimal and bool(whole_numbers(values)[1].all())
            if self.decimal:
                self._widen(numbers.min(), numbers.max())
        if not self.decimal:
            self.whole = False
        if is_text(self.arrow_type) or pa.types.is_integer(self.arrow_type):
            self._look_at_text(texts(values))
        if self.date_formats:
            self._look_at_dates(values)

    def _look_at_text(self, as_text: pa.Array) -> None:
        lengths = pc.utf8_length(as_text)
        ends = pc.min_max(lengths).as_py()
        self.lengths.update((ends["min"], ends["max"]))
        self.n_characters += pc.sum(lengths).as_py()
        self.digits_only = self.digits_only and pc.all(pc.match_substring_regex(as_text, _DIGITS)).as_py()
        self.leading_zeros = self.leading_zeros or pc.any(pc.match_substring_regex(as_text, _LEADING_ZERO)).as_py()
        self.wordy = self.wordy or pc.any(pc.match_substring_regex(as_text, _WORDS)).as_py()

    def _look_at_dates(self, values: pa.Array) -> None:
        fitting = []
        for form in self.date_formats:
            number, valid = _read_days(values, form)
            if valid.all():
                fitting.append(form)
                if not self.decimal:
                    self._widen(number.min(), number.max())
        self.date_formats = tuple(fitting)

    def find_formats(self) -> None:
        """Try to read texts as dates with a time of day, in rarer formats, or in several formats."""
        values, records = texts(self.values), self.records
        like = pc.match_substring_regex(values, _DATE_LIKE).to_numpy(zero_copy_only=False)
        if records[like].sum() < _DATED * records.sum():
            return
        forms = ("", *(day + time for day in (*FORMATS[1:], *_RARE_FORMATS) for time in _TIMES))
        share = {form: _read_days(values[:_FEW], form)[1].mean() for form in forms}
        self.date_formats = tuple(form for form in forms if self.exact and share[form] == 1)
        self._look_at_dates(values)
        for form in sorted(filter(share.get, forms), key=lambda form: -share[form]) if not self.date_formats else ():
            valid = _read_days(values, form)[1]
            if valid.any():
                self.mixed_formats[form] = int(records[valid].sum())
            values, records = values.filter(pa.array(~valid)), records[~valid]

    def _widen(self, low: float, high: float) -> None:
        self.lowest, self.highest = min(self.lowest, float(low)), max(self.highest, float(high))

    @property
    def values(self) -> pa.Array:
        return self.dictionary.values.filter(pa.array(self.counts[1:] > 0))

    @property
    def records(self) -> IntArray:
        return self.counts[1:][self.counts[1:] > 0]

    @property
    def n_distinct(self) -> int:
        """The number of distinct values, a lower bound if it is not exact."""
        return len(self.records)

    @property
    def n_unique(self) -> int:
        """The number of values with a single record, among those counted."""
        return int((self.counts[1:] == 1).sum())

    @property
    def distinct_share(self) -> float:
        """Distinct values divided by records with a value, among those counted."""
        return self.n_distinct / max(int(self.records.sum()), 1)

    @property
    def kind(self) -> Kind:
        if self.n_missing == self.n_rows:
            return "empty"
        if pa.types.is_boolean(self.arrow_type):
            return "truth"
        if self.date_formats:
            return "date"
        if self.whole:
            return "whole"
        return "decimal" if self.decimal else "text"

    @property
    def length(self) -> int | None:
        """The common length of all texts, or the largest number of digits of integers."""
        if pa.types.is_integer(self.arrow_type):
            return max(self.lengths, default=None)
        return next(iter(self.lengths)) if len(self.lengths) == 1 else None


def _read_days(values: pa.Array, form: str) -> tuple[IntArray, BoolArray]:
    """Parse dates in one format; a text with a two-digit year does not fit a format with four digits."""
    number, valid = days(values, form or None)
    return number, valid & (number >= _EARLIEST) if is_text(values.type) else valid


def profile_source(
    data: object, options: SourceOptions, progress: Progress
) -> tuple[Source, SourceOptions, tuple[ColumnProfile, ...]]:
    """Open a table, find out how it must be read, and profile it.

    Properties that *options* set are kept. The others are found: encoding, blanks, decimal commas, missing markers.
    """
    source, options, profiles = look_first(data, options, progress)
    found = find_reading(profiles, options)
    if found == options or isinstance(data, Source):
        return source, options, profiles
    source = open_source(data, found)
    return source, found, profile_columns(source, progress)


def look_first(
    data: object, options: SourceOptions, progress: Progress
) -> tuple[Source, SourceOptions, tuple[ColumnProfile, ...]]:
    """Open a table with a suitable encoding and profile it without other conversions."""
    if "encoding" not in options.model_fields_set and is_delimited(data):
        options = options.model_copy(update={"encoding": find_encoding(Path(str(data)))})
    source = open_source(data, options)
    return source, options, profile_columns(source, progress)


def profile_columns(source: Source, progress: Progress) -> tuple[ColumnProfile, ...]:
    """Read the table once and return a profile of each column."""
    profiles = tuple(ColumnProfile(column.name, column.type) for column in source.schema)
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    with ThreadPoolExecutor(threads) as pool, progress.step("looking", source.n_rows) as step:
        for batch in source.batches(dictionary=source.schema.names):
            deque(pool.map(ColumnProfile.see, profiles, batch.columns), maxlen=0)  # raises the first error
            step.advance(batch.num_rows)
        written = [one for one in profiles if one.kind == "text" and is_text(one.arrow_type)]
        deque(pool.map(ColumnProfile.find_formats, written), maxlen=0)
    return profiles


def find_reading(profiles: tuple[ColumnProfile, ...], options: SourceOptions) -> SourceOptions:
    """Return the options with the trimming, decimal commas and missing markers that the values suggest.

    A marker that means missing in every column with it is listed under ``missing``, another under ``missing_in``.
    """
    values = {profile.name: _count_texts(profile) for profile in profiles}
    padded = any(text != text.strip() for counts in values.values() for text in counts)
    trim = options.trim if "trim" in options.model_fields_set else padded
    if trim:
        values = {name: _strip(counts) for name, counts in values.items()}
    markers = {name: find_markers(counts, name) for name, counts in values.items()}
    numeric = {
        name: left
        for name, counts in values.items()
        if (left := counts.keys() - markers[name]) and all(map(_WITH_COMMA.fullmatch, left))
    }
    commas = [name for name, left in numeric.items() if any("," in text for text in left)]
    if not any(_DECIMAL_COMMA.search(text) for name in commas for text in numeric[name]):
        commas = []  # every comma precedes three digits, so it may separate thousands
    everywhere = {
        marker
        for marker in set().union(*markers.values())
        if not _NUMBER.fullmatch(marker) and all(marker in markers[name] for name in values if marker in values[name])
    }
    own = {name: sorted(found - everywhere) for name, found in markers.items() if found - everywhere}
    for name, given in options.missing_in.items():
        own[name] = list(dict.fromkeys([*given, *own.get(name, ())]))
    return options.model_copy(
        update={
            "trim": trim,
            "missing": list(dict.fromkeys([*options.missing, *sorted(everywhere)])),
            "missing_in": own,
            "decimal_comma": list(dict.fromkeys([*options.decimal_comma, *commas])),
        }
    )


def find_markers(counts: Mapping[str, int], name: str = "") -> frozenset[str]:
    """Return the values of a column that probably mean missing, given the number of records of each text.

    They are words for missing, a few short words among numbers, a few negative numbers among positive ones, and 99, 999
    or the like far above all other numbers.

    >>> sorted(find_markers({"17": 9, "21": 7, "64": 8, "-9": 2, "n/a": 1, "999": 3}))
    ['-9', '999', 'n/a']
    """
    known = read_vocabulary().texts["missing"]
    words = {text for text in counts if len(text) <= _LONGEST and fold(text) in known}
    if "country" in name.casefold() and sum(len(text) == 2 for text in counts) > len(counts) / 2:
        words -= {"NA"}  # Namibia
    rest = {text: number for text, number in counts.items() if text not in words}
    plain = {text: text.replace(".", "").replace(",", ".") if "," in text else text for text in rest}
    numbers = {text: float(plain[text]) for text in rest if _NUMBER.fullmatch(text)}
    lone = rest.keys() - numbers.keys()
    short = all(len(text) <= _SHORT and rest[text] > 1 for text in lone)
    if short and len(lone) <= _FEW_WORDS and len(numbers) > 1 and not any(map(str.isdigit, "".join(lone))):
        words |= lone
        lone = set()
    if lone:
        return frozenset(words)
    if "age" in read_vocabulary().find_topics(name):
        usual = max((n for text, n in rest.items() if numbers[text] in _OLD), default=1)
        words |= {text for text, n in rest.items() if numbers[text] == 99 and n > 2 * usual}
    return frozenset(words) | _find_odd_numbers(numbers, rest)


def find_candidates(profiles: tuple[ColumnProfile, ...]) -> dict[str, dict[str, int]]:
    """Return the values that may mean missing and their records, by column of a table that was read without options.

    They are the markers of each column, short texts among longer ones, and the markers of any other column.

    >>> import pyarrow as pa
    >>> smoking = ColumnProfile("smoker", pa.string())
    >>> smoking.see(pa.array(["yes", "no", "N", "N"]))
    >>> find_candidates((smoking,))
    {'smoker': {'N': 2}}
    """
    counts = {profile.name: _strip(_count_texts(profile)) for profile in profiles}
    markers: set[str] = set()
    for name, found in counts.items():
        markers |= find_markers(found, name)
        shortest = {text for text in found if len(text) == 1 and not text.isdigit()}
        if len(shortest) == 1 < len(found):
            markers |= shortest
    return {name: own for name, found in counts.items() if (own := {t: n for t, n in found.items() if t in markers})}


def _find_odd_numbers(numbers: Mapping[str, float], counts: Mapping[str, int]) -> set[str]:
    """Return repeated numbers that are usual codes for missing and far from all others."""
    repeated = {text for text in numbers if counts[text] > 1}
    below = {text for text, number in numbers.items() if number < 0}
    odd = below if len(below) <= _FEW_WORDS and all(map(_BELOW.fullmatch, below)) and below <= repeated else set()
    rising = sorted(numbers.keys() - below, key=numbers.__getitem__)
    for pattern, is_code in ((_ABOVE, False), (_ABOVE_CODES, True)):
        n_above = next((i for i, text in enumerate(reversed(rising)) if not pattern.fullmatch(text)), 0)
        for place in range(len(rising) - n_above, len(rising)):  # the lowest of them may be ordinary values
            usual = [numbers[text] for text in rising[:place]]
            gap = numbers[rising[place]] - usual[-1]
            wide = gap > max(1.0, _WIDE_GAP * (usual[-1] - usual[0]))
            codes = usual in (list(range(len(usual))), list(range(1, len(usual) + 1)))
            if len(usual) > 1 and repeated.issuperset(rising[place:]) and (gap > 1 and codes if is_code else wide):
                return odd | set(rising[place:])
    return odd


def _count_texts(profile: ColumnProfile) -> dict[str, int]:
    """Return the records of each text or number that was counted."""
    kind = profile.arrow_type
    if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return {}
    return dict(zip(texts(profile.values).to_pylist(), profile.records.tolist(), strict=True))


def _strip(counts: Mapping[str, int]) -> dict[str, int]:
    stripped: Counter[str] = Counter()
    for text, number in counts.items():
        stripped[text.strip()] += number
    del stripped[""]
    return stripped


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words in the names of columns, and texts with a known meaning."""

    columns: dict[str, re.Pattern[str]]  # by topic
    units: dict[str, re.Pattern[str]]  # names of keys, by the unit that they identify
    texts: dict[str, frozenset[str]]  # by meaning: missing, truth, months, weekdays, ...
    scales: tuple[tuple[str, ...], ...]

    def find_topics(self, name: str) -> frozenset[str]:
        """Return the topics of a column's name.

        >>> sorted(read_vocabulary().find_topics("birthYear"))
        ['birth', 'date', 'year']
        """
        found = words(name)
        return frozenset(topic for topic, known in self.columns.items() if any(map(known.fullmatch, found)))

    def find_unit(self, name: str) -> str | None:
        """Return the unit that a column identifies if its whole name is the name of a key.

        >>> [read_vocabulary().find_unit(name) for name in ("custid", "id_menage", "patient age")]
        ['person', 'household', None]
        """
        letters = re.sub(r"[\W\d_]", "", fold(name))
        return next((unit for unit, known in self.units.items() if known.fullmatch(letters)), None)


@cache
def read_vocabulary() -> Vocabulary:
    listed = yaml.safe_load(resources.files("shoal.policy").joinpath("vocabulary.yaml").read_text("utf-8"))
    return Vocabulary(
        {topic: _compile(known) for topic, known in listed["columns"].items()},
        {unit: _compile_unit(known, listed["keys"]) for unit, known in listed["units"].items()},
        {kind: frozenset(map(fold, known)) for kind, known in listed["texts"].items()},
        tuple(tuple(map(fold, scale)) for scale in listed["scales"]),
    )


def _compile(known: str) -> re.Pattern[str]:
    plain = known.replace("_", "").replace("-", "").split()
    return re.compile("|".join(re.escape(word).replace(r"\*", ".*") for word in plain))


def _compile_unit(known: str, keys: dict[str, str]) -> re.Pattern[str]:
    """Compile a pattern of a unit's names with words for a key around them; a word after + needs one of these."""
    key, ending = (f"(?:{'|'.join(keys[part].split())})" for part in ("affixes", "endings"))
    free = "|".join(word for word in known.split() if word[0] != "+") or "(?!)"
    bound = "|".join(word[1:] for word in known.split() if word[0] == "+") or "(?!)"
    return re.compile(f"{key}*(?:{free}){ending}?{key}*|{key}+(?:{bound}){key}*|(?:{bound}){key}+")


def fold(text: str) -> str:
    """Return a text without case, accents and surrounding blanks.

    >>> fold(" Größe "), fold("Sí")
    ('grosse', 'si')
    """
    plain = text.strip().casefold()
    if plain.isascii():
        return plain
    apart = unicodedata.normalize("NFKD", plain)
    return "".join(character for character in apart if not unicodedata.combining(character)).replace("ł", "l")


def words(name: str) -> frozenset[str]:
    """Return the words of a column's name and the name as one word, each with and without e after a, o and u.

    >>> sorted(words("Date_of-birthDay")), sorted(words("diag_1"))
    (['birth', 'birthday', 'date', 'dateofbirthday', 'day', 'of'], ['1', 'diag', 'diag1'])
    """
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+", name)
    pieces = [piece for piece in re.split(r"[\W_]+", name) if piece]
    found = [fold(word) for word in [*parts, *pieces, "".join(pieces)]]
    return frozenset([*found, *(re.sub("([aou])e", r"\1", word) for word in found)])  # ae may be written for an umlaut
