"""The whole verification: shape, files, labels, promises and, with a source, truth.

Nothing lies beside the files of a release, they are those of the manifest, and they hold rows only. Whether the
manifest is the one that its owner wrote is shown by the digest kept in ``internal``, and by a signed statement.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.arrays import IntArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress, Silent
from shoal.core.statements import VERIFIED
from shoal.manifest import PAGES, DataFile, FileDigest, ManifestError, parse_json, unpack_labels
from shoal.verify import reading
from shoal.verify.classes import read_all_covers, verify_classes
from shoal.verify.contents import is_textual
from shoal.verify.covers import CoverError, Covers
from shoal.verify.decoding import check_defended
from shoal.verify.envelopes import check_envelopes
from shoal.verify.form import check_figures
from shoal.verify.items import check_items, unfold_source
from shoal.verify.manifest import Manifest, check_account, check_drawn, may_promise_nothing, read_manifest
from shoal.verify.passes import Given, Means, Populations
from shoal.verify.people import check_one_each, find_changed
from shoal.verify.result import Check, CheckedGuarantee, Verification
from shoal.verify.script import SCRIPT as SCRIPT
from shoal.verify.script import check_script, write_script
from shoal.verify.source_script import SOURCE_SCRIPT as SOURCE_SCRIPT
from shoal.verify.source_script import write_source_script
from shoal.verify.techniques.checking import check_averages, check_techniques, recompute_source
from shoal.verify.truth import Witness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.sources.base import Source
    from shoal.verify.agreed import Plan


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
    """Check a written release, except for its pages: see ``shoal.reports.verifying``."""
    public = reading.public_folder(Path(folder))
    original = _open_original(source)
    text = read_json(public / "manifest.json")
    content = text.encode()
    checks = check_written(public, content, public_key, with_source=original is not None)
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
    checks.append(check_folder(public, [VERIFIED, SCRIPT, *(file.file for file in files), *plans], pages))
    checks.append(check_script(manifest, _read_script(public / SCRIPT)))
    before = tuple(checks)
    given = Given(original, None, populations or {}, None, progress or Silent(), Means.of(memory, spark=spark))
    with ThreadPoolExecutor(1) as pool:  # takes the digests of the files while their rows are read
        digests = pool.submit(lambda: [check_digest(public / file.file, file) for file in files])
        found = _verify_files(public, manifest, files, checks, given, spark)
    try:
        return replace(found, checks=(*before, *digests.result(), *found.checks[len(before) :]))
    except reading.FAULTS as fault:
        return found if found.failures else replace(found, checks=(*before, reading.report_unreadable(fault)))


def scripts_for(manifest: Mapping[str, Any], source: pa.Schema) -> tuple[str, str]:
    """Return the texts of the public and of the internal script, for a release in files and its source's columns."""
    try:
        read = read_manifest(manifest, with_file=True)
    except ManifestError:
        return "", ""  # the verification that follows says why, and nothing is published
    return write_script(read), write_source_script(read, source)


def _read_script(path: Path) -> str | None:
    """Return the script in the folder, None if there is none; text that is not UTF-8 is never the right one."""
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() and not path.is_symlink() else None


def _verify_files(
    public: Path,
    manifest: Manifest,
    files: Sequence[DataFile],  # the rows', and those of further tables
    checks: list[Check],
    given: Given,
    spark: SparkSession | None,
) -> Verification:
    agreed = manifest.written.agreed
    try:
        plan = None
        if agreed is not None:
            from shoal.verify.agreed import read_plan  # what few releases need is loaded for these only

            plan = read_plan(public / agreed.file, agreed)
        for file in files:
            _require_plain(public / file.file)
            checks.append(check_hygiene(public / file.file, file, manifest.missing_tokens))
        rows = _open(public / files[0].file, files[0], manifest, spark)
        path, labelled = None, None
        if given.source is not None:
            path, labelled = reading.find_witness(public), reading.read_labelled(public)
        witness = None if path is None else Witness(path, "bucket" if manifest.sliced else "class")
    except ManifestError as fault:
        return _answer(manifest, (*checks, Check("plan", False, f"plan.json: {fault}")))
    except reading.FAULTS as fault:
        return _answer(manifest, (*checks, reading.report_unreadable(fault)))
    found = _verify(rows, manifest, checks, replace(given, witness=witness, labelled=labelled), plan)
    if not manifest.tables or found.failures:
        return found
    from shoal.verify.sliced.checking import check_tables

    try:
        tables = {name: _open(public / file.file, file, manifest) for name, file in manifest.tables.items()}
        more = check_tables(rows, manifest, **tables)
    except reading.FAULTS as fault:
        more = reading.report_unreadable(fault)
    return _answer(manifest, (*found.checks, more), found.guarantees)


