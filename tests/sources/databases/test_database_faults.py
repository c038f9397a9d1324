"""Connections that drop, and runs that die: clear messages, no public folder, no table, no temporary files."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shoal.cli import app
from shoal.sources.addresses import DatabaseTable
from shoal.sources.databases.postgresql import PostgreSQL
from shoal.sources.databases.tables import Delivery, connect
from shoal.sources.opening import open_source

COMMAND = Path(sys.executable).with_name("shoal")
OTHERS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
# Sends the rows that it was asked for, but for the last, for ever.
HANGING = """
import sys, time
from shoal.cli import main
from shoal.sources.databases.tables import Delivery
sent = Delivery._convert
def slow(self, batches, target):
    for batch in sent(self, batches, target):
        yield batch.slice(0, batch.num_rows - 1)
        print("sent", flush=True)
        time.sleep(600)
Delivery._convert = slow
sys.argv[:1] = ["shoal"]
main()
"""
# Ends at once, as by a power cut, when the table is there and the folder has not got its name yet.
CUT_OFF = """
import os, signal, sys
from shoal.cli import main
from shoal.sources.databases.tables import Delivery
commit = Delivery.commit
def cut_off(self):
    commit(self)
    os.kill(os.getpid(), signal.SIGKILL)
Delivery.commit = cut_off
sys.argv[:1] = ["shoal"]
main()
"""
# Every file that is written is limited, which fails as a full disk does.
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


def run(*arguments: object):
    """Run the command in this process, so that a fault can be put into it."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def wait_for(condition, process) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_the_server_ends_the_connection_while_rows_are_read(postgresql, policy, tmp_path):
    """A query that would take a minute; the server drops it once it is at work."""
    query = (
        "SELECT 'x' AS patient, i % 90 AS age, 'F' AS sex, 'Bonn' AS town, 'flu' AS disease, "
        "CASE WHEN pg_sleep(0.02) IS NULL THEN 0 ELSE 1.5 END AS cost FROM generate_series(1, 3000) i"
    )
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    arguments = [COMMAND, "anonymize", postgresql.table(query), "-p", policy, "-o", tmp_path / "out"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(arguments, **pipes, text=True, env=environment) as process:
        try:
            reading = (
                "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'COPY%pg_sleep%' AND pid <> pg_backend_pid()"
            )
            wait_for(lambda: postgresql.execute(reading)[0][0] == 1, process)
            postgresql.execute(OTHERS)
            said, complained = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, said) == (2, "")
    assert complained == "shoal: cannot read the PostgreSQL query: the server ended the connection\n"
    assert names(tmp_path) == {"policy.yaml", "temporary"}
    assert not names(temporary)


def test_the_server_ends_the_connection_while_rows_are_sent(postgresql, policy, tmp_path, monkeypatch):
    postgresql.patients()
    sent = Delivery._convert

    def dropped(self, batches, target):
        for batch in sent(self, batches, target):
            yield batch
            postgresql.execute(OTHERS)
            yield batch

    monkeypatch.setattr(Delivery, "_convert", dropped)
    to = postgresql.table("released")
    done = run("anonymize", postgresql.table("patients"), "-p", policy, "-o", tmp_path / "out", "--to", to)
    assert done.exit_code == 2
    assert done.stderr.startswith("shoal: cannot write PostgreSQL table 'released': ")
    assert done.stderr.endswith("; nothing was published\n")
    assert names(tmp_path) == {"policy.yaml"}
    assert postgresql.tables() == {"patients"}


def test_the_connection_breaks_at_the_commit(postgresql, policy, tmp_path, monkeypatch):
    postgresql.patients()
    commit = PostgreSQL.commit

    def broken(self):
        assert (tmp_path / "out" / "unverified").is_dir()
        assert not (tmp_path / "out" / "public").exists()
        postgresql.execute(OTHERS)
        commit(self)

    monkeypatch.setattr(PostgreSQL, "commit", broken)
    to = postgresql.table("released")
    done = run("anonymize", postgresql.table("patients"), "-p", policy, "-o", tmp_path / "out", "--to", to)
    assert done.exit_code == 2
    assert done.stderr.startswith("shoal: cannot write PostgreSQL table 'released': ")
    assert names(tmp_path) == {"policy.yaml"}
    assert postgresql.tables() == {"patients"}


def test_the_connection_breaks_just_after_the_commit(postgresql, policy, tmp_path, monkeypatch):
    """The server has committed though the answer is lost: the table is there, so the release is published."""
    postgresql.patients()
    commit = PostgreSQL.commit

    def lost(self):
        commit(self)
        raise self.failures[0]("the answer is lost", status_code=10)

    monkeypatch.setattr(PostgreSQL, "commit", lost)
    to = postgresql.table("released")
    done = run("anonymize", postgresql.table("patients"), "-p", policy, "-o", tmp_path / "out", "--to", to)
    assert (done.exit_code, done.stderr) == (0, "")
    assert postgresql.execute("SELECT count(*) FROM released") == [(120,)]
    assert (tmp_path / "out" / "public" / "data.parquet").is_file()


def test_a_server_that_is_gone_at_the_commit_leaves_a_doubt_that_is_told(postgresql, policy, tmp_path, monkeypatch):
    postgresql.patients()

    def gone(self):
        def refuse(*_, **__):
            raise self.failures[0]("no server listens", status_code=10)

        monkeypatch.setattr(self._driver, "connect", refuse)
        raise self.failures[0]("gone", status_code=10)

    monkeypatch.setattr(PostgreSQL, "commit", gone)
    to = postgresql.table("released")
    done = run("anonymize", postgresql.table("patients"), "-p", policy, "-o", tmp_path / "out", "--to", to)
    assert done.exit_code == 2
    assert "see whether the table is there, and drop it" in done.stderr
    assert names(tmp_path) == {"policy.yaml"}


