"""Techniques and methods of the guidance on Adult and on a million rows, and the comparison of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring import Measured, timed
from bench.perturbed import perturbed

KEPT: list[dict[str, Any]] = [{"k-anonymity": {"k": 5}}]
METHODS: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "microaggregation, k = 5": (KEPT, {"microaggregation": {}}),
    "synthetic, epsilon 1": ([], {"synthetic": {"epsilon": 1.0}}),
    "plain, nothing done": ([], {"plain": {}}),
}
AGE_NOISE = {"noise": {"laplace": {"scale": 3}, "edges": "redraw"}}


def techniques(_: Path) -> Iterator[Measured]:
    """Each method in process, verified, on Adult; what a technique adds to a million rows."""
    from shoal import anonymize
    from shoal.datasets.uci import adult, adult_policy

    base = adult_policy()
    table = adult(columns=list(base["attributes"]))
    for name, (privacy, method) in METHODS.items():
        policy = {**base, "privacy": privacy, "method": method}
        seconds = timed(lambda policy=policy: anonymize(table, policy), 3)
        yield Measured(f"Adult, {name}: in process, verified", seconds, "-", True)
    million = perturbed(table, 1_000_000, base["attributes"], np.random.default_rng(5))
    noisy = {**base["attributes"], "age": {**base["attributes"]["age"], "technique": AGE_NOISE}}
    ranked = {
        **base["attributes"],
        "age": {**base["attributes"]["age"], "technique": {"rank-swapping": {"window": 0.05}}},
    }
    for name, attributes in (
        ("as it is", base["attributes"]),
        ("with Laplace noise on age", noisy),
        ("with rank swapping on age", ranked),
    ):
        policy = {**base, "attributes": attributes, "privacy": KEPT, "method": {"mondrian": {}}}
        seconds = timed(lambda policy=policy: anonymize(million, policy), 3)
        yield Measured(f"1 million perturbed rows of Adult, Mondrian, k = 5, {name}: verified", seconds, "-", True)


def comparing(_: Path) -> Iterator[Measured]:
    """All techniques side by side, with their attacks and measures."""
    from shoal import compare
    from shoal.datasets.uci import adult, adult_policy

    policy = adult_policy(privacy=[{"k-anonymity": {"k": 5}}, {"simple-l-diversity": {"l": 3}}])
    table = adult(columns=list(policy["attributes"]))
    seconds = timed(lambda: compare(table, policy, techniques="all", cache=False), 1)
    yield Measured("compare all techniques, Adult, 2,000 targets", seconds, "-", True)
