"""The evidence of a run: everything a review board may ask for, and nothing that can be shared."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import shoal
from shoal.audit.before import Given, measure_risks, quasi_codes, risk_carriers
from shoal.columns.base import TreatedSource, list_warnings
from shoal.columns.sampling import SampledSource
from shoal.core.progress import Silent
from shoal.core.results import Finding
from shoal.release.publication import PlannedPublication, Publication
from shoal.sources.base import layers
from shoal.utility.base import Utility
from shoal.verify.result import Verification

_LITTLE_WORK, _ANY_WORK = 2.0**19, float("inf")  # cells times pairs of attributes
_NOT_TOLD = "(not told)"


def build_evidence(
    publication: Publication,
    verification: Verification,
    utility: Utility,
    findings: Sequence[Finding],
    seed: int | None,
    seconds: Mapping[str, float],
    *,
    thorough: bool = False,
) -> dict[str, Any]:
    """Return the policy, the source's digest, risks before and after, utility, and what the verifier said.

    What was before is the table as it was given, whatever was drawn from it or changed in it since. Associations
    between pairs of attributes are told if they are had at once, or if the run is to be *thorough*.
    """
    given = Given.of(publication, Silent())
    return {
        "shoal_version": shoal.__version__,
        "python": platform.python_version(),
        "source": {"name": given.source.name, "rows": given.n_rows, "sha256": given.source.digest()},
        "policy": _policy(publication.policy.document),
        "seed": seed,
        "randomness": "operating system" if seed is None else "the given seed: repeatable, so keep it secret",
        **_changes(publication, given),
        "risk_before": given.risks,
        "risk_after": measure_risks(publication.hiding()),
        "risk_carriers": _carriers(publication, given),
        "generalized_sensitive": publication.count_generalized(),
        **_describe_published(publication, _ANY_WORK if thorough else _LITTLE_WORK),
        "utility": utility,
        "withheld": publication.n_withheld,
        "search": dict(publication.search),
        "findings": [finding.as_dict() for finding in findings],
        "warnings": [*list_warnings(publication.source), *publication.warnings],
        **publication.own_evidence,
        "verification": verification.as_dict(),
        "seconds": dict(seconds),
    }


def _changes(publication: Publication, given: Given) -> dict[str, Any]:
    """Return what the sample and the techniques did, in counts; nothing where there were none."""
    entries: dict[str, Any] = {}
    for layer in layers(publication.source):
        if isinstance(layer, TreatedSource):
            entries["techniques"] = layer.findings()
        elif isinstance(layer, SampledSource):
            entries["sample"] = {"source_rows": given.n_rows, "sampled_rows": publication.n_source_rows}
    return entries


def _describe_published(publication: Publication, most_work: float) -> dict[str, Any]:
    """Return levels, sensitive shares and associations, each only where it has a meaning and was counted."""
    found = {
        "levels": publication.levels(),
        "sensitive": publication.sensitive_shares(),
        "associations": publication.associations(most_work),
    }
    return {key: entry for key, entry in found.items() if entry}


def _carriers(publication: Publication, given: Given) -> dict[str, Any]:
    """Return which attributes single records out before and, where values are published as they are, after."""
    found = {"before": given.carriers}
    if publication.form.as_they_are and isinstance(publication, PlannedPublication):
        counted = publication.counted
        found["after"] = risk_carriers(quasi_codes(counted, publication.policy.names("quasi")), counted.run.counts)
    return found


def _policy(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the policy as it was written, but for the paths of keys."""
    told: dict[str, Any] = json.loads(json.dumps(dict(document), default=_in_json))
    for options in told.get("attributes", {}).values():
        technique = options.get("technique")
        for parameters in technique.values() if isinstance(technique, dict) else ():
            if isinstance(parameters, dict) and "key" in parameters:
                parameters["key"] = _NOT_TOLD
    return told


def _in_json(value: object) -> object:
    """Say in JSON what a policy given as a mapping may hold besides: paths, dates, NumPy numbers."""
    return value.item() if isinstance(value, np.generic) else str(value)
