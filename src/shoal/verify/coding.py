"""Batches of a release and of its source as numbers: everything that later steps know of a row.

Coding is apart from reading, and what codes can be sent to other processes: labels have the numbers of the manifest,
contents are hashed under one key, and values have numbers that one reader gives.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.manifest import Attribute
from shoal.verify.contents import TEXT, Contents, common_type, is_textual
from shoal.verify.covers import Covers
from shoal.verify.form import SourceRows, count_source
from shoal.verify.kernels import look_up, paired
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import LabelReader, MetValues, ValueReader
from shoal.verify.reading import coded
from shoal.verify.tally import Combinations, Interner

_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
Subject = tuple[str, ...]  # a sensitive attribute, or several whose joint values are judged


@dataclass(frozen=True, slots=True)
class Layout:
    """Which labels of a row make its class, and which make the box that its source row lies in."""

    labelled: tuple[str, ...]  # attributes with labels, in the order of the manifest
    radices: tuple[int, ...]  # (n_labelled,) their label numbers are below these
    quasi: tuple[int, ...]  # places in *labelled*; none if classes are made of values as they are
    boxed: tuple[int, ...]  # places in *labelled* of the attributes that source rows are matched by
    by_values: bool  # whether quasi attributes are published without labels

    @classmethod
    def of(cls, manifest: Manifest) -> Layout:
        """Return what the manifest says."""
        labelled = [attribute for attribute in manifest.attributes if attribute.boxed]
        by_values = any(not attribute.boxed for attribute in manifest.of_role("quasi"))
        quasi = [] if by_values else [a for a, attribute in enumerate(labelled) if attribute.role == "quasi"]
        return cls(
            labelled=tuple(attribute.name for attribute in labelled),
            radices=tuple(LabelReader(attribute).radix for attribute in labelled),
            quasi=tuple(quasi),
            boxed=tuple(a for a, attribute in enumerate(labelled) if manifest.traced(attribute)),
            by_values=by_values,
        )

    @property
    def alike(self) -> bool:
        """Whether every class is a box."""
        return not self.by_values and self.quasi == self.boxed

    def classes(self) -> Combinations:
        """Return what numbers classes by their labels."""
        return Combinations([self.radices[a] for a in self.quasi])

    def boxes(self) -> Combinations:
        """Return what numbers boxes by their labels."""
        return Combinations([self.radices[a] for a in self.boxed])


@dataclass(frozen=True, slots=True, eq=False)
class CodedRows:
    """Rows of a release."""

    rows: int
    labels: CodeArray  # (n_labelled, n_rows); none where all that is asked of them is in the keys
    keys: KeyArray  # (n_rows,) what the numbers of classes begin with
    hashes: KeyArray | None  # (n_rows,) of the contents, if there is a source to compare with


Coded = tuple[CodedRows, tuple[CodeArray, ...]]  # rows, and for each subject (n_rows,) the numbers of values


@dataclass(frozen=True, slots=True, eq=False)
class Met:
    """All that a coder met in rows of a release, by its own numbers."""

    used: tuple[BoolArray, ...]  # for each attribute with labels, the numbers that occur
    values: dict[str, MetValues]
    joints: dict[Subject, tuple[KeyArray, ...]]  # pairs in the order of their numbers, for each step of joining


class ReleaseCoder:
    """Codes the rows of a release; the same value has the same number in all batches."""

    def __init__(
        self,
        schema: pa.Schema,
        manifest: Manifest,
        subjects: Sequence[Subject],
        contents: Contents | None,
        source: pa.Schema | None,
    ) -> None:
        self.layout = Layout.of(manifest)
        self.subjects = tuple(subjects)
        self.columns = _needed(schema, manifest, with_numbers=contents is not None)
        self._looked_at = _needed(schema, manifest, with_numbers=False)
        self._contents = contents
        self._labels = [LabelReader(attribute) for attribute in manifest.attributes if attribute.boxed]
        self._sensitive = [attribute.name for attribute in manifest.of_role("sensitive")]
        plain = [attribute.name for attribute in manifest.of_role("quasi") if not attribute.boxed]
        self._values = QuasiValues(plain, schema) if plain else None
        self._classes = self.layout.classes()
        self._readers = {a.name: _value_reader(a, schema, manifest, source) for a in manifest.of_role("sensitive")}
        self._joints = {subject: [Interner() for _ in subject[1:]] for subject in subjects}

    def code(self, batch: pa.RecordBatch) -> tuple[CodedRows, dict[str, tuple[pa.Array, CodeArray]]]:
        """Return a batch but for the numbers of its sensitive values; several threads may ask at a time."""
        labels = np.empty((len(self._labels), batch.num_rows), dtype=np.int32)
        for a, reader in enumerate(self._labels):
            reader.fill(batch.column(reader.name), labels[a])
        if self._values is None:
            keys = self._classes.first_keys([labels[a] for a in self.layout.quasi], batch.num_rows)
        else:
            keys = self._values.hashes(batch)
        hashes = None if self._contents is None else self._contents.hashes(batch)
        values = {name: coded(batch.column(name)) for name in self._sensitive}
        return CodedRows(batch.num_rows, labels, keys, hashes), values

    def number(self, values: dict[str, tuple[pa.Array, CodeArray]]) -> tuple[CodeArray, ...]:
        """Return for each subject (n_rows,) numbers, in the order in which values are met; one thread at a time."""
        codes = {name: self._readers[name].read(*values[name]) for name in self._sensitive}
        found = []
        for subject in self.subjects:
            joint = codes[subject[0]]
            for interner, name in zip(self._joints[subject], subject[1:], strict=True):
                joint = interner.ids(paired(joint, codes[name]))
            found.append(joint)
        return tuple(found)

    def glancing(self) -> ReleaseCoder:
        """Return a new coder with the same keys that has met nothing, reads no plain numbers and hashes no contents."""
        new = copy.deepcopy(self)
        new._contents = None  # noqa: SLF001  of the same class
        new.columns = self._looked_at
        return new

    @property
    def met(self) -> Met:
        """What all rows so far have."""
        return Met(
            used=tuple(reader.used for reader in self._labels),
            values={name: reader.met for name, reader in self._readers.items()},
            joints={subject: tuple(step.keys() for step in steps) for subject, steps in self._joints.items()},
        )

    def add(self, met: Met) -> tuple[CodeArray, ...]:
        """Return for each subject (n_values,) the numbers of what another coder with the same keys met."""
        for reader, used in zip(self._labels, met.used, strict=True):
            reader.used[:] |= used
        codes = {name: self._readers[name].add(values) for name, values in met.values.items()}
        found = []
        for subject in self.subjects:
            joint = codes[subject[0]]
            for interner, name, keys in zip(self._joints[subject], subject[1:], met.joints[subject], strict=True):
                joint = interner.ids(paired(joint[keys >> _HALF], codes[name][keys & _LOW]))
            found.append(joint)
        return tuple(found)

    def texts(self, subject: Subject) -> tuple[str | None, ...]:
        """Return what the numbers of a subject stand for; nothing for joint values."""
        return tuple(self._readers[subject[0]].texts) if len(subject) == 1 else ()

    def n_values(self, subject: Subject) -> int:
        """Return how many values of a subject were met."""
        return self._joints[subject][-1].count if len(subject) > 1 else self._readers[subject[0]].count

    @property
    def unknown(self) -> tuple[str, ...]:
        """Attributes with texts that are no labels."""
        return tuple(reader.name for reader in self._labels if reader.met_unknown)

    @property
    def idle(self) -> dict[str, int]:
        """How many labels of an attribute no row has, where there are such."""
        return {reader.name: reader.idle for reader in self._labels if reader.idle}


@dataclass(frozen=True, slots=True, eq=False)
class CodedSource:
    """Rows of a source that are not dropped: where they lie, and what their contents are."""

    points: CodeArray  # (n_rows, n_boxed)
    hashes: KeyArray
    stays: BoolArray | None = None  # (n_rows of the batch,) those that are not dropped; None: all of them


@dataclass(frozen=True, slots=True, eq=False)
class SourceFacts:
    """What a batch of the source tells beside its rows."""

    rows: int
    dropped: int
    moved: IntArray  # (n_moved_complete,) rows that lack a value which changed rows
    met: tuple[BoolArray, ...]  # for each sensitive attribute with labels, the codes that occur

    def __add__(self, other: SourceFacts) -> SourceFacts:
        """Return what both batches tell."""
        met = tuple(one | another for one, another in zip(self.met, other.met, strict=True))
        return SourceFacts(self.rows + other.rows, self.dropped + other.dropped, self.moved + other.moved, met)

    def counts(self) -> SourceRows:
        """Return how many rows there are, and how many lack a value."""
        return count_source(self.rows, self.dropped, self.moved)


class SourceCoder:
    """Codes the rows of a source by the labels that cover them."""

    def __init__(self, manifest: Manifest, covers: Sequence[Covers], contents: Contents) -> None:
        self._points = PointReader(covers, manifest.missing_tokens)
        self._drop = manifest.missing_policy == "drop"
        self._complete, self._moved = manifest.complete, manifest.moved_complete
        self.columns = [attribute.name for attribute in manifest.attributes]
        self.dictionaries = [*self._complete, *self._moved]
        self._contents = contents
        self.generalized = [(a, cover) for a, cover in enumerate(covers) if cover.attribute.role == "sensitive"]

    def nothing(self) -> SourceFacts:
        """Return what no rows tell."""
        met = tuple(np.zeros(cover.width, dtype=np.bool_) for _, cover in self.generalized)
        return SourceFacts(0, 0, np.zeros(len(self._moved), dtype=np.int64), met)

    def code(self, batch: pa.RecordBatch) -> tuple[CodedSource, SourceFacts]:
        """Return a batch without rows that are dropped, and what it tells; several threads may ask at a time."""
        rows, dropped, stays = batch.num_rows, 0, None
        moved = np.zeros(len(self._moved), dtype=np.int64)
        if self._drop:
            moved[:] = [self._points.any_missing(batch, [name]).sum() for name in self._moved]
            gone = self._points.any_missing(batch, self._complete)
            dropped = int(gone.sum())
            if dropped:
                stays = ~gone
                batch = batch.filter(pa.array(stays))
        points = self._points.points(batch)
        met = []
        for a, cover in self.generalized:
            met.append(np.zeros(cover.width, dtype=np.bool_))
            met[-1][points[:, a]] = True
        return CodedSource(points, self._contents.hashes(batch), stays), SourceFacts(rows, dropped, moved, tuple(met))


def _value_reader(
    attribute: Attribute, published: pa.Schema, manifest: Manifest, source: pa.Schema | None
) -> ValueReader:
    """Return what numbers the values of a sensitive attribute, equal ones as in both tables; labels are texts."""
    if attribute.boxed:
        return ValueReader(TEXT, ())
    own = published.field(attribute.name).type
    other = own if source is None else source.field(attribute.name).type
    return ValueReader(manifest.kind_of(attribute.name, own, other), manifest.missing_tokens)


def _needed(schema: pa.Schema, manifest: Manifest, *, with_numbers: bool) -> list[str]:
    """Return the columns to read: text always, for its dictionaries; plain numbers only to compare them."""
    return [
        attribute.name
        for attribute in manifest.attributes
        if with_numbers or attribute.role != "insensitive" or is_textual(schema.field(attribute.name).type)
    ]


class QuasiValues:
    """Numbers the distinct combinations of values as they are written, for so whoever reads them tells rows apart.

    A number in two spellings makes two classes, a text for missing values is not the same as none at all, and -0.0 is
    not 0.0: promises are then kept by each of them. Combinations are told apart by 64-bit hashes under a random key.

    >>> classes = QuasiValues(["age"], pa.schema([("age", pa.string())]))
    >>> classes.ids(classes.hashes(pa.record_batch({"age": ["7", "7.0", None, "7"]}))).tolist()
    [0, 1, 2, 0]
    """

    def __init__(self, names: Sequence[str], published: pa.Schema) -> None:
        self._names = list(names)
        kinds = [published.field(name).type for name in names]
        compared = [pa.int64() if pa.types.is_floating(kind) else common_type(kind, kind) for kind in kinds]
        self._contents = Contents(self._names, compared, ())
        self._numbers = Interner()

    @property
    def count(self) -> int:
        """How many classes were met."""
        return self._numbers.count

    def hashes(self, batch: pa.RecordBatch) -> KeyArray:
        """Return (n_rows,) what tells the rows' classes apart; any thread may ask."""
        columns = [_bits(batch.column(name)) for name in self._names]
        return self._contents.hashes(pa.RecordBatch.from_arrays(columns, names=self._names))

    def ids(self, hashes: KeyArray) -> CodeArray:
        """Return (n_rows,) the numbers of classes."""
        return self._numbers.ids(hashes)


