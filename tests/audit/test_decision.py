"""The decision record: one number for each risk, attacks as findings, and a verdict with its reasons."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests import releases

import shoal
from shoal.audit.decision import NOT_READY, READY, Decision, decide
from shoal.core.results import Finding
from shoal.policy.policy import Acceptance

STATED: dict[str, Any] = {"attributes": {"age": {"role": "quasi"}}}
MANIFEST = releases.state(STATED)


def make_evidence(*findings: Finding, **more: Any) -> dict[str, Any]:
    """Evidence of a release whose smallest class has five records."""
    return {
        "risk_after": {"smallest_class": 5, "prosecutor_highest": 0.2, "marketer": 0.1},
        "sensitive": {"illness": {"values": [{"value": "flu"}], "likeliest": 0.4, "most_frequent": 0.25}},
        "findings": [one.as_dict() for one in findings],
        "verification": {"checks": [], "guarantees": []},
        "policy": {},
        **more,
    }


def make_attack(name: str, bears_on: str | None, value: float, low: float, about: str | None = None) -> dict[str, Any]:
    worst = {"value": value, "low": low, "high": min(value + 0.1, 1.0)}
    verdict = f"severe: {value:.0%} of the guesses that chance would miss are right"
    return {"name": name, "about": about, "bears_on": bears_on, "worst": worst, "verdict": verdict}


COST = Finding(
    "isolating-columns", "high", ("cost",), "156 of 1,000 records (15.6%) are unique.", "Round.", share=0.156
)


def read_risks(decision: Decision) -> dict[str, float | None]:
    return {one.kind: one.value for one in decision.risk}


def test_the_largest_measure_of_a_risk_decides_and_the_others_are_named() -> None:
    attacks = {"attacks": [make_attack("singling-out", "identity", 0.985, 0.97)]}
    identity = decide(MANIFEST, make_evidence(COST), attacks).risk[0]
    assert (identity.value, identity.average) == (0.985, 0.156)
    assert [one.source for one in identity.measures] == ["singling-out", "classes", "isolating-columns"]
    assert all(figure in identity.sentence for figure in ("98%", "20%", "15.6%", "The largest figure decides"))


def test_attribute_risk_is_the_advantage_over_the_most_frequent_value() -> None:
    found = read_risks(decide(MANIFEST, make_evidence()))
    assert found["attribute"] == pytest.approx((0.4 - 0.25) / (1 - 0.25))
    certain = Finding("one-value-classes", "high", ("illness",), "Text.", "Fix.", share=0.3)
    assert read_risks(decide(MANIFEST, make_evidence(certain)))["attribute"] == 0.3


def test_differential_privacy_bounds_membership() -> None:
    claims = [{"model": "differential-privacy", "parameters": {"epsilon": 1.0}}]
    found = decide(releases.state({**STATED, "claims": claims}), make_evidence(risk_after={}, sensitive={}))
    assert read_risks(found) == {"identity": None, "attribute": None, "membership": pytest.approx(0.46211716)}


def test_an_attack_that_succeeds_is_a_finding_that_the_policy_may_accept() -> None:
    attacks = {"attacks": [make_attack("inference", "attribute", 0.6, 0.5, about="illness")]}
    found = decide(MANIFEST, make_evidence(), attacks)
    assert [(one.id, one.severity, one.about) for one in found.findings] == [("attack-attribute", "high", ("illness",))]
    assert found.verdict == NOT_READY
    assert found.reasons == ("The high finding attack-attribute (illness) is open.",)
    accept = [Acceptance(finding="attack-attribute", about=("illness",), reason="Known anyway.")]
    accepted = decide(MANIFEST, make_evidence(), attacks, accept)
    assert (accepted.verdict, accepted.n_open_high) == (READY, 0)
    assert read_risks(accepted)["attribute"] == 0.6  # the risk stays the same


@pytest.mark.parametrize(("threshold", "ready"), [(0.09, False), (0.2, True), (0.5, True), (None, True)])
def test_the_threshold_is_compared_with_the_identity_risk(threshold: float | None, ready: bool) -> None:
    evidence = make_evidence(policy={"release": {"threshold": threshold}})
    found = decide(MANIFEST, evidence)
    assert found.ready is ready
    assert bool(found.reasons) is not ready


def test_a_failed_check_is_the_first_reason() -> None:
    checks = [{"name": "truth", "ok": False}]
    found = decide(MANIFEST, make_evidence(COST, verification={"checks": checks, "guarantees": []}))
    assert found.reasons[0] == "The verifier rejects the release: truth failed."


def test_the_headline_is_the_worst_open_finding_with_its_figure() -> None:
    worse = Finding(
        "isolating-columns", "high", ("zip",), "899 of 1,000 records (89.9%) are unique by zip: a", "", share=0.899
    )
    found = decide(MANIFEST, make_evidence(COST, worse))
    assert found.headline == "899 of 1,000 records (89.9%) are unique by zip. 1 more high finding is open."


def test_class_sizes_say_nothing_about_values_that_chance_changed() -> None:
    table = pa.table({"age": list(range(40)), "illness": ["flu", "gout"] * 20})
    roles: dict[str, Any] = {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    for technique, value in ({"noise": {"gaussian": {"sd": 3}}}, None), ({"rounding": {"base": 1}}, 1.0):
        roles["age"]["technique"] = technique
        release = shoal.anonymize(table, {"attributes": roles, "privacy": [], "method": {"plain": {}}}, seed=1)
        assert release.decision.risk[0].value == value
