"""Whether the buckets tell the truth: every part kept exactly its values, each in a bucket where it may be.

With a witness, the bucket of every source row, this is settled bucket by bucket. Without one it is a hard problem, so
bounds are used: what only one bucket can hold must be there, and no bucket may hold more than could be in it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from shoal.arrays import CodeArray, IntArray
from shoal.verify.counts import source_counts, untold
from shoal.verify.manifest import Manifest
from shoal.verify.result import Check
from shoal.verify.sliced.postings import Postings, count_bounds, numbered
from shoal.verify.sliced.reading import SlicedRows
from shoal.verify.sliced.tuples import SourceTuples


def check_sliced_truth(
    manifest: Manifest, released: SlicedRows, original: SourceTuples, *, with_witness: bool
) -> Iterator[Check]:
    """Compare what the parts and buckets hold with the source."""
    yield source_counts(manifest, released.rows, original.rows)
    if any(reader.layout.boxed and not reader.layout.blurred for reader in released.readers):
        absent = 0 if with_witness else untold(manifest, released.rows, original.rows)
        yield _regions(original, absent)
    if with_witness:
        yield from _by_witness(released, original)
    else:
        yield from _by_bounds(manifest, released, original)


def _regions(original: SourceTuples, absent: int) -> Check:
    if original.homeless > absent:
        return Check("located", False, f"{original.homeless} source rows lie in no region of some part")
    return Check("located", True, "every source row that is told lies in one region of each part")


def _by_witness(released: SlicedRows, original: SourceTuples) -> Iterator[Check]:
    if original.witness_fault is not None:
        yield Check(
            "witness", False, f"the file that tells each row's bucket is not to be used: {original.witness_fault}"
        )
    pairs = list(zip(released.sums, original.sums, strict=True))
    changed = sum(not own.same_rows(other) for own, other in pairs)
    yield _parts(changed, len(pairs))
    wrong = int(np.logical_or.reduce([own.differs(other) for own, other in pairs]).sum())
    grounds = "by the bucket of every source row in the internal folder"
    if wrong:
        yield Check("truth", False, f"{wrong} buckets hold other values than their source rows have, {grounds}")
    else:
        yield Check("truth", True, f"every bucket holds, part by part, what its source rows have, {grounds}")


def _parts(changed: int, n_parts: int) -> Check:
    if changed:
        return Check("parts", False, f"{changed} of {n_parts} parts did not keep exactly the values of the source")
    return Check("parts", True, "every part kept exactly its values")


def _by_bounds(manifest: Manifest, released: SlicedRows, original: SourceTuples) -> Iterator[Check]:
    lists, kinds, records = released.contents, original.contents, original.content_records
    assert lists is not None  # noqa: S101 - without a witness contents are listed
    assert kinds is not None  # noqa: S101
    assert records is not None  # noqa: S101
    absent = untold(manifest, released.rows, original.rows)
    complete = absent == 0
    yield _parts(_changed(lists, kinds, records, complete=complete), len(released.readers))
    forced, available = (np.zeros(lists.times.shape[0], dtype=np.int64) for _ in range(2))
    lost, _ = count_bounds(lists, numbered(lists, kinds), records, forced, available)
    if lost > absent:
        yield Check("truth", False, f"{lost} source rows are in no bucket, {absent} are said not to be told")
        return
    wrong = lists.times > available
    if complete:
        wrong |= lists.times < forced
    places = np.unique(lists.bucket[wrong]).shape[0]
    bounds = "what rows that fit in one bucket only demand, and at most what rows that fit there allow"
    if not complete:
        bounds = "what rows that fit there allow (rows are withheld or were not drawn, so nothing demands to be there)"
    told = "by bounds, for no file tells each row's bucket"
    if places:
        yield Check("truth", False, f"{places} buckets hold values that no arrangement of the source permits, {told}")
    else:
        limit = "at least " if complete else "at most "
        yield Check("truth", True, f"every bucket holds {limit}{bounds}, {told}")


def _changed(lists: Postings, kinds: CodeArray, records: IntArray, *, complete: bool) -> int:
    """Return how many parts hold a value more often than the source does or, if all is told, less often."""
    changed = 0
    for part in range(kinds.shape[1]):
        published = lists.totals(part)
        held = np.bincount(kinds[:, part], weights=records, minlength=len(published) + 1).astype(np.int64)
        known, strange = held[: len(published)], int(held[len(published) :].sum())
        if (published > known).any() or (complete and (strange or (published < known).any())):
            changed += 1
    return changed
