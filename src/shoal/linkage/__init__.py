"""Several releases together: what remains hidden of a person who is in all of them."""

from __future__ import annotations

from shoal.linkage.linking import composed, link, link_target, parse_target, worst_case_l
from shoal.linkage.result import PopulationLinkage, Remaining, TargetLinkage, WorstCase

__all__ = [
    "PopulationLinkage",
    "Remaining",
    "TargetLinkage",
    "WorstCase",
    "composed",
    "link",
    "link_target",
    "parse_target",
    "worst_case_l",
]
