"""The optimum of the full-domain search against brute force over every node, in exact arithmetic."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from shoal.core.errors import UnreachableError
from shoal.core.progress import Silent
from shoal.core.registry import discover
from shoal.methods.incognito import Incognito, search
from shoal.models.base import ClassHistograms, PrivacyModel, TableModel, Whole
from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.files import from_nested
from shoal.taxonomies.tree import Taxonomy

MEASURES = ("um", "loss", "ncp", "non-uniform-entropy", "discernibility", "class-size")
MODELS = discover("shoal.models", PrivacyModel)
EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "k-anonymity": [{"k": 3}],
    "profitability": [{"gain": 3, "cost": 1.2}],
    "average-risk": [{"risk": 0.4}],
    "sample-uniqueness": [{"fraction": 0.1}],
    "distinct-l-diversity": [{"l": 2}],
    "simple-l-diversity": [{"l": 1.5}],
    "entropy-l-diversity": [{"l": 1.8}],
    "recursive-cl-diversity": [{"c": 2, "l": 2}],
    "tau-l-diversity": [{"tau": 0.7, "l": 3}],
    "t-closeness": [{"t": 0.3}, {"t": 0.3, "distance": "ordered"}, {"t": 0.3, "distance": "hierarchical"}],
    "alpha-k-anonymity": [{"alpha": 0.7, "k": 2}],
    "beta-likeness": [{"beta": 1.0}, {"beta": 0.9, "enhanced": True}],
    "confidence-bounding": [{"most": 0.6}, {"most": 0.4, "harmless": ["s"]}],
    "delta-disclosure": [{"delta": 1.5}],
    "k-map": [{"k": 4, "population": "p"}],
    "delta-presence": [{"min": 0.0, "max": 0.7, "population": "p"}, {"min": 0.2, "max": 0.9, "population": "p"}],
}
CASES = [(name, given) for name, examples in EXAMPLES.items() for given in examples]
TREES: tuple[Any, ...] = (
    {"*": {"low": ["a", "b"], "high": {"h1": ["c"], "h2": ["d", "e"]}}},  # leaves at different depths
    {"*": ["x", "y"]},
    {"*": {"p": ["p1", "p2"], "q": ["q1", "q2"]}},
)
VALUES = {"*": {"l": ["s", "t"], "r": ["u"]}}


def drawn(seed: int, name: str, given: dict[str, Any], n: int = 22) -> Problem:
    """A small table: some cells twice, a population beside it if the model wants one."""
    rng = np.random.default_rng(seed)
    trees = [from_nested(tree) for tree in TREES]
    rows = [tuple(int(rng.beta(1, 2) * tree.n_leaves) for tree in trees) for _ in range(n)]
    codes = [np.array([row[j] for row in rows]) for j in range(len(trees))]
    value = (rng.random(n) * 3).astype(np.int32)
    counts = rng.integers(1, 3, n)
    taxonomy = from_nested(VALUES)
    model = MODELS[name](**given)
    people = None
    if model.sees == "population":
        extra = 12
        codes = [
            np.concatenate([column, column, rng.integers(0, tree.n_leaves, extra)])
            for column, tree in zip(codes, trees, strict=True)
        ]
        people = np.concatenate(
            [np.zeros(n, dtype=np.int64), counts + rng.integers(0, 3, n), np.ones(extra, dtype=np.int64)]
        )
        counts = np.concatenate([counts, np.zeros(n + extra, dtype=np.int64)])
        value = np.concatenate([value, np.zeros(n + extra, dtype=np.int32)])
    quasi = tuple(Attribute(f"q{j}", tree, weight=1.0 + j) for j, tree in enumerate(trees))
    cells = Cells((*codes, value), counts.astype(np.int64))
    values = {"values": value, "n_values": 3, "taxonomy": taxonomy} if model.sees == "values" else {}
    population = {"population": people, "population_name": "p"} if people is not None else {}
    requirement = Requirement(model, 0, **values, **population)
    return Problem(quasi, (Attribute("s", taxonomy),), cells, (requirement,))


def classes_at(problem: Problem, levels: tuple[int, ...]) -> dict[tuple[int, ...], list[int]]:
    """The cells of each label, a label being the tuple of taxonomy nodes."""
    groups = defaultdict(list)
    nodes = [a.taxonomy.node_at(level) for a, level in zip(problem.quasi, levels, strict=True)]
    for cell in range(problem.cells.n_cells):
        label = tuple(int(node[codes[cell]]) for node, codes in zip(nodes, problem.quasi_codes, strict=True))
        groups[label].append(cell)
    return dict(groups)


def holds(requirement: Requirement, cells: list[int], counts: list[int], whole: list[int]) -> bool:
    """Ask the model, which has oracles of its own, about one class."""
    row = np.zeros((1, max(requirement.n_values, 1)), dtype=np.int64)
    for cell in cells:
        row[0, 0 if requirement.values is None else requirement.values[cell]] += counts[cell]
    people = None if requirement.population is None else np.array([sum(requirement.population[c] for c in cells)])
    histogram = ClassHistograms(row.sum(axis=1), None if requirement.values is None else row, people)
    reference = np.zeros(max(requirement.n_values, 1), dtype=np.int64)
    for cell in whole:
        reference[0 if requirement.values is None else requirement.values[cell]] += counts[cell]
    total = None if requirement.population is None else int(requirement.population.sum())
    table = Whole(int(reference.sum()), None if requirement.values is None else reference, total, requirement.taxonomy)
    return bool(requirement.model.holds(histogram, table)[0])


def kept_labels(problem: Problem, levels: tuple[int, ...]) -> list[tuple[int, ...]] | None:
    """The labels that can be published at a node, or None if that withholds too much."""
    requirement, counts = problem.requirements[0], problem.cells.counts.tolist()
    groups = classes_at(problem, levels)
    occupied = [label for label, cells in groups.items() if sum(counts[c] for c in cells)]
    labels = occupied
    if isinstance(requirement.model, TableModel):
        trees = [attribute.taxonomy for attribute in problem.quasi]

        def rank(label: tuple[int, ...]) -> tuple[int, list[int]]:  # of equal ones the first in the order of leaves
            lowest = [int(tree.lo[node]) for tree, node in zip(trees, label, strict=True)]
            return sum(counts[c] for c in groups[label]), lowest[::-1]

        sized = [(rank(label)[0], label) for label in sorted(occupied, key=rank)]
        for n_gone in range(len(sized)):  # the smallest go, as few as it takes
            rest = sized[n_gone:]
            if sum(size for size, _ in sized[:n_gone]) > problem.max_withheld:
                return None
            if requirement.model.holds_together(np.array([size for size, _ in rest])):
                return [label for _, label in rest]
        return None
    while True:
        whole = [cell for label in labels for cell in groups[label]]
        good = [label for label in labels if holds(requirement, groups[label], counts, whole)]
        if good == labels or not good:
            break
        labels = good
    published = sum(counts[cell] for label in good for cell in groups[label])
    budget = problem.max_withheld
    if not requirement.model.merge_monotone:
        budget = 0
        if set(groups) != set(good):
            return None
    if not good or sum(counts) - published > budget or (requirement.model.relative_to_whole and len(good) == 1):
        return None
    return good


def value_of(problem: Problem, levels: tuple[int, ...], labels: list[tuple[int, ...]], measure: str) -> float:
    """The measure by its definition, record by record; higher is better only for um."""
    counts = problem.cells.counts.tolist()
    groups = classes_at(problem, levels)
    sizes = {label: sum(counts[c] for c in cells) for label, cells in groups.items()}
    n, lost = sum(counts), sum(sizes.values()) - sum(sizes[label] for label in labels)
    if measure == "discernibility":
        return sum(sizes[label] ** 2 for label in labels) + lost * n
    if measure == "class-size":
        return n / (len(labels) + (lost > 0))
    weights = [Fraction(a.weight) for a in problem.quasi]
    totals = []
    for j, attribute in enumerate(problem.quasi):
        tree = attribute.taxonomy
        if measure == "non-uniform-entropy":
            published, original, gone = Counter(), Counter(), Counter()
            for label, cells in groups.items():
                for cell in cells:
                    published[label[j]] += counts[cell]
                    original[(label[j], int(problem.quasi_codes[j][cell]))] += counts[cell]
                    gone[label[j]] += 0 if label in labels else counts[cell]
            total = sum(c * math.log2(published[key[0]] / c) for key, c in original.items() if c)
            totals.append(total + sum(c * math.log2(lost / c) for c in gone.values() if c))
        else:
            share = {label: share_lost(tree, label[j], measure) for label in labels}
            totals.append(sum((sizes[label] * share[label] for label in labels), Fraction(0)) + lost)
    if measure == "non-uniform-entropy":
        return sum(totals)
    if measure == "ncp":
        return float(sum(w * t for w, t in zip(weights, totals, strict=True)) / (n * sum(weights)))
    if measure == "um":
        gone = sum(w * t for w, t in zip(weights, totals, strict=True)) + lost
        return float(1 - gone / (n * (sum(weights) + 1)))
    result = 1.0
    for attribute, weight, total in zip(problem.quasi, weights, totals, strict=True):
        least = Fraction(n, attribute.taxonomy.n_leaves)
        result *= float(1 + (total - least) / (n - least)) ** float(weight / sum(weights))
    return result - 1


def share_lost(tree: Taxonomy, node: int, measure: str) -> Fraction:
    leaves = int(tree.hi[node] - tree.lo[node])
    if measure == "loss":
        return Fraction(leaves, tree.n_leaves)
    return 1 - Fraction(1, leaves) if measure == "um" else Fraction(leaves - 1, tree.n_leaves - 1)


def brute_force(problem: Problem, measure: str) -> float | None:
    values = []
    for levels in product(*(range(a.taxonomy.height + 1) for a in problem.quasi)):
        labels = kept_labels(problem, levels)
        if labels is not None:
            values.append(value_of(problem, levels, labels, measure))
    if not values:
        return None
    return max(values) if measure == "um" else min(values)


def solved(problem: Problem, measure: str) -> Plan | None:
    try:
        return Incognito(measure=measure).plan(problem, np.random.default_rng(1), Silent())
    except UnreachableError:
        return None


@pytest.mark.parametrize("large", [False, True], ids=["tabulated", "frontier"])
@pytest.mark.parametrize(("name", "given"), CASES, ids=str)
def test_no_node_is_better(name: str, given: dict[str, Any], large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr(search, "_TABULATED_NODES", 0)
    found = 0
    for seed in range(2):
        for number, measure in enumerate(MEASURES):
            if (seed + number) % 2 == large:  # each way takes half of them
                continue
            problem = replace(drawn(seed, name, given), max_withheld=(0, 4, 9)[(seed + number) % 3])
            whole = problem.requirements[0].whole(problem.cells.counts)
            if not problem.requirements[0].model.holds(whole.as_class(), whole)[0]:
                continue
            expected, plan = brute_force(problem, measure), solved(problem, measure)
            assert (expected is None) == (plan is None)
            if plan is None or expected is None:
                continue
            found += 1
            assert plan.search["optimum"] == pytest.approx(expected, rel=1e-9, abs=1e-12)
            assert plan.search["complete"]
            assert plan.n_withheld <= problem.max_withheld
            levels = tuple(plan.levels.values())
            labels = kept_labels(problem, levels)
            assert labels is not None
            assert value_of(problem, levels, labels, measure) == pytest.approx(expected, rel=1e-9, abs=1e-12)
            ranges = {
                tuple((int(a.taxonomy.lo[v]), int(a.taxonomy.hi[v])) for a, v in zip(problem.quasi, label, strict=True))
                for label in labels
            }
            assert ranges == {
                tuple(zip(lo, hi, strict=True)) for lo, hi in zip(plan.lo.tolist(), plan.hi.tolist(), strict=True)
            }
    assert found
