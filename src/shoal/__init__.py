"""Publish tables about people so that nobody in them can be picked out, and prove it.

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

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from shoal.anonymizing import anonymize
    from shoal.auditing import Audit, audit
    from shoal.comparing import Comparison, compare
    from shoal.drafting import Draft, draft_policy
    from shoal.errors import ShoalError
    from shoal.policy import Policy
    from shoal.release import Release
    from shoal.sliced import Estimate, Query, read_sliced
    from shoal.sources import SourceOptions, open_source
    from shoal.taxonomies.tree import Taxonomy
    from shoal.transactions.gathering import baskets

__all__ = [
    "Audit",
    "Comparison",
    "Draft",
    "Estimate",
    "Policy",
    "Query",
    "Release",
    "ShoalError",
    "SourceOptions",
    "Taxonomy",
    "anonymize",
    "audit",
    "baskets",
    "compare",
    "draft_policy",
    "open_source",
    "read_sliced",
]

_HOMES = {
    "Audit": "shoal.auditing",
    "Comparison": "shoal.comparing",
    "Draft": "shoal.drafting",
    "Estimate": "shoal.sliced",
    "Policy": "shoal.policy",
    "Query": "shoal.sliced",
    "Release": "shoal.release",
    "ShoalError": "shoal.errors",
    "SourceOptions": "shoal.sources",
    "Taxonomy": "shoal.taxonomies.tree",
    "anonymize": "shoal.anonymizing",
    "audit": "shoal.auditing",
    "baskets": "shoal.transactions.gathering",
    "compare": "shoal.comparing",
    "draft_policy": "shoal.drafting",
    "open_source": "shoal.sources",
    "read_sliced": "shoal.sliced",
}


def __getattr__(name: str) -> Any:
    """Load a public name where it is first used, so that importing shoal, and ``shoal --help``, cost nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
