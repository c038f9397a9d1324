"""Stopped while it works: an interrupted or killed run publishes nothing, and what it leaves shows nothing."""

from __future__ import annotations

import os
import pkgutil
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from shoal.cli import app
from shoal.cli.console import reporting
from shoal.core.errors import UsageError
from shoal.datasets.hospital import hospital_policy
from shoal.datasets.hospital_files import write_stays
from shoal.linking.ledger.book import Ledger
from shoal.release.release import Staging
from shoal.sources.opening import open_source

COMMAND = Path(sys.executable).with_name("shoal")
N_STAYS = 150_000

# A shell that runs the tests in the background has interrupts ignored, and children inherit that.
HEARING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"


@pytest.fixture(scope="module")
def stays(tmp_path_factory):
    """A table that takes seconds, and its policy."""
    folder = tmp_path_factory.mktemp("stays")
    write_stays(folder / "stays.csv", N_STAYS, seed=4)
    policy = yaml.safe_dump(hospital_policy(), sort_keys=False)
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    return folder


def staging(folder):
    return [path for path in folder.iterdir() if path.name.startswith(".out.")]


def wait_for(condition, process, what):
    """Wait until *condition* is true of the process, which must not end before."""
    limit = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, f"ended before {what}: {process.communicate()}"
        assert time.monotonic() < limit, f"no {what}"
        time.sleep(0.002)


def stop(stays, folder, number, *, written=False, switches=()):
    """Send a signal once the staging folder is there, or once the data file in it is; return how it ended."""
    folder.mkdir()
    arguments = [sys.executable, "-c", HEARING, COMMAND, "anonymize", stays / "stays.csv"]
    arguments += ["-p", stays / "policy.yaml", "-o", folder / "out", *switches]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: staging(folder), process, "staging folder")
            if written:
                wait_for(lambda: list(folder.glob(".out.*/unverified/data.csv")), process, "data file")
            process.send_signal(number)
            said, complained = process.communicate(timeout=60)
        finally:
            process.kill()
    return process.returncode, said, complained


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminate"])
def test_interrupted_while_rewriting(stays, tmp_path, number):
    ended = stop(stays, tmp_path / "here", number)
    assert ended == (130, "", "shoal: interrupted; nothing was published\n")
    assert list((tmp_path / "here").iterdir()) == []


def test_interrupted_while_writing_or_verifying(stays, tmp_path):
    ended = stop(stays, tmp_path / "here", signal.SIGINT, written=True, switches=["--json"])
    assert ended[0] == 130
    assert '"exit_code": 130' in ended[1]
    assert ended[2] == ""
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("written", [False, True], ids=["rewriting", "writing or verifying"])
def test_killed(stays, tmp_path, written):
    code, said, complained = stop(stays, tmp_path / "here", signal.SIGKILL, written=written)
    assert (code, said, complained) == (-signal.SIGKILL, "", "")
    (left,) = (tmp_path / "here").iterdir()
    assert left.name.startswith(".out.")
    assert left.name.endswith(".staging")
    assert left.stat().st_mode & 0o077 == 0, "nobody else can look into it"
    assert not list(left.rglob("public"))


def interrupted_in_a_kernel():
    """Do as compiled code does into which an interrupt falls."""
    with reporting(json_output=False):
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise SystemError("a kernel returned a result with an exception set") from None


def test_interrupt_that_compiled_code_turns_into_another_error(capfd):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(typer.Exit) as stopped:
        interrupted_in_a_kernel()
    assert stopped.value.exit_code == 130
    assert capfd.readouterr() == ("", "shoal: interrupted; nothing was published\n")
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_unforeseen_error_is_named_but_not_quoted(capsys):
    with pytest.raises(typer.Exit) as stop, reporting(json_output=False):
        raise RuntimeError("cannot convert 'Zaphod-4711'")
    assert stop.value.exit_code == 1
    said = capsys.readouterr().err
    assert re.search(r"unexpected RuntimeError at test_interrupts.py:\d+; nothing was published", said)
    assert "Zaphod" not in said


def test_interrupted_while_the_staging_folder_is_made(tmp_path, monkeypatch):
    made = []
    make = Path.mkdir

    def interrupted(self, *arguments, **switches):
        make(self, *arguments, **switches)
        made.append(self.name)
        if self.name == "unverified":
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "mkdir", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Staging(tmp_path / "out").__enter__()
    assert "unverified" in made
    assert list(tmp_path.iterdir()) == []


