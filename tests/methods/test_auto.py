"""The choice of a method: what is tried, on which records, and that the best by the marginals is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba.core import event
from tests import tables

import shoal
from shoal.core.errors import UnreachableError
from shoal.methods import auto
from shoal.methods.auto import list_methods

COLUMNS = "age sex zip illness"


def policy(*privacy: dict[str, Any], method: Any = "auto", **other: Any) -> dict[str, Any]:
    return {"attributes": tables.attributes(COLUMNS), "privacy": list(privacy), "method": method, **other}


def tried(release: Any) -> dict[str, Any]:
    return {(one["method"], *one["parameters"].values()): one for one in release.evidence["choice"]["tried"]}


def test_the_best_by_its_score_is_published_under_its_own_name() -> None:
    people = tables.people(400, 3, COLUMNS)
    release = shoal.anonymize(people, policy({"k-anonymity": {"k": 4}}), seed=5)
    trials = tried(release)
    assert set(trials) == {
        (method.name, *method.model_dump(mode="json", exclude_defaults=True).values()) for method in list_methods()
    }
    scores = {name: one["score"] for name, one in trials.items() if "score" in one}
    best = max(scores, key=lambda name: scores[name])
    assert (release.manifest["method"], release.evidence["choice"]["method"]) == (best[0], best[0])
    assert release.evidence["choice"]["records"] == 400
    assert "score" not in str(release.manifest)
    assert release.verification.verified
    # What was scored is what is published: the score of its records with values is near, for few are suppressed.
    assert release.evidence["marginals"][-1]["known"] == pytest.approx(scores[best], abs=30)


def test_methods_that_promise_something_else_or_nothing_are_not_tried() -> None:
    assert not {"plain", "synthetic", "auto"} & {method.name for method in list_methods()}


def test_who_cannot_keep_the_promise_says_why() -> None:
    release = shoal.anonymize(tables.people(400, 3, COLUMNS), policy({"column-frequency": {"k": 3}}))
    trials = tried(release)
    assert release.manifest["method"] == "slicing"
    assert "parts of a sliced table" in trials["mondrian",]["reason"]


def test_if_no_method_can_satisfy_the_policy_each_change_is_named_once() -> None:
    asked = policy({"k-anonymity": {"k": 41}}, {"distinct-l-diversity": {"l": 20}})
    with pytest.raises(UnreachableError) as refused:
        shoal.anonymize(tables.people(40, 4, COLUMNS), asked)
    assert str(refused.value) == (
        "no method can satisfy the policy on this table. Change in privacy:\n"
        "k-anonymity: k = 41 but the table has only 40 records; ask for at most that\n"
        "distinct-l-diversity on 'illness': l = 20, but there are only 4 values; ask for at most 4"
    )


def test_people_are_counted_only_by_methods_that_can() -> None:
    people = tables.people(300, 4, COLUMNS)
    people = people.append_column("person", [[f"p{i // 2}" for i in range(300)]])
    asked = policy({"k-anonymity": {"k": 3}}, unit="person")
    asked["attributes"]["person"] = {"role": "identifier"}
    release = shoal.anonymize(people, asked)
    assert {name[0] for name in tried(release)} == {"incognito", "mondrian"}
    assert release.manifest["guarantees"][0]["counts"] == "unit"


def test_a_method_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0.0, 1e6, 20.0).tolist())
    monkeypatch.setattr(auto.time, "monotonic", lambda: next(clock))
    step = auto._Deadline(10.0)
    with pytest.raises(UnreachableError, match="longer than 10 seconds"), step.step("planning") as opened:
        opened.advance(1)


def test_the_time_that_kernels_take_to_compile_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the first run on a machine would choose another method than the second."""
    seconds = iter([0.0, 15.0])
    monkeypatch.setattr(event, "timer", lambda: next(seconds))
    clock = iter([0.0, 20.0, 26.0])
    monkeypatch.setattr(auto.time, "monotonic", lambda: next(clock))
    deadline = auto._Deadline(10.0)
    with event.install_listener("numba:compile", deadline.compiling), event.trigger_event("numba:compile"):
        pass
    deadline.advance(1)
    with pytest.raises(UnreachableError, match="longer than 10 seconds"):
        deadline.advance(1)
