"""The place of a release until it is published: memory, or a staging folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from shoal.anonymize.opening import Run
from shoal.anonymize.refusing import refuse_open
from shoal.audit.decision import decide
from shoal.audit.marginals import MOST_ROWS
from shoal.columns.base import TreatedSource
from shoal.core.results import Finding
from shoal.engines.local import release_memory
from shoal.manifest import PAGES, pack_labels, parse_json, unpack_labels
from shoal.release.publication import Publication
from shoal.release.release import Release, Staging, hold_interrupts, write_bytes, write_json, write_text
from shoal.release.rows import write_rows
from shoal.release.sliced.table import SlicedTable, two_tables
from shoal.release.witness import FILE as WITNESS
from shoal.release.witness import Witness
from shoal.sources.base import file_digest, layers
from shoal.sources.frames import like
from shoal.verify.result import Verification

if TYPE_CHECKING:
    from shoal.anonymize.run import Description
    from shoal.engines.local import KeptRows
    from shoal.linking.ledger.book import PendingEntry


class Place(ABC):
    """Takes the rows of a release, lets the verifier read them, and publishes them."""

    folder: Path | None = None  # of temporary files
    verification: Verification

    def __init__(self, run: Run) -> None:
        self.run = run

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    @abstractmethod
    def write(
        self,
        publication: Publication,
        manifest: dict[str, Any],
        batches: Iterator[pa.RecordBatch],
        witness: Witness | None,
    ) -> None:
        """Take the rows, and then the witness, which the rows complete."""

    def keep(self, publication: Publication, description: Description, kept: KeptRows) -> None:
        """Take rows that the engine keeps; only a place in memory does."""
        raise NotImplementedError

    @abstractmethod
    def verify(self) -> Verification:
        """Let the verifier check the release, and keep its answer."""

    @abstractmethod
    def read_manifest(self) -> dict[str, Any]:
        """Return the manifest that was verified."""

    @abstractmethod
    def publish(self, publication: Publication, evidence: dict[str, Any]) -> Release:
        """Publish the verified release."""

    @staticmethod
    def _identify_source(publication: Publication, evidence: dict[str, Any]) -> dict[str, Any]:
        """Return the entry on the source; its digest raises if the source has changed since it was read."""
        *_, source = layers(publication.source)
        return {**evidence["source"], "sha256": source.digest()}


class Memory(Place):
    """A release that is returned as the kind of object that was given."""

    manifest: dict[str, Any]
    rows: Any  # an Arrow table, or rows that Spark keeps
    witness: Witness | None
    labelled: pa.Table | None
    given_back: Future[object]

    def __init__(self, run: Run, data: object, pool: ThreadPoolExecutor) -> None:
        super().__init__(run)
        self._data, self._pool = data, pool

    def write(
        self,
        publication: Publication,
        manifest: dict[str, Any],
        batches: Iterator[pa.RecordBatch],
        witness: Witness | None,
    ) -> None:
        """Collect the rows, and begin to convert them."""
        table = pa.Table.from_batches(batches)
        whole = None if witness is None else witness.of_given(self.run.source)
        self._take(publication, manifest, table, whole, lambda: like(self._data, table))

    def keep(self, publication: Publication, description: Description, kept: KeptRows) -> None:
        """Let rows stay where the engine keeps them, and observe them there."""
        manifest, counts, sample = description.manifest, description.counts, description.sample
        witness = Witness.of(manifest, publication.n_source_rows)
        for _ in witness.watch(kept.place([name for name, one in manifest["attributes"].items() if "labels" in one])):
            pass  # only the witness needs the rows
        for batch in kept.rows.batches(counts.columns) if counts.columns else ():
            counts.add(batch)
        for batch in kept.draw(MOST_ROWS * 6 // 5):  # a few more than are kept
            sample.add(batch)
        self._take(publication, manifest, kept.rows, witness, lambda: kept.frame)

    def _take(
        self,
        publication: Publication,
        manifest: dict[str, Any],
        rows: object,
        witness: Witness | None,
        give_back: Callable[[], object],
    ) -> None:
        self.manifest, self.rows, self.witness = manifest, rows, witness
        self.labelled, self.given_back = publication.tabulate_labels(), self._pool.submit(give_back)

    def verify(self) -> Verification:
        """Verify the rows in memory."""
        from shoal.verify.verifier import verify_table

        self.verification = verify_table(
            self.rows,
            self.manifest,
            source=self.run.given,
            populations=self.run.populations,
            witness=None if self.witness is None else self.witness.numbers,
            labelled=self.labelled,
            progress=self.run.progress,
            memory=self.run.options.budget.limit,
        )
        return self.verification

    def read_manifest(self) -> dict[str, Any]:
        return self.manifest

    def publish(self, publication: Publication, evidence: dict[str, Any]) -> Release:
        """Return the release."""
        evidence["source"] = self._identify_source(publication, evidence)
        sampled = None
        if self.witness is not None and "sample" in self.manifest:
            sampled = np.count_nonzero(self.witness.numbers, axis=0) > 0
        decision, data = decide(self.manifest, evidence), self.given_back.result()
        return Release(self.manifest, evidence, self.verification, decision, data=data, sampled=sampled)


class Folder(Place):
    """A release that is written to a staging folder, which becomes the destination."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        assert run.options.out is not None  # noqa: S101 - otherwise the release stays in memory
        self._destination = run.options.out
        self._staging = Staging(self._destination, overwrite=run.options.overwrite)

    def __enter__(self) -> Self:
        self._staging.__enter__()
        self.folder, self._public = self._staging.folder, self._staging.unverified
        self._manifest = self._public / "manifest.json"
        return self

    def __exit__(self, *exc: object) -> None:
        self._staging.__exit__(*exc)

    def write(
        self,
        publication: Publication,
        manifest: dict[str, Any],
        batches: Iterator[pa.RecordBatch],
        witness: Witness | None,
    ) -> None:
        """Write the rows, the witness, the manifest, the scripts and the public pages."""
        from shoal.reports.pages import public_readme, public_report  # only a written release needs pages
        from shoal.verify.verifier import SCRIPT, SOURCE_SCRIPT, scripts_for

        for name, content in publication.files.items():
            write_bytes(self._public / name, content)
        manifest |= self._write_rows(manifest, batches)
        internal = self._staging.internal
        labelled = publication.tabulate_labels()
        if labelled is not None:
            write_rows(internal / "labels.parquet", iter(labelled.combine_chunks().to_batches()), "parquet")
        if witness is not None:
            witness.of_given(self.run.source).write(internal / WITNESS)
        release_memory()  # the verifier may need the memory of the rows
        for key, text in {"readme": public_readme(manifest), "report": public_report(manifest)}.items():
            write_text(self._public / PAGES[key], text)
            manifest[key] = {"sha256": file_digest(self._public / PAGES[key])}
        write_json(self._manifest, pack_labels(manifest))
        script, source_script = scripts_for(manifest, self.run.given.schema)
        write_text(self._public / SCRIPT, script)
        write_text(internal / SOURCE_SCRIPT, source_script)
        self._written = manifest

    def _write_rows(self, manifest: dict[str, Any], rows: Iterator[pa.RecordBatch]) -> dict[str, Any]:
        """Write the rows, and return the manifest's entries on their files."""
        kind = self.run.format

        def write_file(name: str, batches: Iterator[pa.RecordBatch], **more: str) -> dict[str, str]:
            file = f"{name}.{kind}"
            return {"file": file, **more, "sha256": write_rows(self._public / file, batches, kind)}

        if not self.run.policy.method.as_two_tables:
            return {"data": write_file("data", rows, format=kind)}
        batches = list(rows)
        data = write_file("data", iter(batches), format=kind)
        sliced = SlicedTable.of(pa.Table.from_batches(batches), manifest["parts"])
        both = two_tables(sliced, self.run.policy.names("sensitive"))
        tables = {
            name: write_file(name, iter(table.combine_chunks().to_batches()))
            for name, table in zip(("quasi", "sensitive"), both, strict=True)
        }
        return {"data": data, "tables": tables}

    def verify(self) -> Verification:
        """Verify the written files."""
        from shoal.reports.verifying import verify

        self.verification = verify(
            self._public,
            source=self.run.given,
            populations=self.run.populations,
            progress=self.run.progress,
            memory=self.run.options.budget.limit,
        )
        return self.verification

    def read_manifest(self) -> dict[str, Any]:
        """Return the manifest in the file."""
        found: dict[str, Any] = unpack_labels(parse_json(self._manifest.read_text(encoding="utf-8")))
        return found

    def publish(self, publication: Publication, evidence: dict[str, Any]) -> Release:
        """Sign the release, enter it into the ledger, write evidence and pages, and rename the folder into place."""
        from shoal.core.statements import VERIFIED, state_verified
        from shoal.reports.internal import DECISION, internal_report
        from shoal.sources.databases.tables import Delivery

        run, staging, manifest = self.run, self._staging, self._written
        if run.options.signing is not None:
            statement = state_verified(self._public, self.read_manifest())
            write_text(self._public / VERIFIED, run.options.signing.sign(statement))
        with ExitStack() as end, self._enter() as entry, Delivery(run.to) as delivery:
            delivery.send_file(self._public / str(manifest["data"]["file"]))
            if run.options.strict:
                refuse_open(entry.findings)
            evidence |= entry.evidence | {"source": self._identify_source(publication, evidence)}
            found = [*map(Finding.from_dict, evidence["findings"]), *entry.findings]
            evidence["findings"] = [one.as_dict() for one in sorted(found, key=lambda one: one.rank)]
            evidence["warnings"] += entry.warnings
            evidence["manifest"] = {"sha256": file_digest(self._manifest)}
            write_json(staging.internal / "evidence.json", evidence)
            decision = decide(manifest, evidence)
            write_json(staging.internal / DECISION, decision.as_dict())
            write_text(staging.internal / "report.html", internal_report(manifest, evidence, None, decision))
            end.enter_context(hold_interrupts())  # publishing and the ledger's mark belong together
            staging.publish(delivery.commit)
        evidence["warnings"] += entry.unsettled
        return Release(manifest, evidence, self.verification, decision, folder=self._destination)

    def _enter(self) -> PendingEntry:
        """Enter the verified release into the ledger, if there is one."""
        from shoal.linking.ledger.book import PendingEntry

        run = self.run
        if run.options.ledger is None:
            return PendingEntry()
        from shoal.linking.ledger.entering import enter_verified

        # People are looked up by their values before techniques.
        people = next((each.given for each in layers(run.source) if isinstance(each, TreatedSource)), run.source)
        with run.timing("ledger"):
            return enter_verified(run.options.ledger, self._public, self._destination, run.policy, people, run.progress)
