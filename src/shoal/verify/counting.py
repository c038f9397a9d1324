"""One pass over the published rows: classes, their sizes, and the sensitive values in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, IntArray, KeyArray
from shoal.progress import Progress
from shoal.verify.ahead import prepared
from shoal.verify.attributes import Attribute
from shoal.verify.contents import TEXT, Contents
from shoal.verify.kernels import kernel, paired
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import LabelReader, ValueReader, gathered_codes
from shoal.verify.quasi_values import QuasiValues
from shoal.verify.reading import PublishedRows, coded
from shoal.verify.sums import BoxSums
from shoal.verify.tally import Combinations, Interner, Tally

_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """Sensitive values of every class, sparse: class i has entries ``start[i]:start[i + 1]``, by value.

    Where values are generalized, a record is cut into ``units``, and sizes and counts are in these.
    """

    sizes: IntArray  # (n_classes,)
    start: IntArray  # (n_classes + 1,)
    value: IntArray  # (n_entries,)
    count: IntArray  # (n_entries,) all > 0
    values: tuple[str | None, ...]  # (n_values,) what the codes stand for, None = missing; () for joint values
    n_values: int
    units: int = 1

    @property
    def owner(self) -> IntArray:
        """(n_entries,) the class of each entry."""
        return np.repeat(np.arange(self.sizes.shape[0], dtype=np.int64), np.diff(self.start))

    @property
    def whole(self) -> IntArray:
        """(n_values,) counts in the published table."""
        out = np.zeros(self.n_values, dtype=self.count.dtype)
        np.add.at(out, self.value, self.count)
        return out

    @property
    def total(self) -> int:
        """Rows of the published table."""
        return int(self.sizes.sum())


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """What the published rows say."""

    rows: int
    labels: CodeArray  # (n_classes, n_quasi) label numbers, in the order of the manifest
    sizes: IntArray  # (n_classes,)
    histograms: dict[tuple[str, ...], Histograms]
    unknown: tuple[str, ...]  # attributes with texts that are no labels
    idle: dict[str, int]  # attribute -> labels that no row has
    boxed_labels: CodeArray  # (n_boxes, n_boxed) distinct labels of attributes that source rows are matched by
    sums: BoxSums | None  # over the contents of each box
    contents_of: Callable[[CodeArray, Interner], tuple[KeyArray, IntArray]]  # the distinct (content, box)


@kernel
def _count_each(owner: CodeArray, sizes: IntArray) -> None:
    for i in range(owner.shape[0]):
        sizes[owner[i]] += 1


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    """What a batch tells before its classes have numbers."""

    rows: int
    labels: dict[str, CodeArray]
    keys: KeyArray
    values: dict[str, tuple[pa.Array, CodeArray]]
    hashes: KeyArray | None


class _Reader:
    """Reads the published rows, as often as needed; a class and a box keep the numbers of the first reading."""

    def __init__(self, rows: PublishedRows, manifest: Manifest, contents: Contents | None) -> None:
        self._rows = rows
        self._columns = _needed(rows, manifest, contents)
        self._contents = contents
        self.quasi = [attribute.name for attribute in manifest.of_role("quasi")]
        self.sensitive = [attribute.name for attribute in manifest.of_role("sensitive")]
        boxed = [attribute for attribute in manifest.attributes if attribute.boxed]
        self.labels = {attribute.name: LabelReader(attribute) for attribute in boxed}
        plain = [attribute.name for attribute in manifest.of_role("quasi") if not attribute.boxed]
        self.values = QuasiValues(plain, rows.schema) if plain else None
        labelled = [] if plain else self.quasi
        self.classes = Combinations([self.labels[name].radix for name in labelled])
        self.boxed = [attribute.name for attribute in boxed if manifest.traced(attribute)]
        same = self.boxed == self.quasi
        self.boxes = self.classes if same else Combinations([self.labels[name].radix for name in self.boxed])

    def batches(self) -> Iterator[_Prepared]:
        return prepared(self._rows.batches(self._columns), self._prepare)

    def _prepare(self, batch: pa.RecordBatch) -> _Prepared:
        labels = {name: reader.read(batch.column(name)) for name, reader in self.labels.items()}
        if self.values is None:
            keys = self.classes.first_keys([labels[name] for name in self.quasi], batch.num_rows)
        else:
            keys = self.values.hashes(batch)
        return _Prepared(
            rows=batch.num_rows,
            labels=labels,
            keys=keys,
            values={name: coded(batch.column(name)) for name in self.sensitive},
            hashes=None if self._contents is None else self._contents.hashes(batch),
        )

    def owners(self, batch: _Prepared) -> tuple[CodeArray, CodeArray]:
        """Return (n_rows,) the class of each row, and its box."""
        if self.values is None:
            owner = self.classes.ids([batch.labels[name] for name in self.quasi], batch.rows, batch.keys)
        else:
            owner = self.values.ids(batch.keys)
        if self.boxes is self.classes:
            return owner, owner
        return owner, self.boxes.ids([batch.labels[name] for name in self.boxed], batch.rows)

    @property
    def n_classes(self) -> int:
        """How many classes were met."""
        return self.classes.count if self.values is None else self.values.count

    @property
    def class_labels(self) -> CodeArray:
        """(n_classes, n_quasi) labels; none where values are published as they are."""
        return self.classes.tuples() if self.values is None else np.empty((self.n_classes, 0), dtype=np.int32)

    def contents_of(self, places: CodeArray, numbers: Interner) -> tuple[KeyArray, IntArray]:
        """Read the rows again; return the distinct keys content << 32 | place of the box, ascending, and their counts.

        Contents have the numbers that *numbers* gives them; boxes without a place (-1) are left out.
        """
        tally = Tally()
        for batch in self.batches():
            _, box = self.owners(batch)
            assert batch.hashes is not None  # noqa: S101 - asked for only when a source is given
            place = gathered_codes(places, box)
            wanted = place >= 0
            tally.add(paired(numbers.ids(batch.hashes[wanted]), place[wanted]))
        return tally.result()


def count_rows(
    rows: PublishedRows,
    manifest: Manifest,
    subjects: Sequence[tuple[str, ...]],
    contents: Contents | None,
    progress: Progress,
    source: pa.Schema | None = None,
) -> Counted:
    """Read the release once; *contents* and the schema of the *source* are given when rows will be compared with it."""
    reader = _Reader(rows, manifest, contents)
    values = {a.name: _value_reader(a, rows.schema, manifest, source) for a in manifest.of_role("sensitive")}
    joints = {subject: [Interner() for _ in subject[1:]] for subject in subjects}
    tallies = {subject: Tally() for subject in subjects}
    sizes: IntArray = np.zeros(0, dtype=np.int64)
    sums = None if contents is None else BoxSums(contents.key)
    n_rows = 0
    with progress.step("reading the release", manifest.rows) as step:
        for batch in reader.batches():
            n_rows += batch.rows
            owner, box = reader.owners(batch)
            sizes = np.append(sizes, np.zeros(reader.n_classes - sizes.shape[0], dtype=np.int64))
            _count_each(owner, sizes)
            codes = {name: values[name].read(*batch.values[name]) for name in reader.sensitive}
            for subject, tally in tallies.items():
                joint = codes[subject[0]]
                for interner, name in zip(joints[subject], subject[1:], strict=True):
                    joint = interner.ids(paired(joint, codes[name]))
                tally.add(paired(owner, joint))
            if sums is not None and batch.hashes is not None:
                sums.add(box, batch.hashes, reader.boxes.count)
            step.advance(batch.rows)
    class_labels = reader.class_labels
    labels = reader.labels
    return Counted(
        rows=n_rows,
        labels=class_labels,
        sizes=sizes,
        histograms={
            subject: histograms_of(
                tally,
                sizes,
                tuple(values[subject[0]].texts) if len(subject) == 1 else (),
                joints[subject][-1].count if len(subject) > 1 else values[subject[0]].count,
            )
            for subject, tally in tallies.items()
        },
        unknown=tuple(name for name, one in labels.items() if one.met_unknown),
        idle={name: one.idle for name, one in labels.items() if one.idle},
        boxed_labels=class_labels if reader.boxes is reader.classes else reader.boxes.tuples(),
        sums=sums,
        contents_of=reader.contents_of,
    )


def _value_reader(
    attribute: Attribute, published: pa.Schema, manifest: Manifest, source: pa.Schema | None
) -> ValueReader:
    """Return what numbers the values of a sensitive attribute, equal ones as in both tables; labels are texts."""
    if attribute.boxed:
        return ValueReader(TEXT, ())
    own = published.field(attribute.name).type
    other = own if source is None else source.field(attribute.name).type
    return ValueReader(manifest.kind_of(attribute.name, own, other), manifest.missing_tokens)


def _needed(rows: PublishedRows, manifest: Manifest, contents: Contents | None) -> list[str]:
    """Return the columns to read: text always, for its dictionaries; plain numbers only to compare them."""
    return [
        attribute.name
        for attribute in manifest.attributes
        if contents is not None
        or attribute.role != "insensitive"
        or pa.types.is_string(rows.schema.field(attribute.name).type)
    ]


@kernel
def _split(keys: KeyArray, n_classes: int) -> tuple[IntArray, IntArray]:
    """Return where the keys of each class start, and the value of each key; keys ascend."""
    start = np.zeros(n_classes + 1, dtype=np.int64)
    value = np.empty(keys.shape[0], dtype=np.int64)
    for i in range(keys.shape[0]):
        start[(keys[i] >> _SHIFT) + np.uint64(1)] += 1
        value[i] = keys[i] & _LOW
    for owner in range(n_classes):
        start[owner + 1] += start[owner]
    return start, value


def histograms_of(tally: Tally, sizes: IntArray, values: tuple[str | None, ...], n_values: int) -> Histograms:
    """Return the sparse histograms of keys class << 32 | value; *values* are what the codes stand for."""
    keys, counts = tally.result()
    start, value = _split(keys, sizes.shape[0])
    return Histograms(sizes=sizes, start=start, value=value, count=counts, values=values, n_values=n_values)
