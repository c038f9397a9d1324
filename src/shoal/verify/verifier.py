"""The whole verification: manifest, files, labels, guarantees and, with a source, truth.

The files of a release are the declared ones and hold rows only. Whether the manifest is the one that its owner wrote is
shown by the digest kept in ``internal``, and by a signed statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.arrays import IntArray
from shoal.core.progress import Progress, Silent
from shoal.core.statements import VERIFIED
from shoal.manifest import PAGES, DataFile, ManifestError, parse_json, unpack_labels
from shoal.verify import files
from shoal.verify.classes import Classes, put_declared, read_all_covers
from shoal.verify.covers import CoverError, Covers
from shoal.verify.engine import CannotCheckError, Engine, Error
from shoal.verify.files import find_public as find_public
from shoal.verify.guarantees import leave_unchecked
from shoal.verify.manifest import Manifest, may_promise_nothing, read_manifest
from shoal.verify.result import Check, CheckedGuarantee, Verification
from shoal.verify.rows import Release, SourceRows, Witness, WitnessError
from shoal.verify.script import SCRIPT as SCRIPT
from shoal.verify.script import SOURCE_SCRIPT as SOURCE_SCRIPT
from shoal.verify.script import check_script, write_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.sources.base import Source
    from shoal.verify.agreed import Plan

# Everything that reading a broken file raises; a lack of memory says nothing about a file and passes through.
FAULTS = (
    Error,
    pa.ArrowCapacityError,
    pa.ArrowNotImplementedError,
    pa.ArrowSerializationError,
    OSError,
    ValueError,
    TypeError,
    OverflowError,
    LookupError,
)
Populations: TypeAlias = "Mapping[str, Source]"
WITNESS, LABELS = "witness.parquet", "labels.parquet"


class Batches(Protocol):
    """Rows that are kept elsewhere and can be read as Arrow batches."""

    schema: pa.Schema

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns."""


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What a release is compared with, and the memory of the process."""

    source: Source | None = None
    witness: Witness | None = None
    populations: Populations | None = None
    labelled: pa.Table | None = None  # the values under defended labels
    progress: Progress | None = None
    memory: int | None = None


def verify(
    folder: str | Path,
    *,
    source: object = None,
    populations: Populations | None = None,
    progress: Progress | None = None,
    memory: int | None = None,
    public_key: bytes | None = None,
) -> Verification:
    """Check a written release, except for its pages: see ``shoal.reports.verifying``."""
    public = files.find_public(Path(folder))
    original = _open_original(source)
    text = files.read_text(public / "manifest.json")
    checks = files.check_written(public, text.encode(), public_key, with_source=original is not None)
    try:
        manifest = read_manifest(unpack_labels(parse_json(text)), with_file=True)
    except ManifestError as fault:
        return Verification((Check("manifest", False, str(fault)), *checks), ())
    checks = [Check("manifest", True, "the manifest is well formed"), *checks]
    assert manifest.data is not None  # noqa: S101 - read_manifest was asked for it
    written = (manifest.data, *manifest.tables.values())
    pages = {name: getattr(manifest.written, key) for key, name in PAGES.items()}
    agreed = manifest.written.agreed
    plans = () if agreed is None else (agreed.file,)
    checks.append(files.check_folder(public, [VERIFIED, SCRIPT, *(file.file for file in written), *plans], pages))
    checks.append(check_script(manifest, _read_script(public / SCRIPT)))
    for file in written:
        if not (public / file.file).is_file():  # a pipe or a device may never end
            return _answer(manifest, (*checks, report_unreadable(OSError())))
    with ThreadPoolExecutor(1) as pool:  # computes the digests of the files while their rows are read
        digests = pool.submit(lambda: [files.check_digest(public / file.file, file) for file in written])
        given = Given(original, None, populations, None, progress, memory)
        found = _verify_files(public, manifest, written, given)
        return replace(found, checks=(*checks, *digests.result(), *found.checks))


def scripts_for(manifest: Mapping[str, Any], source: pa.Schema) -> tuple[str, str]:
    """Return the texts of the public and of the internal script, for a release in files and its source's columns."""
    from shoal.verify.source_script import write_source_script

    try:
        read = read_manifest(manifest, with_file=True)
    except ManifestError:
        return "", ""  # the verification that follows says why, and nothing is published
    return write_script(read), write_source_script(read, source)


