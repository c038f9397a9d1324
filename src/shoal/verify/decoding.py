"""Defended releases: the models also hold for a reader who has everyone's quasi values and knows the method.

In a class, and under each of its labels, no value is more frequent than tau, or than in the whole table. A file that
stays with the data holder has the values of the records under labels. The verifier does not trust it: it must have as
many records as each class publishes under each label, of values that the label covers, and the table with these values
in place of the labels must be true, as the release itself must be. And no record is in a class if a narrower class
covers it (docs/adr/0061-transparent-reader.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.kernels import find_rows
from shoal.manifest import Attribute
from shoal.verify.boxes import BoxTree, Spans
from shoal.verify.classes import read_all_covers, verify_classes
from shoal.verify.coding import PointReader
from shoal.verify.covers import Covers
from shoal.verify.exact import at_most
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import number_rows
from shoal.verify.passes import Given, read_in_steps
from shoal.verify.promises import find_model
from shoal.verify.reading import BATCH, FAULTS, PublishedRows, encode, report_unreadable
from shoal.verify.result import Check
from shoal.verify.truth import ClassNumbers, ProjectedWitness

_VALUE, _RECORDS, _TOTAL = "value", "records", "total"
_CODES = pa.dictionary(pa.int32(), pa.string())
_PENDING = 1 << 20  # rows that are read before equal ones are counted together


def check_defended(rows: PublishedRows, manifest: Manifest, covers: Mapping[str, Covers], given: Given) -> list[Check]:
    """Return a check of each attribute with defended labels, and of where records went; none without a source."""
    checks = []
    values = any((model := find_model(one.model)) and model.about == "values" for one in manifest.promises)
    if given.source is not None and values and manifest.written.method_parameters.get("defend") is True:
        checks.append(_check_resolution(manifest, covers, given))
    for attribute in manifest.attributes if given.source is not None else ():
        if not attribute.defended:
            continue
        try:
            why = _find_undefended(rows, manifest, attribute, given)
        except MemoryError:
            raise
        except FAULTS as fault:
            why = report_unreadable(fault).detail
        held = f"in no class and under no label does a value of {attribute.name} exceed tau and its share in the table"
        checks.append(Check("defended", why is None, held if why is None else f"labels of {attribute.name}: {why}"))
    return checks


def _find_undefended(rows: PublishedRows, manifest: Manifest, attribute: Attribute, given: Given) -> str | None:
    """Say why labels of an attribute are not defended, or cannot be shown to be; None if they are."""
    labelled = given.labelled
    promises = [promise for promise in manifest.promises if promise.model == "tau-l-diversity"]
    taus = [promise.fraction("tau") for promise in promises if (attribute.name,) in promise.subjects]
    if not taus:
        return "no tau-l-diversity is promised that says how much they may tell"
    if labelled is None:
        return "internal/labels.parquet, which tells the values under them, is not there"
    name, covers = attribute.name, attribute.labels or {}
    keys = [one.name for one in manifest.of_role("quasi")]
    columns, own = [*keys, name], f"value of {name}"
    if not {*columns, own, _RECORDS} <= set(labelled.column_names) or not pa.types.is_integer(
        labelled.schema.field(_RECORDS).type
    ):
        return "internal/labels.parquet does not have the columns of this release"
    labels = pa.array([label for label, cover in covers.items() if cover != {"values": [label]}], pa.string())
    under, shown = _count_rows(rows, columns, labels)
    claimed = labelled.filter(pc.is_in(labelled[name], labels))
    if pc.any(pc.less(claimed[_RECORDS], 1)).as_py():
        return "internal/labels.parquet tells of fewer than one record"
    claimed = (
        claimed.group_by([*columns, own]).aggregate([(_RECORDS, "sum")]).rename_columns([*columns, _VALUE, _RECORDS])
    )
    total = claimed.group_by(columns).aggregate([(_RECORDS, "sum")]).rename_columns([*columns, _TOTAL])
    same = under.join(total, columns, join_type="full outer")
    if not pc.all(pc.fill_null(pc.equal(same[_RECORDS], same[_TOTAL]), False)).as_py():
        return "internal/labels.parquet does not tell of the records that each class publishes under each label"
    for pair in claimed.select([name, _VALUE]).group_by([name, _VALUE]).aggregate([]).to_pylist():
        cover, value = covers[pair[name]], pair[_VALUE]
        if not (cover.get("missing") if value is None else value in cover.get("values", ())):
            return "internal/labels.parquet tells of values that their labels do not cover"
    everyone = pa.concat_tables([claimed, shown.append_column(_VALUE, shown[name]).select(claimed.column_names)])
    *by, value = (encode(column.combine_chunks())[1] for column in everyone.select([*columns, _VALUE]).columns)
    records = everyone[_RECORDS].to_numpy()
    if n := _count_excess(by, value, records, len(claimed), min(taus)):
        return f"{n} values are more frequent under a label of a class than tau and than in the table"
    if n := _count_excess(by[:-1], value, records, len(everyone), min(taus)):
        return f"{n} values are more frequent in a class, hidden records included, than tau and than in the table"
    spelled_out = attribute.model_copy(update={"labels": None, "defended": None})
    quasi = tuple(spelled_out if one.name == name else one for one in manifest.attributes if one.name in columns)
    stated = replace(manifest, attributes=quasi, promises=())
    witness = None if given.witness is None else ProjectedWitness(given.witness, manifest, stated)
    alone = replace(given, witness=witness, populations={}, means=replace(given.means, spark=None))
    spelled = _Spelled(rows, columns, labels, claimed.select([*keys, _VALUE, _RECORDS]))
    found = verify_classes(spelled, stated, read_all_covers(stated), alone).checks
    if not found or not all(check.ok and check.done for check in found if check.name == "truth"):
        return "the values that internal/labels.parquet tells are not those of the source"
    return None


def _count_excess(by: Sequence[CodeArray], value: CodeArray, records: IntArray, first: int, tau: Fraction) -> int:
    """Return how many values have more of a group than tau, and than of the whole table; exactly.

    Entries are so many *records* of a value. Groups are those of the *first* entries that agree in all columns of *by*.
    """
    _, group = number_rows(np.stack([np.zeros(first, dtype=np.int32), *(column[:first] for column in by)]))
    pairs, pair = number_rows(np.stack([group, value[:first]]))
    count, size, of_value = (
        np.bincount(codes, weights, minlength=1).astype(np.int64).astype(object)
        for codes, weights in ((pair, records[:first]), (group, records[:first]), (value, records))
    )
    whole = size[pairs[0]]
    holds = at_most(count, whole, tau) | (count * int(records.sum()) <= whole * of_value[pairs[1]]).astype(np.bool_)
    return int((~holds).sum())


def _check_resolution(manifest: Manifest, covers: Mapping[str, Covers], given: Given) -> Check:
    """Check that no source row is in a class if a narrower class covers it: such rows are moved by their values."""
    name, quasi = "resolution", manifest.of_role("quasi")
    if given.witness is None or not all(one.boxed and manifest.is_traced(one) for one in quasi):
        return Check(
            name, True, "not checked: the witness or source values of quasi-identifiers are missing", done=False
        )
    stated = replace(manifest, attributes=quasi, promises=())
    witness, of_class = ProjectedWitness(given.witness, manifest, stated), ClassNumbers.of(stated)
    boxes = np.zeros((of_class.n_columns, 0), dtype=np.int64)
    for begin in range(0, witness.n_rows, BATCH):
        numbers = witness.read(begin, min(BATCH, witness.n_rows - begin))
        if isinstance(numbers, str):
            return Check(name, False, numbers)
        boxes = number_rows(np.concatenate([boxes, numbers], axis=1))[0]
    boxes = boxes[:, boxes[0] > 0]
    labels, own_covers = of_class.unpack(boxes), [covers[one.name] for one in quasi]
    tree, points = BoxTree.of(Spans.of(own_covers, labels)), PointReader(own_covers, manifest.missing_tokens)
    widths = np.stack([cover.widths()[labels[:, a]] for a, cover in enumerate(own_covers)], axis=1)
    moved, begin, columns = 0, 0, [one.name for one in quasi]
    assert given.source is not None  # noqa: S101 - asked for only with a source
    with given.progress.step("resolving people", given.source.n_rows) as step:
        for batch in read_in_steps(given.source, columns, columns, step):
            numbers = witness.read(begin, batch.num_rows)
            begin += batch.num_rows
            if isinstance(numbers, str):
                return Check(name, False, numbers)
            own = find_rows([*boxes], [*numbers])
            inside = np.flatnonzero(own >= 0)
            moved += int(tree.find_narrower(points.points(batch)[inside], own[inside], widths).sum())
    fault = moved and f"{moved} rows are in a class although a narrower class covers them"
    return Check.of(name, fault, "every row is in the narrowest class that covers it")


def _split_rows(rows: PublishedRows, names: Sequence[str], labels: pa.Array) -> Iterator[list[pa.RecordBatch]]:
    """Yield texts of rows whose text in the last of some columns is none of the *labels*, and those of the others."""
    for batch in rows.batches(names):
        *keys, last = (column if column.type == _CODES else column.cast(pa.string()) for column in batch.columns)
        last = last.cast(pa.string())  # its dictionary may have texts that no row has, which need not be values
        is_label, texts = pc.is_in(last, labels), pa.RecordBatch.from_arrays([*keys, last], names=list(names))
        yield [texts.filter(pc.invert(is_label)), texts.filter(is_label)]


def _count_rows(rows: PublishedRows, names: list[str], labels: pa.Array) -> list[pa.Table]:
    """Return the distinct combinations of texts with a label, and of those without one, with their records."""
    found: list[list[pa.Table]] = [[], []]
    for others, labelled in _split_rows(rows, names, labels):
        for several, some in zip(found, (labelled, others), strict=True):
            texts = pa.table([column.cast(pa.string()) for column in some.columns], names=names)
            several.append(texts.append_column(_RECORDS, pa.array(np.ones(len(texts), dtype=np.int64))))
            if sum(map(len, several)) > max(_PENDING, 2 * len(several[0])):
                several[:] = [_sum_rows(several, names)]
    return [_sum_rows(several, names) for several in found]


def _sum_rows(found: list[pa.Table], names: list[str]) -> pa.Table:
    counted = pa.concat_tables(found).group_by(names).aggregate([(_RECORDS, "sum")])
    return counted.select([*names, f"{_RECORDS}_sum"]).rename_columns([*names, _RECORDS])


class _Spelled(PublishedRows):
    """Rows without a label in the last of some columns; for others those of a table, each as often as it counts."""

    def __init__(self, rows: PublishedRows, names: list[str], labels: pa.Array, instead: pa.Table) -> None:
        self._rows, self._labels, self.columns = rows, labels, tuple(names)
        self.schema = pa.schema([(name, pa.string()) for name in names])
        self._table = instead.drop_columns([_RECORDS]).rename_columns(names).cast(self.schema).combine_chunks()
        self._ends = np.cumsum(instead[_RECORDS].to_numpy())

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for others, _ in _split_rows(self._rows, self.columns, self._labels):
            yield others.select(list(columns))
        for start in range(0, int(self._ends[-1]) if len(self._ends) else 0, BATCH):
            row = np.arange(start, min(start + BATCH, int(self._ends[-1])))
            place = pa.array(np.searchsorted(self._ends, row, side="right"))
            yield from self._table.select(list(columns)).take(place).combine_chunks().to_batches()