PEOPLE = "age,illness\n" + "20,flu\n20,gout\n60,flu\n60,cold\n" * 4
POLICY = "attributes: {age: {role: quasi}, illness: {role: sensitive}}\nprivacy:\n  - k-anonymity: {k: 2}\n"
TOO_LATE = (
    "shoal.release.release.Staging.publish:1",
    *(f"pathlib.Path.rename:{step}" for step in (1, 2)),
    *(f"shoal.release.release._sync_folder:{step}" for step in (1, 3, 4, 5)),
    "shoal.sources.databases.tables.Delivery.commit:1",
    "shoal.linking.ledger.book._settle:1",
    "shoal.cli.anonymize.show_release:1",
)


@pytest.fixture
def signalled(tmp_path, monkeypatch):
    """Run with a signal after the n-th call of a function; return how it ended, and what the ledger says."""
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def run(step, number):
        name, _, times = step.partition(":")
        owner, _, function = name.rpartition(".")
        module, calls = pkgutil.resolve_name(owner), []
        original = getattr(module, function)

        def calling(*arguments, **options):
            result = original(*arguments, **options)
            calls.append(step)
            if len(calls) == int(times):
                signal.raise_signal(number)
            return result

        monkeypatch.setattr(module, function, calling)
        words = ["anonymize", "people.csv", "-p", "policy.yaml", "-o", "out", "--ledger", "ledger.db"]
        done = CliRunner().invoke(app, [*words, "--to", "sqlite:///out.db#released"])
        with Ledger.open(tmp_path / "ledger.db") as ledger:
            return done, [entry.status for entry in ledger.entries()]

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
    yield run
    signal.signal(signal.SIGINT, before)


def test_a_signal_just_before_anything_is_published(tmp_path, signalled):
    done, statuses = signalled("shoal.reports.internal.internal_report:1", signal.SIGINT)
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr == "shoal: interrupted; nothing was published\n"
    assert statuses == ["struck"]
    assert not {"out", "out.db"} & {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("step", TOO_LATE)
def test_a_signal_in_any_step_of_publishing_comes_too_late(tmp_path, signalled, step):
    number = signal.SIGTERM if "rename" in step else signal.SIGINT
    done, statuses = signalled(step, number)
    assert (done.exit_code, done.stderr) == (0, "shoal: interrupted too late: the release in out is published\n")
    assert "published" in done.stdout
    assert statuses == ["published"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"internal", "public"}
    assert open_source(f"sqlite:///{tmp_path}/out.db#released").n_rows == 16


def test_an_error_after_publishing_does_not_say_that_nothing_was_published(tmp_path, capsys):
    def spoil():
        with reporting(json_output=False, folder=tmp_path / "out"):
            (tmp_path / "out" / "public").mkdir(parents=True)
            raise MemoryError

    with pytest.raises(typer.Exit):
        spoil()
    assert capsys.readouterr().err == f"shoal: out of memory; the release in {tmp_path}/out is published\n"


def test_names_that_cannot_be_seen_onto_the_disk_leave_nothing(tmp_path, monkeypatch):
    """Not even for a moment: who looks whether the release is in place must not find it."""
    synced = []

    def failing(folder):
        synced.append(folder.name)
        if len(synced) == 5:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("shoal.release.release._sync_folder", failing)
    with Staging(tmp_path / "out") as staging:
        with pytest.raises(UsageError, match="cannot move the release"):
            staging.publish()
        assert list(tmp_path.iterdir()) == []
    assert synced[:3] == ["unverified", "internal", staging_name(synced)]
    assert synced[3:] == [tmp_path.name, "out"]


def staging_name(synced):
    return next(name for name in synced if name.endswith(".staging"))


def test_what_killed_runs_left_is_removed_by_the_next_of_the_same_user(tmp_path):
    left = tmp_path / f".other.{'0' * 32}.staging"
    foreign, young = left.with_name(f".x.{'1' * 32}.staging"), left.with_name(f".x.{'2' * 32}.staging")
    for folder in (left, foreign):
        (folder / "internal").mkdir(parents=True)
    young.mkdir()  # its run has not locked it yet
    (tmp_path / ".mine.staging").mkdir()
    if os.geteuid() == 0:
        os.chown(foreign, 4711, 4711)
    else:
        foreign.rmdir()
    before = {path.name for path in tmp_path.iterdir()} - {left.name}
    with Staging(tmp_path / "first"), Staging(tmp_path / "second") as second:
        assert second.folder.is_dir()
        assert sum(".first." in path.name for path in tmp_path.iterdir()) == 1, "its run lives"
        assert not left.exists()
    assert {path.name for path in tmp_path.iterdir()} == before
