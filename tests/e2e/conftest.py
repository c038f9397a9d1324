"""The command, in this process and installed, and a small table of patients to run it on."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shoal.cli import app

Run = Callable[..., "subprocess.CompletedProcess[str]"]

COMMAND = Path(sys.executable).with_name("shoal")
COLUMNS = ("patient", "age", "sex", "town", "disease", "note")
N_PATIENTS = 120
SECRET = "Zaphod-4711"

POLICY = """\
attributes:
  patient: {role: identifier}
  age:     {role: quasi, taxonomy: {intervals: {min: 0, max: 120, widths: [5, 10, 20]}}}
  sex:     {role: quasi}
  town:    {role: quasi}
  disease: {role: sensitive}
  note:    {role: insensitive}
privacy:
  - k-anonymity: {k: 4}
  - distinct-l-diversity: {l: 2}
"""


@pytest.fixture(scope="session")
def shoal() -> Run:
    """Run the command line in this process, which saves its start, and give back its code and what it said."""

    def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        with contextlib.chdir(cwd or Path.cwd()):
            done = CliRunner().invoke(app, list(map(str, arguments)), prog_name="shoal")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    return run


@pytest.fixture(scope="session")
def installed() -> Run:
    """Run the installed command as a person would: for a few tests, so that nothing between the two is left out."""

    def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *map(str, arguments)],
            cwd=cwd,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONUTF8": "1"},
        )

    return run


@pytest.fixture(scope="session")
def patients() -> list[tuple[str, ...]]:
    """Rows of :data:`COLUMNS`, each with a note of its own."""
    towns, diseases = ("Köln", "Bonn", "Aachen"), ("flu", "gout", "angina, stable", 'so-called "cold"')
    return [
        (f"{SECRET}-{i}", str(20 + i * 7 % 50), "FM"[i % 2], towns[i * i % 3], diseases[i * 5 % 7 % 4], f"Ünique {i}")
        for i in range(N_PATIENTS)
    ]


@pytest.fixture(scope="session")
def policy(tmp_path_factory) -> Path:
    """The policy that fits the patients."""
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path
