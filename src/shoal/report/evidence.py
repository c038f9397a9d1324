"""The evidence of a run: everything a review board may ask for, and nothing that may leave the house."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

import shoal
from shoal.arrays import IntArray
from shoal.policy import Policy
from shoal.rewriting import Rewriter
from shoal.sources import Source
from shoal.utility.base import Utility
from shoal.verify import Verification


def build_evidence(
    policy: Policy,
    source: Source,
    rewriter: Rewriter,
    verification: Verification,
    utility: Utility,
    seed: int | None,
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Return the policy, the source's digest, risks before and after, utility, and what the verifier said."""
    return {
        "shoal_version": shoal.__version__,
        "python": platform.python_version(),
        "source": {"name": source.name, "rows": rewriter.counted.n_rows, "sha256": source.digest()},
        "policy": json.loads(json.dumps(dict(policy.document), default=_in_json)),
        "seed": seed,
        "randomness": "operating system" if seed is None else "the given seed: repeatable, so keep it secret",
        "risk_before": class_risks(rewriter.counted.class_sizes(policy.names("quasi"))),
        "risk_after": class_risks(rewriter.plan.sizes),
        "generalized_sensitive": rewriter.plan.generalized_sensitive(rewriter.encoding.problem),
        "utility": utility,
        "withheld": rewriter.plan.n_withheld,
        "search": dict(rewriter.plan.search),
        "warnings": list(rewriter.plan.warnings),
        "verification": verification.as_dict(),
        "seconds": dict(seconds),
    }


def _in_json(value: object) -> object:
    """Say in JSON what a policy given as a mapping may hold besides: paths, dates, NumPy numbers."""
    return value.item() if isinstance(value, np.generic) else str(value)


def class_risks(sizes: IntArray) -> dict[str, Any]:
    """Return how easily records are found by their class, for two kinds of searchers.

    The prosecutor knows that the target is in the table: 1 / class size. The marketer wants as many as possible:
    the expected share found is the number of classes over that of records.
    """
    n_records = int(sizes.sum())
    return {
        "records": n_records,
        "classes": len(sizes),
        "smallest_class": int(sizes.min()),
        "unique_records": int((sizes == 1).sum()),
        "prosecutor_highest": 1.0 / int(sizes.min()),
        "prosecutor_mean": len(sizes) / n_records,
        "marketer": len(sizes) / n_records,
        "class_sizes": size_histogram(sizes),
    }


def size_histogram(sizes: IntArray) -> list[dict[str, int]]:
    """Return classes and records by class size, in ranges that double.

    >>> import numpy as np
    >>> size_histogram(np.array([1, 1, 3, 9]))[1]
    {'from': 2, 'to': 3, 'classes': 1, 'records': 3}
    """
    bins = []
    low = 1
    while low <= int(sizes.max()):
        high = 2 * low - 1
        inside = sizes[(sizes >= low) & (sizes <= high)]
        bins.append({"from": low, "to": high, "classes": len(inside), "records": int(inside.sum())})
        low = high + 1
    return bins
