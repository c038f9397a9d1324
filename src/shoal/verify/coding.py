"""Batches of a release and of its source as numbers: everything that later steps know of a row.

Coding is apart from reading, and what codes can be sent to other processes: labels have the numbers of the manifest,
values and contents are hashed under keys that all processes share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.verify.cells import CodedRows, Texts
from shoal.verify.contents import MISSING, TEXT, Contents, RowSums, common_type, is_textual
from shoal.verify.covers import Covers
from shoal.verify.guarantees import Subject
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import LabelReader
from shoal.verify.order import are_sampled
from shoal.verify.reading import encode
from shoal.verify.truth import ClassNumbers, count_uncovered, hash_classes


class ReleaseCoder:
    """Codes the rows of a release; several threads may ask at a time."""

    def __init__(
        self,
        schema: pa.Schema,
        manifest: Manifest,
        subjects: Sequence[Subject],
        contents: Contents | None,
        source: pa.Schema | None,
    ) -> None:
        self.columns = [
            attribute.name  # text always, for its dictionaries; plain numbers only to compare them
            for attribute in manifest.attributes
            if contents is not None or attribute.role != "insensitive" or is_textual(schema.field(attribute.name).type)
        ]
        self.labels = [LabelReader(attribute) for attribute in manifest.labelled]
        self._numbers = ClassNumbers.of(manifest)
        self._quasi = [place for place, one in enumerate(manifest.labelled) if one.role == "quasi"]
        self.classes = ClassNumbers([len(manifest.labelled[place].labels or {}) for place in self._quasi])
        plain = [attribute.name for attribute in manifest.of_role("quasi") if not attribute.boxed]
        self._values = QuasiValues(plain, schema) if plain else None
        self._contents = contents
        self._n_rows = manifest.rows
        about = {name for subject in subjects for name in subject}
        self._sensitive: dict[str, Contents] = {}
        for one in manifest.of_role("sensitive"):
            if one.name in about:  # values that are equal in both tables are one; labels are texts
                types = [table.field(one.name).type for table in (schema, source) if table is not None]
                kind = TEXT if one.boxed else manifest.kind_of(one.name, *types)
                missing = () if one.boxed else manifest.missing_tokens
                self._sensitive[one.name] = Contents([one.name], [kind], missing, fold=not one.boxed)

    def code(self, batch: pa.RecordBatch) -> CodedRows:
        """Return a batch as numbers."""
        n_rows = batch.num_rows
        labels = np.empty((len(self.labels), n_rows), dtype=np.int32)
        for place, reader in enumerate(self.labels):
            labels[place] = reader.read(batch.column(reader.name))
        if self._values is None:
            classes = self.classes.pack(labels[self._quasi], n_rows)
        else:
            classes = self._values.hashes(batch).view(np.int64)[np.newaxis]
        words, texts = self.read_values(batch)
        hashes, sums, tokens = None, RowSums(), np.zeros(0, dtype=np.uint64)
        if self._contents is not None:
            hashes = self._contents.hashes(batch, published=True)
            tokens = hash_classes(self._contents.key, hashes, self._numbers.pack(labels, n_rows))
            sums, tokens = RowSums.of(self._contents.key, tokens), tokens[are_sampled(tokens, self._n_rows)]
        counts = {reader.name: reader.count(own) for reader, own in zip(self.labels, labels, strict=True)}
        return CodedRows(n_rows, labels, counts, classes, words, texts, hashes, sums, tokens)

    def read_values(self, batch: pa.RecordBatch) -> tuple[dict[str, KeyArray], dict[str, Texts]]:
        """Return (n_rows,) words for the values of each sensitive attribute, and what the words stand for.

        Values that are equal in the type that both tables are compared in, or in their normal form, have the same word,
        however they are spelled, and so have all that mean missing: else a release could make one value look like
        several.
        """
        rows, texts = {}, {}
        for name, contents in self._sensitive.items():
            values, places = encode(batch.column(name))
            words = contents.words(name, values)
            rows[name] = words.take(places)
            spelled = zip(words[:-1].tolist(), values.cast(pa.string()).to_pylist(), strict=True)
            texts[name] = dict(reversed(list(spelled))) | {int(MISSING): None}
        return rows, texts

    def project(self, numbers: IntArray) -> IntArray:
        """Return (n_columns, n_rows) the classes of quasi labels, given the numbers that a witness tells."""
        return self.classes.pack(self._numbers.unpack(numbers).T[self._quasi], numbers.shape[1])


class QuasiValues:
    """Hashes combinations of values as they are written, for so whoever reads them tells rows apart.

    A number in two spellings makes two classes, a text for missing values is not the same as none at all, and -0.0 is
    not 0.0: promises are then kept by each of them. Combinations are told apart by 64-bit hashes under a random key.

    >>> classes = QuasiValues(["age"], pa.schema([("age", pa.string())]))
    >>> hashes = classes.hashes(pa.record_batch({"age": ["7", "7.0", None, "7"]})).tolist()
    >>> len(set(hashes)), hashes[0] == hashes[3]
    (3, True)
    """

    def __init__(self, names: Sequence[str], published: pa.Schema) -> None:
        self._names = list(names)
        kinds = [published.field(name).type for name in names]
        compared = [pa.int64() if pa.types.is_floating(kind) else common_type(kind, kind) for kind in kinds]
        self._contents = Contents(self._names, compared, ())

    def hashes(self, batch: pa.RecordBatch) -> KeyArray:
        """Return (n_rows,) what tells the rows' classes apart."""
        columns = [_bits(batch.column(name)) for name in self._names]
        return self._contents.hashes(pa.RecordBatch.from_arrays(columns, names=self._names))


