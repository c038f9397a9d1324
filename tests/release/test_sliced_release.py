"""Sliced releases as a whole: what lies where, what is told of them, and nothing is left behind."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.cli.anonymize import show_release
from shoal.core.errors import ShoalError, UsageError
from shoal.release.forms.slices import SlicedPublication
from shoal.release.witness import Witness
from shoal.reports.internal import internal_report
from shoal.reports.pages import public_readme
from shoal.verify import verifier
from shoal.verify.verifier import verify

places = import_module("shoal.anonymize.places")

N = 240
ATTRIBUTES: dict[str, Any] = {
    "patient": {"role": "identifier"},
    "age": {"role": "quasi", "description": "years | months"},
    "sex": {"role": "quasi"},
    "illness": {"role": "sensitive"},
    "cost": {"role": "insensitive"},
}
SLICING: dict[str, Any] = {
    "attributes": ATTRIBUTES,
    "privacy": [{"simple-l-diversity": {"l": 2}}],
    "method": {"slicing": {"parts": [["age", "cost"], ["sex", "illness"]]}},
}
ANATOMY = {**SLICING, "method": {"anatomy": {"two_tables": True}}}


def patients() -> pa.Table:
    rng = np.random.default_rng(12)
    return pa.table(
        {
            "patient": [f"patient-{i:04}" for i in range(N)],
            "age": rng.integers(20, 40, N),
            "sex": rng.choice(["f", "m"], N),
            "illness": rng.choice(["ague", "catarrh", "dropsy", "gout"], N),
            "cost": rng.random(N),
        }
    )


def read(path: Path) -> pa.Table:
    return pq.read_table(path) if path.suffix == ".parquet" else pa_csv.read_csv(path)


@pytest.fixture(scope="module")
def sliced() -> Any:
    return shoal.anonymize(patients(), SLICING, seed=3)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_lies_where(tmp_path: Path, kind: Any) -> None:
    release = shoal.anonymize(patients(), ANATOMY, out=tmp_path / "out", format=kind)
    files = {str(path.relative_to(tmp_path / "out")) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {
        "public/README.md",
        f"public/data.{kind}",
        f"public/quasi.{kind}",
        f"public/sensitive.{kind}",
        "public/manifest.json",
        "public/report.html",
        "public/verify.sql",
        "internal/verify-source.sql",
        "internal/witness.parquet",
        "internal/decision.json",
        "internal/evidence.json",
        "internal/report.html",
    }
    data, quasi, sensitive = (read(tmp_path / "out" / "public" / f"{n}.{kind}") for n in ("data", "quasi", "sensitive"))
    assert quasi.equals(data.select(["bucket", "age", "sex", "cost"]))
    counts = data.group_by(["bucket", "illness"]).aggregate([([], "count_all")]).rename_columns(sensitive.column_names)
    order = [("bucket", "ascending"), ("illness", "ascending")]
    assert counts.sort_by(order).to_pylist() == sensitive.sort_by(order).to_pylist()
    stated = release.tables()
    assert stated[0].to_pylist() == quasi.to_pylist()
    assert stated[1].to_pylist() == sensitive.to_pylist()
    again = verify(tmp_path / "out", source=shoal.open_source(patients()))
    assert again.verified
    assert json.loads((tmp_path / "out" / "public" / "manifest.json").read_text()) == release.manifest


def test_a_slicing_has_no_further_tables(tmp_path: Path) -> None:
    release = shoal.anonymize(patients(), SLICING, out=tmp_path / "out")
    assert "tables" not in release.manifest
    assert {path.name for path in (tmp_path / "out" / "public").iterdir()} == {
        "README.md",
        "data.parquet",
        "manifest.json",
        "report.html",
        "verify.sql",
    }


def test_the_witness_tells_the_bucket_of_every_source_row(tmp_path: Path) -> None:
    release = shoal.anonymize(patients(), SLICING, out=tmp_path / "out")
    witness = pq.read_table(tmp_path / "out" / "internal" / "witness.parquet")
    assert witness.schema.names == ["bucket"]
    assert witness.schema.field("bucket").type == pa.int64()
    numbers = witness["bucket"].to_numpy()
    assert len(numbers) == N
    published = read(release.data_file)  # type: ignore[arg-type]
    located = dict(zip(patients()["cost"].to_pylist(), numbers.tolist(), strict=True))
    assert [located[cost] for cost in published["cost"].to_pylist()] == published["bucket"].to_pylist()


def test_publishing_verifies_with_the_witness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[Any] = []
    verify_table = verifier.verify_table

    def spy(*arguments: Any, **options: Any) -> Any:
        given.append(options["witness"])
        return verify_table(*arguments, **options)

    monkeypatch.setattr(verifier, "verify_table", spy)
    release = shoal.anonymize(patients(), SLICING)
    assert np.bincount(given[0][0], minlength=2)[1:].tolist() == np.bincount(release.data["bucket"])[1:].tolist()
    shoal.anonymize(patients(), {**SLICING, "method": {"mondrian": {}}})
    assert (given[1] > 0).all()

    def beside(folder: Path, **options: Any) -> Any:
        assert (folder.parent / "internal" / "witness.parquet").is_file()
        return verify(folder, **options)

    monkeypatch.setattr(verifier, "verify", beside)
    shoal.anonymize(patients(), SLICING, out=tmp_path / "out")


def test_nothing_internal_is_public(tmp_path: Path) -> None:
    shoal.anonymize(patients(), ANATOMY, out=tmp_path / "out", format="csv", seed=3)
    public = "".join(path.read_text() for path in (tmp_path / "out" / "public").iterdir())
    assert "patient-0" not in public
    assert "seed" not in public
    assert "risk_" not in public


ERRORS = [KeyboardInterrupt(), OSError(28, "No space left on device"), MemoryError()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (SlicedPublication, "rows"),
        (SlicedPublication, "_batches"),
        (places, "two_tables"),
        (places, "write_rows"),
        (Witness, "write"),
        (verifier, "verify"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_failure_anywhere_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: BaseException
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises((type(error), ShoalError)):
        shoal.anonymize(patients(), ANATOMY, out=tmp_path / "out", format="csv")
    assert list(tmp_path.iterdir()) == []


def test_the_same_kind_comes_back() -> None:
    release = shoal.anonymize(pl.from_arrow(patients()), ANATOMY, seed=3)
    assert isinstance(release.data, pl.DataFrame)
    quasi, sensitive = release.tables()
    assert quasi.num_rows == N
    assert pc.sum(sensitive["count"]).as_py() == N


def test_two_tables_of_a_generalization_are_refused() -> None:
    release = shoal.anonymize(patients(), {**SLICING, "method": {"mondrian": {}}})
    with pytest.raises(UsageError, match="not sliced"):
        release.tables()


def test_an_attribute_called_count_is_refused_with_two_tables(tmp_path: Path) -> None:
    table = patients().rename_columns(["patient", "age", "sex", "count", "cost"])
    attributes = {"count" if name == "illness" else name: entry for name, entry in ATTRIBUTES.items()}
    with pytest.raises(UsageError, match="rename the attribute 'count'"):
        shoal.anonymize(table, {**ANATOMY, "attributes": attributes}, out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_readme_says_that_rows_mix_people(sliced: Any) -> None:
    text = public_readme(sliced.manifest)
    assert f"{sliced.manifest['buckets']} buckets" in text
    assert "Values in one row that are in different parts need not belong to the same person." in text
    assert "| 1 | age, cost |" in text
    assert "| 2 | sex, illness |" in text
    assert "`estimate`" in text
    assert "`sample_table`" in text
    assert "| bucket | bucket | number |" in text
    assert "| age | quasi | number | years \\| months; as in the original table |" in text
    assert "Rows are in random order" not in text
    assert "Nothing is promised about who is in the table" in text
    assert "**simple-l-diversity** (l = 2)" in text


def test_the_readme_of_a_release_without_sensitive_attribute_warns() -> None:
    attributes = {**ATTRIBUTES, "illness": {"role": "insensitive"}}
    policy = {**SLICING, "attributes": attributes, "privacy": [{"column-frequency": {"k": 2}}]}
    release = shoal.anonymize(patients(), policy)
    warnings = [text for text in release.evidence["warnings"] if "nobody can tell who is in the table" in text]
    assert len(warnings) == 1
    assert "every bucket has at least k records" in public_readme(release.manifest)
    page = internal_report(release.manifest, release.evidence)
    assert "nobody can tell who is in the table" in page
    assert "Nothing is promised against singling out." in page


def test_generalized_parts_are_told(tmp_path: Path) -> None:
    policy = {**SLICING, "privacy": [{"column-frequency": {"k": 12}}, {"simple-l-diversity": {"l": 2}}]}
    release = shoal.anonymize(patients(), policy, out=tmp_path / "out")
    labels = release.manifest["attributes"]["age"]["labels"]
    text = (tmp_path / "out" / "public" / "README.md").read_text()
    assert "| age | quasi | number | years \\| months; generalized; see below |" in text
    assert all(f"`{label}`" in text for label in labels)
    assert release.guarantees[0]["achieved"] >= 12


def test_the_page_tells_parts_and_buckets(sliced: Any) -> None:
    page = internal_report(sliced.manifest, sliced.evidence)
    assert "Columns that stay together" in page
    assert "age, cost" in page
    assert "smallest bucket" in page
    assert "released classes" not in page
    risks = sliced.evidence["risk_after"]
    assert risks["buckets"] == sliced.manifest["buckets"]
    assert sum(entry["records"] for entry in risks["bucket_sizes"]) == N


def test_the_command_tells_parts_and_buckets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = shoal.anonymize(patients(), ANATOMY, out=tmp_path / "out", format="csv")
    show_release(release)
    text = capsys.readouterr().out
    assert f"{N} rows in {release.manifest['buckets']} buckets" in text
    assert "Part 1: age, sex, cost" in text
    assert "Part 2: illness" in text
    assert f"at least {release.evidence['risk_after']['smallest_bucket']}" in text
    assert "public/quasi.csv" in text
    assert "unique by their quasi-identifiers" not in text
