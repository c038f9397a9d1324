"""The walk-through of two hospitals and an agency runs as it is printed: every command, in order, with its output."""

from __future__ import annotations

import contextlib
import csv
import doctest
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "two-hospitals.md"
PORT = "8321"  # on the page; a free one is taken in its place
MARK = "\x1e"
SECONDS = 1200
READY = f"for _ in $(seq 1200); do (exec 3<> /dev/tcp/127.0.0.1/{PORT}) 2> /dev/null && break; sleep 0.1; done"


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the page and what the page says of its output."""

    command: str
    output: str


def steps(text: str) -> list[Step]:
    """Read the commands of a page: ``$`` begins one, ``>`` goes on, everything else is output."""
    found: list[list[str]] = []
    for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append([line[2:], ""])
            elif line.startswith("> "):
                found[-1][0] += f"\n{line[2:]}"
            else:
                found[-1][1] += f"{line}\n"
    return [Step(*entry) for entry in found]


def script(page: list[Step]) -> str:
    """Write one shell script that says after each command how it ended."""
    lines = []
    for step in page:
        lines.append(f"{step.command}\nprintf '{MARK}%s{MARK}\\n' $?")
        if step.command.endswith("&"):
            lines.append(READY)
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def stated() -> list[Step]:
    return steps(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("two-hospitals")


@pytest.fixture(scope="module")
def happened(stated: list[Step], folder: Path) -> list[tuple[str, int]]:
    """Run the whole page in one shell; return output and exit code of each command."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    program = folder / "page.sh"
    program.write_text(script(stated).replace(PORT, port), encoding="utf-8")
    bin_folder = str(Path(sys.executable).parent)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_AGENCY")}
    environment |= {"PATH": f"{bin_folder}:{os.environ['PATH']}", "PYTHONUTF8": "1", "COLUMNS": "200", "NO_COLOR": "1"}
    with subprocess.Popen(
        ["bash", "--noprofile", "--norc", str(program)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    ) as shell:
        try:
            said, _ = shell.communicate(timeout=SECONDS)
        finally:  # the service too, if the page did not come to its end
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    pieces = said.decode("utf-8").replace(port, PORT).split(MARK)
    return [(output.lstrip("\n"), int(code)) for output, code in zip(pieces[::2], pieces[1::2], strict=False)]


def test_every_command_of_the_page_was_run(stated: list[Step], happened: list[tuple[str, int]]) -> None:
    assert len(stated) > 20
    assert len(happened) == len(stated)


def test_every_command_ends_and_says_what_the_page_says(stated: list[Step], happened: list[tuple[str, int]]) -> None:
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for step, (output, code) in zip(stated, happened, strict=True):
        refused = step.output.startswith("shoal:")
        assert (code != 0) == refused, f"{step.command}\nended with {code}\n{output}"
        if step.output:
            assert checker.check_output(step.output, output, flags), f"{step.command}\n{output}"


def test_the_agency_was_told_no_rows(folder: Path, happened: list[tuple[str, int]]) -> None:
    assert happened
    patients = [line.split(",")[0].encode() for line in (folder / "shared.csv").read_text().splitlines()[1:]]
    kept = b"".join(path.read_bytes() for path in folder.glob("agency.*"))
    tokens = [path.read_bytes().strip() for path in folder.glob("*.token")]
    assert len(kept) > 10_000
    assert len(tokens) == 4
    assert not any(secret in kept for secret in (*patients, *tokens))
    assert not (folder / "north" / "too-early").exists()
    assert sorted(path.name for path in (folder / "north" / "agreed" / "public").iterdir()) == [
        "README.md",
        "data.csv",
        "manifest.json",
        "plan.json",
        "report.html",
    ]


def test_the_figures_of_the_table_are_those_of_the_releases(folder: Path, happened: list[tuple[str, int]]) -> None:
    assert happened
    (table,) = re.findall(r"^\| \| each for itself \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(), flags=re.MULTILINE)
    kept = {
        kind: " and ".join(
            f"{json.loads((folder / name / kind / 'public' / 'manifest.json').read_text())['utility']['um']:.0%}"
            for name in ("north", "south")
        )
        for kind in ("alone", "agreed")
    }
    assert f"| precision of labels, `um` | {kept['alone']} | {kept['agreed']} |" in table
    shared = [line.partition(",")[2] for line in (folder / "shared.csv").read_text().splitlines()[1:]]
    for name in ("north", "south"):
        stays = {line.partition(",")[2] for line in (folder / name / "stays.csv").read_text().splitlines()}
        assert len(shared) == 1000
        assert stays.issuperset(shared)
    young = Counter(
        row["diagnosis"]
        for name in ("north", "south")
        for row in csv.DictReader((folder / name / "agreed" / "public" / "data.csv").read_text().splitlines())
        if row["class"] == "1"
    )
    assert young.most_common(1)[0][1] / young.total() == pytest.approx(2 / 3, abs=0.03)


def test_the_page_lists_every_command_of_the_agency() -> None:
    from shoal.cli.agency import app

    _, _, table = PAGE.read_text(encoding="utf-8").partition("## All commands")
    for command in app.registered_commands:
        assert re.search(rf"`(shoal agency )?{command.name}[ `]", table), command.name
