"""The whole verification: manifest, files, labels, guarantees and, with a source, truth.

The files of a release are the declared ones and hold rows only. The digest in ``internal`` and a
signed statement show that the manifest was not exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.arrays import IntArray
from shoal.core.progress import Progress, Silent
from shoal.core.statements import VERIFIED
from shoal.manifest import PAGES, ManifestError, parse_json, unpack_labels
from shoal.verify import files
from shoal.verify.classes import FormCheck, FormRows, put_labels, verify_classes
from shoal.verify.counting import ReleaseTables
from shoal.verify.covers import CoverError
from shoal.verify.engine import CannotCheckError, Engine, Error
from shoal.verify.files import find_public as find_public
from shoal.verify.manifest import AGREED, FORMS, GROUP, SLICES, Manifest, may_promise_nothing, read_manifest
from shoal.verify.promises import answer
from shoal.verify.result import Check, CheckedGuarantee, Verification
from shoal.verify.rows import Release, SourceRows, Witness, WitnessError
from shoal.verify.script import SCRIPT as SCRIPT
from shoal.verify.script import SOURCE_SCRIPT as SOURCE_SCRIPT
from shoal.verify.script import check_script, write_script

if TYPE_CHECKING:
    from shoal.sources.base import Source
    from shoal.verify.agreed import Plan

# Everything that reading a broken file raises; a lack of memory says nothing about a file and passes through.
FAULTS = (Error, pa.ArrowException, OSError, ValueError, TypeError, OverflowError, LookupError)
Populations: TypeAlias = "Mapping[str, Source]"
WITNESS, LABELS = "witness.parquet", "labels.parquet"
_WELL_FORMED = Check("manifest", True, "the manifest is well formed")


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
    public, original = files.find_public(Path(folder)), None
    if source is not None:
        from shoal.sources.opening import open_source

        original = open_source(source)
    text = files.read_text(public / "manifest.json")
    checks = files.check_written(public, text.encode(), public_key, with_source=original is not None)
    try:
        manifest = read_manifest(unpack_labels(parse_json(text)), with_file=True)
    except ManifestError as fault:
        return Verification((Check("manifest", False, str(fault)), *checks), ())
    assert manifest.data is not None  # noqa: S101 - read_manifest was asked for it
    written, agreed = (manifest.data, *manifest.tables.values()), manifest.written.agreed
    names = [file.file for file in (*written, *(() if agreed is None else (agreed,)))]
    pages = {name: getattr(manifest.written, key) for key, name in PAGES.items()}
    checks = [_WELL_FORMED, *checks, files.check_folder(public, [VERIFIED, SCRIPT, *names], pages)]
    checks.append(check_script(manifest, _read_script(public / SCRIPT)))
    rows = _Rows(manifest, original, populations or {}, progress or Silent())
    paths = [(public / file.file).resolve() for file in written]
    with rows.report_faults():
        for path in paths:
            files.require_plain(path)
    if rows.checks:
        return rows.conclude(checks)
    with ThreadPoolExecutor(1) as pool:  # computes the digests of the files while their rows are read
        digests = pool.submit(lambda: [files.check_digest(*both) for both in zip(paths, written, strict=True)])
        n_columns = len(manifest.columns)
        with rows.report_faults(), Engine(paths, memory=memory, rows=manifest.rows, columns=n_columns) as engine:
            rows.read_others(public)
            for path, file in zip(paths, written, strict=True):
                rows.checks += files.check_hygiene(engine, path, file, manifest.missing_tokens)
            if rows.check_columns(files.read_names(paths[0], manifest.data.format)):
                release = Release.of_file(engine, manifest, paths[0], manifest.data.format)
                rows.check(release)
                if manifest.tables and not rows.conclude(()).failures:
                    from shoal.verify.slices import check_tables

                    tables = {
                        name: (path, manifest.data.format)
                        for name, path in zip(manifest.tables, paths[1:], strict=True)
                    }
                    rows.checks.append(check_tables(release, tables))
        checks += digests.result()
    return rows.conclude(checks)


def verify_table(
    table: Any,
    manifest: Mapping[str, Any],
    *,
    source: Source | None = None,
    populations: Populations | None = None,
    witness: IntArray | None = None,
    labelled: pa.Table | None = None,
    progress: Progress | None = None,
    memory: int | None = None,
) -> Verification:
    """Check a release in memory; the checks of files are left out.

    *table* is an Arrow table or has a ``schema`` and ``batches``. *witness* has, for every source row, its class or
    bucket as published, 0 for rows in none: (n_rows,) numbers, or (n_columns, n_rows) if ``internal/witness.parquet``
    has several columns. *labelled* are the values under defended labels, as ``internal/labels.parquet`` has them.
    """
    try:
        read = read_manifest(manifest, with_file=False)
    except ManifestError as fault:
        return Verification((Check("manifest", False, str(fault)),), ())
    stated = None if witness is None else Witness(witness, read.numbered)
    rows = _Rows(read, source, populations or {}, progress or Silent(), stated, labelled)
    if rows.check_columns(table.schema.names):
        with rows.report_faults(), Engine(memory=memory, rows=read.rows, columns=len(read.columns)) as engine:
            make = Release.of_table if isinstance(table, pa.Table) else Release.of_batches
            rows.check(make(engine, read, table))
    return rows.conclude([_WELL_FORMED])


def scripts_for(manifest: Mapping[str, Any], source: pa.Schema) -> tuple[str, str]:
    """Return the texts of the public and of the internal script, for a release in files and its source's columns."""
    from shoal.verify.source_script import write_source_script

    try:
        read = read_manifest(manifest, with_file=True)
    except ManifestError:
        return "", ""  # the verification that follows names the fault
    return write_script(read), write_source_script(read, source)


