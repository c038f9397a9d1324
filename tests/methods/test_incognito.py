"""The full-domain method: levels, budget of time, local recoding, refusals."""

from __future__ import annotations

import itertools
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import tables
from tests.tables import cover

import shoal
from shoal.core.errors import PolicyError, UnreachableError
from shoal.core.progress import Silent
from shoal.methods.incognito import Incognito, groups, search, solve
from shoal.methods.incognito.groups import Groupings
from shoal.methods.incognito.judge import has_bound, least_suppressed
from shoal.models.alpha_k_anonymity import AlphaKAnonymity
from shoal.models.base import ClassHistograms, Whole
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.k_anonymity import KAnonymity
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan import judging
from shoal.plan.cells import Cells
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.files import from_nested

LETTERS = {"*": {"ab": ["a", "b"], "cd": ["c", "d"]}}


def table_of(rows: list[tuple[int, ...]], counts: list[int], model: Any = None, **options: Any) -> Problem:
    """A problem over letters; the last code of a row is its sensitive value."""
    trees = [from_nested(LETTERS) for _ in rows[0][:-1]]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    cells = Cells((*columns[:-1], columns[-1].astype(np.int32)), np.array(counts, dtype=np.int64))
    values = from_nested({"*": ["x", "y", "z"]})
    seen: dict[str, Any] = {}
    if model is not None and model.sees == "values":
        seen = {"values": columns[-1].astype(np.int32), "n_values": 3, "taxonomy": values}
    requirements = (Requirement(model or KAnonymity(k=3), 0, **seen),)
    quasi = tuple(Attribute(f"q{j}", tree) for j, tree in enumerate(trees))
    return Problem(quasi, (Attribute("s", values),), cells, requirements, **options)


def many(n_attributes: int, seed: int = 1, n: int = 300) -> Problem:
    rng = np.random.default_rng(seed)
    rows = [(*(int(v) for v in rng.integers(0, 4, n_attributes)), 0) for _ in range(n)]
    return table_of(rows, [1] * n)


def plan_of(problem: Problem, **parameters: Any) -> Any:
    return Incognito(**parameters).plan(problem, np.random.default_rng(1), Silent())


@pytest.mark.parametrize("model", [AlphaKAnonymity(alpha=0.5, k=2), EntropyLDiversity(l=2)], ids=str)
def test_a_model_of_values_that_the_whole_table_fails_is_refused(model: Any) -> None:
    """A value on 5 of 9 records: without one record of it there is a class, but its absence would show the value."""
    rows, counts = [(0, 0, 0), (0, 0, 1), (3, 3, 0)], [4, 4, 1]
    for most in (0, 1, 2):
        with pytest.raises(UnreachableError, match="records cannot be withheld" if most else model.name):
            plan_of(table_of(rows, counts, model, max_withheld=most))


@pytest.mark.parametrize("model", [EntropyLDiversity(l=3), DistinctLDiversity(l=4), KAnonymity(k=30)], ids=str)
def test_what_no_withholding_mends_is_refused_before_any_search(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "Search", None)
    with pytest.raises(UnreachableError, match=model.name):
        plan_of(table_of([(0, 0, 0), (1, 0, 1), (3, 3, 2)], [20, 5, 3], model, max_withheld=8))


@given(
    counts=st.lists(st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=1, max_size=3),
    model=st.sampled_from(
        [
            TauLDiversity(tau=0.5, l=3),
            TauLDiversity(tau=0.4, l=4),
            AlphaKAnonymity(alpha=0.4, k=2),
            DistinctLDiversity(l=3),
        ]
    ),
)
def test_the_bound_never_exceeds_what_a_class_must_lose(counts: list[list[int]], model: Any) -> None:
    """Against the best of all ways to take records out of each class, one by one."""
    table = np.array(counts, dtype=np.int64)
    table = table[table.sum(axis=1) > 0]
    requirement = Requirement(model, 0, np.zeros(1, dtype=np.int32), 4)
    least = 0
    for row in table:
        kept = [rest for rest in itertools.product(*(range(n + 1) for n in row)) if sum(rest)]
        holding = model.holds(ClassHistograms.of(kept), Whole.of(row))
        least += int(row.sum()) - max((sum(rest) for rest, good in zip(kept, holding, strict=True) if good), default=0)
    assert has_bound(requirement)
    found = least_suppressed(
        requirement, Whole.of(table.sum(axis=0)), table.sum(axis=1), table, model.smallest_class, int(table.sum())
    )
    assert found <= least


