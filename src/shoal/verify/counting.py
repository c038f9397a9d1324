"""One pass over the published rows: classes, their sizes, and the sensitive values in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.progress import Progress
from shoal.verify.ahead import prepared
from shoal.verify.attributes import Attribute
from shoal.verify.contents import MISSING, TEXT, Contents, common_type
from shoal.verify.kernels import kernel, looked_up, mark, paired
from shoal.verify.manifest import Manifest
from shoal.verify.reading import PublishedRows, coded
from shoal.verify.sums import BoxSums
from shoal.verify.tally import Combinations, Interner, Tally

_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_VALUE = "value"


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
    boxed_labels: CodeArray  # (n_boxes, n_boxed) distinct labels of quasi and generalized sensitive attributes
    sums: BoxSums | None  # over the contents of each box
    contents_of: Callable[[CodeArray, Interner], tuple[KeyArray, IntArray]]  # the distinct (content, box)


class LabelReader:
    """Numbers labels as ``read_covers`` does; after them come missing values, where legal, and unknown texts."""

    def __init__(self, attribute: Attribute) -> None:
        labels = list(attribute.labels or {})
        self.name = attribute.name
        self._labels = pa.array(labels, type=pa.string())
        self._unknown = len(labels) + attribute.may_keep_missing
        self.radix = self._unknown + 1
        self._used: BoolArray = np.zeros(self.radix, dtype=np.bool_)

    def read(self, column: pa.Array) -> CodeArray:
        """Return (n_rows,) label numbers; several threads may read at a time."""
        values, places = coded(column)
        found = pc.index_in(values.cast(pa.string()), value_set=self._labels).fill_null(self._unknown)
        numbers = np.append(np.asarray(found), len(self._labels)).astype(np.int32)
        present = np.zeros(numbers.shape[0], dtype=np.bool_)
        mark(places, present)
        self._used[numbers[present]] = True
        return _gathered(numbers, places)

    @property
    def met_unknown(self) -> bool:
        """Whether a row has a text that is no label."""
        return bool(self._used[self._unknown])

    @property
    def idle(self) -> int:
        """How many labels no row has."""
        return int((~self._used[: len(self._labels)]).sum())


class ValueReader:
    """Numbers the values of a sensitive attribute in the order in which they are met.

    Values that are equal in the type *kind* are one, however they are spelled, and so are all that mean missing: else
    a release could make one value look like several.

    >>> reader = ValueReader(pa.float64(), ["?"])
    >>> reader.read(*coded(pa.array(["1", "1.0", None, "?", "2"]))).tolist(), reader.texts
    ([0, 0, 1, 1, 2], ['1', None, '2'])
    """

    def __init__(self, kind: pa.DataType, missing: Sequence[str]) -> None:
        self._contents = Contents([_VALUE], [kind], missing)
        self._codes: dict[int, int] = {}  # word of a value -> its number
        self.texts: list[str | None] = []  # how each number's value is spelled where it is first met

    @property
    def count(self) -> int:
        """How many different values were met."""
        return len(self.texts)

    def read(self, values: pa.Array, places: CodeArray) -> CodeArray:
        """Return (n_rows,) numbers of the rows' values, given as ``coded`` does."""
        spelled = values.cast(pa.string()).to_pylist()
        words = self._contents.words(_VALUE, values)
        present = np.zeros(len(values) + 1, dtype=np.bool_)
        mark(places, present)
        numbers = np.zeros(len(values) + 1, dtype=np.int32)
        for place in np.flatnonzero(present).tolist():
            word = int(words[place])
            numbers[place] = self._codes.setdefault(word, len(self._codes))
            if self.count < len(self._codes):
                self.texts.append(None if word == MISSING else spelled[place])
        return _gathered(numbers, places)


def _gathered(numbers: CodeArray, places: CodeArray) -> CodeArray:
    out = np.empty(places.shape[0], dtype=np.int32)
    looked_up(numbers, places, out)
    return out


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
        self.classes = Combinations([self.labels[name].radix for name in self.quasi])
        same = len(boxed) == len(self.quasi)
        self.boxes = self.classes if same else Combinations([reader.radix for reader in self.labels.values()])

    def batches(self) -> Iterator[_Prepared]:
        return prepared(self._rows.batches(self._columns), self._prepare)

    def _prepare(self, batch: pa.RecordBatch) -> _Prepared:
        labels = {name: reader.read(batch.column(name)) for name, reader in self.labels.items()}
        return _Prepared(
            rows=batch.num_rows,
            labels=labels,
            keys=self.classes.first_keys([labels[name] for name in self.quasi], batch.num_rows),
            values={name: coded(batch.column(name)) for name in self.sensitive},
            hashes=None if self._contents is None else self._contents.hashes(batch),
        )

    def owners(self, batch: _Prepared) -> tuple[CodeArray, CodeArray]:
        """Return (n_rows,) the class of each row, and its box."""
        owner = self.classes.ids([batch.labels[name] for name in self.quasi], batch.rows, batch.keys)
        if self.boxes is self.classes:
            return owner, owner
        return owner, self.boxes.ids([batch.labels[name] for name in self.labels], batch.rows)

    def contents_of(self, places: CodeArray, numbers: Interner) -> tuple[KeyArray, IntArray]:
        """Read the rows again; return the distinct keys content << 32 | place of the box, ascending, and their counts.

        Contents have the numbers that *numbers* gives them; boxes without a place (-1) are left out.
        """
        tally = Tally()
        for batch in self.batches():
            _, box = self.owners(batch)
            assert batch.hashes is not None  # noqa: S101 - asked for only when a source is given
            place = _gathered(places, box)
            wanted = place >= 0
            tally.add(paired(numbers.ids(batch.hashes[wanted]), place[wanted]))
        return tally.result()


def count_rows(
    rows: PublishedRows,
    manifest: Manifest,
    subjects: Sequence[tuple[str, ...]],
    contents: Contents | None,
    progress: Progress,
) -> Counted:
    """Read the release once; *contents* is given when rows will be compared with a source."""
    reader = _Reader(rows, manifest, contents)
    values = {a.name: _value_reader(a, rows.schema, manifest, contents) for a in manifest.of_role("sensitive")}
    joints = {subject: [Interner() for _ in subject[1:]] for subject in subjects}
    tallies = {subject: Tally() for subject in subjects}
    sizes: IntArray = np.zeros(0, dtype=np.int64)
    sums = None if contents is None else BoxSums(contents.key)
    n_rows = 0
    with progress.step("reading the release", manifest.rows) as step:
        for batch in reader.batches():
            n_rows += batch.rows
            owner, box = reader.owners(batch)
            sizes = np.append(sizes, np.zeros(reader.classes.count - sizes.shape[0], dtype=np.int64))
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
    class_labels = reader.classes.tuples()
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
    attribute: Attribute, published: pa.Schema, manifest: Manifest, contents: Contents | None
) -> ValueReader:
    """Return what numbers the values of a sensitive attribute, equal ones as *contents* has them; labels are texts."""
    if attribute.boxed:
        return ValueReader(TEXT, ())
    own = published.field(attribute.name).type
    kind = common_type(own, own) if contents is None else contents.kind_of(attribute.name)
    return ValueReader(kind, manifest.missing_tokens)


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
