"""Table 1 of the slicing paper: the example table and its anonymized forms."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine
from shoal.methods.slicing.beliefs import Beliefs
from shoal.methods.slicing.parts import exact
from shoal.plan.slices import Part, Pieces
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source

ORIGINAL = {
    "Age": [22, 22, 33, 52, 54, 60, 60, 64],
    "Sex": list("MFFFMMMF"),
    "Zipcode": ["47906", "47906", "47905", "47905", "47302", "47302", "47304", "47304"],
    "Disease": ["dyspepsia", "flu", "flu", "bronchitis", "flu", "dyspepsia", "dyspepsia", "gastritis"],
}
BUCKETS = [0, 0, 0, 0, 1, 1, 1, 1]


def policy(method: dict[str, Any], l: float = 2) -> dict[str, Any]:
    roles = {name: {"role": "sensitive" if name == "Disease" else "quasi"} for name in ORIGINAL}
    return {"attributes": roles, "privacy": [{"simple-l-diversity": {"l": l}}], "method": method}


def beliefs_of(groups: list[list[str]], l: float = 2) -> tuple[Beliefs, list[dict[str, float]]]:
    """What is believed of the eight tuples in the paper's two buckets."""
    loaded = Policy.load(policy({"slicing": {"parts": groups}}, l))
    counted = LocalEngine(1).count(open_source(pa.table(ORIGINAL), loaded.source), ("Disease", *ORIGINAL)[:4], Silent())
    problem = encode(counted, loaded).problem
    names = [a.name for a in problem.quasi]
    parts = []
    for group in groups:
        quasi = tuple(names.index(name) for name in group if name in names)
        values, n_values = exact(problem, quasi)
        parts.append(Part(quasi, (0,) if "Disease" in group else (), (), values, n_values))
    attributes = (*problem.quasi, *problem.sensitive)
    leaf = [a.taxonomy.encode(pa.array(ORIGINAL[a.name])) for a in attributes]
    cells = {tuple(int(c[i]) for c in problem.cells.codes): i for i in range(problem.cells.n_cells)}
    cell = np.array([cells[tuple(int(column[row]) for column in leaf)] for row in range(8)])
    pieces = Pieces(cell, np.array(BUCKETS, dtype=np.int32), np.ones(8, dtype=np.int64))
    beliefs = Beliefs(problem, tuple(parts), pieces, 2)
    view = beliefs._view(problem.requirements[0])
    diseases = problem.sensitive[0].taxonomy.leaf_labels
    stated = []
    for row in range(8):
        rows = np.array([beliefs.tuple_of[row]])
        (_, shares), *_ = beliefs._shares(rows, view, problem.requirements[0])
        stated.append({diseases[s]: float(share) for s, share in enumerate(shares[0]) if share > 0})
    return beliefs, stated


def test_the_sliced_table_1f_is_2_diverse_and_tells_of_t1_what_the_paper_says() -> None:
    beliefs, stated = beliefs_of([["Age", "Sex"], ["Zipcode", "Disease"]])
    assert stated[0] == pytest.approx({"dyspepsia": 0.5, "flu": 0.5})
    assert max(max(tuple_.values()) for tuple_ in stated) == 0.5
    assert not beliefs.failing().any()
    assert beliefs.worst(0) == 2.0
    columns = beliefs.lists
    t1 = [int(part) for part in beliefs._tuples[beliefs.tuple_of[0]]]
    entries = [range(lists.start[value], lists.start[value + 1]) for lists, value in zip(columns, t1, strict=True)]
    # t1 matches the first bucket only: f1 = 1/4, f2 = 2/4
    assert [[int(lists.second[e]) for e in some] for lists, some in zip(columns, entries, strict=True)] == [[0], [0]]
    assert [int(lists.records[some[0]]) for lists, some in zip(columns, entries, strict=True)] == [1, 2]


def test_multisets_of_one_attribute_per_column_are_table_1d() -> None:
    release = shoal.anonymize(pa.table(ORIGINAL), policy({"slicing": {"columns": "each", "bucket_size": 4}}))
    buckets = sorted(
        Counter(row["Age"] for row in release.data.to_pylist() if row["bucket"] == b).most_common() for b in (1, 2)
    )
    assert release.manifest["buckets"] == 2
    assert [dict(one) for one in buckets] == [{22: 2, 33: 1, 52: 1}, {60: 2, 54: 1, 64: 1}]
    ages = set(release.multisets()["Age"].to_pylist())
    assert ages == {"22:2,33:1,52:1", "54:1,60:2,64:1"}


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        ({"slicing": {"parts": [["Age", "Sex"], ["Zipcode", "Disease"]]}}, [["Age", "Sex"], ["Zipcode", "Disease"]]),
        ({"anatomy": {}}, [["Age", "Sex", "Zipcode"], ["Disease"]]),
        ({"slicing": {"columns": "each"}}, [["Age"], ["Sex"], ["Zipcode"], ["Disease"]]),
    ],
)
def test_each_form_can_be_published(method: dict[str, Any], parts: list[list[str]]) -> None:
    release = shoal.anonymize(pa.table(ORIGINAL), policy(method))
    assert release.manifest["parts"] == parts
    assert release.data.column_names == ["bucket", *(name for part in parts for name in part)]
    assert release.guarantees[0]["achieved"] >= 2
    for part in parts:
        published = Counter(zip(*(release.data[name].to_pylist() for name in part), strict=True))
        assert published == Counter(zip(*(ORIGINAL[name] for name in part), strict=True))
