"""One pass over the published rows: classes, their sizes, and the sensitive values in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.progress import Progress
from shoal.verify.contents import Contents
from shoal.verify.manifest import Attribute, Manifest
from shoal.verify.reading import PublishedRows, coded
from shoal.verify.tally import Combinations, Interner, Tally

_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """Sensitive values of every class, sparse: class i has entries ``start[i]:start[i + 1]``, by value."""

    sizes: IntArray  # (n_classes,)
    start: IntArray  # (n_classes + 1,)
    value: IntArray  # (n_entries,)
    count: IntArray  # (n_entries,) all > 0
    values: tuple[Any, ...]  # (n_values,) what the codes stand for, None = missing; () for joint values
    n_values: int

    @property
    def owner(self) -> IntArray:
        """(n_entries,) the class of each entry."""
        return np.repeat(np.arange(self.sizes.shape[0], dtype=np.int64), np.diff(self.start))

    @property
    def whole(self) -> IntArray:
        """(n_values,) counts in the published table."""
        return np.bincount(self.value, weights=self.count, minlength=self.n_values).astype(np.int64)

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
    contents: tuple[KeyArray, IntArray] | None  # distinct hashes of (content, box) and their counts


class _LabelReader:
    def __init__(self, attribute: Attribute) -> None:
        labels = list(attribute.labels or {})
        self.name = attribute.name
        self._labels = pa.array(labels, type=pa.string())
        self.radix = len(labels) + 1
        self.used: BoolArray = np.zeros(self.radix, dtype=np.bool_)

    def read(self, column: pa.Array) -> IntArray:
        values, places = coded(column)
        found = pc.index_in(values.cast(pa.string()), value_set=self._labels).fill_null(self.radix - 1)
        numbers = np.append(np.asarray(found).astype(np.int64), self.radix - 1)
        codes = numbers[places]
        present = np.bincount(places, minlength=len(values) + 1) > 0
        self.used[numbers[present]] = True
        return codes


class _ValueReader:
    def __init__(self) -> None:
        self.codes: dict[Any, int] = {}

    def read(self, column: pa.Array) -> IntArray:
        values, places = coded(column)
        present = np.bincount(places, minlength=len(values) + 1) > 0
        numbers = np.zeros(len(values) + 1, dtype=np.int64)
        for place, value in enumerate([*values.to_pylist(), None]):
            if present[place]:
                key = None if value != value else value  # NaN is missing, too
                numbers[place] = self.codes.setdefault(key, len(self.codes))
        return numbers[places]


def count_rows(
    rows: PublishedRows,
    manifest: Manifest,
    subjects: Sequence[tuple[str, ...]],
    contents: Contents | None,
    progress: Progress,
) -> Counted:
    """Read the release once; *contents* is given when rows will be compared with a source."""
    quasi = manifest.of_role("quasi")
    boxed = tuple(attribute for attribute in manifest.attributes if attribute.boxed)
    readers = {attribute.name: _LabelReader(attribute) for attribute in boxed}
    classes = Combinations([readers[attribute.name].radix for attribute in quasi])
    boxes = Combinations([readers[attribute.name].radix for attribute in boxed])
    one_numbering = len(boxed) == len(quasi)
    values = {attribute.name: _ValueReader() for attribute in manifest.of_role("sensitive")}
    joints = {subject: [Interner() for _ in subject[1:]] for subject in subjects}
    tallies = {subject: Tally() for subject in subjects}
    sizes: IntArray = np.zeros(0, dtype=np.int64)
    tally_contents = Tally()
    n_rows = 0
    with progress.step("reading the release", manifest.rows) as step:
        for batch in rows.batches(_needed(rows, manifest, contents)):
            n_rows += batch.num_rows
            labels = {attribute.name: readers[attribute.name].read(batch.column(attribute.name)) for attribute in boxed}
            owner = classes.ids([labels[attribute.name] for attribute in quasi], batch.num_rows)
            box = owner if one_numbering else boxes.ids([labels[a.name] for a in boxed], batch.num_rows)
            sizes = _add(sizes, np.bincount(owner, minlength=classes.count))
            codes = {name: reader.read(batch.column(name)) for name, reader in values.items()}
            high = owner.astype(np.uint64) << _SHIFT
            for subject, tally in tallies.items():
                joint = codes[subject[0]]
                for interner, name in zip(joints[subject], subject[1:], strict=True):
                    joint = interner.ids((joint.astype(np.uint64) << _SHIFT) | codes[name].astype(np.uint64))
                tally.add(high | joint.astype(np.uint64))
            if contents is not None:
                tally_contents.add(contents.with_box(contents.hashes(batch), box))
            step.advance(batch.num_rows)
    class_labels = classes.tuples()
    return Counted(
        rows=n_rows,
        labels=class_labels,
        sizes=sizes,
        histograms={
            subject: _histograms(
                tally,
                sizes,
                tuple(values[subject[0]].codes) if len(subject) == 1 else (),
                joints[subject][-1].count if len(subject) > 1 else len(values[subject[0]].codes),
            )
            for subject, tally in tallies.items()
        },
        unknown=tuple(name for name, reader in readers.items() if reader.used[-1]),
        idle={name: int((~reader.used[:-1]).sum()) for name, reader in readers.items() if not reader.used[:-1].all()},
        boxed_labels=class_labels if one_numbering else boxes.tuples(),
        contents=tally_contents.result() if contents is not None else None,
    )


def _needed(rows: PublishedRows, manifest: Manifest, contents: Contents | None) -> list[str]:
    """Return the columns to read: text always, for its dictionaries; plain numbers only to compare them."""
    return [
        attribute.name
        for attribute in manifest.attributes
        if contents is not None
        or attribute.role != "insensitive"
        or pa.types.is_string(rows.schema.field(attribute.name).type)
    ]


def _add(sizes: IntArray, more: IntArray) -> IntArray:
    more[: sizes.shape[0]] += sizes
    return more


def _histograms(tally: Tally, sizes: IntArray, values: tuple[Any, ...], n_values: int) -> Histograms:
    keys, counts = tally.result()
    start = np.zeros(sizes.shape[0] + 1, dtype=np.int64)
    np.cumsum(np.bincount((keys >> _SHIFT).astype(np.int64), minlength=sizes.shape[0]), out=start[1:])
    value = (keys & _LOW).astype(np.int64)
    return Histograms(sizes=sizes, start=start, value=value, count=counts, values=values, n_values=n_values)
