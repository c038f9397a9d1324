"""The hospital generator: shape, determinism, streaming, files, and the policy that goes with it."""

from __future__ import annotations

import errno
import gzip
import itertools
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from shoal.core.errors import UsageError
from shoal.core.registry import find
from shoal.datasets.hospital import BLOCK, SCHEMA, Chances, diagnosis_tree, hospital_policy, occupation_tree, stays
from shoal.datasets.hospital_files import write_stays
from shoal.taxonomies.builders import TaxonomyBuilder

COLUMNS = ["patient", "age", "sex", "postcode", "admitted", "occupation", "insurance", "diagnosis", "cost"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.Table.from_batches(stays(120_000, seed=11))


def leaves(tree: object) -> list[str]:
    if isinstance(tree, dict):
        return list(itertools.chain.from_iterable(map(leaves, tree.values())))
    return list(tree)


def test_schema_and_domains(table: pa.Table) -> None:
    assert table.schema.names == COLUMNS
    assert table.schema == SCHEMA
    frame = {name: table[name].combine_chunks() for name in COLUMNS}
    assert pa.compute.min_max(frame["age"]).as_py() == {"min": 0, "max": 105}
    assert set(pa.compute.unique(table["sex"]).to_pylist()) == {"F", "M"}
    days = pa.compute.min_max(table["admitted"]).as_py()
    assert (str(days["min"]), str(days["max"])) == ("2022-01-01", "2024-12-31")
    postcodes = pa.compute.unique(table["postcode"].cast(pa.string())).to_pylist()
    assert 1_500 <= len(postcodes) <= 2_500
    assert all(len(text) == 5 and text.isdigit() for text in postcodes)
    assert len({text[:2] for text in postcodes}) == 20
    cents = np.asarray(table["cost"]) * 100
    assert np.abs(cents - cents.round()).max() < 1e-6
    assert cents.min() > 0


def test_patients_are_distinct_and_in_no_order(table: pa.Table) -> None:
    patients = table["patient"].to_pylist()
    assert len(set(patients)) == len(patients)
    assert all(text[0] == "P" and len(text) == 11 and text[1:].isdigit() for text in patients)
    numbers = np.array([int(text[1:]) for text in patients])
    # Rank correlation with the row of 120,000 independent numbers is beyond 0.02 once in 10^11.
    ranks = numbers.argsort().argsort()
    assert abs(np.corrcoef(ranks, np.arange(ranks.size))[0, 1]) < 0.02


def test_only_occupation_is_missing_and_in_the_share_asked_for(table: pa.Table) -> None:
    nulls = {name: table[name].null_count for name in COLUMNS}
    # Binomial(120,000, 0.01) leaves 1,200 +- 240 (seven standard deviations) less than once in 10^11.
    assert abs(nulls.pop("occupation") - 1_200) < 240
    assert set(nulls.values()) == {0}
    whole = pa.Table.from_batches(stays(5_000, seed=11, missing=0.0))
    assert whole["occupation"].null_count == 0
    none = pa.Table.from_batches(stays(5_000, seed=11, missing=1.0))
    assert none["occupation"].null_count == 5_000
    assert none.drop_columns("occupation").equals(whole.drop_columns("occupation"))


@pytest.mark.parametrize("batch", [1_000, BLOCK - 1, BLOCK, BLOCK + 1, 10**6])
def test_batch_size_changes_nothing_but_the_batches(table: pa.Table, batch: int) -> None:
    parts = list(stays(60_000, seed=11, batch=batch))
    assert all(part.num_rows == batch for part in parts[:-1])
    assert 0 < parts[-1].num_rows <= batch
    # The beginning of the longer table, too.
    assert pa.Table.from_batches(parts).combine_chunks().equals(table.slice(0, 60_000).combine_chunks())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 0}, "number of stays"),
        ({"n": 10**10 + 1}, "number of stays"),
        ({"n": 5, "batch": 0}, "batch"),
        ({"n": 5, "missing": 1.5}, "missing occupations"),
        ({"n": 5, "seed": -1}, "seed"),
    ],
)
def test_bad_arguments_are_refused_before_the_first_batch(arguments: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        stays(**arguments)


class TestFiles:
    def test_parquet(self, tmp_path: Path) -> None:
        path = write_stays(tmp_path / "stays.parquet", 3_000, seed=4)
        assert pa.parquet.read_table(path).to_pylist() == pa.Table.from_batches(stays(3_000, seed=4)).to_pylist()
        columns = pa.parquet.ParquetFile(path).metadata.row_group(0)
        coded = {columns.column(i).path_in_schema for i in range(9) if columns.column(i).has_dictionary_page}
        assert {"sex", "postcode", "occupation", "insurance", "diagnosis", "age", "admitted"} == coded

    @pytest.mark.parametrize("name", ["stays.csv", "stays.csv.gz"])
    def test_csv(self, tmp_path: Path, name: str) -> None:
        path = write_stays(tmp_path / name, 3_000, seed=4)
        text = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
        assert text.startswith(b"patient,age,sex,postcode,admitted,occupation,insurance,diagnosis,cost\nP")
        assert b'"' not in text
        types = {field.name: field.type for field in SCHEMA}
        options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        back = pa.csv.read_csv(pa.BufferReader(text), convert_options=options)
        assert back.to_pylist() == pa.Table.from_batches(stays(3_000, seed=4)).to_pylist()
        assert [file.name for file in tmp_path.iterdir()] == [name]

    def test_disk_full(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*arguments: object, **options: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(UsageError, match="No space left"):
            write_stays(tmp_path / "stays.parquet", 10)
        assert not list(tmp_path.iterdir())

    def test_an_interrupted_write_leaves_what_was_there(self, tmp_path: Path) -> None:
        class Interrupting:
            def step(self, title: str, total: int | None = None, unit: str = "rows") -> object:
                raise KeyboardInterrupt

        path = tmp_path / "stays.csv"
        path.write_text("mine")
        with pytest.raises(KeyboardInterrupt):
            write_stays(path, 10, 1, Interrupting())
        assert [file.name for file in tmp_path.iterdir()] == ["stays.csv"]
        assert path.read_text() == "mine"


class TestPolicy:
    def test_declares_every_column_in_the_order_of_importance(self) -> None:
        policy = hospital_policy(k=5, l=3)
        roles = {name: attribute["role"] for name, attribute in policy["attributes"].items()}
        assert list(roles) == COLUMNS
        assert [name for name, role in roles.items() if role == "quasi"] == COLUMNS[1:7]
        assert [roles[name] for name in ("patient", "diagnosis", "cost")] == [
            "identifier",
            "sensitive",
            "insensitive",
        ]
        assert policy["privacy"] == [{"k-anonymity": {"k": 5}}, {"entropy-l-diversity": {"l": 3}}]

    def test_trees_have_distinct_labels_and_cover_the_data_exactly(self, table: pa.Table) -> None:
        diagnoses, occupations = diagnosis_tree(), occupation_tree()
        assert 10 <= len(diagnoses) <= 12
        assert 28 <= sum(map(len, diagnoses.values())) <= 36
        for tree, column in ((diagnoses, "diagnosis"), (occupations, "occupation")):
            inner = [*tree, *(key for sub in tree.values() if isinstance(sub, dict) for key in sub)]
            labels = [*inner, *leaves(tree)]
            assert len(labels) == len(set(labels))
            assert not any(set(label) & set(',;"*{}') for label in labels)
            assert set(table[column].drop_null().cast(pa.string()).to_pylist()) <= set(leaves(tree))
            assert table[column].chunk(0).dictionary.to_pylist() == leaves(tree)

    def test_declared_taxonomies_build_and_cover_every_value(self, table: pa.Table) -> None:
        heights = {}
        for column, attribute in hospital_policy()["attributes"].items():
            for name, declaration in attribute.get("taxonomy", {}).items():
                kind = find("shoal.taxonomies.builders", TaxonomyBuilder, name, what="taxonomy")
                builder = kind.model_validate(declaration)
                values = pa.compute.unique(table[column]).drop_null()
                values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
                taxonomy = builder.build(values)
                assert taxonomy.encode(values).min() >= 0, column
                heights[column] = int(taxonomy.level.max())
        assert heights == {"age": 5, "postcode": 5, "admitted": 4, "occupation": 2, "diagnosis": 3}

    def test_the_requirement_is_reachable(self, table: pa.Table) -> None:
        counts = np.asarray(table["diagnosis"].value_counts().field("counts"), dtype=float)
        shares = counts / counts.sum()
        assert np.exp(-(shares * np.log(shares)).sum()) > 40
        # Skewed: the commonest tenth of the diagnoses has more than a third of the stays.
        assert np.sort(shares)[::-1][: shares.size // 10].sum() > 1 / 3


class TestChances:
    def test_draws_by_the_weights(self) -> None:
        weights = np.array([[1.0, 2.0, 3.0, 0.0, 10.0], [5.0, 0.0, 0.0, 0.0, 0.1]])
        # A fine grid instead of random numbers: frequencies must agree up to its width.
        grid = (np.arange(100_000) + 0.5) / 100_000
        chances = Chances.of(weights)
        for context, row in enumerate(weights):
            drawn = np.bincount(chances.draw(grid, np.full(grid.size, context)), minlength=5) / grid.size
            np.testing.assert_allclose(drawn, row / row.sum(), atol=2e-4)
            assert drawn[row == 0].sum() == 0
