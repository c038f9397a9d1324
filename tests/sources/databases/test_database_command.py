"""The commands on databases: source table, release, and table in the database; and no password anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source

COMMAND = Path(sys.executable).with_name("shoal")


def stored(address) -> list[dict]:
    return pa.Table.from_batches(open_source(address, SourceOptions(missing=[])).batches()).to_pylist()


def test_round_trip(database, policy, tmp_path):
    """By the installed command, which keeps pandas out."""
    rows = database.patients()
    source, to = database.table("patients"), database.table("released")
    arguments = [COMMAND, "anonymize", source, "-p", policy, "-o", "out", "--to", to]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    public = tmp_path / "out" / "public"
    pages = {"README.md", "report.html", "verify.sql"}
    assert {path.name for path in public.iterdir()} == {"data.parquet", "manifest.json", *pages}
    published = pq.read_table(public / "data.parquet")
    assert stored(to) == published.to_pylist(), "the same rows in the same order"
    assert sorted(published["cost"].to_pylist()) == [row[-1] for row in rows]
    assert published["cost"].to_pylist() != [row[-1] for row in rows]  # the same by chance: once in 120! runs
    evidence = json.loads((tmp_path / "out" / "internal" / "evidence.json").read_text(encoding="utf-8"))
    assert evidence["source"]["name"].endswith(" table 'patients'")
    assert evidence["source"]["rows"] == 120


def test_other_commands_read_databases(shoal, database, policy, tmp_path):
    database.patients()
    source = database.table("patients")
    done = shoal("audit", source, "-p", policy, "--population", source, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    done = shoal("init", source, "-o", "-")
    assert done.returncode == 0
    assert "table 'patients'" in done.stdout
    assert shoal("anonymize", source, "-p", policy, "-o", "out").returncode == 0
    half = database.table("SELECT * FROM patients WHERE age < 40")
    wanted = ("--control", half, "--attack", "singling-out", "--targets", 20, "--json")
    done = shoal("attack", "out", "--source", source, *wanted)
    assert (done.returncode, done.stderr) == (0, "")
    done = shoal("verify", "out", "--source", source, "-p", policy, "--json")
    assert (done.returncode, json.loads(done.stdout)["verified"]) == (0, True)


def test_the_password_shows_nowhere(shoal, postgresql, cluster, policy, tmp_path):
    postgresql.patients()
    source, to = postgresql.table("patients"), postgresql.table("released")
    said = []
    for arguments in (
        ("anonymize", source, "-p", policy, "-o", "out", "--to", to),
        ("anonymize", source, "-p", policy, "-o", "out2", "--to", to),
        ("anonymize", source, "-p", policy, "-o", "out3", "--seed", "1", "--json"),
        ("anonymize", source + "x", "-p", policy, "-o", "out4"),
        ("anonymize", postgresql.address, "-p", policy, "-o", "out4"),
        ("anonymize", source.replace("postgresql", "mysql"), "-p", policy, "-o", "out4"),
        ("anonymize", source.replace("127.0.0.1", "127.0.0.1:1:1"), "-p", policy, "-o", "out4"),
        ("audit", source, "-p", policy),
        ("init", source, "-o", "-"),
        ("init", source, "-o", "draft.yaml", "--json"),
        ("verify", "out", "--source", source + "x"),
        ("attack", "out", "--source", source, "--control", source + "x"),
        ("compare", source + "x", "-p", policy),
    ):
        done = shoal(*arguments)
        said.append(done.stdout + done.stderr)
        assert done.returncode in (0, 2), done.stderr
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 8
    assert cluster.password not in "".join(said)
    assert cluster.password.encode() not in b"".join(written)
    assert "127.0.0.1" not in b"".join(written).decode("latin-1")


def test_an_address_in_a_policy_is_refused_without_repeating_it(shoal, postgresql, cluster, policy, tmp_path):
    postgresql.patients()
    address = postgresql.table("patients")
    text = policy.read_text(encoding="utf-8").replace(
        "k-anonymity: {k: 4}", f"k-map: {{k: 2, population: '{address}'}}"
    )
    policy.write_text(text, encoding="utf-8")
    done = shoal("anonymize", address, "-p", policy, "-o", "out")
    assert done.returncode == 2
    assert "write the table to a file first" in done.stderr
    assert cluster.password not in done.stdout + done.stderr


def test_release_and_ledger_and_table(shoal, sqlite, policy, tmp_path):
    sqlite.patients()
    base = (
        "anonymize",
        sqlite.table("patients"),
        "-p",
        policy,
        "--ledger",
        "ledger.db",
        "--population",
        "patients",
        "--warn",
    )
    done = shoal(*base, "-o", "out", "--to", sqlite.table("released"))
    assert done.returncode == 0, done.stderr
    done = shoal("ledger", "show", "ledger.db", "--json")
    assert [entry["status"] for entry in json.loads(done.stdout)["releases"]] == ["published"]
    assert len(stored(sqlite.table("released"))) == 120
