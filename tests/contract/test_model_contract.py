"""What every privacy model must keep, for every model that the package has.

A new model needs one entry in EXAMPLES; without it the first test fails.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from shoal.core.registry import discover
from shoal.models.base import ClassHistograms, PopulationModel, PrivacyModel, ValueModel, Whole
from shoal.taxonomies.tree import Taxonomy

MODELS = discover("shoal.models", PrivacyModel)
PEOPLE = {"population": "people.csv"}
HARMLESS = {"harmless": ["node 1"]}

# for each model, chains of parameters from the weakest to the strongest; every one of them is an example
EXAMPLES: dict[str, list[list[dict[str, Any]]]] = {
    "k-anonymity": [[{"k": k} for k in (1, 2, 3, 5, 8)]],
    "column-frequency": [[{"k": k} for k in (1, 2, 3, 5, 8)]],
    "profitability": [
        [{"gain": 3, "cost": cost} for cost in (3, 1.5, 1, 0.7, 0.6, 0.5)],
        [{"gain": gain, "cost": 0.1} for gain in (0.1, 0.3, 0.4, 2.3)],
    ],
    "average-risk": [[{"risk": risk} for risk in (1, 0.5, 0.34, 0.3, 0.2)]],
    "sample-uniqueness": [[{"fraction": share} for share in (0.9, 0.5, 0.1, 0)]],
    "distinct-l-diversity": [[{"l": l} for l in (1, 2, 3, 4)], [{"l": l, **HARMLESS} for l in (1, 2, 3, 4)]],
    "simple-l-diversity": [[{"l": l, **more} for l in (1, 1.5, 1.6, 2, 2.5, 3)] for more in ({}, HARMLESS)],
    "entropy-l-diversity": [[{"l": l, **more} for l in (1, 1.5, 2, 2.5, 2.8284, 3)] for more in ({}, HARMLESS)],
    "recursive-cl-diversity": [
        [{"c": c, "l": l, **more} for c in (3, 2, 1.5, 1, 0.5)] for l in (2, 3) for more in ({}, HARMLESS)
    ]
    + [[{"c": 2, "l": l} for l in (1, 2, 3)]]
    + [[{"c": 2, "l": 2, "harmless": some} for some in (["node 0", "node 1"], ["node 0"], None)]],
    "tau-l-diversity": [
        [{"tau": tau, "l": 2} for tau in (1, 0.8, 0.75, 0.6, 0.5)],
        [{"tau": tau, "l": 3} for tau in (1, 0.7, 0.5, 0.4, 0.3)],
        [{"tau": tau, "l": 3, **HARMLESS} for tau in (1, 0.7, 0.5, 0.3)],
        [{"tau": 0.5, "l": 3, "psi": psi} for psi in ([0.5, 1, 1], [0.5, 0.9, 1], [0.5, 0.6, 1])],
    ],
    "t-closeness": [
        [{"t": t, "distance": distance} for t in (1, 0.5, 0.375, 0.25, 0.2, 0.1, 0)]
        for distance in ("equal", "ordered", "hierarchical")
    ],
    "alpha-k-anonymity": [
        [{"alpha": alpha, "k": 2} for alpha in (1, 0.75, 0.6, 0.5, 0.4, 0.25)],
        [{"alpha": 0.6, "k": k} for k in (1, 3, 5)],
        [{"alpha": alpha, "k": 2, **HARMLESS} for alpha in (1, 0.6, 0.4)],
    ],
    "beta-likeness": [
        [{"beta": beta, "enhanced": enhanced} for beta in (4, 2, 1, 0.8, 0.5, 0.2)] for enhanced in (False, True)
    ]
    + [[{"beta": 1.5, "enhanced": enhanced} for enhanced in (False, True)]]
    + [[{"beta": beta, **HARMLESS} for beta in (4, 1, 0.2)]],
    "confidence-bounding": [
        [{"most": most} for most in (1, 0.75, 0.6, 0.5, 0.4, 0.25)],
        [{"most": most, "harmless": ["node 1"]} for most in (1, 0.75, 0.6, 0.5, 0.25)],
        [{"most": 0.4, "harmless": harmless} for harmless in (["node 0", "node 1"], ["node 0"], [])],
        [{"most": most, "separator": " "} for most in (1, 0.9)],
        [{"most": most, "separator": " ", "harmless": ["node"]} for most in (1, 0.7, 0.5, 0.3)],
    ],
    "delta-disclosure": [[{"delta": delta, **more} for delta in (5, 2, 1, 0.7, 0.3)] for more in ({}, HARMLESS)],
    "k-map": [[{"k": k, **PEOPLE} for k in (1, 3, 6, 9)]],
    "delta-presence": [
        [{"min": 0, "max": most, **PEOPLE} for most in (1, 0.8, 0.5, 0.25)],
        [{"min": least, "max": 0.8, **PEOPLE} for least in (0, 0.1, 0.4, 0.5)],
    ],
}

# of the same three values: even, skewed, and with a rare one
WHOLES = ([12, 12, 12], [30, 15, 10], [10, 40, 11])
EVERY_HISTOGRAM = np.array([row for row in itertools.product(range(6), repeat=3) if sum(row) <= 5], dtype=np.int64)


def taxonomy(parent: list[int], lo: list[int], hi: list[int], level: list[int], n_leaves: int) -> Taxonomy:
    arrays = (np.array(numbers, dtype=np.int32) for numbers in (parent, lo, hi, level))
    labels = tuple(f"node {node}" for node in range(len(parent)))
    return Taxonomy(labels, *arrays, n_leaves=n_leaves, scale=None, declared=True)


# three leaves, the first two under a node of their own; the same with a fourth that nobody has
TAXONOMY = taxonomy([3, 3, 4, 4, -1], [0, 1, 2, 0, 0], [1, 2, 3, 2, 3], [2, 2, 1, 1, 0], 3)


def whole_of(counts: list[int]) -> Whole:
    return Whole.of(counts, population=3 * sum(counts), taxonomy=TAXONOMY)


def every_class(seed: int = 1) -> ClassHistograms:
    """All histograms of three values with up to 5 records, with a population about them."""
    sizes = EVERY_HISTOGRAM.sum(axis=1)
    more = np.random.default_rng(seed).integers(0, 8, size=len(sizes))
    return ClassHistograms.of(EVERY_HISTOGRAM, population=sizes + more)


def build(name: str, parameters: dict[str, Any]) -> PrivacyModel:
    return MODELS[name].model_validate(parameters)


def models_of(name: str) -> list[PrivacyModel]:
    return [build(name, parameters) for chain in EXAMPLES[name] for parameters in chain]


every_model = pytest.mark.parametrize("name", EXAMPLES)


def test_every_model_has_examples() -> None:
    assert set(EXAMPLES) == set(MODELS), "add an entry to EXAMPLES for each model, and none for others"
    assert len(MODELS) >= 12


@pytest.mark.parametrize("name", MODELS)
def test_declarations_are_complete(name: str) -> None:
    model = MODELS[name]
    assert model.__module__.rpartition(".")[2] == name.replace("-", "_"), "one model a file, named like it"
    assert model.title
    assert not model.title.endswith(".")
    assert model.achieved_is in ("at least", "at most")
    assert (model.sees == "values") == issubclass(model, ValueModel)
    assert (model.sees == "population") == issubclass(model, PopulationModel)
    assert model.__doc__
    for field in model.model_json_schema()["properties"].values():
        assert field["description"]


@every_model
def test_parameters_survive_a_manifest_and_admit_nothing_unknown(name: str) -> None:
    for model in models_of(name):
        assert MODELS[name].model_validate_json(model.model_dump_json()) == model
        for parameter in model.model_fields_set:
            with pytest.raises(ValidationError):
                model.__setattr__(parameter, 1)
    with pytest.raises(ValidationError):
        build(name, {**EXAMPLES[name][0][0], "strength": 3})


@every_model
def test_shapes_and_the_empty_class(name: str) -> None:
    classes = every_class()
    empty = classes.sizes == 0
    none = ClassHistograms.of(np.zeros((0, 3)), population=np.zeros(0))
    for model, counts in itertools.product(models_of(name), WHOLES):
        whole = whole_of(counts)
        holds, achieved = model.holds(classes, whole), model.reach(classes, whole)
        assert holds.shape == achieved.shape == classes.sizes.shape
        assert (holds.dtype, achieved.dtype) == (np.bool_, np.float64)
        assert not np.isnan(achieved).any(), (model, counts)
        assert not holds[empty].any(), (model, counts)
        assert (achieved[empty] == (0 if model.achieved_is == "at least" else np.inf)).all(), (model, counts)
        assert model.holds(none, whole).shape == model.reach(none, whole).shape == (0,)


@every_model
def test_merging_breaks_what_is_declared_and_nothing_else(name: str) -> None:
    one, other = every_class(1), every_class(2)
    for model, counts in itertools.product(models_of(name), WHOLES):
        whole = whole_of(counts)
        first = np.flatnonzero(model.holds(one, whole))
        second = np.flatnonzero(model.holds(other, whole))
        left, right = (grid.ravel() for grid in np.meshgrid(first, second))
        # a wider label may cover people who are under neither of the two
        beyond = np.random.default_rng(3).integers(0, 30, size=len(left))
        union = ClassHistograms.of(
            one.counts[left] + other.counts[right],
            population=one.population[left] + other.population[right] + beyond,
        )
        if model.merge_monotone:
            assert model.holds(union, whole).all(), (model, counts)
        elif len(left):
            assert not model.holds(union, whole).all(), (model, counts, "declared as breakable, nothing breaks it")


@every_model
def test_stronger_parameters_never_admit_more(name: str) -> None:
    classes = every_class()
    for chain, counts in itertools.product(EXAMPLES[name], WHOLES):
        whole = whole_of(counts)
        verdicts = [build(name, parameters).holds(classes, whole) for parameters in chain]
        for weaker, stronger in itertools.pairwise(verdicts):
            assert (weaker | ~stronger).all(), (chain, counts)
        assert verdicts[0].any(), (chain, counts, "the weakest example should hold somewhere")
        if name != "sample-uniqueness":  # a class by itself is unique, or it is not
            assert (verdicts[0] != verdicts[-1]).any(), (chain, counts, "the chain should make a difference")


def meets(model: PrivacyModel, achieved: np.ndarray, classes: ClassHistograms, whole: Whole) -> np.ndarray:
    """What ``achieved`` says about ``holds``, with the side conditions that it leaves out."""
    main = {
        "alpha-k-anonymity": "alpha",
        "average-risk": "risk",
        "beta-likeness": "beta",
        "column-frequency": "k",
        "confidence-bounding": "most",
        "delta-disclosure": "delta",
        "delta-presence": "max",
        "k-anonymity": "k",
        "k-map": "k",
        "profitability": "cost",
        "sample-uniqueness": "fraction",
        "recursive-cl-diversity": "c",
        "t-closeness": "t",
        "tau-l-diversity": "tau",
    }.get(model.name, "l")
    limit = getattr(model, main)
    if model.name in ("recursive-cl-diversity", "delta-disclosure"):
        verdict = achieved < limit
    elif model.achieved_is == "at least":
        verdict = achieved >= limit
    else:
        verdict = achieved <= limit
    if model.name == "alpha-k-anonymity":
        verdict &= classes.sizes >= model.k
    if model.name == "delta-presence":
        verdict &= achieved >= model.min
    if model.name == "recursive-cl-diversity" and model.l == 1:
        verdict = classes.sizes > 0
    if model.name == "beta-likeness" and model.enhanced:
        q = whole.counts / whole.size
        p = classes.counts / np.maximum(classes.sizes, 1)[:, np.newaxis]
        verdict &= ((p <= q) | ((p - q) / q <= -np.log(q))).all(axis=1)
    return verdict


@every_model
def test_achieved_meets_the_parameter_exactly_where_it_holds(name: str) -> None:
    classes = every_class()
    for model, counts in itertools.product(models_of(name), WHOLES):
        whole = whole_of(counts)
        holds, achieved = model.holds(classes, whole), model.reach(classes, whole)
        # the smallest tau is a difference, rounded: the only one where a last digit is forgiven
        reached = np.round(achieved, 14) if name == "tau-l-diversity" else achieved
        assert (meets(model, reached, classes, whole) == holds).all(), (model, counts)
        worst = model.worst(classes, whole)
        assert worst == (achieved.min() if model.achieved_is == "at least" else achieved.max()), (model, counts)


@every_model
def test_smallest_class_is_a_lower_bound_that_some_class_attains(name: str) -> None:
    classes, whole = every_class(), whole_of(WHOLES[0])
    for model in models_of(name):
        holds = model.holds(classes, whole)
        assert not holds[classes.sizes < model.smallest_class].any(), model
        assert model.smallest_class >= 1
        if model.sees != "values" or name in ("t-closeness", "beta-likeness", "delta-disclosure"):
            continue
        if model.model_fields_set & {"harmless", "separator"}:
            continue  # these look at the names of values, and one harmless record is a class
        wide = ClassHistograms.of(np.ones((1, model.smallest_class), dtype=np.int64))
        assert model.holds(wide, Whole.of([1] * model.smallest_class)).all(), model


@every_model
def test_each_class_is_judged_by_itself_and_inputs_stay(name: str) -> None:
    classes = every_class()
    order = np.random.default_rng(4).permutation(len(classes.sizes))
    shuffled = ClassHistograms(classes.sizes[order], classes.counts[order], classes.population[order])
    before = classes.counts.copy(), classes.sizes.copy(), classes.population.copy()
    for model, counts in itertools.product(models_of(name), WHOLES):
        whole = whole_of(counts)
        holds, achieved = model.holds(classes, whole), model.reach(classes, whole)
        assert (model.holds(shuffled, whole) == holds[order]).all(), (model, counts)
        assert (model.reach(shuffled, whole) == achieved[order]).all(), (model, counts)
        assert whole.counts.tolist() == counts
    after = classes.counts, classes.sizes, classes.population
    assert all((old == new).all() for old, new in zip(before, after, strict=True))


def orders(parameters: dict[str, Any]) -> list[list[int]]:
    """Orders of three values that a model with these parameters may not notice."""
    if parameters.get("distance", "equal") != "equal":
        return [[2, 1, 0] if parameters["distance"] == "ordered" else [1, 0, 2]]
    named = {int(value[-1]) for value in parameters.get("harmless") or () if value[-1].isdigit()}
    return [
        list(order)
        for order in itertools.permutations(range(3))
        if {place for place in range(3) if order[place] in named} == named  # harmless values stay such
    ]


@every_model
def test_the_order_of_values_does_not_matter(name: str) -> None:
    classes = every_class()
    for parameters, counts in itertools.product(itertools.chain(*EXAMPLES[name]), WHOLES):
        model, whole = build(name, parameters), whole_of(counts)
        holds, achieved = model.holds(classes, whole), pytest.approx(model.reach(classes, whole), rel=1e-12)
        for order in orders(parameters):
            moved = replace(classes, counts=np.ascontiguousarray(classes.counts[:, order]))
            elsewhere = replace(whole, counts=whole.counts[order])
            assert (model.holds(moved, elsewhere) == holds).all(), (model, counts)
            assert model.reach(moved, elsewhere) == achieved, (model, counts)


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name].sees == "values"])
def test_only_shares_matter_to_models_of_distributions(name: str) -> None:
    classes, whole = every_class(), whole_of(WHOLES[1])
    for model, factor in itertools.product(models_of(name), (7, 10**9, 10**14)):
        if "k" in model.model_fields_set:
            continue
        scaled = ClassHistograms.of(classes.counts * factor)
        larger = Whole.of(whole.counts * factor, taxonomy=whole.taxonomy)
        assert (model.holds(scaled, larger) == model.holds(classes, whole)).all(), (model, factor)
        reached = model.reach(classes, whole)
        bounded = reached != whole.size  # which a class reaches that has harmless values only
        assert model.reach(scaled, larger)[bounded] == pytest.approx(reached[bounded], rel=1e-12), (model, factor)


@every_model
@pytest.mark.parametrize("counts", [*WHOLES, [5, 0, 0], [1, 1, 0], [20, 3, 1]], ids=str)
def test_unreachable_is_said_exactly_when_the_whole_table_fails(name: str, counts: list[int]) -> None:
    whole = whole_of(counts)
    for parameters in itertools.chain(*EXAMPLES[name]):
        model = build(name, parameters)
        reason = model.why_unreachable(whole)
        assert (reason is None) == bool(model.holds(whole.as_class(), whole)[0]), model
        assert reason is None or not model.relative_to_whole, model
        if reason is None:
            continue
        assert reason.startswith(f"{name}: ")
        assert not reason.endswith(".")
        offered = re.search(r"(?:reach(?:es)?(?: only)?|at least|at most|share of) ([0-9.]+)", reason)
        if offered and name in ("simple-l-diversity", "entropy-l-diversity"):
            assert build(name, {"l": float(offered[1])}).why_unreachable(whole) is None, model
        mains = {"tau-l-diversity": "tau", "alpha-k-anonymity": "alpha", "confidence-bounding": "most"}
        if offered and name in mains and "psi" not in parameters:
            reachable = build(name, {**parameters, mains[name]: float(offered[1])})
            assert reachable.why_unreachable(whole) is None, model


@every_model
def test_a_curve_says_the_same_as_holds(name: str) -> None:
    classes = every_class()
    for model in models_of(name):
        if model.curve is None:
            # compiled loops depend on these
            assert name not in ("k-anonymity", "tau-l-diversity") or "harmless" in model.model_fields_set
            continue
        verdict = model.holds(classes, whole_of(WHOLES[1]))
        for row, size, held in zip(classes.counts, classes.sizes.tolist(), verdict.tolist(), strict=True):
            top = sorted(row.tolist(), reverse=True)
            within = all(sum(top[:k]) <= limit * size for k, limit in enumerate(model.curve.limits, start=1))
            enough = np.count_nonzero(row) >= model.curve.distinct and size >= model.curve.records
            assert held == (size > 0 and within and enough), (model, row)


def test_units_of_records_change_no_verdict() -> None:
    """Of tau-l-diversity: for others no value is generalized, and a record is a whole one."""
    classes, whole = every_class(), whole_of(WHOLES[1])
    finer = replace(classes, sizes=classes.sizes * 12, counts=classes.counts * 12, unit=12)
    finer_whole = replace(whole, size=whole.size * 12, counts=whole.counts * 12)
    for model in models_of("tau-l-diversity"):
        assert np.array_equal(model.holds(classes, whole), model.holds(finer, finer_whole)), model
        achieved = model.reach(classes, whole)
        assert np.allclose(achieved, model.reach(finer, finer_whole), equal_nan=True), model
