"""The whole verification: shape, files, labels, promises and, with a source, truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.arrays import IntArray
from shoal.errors import InputError
from shoal.progress import Progress, Silent
from shoal.verify.agreed import Plan, read_plan, verify_agreed
from shoal.verify.boxes import BoxTree
from shoal.verify.contents import is_textual
from shoal.verify.counting import Counted, count_rows
from shoal.verify.covers import CoverError, Covers, read_covers
from shoal.verify.fields import ManifestError, parse_json
from shoal.verify.files import AgreedFile, DataFile
from shoal.verify.form import check_dictionaries, check_labels, check_rows
from shoal.verify.guarantees import Covered, check_promise
from shoal.verify.items import check_items, unfolded_source
from shoal.verify.manifest import Manifest, read_manifest
from shoal.verify.reading import (
    FAULTS,
    CsvRows,
    MemoryRows,
    ParquetRows,
    PublishedRows,
    check_digest,
    check_folder,
    check_hygiene,
    public_folder,
    read_json,
    read_witness,
    unreadable,
)
from shoal.verify.result import Check, CheckedGuarantee, Verification
from shoal.verify.sliced import verify_sliced
from shoal.verify.sliced.tables import check_tables
from shoal.verify.spans import Spans
from shoal.verify.truth import PointReader, check_truth, contents_for

if TYPE_CHECKING:
    from shoal.sources import Source

Populations = Mapping[str, "Source"]


def verify_folder(
    folder: Path,
    *,
    source: Source | None = None,
    populations: Populations | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Check a written release, believing nothing but its bytes.

    *folder* is what ``shoal anonymize`` wrote or the public folder in it. With the *source* truthfulness is
    checked too; of a sliced release with the help of ``internal/buckets.parquet``, if that is there.
    *populations* gives the tables that k-map and delta-presence name in their parameters.
    """
    public = public_folder(Path(folder))
    text = read_json(public / "manifest.json")
    try:
        manifest = read_manifest(parse_json(text), with_file=True)
    except ManifestError as fault:
        return _refused(str(fault))
    checks = [Check("manifest", True, "the manifest is well formed")]
    data = manifest.data
    assert data is not None  # noqa: S101 - read_manifest was asked for it
    path = public / data.name
    names = [file.name for file in (data, *manifest.tables.values())]
    names += [] if manifest.agreed is None else [manifest.agreed.name]
    checks.append(check_folder(public, names, manifest.readme))
    plan = None if manifest.agreed is None else _plan(public / manifest.agreed.name, manifest.agreed)
    if isinstance(plan, Check):
        return Verification((*checks, plan), _unchecked(manifest))
    try:
        for file in (data, *manifest.tables.values()):
            checks.append(check_digest(public / file.name, file))
            checks.append(check_hygiene(public / file.name, file))
        rows = _open(path, data, manifest)
        witness = read_witness(public) if manifest.sliced and source is not None else None
    except FAULTS as fault:
        return Verification((*checks, unreadable(fault)), _unchecked(manifest))
    found = _verify(rows, manifest, checks, source, populations, witness, progress or Silent(), plan)
    if not manifest.tables or found.failures:
        return found
    try:
        tables = {name: _open(public / file.name, file, manifest) for name, file in manifest.tables.items()}
        more = check_tables(rows, manifest, **tables)
    except FAULTS as fault:
        more = unreadable(fault)
    return Verification((*found.checks, more), found.guarantees)


def verify_table(
    table: pa.Table,
    manifest: Mapping[str, Any],
    *,
    source: Source | None = None,
    populations: Populations | None = None,
    buckets: IntArray | None = None,
    progress: Progress | None = None,
) -> Verification:
    """Check a release that lives in memory: all checks but those of files.

    *buckets* tells, for every source row of a sliced release, its bucket as published, 0 for rows in none.
    """
    try:
        read = read_manifest(manifest, with_file=False)
    except ManifestError as fault:
        return _refused(str(fault))
    checks = [Check("manifest", True, "the manifest is well formed")]
    return _verify(MemoryRows(table), read, checks, source, populations, buckets, progress or Silent())


