"""Sliced releases as a whole: what lies where, what is told of them, and nothing is left behind."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from tests.tables import cover

import shoal
from shoal.core.errors import ShoalError
from shoal.release.forms.slices import SlicedPublication
from shoal.release.witness import Witness
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


def test_nothing_internal_is_public(tmp_path: Path) -> None:
    shoal.anonymize(patients(), ANATOMY, out=tmp_path / "out", format="csv", seed=3)
    public = "".join(path.read_text() for path in (tmp_path / "out" / "public").iterdir())
    assert "patient-0" not in public
    assert "seed" not in public
    assert "risk_" not in public


ERRORS = [KeyboardInterrupt(), OSError(28, "No space left on device"), MemoryError()]


@pytest.mark.parametrize(
    ("error", "owner", "name"),
    cover(
        ERRORS,
        [
            (SlicedPublication, "rows"),
            (SlicedPublication, "_batches"),
            (places, "two_tables"),
            (places, "write_rows"),
            (Witness, "write"),
            (verifier, "verify"),
        ],
        names=(1, 2),
    ),
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
    assert "The release does not hide who is in the table" in text
    assert "**simple-l-diversity** (l = 2)" in text
