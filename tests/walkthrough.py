"""Pages whose ``console`` blocks run as they are printed: every command in order, in one shell, with its output."""

from __future__ import annotations

import contextlib
import doctest
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PORT = "8321"  # on pages; a free one is taken in its place
MARK = "\x1e"
SECONDS = 1200
READY = f"for _ in $(seq 1200); do (exec 3<> /dev/tcp/127.0.0.1/{PORT}) 2> /dev/null && break; sleep 0.1; done"


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the page and what the page says of its output."""

    command: str
    output: str


def read_steps(text: str, *languages: str) -> list[Step]:
    """Read the commands of a page: ``$`` begins one, ``>`` goes on, everything else is output.

    Blocks of other *languages*, which is Python, are run in order with them.
    """
    found: list[list[str]] = []
    for language, block in re.findall(rf"```({'|'.join(['console', *languages])})\n(.*?)```", text, flags=re.DOTALL):
        if language == "python":
            found.append([f"python - <<'END'\n{block}END", "...\n"])
            continue
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append([line[2:], ""])
            elif line.startswith("> "):
                found[-1][0] += f"\n{line[2:]}"
            else:
                found[-1][1] += f"{line}\n"
    return [Step(*entry) for entry in found]


def write_script(page: list[Step]) -> str:
    """Write one shell script that says after each command how it ended."""
    lines = []
    for step in page:
        lines.append(f"{step.command}\nprintf '{MARK}%s{MARK}\\n' $?")
        if step.command.endswith("&"):
            lines.append(READY)
    return "\n".join(lines) + "\n"


def run_steps(page: list[Step], folder: Path, programs: Path | None = None) -> list[tuple[str, int]]:
    """Run a page in one shell; return output and exit code of each command.

    *programs* has the commands of another environment, in which nothing of this one is found.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    program = folder / "page.sh"
    program.write_text(write_script(page).replace(PORT, port), encoding="utf-8")
    bin_folder = str(programs or Path(sys.executable).parent)
    own = ("SHOAL_AGENCY",) if programs is None else ("SHOAL", "PYTHON", "NUMBA", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
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
        finally:  # a service too, if the page did not come to its end
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    pieces = said.decode("utf-8").replace(port, PORT).split(MARK)
    return [(output.lstrip("\n"), int(code)) for output, code in zip(pieces[::2], pieces[1::2], strict=False)]


def check_steps(page: list[Step], happened: list[tuple[str, int]]) -> None:
    """Every command ends well and says what the page says; one whose output begins with ``shoal:`` is refused."""
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for step, (output, code) in zip(page, happened, strict=True):
        refused = step.output.startswith("shoal:")
        assert (code != 0) == refused, f"{step.command}\nended with {code}\n{output}"
        if step.output:
            assert checker.check_output(step.output, output, flags), f"{step.command}\n{output}"
