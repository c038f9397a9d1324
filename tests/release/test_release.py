"""Releases: nothing unverified gets into place, nothing is left behind, and the same kind comes back."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables import cover

import shoal
from shoal.core.errors import ShoalError, UsageError, VerificationError
from shoal.release.forms.classes import GeneralizedPublication
from shoal.release.publication import PublishedRows
from shoal.release.release import Staging
from shoal.reports import internal, pages
from shoal.reports.verifying import verify
from shoal.sources.writers import TableWriter
from shoal.verify import verifier
from shoal.verify.result import Check, Verification

anonymizing, places = (import_module(f"shoal.anonymize.{name}") for name in ("run", "places"))
local = import_module("shoal.engines.local")

N = 120
POLICY: dict[str, Any] = {
    "attributes": {
        "patient": {"role": "identifier"},
        "age": {"role": "quasi"},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive"},
        "cost": {"role": "insensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 5}}, {"distinct-l-diversity": {"l": 2}}],
}


def patients() -> pa.Table:
    rng = np.random.default_rng(12)
    return pa.table(
        {
            "patient": [f"patient-{i:04}" for i in range(N)],
            "age": rng.integers(20, 80, N),
            "sex": rng.choice(["f", "m"], N),
            "illness": rng.choice(["ague", "catarrh", "dropsy"], N),
            "cost": rng.random(N),
        }
    )


def published(out: Path, **options: Any) -> Any:
    return shoal.anonymize(patients(), POLICY, out=out, seed=3, **options)


def test_what_lies_where(tmp_path: Path) -> None:
    release = published(tmp_path / "out")
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert files == [
        "out/internal/decision.json",
        "out/internal/evidence.json",
        "out/internal/report.html",
        "out/internal/verify-source.sql",
        "out/internal/witness.parquet",
        "out/public/README.md",
        "out/public/data.parquet",
        "out/public/manifest.json",
        "out/public/report.html",
        "out/public/verify.sql",
    ]
    assert stat.S_IMODE((tmp_path / "out" / "internal").stat().st_mode) == 0o700
    assert release.data is None
    assert release.data_file == tmp_path / "out" / "public" / "data.parquet"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_verifier_reads_what_was_written(tmp_path: Path, kind: Any) -> None:
    release = published(tmp_path / "out", format=kind)
    again = verify(tmp_path / "out", source=shoal.open_source(patients()))
    assert again.verified
    assert [check for check in again.checks if check.name != "recorded"] == list(release.verification.checks)
    assert again.guarantees == release.verification.guarantees
    written = json.loads((tmp_path / "out" / "public" / "manifest.json").read_text())
    assert written == release.manifest
    assert written["data"]["format"] == kind
    assert written["rows"] == N
    assert [g["model"] for g in written["guarantees"]] == ["k-anonymity", "distinct-l-diversity"]


def test_identifiers_do_not_survive(tmp_path: Path) -> None:
    release = published(tmp_path / "out")
    for path in (tmp_path / "out").rglob("*"):
        if path.is_file():
            assert b"patient-0" not in path.read_bytes(), path.name
    assert "patient" not in pq.read_table(release.data_file).column_names


def test_the_evidence_has_no_record_and_the_public_folder_no_seed(tmp_path: Path) -> None:
    release = published(tmp_path / "out", format="csv")
    evidence = (tmp_path / "out" / "internal" / "evidence.json").read_text()
    assert not any(repr(cost) in evidence for cost in patients()["cost"].to_pylist())
    without = {key: entry for key, entry in json.loads(evidence).items() if key != "sensitive"}
    assert not any(word in json.dumps(without) for word in ("ague", "catarrh", "dropsy"))
    assert json.loads(evidence)["seed"] == 3
    assert len(json.loads(evidence)["source"]["sha256"]) == 64
    assert "seed" not in release.manifest
    assert "seed" not in (tmp_path / "out" / "public" / "README.md").read_text()
    assert "seed" not in (tmp_path / "out" / "public" / "report.html").read_text()


def test_an_existing_folder_is_refused_before_any_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "open_source", lambda *_: pytest.fail("the data were opened"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    with pytest.raises(UsageError, match="exists already; choose another folder"):
        published(tmp_path / "out")
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep"


@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_anything_in_the_way_is_refused(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "out"
    place.write_text("x") if kind == "file" else place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="exists already"):
        published(place)


def test_a_folder_that_appears_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = Staging.publish

    def late(self: Staging, *rest: Any) -> None:
        (tmp_path / "out").mkdir()
        publish(self, *rest)

    monkeypatch.setattr(Staging, "publish", late)
    with pytest.raises(UsageError, match="exists already"):
        published(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_earlier_release_is_replaced_only_if_asked(tmp_path: Path) -> None:
    published(tmp_path / "out", format="csv")
    with pytest.raises(UsageError, match="exists already; choose another folder"):
        published(tmp_path / "out", format="parquet")
    assert (tmp_path / "out" / "public" / "data.csv").is_file()
    release = published(tmp_path / "out", format="parquet", overwrite=True)
    assert verify(tmp_path / "out").verified
    assert not (tmp_path / "out" / "public" / "data.csv").exists()
    assert release.data_file == tmp_path / "out" / "public" / "data.parquet"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["another file", "no evidence", "link", "file", "empty"])
def test_only_a_release_alone_is_overwritten(tmp_path: Path, kind: str) -> None:
    place, earlier = tmp_path / "out", tmp_path / "earlier"
    if kind in ("another file", "no evidence", "link"):
        published(earlier if kind == "link" else place)
    if kind == "another file":
        (place / "mine.txt").write_text("keep")
    elif kind == "no evidence":
        (place / "internal" / "evidence.json").unlink()
    elif kind == "link":
        place.symlink_to(earlier)
    elif kind == "file":
        place.write_text("keep")
    else:
        place.mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match="is not a release of shoal alone"):
        published(place, overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_failure_to_replace_leaves_the_earlier_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    published(tmp_path / "out", format="csv")
    rename, calls = Path.rename, []

    def fail_once(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == step:
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(UsageError, match="cannot move the release"):
        published(tmp_path / "out", format="parquet", overwrite=True)
    assert verify(tmp_path / "out").verified
    assert (tmp_path / "out" / "public" / "data.csv").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_run_that_is_killed_while_it_replaces_leaves_a_whole_release(tmp_path: Path, step: int) -> None:
    """Whichever of the two it is: it is at most under another name."""
    published(tmp_path / "out", format="csv")
    staging = (
        "import os; from pathlib import Path; from shoal.release.release import Staging\n"
        "rename, calls = Path.rename, []\n"
        "def kill(self, target):\n"
        "    rename(self, target); calls.append(target)\n"
        f"    if len(calls) == {step}: os._exit(9)\n"
        "Path.rename = kill\n"
        "with Staging(Path('out'), overwrite=True) as staging: staging.publish()\n"
    )
    done = subprocess.run([sys.executable, "-c", staging], cwd=tmp_path, check=False)
    assert done.returncode == 9
    (earlier,) = [path for path in tmp_path.iterdir() if (path / "public" / "data.csv").is_file()]
    assert earlier.name.endswith(".earlier")
    assert verify(earlier).verified
    assert (tmp_path / "out" / "public").is_dir() == (step == 3)


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def broken_rows(self: GeneralizedPublication, *arguments: Any) -> PublishedRows:
    rows = ORIGINAL_ROWS(self, *arguments)

    def batches() -> Any:
        yield next(rows.batches)
        raise KeyboardInterrupt

    return PublishedRows(batches())


ORIGINAL_ROWS = GeneralizedPublication.rows
ERRORS = [KeyboardInterrupt(), OSError(28, "No space left on device"), MemoryError(), SystemExit(1)]


@pytest.mark.parametrize(
    ("error", "owner", "name"),
    cover(
        ERRORS,
        [
            (GeneralizedPublication, "rows"),
            (TableWriter, "write"),
            (TableWriter, "close"),
            (places, "file_digest"),
            (pages, "public_readme"),
            (pages, "public_report"),
            (verifier, "verify"),
            (anonymizing, "build_evidence"),
            (internal, "internal_report"),
            (Staging, "publish"),
        ],
        names=(1, 2),
    ),
)
def test_a_failure_anywhere_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: BaseException
) -> None:
    monkeypatch.setattr(owner, name, failing(error))
    with pytest.raises((type(error), ShoalError)):
        published(tmp_path / "out", format="csv")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_between_two_batches_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GeneralizedPublication, "rows", broken_rows)
    with pytest.raises(KeyboardInterrupt):
        published(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


NO = Verification((Check("labels", False, "two labels overlap"),), ())


def test_what_the_verifier_refuses_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []

    def refuse(folder: Path, **_: Any) -> Verification:
        seen.append(folder)
        assert not (tmp_path / "out").exists()
        assert not list(tmp_path.rglob("public"))
        assert (folder / "manifest.json").is_file()
        return NO

    monkeypatch.setattr(verifier, "verify", refuse)
    with pytest.raises(VerificationError, match="was not published: labels: two labels overlap") as caught:
        published(tmp_path / "out")
    assert caught.value.exit_code == 4
    assert seen
    assert list(tmp_path.iterdir()) == []


def test_what_the_verifier_refuses_is_said_before_findings_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise ShoalError("no findings")

    monkeypatch.setattr(import_module("shoal.anonymize.run"), "find_all", fail)
    with pytest.raises(ShoalError, match="no findings"):  # which are looked for in another thread
        published(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(verifier, "verify", lambda *_, **__: NO)
    with pytest.raises(VerificationError, match="two labels overlap"):
        published(tmp_path / "out")


def test_what_the_verifier_refuses_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifier, "verify_table", lambda *_, **__: NO)
    with pytest.raises(VerificationError, match="two labels overlap"):
        shoal.anonymize(patients(), POLICY)


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "duckdb": duckdb.from_arrow,
}
KINDS = {
    "pyarrow": pa.Table,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "duckdb": duckdb.DuckDBPyRelation,
}


def rows_of(data: Any) -> list[tuple[Any, ...]]:
    if isinstance(data, pd.DataFrame):
        data = pa.Table.from_pandas(data, preserve_index=False)
    elif isinstance(data, pl.LazyFrame):
        data = data.collect().to_arrow()
    elif isinstance(data, pl.DataFrame):
        data = data.to_arrow()
    elif isinstance(data, duckdb.DuckDBPyRelation):
        data = data.to_arrow_table()
    return sorted(tuple(record.values()) for record in data.to_pylist())


@pytest.mark.parametrize("kind", FRAMES)
def test_the_same_kind_comes_back_with_the_same_rows(kind: str) -> None:
    release = shoal.anonymize(FRAMES[kind](patients()), POLICY, seed=3)
    assert isinstance(release.data, KINDS[kind])
    assert rows_of(release.data) == rows_of(shoal.anonymize(patients(), POLICY, seed=3).data)
    assert release.folder is None
    assert release.data_file is None
    assert release.guarantees[0]["achieved"] >= 5
    cheap = {"attribute-loss", "class-size", "discernibility", "loss", "ncp", "non-uniform-entropy", "um"}
    assert set(release.utility) == cheap


def test_an_index_does_not_come_back() -> None:
    frame = patients().to_pandas().set_index("patient", drop=False)
    release = shoal.anonymize(frame, POLICY)
    assert list(release.data.index) == list(range(N))
    assert release.data.index.name is None


def test_undeclared_and_absent_columns() -> None:
    fewer = patients().drop(["cost"])
    with pytest.raises(ShoalError, match="column 'cost' is not in the pyarrow Table"):
        shoal.anonymize(fewer, POLICY)
    more = patients().append_column("ward", pa.array(["w"] * N)).append_column("bed", pa.array([1] * N))
    with pytest.raises(ShoalError, match="does not declare: ward, bed"):
        shoal.anonymize(more, POLICY)


@pytest.mark.parametrize("name", ["README.md", "report.html"])
@pytest.mark.parametrize("change", ["edited", "deleted"])
def test_a_page_that_is_not_the_one_written_is_refused(tmp_path: Path, change: str, name: str) -> None:
    shoal.anonymize(patients(), POLICY, out=tmp_path / "out", format="csv")
    page = tmp_path / "out" / "public" / name
    if change == "edited":
        page.write_text(page.read_text() + "x")
    else:
        page.unlink()
    failed = [check.name for check in verify(tmp_path / "out").checks if not check.ok]
    assert failed == ["folder"]
