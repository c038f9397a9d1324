"""The verification of a sliced release: its form, what every tuple gives away, and whether buckets are true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shoal.arrays import IntArray
from shoal.progress import Progress
from shoal.verify.counts import untold
from shoal.verify.covers import Covers
from shoal.verify.form import check_dictionaries, check_labels, check_rows
from shoal.verify.manifest import Manifest
from shoal.verify.reading import FAULTS, PublishedRows, unreadable
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.sliced.alone import formable
from shoal.verify.sliced.buckets import BucketError
from shoal.verify.sliced.judging import Judge, check_promises
from shoal.verify.sliced.layout import Layout, OverlapError
from shoal.verify.sliced.linking import check_permuted
from shoal.verify.sliced.reading import SlicedRows, read_sliced
from shoal.verify.sliced.regions import check_regions
from shoal.verify.sliced.truth import check_sliced_truth
from shoal.verify.sliced.tuples import SourceTuples, read_source

if TYPE_CHECKING:
    from shoal.sources import Source

Answer = tuple[list[Check], list[CheckedGuarantee] | None]


def verify_sliced(
    rows: PublishedRows,
    manifest: Manifest,
    covers: Mapping[str, Covers],
    source: Source | None,
    witness: IntArray | None,
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
        return [unreadable(fault)], None
    checks = _form(released, manifest, rows)
    if not all(check.ok for check in checks):
        return checks, None
    if any(part.boxed for part in layout.parts):
        checks.append(check_regions(released, covers))
    judge = Judge(released, manifest)
    if source is None:
        return checks, check_promises(judge, manifest, formable(released), with_source=False)
    original = read_source(released, manifest, covers, source, witness, progress)
    checks += check_sliced_truth(manifest, released, original, with_witness=witness is not None)
    if released.linking is not None and original.linking is not None:
        checks.append(check_permuted(*released.linking, original.linking))
    if layout.blurred:
        # An adversary may know values as they are published: all tuples that the buckets could form are judged.
        return checks, check_promises(judge, manifest, formable(released), with_source=False)
    absent = 0 if witness is not None else untold(manifest, released.rows, original.rows)
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