def test_a_folder_that_cannot_be_put_in_place_takes_the_table_with_it(database, policy, tmp_path, monkeypatch):
    database.patients()
    before = names(tmp_path)
    rename = Path.rename
    seen = []

    def failing(self, target):
        if self.name == "unverified":
            seen.extend(database.tables() if database.kind != "duckdb" else ["new"])  # it has one user at a time
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    done = run(
        "anonymize", database.table("patients"), "-p", policy, "-o", tmp_path / "out", "--to", database.table("new")
    )
    assert done.exit_code == 2
    assert "cannot move the release" in done.stderr
    assert "new" in seen, "it was committed"
    assert database.tables() == {"patients"}
    assert names(tmp_path) == before


def test_a_destination_is_refused_before_any_work(database, policy, tmp_path):
    database.patients()
    taken = run(
        "anonymize", tmp_path / "none.csv", "-p", policy, "-o", tmp_path / "out", "--to", database.table("patients")
    )
    assert taken.exit_code == 2
    assert "exists already" in taken.stderr
    csv = run(
        "anonymize", "none.csv", "-p", policy, "-o", tmp_path / "o", "--to", database.table("new"), "--format", "csv"
    )
    assert "kept as Parquet" in csv.stderr
    query = run("anonymize", "none.csv", "-p", policy, "-o", tmp_path / "o", "--to", database.table("SELECT 1"))
    assert "not to a query" in query.stderr
    fine = run("anonymize", tmp_path / "none.csv", "-p", policy, "-o", tmp_path / "out", "--to", database.table("new"))
    assert "there is no file" in fine.stderr
    assert database.tables() == {"patients"}


def test_killed_while_rows_are_sent(database, policy, tmp_path):
    database.patients()
    arguments = [sys.executable, "-c", HANGING, "anonymize", database.table("patients"), "-p", policy]
    arguments += ["-o", tmp_path / "out", "--to", database.table("released")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "sent\n"
        finally:
            process.send_signal(signal.SIGKILL)
        process.communicate()
    assert not (tmp_path / "out").exists()
    limit = time.monotonic() + 30
    while database.kind == "postgresql" and len(database.execute(OTHERS.replace("pg_terminate_backend(pid)", "1"))):
        assert time.monotonic() < limit, "the server sees that its client is gone"
        time.sleep(0.05)
    assert database.tables() == {"patients"}
    assert open_source(database.table("patients")).n_rows == 120


def test_killed_between_the_commit_and_the_name(database, policy, tmp_path):
    """What is left is no public folder, and who tries again is told what to remove."""
    database.patients()
    arguments = ["anonymize", database.table("patients"), "-p", policy, "-o", tmp_path / "out"]
    arguments += ["--to", database.table("released")]
    cut = subprocess.run([sys.executable, "-c", CUT_OFF, *arguments], capture_output=True, timeout=120, check=False)
    assert (cut.returncode, cut.stdout, cut.stderr) == (-signal.SIGKILL, b"", b"")
    assert names(tmp_path / "out") == {"internal", "unverified"}
    assert database.tables() == {"patients", "released"}
    again = run(*arguments)
    assert again.exit_code == 2
    assert again.stderr == (
        f"shoal: {tmp_path}/out is left from a run that was stopped at its very end, and is not published: remove it. "
        "If that run wrote to a database, drop its new table too\n"
    )
    shutil.rmtree(tmp_path / "out")
    again = run(*arguments)
    assert again.exit_code == 2
    assert again.stderr.endswith(" table 'released' exists already; shoal never overwrites: choose another name\n")
    database.execute("DROP TABLE released")
    assert run(*arguments).exit_code == 0
    assert database.execute("SELECT count(*) FROM released") == [(120,)]
    assert names(tmp_path / "out") == {"internal", "public"}


def test_a_full_temporary_disk(database, policy, tmp_path):
    database.patients()
    database.execute("CREATE TABLE many (patient text)")
    filled = (
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) SELECT i * 7919 % 60001 FROM n"
    )
    database.execute(f"INSERT INTO many {filled}")
    arguments = [sys.executable, "-c", LIMITED, "50000", COMMAND, "audit", database.table("many"), "-p", policy]
    if database.kind == "duckdb":  # it looks at its own file only
        arguments[3] = "60000"
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        "shoal: cannot keep rows in a temporary file: File too large; "
        "the variable TMPDIR names a folder with more space\n"
    )


def test_what_is_sent_is_what_was_verified(database, policy, tmp_path, monkeypatch):
    """The rows come from the verified file, not from the plan a second time."""
    database.patients()
    read = []
    opened = pq.ParquetFile

    def noted(path, **options):
        read.append(Path(path).parent.name)
        return opened(path, **options)

    monkeypatch.setattr("shoal.sources.databases.tables.pq.ParquetFile", noted)
    done = run(
        "anonymize", database.table("patients"), "-p", policy, "-o", tmp_path / "out", "--to", database.table("new")
    )
    assert done.exit_code == 0, done.stderr
    assert "unverified" in read


def test_memory_that_runs_out_is_no_fault_of_the_database(database, policy, tmp_path, monkeypatch):
    database.patients()

    def exhausted(*_):
        raise pa.ArrowMemoryError("malloc of size 4194368 failed")

    monkeypatch.setattr("shoal.sources.databases.base.Connection.find", exhausted)
    done = run("anonymize", database.table("patients"), "-p", policy, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert re.match("shoal: out of memory.*; nothing was published", done.stderr)
    with connect(DatabaseTable.of(database.table("patients"))) as connection:
        for explaining in (connection._reading, connection._writing):
            with pytest.raises(MemoryError), explaining():
                exhausted()
