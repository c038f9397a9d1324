"""The verification of a sliced release: its form, what every tuple gives away, and whether buckets are true.

Whether the buckets tell the truth: every part kept exactly its values, each in a bucket where it may be.

With a witness, the bucket of every source row, this is settled bucket by bucket. Without one it is a hard problem, so
bounds are used: what only one bucket can hold must be there, and no bucket may hold more than could be in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.kernels import compiled
from shoal.core.progress import Progress
from shoal.verify.boxes import Ragged, Spans
from shoal.verify.contents import Contents, common_type
from shoal.verify.covers import Covers
from shoal.verify.form import check_dictionaries, check_labels, check_rows, check_source_counts, count_unpublished
from shoal.verify.hashing import BoxSums
from shoal.verify.manifest import Manifest
from shoal.verify.reading import FAULTS, PublishedRows, coded, report_unreadable
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.sliced.beliefs import Postings, match_tuples, number_values
from shoal.verify.sliced.judging import Judge, check_promises, form_tuples
from shoal.verify.sliced.layout import Layout, OverlapError
from shoal.verify.sliced.linking import BucketError, bucket_codes, check_permuted
from shoal.verify.sliced.reading import SlicedRows, read_sliced
from shoal.verify.sliced.tuples import SourceTuples, read_source
from shoal.verify.truth import Witness

if TYPE_CHECKING:
    from shoal.sources.base import Source

Answer = tuple[list[Check], list[CheckedGuarantee] | None]


def verify_sliced(
    rows: PublishedRows,
    manifest: Manifest,
    covers: Mapping[str, Covers],
    source: Source | None,
    witness: Witness | None,
    progress: Progress,
) -> Answer:
    """Return checks and promises of a sliced release; no promises if its form does not let them be judged.

    *witness*: the published bucket of every source row, 0 for rows in none.
    """
    try:
        layout = Layout.of(manifest)
    except OverlapError as fault:
        return [Check("parts", False, f"cannot check: {fault}")], None
    subjects = list(dict.fromkeys(subject for promise in manifest.promises for subject in promise.subjects))
    bounds = source is not None and witness is None
    try:
        released = read_sliced(rows, manifest, layout, subjects, source, with_contents=bounds, progress=progress)
    except BucketError as fault:
        return [Check("buckets", False, str(fault))], None
    except FAULTS as fault:
        return [report_unreadable(fault)], None
    checks = _form(released, manifest, rows)
    if not all(check.ok for check in checks):
        return checks, None
    if any(part.boxed for part in layout.parts):
        checks.append(check_regions(released, covers))
    judge = Judge(released, manifest)
    if source is None:
        return checks, check_promises(judge, manifest, form_tuples(released), with_source=False)
    original = read_source(released, manifest, covers, source, witness, progress)
    checks += check_sliced_truth(manifest, released, original, with_witness=witness is not None)
    if released.linking is not None and original.linking is not None:
        checks.append(check_permuted(*released.linking, original.linking))
    if layout.blurred:
        # An adversary may know values as they are published: all tuples that the buckets could form are judged.
        return checks, check_promises(judge, manifest, form_tuples(released), with_source=False)
    absent = 0 if witness is not None else count_unpublished(manifest, released.rows, original.rows)
    checks.append(_matching(judge, original, absent))
    return checks, check_promises(judge, manifest, original.tuples, with_source=True)


def _form(released: SlicedRows, manifest: Manifest, rows: PublishedRows) -> list[Check]:
    checks = [check_rows(released.rows, manifest), *check_dictionaries(rows)]
    if checks[0].ok:
        checks.append(Check("buckets", True, f"{len(released.sizes)} buckets, numbered without gaps"))
    if any(part.boxed for part in released.layout.parts):
        checks.append(check_labels(released.unknown, released.idle))
    if released.layout.separators:
        same = not released.disagreeing
        detail = "parts that overlap hold the same shared values in every bucket"
        if not same:
            detail = f"in {released.disagreeing} buckets parts that overlap hold different shared values"
        checks.append(Check("overlap", same, detail))
    return checks


def _matching(judge: Judge, original: SourceTuples, absent: int) -> Check:
    """Every source row that is told must match a bucket; else nobody knows what is believed of it."""
    lost = int(original.records[~judge.matched(original.tuples)].sum())
    if lost > absent:
        return Check("matching", False, f"{lost} source rows match no bucket")
    return Check("matching", True, "every source row that is told matches a bucket")


@compiled
def _meet(ragged: Ragged, one: int, other: int) -> bool:
    """Whether two boxes have a point in common, range by range."""
    labels, offsets, start, low, high = ragged
    for a in range(labels.shape[1]):
        first, second = offsets[a] + labels[one, a], offsets[a] + labels[other, a]
        shared = False
        for i in range(start[first], start[first + 1]):
            for j in range(start[second], start[second + 1]):
                shared |= low[i] < high[j] and low[j] < high[i]
        if not shared:
            return False
    return True


@compiled
def _overlapping(hulls: CodeArray, ragged: Ragged) -> int:
    """Return how many boxes meet one after them; hulls are sorted by the low edge of the first attribute."""
    n, d = hulls.shape[0], hulls.shape[1] // 2
    found = 0
    for i in range(n):
        for j in range(i + 1, n):
            if hulls[j, 0] >= hulls[i, 1]:
                break
            apart = False
            for a in range(1, d):
                apart |= hulls[i, 2 * a] >= hulls[j, 2 * a + 1] or hulls[j, 2 * a] >= hulls[i, 2 * a + 1]
            if not apart and _meet(ragged, i, j):
                found += 1
                break
    return found


def check_regions(released: SlicedRows, covers: Mapping[str, Covers]) -> Check:
    """No two regions of a part cover the same values."""
    found = 0
    for reader in released.readers:
        if reader.layout.boxed:
            own = [covers[name] for name in reader.layout.quasi]
            spans = Spans.of(own, reader.regions.tuples())
            narrow = int(np.argmin(spans.usual_widths() / [cover.width for cover in own]))
            order = np.argsort(spans.hulls[:, 2 * narrow], kind="stable")
            swapped = spans.reorder(order)
            edges = np.roll(swapped.hulls, -2 * narrow, axis=1)
            found += int(_overlapping(np.ascontiguousarray(edges), swapped.ragged))
    if found:
        return Check("regions", False, f"{found} regions of a part overlap others of it")
    return Check("regions", True, "regions of a part do not overlap")


def check_sliced_truth(
    manifest: Manifest, released: SlicedRows, original: SourceTuples, *, with_witness: bool
) -> Iterator[Check]:
    """Compare what the parts and buckets hold with the source."""
    yield check_source_counts(manifest, released.rows, original.rows)
    if any(reader.layout.boxed and not reader.layout.blurred for reader in released.readers):
        absent = 0 if with_witness else count_unpublished(manifest, released.rows, original.rows)
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
    absent = count_unpublished(manifest, released.rows, original.rows)
    complete = absent == 0
    yield _parts(_count_changed(lists, kinds, records, complete=complete), len(released.readers))
    forced, available, lost = count_bounds(lists, kinds, records)
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


def count_bounds(lists: Postings, kinds: CodeArray, records: IntArray) -> tuple[IntArray, IntArray, int]:
    """Return for every entry the records that can be nowhere else, and those that may be in it; and those lost.

    (n, n_parts) *kinds* are the contents of source rows, *records* how many rows there are of each.
    """
    forced, available = (np.zeros(lists.times.shape[0], dtype=np.int64) for _ in range(2))
    lost = done = 0
    for found in match_tuples(lists, kinds.shape[1], number_values(lists, kinds)):
        times = found.times
        mine = records[done : done + len(times)]
        done += len(times)
        lost += int(mine[times == 0].sum())
        for part in range(kinds.shape[1]):
            np.add.at(available, found.entry[:, part], mine[found.owner])
            only = found.start[:-1][times == 1]
            np.add.at(forced, found.entry[only, part], mine[times == 1])
    return forced, available, lost


def _count_changed(lists: Postings, kinds: CodeArray, records: IntArray, *, complete: bool) -> int:
    """Return how many parts hold a value more often than the source does or, if all is told, less often."""
    changed = 0
    for part in range(kinds.shape[1]):
        published = lists.totals(part)
        held = np.bincount(kinds[:, part], weights=records, minlength=len(published) + 1).astype(np.int64)
        known, strange = held[: len(published)], int(held[len(published) :].sum())
        if (published > known).any() or (complete and (strange or (published < known).any())):
            changed += 1
    return changed


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
