"""Differentially private synthetic tables: noisy counts of a tree of attributes, and rows drawn from them."""

from __future__ import annotations

from shoal.synthetic.domains import Domain
from shoal.synthetic.plan import SyntheticPlan
from shoal.synthetic.synthesis import SyntheticOptions, synthesize

__all__ = ["Domain", "SyntheticOptions", "SyntheticPlan", "synthesize"]
