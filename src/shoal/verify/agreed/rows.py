"""One pass over the rows of a release by a plan, and one over its source: how often a class has a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.progress import Progress
from shoal.verify.agreed.plan import CLASS, Plan
from shoal.verify.ahead import prepared
from shoal.verify.counting import Histograms, histograms_of
from shoal.verify.kernels import paired
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import LabelReader
from shoal.verify.reading import PublishedRows, coded
from shoal.verify.tally import Tally

if TYPE_CHECKING:
    from shoal.sources import Source


@dataclass(frozen=True, slots=True, eq=False)
class AgreedRows:
    """What the published rows say."""

    rows: int
    strange_classes: int  # rows whose class is no number of a class
    strange_values: int  # rows whose sensitive value is none of the plan's
    labels: CodeArray  # (n_classes, n_quasi) label numbers, -1 for classes without rows
    mixed: BoolArray  # (n_classes,) rows of the class bear different labels
    unknown: tuple[str, ...]  # attributes with texts that are no labels
    idle: dict[str, int]  # attribute -> labels that no row has
    keys: KeyArray  # distinct class << 32 | value, ascending
    counts: IntArray  # how often each occurs
    histograms: Histograms


def placed(column: pa.Array, known: pa.Array) -> CodeArray:
    """Return (n_rows,) the place of each value, as text, among the known ones; their number for any other, or none.

    >>> placed(pa.array([34, None, 7]), pa.array(["7", "34"])).tolist()
    [1, 2, 0]
    """
    values, places = coded(column)
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 and 0.0 are one value
    found = pc.index_in(values.cast(pa.string()), value_set=known, skip_nulls=True).fill_null(len(known))
    return np.append(np.asarray(found), len(known)).astype(np.int32)[places]


def read_rows(rows: PublishedRows, manifest: Manifest, plan: Plan, progress: Progress) -> AgreedRows:
    """Read the release once."""
    readers = [LabelReader(attribute) for attribute in manifest.of_role("quasi")]
    numbers = pa.array(np.arange(1, plan.n_classes + 1)).cast(pa.string())

    def prepare(batch: pa.RecordBatch) -> tuple[CodeArray, CodeArray, list[CodeArray]]:
        labels = [reader.read(batch.column(reader.name)) for reader in readers]
        return (
            placed(batch.column(CLASS), numbers),
            placed(batch.column(plan.sensitive), plan.sensitive_values),
            labels,
        )

    n_rows = strange_classes = strange_values = 0
    table = np.full((plan.n_classes, len(readers)), -1, dtype=np.int32)
    mixed = np.zeros(plan.n_classes, dtype=np.bool_)
    sizes = np.zeros(plan.n_classes, dtype=np.int64)
    tally = Tally()
    with progress.step("reading the release", manifest.rows) as step:
        for owner, value, labels in prepared(rows.batches(manifest.columns), prepare):
            n_rows += owner.shape[0]
            known = (owner < plan.n_classes) & (value < len(plan.sensitive_values))
            strange_classes += int((owner == plan.n_classes).sum())
            strange_values += int((value == len(plan.sensitive_values)).sum())
            own = owner[known]
            for place, label in enumerate(labels):
                _note(table[:, place], mixed, own, label[known])
            sizes += np.bincount(own, minlength=plan.n_classes)
            tally.add(paired(own, value[known]))
            step.advance(owner.shape[0])
    keys, counts = tally.result()
    texts = tuple(plan.sensitive_values.to_pylist())
    return AgreedRows(
        rows=n_rows,
        strange_classes=strange_classes,
        strange_values=strange_values,
        labels=table,
        mixed=mixed,
        unknown=tuple(reader.name for reader in readers if reader.met_unknown),
        idle={reader.name: reader.idle for reader in readers if reader.idle},
        keys=keys,
        counts=counts,
        histograms=histograms_of(tally, sizes, texts, len(texts)),
    )


def _note(label_of: CodeArray, mixed: BoolArray, owner: CodeArray, label: CodeArray) -> None:
    """Write down the label of each class where there is none yet, and which classes bear another one too."""
    new = label_of[owner] < 0
    label_of[owner[new]] = label[new]
    mixed[owner[label_of[owner] != label]] = True


@dataclass(frozen=True, slots=True, eq=False)
class AgreedSource:
    """What the source says of the same classes."""

    rows: int
    outside: int  # rows with a value or a combination that the plan does not have
    keys: KeyArray  # distinct class << 32 | value, ascending
    counts: IntArray


def read_source(source: Source, plan: Plan, progress: Progress) -> AgreedSource:
    """Read the source once and look up the class of every row."""
    columns, known = [*plan.quasi, plan.sensitive], [*plan.quasi_values, plan.sensitive_values]
    tally, n_points = Tally(), len(plan.class_of)
    n_rows = outside = 0
    with progress.step("comparing with the source", source.n_rows) as step:
        for codes in prepared(source.batches(columns, dictionary=columns), lambda batch: list(_codes(batch, known))):
            *quasi, value = codes
            point = plan.numbers.ids(quasi)
            inside = (point < n_points) & (value < len(plan.sensitive_values))
            n_rows += point.shape[0]
            outside += int((~inside).sum())
            tally.add(paired(plan.class_of[point[inside]], value[inside]))
            step.advance(point.shape[0])
    return AgreedSource(n_rows, outside, *tally.result())


def _codes(batch: pa.RecordBatch, known: Sequence[pa.Array]) -> Iterator[CodeArray]:
    for column, values in zip(batch.columns, known, strict=True):
        yield placed(column, values)


def misplaced(released: AgreedRows, original: AgreedSource) -> int:
    """Return how many rows of either table have no counterpart with their class and value in the other.

    Half of them, where both tables have as many rows.
    """
    keys = np.unique(np.concatenate([released.keys, original.keys]))
    difference = np.zeros(keys.shape[0], dtype=np.int64)
    difference[np.searchsorted(keys, released.keys)] += released.counts
    difference[np.searchsorted(keys, original.keys)] -= original.counts
    return int(max(difference[difference > 0].sum(), -difference[difference < 0].sum()))