def _open(path: Path, data: DataFile, manifest: Manifest) -> PublishedRows:
    if data.format == "parquet":
        return ParquetRows(path)
    plain = {attribute.name for attribute in manifest.of_role("insensitive")}
    return CsvRows(path, data, [name for name in manifest.columns if name not in plain])


def _verify(
    rows: PublishedRows,
    manifest: Manifest,
    checks: list[Check],
    source: Source | None,
    populations: Populations | None,
    buckets: IntArray | None,
    progress: Progress,
    plan: Plan | None = None,
) -> Verification:
    checks.append(_columns(rows, manifest))
    if not checks[-1].ok:
        return Verification(tuple(checks), _unchecked(manifest))
    if manifest.items:
        sets = check_items(manifest, rows)
        checks.append(sets)
        if not sets.ok:
            return Verification(tuple(checks), _unchecked(manifest))
        source = None if source is None else unfolded_source(manifest, source)
    if plan is not None:
        return _verify_agreed(rows, manifest, plan, checks, source, progress)
    if manifest.sliced:
        return _verify_sliced(rows, manifest, checks, source, buckets, progress)
    contents = None if source is None else contents_for(manifest, rows.schema, source)
    subjects = {subject: None for promise in manifest.promises for subject in promise.subjects}
    counted: Counted | Check
    with ThreadPoolExecutor(1) as beside:
        reading = beside.submit(_covers, manifest)
        try:
            counted = count_rows(rows, manifest, list(subjects), contents, progress)
        except FAULTS as fault:
            counted = unreadable(fault)
        covers = reading.result()
    if isinstance(covers, Check):
        return Verification((*checks, covers), _unchecked(manifest))
    if isinstance(counted, Check):
        return Verification((*checks, counted), _unchecked(manifest))
    checks += [check_rows(counted.rows, manifest), *check_dictionaries(rows)]
    checks.append(check_labels(counted.unknown, counted.idle))
    if manifest.levels:
        checks.append(_full_domain(manifest, covers))
    quasi = [covers[attribute.name] for attribute in manifest.of_role("quasi")]
    guarantees: list[CheckedGuarantee] = []
    known: dict[str, Covered] = {}
    for promise in manifest.promises:
        name = promise.parameters.get("population")
        covered = None
        if isinstance(name, str) and promise.obstacle is None and populations and name in populations and counted.rows:
            if name not in known:
                checks.append(_same_population(name, manifest, populations[name]))
                known[name] = _covered(populations[name], quasi, manifest, counted, progress)
            covered = known[name]
        guarantees.append(check_promise(promise, manifest, counted, covered, with_source=source is not None))
    if source is not None and contents is not None:
        boxed = [covers[attribute.name] for attribute in manifest.attributes if attribute.boxed]
        checks += check_truth(manifest, counted, boxed, contents, source, progress)
    return Verification(tuple(checks), tuple(guarantees))


def _verify_sliced(
    rows: PublishedRows,
    manifest: Manifest,
    checks: list[Check],
    source: Source | None,
    buckets: IntArray | None,
    progress: Progress,
) -> Verification:
    covers = _covers(manifest)
    if isinstance(covers, Check):
        return Verification((*checks, covers), _unchecked(manifest))
    more, guarantees = verify_sliced(rows, manifest, covers, source, buckets, progress)
    return Verification((*checks, *more), _unchecked(manifest) if guarantees is None else tuple(guarantees))


def _verify_agreed(
    rows: PublishedRows,
    manifest: Manifest,
    plan: Plan,
    checks: list[Check],
    source: Source | None,
    progress: Progress,
) -> Verification:
    covers = _covers(manifest)
    if isinstance(covers, Check):
        return Verification((*checks, covers), _unchecked(manifest))
    checks.append(Check("plan", True, "the plan is the declared one, and it fits together"))
    more, guarantees = verify_agreed(rows, manifest, plan, covers, source, progress)
    return Verification((*checks, *more), _unchecked(manifest) if guarantees is None else tuple(guarantees))


