"""The evidence of a run: everything a review board may ask for, and nothing that may leave the house."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

import shoal
from shoal.publishing import Publication
from shoal.risk.sizes import class_risks
from shoal.utility.base import Utility
from shoal.verify import Verification


def build_evidence(
    publication: Publication,
    verification: Verification,
    utility: Utility,
    seed: int | None,
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Return the policy, the source's digest, risks before and after, utility, and what the verifier said."""
    policy, source = publication.policy, publication.source
    return {
        "shoal_version": shoal.__version__,
        "python": platform.python_version(),
        "source": {"name": source.name, "rows": publication.counted.n_rows, "sha256": source.digest()},
        "policy": json.loads(json.dumps(dict(policy.document), default=_in_json)),
        "seed": seed,
        "randomness": "operating system" if seed is None else "the given seed: repeatable, so keep it secret",
        "risk_before": class_risks(publication.counted.class_sizes(policy.names("quasi"))),
        "risk_after": publication.risks(),
        "generalized_sensitive": publication.generalized_sensitive(),
        "utility": utility,
        "withheld": publication.plan.n_withheld,
        "search": dict(publication.plan.search),
        "warnings": list(publication.warnings),
        **publication.own_evidence,
        "verification": verification.as_dict(),
        "seconds": dict(seconds),
    }


def _in_json(value: object) -> object:
    """Say in JSON what a policy given as a mapping may hold besides: paths, dates, NumPy numbers."""
    return value.item() if isinstance(value, np.generic) else str(value)
