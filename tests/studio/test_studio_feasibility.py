"""What is said before a run, against what the command then says."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.core.errors import UnreachableError
from shoal.policy.policy import Policy
from shoal.studio.feasibility import CountedTable, make_hints

ATTRIBUTES = {
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 100, "widths": [10, 50]}}},
    "sex": {"role": "quasi"},
    "disease": {"role": "sensitive"},
}
MODELS = [
    *({"k-anonymity": {"k": k}} for k in (2, 24, 25)),
    *({"distinct-l-diversity": {"l": l}} for l in (2, 3, 4)),
    *({"simple-l-diversity": {"l": l}} for l in (1.5, 2, 2.5)),
    *({"entropy-l-diversity": {"l": l}} for l in (2, 2.5, 2.9)),
    {"recursive-cl-diversity": {"c": 1, "l": 2}},
    {"recursive-cl-diversity": {"c": 1.1, "l": 2}},
    {"alpha-k-anonymity": {"alpha": 0.5, "k": 4}},
    {"alpha-k-anonymity": {"alpha": 0.4, "k": 4}},
    {"tau-l-diversity": {"tau": 0.5, "l": 3}},
    {"tau-l-diversity": {"tau": 0.4, "l": 3}},
    {"confidence-bounding": {"most": 0.45}},
    {"confidence-bounding": {"most": 0.3, "harmless": ["flu"]}},
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory):
    """24 people: half of them with flu, the others with gout and cold."""
    path = tmp_path_factory.mktemp("feasibility") / "people.parquet"
    diseases = ["flu"] * 12 + ["gout"] * 8 + ["cold"] * 4
    content = {"age": [20 + 3 * i % 60 for i in range(24)], "sex": ["F", "M"] * 12, "disease": diseases}
    pq.write_table(pa.table(content), path)
    return path


def document(model: dict, method: str = "mondrian", **more: object) -> dict:
    return {"attributes": ATTRIBUTES, "privacy": [model], "method": {method: {}}, **more}


def verdict(table, asked: dict) -> str:
    policy = Policy.load(asked)
    (found,) = make_hints(CountedTable.read(table, policy), policy)
    assert found.reason
    return found.verdict


def reached(table, asked: dict) -> bool:
    try:
        shoal.anonymize(table, asked)
    except UnreachableError:
        return False
    return True


@pytest.mark.parametrize(
    "method", ["mondrian", "incognito", "hilbert", "microaggregation", "anatomy", "plain", "sweep"]
)
def test_no_hint_says_the_contrary_of_the_command(table, method: str) -> None:
    said = set()
    for model in MODELS:
        asked = document(model, method)
        found = verdict(table, asked)
        said.add(found)
        if found == "possible":
            assert reached(table, asked), (method, model)
        elif found == "impossible":
            assert not reached(table, asked), (method, model)
    assert "impossible" in said or method == "sweep"


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_what_only_withholding_could_reach_is_never_called_reachable(table, share: float) -> None:
    asked = document({"simple-l-diversity": {"l": 2.5}}, "incognito", max_withheld=share)
    found = verdict(table, asked)
    assert found in ("costly", "impossible")
    assert found == "costly" or not reached(table, asked)


@pytest.mark.parametrize("order", [("disease", "sex"), ("sex", "disease")])
def test_a_promise_about_several_attributes_has_its_worst_verdict(table, order: tuple[str, str]) -> None:
    attributes = {"age": ATTRIBUTES["age"], **{name: {"role": "sensitive"} for name in order}}
    asked = {"attributes": attributes, "privacy": [{"distinct-l-diversity": {"l": 3}}], "method": {"mondrian": {}}}
    assert verdict(table, asked) == "impossible"
    assert not reached(table, asked)
