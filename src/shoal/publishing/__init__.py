"""From a plan to what is published of it: one shape for generalizations and slicings."""

from __future__ import annotations

from shoal.encoding import Encoding
from shoal.engines.local import CountedCells
from shoal.methods.base import AnyPlan
from shoal.policy import Policy
from shoal.publishing.generalized import GeneralizedPublication
from shoal.publishing.publication import PlannedPublication, Publication, PublishedRows
from shoal.publishing.sliced import SlicedPublication
from shoal.publishing.synthetic import SyntheticPublication
from shoal.slices import SlicedPlan
from shoal.sources import Source
from shoal.synthetic.plan import SyntheticPlan

__all__ = [
    "GeneralizedPublication",
    "PlannedPublication",
    "Publication",
    "PublishedRows",
    "SlicedPublication",
    "SyntheticPublication",
    "publication_of",
]


def publication_of(
    policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
) -> PlannedPublication:
    """Prepare what the plan publishes of the table."""
    if isinstance(plan, SyntheticPlan):
        return SyntheticPublication.of(policy, source, counted, encoding, plan)
    if isinstance(plan, SlicedPlan):
        return SlicedPublication.of(policy, source, counted, encoding, plan)
    return GeneralizedPublication.of(policy, source, counted, encoding, plan)
