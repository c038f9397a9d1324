"""``shoal studio`` as people run it: where it listens, what it says, and that nothing is left however it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from shoal.core.errors import InputError, UsageError
from shoal.studio.application import serve

COMMAND = Path(sys.executable).with_name("shoal")
RUNNING = """
import sys, time
from pathlib import Path
from shoal.studio.reading import Reading
from shoal.studio.studio import PrivateFolder
from shoal.studio.studio import Studio
studio = Studio(PrivateFolder())
table = Path(sys.argv[1])
project = studio.open(Reading(table.name, table), studio.new_folder())
job = studio.jobs.start(project, "waiting", ["studio", "--no-browser"])
print(job._process.pid, flush=True)
time.sleep(60)
"""


def rooms(folder: Path) -> list[Path]:
    return sorted(folder.rglob("shoal-studio-*"))


def until(true) -> None:
    for _ in range(1200):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen in a minute")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture
def temporary(tmp_path):
    """A folder for temporary files that nobody else uses."""
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


@pytest.fixture
def started(temporary):
    """Start a program whose temporary files are in a folder of its own; it is killed if the test leaves it running."""
    processes = []

    def start(*command: object) -> subprocess.Popen:
        environment = {**os.environ, "TMPDIR": str(temporary), "BROWSER": "false"}
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # also where the tests run under nohup
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def address(process) -> str:
    said = ""
    while "}" not in said:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        said += line
    return json.loads(said)["url"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
def test_it_serves_on_loopback_until_a_signal_and_leaves_nothing(started, temporary, small_table, number):
    process = started(COMMAND, "studio", small_table, "--no-browser", "--json")
    url = address(process)
    assert url.startswith("http://127.0.0.1:")
    with httpx.Client() as browser:
        entered = browser.get(url)
        landing = entered.text.partition("url=")[2].partition('"')[0]
        page = browser.get(httpx.URL(url).join(landing))
        assert page.status_code == 200
        assert "patients.csv" in page.text
        assert "server" not in page.headers
        assert httpx.get(url).status_code == 403, "the link worked once"
    (room,) = rooms(temporary)
    assert room.stat().st_mode & 0o777 == 0o700
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (0, "", "")
    assert rooms(temporary) == []
    assert small_table.exists()


def test_a_port_that_is_taken_and_a_table_that_is_none(temporary, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(UsageError, match=r"cannot listen on 127\.0\.0\.1"),
    ):
        serve(taken.getsockname()[1], None, pytest.fail)
    with pytest.raises(InputError, match="there is no file"):
        serve(0, temporary / "none.csv", pytest.fail)
    assert rooms(temporary) == []


def test_runs_end_with_a_studio_that_is_killed(started, temporary, small_table):
    """The run, a studio itself here, sees that its pipe is closed, and ends in order; the room goes later."""
    process = started(sys.executable, "-c", RUNNING, small_table)
    pid = int(process.stdout.readline())
    until(lambda: len(rooms(temporary)) == 2)
    outer, inner = rooms(temporary)
    assert inner.is_relative_to(outer), "what a run makes for a while is where it goes with the studio"
    assert not gone(pid)
    process.kill()
    process.wait()
    until(lambda: gone(pid))
    assert len(rooms(temporary)) == 1, "the run removed its own"
    process = started(COMMAND, "studio", "--no-browser", "--json")
    address(process)
    assert len(rooms(temporary)) == 1
    process.terminate()
    process.communicate(timeout=300)
    assert rooms(temporary) == []
