"""Counting over the published rows as they pass: which values are unique, and which classes have nearly one value.

Values are 64-bit hashes. Above ``_MOST`` different values, only hashes below a falling threshold are kept: a value is
then kept with all its records or not at all, so counts can be projected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.audit.marginals import RowSample
from shoal.columns.base import read_traces
from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.kernels import kernel
from shoal.manifest import Manifest
from shoal.release.forms.base import Form
from shoal.release.sliced.table import BUCKET, name_columns
from shoal.release.witness import ROW
from shoal.taxonomies.parse import decimal_numbers, whole_numbers

_MOST = 1 << 17  # different values up to which all are kept
_MOST_HASHES = 1 << 23  # of all insensitive columns together, up to which sets of columns are searched
_MOST_SETS = 200
_MOST_PLACES = 1 << 18  # records whose place in the source is kept
_UPPER = np.uint64(0xFFFFFFFF00000000)
_NULL = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY, _AGAIN = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31 = np.uint64(27), np.uint64(30), np.uint64(31)


@dataclass(frozen=True, slots=True)
class Count:
    """A number of records; ``exact`` unless it is projected from a sample of values.

    >>> str(Count(19584)), str(Count(1234567, exact=False))
    ('19,584', 'about 1,230,000')
    """

    n: int
    exact: bool = True

    @classmethod
    def project(cls, n: int, share: float) -> Count:
        """Return the number of all records if *n* are in a sample with this share of the records."""
        return cls(round(n / share), exact=share == 1)

    def __str__(self) -> str:
        return f"{self.n:,}" if self.exact else f"about {int(float(f'{self.n:.3g}')):,}"


class _Items(NamedTuple):
    """Records by key; in a hash table, a key of 0 is a free slot."""

    keys: KeyArray
    values: KeyArray  # their common value; 0: several
    records: IntArray

    @classmethod
    def empty(cls, slots: int) -> _Items:
        return cls(np.zeros(slots, np.uint64), np.zeros(slots, np.uint64), np.zeros(slots, np.int64))


class KeyCounts:
    """An open hash table with the number of records of each key, and their common value, if any."""

    def __init__(self) -> None:
        self._slots = _Items.empty(1 << 12)
        self._filled = self._halvings = self._records = 0

    def add(self, keys: KeyArray, values: KeyArray) -> None:
        """Count records by their keys; a value of 0 differs from all others."""
        given = _Items(keys, values, np.ones(len(keys), dtype=np.int64))
        self._records += len(keys)
        at = 0
        while at < len(keys):
            at, self._filled = _insert(self._slots, self._filled, given, at, self._halvings)
            if at < len(keys):
                self._make_space()

    def _make_space(self) -> None:
        """Double the table or, at its largest size, halve the range of kept keys."""
        before, size = self._slots, len(self._slots.keys)
        self._halvings += size == 2 * _MOST
        self._slots = _Items.empty(min(2 * size, 2 * _MOST))
        _, self._filled = _insert(self._slots, 0, before, 0, self._halvings)

    def unique(self) -> Count:
        return self._project(int((self._slots.records == 1).sum()))

    def pairs(self) -> Count:
        return self._project(2 * int((self._slots.records == 2).sum()))

    def distinct(self) -> Count:
        return self._project(self._filled)

    @property
    def repeats(self) -> bool:
        return bool((self._slots.records > 1).any())

    def counts(self) -> IntArray:
        """Return (n_keys,) the records of each kept key, the most frequent first."""
        return -np.sort(-self._slots.records[self._slots.records > 0])

    def one_value(self) -> Count:
        return self._project(int(self._slots.records[self._slots.values != 0].sum()))

    def unique_without_value(self) -> Count:
        """Return the number of records that are the only ones with their key, and that have the value 0."""
        return self._project(int(((self._slots.records == 1) & (self._slots.values == 0)).sum()))

    def most_frequent(self) -> tuple[np.uint64, int]:
        """Return the kept key with the most records, and their number."""
        place = int(self._slots.records.argmax())
        return self._slots.keys[place], int(self._slots.records[place])

    def nearly_one(self, usual: tuple[np.uint64, int]) -> tuple[Count, float]:
        """Return the records of classes in which one value has 95% of the records but not all, and its largest share.

        Keys are made by :func:`_pair`, and values are classes. *usual* is the most frequent value of the table with its
        records. A class with that value counts only if other values are half as frequent in it as in the table, because
        readers expect the most frequent value anyway.
        """
        filled = np.flatnonzero(self._slots.records)
        order = filled[np.lexsort((-self._slots.records[filled], self._slots.values[filled]))]
        keys, classes, records = self._slots.keys[order], self._slots.values[order], self._slots.records[order]
        first = np.flatnonzero(np.append(True, np.diff(classes) != 0))  # the most frequent value of each class
        sizes, top, own = np.add.reduceat(records, first), records[first], classes[first]
        labelled = keys[first] == _pair(own, np.zeros_like(own))
        expected = keys[first] == _pair(own, np.full_like(own, usual[0]))
        news = ~expected | (2 * (sizes - top) * self._records <= sizes * max(self._records - usual[1], 0))
        one = (20 * top >= 19 * sizes) & (top < sizes) & ~labelled & news
        return self._project(int(sizes[one].sum())), float((top[one] / sizes[one]).max(initial=0.0))

    def _project(self, n: int) -> Count:
        return Count(min(n << self._halvings, self._records), exact=not self._halvings)


@dataclass(slots=True, eq=False)
class RowCounts:
    """Counts over the rows of a release, which pass through ``watch``."""

    free: tuple[str, ...]  # insensitive columns
    sensitive: tuple[str, ...]
    classes: tuple[str, ...]  # the columns that identify a record's class or bucket
    parts: tuple[tuple[str, ...], ...]  # the insensitive columns of each part
    pieces: tuple[Mapping[str, str], ...]  # the quasi columns of each part of a sliced table, with their attributes
    generalized: Mapping[str, frozenset[int]]  # hashes of labels for several values, and of harmless values
    n_rows: int = 0
    _alone: dict[tuple[str, ...], KeyCounts] = field(default_factory=dict)
    _within: dict[str, KeyCounts] = field(default_factory=dict)
    _values_within: dict[str, KeyCounts] = field(default_factory=dict)  # values of a class
    placed: RowSample = field(
        default_factory=lambda: RowSample(_MOST_PLACES, cluster="class")
    )  # classes and places of rows
    _kept: dict[str, list[KeyArray]] = field(default_factory=dict)

    @classmethod
    def of(cls, form: Form) -> RowCounts:
        """Prepare to count the rows of a release.

        Synthetic rows, which belong to no person, and tokens, whose values are unknown, are not counted.
        """
        manifest = form.manifest
        tokens = {name for name, trace in read_traces(manifest.techniques).items() if trace.hidden}
        quasi, sensitive, insensitive = (
            tuple(manifest.names(role)) if form.of_people else () for role in ("quasi", "sensitive", "insensitive")
        )
        free = tuple(name for name in insensitive if name not in tokens)
        named = zip(name_columns(manifest.parts), manifest.parts, strict=True)
        pieces = ({one: name for one, name in zip(*part, strict=True) if name in quasi} for part in named)
        return cls(
            free,
            sensitive,
            form.class_columns,
            tuple(tuple(name for name in part if name in free) for part in manifest.parts),
            () if form.whole_records else tuple(pieces),
            {name: _hash_uncounted(name, manifest) for name in sensitive},
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read; none if there is nothing to count."""
        looked = (*self.free, *self.sensitive, *(name for piece in self.pieces for name in piece))
        return (*looked, *self.classes) if looked else ()

    @property
    def joint(self) -> tuple[tuple[str, ...], ...]:
        """The sets of several insensitive columns whose values in a row belong to one record."""
        return tuple(part for part in self.parts if len(part) > 1)

    def watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.add(batch)
            yield batch

    def add(self, batch: pa.RecordBatch) -> None:
        self.n_rows += batch.num_rows
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        hashes = {name: hash_column(columns[name]) for name in (*self.free, *self.sensitive)}
        for name, found in hashes.items():
            self._count((name,), found)
        for names in self.joint:
            self._count(names, _combine([hashes[name] for name in names]))
            for name in names if self.searchable else ():
                self._kept.setdefault(name, []).append(hashes[name])
        for piece in filter(None, self.pieces):
            self._count(tuple(piece), _combine([hash_column(columns[name]) for name in piece]))
        if not hashes:
            return
        key = _combine([hash_column(columns[name]) for name in self.classes])
        for name in self.sensitive:
            values = _several(hashes[name], self.generalized[name])
            self._within.setdefault(name, KeyCounts()).add(key, values)
            self._values_within.setdefault(name, KeyCounts()).add(_pair(key, values), key)
        for quasi, free in self.known_together:
            if free:
                own = [key] if not self.pieces else [hash_column(columns[name]) for name in quasi]
                self._count((*quasi, *free), _combine([*own, *(hashes[name] for name in free)]))
        if ROW in columns:
            self.placed.add(pa.RecordBatch.from_arrays([pa.array(key.view(np.int64)), columns[ROW]], ["class", ROW]))

    @property
    def known_together(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """The columns by which a reader finds a person, and the insensitive columns of the same record, by part.

        Other parts show the bucket of a person only if they have quasi columns.
        """
        if not self.pieces:
            return [(self.classes, self.free)]
        with_quasi = sum(map(bool, self.pieces))
        both = zip(self.pieces, self.parts, strict=True)
        return [((*((BUCKET,) if with_quasi > bool(piece) else ()), *piece), free) for piece, free in both]

    def _count(self, names: tuple[str, ...], keys: KeyArray) -> None:
        self._alone.setdefault(names, KeyCounts()).add(keys, keys)

    def unique(self, names: Sequence[str]) -> Count:
        """Return the records that are unique by a column, a piece, all of ``joint``, or columns known together."""
        return self._alone[tuple(names)].unique()

    def pairs(self, name: str) -> Count:
        """Return the records that share their value of a column with exactly one other record."""
        return self._alone[name,].pairs()

    def one_value(self, name: str) -> Count:
        """Return the records in classes or buckets with a single value of a sensitive column."""
        return self._within[name].one_value()

    def read_places(self) -> tuple[IntArray, IntArray, float]:
        """Return (n_kept,) classes and ascending places in the source of the kept rows, and their share of all rows."""
        rows = self.placed.table().sort_by(ROW)
        return rows["class"].to_numpy(), rows[ROW].to_numpy(), self.placed.share

    def nearly_one_value(self, name: str) -> tuple[Count, float]:
        """Return the records in classes with nearly one value of a sensitive column, and that value's largest share."""
        return self._values_within[name].nearly_one(self._alone[name,].most_frequent())

    def alone_under_label(self, name: str) -> Count:
        """Return the records that are alone in their class, and have a label instead of a sensitive column's value."""
        return self._within[name].unique_without_value()

    @property
    def searchable(self) -> bool:
        """Whether sets of columns can be searched because the hashes of all rows were kept."""
        return self.n_rows * len(self.free) <= _MOST_HASHES

    def value_counts(self, name: str) -> IntArray:
        """Return (n_values,) the records of each value of one column, without the values."""
        return self._alone[name,].counts()

    def smallest_set(self, names: tuple[str, ...], most: float) -> tuple[tuple[str, ...], Count, bool]:
        """Return the smallest set of columns by which more than *most* records are unique, and their number.

        The last entry is whether no smaller set exists. Sets are tried by size, so the first one found is a smallest;
        if there are too many sets, columns are left out one by one while enough records stay unique. In large tables,
        only all columns together are counted and returned.
        """
        if not self.searchable:
            return names, self.unique(names), False
        kept = {name: np.concatenate(self._kept[name]) for name in names}

        def unique_by(these: tuple[str, ...]) -> Count:
            found, keys = KeyCounts(), _combine([kept[name] for name in these])
            found.add(keys, keys)
            return found.unique()

        by_size = (these for size in range(2, len(names) + 1) for these in combinations(names, size))
        for these in islice(by_size, _MOST_SETS):
            count = unique_by(these)
            if count.n > most:
                return these, count, True
        for name in names if next(by_size, None) is not None else ():
            fewer = tuple(other for other in names if other != name)
            names = fewer if unique_by(fewer).n > most else names
        return names, unique_by(names), False


def hash_column(column: pa.Array) -> KeyArray:
    """Return (n_rows,) a hash of each value; missing values share their own hash."""
    if pa.types.is_dictionary(column.type):
        places: CodeArray = (
            column.indices.cast(pa.int32()).fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
        )
        of_value: KeyArray = np.append(hash_column(column.dictionary), _NULL)
        return of_value[places]
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int64() if column.type.bit_width == 64 else pa.int32())
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
        if numbers.dtype.kind == "f":
            words = (numbers.astype(np.float64) + 0.0).view(np.uint64)
        else:
            words = numbers.astype(np.int64 if numbers.dtype.kind == "i" else np.uint64).view(np.uint64)
        found = np.full(len(words), _NULL)
        _fold(found, words)
    else:
        texts = column.cast(pa.large_string())
        _, offsets, data = texts.buffers()
        starts = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        found = np.empty(len(texts), dtype=np.uint64)
        _hash_texts(starts, np.frombuffer(data if data is not None else b"", dtype=np.uint8), found)
    if column.null_count:
        found[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return found


def _hash_uncounted(name: str, manifest: Manifest) -> frozenset[int]:
    """Return the hashes of labels for several values, and of values that the policy declares harmless."""
    covers = manifest.attributes[name].covers.items()
    labels = [label for label, cover in covers if len(cover.get("values", (0, 0))) > 1]
    stated = [one.parameters for one in manifest.guarantees]
    listed = [one.get("harmless") or () for one in stated if one.get("attribute") in (None, name)]
    harmless = pa.array([value for values in listed for value in values], pa.string())
    numbers = [found[valid] for found, valid in (whole_numbers(harmless), decimal_numbers(harmless))]
    columns = filter(len, (pa.array(labels, pa.string()), harmless, *map(pa.array, numbers)))
    return frozenset(found for column in columns for found in hash_column(column).tolist())


def _several(hashes: KeyArray, generalized: frozenset[int]) -> KeyArray:
    if not generalized:
        return hashes
    stand: BoolArray = np.isin(hashes, np.array(sorted(generalized), dtype=np.uint64))
    return np.where(stand, np.uint64(0), hashes)


def _combine(hashes: Sequence[KeyArray]) -> KeyArray:
    found = hashes[0].copy()
    for other in hashes[1:]:
        _fold(found, other)
    return found


def _pair(classes: KeyArray, values: KeyArray) -> KeyArray:
    """Return the key of a value in a class. Its upper half is the class's, so a threshold keeps all values or none."""
    return np.maximum((classes & _UPPER) | (_combine([classes, values]) & ~_UPPER), np.uint64(1))


@kernel
def _fold(first: KeyArray, second: KeyArray) -> None:
    """Change *first* to the hash of each pair, by the finalizer of SplitMix64, which is one-to-one; never 0."""
    for i in range(len(first)):
        word = first[i] * _AGAIN + second[i]
        word = (word ^ (word >> _S30)) * _MULTIPLY
        word = (word ^ (word >> _S27)) * _AGAIN
        word = word ^ (word >> _S31)
        first[i] = word or np.uint64(1)


@kernel
def _hash_texts(offsets: IntArray, data: NDArray[np.uint8], out: KeyArray) -> None:
    """Fill in the hash of each text, eight bytes at a time."""
    for i in range(len(offsets) - 1):
        word, held = np.uint64(offsets[i + 1] - offsets[i]), np.uint64(0)
        for j in range(offsets[i], offsets[i + 1]):
            held = (held << np.uint64(8)) | np.uint64(data[j])
            if (j - offsets[i]) % 8 == 7 or j == offsets[i + 1] - 1:
                word = (word ^ held) * _MULTIPLY
                word = (word ^ (word >> _S30)) * _AGAIN
                word = word ^ (word >> _S27)
                held = np.uint64(0)
        word = (word ^ (word >> _S30)) * _MULTIPLY
        word = word ^ (word >> _S31)
        out[i] = word or np.uint64(1)


@kernel
def _insert(slots: _Items, filled: int, given: _Items, start: int, halvings: int) -> tuple[int, int]:
    """Add records from *start* on until the table is half full; return the next record and the number of filled slots.

    Keys above the threshold, 2**64 halved *halvings* times, and items without records are skipped.
    """
    mask, most = np.uint64(len(slots.keys) - 1), np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(halvings)
    for i in range(start, len(given.keys)):
        key = given.keys[i]
        if key > most or given.records[i] == 0:
            continue
        slot = key & mask
        while slots.keys[slot] != key and slots.keys[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        if slots.keys[slot] == 0:
            if 2 * filled >= len(slots.keys):
                return i, filled
            filled += 1
            slots.keys[slot] = key
            slots.values[slot] = given.values[i]
        elif slots.values[slot] != given.values[i]:
            slots.values[slot] = 0
        slots.records[slot] += given.records[i]
    return len(given.keys), filled