def verify_table(
    table: pa.Table | Batches,
    manifest: Mapping[str, Any],
    *,
    source: Source | None = None,
    populations: Populations | None = None,
    witness: IntArray | None = None,
    labelled: pa.Table | None = None,
    progress: Progress | None = None,
    memory: int | None = None,
) -> Verification:
    """Check a release in memory, or rows that are kept elsewhere: all checks but those of files.

    *witness* has, for every source row, its class or bucket as published, 0 for rows in none: (n_rows,) numbers, or
    (n_columns, n_rows) if ``internal/witness.parquet`` has several columns. *labelled* are the values of records under
    defended labels, as ``internal/labels.parquet`` has them.
    """
    try:
        read = read_manifest(manifest, with_file=False)
    except ManifestError as fault:
        return Verification((Check("manifest", False, str(fault)),), ())
    stated = None if witness is None else Witness(witness, "bucket" if read.sliced else "class")
    given = Given(source, stated, populations, labelled, progress, memory)
    form = Check("manifest", True, "the manifest is well formed")
    with Engine(memory=memory, rows=read.rows, columns=len(read.columns)) as engine:
        columns = _check_columns(table.schema.names, read)
        if not columns.ok:
            return _answer(read, (form, columns))
        try:
            given_rows = Release.of_table if isinstance(table, pa.Table) else Release.of_batches
            release = given_rows(engine, read, table)
            found = _Verifier(release, given, None).run()
        except MemoryError:
            raise
        except FAULTS as fault:
            return _answer(read, (form, columns, report_unreadable(fault)))
    return replace(found, checks=(form, columns, *found.checks))


def _open_original(source: object) -> Source | None:
    if source is None:
        return None
    from shoal.sources.opening import open_source

    return open_source(source)


def _read_script(path: Path) -> str | None:
    """Return the script in the folder, None if there is none; text that is not UTF-8 is never the right one."""
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() and not path.is_symlink() else None


def _verify_files(public: Path, manifest: Manifest, written: Sequence[DataFile], given: Given) -> Verification:
    """Check the data file and, of a bucketized release, its two tables."""
    checks: list[Check] = []
    data, agreed, plan = written[0], manifest.written.agreed, None
    if agreed is not None:
        from shoal.verify.agreed import read_plan  # few releases need it

        try:
            plan = read_plan(public / agreed.file, agreed)
        except ManifestError as fault:
            return _answer(manifest, (Check("plan", False, f"plan.json: {fault}"),))
    paths = [(public / file.file).resolve() for file in written]
    with Engine(paths, memory=given.memory, rows=manifest.rows, columns=len(manifest.columns)) as engine:
        try:
            for path, file in zip(paths, written, strict=True):
                checks += files.check_hygiene(engine, path, file, manifest.missing_tokens)
            checks.append(_check_columns(files.read_names(paths[0], data.format), manifest))
            if not checks[-1].ok:
                return _answer(manifest, checks)
            release = Release.of_file(engine, manifest, paths[0], data.format)
            found = _Verifier(release, _read_internal(public, manifest, given), plan).run()
            if manifest.tables and not found.failures:
                from shoal.verify.sliced.checking import check_tables

                tables = dict(zip(manifest.tables, paths[1:], strict=True))
                checks.append(check_tables(release, {name: (path, data.format) for name, path in tables.items()}))
        except MemoryError:
            raise
        except FAULTS as fault:
            return _answer(manifest, (*checks, report_unreadable(fault)))
    return replace(found, checks=(*checks, *found.checks))


def _read_internal(public: Path, manifest: Manifest, given: Given) -> Given:
    """Return what is given, with the witness and the values under defended labels if they are next to the release."""
    if given.source is None:
        return given
    witness, labels = (files.find_internal(public, name) for name in (WITNESS, LABELS))
    column = "bucket" if manifest.sliced else "class"
    stated = None if witness is None else Witness(witness, column)
    return replace(given, witness=stated, labelled=None if labels is None else pq.read_table(labels))


def _check_columns(names: Sequence[str], manifest: Manifest) -> Check:
    declared = manifest.columns
    extra = len(set(names) - set(declared))
    absent = [name for name in declared if name not in names]
    if tuple(names) == declared:
        return Check("columns", True, "the columns are the declared ones")
    if extra:
        detail = f"{extra} columns are not declared in the manifest"
    elif absent:
        detail = f"declared columns are absent: {', '.join(absent)}"
    elif len(set(names)) != len(names):
        detail = "a column occurs twice"
    else:
        detail = "the columns are not in the declared order"
    return Check("columns", False, detail)


