"""Publish tables about people so that no one in them can be picked out, and prove it.

>>> import pyarrow as pa
>>> import shoal
>>> people = pa.table({"age": [31, 32, 46, 47], "illness": ["flu", "cold", "flu", "cold"]})
>>> release = shoal.anonymize(people, {
...     "attributes": {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}},
...     "privacy": [{"k-anonymity": {"k": 2}}],
... })
>>> release.data.num_rows, release.guarantees[0]["achieved"]
(4, 2.0)
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"

if TYPE_CHECKING:
    from shoal.anonymize import anonymize
    from shoal.attacks.running import attack
    from shoal.audit.audit import audit
    from shoal.audit.result import Audit
    from shoal.columns.baskets import baskets
    from shoal.columns.pram import estimate_counts
    from shoal.compare.compare import compare
    from shoal.compare.result import Comparison
    from shoal.core.errors import ShoalError
    from shoal.linking.linking import link
    from shoal.policy.drafting import Draft, draft_policy
    from shoal.policy.policy import Policy
    from shoal.release.received import CombinedEstimate, ReceivedRelease, combine_estimates, read_release
    from shoal.release.release import Release
    from shoal.release.sliced.estimating import read_sliced
    from shoal.release.sliced.query import Estimate, Query
    from shoal.reports.verifying import verify
    from shoal.sources.base import SourceOptions
    from shoal.sources.opening import open_source
    from shoal.taxonomies.tree import Taxonomy

__all__ = [
    "Audit",
    "CombinedEstimate",
    "Comparison",
    "Draft",
    "Estimate",
    "Policy",
    "Query",
    "ReceivedRelease",
    "Release",
    "ShoalError",
    "SourceOptions",
    "Taxonomy",
    "anonymize",
    "attack",
    "audit",
    "baskets",
    "combine_estimates",
    "compare",
    "draft_policy",
    "estimate_counts",
    "link",
    "open_source",
    "read_release",
    "read_sliced",
    "verify",
]

_HOMES = {
    "Audit": "shoal.audit.result",
    "CombinedEstimate": "shoal.release.received",
    "Comparison": "shoal.compare.result",
    "Draft": "shoal.policy.drafting",
    "Estimate": "shoal.release.sliced.query",
    "Policy": "shoal.policy.policy",
    "Query": "shoal.release.sliced.query",
    "ReceivedRelease": "shoal.release.received",
    "Release": "shoal.release.release",
    "ShoalError": "shoal.core.errors",
    "SourceOptions": "shoal.sources.base",
    "Taxonomy": "shoal.taxonomies.tree",
    "anonymize": "shoal.anonymize",
    "attack": "shoal.attacks.running",
    "audit": "shoal.audit.audit",
    "baskets": "shoal.columns.baskets",
    "combine_estimates": "shoal.release.received",
    "compare": "shoal.compare.compare",
    "draft_policy": "shoal.policy.drafting",
    "estimate_counts": "shoal.columns.pram",
    "link": "shoal.linking.linking",
    "open_source": "shoal.sources.opening",
    "read_release": "shoal.release.received",
    "read_sliced": "shoal.release.sliced.estimating",
    "verify": "shoal.reports.verifying",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: importing shoal, and ``shoal --help``, cost nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


class _Package(ModuleType):
    """Keeps ``shoal.audit`` the function, also when the package of the same name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
