"""The verification of a sliced release: its form, what every tuple gives away, and whether buckets are true.

With a witness, the bucket of every source row, truth is settled bucket by bucket: every part holds just what the rows
of the bucket have. Without one it is a hard problem, so bounds are used: what only one bucket can hold must be there,
and no bucket may hold more than could be in it.

That parts were permuted at random cannot be proved, but parts that were not permuted at all show. Two neighbouring
parts are *linked* in a bucket if the pairs that its rows make, as they stand, are those of its source rows. The
verifier turns the second part of every bucket by a random number of places and looks again. If parts were permuted at
random, the rows as they stand and as turned could as well be exchanged: of m buckets that are linked in one of them
only, each is so in the first with a chance of 1/2, and by Hoeffding's inequality the first is ahead by d or more with
one of at most exp(-d^2 / 2m). Buckets in which turning makes no difference do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.kernels import kernel
from shoal.core.progress import Progress
from shoal.verify.boxes import Ragged, Spans
from shoal.verify.contents import Contents, common_type, fold_values, sum_boxes
from shoal.verify.covers import Covers
from shoal.verify.form import (
    Answer,
    check_dictionaries,
    check_labels,
    check_rows,
    check_source_counts,
    count_unpublished,
    demand_columns,
)
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import Numbering, number_rows
from shoal.verify.order import check_bucket_order
from shoal.verify.people import check_withheld
from shoal.verify.reading import FAULTS, PublishedRows, encode, report_unreadable
from shoal.verify.result import FALSE_ALARM, Check
from shoal.verify.sliced.beliefs import Adversary, Lists, check_promises
from shoal.verify.sliced.reading import (
    BucketError,
    Layout,
    Original,
    OverlapError,
    Release,
    SlicedRows,
    read_buckets,
    read_release,
    read_source,
)
from shoal.verify.truth import Witness, report_unassigned

if TYPE_CHECKING:
    from shoal.sources.base import Source


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
        return Answer([Check("parts", False, f"cannot check: {fault}")])
    if source is not None:
        demand_columns(source, [attribute.name for attribute in manifest.attributes])
    try:
        release = read_release(rows, manifest, layout, source, progress)
    except BucketError as fault:
        return Answer([Check("buckets", False, str(fault))])
    except FAULTS as fault:
        return Answer([report_unreadable(fault)])
    checks = list(_check_form(release, manifest, rows))
    if not all(check.ok for check in checks):
        return Answer(checks)
    if any(part.boxed for part in layout.parts):
        checks.append(_check_regions(release, covers))
    adversary = Adversary(release)
    tuples: CodeArray | None = None
    if source is not None:
        original = read_source(release, manifest, covers, source, witness, progress)
        absent = 0 if witness is not None else count_unpublished(manifest, len(release.buckets), original.counts)
        checks += _check_truth(manifest, release, original, absent, with_witness=witness is not None)
        if witness is not None and all(check.ok for check in checks):
            checks += check_withheld(manifest, rows.schema, source, witness)
        if not layout.blurred:
            tuples, records = _count_distinct([original.values[place] for place in layout.known])
    if tuples is None:
        # An adversary may know values as they are published: all tuples that the buckets could form are judged.
        guarantees, _ = check_promises(adversary, manifest, adversary.form_tuples(), with_source=False)
    else:
        guarantees, matched = check_promises(adversary, manifest, tuples, with_source=True)
        # Of rows that match nothing nobody knows what is believed.
        lost = int(records[~(adversary.are_matched(tuples) if matched is None else matched)].sum())
        strangers = lost > absent and f"{lost} source rows match no bucket"
        checks.append(Check.of("matching", strangers, "every published source row matches a bucket"))
    return Answer(checks, guarantees, release.labels)


def _count_distinct(columns: Sequence[CodeArray]) -> tuple[CodeArray, IntArray]:
    """Return (n, n_columns) the distinct tuples of numbers, which may be -1 or -2, and how many rows have each."""
    kinds, numbers = number_rows(np.stack(columns))
    return kinds.T, np.bincount(numbers, minlength=kinds.shape[1])


def _check_form(release: Release, manifest: Manifest, rows: PublishedRows) -> Iterator[Check]:
    in_number = check_rows(len(release.buckets), manifest)
    yield in_number
    yield from check_dictionaries(rows)
    if in_number.ok:
        yield Check("buckets", True, f"{len(release.sizes)} buckets, numbered without gaps")
    if release.labels:
        yield check_labels(manifest, release.labels)
    if release.shared:
        found = int(np.logical_or.reduce([one.differs for one in release.shared]).sum())
        fault = found and f"in {found} buckets parts that overlap hold different shared values"
        yield Check.of("overlap", fault, "parts that overlap hold the same shared values in every bucket")


@kernel
def _count_overlapping(low: CodeArray, high: CodeArray, ragged: Ragged) -> int:
    """Return how many boxes meet one after them; they are sorted by the *low* edges of one attribute."""
    labels, offsets, start, lows, highs = ragged
    found = 0
    for one in range(low.shape[0]):
        for other in range(one + 1, low.shape[0]):
            if low[other] >= high[one]:
                break
            meet = True
            for a in range(labels.shape[1]):
                first, second = offsets[a] + labels[one, a], offsets[a] + labels[other, a]
                shared = False
                for i in range(start[first], start[first + 1]):
                    for j in range(start[second], start[second + 1]):
                        shared |= lows[i] < highs[j] and lows[j] < highs[i]
                meet &= shared
                if not meet:
                    break
            if meet:
                found += 1
                break
    return found


def _check_regions(release: Release, covers: Mapping[str, Covers]) -> Check:
    """No two regions of a part cover the same values."""
    found = 0
    for coder in release.coders:
        if coder.part.boxed:
            own = [covers[name] for name in coder.part.quasi]
            spans = Spans.of(own, coder.regions.tuples())
            narrow = int(np.argmin(spans.usual_widths() / [cover.width for cover in own]))
            swept = spans.reorder(np.argsort(spans.hulls[:, 2 * narrow], kind="stable"))
            low, high = np.ascontiguousarray(swept.hulls[:, 2 * narrow : 2 * narrow + 2].T)
            found += int(_count_overlapping(low, high, swept.ragged))
    fault = found and f"{found} regions of a part overlap others of it"
    return Check.of("regions", fault, "regions of a part do not overlap")


def _check_truth(
    manifest: Manifest, release: Release, original: Original, absent: int, *, with_witness: bool
) -> Iterator[Check]:
    """Compare what the parts and buckets hold with the source, of which *absent* rows need not be published."""
    yield check_source_counts(manifest, len(release.buckets), original.counts)
    located = [original.values[place] < 0 for place, part in enumerate(release.layout.parts) if part.located]
    if located:
        homeless = int(np.logical_or.reduce(located).sum())
        fault = homeless > absent and f"{homeless} source rows lie in no region of some part"
        yield Check.of("located", fault, "every published source row lies in one region of each part")
    yield from _compare_buckets(release, original) if with_witness else _compare_bounds(release, original, absent)


def _check_parts(changed: int, n_parts: int) -> Check:
    fault = changed and f"{changed} of {n_parts} parts did not keep exactly the values of the source"
    return Check.of("parts", fault, "every part kept exactly its values")


def _compare_buckets(release: Release, original: Original) -> Iterator[Check]:
    """Compare every bucket with the source rows that the witness puts there."""
    if original.fault is not None:
        yield Check("witness", False, f"the file with each row's bucket cannot be used: {original.fault}")
    keys, n_buckets = [coder.key for coder in release.coders], len(release.sizes)
    own, true = (
        [sum_boxes(key, rows.buckets, part, n_buckets) for key, part in zip(keys, rows.contents, strict=True)]
        for rows in (release, original)
    )
    changed = sum(bool((one.sum(axis=0) != other.sum(axis=0)).any()) for one, other in zip(own, true, strict=True))
    yield _check_parts(changed, len(keys))
    wrong = int(np.logical_or.reduce([(one != other).any(axis=1) for one, other in zip(own, true, strict=True)]).sum())
    grounds = "by the bucket of every source row in the internal folder"
    fault = wrong and f"{wrong} buckets hold other values than their source rows have, {grounds}"
    yield Check.of("truth", fault, f"every bucket holds, part by part, what its source rows have, {grounds}")
    yield _check_permuted(release, original, keys[0])
    yield check_bucket_order(keys[0], (release.buckets, release.contents), (original.buckets, original.contents))


def turn_rows(buckets: CodeArray, rng: np.random.Generator) -> IntArray:
    """Return (n_rows,) another row of the same bucket for each row, all of a bucket turned by as many places.

    >>> turn_rows(np.array([3, 4, 4, 5], dtype=np.int32), np.random.default_rng(1)).tolist()
    [0, 2, 1, 3]
    """
    first = np.flatnonzero(np.diff(buckets, prepend=-1))
    size = np.diff(first, append=len(buckets))
    by = 1 + rng.integers(0, np.maximum(size - 1, 1))
    turned = np.arange(len(buckets)) + np.repeat(by, size)
    return np.asarray(turned - np.repeat(size, size) * (turned >= np.repeat(first + size, size)))


def _check_permuted(release: Release, original: Original, key: KeyArray) -> Check:
    """No two neighbouring parts are linked in far more buckets than chance links."""
    turned = turn_rows(release.buckets, np.random.default_rng())

    def sum_pairs(rows: SlicedRows, first: KeyArray, second: KeyArray) -> KeyArray:
        pairs = first.copy()
        fold_values(key, pairs, second)
        return sum_boxes(key, rows.buckets, pairs, len(release.sizes))

    for own, true in zip(pairwise(release.contents), pairwise(original.contents), strict=True):
        expected = sum_pairs(original, *true)
        linked = (sum_pairs(release, *own) == expected).all(axis=1)
        by_chance = (sum_pairs(release, own[0], own[1][turned]) == expected).all(axis=1)
        more, fewer = int((linked & ~by_chance).sum()), int((by_chance & ~linked).sum())
        ahead = more - fewer
        if ahead > 0 and ahead**2 > -2 * math.log(FALSE_ALARM) * (more + fewer):
            return Check("permuted", False, f"in {int(linked.sum())} buckets rows still link the values of two parts")
    return Check("permuted", True, "no two parts are linked in more buckets than chance explains")


def _compare_bounds(release: Release, original: Original, absent: int) -> Iterator[Check]:
    """Compare every bucket with the source rows that may be there, and with those that can be nowhere else."""
    interners = [Numbering(1) for _ in release.contents]
    lists = Lists.of([one.ids([own]) for one, own in zip(interners, release.contents, strict=True)], release.buckets)
    kinds, records = _count_distinct([one.ids([own]) for one, own in zip(interners, original.contents, strict=True)])
    complete = absent == 0
    changed = 0
    for part, own in enumerate(kinds.T):
        published = lists.totals(part)
        held = np.bincount(own, records, len(published)).astype(np.int64)
        different = held[: len(published)] != published if complete else held[: len(published)] < published
        changed += bool(different.any()) or (complete and bool(held[len(published) :].any()))
    yield _check_parts(changed, len(interners))
    forced, available, lost = count_bounds(lists, kinds, records)
    if lost > absent:
        yield Check(
            "truth", False, f"{lost} source rows are in no bucket, but only {absent} are declared as unpublished"
        )
        return
    wrong = (lists.times > available) | (complete & (lists.times < forced))
    places = len(np.unique(lists.bucket[wrong]))
    yield report_unassigned()
    stated = "by bounds, for no file tells each row's bucket"
    bounds = (
        "at most what rows that fit there allow (rows are withheld or were not drawn, so nothing demands to be there)"
    )
    if complete:
        bounds = "at least what rows that fit in one bucket only demand, and at most what rows that fit there allow"
    fault = places and f"{places} buckets hold values that no arrangement of the source permits, {stated}"
    yield Check.of("truth", fault, f"every bucket holds {bounds}, {stated}")


def count_bounds(lists: Lists, kinds: CodeArray, records: IntArray) -> tuple[IntArray, IntArray, int]:
    """Return for every entry the records that can be nowhere else, and those that may be in it; and those lost.

    (n, n_parts) *kinds* are the contents of source rows, *records* how many rows there are of each.
    """
    forced, available = (np.zeros(lists.times.shape[0], dtype=np.int64) for _ in range(2))
    lost = done = 0
    for found in lists.match(kinds):
        mine = records[done : done + len(found.times)]
        done += len(found.times)
        lost += int(mine[found.times == 0].sum())
        only = found.select(found.times == 1)
        for part in range(kinds.shape[1]):
            np.add.at(available, found.entry[part], mine[found.owner])
            np.add.at(forced, only.entry[part], mine[found.times == 1])
    return forced, available, lost


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
            differ = _sum_buckets(rows, columns, contents, manifest) != _sum_buckets(table, columns, contents, manifest)
        except BucketError as fault:
            return Check("tables", False, f"the table of {what} values is not well formed: {fault}")
        if differ.any():
            return Check("tables", False, f"buckets of the table of {what} values differ from those of the data")
        if table.list_unused():
            return Check("tables", False, f"dictionaries of the table of {what} values hold values that no row has")
    return Check("tables", True, "the tables of quasi and of sensitive values say what the data say")


def _sum_buckets(rows: PublishedRows, columns: tuple[str, ...], contents: Contents, manifest: Manifest) -> KeyArray:
    """Return sums over the rows of each bucket; a row with a count stands for as many."""
    sums = np.zeros((manifest.buckets, 3), dtype=np.uint64)
    counted = ("count",) if rows.columns[-1] == "count" and "count" not in manifest.columns else ()
    for batch in rows.batches(["bucket", *columns, *counted]):
        buckets, hashes = read_buckets(batch.column("bucket"), manifest.buckets), contents.hashes(batch)
        if counted:
            times = _read_counts(batch.column("count"), manifest.rows)
            buckets, hashes = np.repeat(buckets, times), np.repeat(hashes, times)
        sums += sum_boxes(contents.key, buckets, hashes, manifest.buckets)
    return sums


def _read_counts(column: pa.Array, most: int) -> IntArray:
    values, places = encode(column)
    if column.null_count or pa.types.is_floating(values.type):
        raise BucketError("a count is absent or no whole number")
    try:
        times = np.asarray(values.cast(pa.int64()), dtype=np.int64)[places]
    except pa.ArrowInvalid:
        raise BucketError("a count is no whole number") from None
    if (times < 1).any() or times.sum() > most:
        raise BucketError("counts are not the rows of the release")
    return np.asarray(times, dtype=np.int64)
