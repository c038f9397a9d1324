"""A ledger whose runs are killed, come at the same time, find no room, or whose bytes are spoiled."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

import shoal
from shoal.core.errors import InputError, ShoalError, UnreachableError, UsageError
from shoal.core.progress import Silent
from shoal.linking.ledger import book
from shoal.linking.ledger.book import Ledger
from shoal.linking.ledger.checking import check, overview
from shoal.linking.ledger.records import LedgerOptions

COMMAND = Path(sys.executable).with_name("shoal")
PEOPLE = "x,y,illness\n" + "a,a,flu\na,b,gout\nb,a,cold\nb,b,ulcer\n" * 4
POLICY = """\
attributes:
  x: {{role: {x}}}
  y: {{role: {y}}}
  illness: {{role: sensitive}}
privacy:
  - distinct-l-diversity: {{l: 2}}
"""
# A run that is killed when it calls the function that its first argument names, before or after the call.
KILLED = """
import importlib, os, signal, sys
module, owner, name, when = sys.argv[1].split(":")
owner = getattr(importlib.import_module(module), owner)
original = getattr(owner, name)
def killed(*arguments, **options):
    result = original(*arguments, **options) if when == "after" else None
    os.kill(os.getpid(), signal.SIGKILL)
    return result
setattr(owner, name, killed)
sys.argv[:2] = ["shoal"]
from shoal.cli import main
main()
"""
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execv(sys.argv[2], sys.argv[2:])
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table, and two policies by which it can be published, but not by both."""
    (tmp_path / "people.csv").write_text(PEOPLE)
    (tmp_path / "rows.yaml").write_text(POLICY.format(x="quasi", y="identifier"))
    (tmp_path / "columns.yaml").write_text(POLICY.format(x="identifier", y="quasi"))
    return tmp_path


def arguments(policy: str, out: str, *, ledger: str = "ledger.db") -> list[str]:
    return ["anonymize", "people.csv", "-p", f"{policy}.yaml", "-o", out, "--ledger", ledger]


def run(place: Path, *before: object, words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, before), *words],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def killed(place: Path, where: str, words: list[str]) -> None:
    done = run(place, sys.executable, "-c", KILLED, where, words=words)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGKILL, "", "")


def publish(place: Path, policy: str, out: str, *, ledger: str = "ledger.db", warn: bool = False) -> None:
    options = LedgerOptions(place / ledger, warn=warn)
    shoal.anonymize(place / "people.csv", place / f"{policy}.yaml", out=place / out, ledger=options)


def statuses(place: Path) -> list[str]:
    with Ledger.open(place / "ledger.db") as ledger:
        return [entry.status for entry in ledger.entries()]


def test_killed_when_some_of_a_transaction_is_on_the_disk(place: Path) -> None:
    """Who only reads must see the ledger as it was, too."""
    publish(place, "rows", "rows")
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from shoal.linking.ledger.book import connect, transaction\n"
        "with connect(Path('ledger.db'), write=True) as ledger:\n"
        "    ledger.execute('PRAGMA cache_size = 1')\n"
        "    with transaction(ledger):\n"
        "        rows = [('limits', i, f'{i}' * 999, '') for i in range(2, 99)]\n"
        "        ledger.executemany('INSERT INTO record VALUES (?, ?, ?, ?)', rows)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert run(place, sys.executable, "-c", script, words=[]).returncode == -signal.SIGKILL
    assert (place / "ledger.db-journal").stat().st_size > 512
    shown = run(place, COMMAND, words=["ledger", "show", "ledger.db", "--json"])
    assert shown.returncode == 0, shown.stderr
    assert [entry["status"] for entry in json.loads(shown.stdout)["releases"]] == ["published"]


def test_killed_between_entry_and_publishing(place: Path) -> None:
    """The entry counts, since nobody can know: it is settled by hand."""
    killed(place, "shoal.release.release:Staging:publish:before", arguments("rows", "rows"))
    assert not (place / "rows").exists()
    assert statuses(place) == ["unfinished"]
    with pytest.raises(UnreachableError, match="unfinished"):
        publish(place, "columns", "columns")
    checked = run(place, COMMAND, words=["ledger", "check", "ledger.db"])
    assert checked.returncode == 0
    assert "Release 1 is unfinished and counts as published" in checked.stdout
    struck = run(place, COMMAND, words=["ledger", "strike", "ledger.db", "1", "--reason", "killed"])
    assert struck.returncode == 0, struck.stderr
    publish(place, "columns", "columns")
    assert statuses(place) == ["struck", "published"]


def test_killed_between_publishing_and_mark(place: Path) -> None:
    """The release is there, and linked with those that follow, settled or not."""
    killed(place, "shoal.release.release:Staging:publish:after", arguments("rows", "rows"))
    assert (place / "rows" / "public" / "data.csv").is_file()
    assert statuses(place) == ["unfinished"]
    with pytest.raises(UnreachableError, match="unfinished"):
        publish(place, "columns", "columns")
    (found,) = check(place / "ledger.db", None, None, Silent())
    assert found.settled == (1,)
    assert statuses(place) == ["published"]
    with pytest.raises(UnreachableError):
        publish(place, "columns", "columns")


