"""Tables that are too large for the memory allowed and cannot be planned region by region."""

from __future__ import annotations

from shoal.errors import UsageError
from shoal.policy import Policy
from shoal.regions.budget import Budget, needed_memory
from shoal.report.before import changed_before
from shoal.sources import Source


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
