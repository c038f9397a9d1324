"""The coarse plan of a table larger than memory: regions that are cut on a sample and settled by exact counts."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.columns.treating import changed_before
from shoal.core.errors import InputError, UnreachableError, UsageError
from shoal.engines.local import SampledCells
from shoal.engines.partitions.budget import MOST_FILES, Budget, needed_memory
from shoal.engines.partitions.planning import RegionPlanner
from shoal.engines.partitions.routing import RegionCounts, Router
from shoal.engines.partitions.settling import Settled, settled
from shoal.engines.partitions.tree import RegionTree, cut_regions
from shoal.methods.hopeless import refuse_hopeless
from shoal.policy.encoding import Region, Tree, encode_cells, grown
from shoal.policy.policy import Policy
from shoal.sources.base import Source


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """A table cut into boxes, each of which is expected to hold what a process may plan at once."""

    policy: Policy
    looked: SampledCells
    budget: Budget
    trees: tuple[Tree, ...]
    tree: RegionTree

    @classmethod
    def of(cls, policy: Policy, looked: SampledCells, budget: Budget, most_regions: int = MOST_FILES) -> Division:
        """Grow the trees of all attributes, and cut the sample."""
        trees = grown(looked, policy)
        sample = encode_cells(looked.sample, policy, trees).problem
        refusal = policy.method.refuses(sample)
        if refusal is not None:
            raise UnreachableError(f"method {policy.method.name}: {refusal}")
        tree = cut_regions(
            sample,
            looked.share,
            budget.region_rows,
            by_nodes=policy.method.takes_regions == "nodes",
            mending=policy.method.mends_values,
            most_regions=most_regions,
        )
        return cls(policy, looked, budget, trees, tree)

    def router(self) -> Router:
        """Return what finds the boxes of rows."""
        return Router(self.looked, self.trees, self.policy, self.tree)

    def planner(self, counts: RegionCounts) -> RegionPlanner:
        """Return what plans any of the regions, given the counts of all."""
        return RegionPlanner(self.policy, self.trees, self.looked.without_cells(), counts.whole, self.budget)

    def settled(self, counts: RegionCounts) -> list[Settled]:
        """Return the regions, each of which meets all requirements as one class if classes are made of its records."""
        if not counts.sizes.any():
            raise InputError("every record has a missing value, and the policy drops such records")
        if self.policy.method.publishes == "values":
            return self._boxes(counts)
        root = self.tree.nodes[0]
        whole = Region(root.lo, root.hi, self.looked, counts.whole)
        problem = encode_cells(self.looked.sample, self.policy, self.trees, region=whole).problem
        mending = self.policy.method.mends_values
        if not mending:
            refuse_hopeless(problem, 0)
        found = settled(self.tree, counts, problem, mending=mending)
        if len(found) == 1 and found[0].n_records > self.budget.cells:
            raise UsageError(
                f"no cut of the table leaves two parts that both meet the models, so all of its {found[0].n_records:,} "
                "records are planned at once, which takes up to "
                f"{needed_memory(found[0].n_records, self.budget.threads)} of memory where {self.budget.told} are "
                "allowed; allow more with --memory, or ask for less"
            )
        return found

    def _boxes(self, counts: RegionCounts) -> list[Settled]:
        """Return every box with records: nothing is asked of one where values are published as they are."""
        return [
            Settled((number,), self.tree.nodes[node].lo, self.tree.nodes[node].hi, int(counts.sizes[number]))
            for number, node in enumerate(self.tree.leaves)
            if counts.sizes[number]
        ]


def refuse_larger(policy: Policy, source: Source, budget: Budget, n_cells: int, *, agreed: bool) -> None:
    """Raise if a table with so many combinations of values, or more, must be planned at once; say what would help."""
    reason = None
    if policy.method.takes_regions is None:
        reason = f"method {policy.method.name} decides for all records at once"
    elif any(getattr(model, "population", None) is not None for model in policy.privacy):
        reason = "a model that counts a population looks at all of it at once"
    elif policy.counted_units:
        reason = "people who have records in several regions are counted at once"
    elif agreed:
        reason = "a plan that was agreed on is applied to all records at once"
    elif changed_before(source, policy.names("quasi")):
        reason = "the table as it was before the sample and the techniques is counted at once, for the evidence"
    if reason is None:
        return
    most = "" if source.n_rows is None else f", and may have up to {source.n_rows:,}"
    needed = needed_memory(max(n_cells, source.n_rows or 0), budget.threads)
    raise UsageError(
        f"{source.name} has more than {n_cells:,} combinations of quasi and sensitive values{most}; {reason}, and "
        f"{budget.told} of memory are allowed for it: allow {needed} with --memory, declare coarser values, or use "
        "mondrian, which takes a table larger than memory region by region"
    )
