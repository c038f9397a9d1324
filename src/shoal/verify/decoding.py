"""Defended labels: under no label of a class is a value more frequent than tau, or than in the whole table.

Which values the records under a label have is given by a file that stays with the data holder. It is not believed: it
must tell of as many records as each class publishes under each label, of values that the label covers, and the table
with these values in place of the labels must be true, as the release itself must be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.manifest import Attribute
from shoal.verify.classes import read_all_covers, verify_classes
from shoal.verify.exact import at_most
from shoal.verify.manifest import Manifest
from shoal.verify.passes import Given
from shoal.verify.reading import BATCH, FAULTS, PublishedRows, encode, report_unreadable
from shoal.verify.result import Check
from shoal.verify.truth import ProjectedWitness

_VALUE, _RECORDS, _TOTAL = "value", "records", "total"
_CODES = pa.dictionary(pa.int32(), pa.string())
_PENDING = 1 << 20  # rows that are read before equal ones are counted together


def check_defended(rows: PublishedRows, manifest: Manifest, given: Given) -> list[Check]:
    """Return a check of each attribute whose labels the manifest says to be defended; none without a source."""
    checks = []
    for attribute in manifest.attributes if given.source is not None else ():
        if not attribute.defended:
            continue
        try:
            why = _find_undefended(rows, manifest, attribute, given)
        except MemoryError:
            raise
        except FAULTS as fault:
            why = report_unreadable(fault).detail
        held = f"no label of {attribute.name} tells more of a class than tau, or than the table tells of everybody"
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
    under, kept = _count_rows(rows, columns, labels)
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
    entries = claimed.join(total, columns)
    count, size = (entries[column].to_numpy().astype(object) for column in (_RECORDS, _TOTAL))
    values, places = encode(entries[_VALUE].combine_chunks())
    of_value = np.array([kept[value] for value in [*values.to_pylist(), None]], dtype=object)  # in the whole table
    np.add.at(of_value, places, count)
    n_rows = kept.total() + count.sum()
    holds = at_most(count, size, min(taus)) | np.asarray(count * n_rows <= size * of_value[places], dtype=np.bool_)
    if not holds.all():
        return f"{int((~holds).sum())} values are more frequent under a label of a class than tau and than in the table"
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


def _split_rows(rows: PublishedRows, names: Sequence[str], labels: pa.Array) -> Iterator[list[pa.RecordBatch]]:
    """Yield texts of rows whose text in the last of some columns is none of the *labels*, and those of the others."""
    for batch in rows.batches(names):
        *keys, last = (column if column.type == _CODES else column.cast(pa.string()) for column in batch.columns)
        last = last.cast(pa.string())  # its dictionary may have texts that no row has, which need not be values
        is_label, texts = pc.is_in(last, labels), pa.RecordBatch.from_arrays([*keys, last], names=list(names))
        yield [texts.filter(pc.invert(is_label)), texts.filter(is_label)]


def _count_rows(rows: PublishedRows, names: list[str], labels: pa.Array) -> tuple[pa.Table, Counter[str | None]]:
    """Return the distinct combinations of texts with a label, with their records, and how many keep each value."""
    found: list[pa.Table] = []
    kept: Counter[str | None] = Counter()
    for others, labelled in _split_rows(rows, names, labels):
        kept.update({one["values"]: one["counts"] for one in others.column(names[-1]).value_counts().to_pylist()})
        texts = pa.table([column.cast(pa.string()) for column in labelled.columns], names=names)
        found.append(texts.append_column(_RECORDS, pa.array(np.ones(len(texts), dtype=np.int64))))
        if sum(map(len, found)) > max(_PENDING, 2 * len(found[0])):
            found = [_sum_rows(found, names)]
    return _sum_rows(found, names), kept


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
