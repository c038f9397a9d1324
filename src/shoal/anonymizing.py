"""The main job: a table and a policy in, a verified release out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from shoal.encoding import Encoding, check_columns, encode
from shoal.engines.local import CountedCells, LocalEngine
from shoal.errors import UnreachableError, VerificationError
from shoal.guarantees import achieved
from shoal.manifest import build_manifest
from shoal.plan import Plan
from shoal.policy import Policy
from shoal.progress import Progress, Silent
from shoal.release import Release, Staging, refuse_existing, write_json, write_text
from shoal.report.evidence import build_evidence
from shoal.report.page import internal_report
from shoal.report.readme import public_readme
from shoal.rewriting import Rewriter
from shoal.sources import Source, like, open_source, open_writer
from shoal.sources.digests import file_digest
from shoal.utility.base import Utility, measured
from shoal.verify import Verification, verify_folder, verify_table

Format = Literal["csv", "parquet"]
Detail = Literal["quick", "full"]


def anonymize(
    data: object,
    policy: str | Path | Mapping[str, Any] | Policy,
    *,
    out: str | Path | None = None,
    format: Format | None = None,  # noqa: A002  the word that users know
    seed: int | None = None,
    utility: Detail = "quick",
    progress: Progress | None = None,
) -> Release:
    """Publish a table so that every class of the result keeps the policy's promises, and prove it.

    *data* is a path, a pandas or polars data frame, a pyarrow table or a DuckDB relation; without *out* the same
    kind comes back in ``release.data`` (a pyarrow table for a path). With *out*, the folders ``out/public`` and
    ``out/internal`` are written. Nothing comes back and nothing is written unless the verifier agrees. With the
    *utility* "full" the release is also asked questions: counts, associations, predictions.
    """
    return _Run.start(data, policy, out, format, seed, utility, progress or Silent()).finish(data)


@dataclass(slots=True)
class _Run:
    """One anonymization under way."""

    source: Source
    policy: Policy
    populations: Mapping[str, Source]
    destination: Path | None
    format: Format
    seed: int | None
    detail: Detail
    progress: Progress
    rng: np.random.Generator
    engine: LocalEngine = field(default_factory=LocalEngine)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def start(
        cls,
        data: object,
        policy: str | Path | Mapping[str, Any] | Policy,
        out: str | Path | None,
        format: Format | None,  # noqa: A002
        seed: int | None,
        detail: Detail,
        progress: Progress,
    ) -> _Run:
        loaded = Policy.load(policy)
        destination = None if out is None else Path(out)
        if destination is not None:
            refuse_existing(destination)
        source = open_source(data, loaded.source)
        check_columns(loaded, source)
        return cls(
            source=source,
            policy=loaded,
            populations=open_populations(loaded),
            destination=destination,
            format=format or _same_format(data),
            seed=seed,
            detail=detail,
            progress=progress,
            rng=np.random.default_rng(seed),
        )

    def finish(self, data: object) -> Release:
        counted, encoding, plan = self._plan()
        rewriter = Rewriter.of(self.policy, counted, encoding, plan)
        guarantees = achieved(encoding.problem, plan, self.policy)
        digests = {path: people.digest() for path, people in self.populations.items()}
        manifest = build_manifest(self.policy, self.source, rewriter, guarantees, digests)
        if self.destination is None:
            return self._in_memory(rewriter, manifest, data)
        return self._on_disk(rewriter, manifest, self.destination)

    def _plan(self) -> tuple[CountedCells, Encoding, Plan]:
        quasi, sensitive = self.policy.names("quasi"), self.policy.names("sensitive")
        with self._timed("count"):
            counted = self.engine.count(self.source, (*sensitive, *quasi), self.progress)
            people = {path: self.engine.count(other, quasi, self.progress) for path, other in self.populations.items()}
        with self._timed("plan"):
            encoding = encode(counted, self.policy, people)
            refusal = self.policy.method.refuses(encoding.problem)
            if refusal is not None:
                raise UnreachableError(f"method {self.policy.method.name}: {refusal}")
            plan = self.policy.method.plan(encoding.problem, self.rng, self.progress)
        return counted, encoding, plan

    def _in_memory(self, rewriter: Rewriter, manifest: dict[str, Any], data: object) -> Release:
        with self._timed("apply"):
            batches = list(rewriter.rows(self.engine, self.source, self.rng, None, self.progress))
            table = pa.Table.from_batches([_plain(batch) for batch in batches])
        with self._timed("verify"):
            verification = verify_table(
                table, manifest, source=self.source, populations=self.populations, progress=self.progress
            )
        _refuse_unverified(verification)
        evidence = self._evidence(rewriter, manifest, verification)
        return Release(manifest, evidence, verification, data=like(data, table))

    def _on_disk(self, rewriter: Rewriter, manifest: dict[str, Any], destination: Path) -> Release:
        with Staging(destination) as staging:
            with self._timed("apply"):
                name = f"data.{self.format}"
                self._write(rewriter, staging, name)
            manifest["data"] = {
                "file": name,
                "format": self.format,
                "sha256": file_digest(staging.unverified / name),
            }
            write_text(staging.unverified / "README.md", public_readme(manifest))
            manifest["readme"] = {"sha256": file_digest(staging.unverified / "README.md")}
            write_json(staging.unverified / "manifest.json", manifest)
            with self._timed("verify"):
                verification = verify_folder(
                    staging.unverified,
                    source=self.source,
                    populations=self.populations,
                    progress=self.progress,
                )
            _refuse_unverified(verification)
            evidence = self._evidence(rewriter, manifest, verification)
            write_json(staging.internal / "evidence.json", evidence)
            write_text(staging.internal / "report.html", internal_report(manifest, evidence))
            staging.publish()
        return Release(manifest, evidence, verification, folder=destination)

    def _write(self, rewriter: Rewriter, staging: Staging, name: str) -> None:
        rows = rewriter.rows(self.engine, self.source, self.rng, staging.folder, self.progress)
        first = next(rows)
        with (
            open_writer(staging.unverified / name, first.schema, self.format) as writer,
            ThreadPoolExecutor(1) as pool,
        ):
            writing = pool.submit(writer.write, first)
            for batch in rows:  # made while the one before is written
                writing.result()
                writing = pool.submit(writer.write, batch)
            writing.result()

    def _evidence(self, rewriter: Rewriter, manifest: dict[str, Any], verification: Verification) -> dict[str, Any]:
        utility: Utility = dict(manifest["utility"])
        if self.detail == "full":
            with self._timed("utility"):
                utility = measured(rewriter.encoding.problem, rewriter.plan, expensive=True, detail=True)
        return build_evidence(self.policy, self.source, rewriter, verification, utility, self.seed, self.seconds)

    def _timed(self, step: str) -> _Clock:
        return _Clock(step, self.seconds)


class _Clock:
    def __init__(self, step: str, seconds: dict[str, float]) -> None:
        self._step, self._seconds, self._began = step, seconds, 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self._seconds[self._step] = round(time.perf_counter() - self._began, 3)


def open_populations(policy: Policy) -> dict[str, Source]:
    """Open every population table that a model of the policy names, by the name the policy gives it."""
    paths = {str(path) for model in policy.privacy if (path := getattr(model, "population", None)) is not None}
    return {path: open_source(policy.folder / path, policy.source) for path in sorted(paths)}


def _same_format(data: object) -> Format:
    if not isinstance(data, str | Path):
        return "parquet"
    path = Path(data)
    return "parquet" if path.is_dir() or path.suffix.lower() in (".parquet", ".pq") else "csv"


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode dictionaries, so that no entry survives that no row uses."""
    arrays = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)


def _refuse_unverified(verification: Verification) -> None:
    if not verification.verified:
        raise VerificationError("the release was not published: " + "; ".join(verification.failures))
