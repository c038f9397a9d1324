"""From a plan to what is published of it: one shape for generalizations and slicings."""

from __future__ import annotations

from shoal.encoding import Encoding
from shoal.engines.local import CountedCells
from shoal.plan import Plan
from shoal.policy import Policy
from shoal.publishing.generalized import GeneralizedPublication
from shoal.publishing.publication import Publication, PublishedRows
from shoal.publishing.sliced import SlicedPublication
from shoal.slices import SlicedPlan
from shoal.sources import Source

__all__ = ["GeneralizedPublication", "Publication", "PublishedRows", "SlicedPublication", "publication_of"]


def publication_of(
    policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: Plan | SlicedPlan
) -> Publication:
    """Prepare what the plan publishes of the table."""
    if isinstance(plan, SlicedPlan):
        return SlicedPublication.of(policy, source, counted, encoding, plan)
    return GeneralizedPublication.of(policy, source, counted, encoding, plan)