def _bits(column: pa.Array) -> pa.Array:
    """Return floats as the whole numbers that have their bits, other columns as they are."""
    if not pa.types.is_floating(column.type):
        return column
    numbers = np.asarray(column.cast(pa.float64()).fill_null(0.0), dtype=np.float64)
    return pa.array(numbers.view(np.int64), mask=np.asarray(column.is_null()))


class PointReader:
    """Turns batches of a source or population into points of the space that labels cover."""

    def __init__(self, covers: Sequence[Covers], missing: Sequence[str]) -> None:
        self.covers = covers
        self._missing = pa.array(list(missing), type=pa.string())

    def points(self, batch: pa.RecordBatch) -> CodeArray:
        """Return (n_rows, n_attributes) codes."""
        out = np.empty((batch.num_rows, len(self.covers)), dtype=np.int32, order="F")
        for a, cover in enumerate(self.covers):
            values, places = coded(batch.column(cover.attribute.name))
            codes = np.append(cover.places(values), np.int32(cover.missing))
            codes[:-1][self._is_missing(values)] = cover.missing
            look_up(codes, places, out[:, a])
        return out

    def _is_missing(self, values: pa.Array) -> BoolArray:
        if pa.types.is_floating(values.type):
            return np.isnan(np.asarray(values, dtype=np.float64))
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            return np.asarray(pc.is_in(values.cast(pa.string()), value_set=self._missing), dtype=np.bool_)
        return np.zeros(len(values), dtype=np.bool_)

    def any_missing(self, batch: pa.RecordBatch, columns: Sequence[str]) -> BoolArray:
        """Return (n_rows,) whether one of these columns has no value."""
        out = np.zeros(batch.num_rows, dtype=np.bool_)
        for name in columns:
            values, places = coded(batch.column(name))
            out |= np.append(self._is_missing(values), True)[places]
        return out
