"""Runs: progress, answers, failures, cancelling, and that nothing of them is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shoal.core.errors import UsageError
from shoal.studio import jobs as jobs_module


def anonymizing(project, folder):
    return ["anonymize", project.source, "-p", project.write_policy(), "-o", folder / "release"]


@pytest.fixture
def instead(monkeypatch):
    """Let runs be those of another program: ``instead(program)``."""
    real = subprocess.Popen

    def run(program: str) -> None:
        started = [sys.executable, "-c", program]
        monkeypatch.setattr(jobs_module.subprocess, "Popen", lambda command, **more: real(started, **more))

    return run


@pytest.fixture
def slow(instead):
    """Let every run be a program that waits, says so, and tidies up when interrupted."""
    instead(
        "import json, sys, time, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "told = dict(step='waiting', done=1, total=4, unit='rows', ended=False)\n"
        "print(json.dumps(told), file=sys.stderr, flush=True)\n"
        "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n"
        "    print('tidying', file=sys.stderr, flush=True)\n    time.sleep(0.2)\n    sys.exit(130)\n"
    )


def until(true):
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen in half a minute")


def test_a_run_that_succeeds_then_one_that_fails(studio, project):
    folder = project.new_folder("run")
    job = studio.jobs.start(project, "anonymize", anonymizing(project, folder), folder)
    assert job.command == "shoal anonymize patients.csv -p policy.yaml -o release"
    failing = project.new_folder("run")
    document = project.document
    document["privacy"] = [{"k-anonymity": {"k": 121}}]
    project.change(project.revision, document)
    policy = project.write_policy()
    other = studio.jobs.start(
        project, "anonymize", ["anonymize", project.source, "-p", policy, "-o", failing / "x"], failing
    )
    assert job.finished.wait(300)
    assert (job.state, job.exit_code, job.message) == ("done", 0, "")
    assert job.answer["verified"] is True
    assert (folder / "release" / "public" / "manifest.json").is_file()
    assert [step.title for step in job.steps]
    assert all(step.ended for step in job.steps)
    assert other.finished.wait(300)
    assert (other.state, other.exit_code) == ("failed", 3)
    assert "k = 121" in other.message
    assert not failing.exists()
    assert project.jobs_of() == [other, job]
    assert job in project.jobs
    assert str(studio.folder) not in job.command + other.message


def test_cancelling_leaves_nothing(studio, project, slow):
    folder = project.new_folder("run")
    (folder / ".staging").mkdir()
    job = studio.jobs.start(project, "anonymize", ["anonymize"], folder)
    until(lambda: job.steps)
    assert job.steps[0].title == "waiting"
    job.cancel()
    until(lambda: job._said)
    job.cancel()  # a second signal would interrupt the tidying up
    assert job.finished.wait(600)
    assert (job.state, job.exit_code) == ("cancelled", 130)
    assert not folder.exists()


def test_what_does_not_stop_is_ended(studio, project, monkeypatch, instead):
    monkeypatch.setattr(jobs_module, "_PATIENCE", 0.3)
    instead(
        "import os, signal, sys, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "if child:\n    print(child, file=sys.stderr, flush=True)\n"
        "time.sleep(60)\n"
    )
    job = studio.jobs.start(project, "anonymize", ["anonymize"])
    until(lambda: job._said)
    child = int(job._said[0])
    job.cancel()
    assert job.finished.wait(600)
    assert job.state == "cancelled"
    until(lambda: gone(child))


def test_what_a_run_started_and_left_is_ended(studio, project, instead):
    """The command ends by itself, and a process of its group would go on."""
    instead(
        "import os, sys, time\nchild = os.fork()\n"
        "if child:\n    print(child, file=sys.stderr, flush=True)\n    sys.exit(2)\n"
        "time.sleep(60)\n"
    )
    job = studio.jobs.start(project, "anonymize", ["anonymize"])
    assert job.finished.wait(600)
    assert (job.state, job.exit_code) == ("failed", 2)
    until(lambda: gone(int(job.message)))


def test_what_the_verifier_refuses_is_the_reason(studio, project, instead):
    answer = {
        "verified": False,
        "checks": [{"ok": True, "detail": "fine"}, {"ok": False, "detail": "a file is missing"}],
    }
    instead(f"import sys\nprint({json.dumps(answer)!r})\nsys.exit(4)\n")
    job = studio.jobs.start(project, "verify", ["verify"])
    assert job.finished.wait(600)
    assert (job.state, job.message) == ("failed", "a file is missing")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_only_so_many_at_once(studio, project, slow):
    running = [studio.jobs.start(project, "wait", ["x"]) for _ in range(jobs_module.MOST_AT_ONCE)]
    folder = project.new_folder("run")
    with pytest.raises(UsageError, match="2 runs are in progress"):
        studio.jobs.start(project, "wait", ["x"], folder)
    assert not folder.exists()
    running[0].cancel()
    assert running[0].finished.wait(600)
    third = studio.jobs.start(project, "wait", ["x"])
    studio.jobs.close()
    assert third.state == running[1].state == "cancelled"
    with pytest.raises(UsageError):
        studio.jobs.start(project, "wait", ["x"])


def test_the_fragment_shows_progress_and_cancels(browser, project, slow):
    job = browser.studio.jobs.start(project, "wait", ["x"])
    until(lambda: job.steps)
    path = f"/projects/{project.id}/jobs/{job.id}"
    page = browser.get(path).text
    assert 'data-state="running"' in page
    assert '<progress id="step-' in page
    assert 'value="1" max="4"' in page
    assert "<html" not in page
    page = browser.post(f"{path}/cancel", swap=True).text
    assert 'data-state="cancelled"' in page
    assert browser.get(f"/projects/{project.id}/jobs/{'0' * 16}").status_code == 404


def test_a_command_that_nobody_watches_any_more_ends(small_table, tmp_path):
    """The pipe closes when the studio is killed; the command stops as if interrupted and publishes nothing."""
    program = (
        "import signal; from shoal.cli import watched\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler); watched._watch()"  # it may be ignored around here
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(20) == -signal.SIGINT
