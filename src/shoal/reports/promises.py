"""What a release promises, what it claims, and how loudly it says that it promises nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from shoal.core.registry import discover
from shoal.core.wording import listed
from shoal.models.base import PrivacyModel
from shoal.reports.text import code, promise_line

_NOTHING = (
    "**This release promises nothing about people.** Whoever knows some values of a person may find the person's row, "
    "and read there what they did not know. Treat it as personal data."
)
_NOTHING_VERIFIED = (
    "What can be verified is the form of the files and, with the original table, that values are the original ones or "
    "were changed as told above."
)
_CLAIM = (
    "This is a claim: no file can show that noise was drawn as declared. What files show, and `shoal verify` checks, "
    "is that the parts of the account in `manifest.json` (`synthetic`) add up to no more."
)
_RECORDS = (
    "It is about single records. Of a person with several of them each one is protected, and all together less: their "
    "epsilons add up. So do those of several tables that are drawn from the same people."
)
_LARGEST = 20.0  # epsilons beyond promise next to nothing, and their factor says nothing to people


def promises(manifest: Mapping[str, Any]) -> list[str]:
    """Return what classes promise, or that nothing is promised, and what is claimed."""
    if manifest.get("claims"):
        return [line for claim in manifest["claims"] for line in _claim(claim)]
    if not manifest["guarantees"]:
        return [_NOTHING, "", _NOTHING_VERIFIED]
    known = discover("shoal.models", PrivacyModel)
    return [
        *(promise_line(promise, known[promise["model"]].title) for promise in manifest["guarantees"]),
        *_classes(manifest),
    ]


def of_changed_values(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the promises of a release with changed columns are about; nothing if none is quasi or sensitive."""
    roles = {name: manifest["attributes"][name]["role"] for name in manifest.get("techniques", {})}
    names = [code(name) for name, role in roles.items() if role in ("quasi", "sensitive")]
    if not names or not manifest["guarantees"]:
        return []
    return ["", f"The promises are about values as published. Those of {listed(names)} are not the original ones."]


def claim_told(claim: Mapping[str, Any]) -> str:
    """Say what a claim of differential privacy means.

    >>> claim_told({"model": "differential-privacy", "parameters": {"epsilon": 1.0, "delta": 0.0}})
    'whatever somebody knows, no table is more than e^1 (about 2.7) times as likely with a record as without it'
    """
    epsilon, delta = claim["parameters"]["epsilon"], claim["parameters"]["delta"]
    factor = "" if epsilon > _LARGEST else f" (about {math.exp(epsilon):,.{1 if epsilon < 3 else 0}f})"
    but = f", but for a probability of {delta:g}" if delta else ""
    return (
        f"whatever somebody knows, no table is more than e^{epsilon:g}{factor} times as likely with a record as "
        f"without it{but}"
    )


def _claim(claim: Mapping[str, Any]) -> list[str]:
    return [promise_line(claim, claim_told(claim)), "", _CLAIM, "", _RECORDS]


def _classes(manifest: Mapping[str, Any]) -> list[str]:
    """Say what a class is where no labels show it."""
    quasi = [entry for entry in manifest["attributes"].values() if entry["role"] == "quasi"]
    if all("labels" in entry for entry in quasi):
        return []
    return ["", "A class is all rows that are equal in every quasi column."]
