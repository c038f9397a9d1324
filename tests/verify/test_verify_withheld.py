"""Withheld people must satisfy the models of values together: releases that withhold one value only are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.tables import cover

import shoal
from shoal.methods import withholding
from shoal.methods.anatomy import Anatomy
from shoal.methods.base import Method
from shoal.methods.mondrian import Mondrian
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.slices import Pieces, SlicedPlan

MODELS: dict[str, dict[str, Any]] = {
    "distinct-l-diversity": {"l": 2},
    "simple-l-diversity": {"l": 1.6},
    "tau-l-diversity": {"tau": 0.6, "l": 2},
    "entropy-l-diversity": {"l": 1.7},
    "t-closeness": {"t": 0.3},
}


def people(gaps: bool = False) -> pa.Table:
    """Two towns with both illnesses, and a third one: what its eight people have, tests decide."""
    illness = ["flu", "gout"] * 10 + ["flu"] * 4 + ["gout"] * 4
    age = [None if gaps and i % 10 == 9 else 20 + i % 7 for i in range(28)]
    return pa.table({"town": ["Ulm"] * 10 + ["Bonn"] * 10 + ["Celle"] * 8, "age": age, "illness": illness})


def leave_out(rows: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., Plan]:
    """Return a planner that makes classes of towns and withholds cells, chosen by their towns and illnesses."""

    def plan(_: Method, problem: Any, *__: Any) -> Plan:
        town, illness = (np.asarray(problem.cells.codes[place], dtype=np.int32) for place in (0, 2))
        names = np.array(problem.quasi[0].taxonomy.leaf_labels)[town]
        values = np.array(problem.sensitive[0].taxonomy.leaf_labels)[illness]
        class_of = np.where(rows(names, values), WITHHELD, town).astype(np.int32)
        used, number = np.unique(class_of, return_inverse=True)
        shift = int(used[0] == WITHHELD)
        lo = np.column_stack([used[shift:], np.zeros(len(used) - shift)]).astype(np.int32)
        hi = np.column_stack([lo[:, 0] + 1, np.full(len(lo), problem.quasi[1].taxonomy.n_leaves)]).astype(np.int32)
        return Plan.of_cells(lo, hi, (number.reshape(-1) - shift).astype(np.int32), problem.cells.counts)

    return plan


def run(table: pa.Table, folder: Path, model: str, **more: Any) -> Any:
    document = {
        "attributes": {"town": {"role": "quasi"}, "age": {"role": "quasi"}, "illness": {"role": "sensitive"}},
        "privacy": [{model: MODELS[model]}],
        "max_withheld": 0.5,
        **more,
    }
    return shoal.anonymize(table, document, out=folder, seed=1)


@pytest.fixture(autouse=True)
def no_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are taken as they are, as by a planner that does not look at absent people."""
    monkeypatch.setattr(withholding, "hide_withheld", lambda make, problem: make(problem))


@pytest.mark.parametrize(("missing", "model"), cover(["category", "drop"], MODELS))
def test_absent_people_with_one_value_are_refused(
    model: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = people(gaps=missing == "drop")
    monkeypatch.setattr(Mondrian, "plan", leave_out(lambda town, _: town == "Celle"))
    with pytest.raises(shoal.ShoalError, match=f"withheld: the 4 withheld people fail {model} together"):
        run(table.slice(0, 24), tmp_path / "one", model, missing=missing)
    release = run(table, tmp_path / "both", model, missing=missing)
    assert release.manifest["withheld"] == 8
    assert "withheld" in {check.name for check in release.verification.checks}


def test_models_of_sizes_do_not_restrict_who_is_withheld(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "k-anonymity", {"k": 3})
    monkeypatch.setattr(Mondrian, "plan", leave_out(lambda town, illness: (town == "Celle") & (illness == "flu")))
    assert run(people(), tmp_path / "out", "k-anonymity").manifest["withheld"] == 4


def test_absent_people_of_a_bucketization_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The surplus of the most frequent value, as anatomy withheld it once."""
    original = Anatomy.plan

    def plan(self: Anatomy, problem: Any, rng: np.random.Generator, progress: Any) -> SlicedPlan:
        made = original(self, problem, rng, progress)
        pieces = made.pieces
        bucket = np.where(pieces.bucket == 0, WITHHELD, pieces.bucket - 1).astype(np.int32)
        flu = problem.cells.codes[-1][pieces.cell] == problem.sensitive[0].taxonomy.leaf_labels.index("flu")
        kept = (bucket != WITHHELD) | ~flu
        bucket = np.where(bucket == WITHHELD, 0, bucket)
        cut = Pieces(pieces.cell[kept], bucket[kept].astype(np.int32), pieces.records[kept])
        return SlicedPlan.of_pieces(made.parts, made.counts, cut, made.n_buckets - 1)

    monkeypatch.setattr(Anatomy, "plan", plan)
    with pytest.raises(shoal.ShoalError, match="withheld: the 1 withheld people fail distinct-l-diversity together"):
        run(people(), tmp_path / "out", "distinct-l-diversity", method="anatomy")


def test_in_a_sample_no_one_is_known_to_be_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mondrian, "plan", leave_out(lambda town, _: town == "Celle"))
    table = pa.concat_tables([people().slice(0, 24)] * 20)
    release = run(table, tmp_path / "out", "distinct-l-diversity", sample={"share": 0.9})
    assert "withheld" not in {check.name for check in release.verification.checks}
