"""Every technique that the registry finds keeps what techniques promise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from shoal.columns.base import Technique, TreatedSource, treat
from shoal.columns.keys import new_key
from shoal.columns.sampling import Sampling, sample
from shoal.core.randomness import Chance
from shoal.core.registry import discover
from shoal.sources.base import Source, SourceOptions
from shoal.sources.frames import open_arrow

TECHNIQUES = discover("shoal.columns", Technique)
EXAMPLES = {
    "coding": [{"top": 60, "bottom": 20}, {"shares": {"top": 0.1, "bottom": 0.05}}],
    "correlated-noise": [{"share": 0.2, "columns": ["wage"]}, {"share": 1, "columns": ["wage"], "decimals": 2}],
    "hash": [{}, {"salt": "none", "accept": "dictionary-attacks"}],
    "masking": [{"kind": "name"}, {"kind": "email"}, {"kind": "phone"}, {"kind": "number", "length": 12}],
    "microaggregation": [
        {"k": 3, "columns": ["wage"]},
        {"k": 5, "columns": ["wage"], "strata": ["sex", "town"], "decimals": 2},
    ],
    "noise": [
        {"laplace": {"scale": 2.5}},
        {"gaussian": {"sd": 1.0}, "decimals": 2},
        {"laplace": {"scale": 30}, "min": 0, "max": 100, "edges": "redraw"},
        {"laplace": {"scale": 30}, "min": 0, "max": 100, "edges": "reflect"},
        {"gaussian": {"sd": 30}, "min": 0, "max": 100, "edges": "clamp"},
    ],
    "permutation": [{}, {"within": ["sex"]}],
    "pram": [
        {"keep": 0.7},
        {"keep": 0.7, "invariant": True, "strata": ["sex", "town"]},
        {"matrix": {str(age): {str(age): 0.6, str((age + 1) % 100): 0.4} for age in range(100)}},
    ],
    "pseudonym": [{"key": "key"}],
    "rank-swapping": [{"window": 0.1}],
    "record-swapping": [
        {"hierarchy": ["age"], "share": 0.3},
        {"hierarchy": ["age"], "risk": ["sex"], "similar": ["sex", "town"], "share": 0, "k": 60},
    ],
    "rounding": [{"base": 5}, {"base": 2.5, "random": True}],
    "shuffling": [{"given": ["wage"]}],
    "swapping": [{"share": 0.5}, {"share": 1, "within": ["sex", "town"]}],
    "token": [{"length": 16}],
}
CASES = [(name, parameters) for name in sorted(TECHNIQUES) for parameters in EXAMPLES.get(name, [])]
NUMBERS = (
    *("coding", "correlated-noise", "microaggregation", "noise", "rank-swapping", "record-swapping"),
    *("rounding", "shuffling"),
)
CHANCELESS = ("coding", "pseudonym")


@pytest.fixture
def technique(request: pytest.FixtureRequest, tmp_path: Path) -> Technique:
    name, parameters = request.param
    new_key(tmp_path / "key")
    return TECHNIQUES[name](**parameters).resolve(tmp_path)


def people(n_rows: int = 9000) -> pa.Table:
    rng = np.random.default_rng(5)
    age = pa.array(rng.integers(0, 100, n_rows), mask=rng.random(n_rows) < 0.05)
    return pa.table(
        {
            "age": age,
            "wage": pa.array(rng.integers(900, 4000, n_rows), mask=rng.random(n_rows) < 0.05),
            "sex": pa.array(np.array(["f", "m"])[rng.integers(0, 2, n_rows)]),
            "town": pa.array(np.array(["here", "there", None])[rng.integers(0, 3, n_rows)]),
        }
    )


def of(technique: Technique) -> dict[str, Technique]:
    """The technique on ages, and on wages if they must have it, too."""
    both = technique.name == "correlated-noise"
    return {"age": technique} | ({"wage": technique.model_copy(update={"columns": ("age",)})} if both else {})


def cut(rows: int, table: pa.Table | None = None) -> Source:
    return open_arrow(people() if table is None else table, SourceOptions(), "people", rows)


def read(source: Source) -> pa.Table:
    return pa.Table.from_batches(source.batches())


def test_every_technique_has_an_example() -> None:
    assert set(EXAMPLES) == set(TECHNIQUES)
    assert len(TECHNIQUES) >= 8


@pytest.mark.parametrize("technique", CASES, indirect=True, ids=str)
def test_batches_and_repeated_reading_change_nothing(technique: Technique) -> None:
    wanted = read(treat(of(technique), cut(1 << 20), Chance.of(3)))
    for rows in (1000, 4097):
        source = treat(of(technique), cut(rows), Chance.of(3))
        assert read(source).equals(wanted)
        assert read(source).equals(wanted)
    alone = pa.Table.from_batches(source.batches(["age"]))
    assert alone.column("age").equals(wanted.column("age"))


@pytest.mark.parametrize("technique", CASES, indirect=True, ids=str)
def test_the_treated_source_looks_like_a_source(technique: Technique) -> None:
    given = cut(1000)
    source = treat(of(technique), given, Chance.of(None))
    assert isinstance(source, TreatedSource)
    assert (source.name, source.n_rows, source.digest()) == (given.name, given.n_rows, given.digest())
    table, raw = read(source), people()
    assert table.schema == source.schema
    assert table.schema.names == raw.schema.names
    changed = [*of(technique), *technique.carried]
    assert table.drop(changed).equals(raw.drop(changed))
    if technique.name in ("permutation", "record-swapping", "swapping"):
        assert sorted(table["age"].to_pylist(), key=str) == sorted(raw["age"].to_pylist(), key=str)
    else:
        assert table["age"].is_null().equals(raw["age"].is_null())
    assert not table["age"].equals(raw["age"])


@pytest.mark.parametrize("technique", CASES, indirect=True, ids=str)
def test_coded_columns_hold_the_same_values(technique: Technique) -> None:
    source = treat({"town": technique} if takes_text(technique) else of(technique), cut(999), Chance.of(3))
    names = source.schema.names
    coded = pa.Table.from_batches(source.batches(dictionary=names))
    for name in names:
        plain = coded[name].cast(source.schema.field(name).type)
        assert plain.equals(read(source)[name])


def takes_text(technique: Technique) -> bool:
    for_age = technique.name in NUMBERS or technique.model_dump().get("matrix") is not None
    return not for_age and "town" not in technique.needs


@pytest.mark.parametrize("technique", CASES, indirect=True, ids=str)
def test_runs_differ_where_chance_protects(technique: Technique) -> None:
    one, other = (read(treat(of(technique), cut(1000), Chance.of(None))) for _ in range(2))
    fixed = technique.name in CHANCELESS or technique.model_dump().get("salt") == "none"
    fixed |= technique.model_dump().get("random") is False
    assert one.equals(other) == fixed


@pytest.mark.parametrize("technique", CASES, indirect=True, ids=str)
def test_descriptions_tell_the_name_and_no_secret(technique: Technique, tmp_path: Path) -> None:
    chance = Chance.of(3)
    source = treat(of(technique), cut(1000), chance)
    assert isinstance(source, TreatedSource)
    said = source.describe()["age"]
    assert said["technique"] == technique.name
    text = json.dumps(said)
    assert "key" not in said
    assert str(tmp_path) not in text
    assert "secret" not in repr(source.treatments["age"])
    assert all(isinstance(count, int) for counts in source.findings().values() for count in counts.values())


@pytest.mark.parametrize("name", sorted(TECHNIQUES))
def test_classes_declare_what_the_policy_needs(name: str) -> None:
    kind = TECHNIQUES[name]
    assert kind.title
    assert kind.__doc__
    assert set(kind.roles) <= {"identifier", "quasi", "sensitive", "insensitive"}
    assert ("identifier" in kind.roles) == (name in ("masking", "pseudonym", "token", "hash"))
    for field in kind.model_fields.values():
        assert field.description
    json.dumps(kind.model_json_schema())


def test_samples_are_the_same_at_every_reading_and_in_every_cut() -> None:
    wanted = read(sample(Sampling(share=0.3), cut(1 << 20), Chance.of(3)))
    for rows in (37, 4095):
        small = people().slice(0, 5000) if rows == 37 else None
        source = sample(Sampling(share=0.3), cut(rows, small), Chance.of(3))
        table = read(source)
        assert table.equals(read(source))
        assert table.equals(wanted.slice(0, table.num_rows) if small is not None else wanted)
    assert source.digest() == cut(1).digest()
    assert source.n_rows is None