class _Verifier:
    """The checks of the rows."""

    def __init__(self, release: Release, given: Given, plan: Plan | None) -> None:
        """Take the plan that several data owners agreed on, if they did."""
        self._release, self._given, self._plan = release, given, plan
        self._manifest, self._engine = release.manifest, release.engine
        self._progress = given.progress or Silent()

    def run(self) -> Verification:
        """Return all checks and guarantees."""
        manifest, release = self._manifest, self._release
        checks: list[Check] = []
        guarantees: Sequence[CheckedGuarantee] | None = None
        labelled = [one.name for one in manifest.attributes if one.may_keep_missing]
        if any(release.types[name] != "VARCHAR" for name in labelled):
            return _answer(manifest, [Check("columns", False, "labels of sensitive values are not published as text")])
        try:
            with self._progress.step("verifying the release", manifest.rows) as step:
                found = self._check(checks)
                step.advance(manifest.rows)
            guarantees = found
        except CoverError as fault:
            checks.append(Check("labels", False, str(fault)))
        except CannotCheckError as fault:
            checks.append(Check("labels", False, f"cannot check: {fault}"))
        except WitnessError as fault:
            if all(check.name != "witness" for check in checks):
                checks.append(Check("witness", False, f"{fault}; or the source file or its row order differs"))
        return _answer(manifest, checks, guarantees)

    def _check(self, checks: list[Check]) -> Sequence[CheckedGuarantee] | None:
        """Add checks; return the guarantees, None if the form of the release does not let them be judged."""
        manifest, release, given = self._manifest, self._release, self._given
        account = manifest.written.synthetic
        if account is not None and account.sampled is None:
            from shoal.verify.account import check_account  # what few releases need is loaded for these only

            tree_given = "tree" in manifest.written.method_parameters
            checks.append(check_account(account, manifest.columns, tree_given=tree_given))
        original = expected = None
        if manifest.written.items:
            from shoal.verify.items import check_items

            checks.append(check_items(manifest, release))
            if not checks[-1].ok:
                return None
        if given.source is not None and account is None:
            original, expected = self._open_source(given.source, checks)
        covers = read_all_covers(manifest)
        tables = put_declared(release)
        if self._plan is not None:
            from shoal.verify.agreed import verify_agreed

            checks.append(Check("plan", True, "the plan is the declared one, and it is consistent"))
            found = verify_agreed(release, self._plan, expected)
        elif manifest.sliced:
            from shoal.verify.people import find_changed
            from shoal.verify.sliced.checking import verify_sliced

            found = verify_sliced(release, tables, covers, expected)
            if find_changed(manifest):
                refused = "a promise about values that techniques changed by chance cannot be checked in parts"
                checks.append(Check("true values", False, refused))
        else:
            found = Classes(release, tables, covers, expected, given.populations or {}).verify()
        checks += found.checks
        if found.guarantees is None:
            return None
        checks += self._check_columns(covers, original, expected)
        return found.guarantees

    def _check_columns(
        self, covers: Mapping[str, Covers], original: SourceRows | None, expected: SourceRows | None
    ) -> list[Check]:
        """Check columns that are defended, drawn, averaged or changed by techniques, each by itself."""
        manifest, release, checks = self._manifest, self._release, []
        if expected is not None and manifest.written.method_parameters.get("defend") is True:
            from shoal.verify.defended import check_defended

            checks += check_defended(release, manifest, covers, expected, self._given.labelled)
        account = manifest.written.synthetic
        if account is not None and account.sampled is not None:
            from shoal.verify.account import check_drawn

            checks.append(check_drawn(account, account.sampled, release))
        if manifest.techniques or manifest.averaging is not None:
            from shoal.verify.techniques.checking import check_columns

            checks += check_columns(release, manifest, original, expected)
        return checks

    def _open_source(self, source: Source, checks: list[Check]) -> tuple[SourceRows, SourceRows]:
        """Return the source as it is and as the release has it, with determined columns recomputed."""
        manifest, engine, witness = self._manifest, self._engine, self._given.witness
        original = expected = source
        if manifest.techniques:
            from shoal.verify.techniques.checking import recompute_source

            expected = recompute_source(manifest, source)
        if manifest.written.items:
            from shoal.verify.items import unfold_source

            original, expected = (unfold_source(manifest, one) for one in (original, expected))
        rows = [SourceRows(engine, manifest, one, witness, self._progress) for one in (original, expected)]
        if manifest.one_per is not None:
            from shoal.verify.people import check_one_each

            checks.append(check_one_each(manifest, rows[0]))
        return rows[0], rows[1]


def report_unreadable(fault: BaseException) -> Check:
    """Return the failed check of a file that cannot be read."""
    # The text of such an error can quote the row it failed on, so only its kind is named.
    return Check("file", False, f"the rows cannot be read ({type(fault).__name__})")


def _answer(
    manifest: Manifest, checks: Sequence[Check], guarantees: Sequence[CheckedGuarantee] | None = None
) -> Verification:
    judged = leave_unchecked(manifest.promises) if guarantees is None else tuple(guarantees)
    return Verification(tuple(checks), judged, manifest.claims, may_promise_nothing(manifest.written.method))
