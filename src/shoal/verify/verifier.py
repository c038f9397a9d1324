"""The whole verification: shape, files, labels, promises and, with a source, truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.core.arrays import IntArray
from shoal.core.progress import Progress, Silent
from shoal.manifest import PAGES, DataFile, ManifestError, parse_json, unpack_labels
from shoal.verify.account import check_account, check_drawn
from shoal.verify.agreed import Plan, read_plan, verify_agreed
from shoal.verify.averages import check_averages
from shoal.verify.classes import check_defended, read_all_covers, verify_classes
from shoal.verify.contents import is_textual
from shoal.verify.covers import CoverError, Covers
from shoal.verify.files import (
    SIGNATURE,
    check_digest,
    check_folder,
    check_hygiene,
    check_recorded,
    check_signature,
    read_json,
)
from shoal.verify.form import check_figures
from shoal.verify.items import check_items, unfold_source
from shoal.verify.manifest import Manifest, may_promise_nothing, read_manifest
from shoal.verify.passes import Given, Means, Populations
from shoal.verify.people import check_one_each
from shoal.verify.reading import (
    FAULTS,
    CsvRows,
    MemoryRows,
    ParquetRows,
    PublishedRows,
    find_witness,
    public_folder,
    read_labelled,
    report_unreadable,
)
from shoal.verify.result import Check, CheckedGuarantee, Verification
from shoal.verify.sliced.checking import check_tables, verify_sliced
from shoal.verify.techniques.checking import check_techniques, recompute_source
from shoal.verify.truth import Witness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.sources.base import Source


def verify(
    folder: str | Path,
    *,
    source: object = None,
    populations: Populations | None = None,
    progress: Progress | None = None,
    memory: int | None = None,
    spark: SparkSession | None = None,
    public_key: bytes | None = None,
) -> Verification:
    """Check a written release, believing nothing but its bytes.

    >>> import pyarrow as pa, shoal
    >>> people = pa.table({"age": [31, 32, 46, 47], "illness": ["flu", "cold", "flu", "cold"]})
    >>> policy = {"attributes": {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}},
    ...           "privacy": [{"k-anonymity": {"k": 2}}]}
    >>> folder = getfixture("tmp_path") / "out"
    >>> _ = shoal.anonymize(people, policy, out=folder)
    >>> shoal.verify(folder, source=people).verified
    True

    *folder* is what ``shoal anonymize`` wrote or the public folder in it. With the *source*, whatever
    ``shoal.open_source`` can open, truthfulness is checked too, by ``internal/witness.parquet``; where that is not
    there, as far as rows can be matched. *populations* gives the tables that k-map and delta-presence name in their
    parameters. *memory*, in bytes, is what the process may use: a release whose classes need more is read in several
    passes. Without it there is no limit. With *spark*, a session, its workers check what they can see: a Parquet
    release, and a source that was opened on Spark. With the *public_key* of the data holder, PEM, the manifest must be
    signed by it.
    """
    public = public_folder(Path(folder))
    original = _open_original(source)
    text = read_json(public / "manifest.json")
    content = text.encode()
    checks = [*check_recorded(public, content), *check_signature(public, content, public_key)]
    try:
        manifest = read_manifest(unpack_labels(parse_json(text)), with_file=True)
    except ManifestError as fault:
        return Verification((Check("manifest", False, str(fault)), *checks), ())
    checks = [Check("manifest", True, "the manifest is well formed"), *checks]
    assert manifest.data is not None  # noqa: S101 - read_manifest was asked for it
    files = (manifest.data, *manifest.tables.values())
    pages = {name: getattr(manifest.written, key) for key, name in PAGES.items()}
    agreed = manifest.written.agreed
    plans = () if agreed is None else (agreed.file,)
    checks.append(check_folder(public, [SIGNATURE, *(file.file for file in files), *plans], pages))
    try:
        plan = None if agreed is None else read_plan(public / agreed.file, agreed)
        for file in files:
            checks.append(check_digest(public / file.file, file))
            checks.append(check_hygiene(public / file.file, file))
        rows = _open(public / manifest.data.file, manifest.data, manifest, spark)
        path, labelled = (None, None) if original is None else (find_witness(public), read_labelled(public))
        witness = None if path is None else Witness(path, "bucket" if manifest.sliced else "class")
    except ManifestError as fault:
        return _answer(manifest, (*checks, Check("plan", False, f"plan.json: {fault}")))
    except FAULTS as fault:
        return _answer(manifest, (*checks, report_unreadable(fault)))
    means = Means.of(memory, spark=spark)
    given = Given(original, witness, populations or {}, labelled, progress or Silent(), means)
    found = _verify(rows, manifest, checks, given, plan)
    if not manifest.tables or found.failures:
        return found
    try:
        tables = {name: _open(public / file.file, file, manifest) for name, file in manifest.tables.items()}
        more = check_tables(rows, manifest, **tables)
    except FAULTS as fault:
        more = report_unreadable(fault)
    return _answer(manifest, (*found.checks, more), found.guarantees)


def _open_original(source: object) -> Source | None:
    if source is None:
        return None
    from shoal.sources.opening import open_source

    return open_source(source)


def verify_table(
    table: pa.Table | PublishedRows,
    manifest: Mapping[str, Any],
    *,
    source: Source | None = None,
    populations: Populations | None = None,
    witness: IntArray | None = None,
    labelled: pa.Table | None = None,
    progress: Progress | None = None,
    means: Means | None = None,
) -> Verification:
    """Check a release that lives in memory, or is kept elsewhere as rows: all checks but those of files.

    *witness* tells, for every source row, its class or bucket as published, 0 for rows in none: (n_rows,) numbers, or
    (n_columns, n_rows) where ``internal/witness.parquet`` has several columns. *labelled* are the values that records
    under defended labels have, as ``internal/labels.parquet`` tells them.
    """
    rows = table if isinstance(table, PublishedRows) else MemoryRows(table)
    try:
        read = read_manifest(manifest, with_file=False)
    except ManifestError as fault:
        return Verification((Check("manifest", False, str(fault)),), ())
    stated = None if witness is None else Witness(witness, "bucket" if read.sliced else "class")
    means = means or Means.of(None)
    given = Given(source, stated, populations or {}, labelled, progress or Silent(), means)
    return _verify(rows, read, [Check("manifest", True, "the manifest is well formed")], given, None)


def _open(path: Path, data: DataFile, manifest: Manifest, spark: SparkSession | None = None) -> PublishedRows:
    if data.format == "parquet" and spark is not None:
        from shoal.verify.spark import SparkFileRows

        return SparkFileRows(path, spark)
    if data.format == "parquet":
        return ParquetRows(path)
    plain = {attribute.name for attribute in manifest.of_role("insensitive")}
    return CsvRows(path, data, [name for name in manifest.columns if name not in plain])


def _verify(
    rows: PublishedRows, manifest: Manifest, checks: list[Check], given: Given, plan: Plan | None
) -> Verification:
    """Check the rows; *plan* is the one that several data owners agreed on, if they did."""
    source = given.source
    checks.append(_columns(rows, manifest))
    if not checks[-1].ok:
        return _answer(manifest, checks)
    account = manifest.written.synthetic
    if account is not None:
        tree_given = "tree" in manifest.written.method_parameters
        if account.sampled is None:
            checks.append(check_account(account, manifest.columns, tree_given=tree_given))
        source = None
    original = source
    if source is not None and manifest.one_per is not None:
        checks.append(check_one_each(manifest, source))
    if source is not None:
        source = recompute_source(manifest, source)
    if manifest.written.items:
        sets = check_items(manifest, rows)
        checks.append(sets)
        if not sets.ok:
            return _answer(manifest, checks)
        source = None if source is None else unfold_source(manifest, source)
    given = replace(given, source=source)
    try:
        covers = read_all_covers(manifest)
        if plan is not None:
            checks.append(Check("plan", True, "the plan is the declared one, and it fits together"))
            found = verify_agreed(rows, manifest, plan, covers, source, given.progress)
        elif manifest.sliced:
            found = verify_sliced(rows, manifest, covers, source, given.witness, given.progress)
        else:
            found = verify_classes(rows, manifest, covers, given)
        checks += found.checks
        if found.guarantees is not None:
            checks += check_defended(rows, manifest, given)
            checks += _check_changed(rows, manifest, covers, original, source)
            checks += check_figures(manifest, found.labels)
    except CoverError as fault:
        return _answer(manifest, (*checks, Check("labels", False, str(fault))))
    return _answer(manifest, checks, found.guarantees)


def _check_changed(
    rows: PublishedRows,
    manifest: Manifest,
    covers: Mapping[str, Covers],
    given: Source | None,
    expected: Source | None,
) -> list[Check]:
    """Check columns that were changed by techniques or averaged, each by itself."""
    try:
        checks = check_techniques(rows, manifest, covers, given, expected)
        if manifest.written.synthetic is not None and manifest.written.synthetic.sampled is not None:
            checks.append(check_drawn(manifest.written.synthetic, manifest.written.synthetic.sampled, rows))
        return checks + check_averages(rows, manifest, expected)
    except MemoryError:  # no fault of the rows
        raise
    except FAULTS as fault:
        return [report_unreadable(fault)]


def _answer(
    manifest: Manifest, checks: Sequence[Check], guarantees: Sequence[CheckedGuarantee] | None = None
) -> Verification:
    if guarantees is None:
        guarantees = [
            CheckedGuarantee(promise.model, promise.parameters, promise.claimed, None, False, "not checked")
            for promise in manifest.promises
        ]
    return Verification(tuple(checks), tuple(guarantees), manifest.claims, may_promise_nothing(manifest.written.method))


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