def _plan(path: Path, declared: AgreedFile) -> Plan | Check:
    try:
        return read_plan(path, declared)
    except ManifestError as fault:
        return Check("plan", False, f"plan.json: {fault}")


def _covers(manifest: Manifest) -> dict[str, Covers] | Check:
    try:
        return {attribute.name: read_covers(attribute) for attribute in manifest.attributes if attribute.boxed}
    except CoverError as fault:
        return Check("labels", False, str(fault))


def _columns(rows: PublishedRows, manifest: Manifest) -> Check:
    declared = manifest.columns
    if rows.columns == declared:
        labelled = [attribute.name for attribute in manifest.attributes if attribute.may_keep_missing]
        if all(is_textual(rows.schema.field(name).type) for name in labelled):
            return Check("columns", True, "the columns are the declared ones")
        return Check("columns", False, "labels of sensitive values are not published as text")
    extra = len(set(rows.columns) - set(declared))
    absent = [name for name in declared if name not in rows.columns]
    if extra:
        detail = f"{extra} columns are not declared in the manifest"
    elif absent:
        detail = f"declared columns are absent: {', '.join(absent)}"
    elif len(set(rows.columns)) != len(rows.columns):
        detail = "a column occurs twice"
    else:
        detail = "the columns are not in the declared order"
    return Check("columns", False, detail)


def _full_domain(manifest: Manifest, covers: Mapping[str, Covers]) -> Check:
    """Check that labels of an attribute do not overlap, as is so at one level, and stand for one value at level 0."""
    for attribute in manifest.of_role("quasi"):
        cover = covers[attribute.name]
        order = np.argsort(cover.low, kind="stable")
        if (cover.low[order][1:] < cover.high[order][:-1]).any():
            return Check("levels", False, f"labels of {attribute.name} overlap, so they are not of one level")
        original = manifest.levels[attribute.name] == 0 and attribute.kind == "category"
        if original and any(len(entry.get("values", ())) > 1 or "any" in entry for entry in cover.declared()):
            return Check(
                "levels", False, f"{attribute.name} is at level 0, but a label of it stands for several values"
            )
    return Check("levels", True, "every quasi attribute bears labels of one level")


def _same_population(name: str, manifest: Manifest, population: Source) -> Check:
    declared = manifest.populations.get(name)
    if declared is None:
        return Check("population", True, "the manifest does not say which file the population was")
    same = population.digest() == declared
    detail = "the population is the declared one" if same else "the population differs from the declared one"
    return Check("population", same, detail)


def _covered(
    population: Source, covers: Sequence[Covers], manifest: Manifest, counted: Counted, progress: Progress
) -> Covered:
    names = [cover.attribute.name for cover in covers]
    absent = [name for name in names if name not in population.schema.names]
    if absent:
        raise InputError(f"{population.name} lacks columns of the release: {', '.join(absent)}")
    tree = BoxTree.of(covers, Spans.of(covers, counted.labels))
    reader = PointReader(covers, manifest.missing_tokens)
    totals = np.zeros(counted.sizes.shape[0], dtype=np.int64)
    uncovered = 0
    with progress.step("reading the population", population.n_rows) as step:
        for batch in population.batches(names, dictionary=names):
            uncovered += tree.count(reader.points(batch), totals)
            step.advance(batch.num_rows)
    return Covered(totals, uncovered)


def _refused(why: str) -> Verification:
    return Verification((Check("manifest", False, why),), ())


def _unchecked(manifest: Manifest) -> tuple[CheckedGuarantee, ...]:
    return tuple(
        CheckedGuarantee(promise.model, promise.parameters, promise.claimed, None, False, "not checked")
        for promise in manifest.promises
    )
