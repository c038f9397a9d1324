"""Other programs beside shoal: their commands, their failures, and what is recorded of them."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.full_domain import Requirement
from bench.measuring import Finished
from bench.page import whole_table
from bench.peers import PLACEHOLDERS, Peer

from bench import full_domain

COPY = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2]); open(sys.argv[3], 'a').write(repr(sys.argv[4:]))"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table, with shoal's own command left out."""
    monkeypatch.setattr(full_domain, "command", lambda *_: Finished(0.5, 100.0))
    monkeypatch.setattr(full_domain, "policy", lambda *_: {})
    monkeypatch.setattr(Requirement, "fill", _fill)
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["age"], [30]])
    return path


def _fill(asked: Requirement, source: Path, written: Path, out: Path) -> dict[str, object]:
    given: dict[str, object] = dict.fromkeys(PLACEHOLDERS, "")
    return given | {"source": source, "policy": written, "out": out.with_suffix(".csv"), "k": 5, "t": asked.t or ""}


def _lines(source: Path, *peers: Peer) -> list[dict[str, Any]]:
    found = full_domain._whole("job", source, Requirement(1, 1, t=0.2), peers, (1, None))
    return [line.as_dict("2026-01-02") for line in found]


def test_a_peer_runs_on_the_same_files_as_often_as_shoal_and_is_recorded_by_its_name(source: Path) -> None:
    script, seen = source.with_name("copy.py"), source.with_name("seen")
    script.write_text(COPY)
    peer = Peer.parse(f"copy 1.0={sys.executable} {script} {{source}} {{out}} {seen} {{k}} {{l}} {{t}}")
    ours, theirs = _lines(source, peer)
    assert ours["job"] == "job: whole command"
    assert ours["within"] is True
    assert theirs["job"] == "job: by copy 1.0 (peer)"
    assert len(theirs["seconds"]) == len(ours["seconds"])
    assert min(theirs["seconds"]) > 0
    assert theirs["peak_mib"] > 1
    assert theirs["date"] == "2026-01-02"
    assert theirs["detail"]["peer"] == "copy 1.0"
    assert seen.read_text() == repr(["5", "", "0.2"]) * (len(theirs["seconds"]) + 1)  # the first turn does not count
    assert not source.with_name("out.csv").exists()


@pytest.mark.parametrize("does", ["raise SystemExit(3)", "pass"], ids=["error", "nothing written"])
def test_a_peer_that_fails_is_a_line_that_says_so(source: Path, does: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = source.with_name("fails.py")
    script.write_text(does)
    _, failed = _lines(source, Peer.parse(f"broken 2={sys.executable} {script} {{out}}"))
    assert failed["median"] is None
    assert "broken 2 failed: " in capsys.readouterr().out
    recorded = json.loads(Path("bench/results/latest.json").read_text(encoding="utf-8"))
    stated = whole_table({**recorded, "jobs": [json.loads(json.dumps(failed))]})
    assert "| job: by broken 2 (peer) | failed | - | - | - | - | 2026-01-02 |" in stated


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("arx", "a peer is given as NAME="),
        ("arx=", "a peer is given as NAME="),
        ("arx=python {sauce}", r"arx: there is no placeholder \{sauce\}; there are \{source\}, "),
        ("arx=python {source", "cannot be read"),
        ("arx=no-such-program-here {source}", "is not found"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused_before_anything_is_measured(given: str, message: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        Peer.parse(given)
