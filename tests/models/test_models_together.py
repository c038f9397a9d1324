"""Models of all classes together: exact limits, the verifier's second formulas, and plans that use what they allow."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import tables
from tests.judging import ENGINE

import shoal
from shoal.core.errors import PolicyError, UnreachableError
from shoal.core.registry import discover
from shoal.models.average_risk import AverageRisk
from shoal.models.base import PrivacyModel, TableModel
from shoal.models.sample_uniqueness import SampleUniqueness
from shoal.verify import promises
from shoal.verify.promises import Counts, judge, read_promise

COLUMNS = "age sex zip illness"
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=40).map(np.array)


def release(method: Any, model: dict[str, Any], n: int = 300, **options: Any) -> Any:
    document = {"attributes": tables.attributes(COLUMNS), "privacy": [model], "method": method, **options}
    return shoal.anonymize(tables.people(n, 1, COLUMNS), document, seed=1)


def sizes_of(found: Any) -> np.ndarray:
    return np.array(found.data.group_by(["age", "sex", "zip"]).aggregate([([], "count_all")])["count_all"])


def test_limits_are_exact() -> None:
    ten_in_a_hundred = np.repeat([10], 10)
    assert AverageRisk(risk=0.1).holds_together(ten_in_a_hundred)
    assert not AverageRisk(risk=0.0999999999999).holds_together(ten_in_a_hundred)
    three_of_thirty = np.array([1, 1, 1, 27])
    assert SampleUniqueness(fraction=0.1).holds_together(three_of_thirty)  # 0.1 * 30 < 3 in floating point
    assert not SampleUniqueness(fraction=0.0999999999999).holds_together(three_of_thirty)
    assert AverageRisk(risk=0.3).enough == 4


@given(sizes=SIZES, risk=st.sampled_from([0.05, 0.1, 0.3, 1 / 3, 0.5, 1.0]))
def test_merging_classes_never_breaks_exact_models_and_large_classes_always_hold(sizes: Any, risk: float) -> None:
    for model in (AverageRisk(risk=risk), SampleUniqueness(fraction=min(risk, 0.9))):
        if model.holds_together(sizes) and len(sizes) > 1:
            assert model.holds_together(np.append(sizes[2:], sizes[0] + sizes[1]))
        assert model.holds_together(sizes + model.enough)


@given(sizes=SIZES, limit=st.sampled_from(["0.1", "0.25", "0.3", "0.5"]))
def test_the_verifier_counts_the_same(sizes: Any, limit: str) -> None:
    share = {"average-risk": Fraction(len(sizes), int(sizes.sum()))}
    share["sample-uniqueness"] = Fraction(int((sizes == 1).sum()), int(sizes.sum()))
    for name, parameter in (("average-risk", "risk"), ("sample-uniqueness", "fraction")):
        model = discover("shoal.models", PrivacyModel)[name](**{parameter: float(limit)})
        assert isinstance(model, TableModel)
        promise = read_promise(name, {parameter: float(limit)}, None, ())
        ENGINE.put("class_sizes", {"class": np.arange(len(sizes)), "n": sizes})
        found = judge(ENGINE, promise, [Counts("class_sizes")])
        assert (found.failing == 0) == model.holds_together(sizes) == (share[name] <= Fraction(limit))
        assert found.achieved == pytest.approx(model.reach_together(sizes))


@pytest.mark.parametrize("method", ["mondrian", "hilbert", "sweep", "microaggregation", "incognito"])
def test_an_average_leaves_smaller_classes_than_every_class_would(method: str) -> None:
    found = release(method, {"average-risk": {"risk": 0.1}})
    assert found.verification.verified
    sizes = sizes_of(found)
    assert len(sizes) / sizes.sum() <= 0.1
    assert found.manifest["guarantees"][0]["achieved"] == len(sizes) / sizes.sum()
    strict = sizes_of(release(method, {"k-anonymity": {"k": 10}}))
    assert len(sizes) >= len(strict)  # microaggregation makes groups of just ten
    assert method == "microaggregation" or sizes.min() < 10


def test_incognito_finds_the_best_levels_for_a_share_of_unique_records() -> None:
    """The optimum with up to 5 % unique records keeps more than any with none."""
    some = release("incognito", {"sample-uniqueness": {"fraction": 0.05}})
    none = release("incognito", {"sample-uniqueness": {"fraction": 0}})
    assert 0 < some.manifest["guarantees"][0]["achieved"] <= 0.05
    assert none.manifest["guarantees"][0]["achieved"] == 0
    assert some.utility["ncp"] < none.utility["ncp"]
    suppressing = release("incognito", {"sample-uniqueness": {"fraction": 0}}, max_withheld=0.05)
    assert 0 < suppressing.manifest["withheld"] <= 15
    assert suppressing.utility["ncp"] <= none.utility["ncp"]


def test_what_has_no_meaning_is_refused() -> None:
    for method in ("slicing", "anatomy"):
        with pytest.raises(UnreachableError, match="average-risk"):
            release(method, {"average-risk": {"risk": 0.1}})
    with pytest.raises(UnreachableError, match=r"takes at least 1000 records; the table has only 300"):
        release("mondrian", {"average-risk": {"risk": 0.001}})
    with pytest.raises(UnreachableError, match="depends on more than"):
        release({"incognito": {"recode": True}}, {"average-risk": {"risk": 0.1}})
    document = {"attributes": tables.attributes("row age sex zip illness", row={"role": "identifier"}), "unit": "row"}
    document["privacy"] = [{"average-risk": {"risk": 0.1}}]
    with pytest.raises(PolicyError, match="not of the people"):
        shoal.anonymize(tables.people(50, 1, "row age sex zip illness"), document)


def test_every_model_of_all_classes_is_one_for_the_verifier() -> None:
    together = {name for name, kind in discover("shoal.models", PrivacyModel).items() if issubclass(kind, TableModel)}
    assert together == {name for name, model in promises.SIZES.items() if model.about == "table"}
    assert len(together) >= 2
