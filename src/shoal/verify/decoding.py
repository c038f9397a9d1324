"""Defended labels: under no label of a class is a value more frequent than tau, or than in the whole table.

Which values the records under a label have is given by a file that stays with the data holder. It is not believed: it
must tell of as many records as each class publishes under each label, of values that the label covers, and the table
with these values in place of the labels must be true, as the release itself must be.
"""

from __future__ import annotations

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
from shoal.verify.reading import BATCH, FAULTS, PublishedRows, report_unreadable
from shoal.verify.result import Check
from shoal.verify.truth import ProjectedWitness

_VALUE, _RECORDS, _TOTAL = "value", "records", "total"
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
    shown = _count_rows(rows, columns)
    labels = pa.array([label for label, cover in covers.items() if cover != {"values": [label]}], pa.string())
    claimed = labelled.filter(pc.is_in(labelled[name], labels))
    if pc.any(pc.less(claimed[_RECORDS], 1)).as_py():
        return "internal/labels.parquet tells of fewer than one record"
    claimed = (
        claimed.group_by([*columns, own]).aggregate([(_RECORDS, "sum")]).rename_columns([*columns, _VALUE, _RECORDS])
    )
    total = claimed.group_by(columns).aggregate([(_RECORDS, "sum")]).rename_columns([*columns, _TOTAL])
    under = shown.filter(pc.is_in(shown[name], labels))
    same = under.join(total, columns, join_type="full outer")
    if not pc.all(pc.fill_null(pc.equal(same[_RECORDS], same[_TOTAL]), False)).as_py():
        return "internal/labels.parquet does not tell of the records that each class publishes under each label"
    for pair in claimed.select([name, _VALUE]).group_by([name, _VALUE]).aggregate([]).to_pylist():
        cover, value = covers[pair[name]], pair[_VALUE]
        if not (cover.get("missing") if value is None else value in cover.get("values", ())):
            return "internal/labels.parquet tells of values that their labels do not cover"
    kept = shown.filter(pc.invert(pc.fill_null(pc.is_in(shown[name], labels), False)))
    kept = kept.append_column(_VALUE, kept[name])
    everything = pa.concat_tables([one.select([*keys, _VALUE, _RECORDS]) for one in (kept, claimed)])
    table = everything.group_by(_VALUE).aggregate([(_RECORDS, "sum")]).rename_columns([_VALUE, "base"])
    entries = claimed.join(total, columns)
    # join() finds no missing values: these are filled in by a text that no value has
    entries = entries.set_column(entries.column_names.index(_VALUE), _VALUE, _never_null(entries[_VALUE]))
    entries = entries.join(table.set_column(0, _VALUE, _never_null(table[_VALUE])), _VALUE)
    count, size, base = (entries[column].to_numpy().astype(object) for column in (_RECORDS, _TOTAL, "base"))
    n_rows = int(pc.sum(shown[_RECORDS]).as_py() or 0)
    holds = at_most(count, size, min(taus)) | np.asarray(count * n_rows <= size * base, dtype=np.bool_)
    if not holds.all():
        return f"{int((~holds).sum())} values are more frequent under a label of a class than tau and than in the table"
    spelled_out = attribute.model_copy(update={"labels": None, "defended": None})
    quasi = tuple(spelled_out if one.name == name else one for one in manifest.attributes if one.name in columns)
    stated = replace(manifest, attributes=quasi, promises=())
    everything = everything.rename_columns([*keys, name, _RECORDS])
    witness = None if given.witness is None else ProjectedWitness(given.witness, manifest, stated)
    alone = replace(given, witness=witness, populations={}, means=replace(given.means, spark=None))
    found = verify_classes(_Repeated(everything), stated, read_all_covers(stated), alone).checks
    if not found or not all(check.ok and check.done for check in found if check.name == "truth"):
        return "the values that internal/labels.parquet tells are not those of the source"
    return None


def _never_null(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.is_valid(column), pc.binary_join_element_wise("=", pc.fill_null(column, ""), ""), "?")


def _count_rows(rows: PublishedRows, names: list[str]) -> pa.Table:
    """Return the distinct combinations of texts in some columns, and how many records have each."""
    found: list[pa.Table] = []
    for batch in rows.batches(names):
        texts = pa.table([column.cast(pa.string()) for column in batch.columns], names=names)
        found.append(texts.append_column(_RECORDS, pa.array(np.ones(len(texts), dtype=np.int64))))
        if sum(map(len, found)) > max(_PENDING, 2 * len(found[0])):
            found = [_sum_rows(found, names)]
    return _sum_rows(found, names)


def _sum_rows(found: list[pa.Table], names: list[str]) -> pa.Table:
    counted = pa.concat_tables(found).group_by(names).aggregate([(_RECORDS, "sum")])
    return counted.select([*names, f"{_RECORDS}_sum"]).rename_columns([*names, _RECORDS])


class _Repeated(PublishedRows):
    """Rows of a table, each as often as it counts records."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table.drop_columns([_RECORDS]).combine_chunks()
        self._ends = np.cumsum(table[_RECORDS].to_numpy())
        self.schema = self._table.schema
        self.columns = tuple(self._table.column_names)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for start in range(0, int(self._ends[-1]) if len(self._ends) else 0, BATCH):
            row = np.arange(start, min(start + BATCH, int(self._ends[-1])))
            place = pa.array(np.searchsorted(self._ends, row, side="right"))
            yield from self._table.select(list(columns)).take(place).combine_chunks().to_batches()
