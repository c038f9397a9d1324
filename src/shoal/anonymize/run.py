"""One run: count, plan, apply, verify, publish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.anonymize.refusing import refuse_open, refuse_other_release, refuse_policy, refuse_unverified
from shoal.audit.counting import RowCounts
from shoal.audit.decision import decide
from shoal.audit.evidence import Given, build_evidence
from shoal.audit.findings import PublishedTable, find_all
from shoal.audit.marginals import RowSample, SourceTables
from shoal.columns.base import TreatedSource, read_traces
from shoal.core.errors import UnreachableError, UsageError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.core.results import Finding
from shoal.engines.local import CountedCells, LocalEngine, SampledCells, release_memory
from shoal.engines.regions.budget import Budget, refuse_larger
from shoal.linking.ledger.records import LedgerOptions
from shoal.manifest import PAGES, pack_labels, parse_json, unpack_labels
from shoal.methods.auto import Auto, Choice
from shoal.methods.base import AnyPlan, Method, make_plan, refuse_method
from shoal.plan.counted import Thinning
from shoal.policy.encoding import Encoding, check_columns, encode, encode_cells, make_trees, open_populations
from shoal.policy.policy import Policy
from shoal.policy.preparing import chance_of, change_source, unfold_baskets
from shoal.release.forms.base import publish_plan, read_form
from shoal.release.publication import Publication, PublishedRows, build_manifest
from shoal.release.release import (
    Release,
    Staging,
    hold_interrupts,
    refuse_existing,
    write_bytes,
    write_json,
    write_text,
)
from shoal.release.rows import write_rows
from shoal.release.sliced.table import BUCKET, SlicedTable, two_tables
from shoal.release.witness import FILE as WITNESS
from shoal.release.witness import Witness
from shoal.sources.addresses import DatabaseTable, is_address
from shoal.sources.base import Source, SourceOptions, file_digest, layers
from shoal.sources.frames import like
from shoal.sources.opening import open_source
from shoal.sources.writers import Format
from shoal.utility.base import Utility
from shoal.utility.marginals import UNWEIGHTED, average_weights, check_weights
from shoal.verify.result import Verification

if TYPE_CHECKING:
    from shoal.audit.numbers import ChangedNumbers
    from shoal.core.arrays import IntArray
    from shoal.linking.ledger.book import Entered
    from shoal.release.signing import SigningKey
    from shoal.sources.spark.source import SparkRows

Detail = Literal["quick", "full"]
Admit: TypeAlias = Callable[[CountedCells], None]  # raises if what was counted must not be published
Publish: TypeAlias = Callable[[Policy, Source, CountedCells, Encoding, AnyPlan], Publication]
Measured: TypeAlias = tuple[tuple[Finding, ...], dict[str, Any]]  # findings, and evidence
Described: TypeAlias = Future[dict[str, Any]]  # the manifest, under way
Measuring: TypeAlias = Callable[[], Future[Measured]]  # begins to measure, unless that is done


@dataclass(frozen=True, slots=True)
class Options:
    """What a run is asked for besides its table and its policy."""

    out: Path | None = None
    overwrite: bool = False  # whether an earlier release in that folder is replaced
    format: Format | None = None  # None: that of the table
    seed: int | None = None
    detail: Detail = "quick"
    ledger: LedgerOptions | None = None
    to: str | DatabaseTable | None = None
    budget: Budget = field(default_factory=Budget.of)
    strict: bool = False  # whether high findings that nobody accepted keep the release from being published
    signing: SigningKey | None = None
    admit: Admit | None = None
    publish: Publish = publish_plan
    tables: SourceTables | None = None  # what the release's tables are compared with; None: those of all its columns


@dataclass(slots=True)
class Run:
    """One anonymization under way: count, plan, apply, verify, publish."""

    asked: Policy  # as it was written
    given: Source
    source: Source  # the same after sampling and techniques, with attributes in place of baskets
    policy: Policy
    populations: Mapping[str, Source]
    options: Options
    format: Format
    to: DatabaseTable | None
    progress: Progress
    chance: Chance
    measured: Utility = field(default_factory=dict)
    sample: RowSample = field(default_factory=RowSample)  # of the published rows
    numbers: ChangedNumbers = field(init=False)  # the published numbers that are not the original ones
    choice: Choice | None = None  # of a method, if the policy asks for one
    counts: RowCounts = field(init=False)  # what is counted over the rows as they are published
    seconds: dict[str, float] = field(default_factory=dict)
    keeps_order: ClassVar[bool] = True  # whether rows are read in the same order every time
    held: ExitStack = field(default_factory=ExitStack)  # temporary files that wait until the run ends

    @classmethod
    def start(
        cls, data: object, policy: str | Path | Mapping[str, Any] | Policy, options: Options, progress: Progress
    ) -> Run:
        """Open everything that is needed, and refuse what cannot begin."""
        loaded = Policy.load(policy)
        refuse_policy(loaded)
        if loaded.units and not cls.keeps_order:
            raise UsageError("rows on Spark have no order to say whose they are; count people with the local engine")
        if options.out is not None:
            refuse_existing(options.out, overwrite=options.overwrite)
        table = None
        if options.to is not None:
            from shoal.sources.databases.tables import destination_table  # databases load where they are used

            table = destination_table(options.to, options.out, options.format)
        if options.ledger is not None:
            from shoal.linking.ledger.entering import check_ledger  # it loads all of linking

            check_ledger(options.ledger, options.out)
        source = cls._open(data, loaded.source)
        check_columns(loaded, source)
        source = cls._keep(source, loaded, options.out)
        if loaded.survey_weight is not None:
            check_weights(source, loaded.survey_weight)
        chance = Chance.of(options.seed, source.digest() if options.seed is not None else "")
        policy_of_attributes, source_of_attributes = unfold_baskets(*change_source(loaded, source, chance))
        return cls(
            asked=loaded,
            given=source,
            source=source_of_attributes,
            policy=policy_of_attributes,
            populations=open_populations(loaded),
            options=options,
            format="parquet" if table is not None else options.format or same_format(data),
            to=table,
            progress=progress,
            chance=chance,
        )

    @property
    def budget(self) -> Budget:
        """The memory and the threads that the run may use."""
        return self.options.budget

    @classmethod
    def _open(cls, data: object, options: SourceOptions) -> Source:
        return open_source(data, options)

    @classmethod
    def _keep(cls, source: Source, policy: Policy, out: Path | None) -> Source:
        """Let a delimited file be parsed once; identifiers that are neither published nor name a unit are not kept."""
        if not source.parses:
            return source
        from shoal.sources.snapshots import KeptSource  # other sources do without it

        identifiers = {name for name in policy.names("identifier") if name not in policy.techniques}
        columns = set(policy.attributes) - identifiers | set(policy.units.values())
        beside = None if out is None or not out.parent.is_dir() else out.parent
        return KeptSource.of(source, columns, (*policy.names("quasi"), *policy.names("sensitive")), beside)

    @property
    def engine(self) -> LocalEngine:
        return LocalEngine(self.budget.threads)

    @property
    def _method(self) -> Method:
        """The method that the policy asks for, or the one that ``auto`` chose."""
        return self.asked.method if self.choice is None else self.choice.method

    @property
    def dealing(self) -> Chance:
        """The chance of who goes where and in which order.

        With a seed it is another for every policy, or two releases could be joined row by row.
        """
        return chance_of(self.policy, self.chance, "rows ")

    def finish(self, data: object) -> Release:
        """Count, plan, apply, verify, and only then put the release in place."""
        try:
            with self.held:
                counted, people = self._count()
                self._choose_method(counted, people)
                publication = self._plan(counted, people)
                if self.options.out is None:
                    return self._in_memory(publication, data)
                return self._on_disk(publication, self.options.out)
        except MemoryError:
            raise UsageError(
                f"memory ran out where {self.budget.text} were to be enough; nothing was published. Say with --memory "
                "how much there really is"
            ) from None

    def _count(self) -> tuple[CountedCells | SampledCells, dict[str, CountedCells]]:
        """Count the cells of the table, or a sample of them if they are too many, and those of all populations."""

        def make_sampler() -> np.random.Generator:  # one of its own, so that runs without a sample stay as they are
            return np.random.default_rng(self.chance.keys(4))

        quasi, sensitive = self.policy.names("quasi"), self.policy.names("sensitive")
        agreed = self.options.admit is not None or self.options.publish is not publish_plan
        with self._time("count"):
            refuse = partial(refuse_larger, self.policy, self.source, self.budget, agreed=agreed)
            thinning = Thinning(self.budget.cells, self.budget.sample, make_sampler, refuse)
            persons = tuple(dict.fromkeys(self.policy.counted_units.values()))
            columns = (*persons, *self.policy.true_values, *sensitive, *quasi)
            counted = self.engine.look(self.source, columns, self.progress, thinning)
            people = {path: self.engine.count(other, quasi, self.progress) for path, other in self.populations.items()}
        return counted, people

    def _choose_method(self, counted: CountedCells | SampledCells, people: Mapping[str, CountedCells]) -> None:
        """Put the method in place that ``auto`` chooses, on a sample of the records unless a population is counted."""
        auto = self.policy.method
        if not isinstance(auto, Auto):
            return
        by_regions = isinstance(counted, SampledCells)
        cells = counted.sample if isinstance(counted, SampledCells) else counted
        rng, sample = self.chance.apart("method").generator, cells.run
        with self._time("choose"), self.progress.step("choosing a method", unit="methods"):
            weights, weight = None, self.policy.survey_weight
            if weight is not None and isinstance(counted, CountedCells) and not people:
                located = self.engine.locate(self.source, counted, [weight], self.progress)
                weights = average_weights(located, counted, weight)
            trees = make_trees(counted, self.policy, people)
            while not people and sample.counts.sum() > auto.sample:
                sample = sample.thin(rng)
            for run in dict.fromkeys((sample, cells.run)):  # what a sample cannot reach, all records may
                some = replace(cells, run=run, n_rows=int(run.counts.sum()))
                try:
                    encoding = encode_cells(some, self.policy, trees, people)
                    which = slice(None) if encoding.kept is None else encoding.kept
                    own = None if weights is None else weights[cells.run.find(run.keys)][which]
                    self.choice = auto.choose(encoding.problem, rng, by_regions=by_regions, weights=own)
                    break
                except UnreachableError:
                    if run is cells.run:
                        raise
        if self.choice is not None:
            self.policy = replace(self.policy, method=self.choice.method)

    def _plan(self, counted: CountedCells | SampledCells, people: Mapping[str, CountedCells]) -> Publication:
        """Decide what is published of every cell."""
        if isinstance(counted, SampledCells):
            return self._by_regions(counted)
        with self._time("plan"):
            if self.options.admit is not None:
                self.options.admit(counted)
            encoding = encode(counted, self.policy, people)
            refuse_method(self.policy.method, encoding.problem)
            plan = make_plan(self.policy.method, encoding.problem, self.chance.generator, self.progress)
            release_memory()
        return self.options.publish(self.policy, self.source, counted, encoding, plan)

    def _describe(self, publication: Publication) -> dict[str, Any]:
        """Measure what is left of the table, and return the manifest."""
        from shoal.audit.numbers import ChangedNumbers

        digests = {path: people.digest() for path, people in self.populations.items()}
        self.measured = publication.utility()
        manifest = build_manifest(publication, digests)
        form = read_form(manifest)
        self.counts = RowCounts.of(form)
        self.numbers = ChangedNumbers.of(self.policy, form.manifest)
        return manifest

    def _by_regions(self, looked: SampledCells) -> Publication:
        """Plan a table larger than memory region by region."""
        from shoal.engines.regions.planning import Larger

        beside = None if self.options.out is None or not self.options.out.parent.is_dir() else self.options.out.parent
        larger = Larger(self.policy, self.source, looked, self.engine, self.budget, self.dealing, beside, self.progress)
        with self._time("plan"):
            return larger.publication(self.held)

    def _rows(self, publication: Publication, folder: Path | None) -> PublishedRows:
        return publication.rows(self.engine, self.dealing, folder, self.progress)

    def _watch(
        self, publication: Publication, describing: Described, folder: Path | None
    ) -> tuple[Iterator[pa.RecordBatch], Witness | None]:
        """Return the published rows, counted for the findings as they pass, and the witness, which then knows them."""
        rows = self._rows(publication, folder)
        manifest = describing.result()
        if rows.nobodys:
            return self.sample.watch(self.counts.watch(rows.batches)), None
        if rows.buckets is not None:
            return self.sample.watch(self.counts.watch(rows.batches), BUCKET), Witness.of_buckets(rows.buckets)
        witness = Witness.of(manifest, publication.n_source_rows, folder)
        if not self.keeps_order:
            return self.sample.watch(self.counts.watch(witness.watch(rows.batches))), witness
        return self.sample.watch(witness.watch(self.counts.watch(self.numbers.watch(rows.batches)))), witness

    def _look(self, publication: Publication, manifest: Mapping[str, Any]) -> tuple[Given, SourceTables | None]:
        """Measure the table as it was given, and its columns that published ones are compared with."""
        tables = self.options.tables
        if tables is None:
            source = unfold_baskets(self.asked, self.given)[1]
            tokens = {name for name, trace in read_traces(manifest.get("techniques", {})).items() if trace.hidden}
            left_out = {*self.asked.names("identifier"), *tokens, self.policy.survey_weight}
            names = [name for name in manifest["attributes"] if name not in left_out]
            tables = SourceTables.of(self.policy, source, names)
        if tables is not None:
            _ = tables.reference
        return Given.of(publication), tables

    def _measure(
        self, publication: Publication, manifest: Mapping[str, Any], given: Given, tables: SourceTables | None
    ) -> Measured:
        """Return what is found beyond promises, and all of the evidence but what the verifier and the ledger say."""
        scored, utility, thorough = self.sample.n_rows > 0, self.measured, self.options.detail == "full"
        form = read_form(manifest)
        marginals = tables.score(self.sample.table(), form) if tables is not None and scored else ()
        table = PublishedTable.of(form, self.counts, self.policy.privacy, publication, marginals)
        findings = find_all(table, self.policy.accept)
        release_memory()
        if thorough:
            with self._time("utility"):
                utility = publication.utility(expensive=True)
        seed = self.options.seed
        evidence = build_evidence(publication, given, utility, findings, seed, marginals, thorough=thorough)
        if (risk := self.numbers.measure(publication.source)) is not None:
            evidence["number_risk"] = risk
        if self.policy.survey_weight not in (None, *publication.column_names):
            evidence["warnings"].append(UNWEIGHTED)
        return findings, evidence if self.choice is None else evidence | {"choice": self.choice.as_dict()}

    def _look_ahead(self, publication: Publication) -> tuple[ThreadPoolExecutor, Described, Measuring]:
        """Describe the release and measure the given table while rows are written; what comes last does the rest."""
        pool = self.held.enter_context(ThreadPoolExecutor(1))
        describing = pool.submit(self._describe, publication)
        look = cache(lambda: self._look(publication, describing.result()))
        measure = cache(lambda: self._measure(publication, describing.result(), *look()))
        if isinstance(publication.seen, CountedCells):
            pool.submit(look)
        else:
            wait([describing])  # regions leave no memory for what is done beside
        return pool, describing, lambda: pool.submit(measure)

    def _judge(
        self,
        publication: Publication,
        read: Callable[[], Mapping[str, Any]],
        check: Callable[[], Verification],
        measure: Measuring,
    ) -> tuple[Verification, dict[str, Any]]:
        """Verify the release, measure the other evidence, and refuse a release that must not be published.

        *read* returns the manifest that *check* verifies.
        """
        if isinstance(publication.seen, CountedCells):
            measure()
        with self._time("verify"):
            verification = check()
        with self._time("findings"):  # what is left of them
            measuring = measure()
            wait([measuring])
        refuse_unverified(verification)
        generalized = publication.count_generalized()
        refuse_other_release(self.asked, self._method, read(), verification, generalized)
        findings, evidence = measuring.result()
        if self.options.strict:
            refuse_open(findings)
        return verification, evidence | {"verification": verification.as_dict(), "seconds": self.seconds}

    @staticmethod
    def _identify_source(publication: Publication, evidence: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the evidence says of the source, whose digest is told if nothing of it changed up to now."""
        *_, source = layers(publication.source)
        return {**evidence["source"], "sha256": source.digest()}

    def _in_memory(self, publication: Publication, data: object) -> Release:
        from shoal.verify.verifier import verify_table

        pool, describing, measure = self._look_ahead(publication)
        with self._time("apply"):
            rows, witness, give_back = self._apply(publication, describing, data)
        manifest, given_back = describing.result(), pool.submit(give_back)
        check = partial(
            verify_table,
            rows,
            manifest,
            source=self.given,
            populations=self.populations,
            witness=witness,
            labelled=publication.tabulate_labels(),
            progress=self.progress,
            memory=self.budget.limit,
        )
        verification, evidence = self._judge(publication, lambda: manifest, check, measure)
        evidence["source"] = self._identify_source(publication, evidence)
        sampled = None if witness is None or "sample" not in manifest else np.count_nonzero(witness, axis=0) > 0
        decision = decide(manifest, evidence)
        return Release(manifest, evidence, verification, decision, data=given_back.result(), sampled=sampled)

    def _apply(
        self, publication: Publication, describing: Described, data: object
    ) -> tuple[pa.Table | SparkRows, IntArray | None, Callable[[], object]]:
        """Return the published rows, the witness's numbers, and what gives the rows back in the kind of *data*."""
        batches, witness = self._watch(publication, describing, None)
        table = pa.Table.from_batches(batches)
        return table, None if witness is None else witness.of_given(self.source).numbers, partial(like, data, table)

    def _on_disk(self, publication: Publication, destination: Path) -> Release:
        from shoal.core.statements import VERIFIED, state_verified
        from shoal.reports.internal import DECISION, internal_report  # only a written release needs pages
        from shoal.reports.pages import public_readme, public_report
        from shoal.reports.verifying import verify
        from shoal.sources.databases.tables import Delivery
        from shoal.verify.verifier import SCRIPT, SOURCE_SCRIPT, scripts_for

        _, describing, measure = self._look_ahead(publication)
        with Staging(destination, overwrite=self.options.overwrite) as staging:
            with self._time("apply"):
                manifest = self._write_rows(publication, describing, staging)
            pages = {"readme": public_readme(manifest), "report": public_report(manifest)}
            for key, text in pages.items():
                write_text(staging.unverified / PAGES[key], text)
                manifest[key] = {"sha256": file_digest(staging.unverified / PAGES[key])}
            path = staging.unverified / "manifest.json"
            write_json(path, pack_labels(manifest))
            public, internal = scripts_for(manifest, self.given.schema)
            write_text(staging.unverified / SCRIPT, public)
            write_text(staging.internal / SOURCE_SCRIPT, internal)
            check = partial(
                verify,
                staging.unverified,
                source=self.given,
                populations=self.populations,
                progress=self.progress,
                memory=self.budget.limit,
            )
            verification, evidence = self._judge(publication, partial(_read_manifest, path), check, measure)
            if self.options.signing is not None:
                statement = state_verified(staging.unverified, _read_manifest(path))
                write_text(staging.unverified / VERIFIED, self.options.signing.sign(statement))
            with ExitStack() as end, self._enter(staging, destination) as entry, Delivery(self.to) as delivery:
                delivery.send_file(staging.unverified / str(manifest["data"]["file"]))
                if self.options.strict:
                    refuse_open(entry.findings)
                evidence |= entry.evidence | {"source": self._identify_source(publication, evidence)}
                found = [*map(Finding.from_dict, evidence["findings"]), *entry.findings]
                evidence["findings"] = [one.as_dict() for one in sorted(found, key=lambda one: one.rank)]
                evidence["warnings"] += entry.warnings
                evidence["manifest"] = {"sha256": file_digest(path)}
                write_json(staging.internal / "evidence.json", evidence)
                decision = decide(manifest, evidence)
                write_json(staging.internal / DECISION, decision.as_dict())
                write_text(staging.internal / "report.html", internal_report(manifest, evidence, None, decision))
                end.enter_context(hold_interrupts())  # from here to the ledger's mark there is no half way
                staging.publish(delivery.commit)
            evidence["warnings"] += entry.unsettled
        return Release(manifest, evidence, verification, decision, folder=destination)

    def _enter(self, staging: Staging, destination: Path) -> Entered:
        """Enter the verified release into the ledger, if there is one."""
        from shoal.linking.ledger.book import Entered

        if self.options.ledger is None:
            return Entered()
        from shoal.linking.ledger.entering import enter_verified

        # People are looked up by their values as they were before techniques.
        people = next((each.given for each in layers(self.source) if isinstance(each, TreatedSource)), self.source)
        with self._time("ledger"):
            return enter_verified(
                self.options.ledger, staging.unverified, destination, self.policy, people, self.progress
            )

    def _write_rows(self, publication: Publication, describing: Described, staging: Staging) -> dict[str, Any]:
        """Write the rows, and return the manifest with entries on their files."""
        for name, content in publication.files.items():
            write_bytes(staging.unverified / name, content)
        rows, witness = self._watch(publication, describing, staging.folder)
        manifest = describing.result()
        entries: dict[str, Any] = {"data": {"file": f"data.{self.format}", "format": self.format}}
        if self.policy.method.as_two_tables:
            batches = list(rows)
            self._write(staging, entries["data"], iter(batches))
            sliced = SlicedTable.of(pa.Table.from_batches(batches), manifest["parts"])
            both = two_tables(sliced, self.policy.names("sensitive"))
            tables = dict(zip(("quasi", "sensitive"), both, strict=True))
            entries["tables"] = {name: {"file": f"{name}.{self.format}"} for name in tables}
            for name, table in tables.items():
                self._write(staging, entries["tables"][name], iter(table.combine_chunks().to_batches()))
        else:
            self._write(staging, entries["data"], rows)
        labelled = publication.tabulate_labels()
        if labelled is not None:
            write_rows(staging.internal / "labels.parquet", iter(labelled.combine_chunks().to_batches()), "parquet")
        if witness is not None:
            witness.of_given(self.source).write(staging.internal / WITNESS)
        release_memory()  # what rows took, the verifier may need
        manifest |= entries
        return manifest

    def _write(self, staging: Staging, entry: dict[str, Any], batches: Iterator[pa.RecordBatch]) -> None:
        path = staging.unverified / str(entry["file"])
        entry["sha256"] = write_rows(path, batches, self.format)

    @contextmanager
    def _time(self, step: str) -> Iterator[None]:
        """Note how many seconds a step took."""
        began = time.perf_counter()
        yield
        self.seconds[step] = round(time.perf_counter() - began, 3)


def _read_manifest(path: Path) -> dict[str, Any]:
    """Return the manifest as the verifier reads it."""
    found: dict[str, Any] = unpack_labels(parse_json(path.read_text(encoding="utf-8")))
    return found


def same_format(data: object) -> Format:
    """Return the format of a release that is to be like its source."""
    if not isinstance(data, str | Path) or is_address(data):
        return "parquet"
    path = Path(data)
    return "parquet" if path.is_dir() or path.suffix.lower() in (".parquet", ".pq") else "csv"