def _bits(column: pa.Array) -> pa.Array:
    """Return floats as the whole numbers that have their bits, other columns as they are."""
    if not pa.types.is_floating(column.type):
        return column
    numbers = np.asarray(column.cast(pa.float64()).fill_null(0.0), dtype=np.float64)
    return pa.array(numbers.view(np.int64), mask=np.asarray(column.is_null()))


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What rows of the source tell; what different rows tell can be added."""

    rows: int
    dropped: int  # rows that lack a value which they must have
    moved: IntArray  # (n_moved_complete,) rows that lack a value which changed rows
    met: tuple[BoolArray, ...]  # for each sensitive attribute with labels, the codes that occur
    sums: RowSums = field(default_factory=RowSums)  # of the rows that the witness puts in classes
    uncovered: int = 0  # of these, those that do not lie under the labels of their class
    outside: frozenset[str] = frozenset()  # the columns in which they do not
    gone: int = 0  # of these, those that lack a value for which they must have been dropped
    misfit: str | None = None  # why the witness tells of other rows or classes
    tokens: tuple[KeyArray, ...] = ()  # of rows in classes, in the order of the source

    def __add__(self, other: Compared) -> Compared:
        """Return what both tell."""
        return Compared(
            rows=self.rows + other.rows,
            dropped=self.dropped + other.dropped,
            moved=self.moved + other.moved,
            met=tuple(one | another for one, another in zip(self.met, other.met, strict=True)),
            sums=self.sums + other.sums,
            uncovered=self.uncovered + other.uncovered,
            outside=self.outside | other.outside,
            gone=self.gone + other.gone,
            misfit=self.misfit or other.misfit,
            tokens=(*self.tokens, *other.tokens),
        )


@dataclass(frozen=True, slots=True, eq=False)
class CodedSource:
    """Rows of a source: what they tell, and where those that are not dropped lie, and what their contents are."""

    stated: Compared
    stays: BoolArray  # (n_rows,) those that are not dropped
    points: CodeArray  # (n_staying, n_boxed)
    hashes: KeyArray  # (n_staying,)


class SourceCoder:
    """Codes the rows of a source by the labels that cover them, and compares them with what the witness tells."""

    def __init__(self, manifest: Manifest, covers: Mapping[str, Covers], contents: Contents) -> None:
        self.places = [place for place, attribute in enumerate(manifest.labelled) if manifest.is_traced(attribute)]
        self.covers = [covers[manifest.labelled[place].name] for place in self.places]
        self._points = PointReader(self.covers, manifest.missing_tokens)
        self._drop = manifest.missing_policy == "drop"
        self._complete, self._moved = manifest.complete, manifest.moved_complete
        self.columns = [attribute.name for attribute in manifest.attributes]
        self.dictionaries = [*self._complete, *self._moved]
        self._contents = contents
        self._numbers = ClassNumbers.of(manifest)
        self._n_rows = manifest.rows
        self.generalized = [(a, cover) for a, cover in enumerate(self.covers) if cover.attribute.role == "sensitive"]

    def nothing(self) -> Compared:
        """Return what no rows tell."""
        met = tuple(np.zeros(cover.width, dtype=np.bool_) for _, cover in self.generalized)
        return Compared(0, 0, np.zeros(len(self._moved), dtype=np.int64), met)

    def code(self, batch: pa.RecordBatch) -> CodedSource:
        """Return the rows of a batch that are not dropped, and what it tells; several threads may ask at a time."""
        stays = np.ones(batch.num_rows, dtype=np.bool_)
        moved = np.zeros(len(self._moved), dtype=np.int64)
        n_rows = batch.num_rows
        if self._drop:
            moved[:] = [self._points.any_missing(batch, [name]).sum() for name in self._moved]
            stays = ~self._points.any_missing(batch, self._complete)
            batch = batch if stays.all() else batch.filter(pa.array(stays))
        points = self._points.points(batch)
        met = []
        for a, cover in self.generalized:
            met.append(np.zeros(cover.width, dtype=np.bool_))
            met[-1][points[:, a]] = True
        stated = Compared(n_rows, n_rows - batch.num_rows, moved, tuple(met))
        return CodedSource(stated, stays, points, self._contents.hashes(batch))

    def compare(self, batch: pa.RecordBatch, numbers: IntArray | str) -> Compared:
        """Take (n_columns, n_rows) the numbers of the rows' classes, or say why there are none."""
        rows = self.code(batch)
        stated, stays, points, hashes = rows.stated, rows.stays, rows.points, rows.hashes
        if isinstance(numbers, str):
            return replace(stated, misfit=numbers)
        if len(numbers) != self._numbers.n_columns or not self._numbers.hold(numbers):
            return replace(stated, misfit="the witness tells of classes that the release cannot have")
        gone = int((numbers[0, ~stays] > 0).sum())
        numbers = numbers if stays.all() else numbers[:, stays]
        inside = numbers[0] > 0
        if not inside.all():
            numbers, points, hashes = numbers[:, inside], points[inside], hashes[inside]
        boxed = list(zip(self.places, self.covers, strict=True))
        wrong = count_uncovered(numbers, self._numbers, points, boxed)
        alone = [(points[:, at : at + 1], one) for at, one in enumerate(boxed if wrong else ())]
        outside = [one[1].attribute.name for own, one in alone if count_uncovered(numbers, self._numbers, own, [one])]
        tokens = hash_classes(self._contents.key, hashes, numbers)
        sums, sampled = RowSums.of(self._contents.key, tokens), tokens[are_sampled(tokens, self._n_rows)]
        return replace(stated, sums=sums, uncovered=wrong, outside=frozenset(outside), gone=gone, tokens=(sampled,))


class PointReader:
    """Turns batches of a source or population into points of the space that labels cover."""

    def __init__(self, covers: Sequence[Covers], missing: Sequence[str]) -> None:
        self.covers = covers
        self._missing = pa.array(list(missing), type=pa.string())

    def points(self, batch: pa.RecordBatch) -> CodeArray:
        """Return (n_rows, n_attributes) codes."""
        out = np.empty((batch.num_rows, len(self.covers)), dtype=np.int32, order="F")
        for a, cover in enumerate(self.covers):
            values, places = encode(batch.column(cover.attribute.name))
            codes = np.append(cover.places(values), np.int32(cover.missing))
            codes[:-1][self._is_missing(values)] = cover.missing
            out[:, a] = codes.take(places)
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
            values, places = encode(batch.column(name))
            out |= np.append(self._is_missing(values), True)[places]
        return out
