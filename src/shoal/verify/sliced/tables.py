"""The two files of a bucketized release say the same as its data file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from shoal.arrays import IntArray
from shoal.verify.contents import Contents, common_type
from shoal.verify.manifest import Manifest
from shoal.verify.reading import PublishedRows, coded
from shoal.verify.result import Check
from shoal.verify.sliced.buckets import BucketError, bucket_codes
from shoal.verify.sums import BoxSums


def check_tables(rows: PublishedRows, manifest: Manifest, quasi: PublishedRows, sensitive: PublishedRows) -> Check:
    """Compare the table of quasi values and that of sensitive values with the rows, bucket by bucket."""
    sensitive_names = {attribute.name for attribute in manifest.of_role("sensitive")}
    holders = [place for place, part in enumerate(manifest.parts) if sensitive_names & set(part)]
    if len(holders) != 1:
        return Check("tables", False, "not one part has all sensitive attributes, so there are no two tables")
    theirs = manifest.part_columns[holders[0]]
    ours = tuple(c for place, part in enumerate(manifest.part_columns) if place != holders[0] for c in part)
    if quasi.columns != ("bucket", *ours):
        return Check("tables", False, "the table of quasi values has other columns than the parts")
    if sensitive.columns != ("bucket", *theirs, "count") or len(set(sensitive.columns)) != len(sensitive.columns):
        return Check("tables", False, "the table of sensitive values has other columns than the part and 'count'")
    for table, columns, what in ((quasi, ours, "quasi"), (sensitive, theirs, "sensitive")):
        kinds = [common_type(rows.schema.field(name).type, table.schema.field(name).type) for name in columns]
        contents = Contents(columns, kinds, manifest.missing_tokens)
        try:
            same = _sums(rows, columns, contents, manifest), _sums(table, columns, contents, manifest)
        except BucketError as fault:
            return Check("tables", False, f"the table of {what} values is not well formed: {fault}")
        if same[0].differs(same[1]).any():
            return Check("tables", False, f"buckets of the table of {what} values differ from those of the data")
        if table.unused_entries():
            return Check("tables", False, f"dictionaries of the table of {what} values hold values that no row has")
    return Check("tables", True, "the tables of quasi and of sensitive values say what the data say")


def _sums(rows: PublishedRows, columns: tuple[str, ...], contents: Contents, manifest: Manifest) -> BoxSums:
    """Return sums over the rows of each bucket; a row with a count stands for as many."""
    sums = BoxSums(contents.key)
    counted = ("count",) if rows.columns[-1] == "count" and "count" not in manifest.columns else ()
    for batch in rows.batches(["bucket", *columns, *counted]):
        buckets, hashes = bucket_codes(batch.column("bucket"), manifest.buckets), contents.hashes(batch)
        if counted:
            times = _times(batch.column("count"), manifest.rows)
            buckets, hashes = np.repeat(buckets, times), np.repeat(hashes, times)
        sums.add(buckets, hashes, manifest.buckets)
    return sums


def _times(column: pa.Array, most: int) -> IntArray:
    values, places = coded(column)
    if column.null_count or pa.types.is_floating(values.type):
        raise BucketError("a count is absent or no whole number")
    try:
        times = np.asarray(values.cast(pa.int64()), dtype=np.int64)[places]
    except pa.ArrowInvalid:
        raise BucketError("a count is no whole number") from None
    if (times < 1).any() or times.sum() > most:
        raise BucketError("counts are not the rows of the release")
    return np.asarray(times, dtype=np.int64)
