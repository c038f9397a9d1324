"""Scores, ranks and dominance of a comparison, against the definitions in exact numbers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.attacks.base import Refusal, Tally, Trials
from shoal.compare.result import DEFAULT_WEIGHTS, PARTS, RISKS, Comparison, Row, read_weights
from shoal.compare.writing import ranking, standing_text
from shoal.core.errors import UsageError
from shoal.utility.marginals import Marginals

COUNTS = st.integers(0, 20)


def row(name: str, risks: list[int | None], kept: int | None) -> Row:
    """Return a row whose risks are so many of 20 trials, and whose score of marginals is so many times 50."""
    return Row(
        name,
        "",
        "",
        risks={
            risk: Refusal(risk, "no") if count is None else Trials(risk, Tally(count, 20))
            for risk, count in zip(RISKS, risks, strict=True)
        },
        marginals=() if kept is None else (Marginals(3, 1, 1, 9, 9, False, 50.0 * kept, 0.0, 1000.0),),
        records=1,
        seconds=0.0,
    )


def comparison(rows: list[Row], weights: dict[str, float] | None = None) -> Comparison:
    return Comparison(tuple(rows), 1, 1, None, 20, None, weights=weights or dict(DEFAULT_WEIGHTS))


def mean(values: list[int], weights: list[int]) -> Fraction:
    return sum(Fraction(v, 20) * w for v, w in zip(values, weights, strict=True)) / sum(weights)


@given(
    st.lists(st.tuples(st.lists(COUNTS, min_size=3, max_size=3), COUNTS), max_size=7),
    st.lists(st.integers(1, 5), min_size=4, max_size=4),
)
def test_standings_are_those_of_exact_numbers(figures: list[Any], weights: list[int]) -> None:
    rows = [row(f"r{number}", *each) for number, each in enumerate(figures)]
    found = comparison(rows, dict(zip(PARTS, map(float, weights), strict=True))).standings()
    risks = [mean(each[0], weights[:3]) for each in figures]
    kept = [Fraction(each[1], 20) for each in figures]
    assert set(found) == set(range(len(rows)))
    for place, stand in found.items():
        parts = [*(20 - count for count in figures[place][0]), figures[place][1]]
        assert stand.risk.value == pytest.approx(float(risks[place]), abs=1e-12)
        assert stand.kept == pytest.approx(float(kept[place]), abs=1e-12)
        assert stand.score == pytest.approx(float(mean(parts, weights)), abs=1e-12)
        assert stand.risk.low <= stand.risk.value <= stand.risk.high
        for other, better in found.items():
            less, more = risks[other] < risks[place], kept[other] > kept[place]
            if less and more and risks[place] - risks[other] > 1e-9 and kept[other] - kept[place] > 1e-9:
                assert rows[other].name in stand.dominated_by
            if risks[other] - risks[place] > 1e-9 or kept[place] - kept[other] > 1e-9:
                assert rows[other].name not in stand.dominated_by
            if rows[other].name in stand.dominated_by:
                assert better.rank <= stand.rank
                assert rows[place].name not in better.dominated_by
                assert set(better.dominated_by) < set(stand.dominated_by)
    assert not found or min(stand.rank for stand in found.values()) == 1
    if found:
        assert any(not stand.dominated_by for stand in found.values())


def test_a_tie_in_one_and_better_in_the_other_dominates_and_equals_do_not() -> None:
    rows = [
        row("a", [2, 2, 2], 10),
        row("b", [2, 2, 2], 9),
        row("c", [3, 2, 2], 10),
        row("d", [2, 2, 2], 10),
    ]
    found = comparison(rows).standings()
    assert [found[place].dominated_by for place in range(4)] == [(), ("a", "d"), ("a", "d"), ()]
    assert [found[place].rank for place in range(4)] == [1, 4, 3, 1]


def test_what_promises_nothing_dominates_nothing_that_does() -> None:
    k_anonymous = ({"model": "k-anonymity", "parameters": {"k": 5}, "achieved": 5.0},)
    rows = [
        row("sample", [1, 1, 1], 20),
        replace(row("classes", [2, 2, 2], 19), guarantees=k_anonymous),
        replace(row("worse classes", [3, 3, 3], 18), guarantees=k_anonymous),
        replace(row("epsilon", [2, 2, 2], 18), claims=({"model": "differential-privacy", "parameters": {}},)),
        row("worse sample", [3, 3, 3], 17),
    ]
    found = [stand.dominated_by for _, stand in sorted(comparison(rows).standings().items())]
    assert found == [(), (), ("classes", "epsilon"), ("classes",), ("sample", "classes", "worse classes", "epsilon")]


def test_dominated_is_clear_only_where_intervals_are_apart() -> None:
    rows = [row("best", [0, 0, 0], 20), row("near", [1, 1, 1], 19), row("far", [20] * 3, 1)]
    found = comparison(rows).standings()
    assert [found[place].clearly for place in range(3)] == [False, False, True]
    assert found[1].risk.low <= found[0].risk.high
    assert standing_text(found[1]) == "dominated by best, not clearly"
    assert standing_text(found[2]) == "dominated by best and 1 more"


def test_what_no_row_has_counts_nothing_and_what_one_lacks_leaves_it_without_a_rank() -> None:
    rows = [
        row("a", [2, 2, None], 10),
        row("b", [4, 2, None], 8),
        row("c", [None, 2, None], 20),
    ]
    stated = comparison(rows)
    assert set(stated.list_weights()) == {"singling-out", "linkability", "marginals"}
    found = stated.standings()
    assert set(found) == {0, 1}
    assert found[0].score == pytest.approx((0.9 + 0.9 + 3 * 0.5) / 5)
    assert "c has no rank, for singling-out could not be measured there as elsewhere." in ranking(stated)
    by_name = {each["name"]: each for each in stated.as_dict()["rows"]}
    assert by_name["c"]["rank"] is None
    assert by_name["c"]["dominated_by"] == []


def test_a_weight_of_0_leaves_a_part_out() -> None:
    rows = [row("a", [2, 2, None], 10), row("b", [4, 2, 1], 8)]
    assert set(comparison(rows).standings()) == {1}
    assert set(comparison(rows, read_weights("inference=0")).standings()) == {0, 1}


def test_without_any_risk_there_is_no_ranking_and_refused_rows_have_none() -> None:
    rows = [row("a", [None] * 3, 10), row("b", [None] * 3, 5), Row("c", "", "", reason="no")]
    stated = comparison(rows)
    assert stated.standings() == {}
    assert ranking(stated) == ["There is no ranking: it needs a risk and something kept that were measured."]
    assert [each["rank"] for each in stated.as_dict()["rows"]] == [None] * 3


def test_risks_below_0_count_as_0() -> None:
    below = Trials("inference", Tally(2, 20), control=Tally(10, 20))
    rows = [row("a", [0, 0, 0], 20)]
    rows[0] = replace(rows[0], risks={**rows[0].risks, "inference": below})
    assert below.risk.value < 0
    (stand,) = comparison(rows).standings().values()
    assert (stand.score, stand.risk.value, stand.kept) == (1.0, 0.0, 1.0)


def test_rows_of_one_name_are_told_apart_by_their_parameters() -> None:
    twice = [row("a", [2] * 3, 9), row("a", [3] * 3, 8)]
    rows = [
        Row(each.name, "", f"epsilon = {n}", risks=each.risks, marginals=each.marginals) for n, each in enumerate(twice)
    ]
    assert comparison(rows).standings()[1].dominated_by == ("a, epsilon = 0",)


def test_the_plot_has_every_ranked_row() -> None:
    rows = [row("a", [2] * 3, 9), row("<b>", [3] * 3, 8), row("c", [None] * 3, 8)]
    plot = comparison(rows).frontier()
    assert {name for line in plot.rows for name in line if name in ("a", "<b>", "c")} == {"a", "<b>"}
    assert "<b>" not in plot.drawing


def test_weights_are_read_as_they_are_typed() -> None:
    assert read_weights("inference = 2, marginals=0.5") == {**DEFAULT_WEIGHTS, "inference": 2.0, "marginals": 0.5}
    assert read_weights({"linkability": 3}) == {**DEFAULT_WEIGHTS, "linkability": 3.0}
    assert read_weights(None) == read_weights("") == DEFAULT_WEIGHTS


@pytest.mark.parametrize(
    ("weights", "stated"),
    [
        ("inferense=2", "did you mean 'inference'"),
        ("inference", "must be a number"),
        ("inference=-1", "must be a number from 0"),
        ("inference=nan", "must be a number from 0"),
        ("inference=inf", "must be a number from 0"),
        ("inference=1,inference=2", "given twice"),
        ("marginals=0", "marginals has weight 0"),
        ("singling-out=0,linkability=0,inference=0", "all risks have the weight 0"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights: str, stated: str) -> None:
    with pytest.raises(UsageError, match=stated):
        read_weights(weights)
