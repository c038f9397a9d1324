"""Scores, ranks and dominance of a comparison, against the definitions in exact numbers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import releases

from shoal.audit.decision import Decision, decide
from shoal.compare.result import DEFAULT_WEIGHTS, PARTS, Comparison, Row, read_weights
from shoal.compare.writing import ranking, standing_text
from shoal.core.errors import UsageError
from shoal.utility.marginals import Marginals

COUNTS = st.integers(0, 10)


def make_decision(risk: float | None, width: float = 0.0, threshold: float | None = None) -> Decision:
    """Return the record of a release whose worst attack found so much, with an interval of this width."""
    worst = None if risk is None else {"value": risk, "low": max(risk - width, 1e-12), "high": risk + width}
    attack = {"name": "inference", "about": "illness", "bears_on": "attribute", "worst": worst, "verdict": "x: y"}
    evidence = {
        "findings": [],
        "risk_after": {},
        "policy": {"release": {"threshold": threshold}},
        "verification": {"checks": [], "guarantees": []},
    }
    return decide(
        releases.state({"attributes": {"age": {"role": "quasi"}}}),
        evidence,
        {"attacks": [] if risk is None else [attack]},
    )


def row(name: str, risk: int | None, kept: int | None, width: float = 0.0, shuffled: float = 0.0) -> Row:
    """Return a row whose risk is so many twentieths, and whose score of marginals is so many times 50."""
    return Row(
        name,
        "",
        "",
        decision=make_decision(None if risk is None else risk / 20, width),
        marginals=()
        if kept is None
        else (Marginals(3, 1, 1, 9, 9, False, 50.0 * kept, 50.0 * kept, shuffled, 1000.0),),
        records=1,
        seconds=0.0,
    )


def comparison(rows: list[Row], weights: dict[str, float] | None = None) -> Comparison:
    return Comparison(tuple(rows), 1, 1, None, 20, None, weights=weights or dict(DEFAULT_WEIGHTS))


@given(st.lists(st.tuples(COUNTS, COUNTS), max_size=7), st.lists(st.integers(1, 5), min_size=2, max_size=2))
def test_standings_are_those_of_exact_numbers(figures: list[tuple[int, int]], weights: list[int]) -> None:
    rows = [row(f"r{number}", *each) for number, each in enumerate(figures)]
    found = comparison(rows, dict(zip(PARTS, map(float, weights), strict=True))).standings()
    assert set(found) == set(range(len(rows)))
    for place, stand in found.items():
        risk, kept = figures[place]
        score = (Fraction(20 - risk, 20) * weights[0] + Fraction(kept, 20) * weights[1]) / sum(weights)
        assert (stand.risk.value, stand.kept) == pytest.approx((risk / 20, kept / 20), abs=1e-12)
        assert stand.score == pytest.approx(float(score), abs=1e-12)
        for other, better in found.items():
            no_worse = figures[other][0] <= risk and figures[other][1] >= kept
            assert (rows[other].name in stand.dominated_by) == (no_worse and figures[other] != figures[place])
            assert better.rank <= stand.rank or rows[other].name not in stand.dominated_by
    assert not found or min(stand.rank for stand in found.values()) == 1


def test_a_tie_in_one_and_better_in_the_other_dominates_and_equals_do_not() -> None:
    rows = [
        row("a", 2, 10),
        row("b", 2, 9),
        row("c", 3, 10),
        row("d", 2, 10),
    ]
    found = comparison(rows).standings()
    assert [found[place].dominated_by for place in range(4)] == [(), ("a", "d"), ("a", "d"), ()]
    assert [found[place].rank for place in range(4)] == [1, 3, 3, 1]


def test_what_promises_nothing_dominates_nothing_that_does() -> None:
    k_anonymous = ({"model": "k-anonymity", "parameters": {"k": 5}, "achieved": 5.0},)
    rows = [
        row("sample", 1, 20),
        replace(row("classes", 2, 19), guarantees=k_anonymous),
        replace(row("worse classes", 3, 18), guarantees=k_anonymous),
        replace(row("epsilon", 2, 18), claims=({"model": "differential-privacy", "parameters": {}},)),
        row("worse sample", 3, 17),
    ]
    found = [stand.dominated_by for _, stand in sorted(comparison(rows).standings().items())]
    assert found == [(), (), ("classes", "epsilon"), ("classes",), ("sample", "classes", "worse classes", "epsilon")]


def test_dominated_is_clear_only_if_intervals_are_apart() -> None:
    rows = [row("best", 1, 20, 0.1), row("near", 2, 19, 0.1), row("far", 9, 1, 0.1)]
    found = comparison(rows).standings()
    assert [found[place].clearly for place in range(3)] == [False, False, True]
    assert standing_text(found[1]) == "dominated by best, not clearly"
    assert standing_text(found[2]) == "dominated by best and 1 more"


def test_a_row_without_a_risk_or_a_utility_has_no_rank() -> None:
    stated = comparison([row("a", 2, 10), row("b", 4, 8), row("c", None, 20)])
    found = stated.standings()
    assert set(found) == {0, 1}
    assert found[0].score == pytest.approx((0.9 + 0.5) / 2)
    assert "c has no rank, because risk could not be measured there." in ranking(stated)
    by_name = {each["name"]: each for each in stated.as_dict()["rows"]}
    assert (by_name["c"]["rank"], by_name["c"]["dominated_by"]) == (None, [])


def test_a_release_above_the_threshold_or_below_shuffled_columns_is_never_first() -> None:
    rows = [row("severe", 19, 20), row("shuffled", 1, 18, shuffled=950.0), row("fair", 8, 4), row("good", 2, 10)]
    found = comparison(rows).standings()
    assert [found[place].rank for place in range(4)] == [4, 3, 2, 1]
    assert standing_text(found[0]) == "never first: its risk of 95% is above 50%"
    assert standing_text(found[1]) == "never first: it keeps less than shuffled columns"
    stated = replace(row("a", 3, 10), decision=make_decision(0.15, threshold=0.09))
    assert comparison([stated]).standings()[0].rank == 2


def test_without_any_risk_there_is_no_ranking_and_refused_rows_have_none() -> None:
    rows = [row("a", None, 10), row("b", None, 5), Row("c", "", "", reason="no")]
    stated = comparison(rows)
    assert stated.standings() == {}
    assert ranking(stated) == ["The releases are not ranked, because none has both a risk and a utility."]
    assert [each["rank"] for each in stated.as_dict()["rows"]] == [None] * 3


@pytest.mark.parametrize(
    ("weights", "stated"),
    [
        ("risks=2", "did you mean 'risk'"),
        ("risk", "must be a number"),
        ("risk=-1", "must be a number from 0"),
        ("risk=nan", "must be a number from 0"),
        ("risk=inf", "must be a number from 0"),
        ("risk=1,risk=2", "given twice"),
        ("marginals=0", "the weight of marginals is 0"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights: str, stated: str) -> None:
    with pytest.raises(UsageError, match=stated):
        read_weights(weights)
