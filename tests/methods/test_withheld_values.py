"""Withheld people satisfy the models of values among themselves, by every method that withholds records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import tables
from tests.tables import cover

import shoal
from shoal.core.errors import UnreachableError
from shoal.methods.base import refuse_unreachable
from shoal.methods.withholding import withhold_more
from shoal.models.base import ClassHistograms, Whole
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.k_anonymity import KAnonymity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.plan.cells import Cells
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.plan.reader import withheld_satisfy
from shoal.taxonomies.files import from_nested

METHODS: list[dict[str, Any]] = [
    {"mondrian": {}},
    {"incognito": {}},
    {"incognito": {"recode": True}},
    {"hilbert": {}},
    {"slicing": {}},
    {"microaggregation": {}},
    {"sweep": {"improve": False}},
]
MODELS = {"distinct": DistinctLDiversity(l=3), "simple": SimpleLDiversity(l=2)}
PRIVACY = {"distinct": {"distinct-l-diversity": {"l": 3}}, "simple": {"simple-l-diversity": {"l": 2}}}


def people(seed: int, n: int = 240) -> pa.Table:
    """People whose illness follows from the place where they live, for a third of them."""
    rng = np.random.default_rng(seed)
    zip_, chance = rng.integers(0, 12, n), rng.random(n)
    illness = np.where(chance < 0.35, np.char.add("i", (zip_ % 4).astype(str)), rng.choice(list("abcde"), n))
    return pa.table({"zip": [f"47{z:02}" for z in zip_], "age": rng.integers(20, 80, n), "illness": illness})


def policy(method: dict[str, Any], model: str, share: float) -> dict[str, Any]:
    return {
        "attributes": {
            "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 4}}},
            "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [10, 20, 40]}}},
            "illness": {"role": "sensitive"},
        },
        "privacy": [{"k-anonymity": {"k": 3}}, PRIVACY[model]],
        "method": method,
        "max_withheld": share,
    }


def holds(model: str, values: list[str]) -> bool:
    counts = np.unique(values, return_counts=True)[1]
    return bool(MODELS[model].holds(ClassHistograms.of([counts]), Whole.of(counts))[0])


@pytest.mark.parametrize(("model", "method"), cover(sorted(MODELS), METHODS))
def test_withheld_people_satisfy_the_model(method: dict[str, Any], model: str, tmp_path: Any) -> None:
    for seed in range(4):
        table = people(seed)
        given = policy(method, model, 0.15)
        if "slicing" in method:
            given["privacy"] = given["privacy"][1:]
        shoal.anonymize(table, given, seed=1, out=tmp_path / str(seed))
        witness = pq.read_table(tmp_path / str(seed) / "internal" / "witness.parquet").columns[0].to_numpy()
        absent = [value for value, number in zip(table["illness"].to_pylist(), witness, strict=True) if number == 0]
        assert len(absent) <= 0.15 * table.num_rows
        assert not absent or holds(model, absent)
        assert shoal.verify(tmp_path / str(seed), source=table).verified


def make_problem(max_withheld: int, model: Any) -> Problem:
    """Five towns; in the first one all six people have the same illness."""
    towns = np.repeat(np.arange(5), [1, 2, 2, 3, 3]).astype(np.int32)
    illness = np.array([0, 1, 2, 0, 1, 0, 1, 2, 0, 2, 3], dtype=np.int32)
    counts = np.array([6, 2, 2, 3, 3, 1, 1, 1, 4, 4, 4], dtype=np.int64)
    quasi = Attribute("town", from_nested({"*": list("abcde")}))
    sensitive = Attribute("illness", from_nested({"*": list("wxyz")}))
    asked = (Requirement(KAnonymity(k=2), 0), Requirement(model, 1, values=illness, n_values=4, place=0))
    return Problem((quasi,), (sensitive,), Cells((towns, illness), counts), asked, max_withheld)


def make_plan(problem: Problem) -> Plan:
    """Every town but the first is a class."""
    towns = np.asarray(problem.cells.codes[0])
    edges = np.arange(1, 5, dtype=np.int32)[:, np.newaxis]
    return Plan.of_cells(edges, edges + 1, np.where(towns == 0, WITHHELD, towns - 1), problem.cells.counts)


@pytest.mark.parametrize(
    ("model", "most", "gone"),
    [
        (DistinctLDiversity(l=2), 30, [3]),  # the smallest class that repairs: one person of each illness
        (DistinctLDiversity(l=2), 9, [3]),
        (DistinctLDiversity(l=2), 8, None),
        (SimpleLDiversity(l=1.5), 30, [1]),
        (SimpleLDiversity(l=3), 30, None),
    ],
    ids=str,
)
def test_few_further_classes_are_withheld(model: Any, most: int, gone: list[int] | None) -> None:
    problem = make_problem(most, model)
    plan = make_plan(problem)
    assert not withheld_satisfy(problem, plan)
    found = withhold_more(problem, plan)
    if gone is None:
        assert found is None
        return
    assert found is not None
    assert withheld_satisfy(problem, found)
    assert found.n_withheld <= most
    assert sorted(set(range(1, 5)) - set(found.lo[:, 0].tolist())) == sorted(gone)
    assert found.sizes.tolist() == [int(plan.sizes[town - 1]) for town in found.lo[:, 0]]
    assert found.sizes.sum() + found.n_withheld == problem.cells.n_records
    own = found.assignment.class_of
    assert all(problem.cells.codes[0][own == number].tolist() == [town] * int((own == number).sum())
               for number, town in enumerate(found.lo[:, 0].tolist()))  # fmt: skip


def test_a_model_that_the_table_fails_is_refused_whatever_may_be_withheld() -> None:
    problem = make_problem(30, SimpleLDiversity(l=3))
    with pytest.raises(UnreachableError, match="records cannot be withheld instead: a reader who sees who is absent"):
        refuse_unreachable(problem, 30)


@pytest.mark.parametrize("method", ["mondrian", "incognito", "anatomy", "microaggregation", "sweep"])
def test_withholding_does_not_make_a_model_of_values_reachable(method: str) -> None:
    table = tables.people(60, 4, "age sex illness").set_column(2, "illness", pa.array(["flu"] * 40 + ["gout"] * 20))
    document = {
        "attributes": tables.attributes("age sex illness"),
        "privacy": [{"simple-l-diversity": {"l": 2}}],
        "method": method,
        "max_withheld": 0.5,
    }
    with pytest.raises(UnreachableError, match=r"reach only 1\.5|records cannot be withheld"):
        shoal.anonymize(table, document, seed=1)
