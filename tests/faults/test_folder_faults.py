"""Parquet files and folders of them that are no one table: what the user reads names the file and the difference."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli import app
from shoal.core.errors import InputError
from shoal.sources.base import SourceOptions
from shoal.sources.parquet import open_parquet
from shoal.verify.engine import Engine
from shoal.verify.rows import read_file
from shoal.verify.verifier import FAULTS

N_ROWS = 120_000
POLICY = """\
attributes:
  age: {role: quasi, taxonomy: {intervals: {min: 0, max: 100, widths: [5, 10]}}}
  ward: {role: quasi}
  illness: {role: sensitive}
privacy:
  - k-anonymity: {k: 3}
"""


def table(n_rows: int = 600, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(0, 90, n_rows),
            "ward": pa.array([f"ward {i}" for i in range(300)]).take(pa.array(rng.integers(0, 300, n_rows))),
            "illness": pa.array(["flu", "gout", "cold"]).take(pa.array(rng.integers(0, 3, n_rows))),
        }
    )


def retyped(rows: pa.Table) -> pa.Table:
    return rows.set_column(0, "age", rows["age"].cast(pa.string()))


@pytest.fixture
def stays(tmp_path: Path) -> Path:
    """A folder of three files, as Spark writes it."""
    folder = tmp_path / "stays"
    folder.mkdir()
    for number in range(3):
        pq.write_table(table(seed=number), folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.parquet.crc").write_bytes(b"crc")
    (folder / "_metadata.parquet").write_bytes(b"")
    return folder


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    """Anonymize a path; return the exit code and what was said. What is refused leaves nothing."""

    def anonymize(path: Path, *switches: str):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
        before = set(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as stopped:
            app(["anonymize", str(path), "-p", "policy.yaml", "-o", "out", *switches])
        if stopped.value.code:
            assert set(tmp_path.rglob("*")) == before
        return stopped.value.code, capfd.readouterr().err

    return anonymize


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (retyped, "its column 'age' holds string, not int64"),
        (lambda rows: rows.drop_columns(["ward"]), "it has no column 'ward'"),
        (lambda rows: rows.append_column("zip", rows["ward"]), "only it has a column 'zip'"),
        (
            lambda rows: rows.rename_columns(["Age", "ward", "illness"]),
            "it has no column 'age'; only it has a column 'Age'",
        ),
        (
            lambda rows: pa.table({f"c{i}": rows["age"] for i in range(9)}),
            (
                "it has no column 'age'; it has no column 'ward'; it has no column 'illness'; only it has a column "
                "'c0'; only it has a column 'c1'; and 7 more"
            ),
        ),
    ],
    ids=["type", "less", "more", "name", "another table"],
)
def test_one_file_differs(stays, run, change, difference) -> None:
    pq.write_table(change(table()), stays / "part-2.parquet")
    assert run(stays) == (
        2,
        (
            f"shoal: stays/part-2.parquet differs from part-0.parquet: {difference}. A folder is one table: same "
            "names, same types\n"
        ),
    )


@pytest.mark.parametrize(
    ("content", "stated"),
    [
        (b"", "stays/part-2.parquet is empty"),
        (
            b"age,ward\n1,2\n",
            "stays/part-2.parquet is not a readable Parquet file: it is truncated, damaged or has another format",
        ),
    ],
    ids=["empty", "text"],
)
def test_one_file_is_none(stays, run, content, stated) -> None:
    (stays / "part-2.parquet").write_bytes(content)
    assert run(stays) == (2, f"shoal: {stated}\n")


def late_damage(path: Path, chance: random.Random, size: int) -> None:
    whole = bytearray(path.read_bytes())
    at = int(len(whole) * (0.7 + 0.25 * chance.random()))
    whole[at : at + size] = chance.randbytes(size)
    path.write_bytes(whole)


@pytest.mark.parametrize("checksum", [True, False], ids=["checksums", "without"])
def test_a_page_that_is_damaged_late(stays, run, checksum) -> None:
    path = stays / "part-2.parquet"
    pq.write_table(table(N_ROWS), path, row_group_size=10_000, write_page_checksum=checksum, compression="zstd")
    late_damage(path, random.Random(1), 200)
    code, said = run(stays, "--memory", "768MiB")
    assert code == 2
    assert said in (
        "shoal: stays/part-2.parquet is not a readable Parquet file: it is truncated, damaged or has another format\n",
        *(
            f"shoal: stays/part-2.parquet is damaged somewhere after row {row}; fetch it or write it again\n"
            for row in range(70_000, N_ROWS, 10_000)
        ),
    )


def test_the_verifier_reads_valid_rows_or_none(tmp_path) -> None:
    path = tmp_path / "data.parquet"
    n_refused = 0
    for seed in range(40):
        pq.write_table(table(20_000), path, row_group_size=4_000, compression="none")
        late_damage(path, random.Random(seed), (1, 16, 200)[seed % 3])
        try:
            with Engine([path]) as engine:
                engine.run(read_file(str(path), "parquet", ["age", "ward", "illness"]))
                sizes = engine.fetch("SELECT age, ward, illness, count(*) FROM release GROUP BY ALL")
            assert sum(n for *_, n in sizes) == 20_000
        except FAULTS:
            n_refused += 1
    assert n_refused > 10


def test_memory_that_runs_out_is_no_fault_of_the_file(stays, run, monkeypatch) -> None:
    def exhausted(*_, **__):
        raise pa.ArrowMemoryError("malloc of size 4194368 failed")

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", exhausted)
    assert run(stays, "--memory", "1GiB") == (
        2,
        (
            "shoal: out of memory at the limit of 1 GiB; nothing was published. State with --memory how much memory "
            "there is\n"
        ),
    )


def test_a_file_that_is_taken_away_or_exchanged(stays) -> None:
    source = open_parquet(stays, SourceOptions())
    pq.write_table(retyped(table()), stays / "part-1.parquet")
    with pytest.raises(
        InputError, match=r"^stays/part-1\.parquet changed while it was being read: a column is gone or"
    ):
        list(source.batches())
    (stays / "part-1.parquet").unlink()
    with pytest.raises(InputError, match=r"^cannot read stays/part-1\.parquet: No such file or directory$"):
        list(source.batches())
    with pytest.raises(InputError, match=r"^stays changed while it was being read; nothing was published$"):
        source.digest()
