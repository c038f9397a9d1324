"""What an audit says, and what it must not say."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from shoal.audit import requirements
from shoal.audit.audit import audit
from shoal.audit.uniqueness import CodedColumn, Partition
from shoal.core.errors import InputError, PolicyError, UsageError
from shoal.models.alpha_k_anonymity import AlphaKAnonymity
from shoal.models.base import ClassHistograms, Whole
from shoal.models.confidence_bounding import ConfidenceBounding
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.recursive_cl_diversity import RecursiveCLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.models.tau_l_diversity import TauLDiversity

PEOPLE = pa.table(
    {
        "age": [34, 34, 51, 51, 60],
        "town": ["Zuerich", "Zuerich", "Basel", "Basel", "Olten"],
        "illness": ["flu", "gout", "flu", "flu", "angina"],
        "bill": [10.25, 20.5, 30.75, 40.0, 50.5],
    }
)
POLICY = {
    "attributes": {
        "age": {"role": "quasi"},
        "town": {"role": "quasi"},
        "illness": {"role": "sensitive"},
        "bill": {"role": "insensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 2}}, {"entropy-l-diversity": {"l": 1.5}}],
}


def with_(**changes):
    return {**POLICY, **changes}


def test_headline_and_figures():
    found = audit(PEOPLE, POLICY)
    assert found.headline == "1 of 5 records (20%) is unique on age, town."
    assert (found.classes, found.smallest_class) == (3, 1)
    assert found.prosecutor.share_above == ((0.05, 1.0), (0.2, 1.0), (0.33, 1.0))
    assert [verdict.holds for verdict in found.models] == [False, False]
    assert [verdict.records_missed for verdict in found.models] == [1, 3]
    assert found.sensitive[0].t_ordered is None
    assert [risk.attributes for risk in found.minimal_sets] == [("age",), ("town",)]


def test_a_column_published_as_it_is_that_singles_out_is_named():
    found = audit(PEOPLE, POLICY)
    secret, carried = found.warnings
    assert "'illness' alone makes 2 records (40%) unique" in secret
    assert "'bill' alone makes 5 records (100%) unique, and no model covers it" in carried


def test_no_value_of_a_record_is_in_the_answer():
    table = pa.table(
        {
            "age": ["secret-age-1", "secret-age-2", "secret-age-2"],
            "town": ["secret-town-1", "secret-town-2", "secret-town-3"],
            "illness": ["secret-illness-1", "secret-illness-2", "secret-illness-2"],
            "bill": ["secret-bill-1", "secret-bill-2", None],
        }
    )
    answer = json.dumps(audit(table, POLICY, population=table).as_dict(), allow_nan=False)
    assert "secret" not in answer
    assert "town" in answer


def test_numbers_under_a_flat_taxonomy_have_an_order():
    table = PEOPLE.set_column(2, "illness", pa.array([1, 2, 3, 3, 9]))
    assert audit(table, POLICY).sensitive[0].t_ordered == pytest.approx(1.4 / 3)


def test_population_of_the_policy(tmp_path):
    (tmp_path / "people.csv").write_text(
        "age,town\n34,Zuerich\n34,Zuerich\n34,Zuerich\n51,Basel\n51,Basel\n60,Olten\n70,Bern\n"
    )
    (tmp_path / "table.csv").write_text("age,town\n34,Zuerich\n60,Olten\n")
    (tmp_path / "policy.yaml").write_text(
        "attributes: {age: {role: quasi}, town: {role: quasi}}\n"
        "privacy:\n"
        "  - k-map: {k: 2, population: people.csv}\n"
        "  - delta-presence: {min: 0.1, max: 1, population: people.csv}\n"
        "  - delta-presence: {min: 0, max: 1, population: people.csv}\n"
    )
    found = audit(tmp_path / "table.csv", tmp_path / "policy.yaml")
    assert [risk.population for risk in found.populations] == ["people.csv"]
    assert found.populations[0].journalist.highest == 1
    assert found.populations[0].population_unique_records == 1
    # people whom no class covers are surely absent, so that a lower bound does not hold
    assert [verdict.holds for verdict in found.models] == [False, False, True]
    assert found.models[0].achieved == 1


def test_partition_settles_lone_cells():
    records = pa.array([1, 4, 1, 1]).to_numpy()
    first = CodedColumn("a", pa.array([0, 1, 2, 2], pa.int32()).to_numpy(), 3)
    second = CodedColumn("b", pa.array([0, 0, 0, 1], pa.int32()).to_numpy(), 2)
    by_first = Partition.whole(records).split(first)
    assert (by_first.n_classes, by_first.n_unique, by_first.order.tolist()) == (3, 1, [2, 3])
    assert (by_first.alone.tolist(), by_first.split(second).alone.tolist()) == ([0], [2, 3])
    both = by_first.split(second)
    assert (both.n_classes, both.n_unique, len(both.order)) == (4, 3, 0)
    again = both.split(first)
    assert (again.n_classes, again.n_unique) == (4, 3)


@pytest.mark.parametrize(("option", "value"), [("largest_set", 0), ("threshold", 1.0), ("threshold", -0.1)])
def test_options_out_of_range(option, value):
    with pytest.raises(UsageError, match=f"received .*{value}"):
        audit(PEOPLE, POLICY, **{option: value})


def test_bad_input():
    with pytest.raises(PolicyError, match="does not declare: bill"):
        audit(PEOPLE, with_(attributes={k: v for k, v in POLICY["attributes"].items() if k != "bill"}))
    with pytest.raises(InputError, match="no rows"):
        audit(PEOPLE.slice(0, 0), POLICY)
    with pytest.raises(InputError, match="column 'town' is not in"):
        audit(PEOPLE, POLICY, population=PEOPLE.select(["age"]))


UNRELATED_TO_THE_WHOLE = (
    AlphaKAnonymity(alpha=0.5, k=3),
    ConfidenceBounding(most=0.4),
    DistinctLDiversity(l=2),
    EntropyLDiversity(l=2),
    RecursiveCLDiversity(c=2, l=2),
    SimpleLDiversity(l=2),
    TauLDiversity(tau=0.5, l=3),
)


@pytest.mark.parametrize("model", UNRELATED_TO_THE_WHOLE, ids=lambda model: model.name)
def test_names_of_values_do_not_matter_to_models_that_do_not_look_at_the_whole(model):
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 4, size=(50, 5)) + np.eye(5, dtype=np.int64)[rng.integers(0, 5, 50)]
    shuffled = rng.permuted(counts, axis=1)
    before, after = (ClassHistograms.of(table) for table in (counts, shuffled))
    wholes = (Whole.of(counts.sum(axis=0)), Whole.of(shuffled.sum(axis=0)))
    assert model.holds(before, wholes[0]).tolist() == model.holds(after, wholes[1]).tolist()
    assert model.reach(before, wholes[0]) == pytest.approx(model.reach(after, wholes[1]))


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(8)
    table = pa.table(
        {
            "age": rng.integers(0, 30, 400),
            "town": [f"t{i}" for i in rng.integers(0, 3, 400)],
            "illness": rng.integers(0, 9, 400),
            "bill": rng.integers(0, 50, 400),
        }
    )
    models = [{"t-closeness": {"t": 0.2, "distance": "ordered"}}, {"entropy-l-diversity": {"l": 3}}]
    whole = audit(table, with_(privacy=models))
    monkeypatch.setattr(requirements, "_HISTOGRAM_ENTRIES", 20)
    assert audit(table, with_(privacy=models)).as_dict() == whole.as_dict()
    assert whole.models[0].achieved == pytest.approx(whole.sensitive[0].t_ordered)