def test_runs_at_the_same_time(place: Path) -> None:
    """Either of two that collide may be first; the other sees it and is refused. A third is let through, and linked."""
    runs = [arguments("rows", "rows"), arguments("columns", "columns"), [*arguments("columns", "third"), "--warn"]]
    started = [
        subprocess.Popen([COMMAND, *words], cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for words in runs
    ]
    ended = []
    for process in started:
        try:
            ended.append((process.communicate(timeout=120)[1], process.returncode))
        finally:
            process.kill()
    codes = [code for _, code in ended]
    assert codes[2] == 0, ended
    assert sorted(codes[:2]) in ([0, 3], [3, 3]) or codes[:2] == [3, 0], ended
    with Ledger.open(place / "ledger.db") as ledger:
        entries, evaluations = ledger.entries(), ledger.evaluations()
    assert len(entries) == codes.count(0)
    assert {entry.status for entry in entries} == {"published"}
    together = {each.releases for each in evaluations}
    assert {(one, other.number) for other in entries for one in range(1, other.number)} <= together


def test_no_room_for_a_ledger(place: Path) -> None:
    done = run(place, sys.executable, "-c", LIMITED, 20_000, COMMAND, words=arguments("rows", "rows"))
    message = "shoal: cannot read or write the ledger ledger.db; is there room on the disk?; nothing was published\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    assert not (place / "rows").exists()
    publish(place, "rows", "rows")  # what is left of it does no harm


def test_no_room_for_an_entry(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(place, "rows", "rows")
    before = (place / "ledger.db").read_bytes()
    bring_up = book._bring_up

    def full(connection: sqlite3.Connection, *arguments: object, **options: object) -> None:
        bring_up(connection, *arguments, **options)
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are

    monkeypatch.setattr(book, "_bring_up", full)
    monkeypatch.setattr("shoal.linking.ledger.records.zlib.compress", lambda *_: bytes(10_000))
    with pytest.raises(UsageError, match=r"is there room on the disk\?; nothing was published"):
        publish(place, "rows", "again")
    assert not (place / "again").exists()
    assert (place / "ledger.db").read_bytes() == before


def read_all(path: Path, back: Path) -> object:
    """Read everything that decides about a later release."""
    with Ledger.open(path) as ledger:
        for entry in ledger.entries():
            folder = back / str(len(list(back.iterdir())))
            folder.mkdir()
            ledger.unpack(entry, folder)
        return overview(ledger), ledger.look_at("everybody"), ledger.evaluations()


def test_spoiled_bytes_are_found_or_change_nothing(place: Path, tmp_path: Path) -> None:
    for name in ("rows", "columns"):
        publish(place, name, name, warn=True)
    back = tmp_path / "back"
    back.mkdir()
    whole = read_all(place / "ledger.db", back)
    content = (place / "ledger.db").read_bytes()
    rng = random.Random(3)
    used = [place for place, byte in enumerate(content) if byte]  # most of the file is free space
    found = 0
    for _ in range(300):
        spoiled = bytearray(content)
        spoiled[rng.choice(used)] ^= 1 << rng.randrange(8)
        (place / "spoiled.db").write_bytes(spoiled)
        try:
            assert read_all(place / "spoiled.db", back) == whole
        except ShoalError:
            found += 1
    assert found > 150  # the rest is indexes, triggers, and rows of old versions of a page


def test_records_that_a_damaged_page_hides_are_found(place: Path) -> None:
    """The page of the index says that it has one entry less: the last settlement, which seals cannot miss."""
    publish(place, "rows", "rows")
    path = place / "ledger.db"
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name LIKE '%autoindex_record%'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    n_cells = (root - 1) * size + 4  # the low byte of the number of entries of the page
    assert content[n_cells] == 4
    content[n_cells] -= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="is spoiled"), Ledger.open(path):
        pass


@pytest.mark.parametrize("field", ["population", "at", "recipient", "guarantees", "files", "rows"])
def test_a_changed_entry_is_found(place: Path, field: str) -> None:
    publish(place, "rows", "rows")
    statement = f"UPDATE record SET content = json_set(content, '$.{field}', 7) WHERE kind = 'entry'"
    change(place / "ledger.db", "DROP TRIGGER record_update", statement)
    with pytest.raises(InputError, match="is spoiled"):
        publish(place, "rows", "again")
    assert not (place / "again").exists()


@pytest.mark.parametrize("kind", ["entry", "limits", "settlement", "evaluation", None])
def test_a_missing_row_is_found(place: Path, kind: str | None) -> None:
    for name in ("first", "second"):
        publish(place, "rows", name)
    table = "piece" if kind is None else "record"
    which = "rowid = 1" if kind is None else f"kind = '{kind}' AND number = 1"
    change(place / "ledger.db", f"DROP TRIGGER {table}_delete", f"DELETE FROM {table} WHERE {which}")
    if kind == "evaluation":
        with pytest.raises(InputError, match="is spoiled"):
            check(place / "ledger.db", None, None, Silent())
        return
    with pytest.raises(InputError, match="is spoiled"):
        publish(place, "rows", "again")
    with pytest.raises(InputError, match="is spoiled"):
        check(place / "ledger.db", None, None, Silent())


def test_an_exchanged_entry_is_found(place: Path) -> None:
    """The entry of another ledger is sealed well, but the next one does not follow it."""
    for ledger in ("ledger.db", "other.db"):
        publish(place, "rows", f"first-{ledger}", ledger=ledger)
        publish(place, "rows", f"second-{ledger}", ledger=ledger)
    other = place / "other.db"
    with Ledger.open(place / "ledger.db") as ledger:
        assert len(ledger.entries()) == 2
    change(
        place / "ledger.db",
        "DROP TRIGGER record_delete",
        "DELETE FROM record WHERE kind = 'entry' AND number = 1",
        f"ATTACH '{other}' AS other",
        "INSERT INTO main.record SELECT * FROM other.record WHERE kind = 'entry' AND number = 1",
    )
    with Ledger.open(place / "ledger.db") as ledger, pytest.raises(InputError, match="is spoiled"):
        ledger.entries()


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
