"""Local suppression: few values, beside the optimum; what it refuses; what it does with populations and people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csc_matrix
from tests import tables

import shoal
from shoal.core.errors import PolicyError, UnreachableError
from shoal.core.progress import Silent
from shoal.methods.local_suppression import LocalSuppression
from shoal.models.k_anonymity import KAnonymity
from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.files import from_nested

COLUMNS = "age sex zip day illness"
N = 10


def flat(n: int) -> Any:
    return from_nested({"*": [str(value) for value in range(n)]})


def problem(rows: np.ndarray, model: KAnonymity) -> Problem:
    """Rows of codes, and nothing sensitive."""
    cells, counts = np.unique(rows, axis=0, return_counts=True)
    codes = tuple(np.ascontiguousarray(column, dtype=np.int32) for column in cells.T)
    trees = tuple(Attribute(f"a{j}", flat(int(column.max()) + 1)) for j, column in enumerate(codes))
    return Problem(trees, (), Cells(codes, counts.astype(np.int64)), (Requirement(model, 0),))


def optimum(rows: np.ndarray, weights: np.ndarray, k: int) -> float:
    """The least weighted number of suppressed values: of all partitions into sets that hold, by an integer program."""
    inside = ((np.arange(1, 1 << N)[:, None] >> np.arange(N)) & 1).astype(bool)
    size = inside.sum(axis=1)
    inside = inside[(size >= k) & ((size < 2 * k) | (size == N))]  # larger classes can be taken apart at no cost
    differ = [(np.where(inside, c, -1).max(axis=1) != np.where(inside, c, 99).min(axis=1)) for c in rows.T]
    cost = inside.sum(axis=1) * (np.column_stack(differ) @ weights)
    once = LinearConstraint(csc_matrix(inside.T.astype(float)), 1, 1)
    return round(float(milp(cost, constraints=once, integrality=np.ones(len(cost)), bounds=Bounds(0, 1)).fun), 6)


def count_cost(plan: Plan, asked: Problem, weights: np.ndarray) -> float:
    """The weighted number of suppressed values, counted from the plan's labels."""
    leaves = np.array([attribute.taxonomy.n_leaves for attribute in asked.quasi])
    return float(plan.sizes @ ((plan.hi - plan.lo == leaves) & (leaves > 1)) @ weights)


@pytest.mark.parametrize("kind", ["k", "weighted k"])
def test_few_values_beside_the_optimum(kind: str) -> None:
    """Nothing is left to chance: the method has one plan for a table."""
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        d, k = int(rng.integers(3, 5)), int(rng.integers(2, 4))
        rows = np.column_stack([rng.integers(0, size, N) for size in rng.integers(2, 4, d)])
        weights = rng.integers(1, 4, d).astype(float) if kind == "weighted k" else np.ones(d)
        asked = problem(rows, KAnonymity(k=k))
        method = LocalSuppression(importance={f"a{j}": weight for j, weight in enumerate(weights)})
        plan = method.plan(asked, rng, Silent())
        best = optimum(rows, weights, k)
        reached = count_cost(plan, asked, weights)
        assert reached == plan.search["cost"]
        assert plan.search["bound"] <= best <= reached
        assert int(plan.sizes.sum()) == N
        ratios.append(reached / best if best else 1.0)
    assert np.mean(ratios) <= 1.10
    assert max(ratios) <= 1.60


def policy(method: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "attributes": tables.attributes(COLUMNS),
        "privacy": [{"k-anonymity": {"k": 4}}],
        "method": {"local-suppression": method},
        **more,
    }


def test_values_have_their_level_or_are_suppressed_and_as_many_as_the_evidence_says() -> None:
    release = shoal.anonymize(
        tables.people(300, 5, COLUMNS), policy({"levels": {"age": 2, "zip": 1, "day": 1}}), seed=1
    )
    data = release.data.to_pydict()
    assert {label for label in data["age"] if label != "*"} <= {f"[{low}, {low + 9}]" for low in range(0, 120, 10)}
    assert all(label == "*" or label.endswith("*") for label in data["zip"])
    assert {"f", "m"} <= set(data["sex"])
    suppressed = {name: labels.count("*") for name, labels in data.items() if name != "illness"}
    assert suppressed == release.evidence["search"]["suppressed"]
    assert 0 < release.evidence["search"]["bound"] <= release.evidence["search"]["cost"] == sum(suppressed.values())
    assert release.verification.verified
    assert "levels" not in release.manifest  # a label of one column may be another one's superset


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ({"levels": {"age": 9}}, r"taxonomy of 'age' has the levels 0 to 4, not 9"),
        ({"levels": {"aeg": 1}}, r"levels: 'aeg' is not a quasi attribute of the policy; did you mean 'age'\?"),
        ({"levels": {"illness": 1}}, r"levels: 'illness' is not a quasi attribute"),
        ({"levels": {"age": -1}}, r"levels.*age"),
        ({"levels": {"age": 1.5}}, r"levels.*age"),
        ({"importance": ["sex", "hight"]}, r"importance: 'hight' is not a quasi attribute"),
        ({"importance": {"hight": 2}}, r"importance: 'hight' is not a quasi attribute"),
        ({"importance": ["sex", "sex"]}, r"importance names an attribute twice"),
        ({"importance": {"sex": 0}}, r"importance.*sex"),
    ],
    ids=str,
)
def test_bad_parameters_are_errors_that_say_what_is_wrong(method: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        shoal.anonymize(tables.people(50, 5, COLUMNS), policy(method))


def test_people_are_counted() -> None:
    people = tables.people(300, 4, COLUMNS).append_column("person", pa.array([f"p{i // 3}" for i in range(300)]))
    document = policy({"levels": {"age": 2, "day": 1}}, unit="person")
    document["attributes"]["person"] = {"role": "identifier"}
    document["privacy"] = [{"k-anonymity": {"k": 5}}]
    release = shoal.anonymize(people, document, seed=1)
    assert release.verification.verified
    assert [one["counts"] for one in release.manifest["guarantees"]] == ["unit"]
    assert len({tuple(row[name] for name in ("age", "sex", "zip", "day")) for row in release.data.to_pylist()}) > 1


@pytest.mark.parametrize("model", ["distinct-l-diversity", "t-closeness", "alpha-k-anonymity"])
def test_models_of_values_are_refused(model: str) -> None:
    """A combination of at least k people that is no class would have failed the model: it would show their value."""
    given = {"distinct-l-diversity": {"l": 2}, "t-closeness": {"t": 0.4}, "alpha-k-anonymity": {"alpha": 0.6, "k": 5}}
    document = policy({}, privacy=[{"k-anonymity": {"k": 5}}, {model: given[model]}])
    with pytest.raises(UnreachableError, match=rf"{model} constrains sensitive values.*use mondrian or sweep"):
        shoal.anonymize(tables.people(60, 4, COLUMNS), document)


def test_suppressed_groups_do_not_depend_on_sensitive_values() -> None:
    people = tables.people(300, 5, COLUMNS)
    other = people.set_column(people.column_names.index("illness"), "illness", pa.array(["flu"] * 300))
    rows = [
        sorted(map(str, shoal.anonymize(table, policy({}), seed=1).data.drop_columns(["illness"]).to_pylist()))
        for table in (people, other)
    ]
    assert rows[0] == rows[1]

    # If a suppressed value matched everything, one of rows 5 and 6 and one of rows 4 and 7 would suffice: 3 values.
