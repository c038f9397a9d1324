"""From a plan to what is published of it."""

from __future__ import annotations

from shoal.methods.base import AnyPlan
from shoal.plan.counted import CountedCells
from shoal.plan.slices import SlicedPlan
from shoal.plan.synthetic import SyntheticPlan
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.forms.classes import GeneralizedPublication
from shoal.release.forms.slices import SlicedPublication
from shoal.release.forms.synthetic import SyntheticPublication
from shoal.release.publication import PlannedPublication
from shoal.sources.base import Source


def publication_of(
    policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
) -> PlannedPublication:
    """Prepare what the plan publishes of the table."""
    if isinstance(plan, SyntheticPlan):
        return SyntheticPublication.of(policy, source, counted, encoding, plan)
    if isinstance(plan, SlicedPlan):
        return SlicedPublication.of(policy, source, counted, encoding, plan)
    return GeneralizedPublication.of(policy, source, counted, encoding, plan)
