"""One run: count, plan, apply, verify, publish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from shoal.anonymize.opening import Options, Run, open_run
from shoal.anonymize.places import Folder, Memory, Place
from shoal.anonymize.refusing import refuse_open, refuse_other_release, refuse_unverified
from shoal.audit.counting import RowCounts
from shoal.audit.evidence import OriginalRisks, build_evidence
from shoal.audit.findings import PublishedTable, find_all
from shoal.audit.marginals import RowSample, SourceTables
from shoal.columns.base import read_traces
from shoal.core.errors import UnreachableError, UsageError
from shoal.core.progress import Progress
from shoal.core.results import Finding
from shoal.engines.local import CountedCells, LocalEngine, SampledCells, release_memory
from shoal.engines.regions.budget import refuse_larger
from shoal.methods.auto import Auto
from shoal.methods.base import make_plan, refuse_method
from shoal.plan.counted import Thinning
from shoal.policy.encoding import encode, encode_cells, make_trees
from shoal.policy.policy import Policy
from shoal.policy.preparing import unfold_baskets
from shoal.release.forms.base import Form, publish_plan, read_form
from shoal.release.publication import Publication, PublishedRows, build_manifest
from shoal.release.release import Release
from shoal.release.sliced.table import BUCKET
from shoal.release.witness import Witness
from shoal.utility.base import Utility
from shoal.utility.marginals import UNWEIGHTED, average_weights

if TYPE_CHECKING:
    from shoal.audit.numbers import ChangedNumbers

Evidence: TypeAlias = tuple[tuple[Finding, ...], dict[str, Any]]  # the findings, and everything else
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


def run(
    data: object,
    policy: str | Path | Mapping[str, Any] | Policy,
    options: Options,
    progress: Progress,
    engine: LocalEngine | None = None,
) -> Release:
    """Anonymize a table by a policy, and publish the release after the verifier has accepted it."""
    try:
        with ExitStack() as held:
            opened = open_run(data, policy, options, progress, engine or LocalEngine(options.budget.threads), held)
            counted, people = count(opened)
            opened = choose_method(opened, counted, people)
            publication = plan(opened, counted, people)

            # Work in the background. If regions of a large table were planned, no memory is left for it.
            pool = held.enter_context(ThreadPoolExecutor(1))
            start: Start = pool.submit if isinstance(counted, CountedCells) else Deferred
            description = start(partial(describe, opened, publication))
            tables = start(partial(tabulate_source, opened, publication, description))

            place = held.enter_context(Folder(opened) if options.out is not None else Memory(opened, data, pool))
            with opened.timing("apply"):
                apply(opened, publication, description, place)
            measured = start(partial(measure, opened, publication, description, tables))
            evidence = verify(opened, publication, place, measured)
            return place.publish(publication, evidence)
    except MemoryError:
        raise UsageError(
            f"out of memory at the limit of {options.budget.text}; nothing was published. State with --memory how "
            "much memory there is"
        ) from None


class Task(Protocol[R_co]):
    """Work that was started and has a result, as futures have."""

    def result(self) -> R_co:
        """Wait for the result."""


class Deferred(Generic[R]):
    """Work that is done when its result is needed."""

    def __init__(self, work: Callable[[], R]) -> None:
        self.result = cache(work)


class Start(Protocol):
    """Starts work, now or when its result is needed."""

    def __call__(self, work: Callable[[], R], /) -> Task[R]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """The manifest of a release without its files, and the observers of its rows."""

    manifest: dict[str, Any]
    utility: Utility
    form: Form
    sample: RowSample
    counts: RowCounts
    numbers: ChangedNumbers  # published numbers that differ from the original ones


def count(run: Run) -> tuple[CountedCells | SampledCells, dict[str, CountedCells]]:
    """Count the cells of the table, or of a sample if they are too many, and the cells of all populations."""

    def make_sampler() -> np.random.Generator:  # a separate one: runs that draw no sample stay the same
        return np.random.default_rng(run.chance.keys(4))

    policy, budget = run.policy, run.options.budget
    quasi, sensitive = policy.names("quasi"), policy.names("sensitive")
    agreed = run.options.admit is not None or run.options.publish is not publish_plan
    with run.timing("count"):
        refuse = partial(refuse_larger, policy, run.source, budget, agreed=agreed)
        thinning = Thinning(budget.cells, budget.sample, make_sampler, refuse)
        persons = tuple(dict.fromkeys(policy.counted_units.values()))
        columns = (*persons, *policy.true_values, *sensitive, *quasi)
        counted = run.engine.look(run.source, columns, run.progress, thinning)
        people = {path: run.engine.count(other, quasi, run.progress) for path, other in run.populations.items()}
    return counted, people


def choose_method(run: Run, counted: CountedCells | SampledCells, people: Mapping[str, CountedCells]) -> Run:
    """Return the run with the method that ``auto`` chooses, on a sample of the records unless there is a population."""
    auto = run.policy.method
    if not isinstance(auto, Auto):
        return run
    by_regions = isinstance(counted, SampledCells)
    cells = counted.sample if isinstance(counted, SampledCells) else counted
    rng, sample = run.chance.apart("method").generator, cells.run
    with run.timing("choose"), run.progress.step("choosing a method", unit="methods"):
        weights, weight = None, run.policy.survey_weight
        if weight is not None and isinstance(counted, CountedCells) and not people:
            located = run.engine.locate(run.source, counted, [weight], run.progress)
            weights = average_weights(located, counted, weight)
        trees = make_trees(counted, run.policy, people)
        while not people and sample.counts.sum() > auto.sample:
            sample = sample.thin(rng)
        for some in dict.fromkeys((sample, cells.run)):  # a requirement may need all records to be reachable
            try:
                fewer = replace(cells, run=some, n_rows=int(some.counts.sum()))
                encoding = encode_cells(fewer, run.policy, trees, people)
                which = slice(None) if encoding.kept is None else encoding.kept
                own = None if weights is None else weights[cells.run.find(some.keys)][which]
                choice = auto.choose(encoding.problem, rng, by_regions=by_regions, weights=own)
                break
            except UnreachableError:
                if some is cells.run:
                    raise
    return replace(run, policy=replace(run.policy, method=choice.method), choice=choice)


def plan(run: Run, counted: CountedCells | SampledCells, people: Mapping[str, CountedCells]) -> Publication:
    """Assign the records of every cell to classes, and choose the labels of each class."""
    if isinstance(counted, SampledCells):
        with run.timing("plan"):
            return run.engine.plan_regions(
                run.policy, run.source, counted, run.options.budget, run.dealing, run.beside, run.progress, run.held
            )
    with run.timing("plan"):
        if run.options.admit is not None:
            run.options.admit(counted)
        encoding = encode(counted, run.policy, people)
        refuse_method(run.policy.method, encoding.problem)
        found = make_plan(run.policy.method, encoding.problem, run.chance.generator, run.progress)
        release_memory()
    return run.options.publish(run.policy, run.source, counted, encoding, found)


def describe(run: Run, publication: Publication) -> Description:
    """Measure the utility of the plan, and write the manifest."""
    from shoal.audit.numbers import ChangedNumbers  # loaded while rows are read

    digests = {path: people.digest() for path, people in run.populations.items()}
    utility = publication.utility()
    manifest = build_manifest(publication, digests)
    form = read_form(manifest)
    numbers = ChangedNumbers.of(run.policy, form.manifest)
    return Description(manifest, utility, form, RowSample(), RowCounts.of(form), numbers)


def apply(run: Run, publication: Publication, description: Task[Description], place: Place) -> None:
    """Rewrite the rows by the plan and put them in their place; they are observed on the way."""
    kept = None if place.folder is not None else run.engine.keep(publication, run.dealing, run.progress)
    if kept is not None:
        return place.keep(publication, description.result(), kept)
    rows = run.engine.apply(publication, run.dealing, place.folder, run.progress)
    described = description.result()
    batches, witness = _observe(run, publication, described, rows, place.folder)
    return place.write(publication, described.manifest, batches, witness)


def _observe(
    run: Run, publication: Publication, described: Description, rows: PublishedRows, folder: Path | None
) -> tuple[Iterator[pa.RecordBatch], Witness | None]:
    """Return the rows, which the observers see as they pass, and the witness, which they complete."""
    sample, counts = described.sample, described.counts
    if rows.synthetic:
        return sample.watch(counts.watch(rows.batches)), None
    if rows.buckets is not None:
        return sample.watch(counts.watch(rows.batches), BUCKET), Witness.of_buckets(rows.buckets)
    witness = Witness.of(described.manifest, publication.n_source_rows, folder)
    if not run.engine.keeps_order:
        return sample.watch(counts.watch(witness.watch(rows.batches))), witness
    return sample.watch(witness.watch(counts.watch(described.numbers.watch(rows.batches)))), witness


def tabulate_source(
    run: Run, publication: Publication, description: Task[Description]
) -> tuple[OriginalRisks, SourceTables | None]:
    """Measure the table as it was given, and tabulate the columns that are compared with published ones."""
    manifest, tables = description.result().manifest, run.options.tables
    if tables is None:
        source = unfold_baskets(run.asked, run.given)[1]
        tokens = {name for name, trace in read_traces(manifest.get("techniques", {})).items() if trace.hidden}
        left_out = {*run.asked.names("identifier"), *tokens, run.policy.survey_weight}
        tables = SourceTables.of(run.policy, source, [name for name in manifest["attributes"] if name not in left_out])
    if tables is not None:
        _ = tables.reference
    return OriginalRisks.of(publication), tables


def measure(
    run: Run,
    publication: Publication,
    description: Task[Description],
    compared: Task[tuple[OriginalRisks, SourceTables | None]],
) -> Evidence:
    """Return the findings, and all of the evidence that does not come from the verifier or the ledger."""
    described, (given, tables) = description.result(), compared.result()
    utility, thorough = described.utility, run.options.detail == "full"
    scored = tables is not None and described.sample.n_rows > 0
    marginals = tables.score(described.sample.table(), described.form) if tables is not None and scored else ()
    table = PublishedTable(described.form, described.counts, run.policy.privacy, publication, marginals)
    findings = find_all(table, run.policy.accept)
    release_memory()
    if thorough:
        with run.timing("utility"):
            utility = publication.utility(expensive=True)
    evidence = build_evidence(publication, given, utility, findings, run.options.seed, marginals, thorough=thorough)
    if (risk := described.numbers.measure(publication.source)) is not None:
        evidence["number_risk"] = risk
    if run.policy.survey_weight not in (None, *publication.column_names):
        evidence["warnings"].append(UNWEIGHTED)
    return findings, evidence if run.choice is None else evidence | {"choice": run.choice.as_dict()}


def verify(run: Run, publication: Publication, place: Place, measured: Task[Evidence]) -> dict[str, Any]:
    """Verify the release and return its evidence; refuse a release that must not be published."""
    with run.timing("verify"):
        verification = place.verify()
    refuse_unverified(verification)
    generalized = publication.count_generalized()
    refuse_other_release(run.asked, run.method, place.read_manifest(), verification, generalized)
    with run.timing("findings"):  # that are still under way
        findings, evidence = measured.result()
    if run.options.strict:
        refuse_open(findings)
    return evidence | {"verification": verification.as_dict(), "seconds": run.seconds}
