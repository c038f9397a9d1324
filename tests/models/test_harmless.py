"""Models with harmless values: planner and verifier beside the definitions of docs/models.md in fractions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from pydantic import ValidationError
from tests.judging import judge_classes, put_classes

import shoal
from shoal.core.registry import discover
from shoal.models.base import ClassHistograms, DisclosureModel, PrivacyModel, ValueModel, Whole
from shoal.models.recursive_cl_diversity import RecursiveCLDiversity
from shoal.plan.problem import People
from shoal.taxonomies.files import from_nested
from shoal.verify.engine import CannotCheckError
from shoal.verify.promises import read_promise
from shoal.verify.verifier import verify_table

VALUES = ("a", "b", "c", "d")
TREE = from_nested({"any": list(VALUES)})
MODELS = discover("shoal.models", PrivacyModel)
LIMITS: dict[str, tuple[dict[str, Any], ...]] = {
    "distinct-l-diversity": ({"l": 1}, {"l": 2}, {"l": 3}),
    "simple-l-diversity": ({"l": 1.5}, {"l": 2}, {"l": 3}),
    "entropy-l-diversity": ({"l": 1.5}, {"l": 2}, {"l": 2.5}, {"l": 3}),
    "recursive-cl-diversity": tuple({"c": c, "l": l} for c in (0.5, 1, 2, 3) for l in (1, 2, 3, 4)),
    "tau-l-diversity": ({"tau": 0.5, "l": 2}, {"tau": 0.5, "l": 3}, {"tau": 0.25, "l": 4}),
    "alpha-k-anonymity": ({"alpha": 0.5, "k": 2}, {"alpha": 0.25, "k": 3}),
    "beta-likeness": ({"beta": 0.5}, {"beta": 1}, {"beta": 1, "enhanced": True}),
    "delta-disclosure": ({"delta": 0.5}, {"delta": 1}),
    "confidence-bounding": ({"most": 0.5}, {"most": 0.25}),
}
CLASSES = [row for row in itertools.product(range(5), repeat=4) if 1 <= sum(row) <= 6]
WHOLE = (40, 60, 30, 20)
Case = tuple[str, dict[str, Any], tuple[str, ...]]


def cases() -> Iterator[Case]:
    for name, several in LIMITS.items():
        for parameters in several:
            for harmless in (("a",), ("a", "C"), ("b", "nobody has this")):
                yield name, parameters, harmless


def define(name: str, given: dict[str, Any], harmful: Sequence[int], counts: Sequence[int]) -> bool:
    """Return whether a class satisfies the definition, by looking at every harmful value in turn."""
    n, total = sum(counts), sum(WHOLE)
    here = [value for value in harmful if counts[value]]
    if name == "distinct-l-diversity":
        return not here or sum(map(bool, counts)) >= given["l"]
    if name == "entropy-l-diversity":  # prod (n / c)^c >= l^h
        found = math.prod(Fraction(n, counts[value]) ** counts[value] for value in here)
        return found >= Fraction(str(given["l"])) ** sum(counts[value] for value in here)
    if name == "recursive-cl-diversity":
        # whichever l - 2 other values an adversary rules out, a harmful value has less than c times the rest
        others = [tuple(other for other in range(4) if other != value) for value in here]
        return given["l"] == 1 or all(
            counts[value] < Fraction(str(given["c"])) * sum(counts[o] for o in left if o not in out)
            for value, left in zip(here, others, strict=True)
            for size in range(given["l"] - 1)
            for out in itertools.combinations(left, size)
        )
    if name == "tau-l-diversity":
        tau, l = Fraction(str(given["tau"])), given["l"]
        return all(
            sum(counts[value] for value in some) <= (tau + (1 - tau) * Fraction(len(some) - 1, l - 1)) * n
            for k in range(1, l)
            for some in itertools.combinations(here, k)
        )
    if name in ("beta-likeness", "delta-disclosure"):
        ratios = [Fraction(counts[value] * total, n * WHOLE[value]) for value in harmful]
        if name == "delta-disclosure":
            return all(ratio > 0 and abs(math.log(ratio)) < given["delta"] for ratio in ratios)
        enough = [math.log(total / WHOLE[value]) if given.get("enhanced") else math.inf for value in harmful]
        pairs = zip(ratios, enough, strict=True)
        return all(ratio - 1 <= min(Fraction(str(given["beta"])), most) for ratio, most in pairs if ratio > 1)
    limits = {"simple-l-diversity": "l", "alpha-k-anonymity": "alpha", "confidence-bounding": "most"}
    most = Fraction(str(given[limits[name]]))
    most = 1 / most if name == "simple-l-diversity" else most
    return n >= given.get("k", 1) and all(counts[value] <= most * n for value in here)


def harmful_places(harmless: Sequence[str]) -> list[int]:
    return [place for place, value in enumerate(VALUES) if value not in map(str.lower, harmless)]


def judge(
    case: Case, rows: Sequence[Sequence[int]], sizes: Sequence[int] | None = None, *, shares: bool = False
) -> tuple[list[bool], list[float]]:
    """Judge classes as the verifier does; with *sizes*, their counts are people."""
    name, parameters, harmless = case
    promise = read_promise(name, {**parameters, "harmless": list(harmless)}, None, ["s"])
    return judge_classes(promise, put_classes(rows, VALUES, WHOLE, sizes=sizes, shares=shares), len(rows))


def test_every_model_of_values_but_t_closeness_takes_harmless_values() -> None:
    of_values = {name for name, model in MODELS.items() if issubclass(model, ValueModel)}
    assert {name for name in of_values if issubclass(MODELS[name], DisclosureModel)} == set(LIMITS)
    assert of_values - set(LIMITS) == {"t-closeness"}
    with pytest.raises(ValidationError, match="'harmless' has no meaning"):
        MODELS["t-closeness"].model_validate({"t": 0.2, "harmless": ["a"]})
    for name, (first, *_) in LIMITS.items():
        with pytest.raises(ValidationError, match="harmless cannot name joint values"):
            MODELS[name].model_validate({**first, "harmless": ["a"], "attribute": ["s", "t"]})


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_planner_and_verifier_agree_with_the_definition(case: Case) -> None:
    name, parameters, harmless = case
    model = MODELS[name].model_validate({**parameters, "harmless": harmless})
    classes, whole = ClassHistograms.of(CLASSES), Whole.of(WHOLE, taxonomy=TREE)
    wanted = [define(name, parameters, harmful_places(harmless), counts) for counts in CLASSES]
    verdict, reached = model.holds(classes, whole), model.reach(classes, whole)
    assert verdict.tolist() == wanted
    holds, found = judge(case, CLASSES)
    assert holds == wanted
    known = ~np.isnan(found)
    assert np.array(found)[known] == pytest.approx(reached[known], rel=1e-12)


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_rounded_beliefs_that_surely_hold_do(case: Case) -> None:
    name, parameters, harmless = case
    model = MODELS[name].model_validate({**parameters, "harmless": harmless})
    if not model.judges_beliefs:
        return
    whole, counts = Whole.of(WHOLE, taxonomy=TREE), np.array(CLASSES)
    sure = model.holds_surely(counts / counts.sum(axis=1, keepdims=True), whole)
    exactly = model.holds(ClassHistograms.of(CLASSES), whole)
    assert not (sure & ~exactly).any()
    # a distribution that is clear by a thousandth is sure
    clear = exactly.copy()
    for gainer, loser in itertools.permutations(range(4), 2):
        moved = 1000 * counts + np.where(counts[:, [loser]] > 0, np.eye(4, dtype=np.int64)[gainer], 0)
        moved -= np.where(counts[:, [loser]] > 0, np.eye(4, dtype=np.int64)[loser], 0)
        clear &= model.holds(ClassHistograms.of(moved), whole)
    assert not (clear & ~sure).any()
    holds = np.array(judge(case, CLASSES, shares=True)[0])
    assert not (holds & ~exactly).any()
    assert not (clear & ~holds).any()


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_people_with_several_values_hold_whichever_value_counts(case: Case) -> None:
    """Two or three people who have one or two values each: every choice of one value per person must hold."""
    name, parameters, harmless = case
    if name in ("beta-likeness", "delta-disclosure"):
        return  # the share of people who have a value, whichever others they have
    model = MODELS[name].model_validate({**parameters, "harmless": harmless})
    own = [set(some) for size in (1, 2) for some in itertools.combinations(range(4), size)]
    whole = Whole.of(WHOLE, taxonomy=TREE)
    groups = [group for size in (2, 3) for group in itertools.combinations_with_replacement(own, size)]
    rows = []
    for group in groups:
        pairs = [(person, value) for person, values in enumerate(group) for value in values]
        person, values = (np.array(column) for column in zip(*pairs, strict=True))
        people = People.of(person, values.astype(np.int32))
        one = people.histograms(model, np.zeros(len(pairs), dtype=np.int32), np.arange(len(pairs)), 1, 4)
        rows.append(one.counts[0])
    sizes = [len(group) for group in groups]
    verdict = model.holds(ClassHistograms(np.array(sizes), np.array(rows)), whole)
    holds, _ = judge(case, rows, sizes)
    assert holds == verdict.tolist()
    for group, held in zip(groups, verdict.tolist(), strict=True):
        choices = itertools.product(*group) if held else ()
        for chosen in choices:
            counts = np.bincount(chosen, minlength=4).tolist()
            assert define(name, parameters, harmful_places(harmless), counts), (group, chosen)


def test_heart_problems_of_a_clinic_may_be_disclosed() -> None:
    """Machanavajjhala et al., section 4: 90 % of a clinic's patients have a heart problem, and everybody knows.

    Definition 4.3 has two cases. With l = 3 the most frequent harmful value is second (y = 2 <= l - 1), so it is
    compared with the third and rarer ones. With two harmless values, y = 3 > l - 1, so it is compared with the second
    and the fourth.
    """
    tree = from_nested({"any": ["heart", "flu", "cancer", "gout"]})
    classes, whole = ClassHistograms.of([[90, 5, 3, 2]]), Whole.of([90, 5, 3, 2], taxonomy=tree)
    assert not RecursiveCLDiversity(c=3, l=2).holds(classes, whole)[0]
    assert RecursiveCLDiversity(c=3, l=2, harmless=("heart",)).holds(classes, whole)[0]
    one, two = (RecursiveCLDiversity(c=1.1, l=3, harmless=some) for some in (("heart",), ("heart", "flu")))
    assert one.reach(classes, whole)[0] == 5 / (3 + 2)
    assert two.reach(classes, whole)[0] == pytest.approx(3 / (5 + 2))
    only = ClassHistograms.of([[7, 0, 0, 0]])
    assert one.holds(only, whole)[0]


def clinic() -> pa.Table:
    """Two wards, one with heart problems only; then everybody has another one."""
    values = ["heart"] * 6 + ["heart", "heart", "heart", "flu", "cancer", "gout"]
    return pa.table({"ward": ["A"] * 6 + ["B"] * 6, "illness": values})


POLICY = {
    "attributes": {"ward": {"role": "quasi"}, "illness": {"role": "sensitive"}},
    "method": {"mondrian": {}},
}


@pytest.mark.parametrize("name", sorted(set(LIMITS) - {"beta-likeness", "delta-disclosure"}))
def test_wards_stay_apart_because_heart_problems_are_harmless(name: str, tmp_path: Any) -> None:
    strict = {"distinct-l-diversity": {"l": 3}, "recursive-cl-diversity": {"c": 2, "l": 2}}
    parameters = strict.get(name, LIMITS[name][-1] if name != "entropy-l-diversity" else {"l": 3})
    parameters = {"tau": 0.2, "l": 4} if name == "tau-l-diversity" else parameters
    privacy = [{name: {**parameters, "harmless": ["Heart"]}}]
    source = tmp_path / "clinic.csv"
    csv.write_csv(clinic(), source)
    release = shoal.anonymize(source, {**POLICY, "privacy": privacy}, out=tmp_path / "out", seed=1)
    table = csv.read_csv(release.data_file)
    assert ", harmless values aside." in (tmp_path / "out" / "public" / "README.md").read_text()
    assert sorted(set(table.column("ward").to_pylist())) == ["A", "B"]
    assert shoal.verify(tmp_path / "out", source=source).verified
    ward, illness = (table.column(column).to_pylist() for column in table.column_names)
    spoiled = ["cancer" if where == "A" else what for where, what in zip(ward, illness, strict=True)]
    found = verify_table(table.set_column(1, "illness", pa.array(spoiled)), release.manifest)
    assert [guarantee.ok for guarantee in found.guarantees] == [False]


def test_joint_values_are_never_believed_to_be_harmless() -> None:
    promise = read_promise("simple-l-diversity", {"l": 2, "harmless": ["a"]}, None, ["s"])
    with pytest.raises(CannotCheckError, match="no names"):
        judge_classes(promise, put_classes([(1, 1, 0, 0)], VALUES, WHOLE)._replace(attribute=None), 1)
