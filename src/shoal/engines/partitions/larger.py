"""A table larger than memory on one machine: its regions one after another, their rows in one shuffler."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.core.shuffling import Shuffler
from shoal.engines.local import LocalEngine, SampledCells
from shoal.engines.partitions.budget import Budget
from shoal.engines.partitions.dividing import Division
from shoal.engines.partitions.planning import RegionPlanner
from shoal.engines.partitions.routing import RegionFiles
from shoal.engines.partitions.settling import Settled
from shoal.policy.policy import Policy
from shoal.release.regions import Numbering, Pooled, RegionalPublication
from shoal.sources.base import Source


@dataclass(frozen=True, slots=True, eq=False)
class Larger:
    """A table with more cells than memory holds, and what is needed to publish it by a method that takes regions."""

    policy: Policy
    source: Source
    looked: SampledCells
    engine: LocalEngine
    budget: Budget
    chance: Chance
    folder: Path | None  # for temporary files
    progress: Progress

    def publication(self, held: ExitStack) -> RegionalPublication:
        """Plan all regions; the rows wait in temporary files until *held* is left."""
        division = Division.of(self.policy, self.looked, self.budget)
        carried = self.policy.names("insensitive")
        with RegionFiles(len(division.tree.leaves), self.looked.layout.n_words, self.folder) as files:
            counts = division.router().run(self.engine, self.source, self.looked, carried, files, self.progress)
            regions = division.settled(counts)
            n_records = int(counts.sizes.sum())
            shuffler = held.enter_context(Shuffler(n_records, self.chance, self.folder, self.budget.heap_rows))
            pooled = Pooled(division.trees, len(self.policy.names("quasi")))
            numbering = Numbering(self.policy, division.trees, self.looked)
            queue = _Queue(self, division.planner(counts), files, shuffler, pooled, numbering)
            with self.progress.step("planning regions", n_records, unit="records") as step:
                for region in regions:
                    queue.take(region)
                    step.advance(region.n_records)
        return RegionalPublication(
            self.policy,
            self.source,
            self.looked,
            pooled,
            numbering.columns(pooled.published),
            shuffler,
            counts.n_dropped,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Queue:
    """Regions that are planned one after another."""

    larger: Larger
    planner: RegionPlanner
    files: RegionFiles
    shuffler: Shuffler
    pooled: Pooled
    numbering: Numbering

    def take(self, region: Settled) -> None:
        """Plan one region, and hand its rows on."""
        chance, heap_rows = self.larger.chance, self.larger.budget.heap_rows
        planned = self.planner.plan(region, lambda: self.files.read(region.leaves, heap_rows), chance.generator)
        self.pooled.add(planned.findings)
        renumbering = self.numbering.add(planned.findings.quasi, planned.findings.sensitive)
        if planned.findings.labelled is not None:
            self.pooled.labelled.append(renumbering.rows(planned.findings.labelled))
        for batch in planned.renumbered(renumbering).batches(chance):
            self.shuffler.add(batch)
        self.files.drop(region.leaves)