def find_form_check(form: str) -> FormCheck:
    """Return the check of a form of release; other packages register theirs under the name of the form."""
    if form == SLICES:
        from shoal.verify.slices import verify_sliced  # what few releases need is loaded for these only

        return verify_sliced
    if form == AGREED:
        from shoal.verify.agreed import verify_agreed

        return verify_agreed
    if form in FORMS:
        return verify_classes
    (entry,) = entry_points(group=GROUP, name=form)
    found: FormCheck = entry.load()
    return found


def _read_script(path: Path) -> str | None:
    """Return the script in the folder, None if there is none; text that is not UTF-8 is never the right one."""
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() and not path.is_symlink() else None


@dataclass(slots=True, eq=False)
class _Rows:
    """The verification of the rows: its inputs, and its results so far."""

    manifest: Manifest
    source: Source | None
    populations: Populations
    progress: Progress
    witness: Witness | None = None
    labelled: pa.Table | None = None  # the values under defended labels
    plan: Plan | None = None  # that several data owners agreed on
    checks: list[Check] = field(default_factory=list)
    guarantees: Sequence[CheckedGuarantee] | None = None

    @contextmanager
    def report_faults(self) -> Iterator[None]:
        """Add a failed check if rows cannot be read or judged; its text quotes no value."""
        try:
            yield
        except MemoryError:
            raise
        except ManifestError as fault:
            self.checks.append(Check("plan", False, f"plan.json: {fault}"))
        except CoverError as fault:
            self.checks.append(Check("labels", False, str(fault)))
        except CannotCheckError as fault:
            self.checks.append(Check("labels", False, f"cannot check: {fault}"))
        except WitnessError as fault:
            if all(check.name != "witness" for check in self.checks):
                self.checks.append(Check("witness", False, f"{fault}; or the source file or its row order differs"))
        except FAULTS as fault:  # its text can quote a row
            self.checks.append(Check("file", False, f"the rows cannot be read ({type(fault).__name__})"))

    def conclude(self, before: Sequence[Check]) -> Verification:
        """Return the result, with other checks *before* the checks of the rows."""
        unjudged = [answer(promise, None, False, "not checked") for promise in self.manifest.promises]
        judged = unjudged if self.guarantees is None else self.guarantees
        free = may_promise_nothing(self.manifest.written.form)
        return Verification((*before, *self.checks), tuple(judged), self.manifest.claims, free)

    def read_others(self, public: Path) -> None:
        """Read the plan and, if there is a source, the witness and the values under defended labels."""
        if self.manifest.written.agreed is not None:
            from shoal.verify.agreed import read_plan  # what few releases need is loaded for these only

            self.plan = read_plan(public / self.manifest.written.agreed.file, self.manifest.written.agreed)
        if self.source is not None:
            witness, labels = (files.find_internal(public, name) for name in (WITNESS, LABELS))
            self.witness = None if witness is None else Witness(witness, self.manifest.numbered)
            self.labelled = None if labels is None else pq.read_table(labels)

    def check_columns(self, names: Sequence[str]) -> bool:
        """Check that the columns are the declared ones, in their order."""
        declared, fault = self.manifest.columns, ""
        extra, absent = len(set(names) - set(declared)), [name for name in declared if name not in names]
        if extra:
            fault = f"{extra} columns are not declared in the manifest"
        elif absent:
            fault = f"declared columns are absent: {', '.join(absent)}"
        elif tuple(names) != declared:
            repeated = len(set(names)) != len(names)
            fault = "a column occurs twice" if repeated else "the columns are not in the declared order"
        self.checks.append(Check.of("columns", fault, "the columns are the declared ones"))
        return not fault

    def check(self, release: Release) -> None:
        """Add the checks of the rows, and the guarantees if the form of the release lets them be judged."""
        with self.progress.step("verifying the release", self.manifest.rows) as step:
            self._check_form(release)
            step.advance(self.manifest.rows)

    def _check_form(self, release: Release) -> None:
        manifest, checks, account = self.manifest, self.checks, self.manifest.written.synthetic
        if any(release.types[one.name] != "VARCHAR" for one in manifest.attributes if one.may_keep_missing):
            checks.append(Check("columns", False, "labels of sensitive values are not published as text"))
            return
        if account is not None and account.sampled is None:
            from shoal.verify.account import check_account

            tree_given = "tree" in manifest.written.method_parameters
            checks.append(check_account(account, manifest.columns, tree_given=tree_given))
        if manifest.written.items:
            from shoal.verify.items import check_items

            checks.append(check_items(manifest, release))
            if not checks[-1].ok:
                return
        original = expected = None
        if self.source is not None and account is None:
            original, expected = self._read_source(release.engine, self.source)
        covers, tables = put_labels(release), ReleaseTables(manifest)
        form = FormRows(release, tables, covers, expected, self.populations, self.plan)
        found = find_form_check(manifest.written.form)(form)
        checks += found.checks
        if found.guarantees is None or len(found.guarantees) != len(manifest.promises):
            return
        if expected is not None and manifest.written.method_parameters.get("defend") is True:
            from shoal.verify.reach import check_defended

            checks += check_defended(release, manifest, covers, expected, self.labelled)
        if account is not None and account.sampled is not None:
            from shoal.verify.account import check_drawn

            checks.append(check_drawn(account, account.sampled, release))
        if manifest.techniques or manifest.averaging is not None:
            from shoal.verify.techniques.checking import check_columns

            checks += check_columns(release, manifest, original, expected)
        self.guarantees = found.guarantees

    def _read_source(self, engine: Engine, source: Source) -> tuple[SourceRows, SourceRows]:
        """Return the source as it is and as the release has it, with determined columns recomputed."""
        manifest, original, expected = self.manifest, source, source
        if manifest.techniques:
            from shoal.verify.techniques.checking import recompute_source

            expected = recompute_source(manifest, source)
        if manifest.written.items:
            from shoal.verify.items import unfold_source

            original, expected = (unfold_source(manifest, one) for one in (original, expected))
        rows = [SourceRows(engine, manifest, one, self.witness, self.progress) for one in (original, expected)]
        if manifest.one_per is not None:
            from shoal.verify.people import check_one_each

            self.checks.append(check_one_each(manifest, rows[0]))
        return rows[0], rows[1]