def _open_original(source: object) -> Source | None:
    if source is None:
        return None
    from shoal.sources.opening import open_source

    return open_source(source)


def verify_table(
    table: pa.Table | reading.PublishedRows,
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
    rows = table if isinstance(table, reading.PublishedRows) else reading.MemoryRows(table)
    try:
        read = read_manifest(manifest, with_file=False)
    except ManifestError as fault:
        return Verification((Check("manifest", False, str(fault)),), ())
    stated = None if witness is None else Witness(witness, "bucket" if read.sliced else "class")
    means = means or Means.of(None)
    given = Given(source, stated, populations or {}, labelled, progress or Silent(), means)
    return _verify(rows, read, [Check("manifest", True, "the manifest is well formed")], given, None)


def _open(path: Path, data: DataFile, manifest: Manifest, spark: SparkSession | None = None) -> reading.PublishedRows:
    if data.format == "parquet" and spark is not None:
        from shoal.verify.spark import SparkFileRows

        return SparkFileRows(path, spark)
    if data.format == "parquet":
        return reading.ParquetRows(path)
    plain = {attribute.name for attribute in manifest.of_role("insensitive")}
    return reading.CsvRows(path, [name for name in manifest.columns if name not in plain])


def _verify(
    rows: reading.PublishedRows, manifest: Manifest, checks: list[Check], given: Given, plan: Plan | None
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
        checks.append(check_one_each(manifest, source, given.witness))
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
            from shoal.verify.agreed import verify_agreed

            found = verify_agreed(rows, manifest, plan, covers, source, given.progress)
        elif manifest.sliced:
            from shoal.verify.sliced.checking import verify_sliced

            found = verify_sliced(rows, manifest, covers, source, given.witness, given.progress)
            if find_changed(manifest):
                refused = "a promise about values that techniques changed by chance cannot be checked in parts"
                checks.append(Check("true values", False, refused))
        else:
            found = verify_classes(rows, manifest, covers, given)
        checks += found.checks
        if found.guarantees is not None:
            checks += check_defended(rows, manifest, covers, given)
            checks += _check_changed(rows, manifest, covers, original, source)
            checks += check_figures(manifest, found.labels)
    except CoverError as fault:
        return _answer(manifest, (*checks, Check("labels", False, str(fault))))
    return _answer(manifest, checks, found.guarantees)


def _check_changed(
    rows: reading.PublishedRows,
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
    except reading.FAULTS as fault:
        return [reading.report_unreadable(fault)]


def _answer(
    manifest: Manifest, checks: Sequence[Check], guarantees: Sequence[CheckedGuarantee] | None = None
) -> Verification:
    if guarantees is None:
        guarantees = [
            CheckedGuarantee(promise.model, promise.parameters, promise.claimed, None, False, "not checked")
            for promise in manifest.promises
        ]
    return Verification(tuple(checks), tuple(guarantees), manifest.claims, may_promise_nothing(manifest.written.method))


def _columns(rows: reading.PublishedRows, manifest: Manifest) -> Check:
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


_ALLOWED = ("manifest.json", "README.md")


def check_folder(public: Path, files: Sequence[str], pages: Mapping[str, FileDigest | None]) -> Check:
    """Nothing but *files*, plain ones, lies beside the manifest, and *pages* have the digests that it tells.

    A README may be there without a digest, as in releases of earlier versions.
    """
    stated = {name: page.sha256 for name, page in pages.items() if page is not None}
    allowed = {public / name for name in (*_ALLOWED, *files, *stated)}
    extra = sum(1 for path in public.rglob("*") if path.is_symlink() or path not in allowed or not path.is_file())
    if extra:
        return Check("folder", False, f"the public folder contains {extra} files that do not belong there")
    for name, digest in stated.items():
        if not (public / name).is_file() or _digest(public / name) != digest:
            return Check("folder", False, f"{name} is not the one that the manifest was written for")
    return Check("folder", True, "no other files")


def _require_plain(path: Path) -> None:
    if not path.is_file():
        raise OSError("no plain file")  # of a pipe or a device the end may never come


def _digest(path: Path) -> str:
    _require_plain(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_digest(path: Path, data: DataFile) -> Check:
    """The data file is the one that the manifest was written for."""
    same = _digest(path) == data.sha256
    detail = "the file has the declared SHA-256" if same else "the file's SHA-256 is not the declared one"
    return Check("digest", same, detail)


def check_hygiene(path: Path, data: DataFile, missing: Sequence[str]) -> Check:
    """The file carries the rows and nothing about where they came from."""
    found = _parquet_leftovers(path) if data.format == "parquet" else _csv_leftovers(path)
    if not found and data.format == "csv" and not reading.is_canonical_csv(path, allow_empty="" not in missing):
        found = ["is not written in the canonical form: line ends, quotes, or quotes before formulas differ"]
    detail = "the data file " + ", ".join(found) if found else "the data file holds rows only"
    return Check("hygiene", not found, detail)


_WRITERS = re.compile(r"parquet-cpp-arrow version [\d.]+|parquet-mr version [\d.]+ \(build [0-9a-f]{40}\)")


def _parquet_leftovers(path: Path) -> list[str]:
    found: dict[str, None] = {}
    spans: list[tuple[int, int]] = []
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        if metadata.metadata or any(
            field.metadata and set(field.metadata) != {b"PARQUET:field_id"} for field in file.schema_arrow
        ):
            found["has key-value metadata"] = None
        if not _WRITERS.fullmatch(metadata.created_by or ""):
            found["has free text for the software that wrote it"] = None
        for group in range(metadata.num_row_groups):
            if metadata.row_group(group).sorting_columns:
                found["states an order of its rows"] = None
            for place in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(place)
                if chunk.is_stats_set or getattr(chunk, "is_geo_stats_set", False):
                    found["has column statistics"] = None
                if chunk.has_column_index or chunk.has_offset_index:
                    found["has a page index"] = None
                if getattr(chunk, "bloom_filter_offset", None) is not None:
                    found["has Bloom filters"] = None
                if getattr(chunk, "metadata", None):
                    found["has key-value metadata of columns"] = None
                starts = (chunk.dictionary_page_offset, chunk.data_page_offset)
                start = min(offset for offset in starts if offset is not None)
                spans.append((start, start + chunk.total_compressed_size))
        if sum(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)) != metadata.num_rows:
            found["counts rows that are in no row group"] = None
    end = 4
    for start, stop in sorted(spans):
        if start != end:
            break
        end = stop
    with path.open("rb") as raw:
        raw.seek(-8, 2)
        footer = int.from_bytes(raw.read(4), "little")
        size = raw.tell() + 4
    if end != size - 8 - footer or len({start for start, _ in spans}) != len(spans):
        found["has bytes that belong to no column"] = None
    return list(found)


def _csv_leftovers(path: Path) -> list[str]:
    found: dict[str, None] = {}
    with path.open("rb") as file:
        first = True
        while block := file.read(1 << 20):
            if first and block.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
                found["begins with a byte order mark"] = None
            if b"\0" in block:
                found["holds NUL bytes"] = None
            first = False
    return list(found)


def read_json(path: Path) -> str:
    """Return the text of the manifest; a file that cannot be read or decoded is the caller's mistake."""
    try:
        return path.read_bytes().decode("utf-8")  # line ends as they are: its digest is compared
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {type(error).__name__}") from None


def check_written(public: Path, content: bytes, key: bytes | None, *, with_source: bool) -> list[Check]:
    """Check that the manifest is the one that was written; a release that is being written has no proof of it yet."""
    checks = [*check_recorded(public, content), *check_envelopes(public, content, key)]
    staged = public.name == "unverified" and (public.parent / "internal").is_dir()
    if not staged and not any(check.done for check in checks):
        why = (
            "not checked: whether this is the manifest that was written, with all its guarantees and parameters, is "
            "shown by internal/evidence.json next to public/, or by a signature and its public key"
        )
        checks.append(Check("recorded", True, why, done=False, required=with_source))
    return checks


def check_recorded(public: Path, content: bytes) -> list[Check]:
    """Compare the manifest with the digest in ``internal/evidence.json``, if that lies beside the public folder."""
    path = public.parent / "internal" / "evidence.json"
    if public.name != "public" or not path.is_file():
        return []
    try:
        evidence = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ManifestError):
        evidence = None
    if not isinstance(evidence, dict) or not isinstance(evidence.get("manifest", {}), dict):
        return [Check("recorded", False, "internal/evidence.json cannot be read")]
    if "manifest" not in evidence:  # an earlier version wrote it
        return []
    same = evidence["manifest"].get("sha256") == hashlib.sha256(content).hexdigest()
    is_it = "is" if same else "is not"
    return [Check("recorded", same, f"the manifest {is_it} the one that internal/evidence.json was written with")]
