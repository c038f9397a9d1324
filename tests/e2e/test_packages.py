"""The wheel: it holds the whole package, installs into an empty environment, and each extra can be had alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMPORTS = {  # by extra: what it is for
    "agency": "shoal.agency.service.application",
    "databases": "shoal.sources.databases.tables",
    "duckdb": "duckdb",
    "files": "pyreadstat",
    "frames": "polars",
    "pandas": "pandas",
    "plots": "matplotlib",
    "polars": "polars",
    "postgresql": "psycopg",
    "pseudonyms": "cryptography",
    "sklearn": "shoal.sklearn",
    "spark": "pyspark",
    "studio": "shoal.studio.application",
    "synthetic": "opendp",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def run(*command: str | Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command], env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(folder: Path, *what: str) -> Path:
    """Make an empty environment with a package; return its folder of commands."""
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)
    return folder / "bin"


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "src/shoal"], cwd=ROOT, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    kept = {name.removeprefix("src/") for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    assert kept <= names
    assert not {name for name in names - kept if not name.startswith("shoal-") and name.endswith((".nbi", ".nbc"))}


def test_bounds_and_constraints_name_the_same_versions() -> None:
    lowest = (ROOT / "constraints" / "lowest.txt").read_text(encoding="utf-8").splitlines()[1:]
    required = {entry.replace(">=", "==") for entry in PROJECT["dependencies"]}
    short = {name.removesuffix(".0").removesuffix(".0") for name in lowest}
    assert short == {name.removesuffix(".0") for name in required}


@pytest.mark.thorough
@pytest.mark.parametrize("constraints", ["lowest", "tested"])
def test_the_demo_runs_where_only_the_wheel_is_installed(wheel: Path, tmp_path: Path, constraints: str) -> None:
    commands = install(tmp_path / "env", "-c", str(ROOT / "constraints" / f"{constraints}.txt"), str(wheel))
    assert "The proof." in run(commands / "shoal", "demo", "--out", tmp_path / "demo")


@pytest.mark.thorough
@pytest.mark.parametrize("extra", sorted(PROJECT["optional-dependencies"]))
def test_each_extra_can_be_had_alone(wheel: Path, tmp_path: Path, extra: str) -> None:
    commands = install(tmp_path / "env", f"{wheel}[{extra}]")
    run(commands / "python", "-c", f"import {IMPORTS[extra]}")


def test_the_container_file_passes_the_linter() -> None:
    run(Path(sys.executable).with_name("hadolint"), "--failure-threshold", "info", ROOT / "Containerfile")


@pytest.mark.thorough
def test_the_container_is_built() -> None:
    engine = next((name for name in ("podman", "docker") if shutil.which(name)), None)
    if engine is None or subprocess.run([engine, "info"], capture_output=True, check=False).returncode:
        pytest.skip("no container engine runs here")
    run(engine, "build", "-f", ROOT / "Containerfile", "-t", "shoal-test", ROOT)
    assert "shoal" in run(engine, "run", "--rm", "shoal-test", "--version")