def test_a_search_without_time_says_how_far_it_may_be_from_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (1 << 18, 0):
        monkeypatch.setattr(search, "_TABULATED_NODES", limit)
        plan = plan_of(many(6), time_budget=1e-9)
        assert not plan.search["complete"]
        assert plan.search["pruned"] is None
        assert plan.search["gap"] > 0
        assert len(plan.warnings) == 1
        assert "time budget" in plan.warnings[0]
        assert "gap" in plan.warnings[0]
        assert plan.sizes.min() >= 3


def test_fifteen_attributes_have_an_answer_in_time() -> None:
    plan = plan_of(many(15, n=120), time_budget=1.5)
    assert plan.search["lattice"] == 3**15
    assert plan.search["bound"] <= plan.search["optimum"]
    assert plan.sizes.min() >= 3
    if not plan.search["complete"]:
        assert plan.warnings


def test_whenever_the_time_ends_the_bound_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    optimum = plan_of(many(4)).search["optimum"]
    monkeypatch.setattr(search, "_TABULATED_NODES", 0)
    bounds = []
    for ticks in (1, 5, 10, 20, 40, 80):
        clock = itertools.count()
        monkeypatch.setattr(search, "time", SimpleNamespace(monotonic=lambda clock=clock: next(clock)))
        figures = plan_of(many(4), time_budget=ticks).search
        assert figures["bound"] <= optimum <= figures["optimum"]
        bounds.append(figures["bound"])
    assert bounds[0] < bounds[-1]
    assert bounds == sorted(bounds)


def test_keys_of_many_words_and_histograms_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    wide = from_nested({"*": {f"g{i}": [f"v{i}-{j}" for j in range(40)] for i in range(40)}})
    n = 200
    value = rng.integers(0, 3, n).astype(np.int32)
    columns = [rng.integers(0, 1600, n) for _ in range(7)]  # 7 x 8 bits for what occurs, of 11
    model = DistinctLDiversity(l=3)
    tree = from_nested({"*": ["x", "y", "z"]})
    problem = Problem(
        tuple(Attribute(f"q{j}", wide) for j in range(9)),
        (Attribute("s", tree),),
        Cells((*columns, *columns[:2], value), np.ones(n, dtype=np.int64)),
        (Requirement(model, 0, value, 3, tree),),
    )
    assert Groupings(problem).base.keys.shape[1] == 2
    plan = plan_of(problem, measure="ncp")
    monkeypatch.setattr(groups, "_DENSE_ENTRIES", 0)
    monkeypatch.setattr(judging, "_HISTOGRAM_ENTRIES", 6)
    again = plan_of(problem, measure="ncp")
    assert plan.levels == again.levels
    assert plan.search["optimum"] == again.search["optimum"]


def people(n: int = 400, seed: int = 3) -> pa.Table:
    return tables.people(n, seed)


def policy(models: list[dict[str, Any]], **method: Any) -> dict[str, Any]:
    withheld = method.pop("max_withheld", 0.02)
    return {
        "attributes": tables.attributes("age sex zip illness"),
        "privacy": models,
        "method": {"incognito": method},
        "max_withheld": withheld,
    }


K4: dict[str, Any] = {"k-anonymity": {"k": 4}}


@pytest.mark.parametrize(
    ("measure", "share"),
    cover(["um", "loss", "ncp", "non-uniform-entropy", "discernibility", "class-size"], [1.0, 0.3]),
)
def test_recoding_keeps_more_and_verifies(measure: str, share: float) -> None:
    models = [K4, {"distinct-l-diversity": {"l": 2}}]
    plain = shoal.anonymize(people(), policy(models, measure=measure), seed=1)
    local = shoal.anonymize(people(), policy(models, measure=measure, recode=True, round_suppression=share), seed=1)
    assert local.verification.verified
    assert local.manifest["withheld"] <= 8
    assert local.utility["ncp"] <= plain.utility["ncp"]
    rounds = local.evidence["search"]["rounds"]
    assert len(rounds) > 1
    assert sum(entry["records"] for entry in rounds) == local.manifest["rows"]
    assert not local.manifest.get("levels")
    assert plain.manifest["levels"]


def test_recoding_refuses_models_that_look_beyond_a_class() -> None:
    with pytest.raises(UnreachableError, match="recode cannot serve t-closeness"):
        shoal.anonymize(people(), policy([{"t-closeness": {"t": 0.3}}], recode=True))


@pytest.mark.parametrize("method", ["incognito", "hilbert"])
def test_what_a_refusal_offers_is_reachable_for_all_sensitive_attributes(method: str) -> None:
    """The offer must suffice for both sensitive attributes, not only for the first."""
    table = people(200).append_column("job", pa.array(np.where(np.arange(200) % 9 < 4, "cook", "smith")))
    asked = policy([{"t-closeness": {"t": 0.0001}}, {"k-anonymity": {"k": 3}}], max_withheld=0)
    asked["attributes"]["job"] = {"role": "sensitive"}
    asked["method"] = {method: {}}
    with pytest.raises(UnreachableError, match="so ask for") as refusal:
        shoal.anonymize(table, asked, seed=1)
    offered = float(re.search(r"reaches ([0-9.]+), so", str(refusal.value))[1])
    asked["privacy"][0] = {"t-closeness": {"t": offered + 0.0001}}
    assert shoal.anonymize(table, asked, seed=1).verification.verified


def test_the_search_stays_internal_and_levels_are_published() -> None:
    release = shoal.anonymize(people(), policy([K4]), seed=1)
    assert set(release.manifest["levels"]) == {"age", "sex", "zip"}
    assert "search" not in release.manifest
    search = release.evidence["search"]
    assert search["complete"]
    assert search["measure"] == "loss"
    assert search["lattice"] == 5 * 2 * 6


def test_levels_by_hand_are_published_or_refused() -> None:
    """They are judged as those that the search finds: of the node it takes, the plan is the same."""
    problem = table_of([(0, 0, 0), (1, 0, 0), (3, 3, 0)], [3, 3, 1], max_withheld=1)
    found = plan_of(problem)
    plan = plan_of(problem, levels={"q0": found.levels["q0"]})
    assert plan.levels == found.levels == {"q0": 0, "q1": 0}
    assert (plan.n_withheld, plan.sizes.tolist()) == (1, found.sizes.tolist())
    assert plan.search == {"measure": "loss", "chosen": found.search["optimum"], "levels": found.levels}
    coarse = plan_of(problem, levels={"q0": 2, "q1": 2})
    assert (coarse.n_withheld, coarse.sizes.tolist()) == (0, [7])
    with pytest.raises(UnreachableError, match="do not satisfy k-anonymity with at most 0 of the records withheld"):
        plan_of(table_of([(0, 0, 0), (1, 0, 0), (3, 3, 0)], [3, 3, 1]), levels={"q0": 1})


@pytest.mark.parametrize(
    ("levels", "said"),
    [({"q2": 1}, "'q2' is not a quasi attribute of the policy; did you mean"), ({"q0": 3}, "the levels 0 to 2, not 3")],
)
def test_levels_by_hand_that_there_are_not_are_errors(levels: dict[str, int], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        Incognito(levels=levels).refuses(many(2))
