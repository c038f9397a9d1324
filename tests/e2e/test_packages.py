"""Wheel and source distribution: both hold everything, install into an empty environment, and extras come alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import shoal

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHON = "Programming Language :: Python :: "
IMPORTS = {  # by extra: what it is for
    "agency": "shoal.agency.service.application",
    "attacks": "sklearn",
    "databases": "shoal.sources.databases.tables",
    "files": "pyreadstat",
    "frames": "polars",
    "pandas": "pandas",
    "polars": "polars",
    "postgresql": "psycopg",
    "pseudonyms": "cryptography",
    "spark": "pyspark",
    "studio": "shoal.studio.application",
    "synthetic": "opendp",
}
VERSIONS = [line.removeprefix(PYTHON) for line in PROJECT["classifiers"] if line.startswith(f"{PYTHON}3.")]


def build(kind: str, tree: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


def list_files(*folders: str) -> set[str]:
    """Return what the repository has in some folders."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}


def run(*command: str | Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command], env=environment, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def install(folder: Path, *what: str, python: str = sys.executable) -> Path:
    """Make an empty environment with a package; return its folder of commands."""
    run(python, "-m", "venv", "--without-pip", folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "--no-compile", *what)
    return folder / "bin"


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    kept = {name.removeprefix("src/") for name in list_files("src/shoal")}
    assert kept <= names
    assert not {name for name in names - kept if not name.startswith("shoal-") and name.endswith((".nbi", ".nbc"))}


def test_the_source_distribution_is_the_repository_and_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", ROOT, tmp_path / "sdist")) as packed:
        packed.extractall(tmp_path / "tree", filter="data")
    (tree,) = (tmp_path / "tree").iterdir()
    missing = {name for name in list_files() if not (tree / name).is_file()}
    assert not {name for name in missing if not name.startswith(".")}  # what only the repository's host reads
    again = build("wheel", tree, tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert {one.filename: one.CRC for one in first.infolist()} == {
            one.filename: one.CRC for one in second.infolist()
        }


def test_bounds_and_constraints_name_the_same_versions() -> None:
    lowest = (ROOT / "constraints" / "lowest.txt").read_text(encoding="utf-8").splitlines()[1:]
    required = {entry.replace(">=", "==") for entry in PROJECT["dependencies"]}
    short = {name.removesuffix(".0").removesuffix(".0") for name in lowest}
    assert short == {name.removesuffix(".0") for name in required}


def test_every_file_names_the_same_version(wheel: Path) -> None:
    version = wheel.name.split("-")[1]
    assert version == shoal.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").startswith(f"# Changelog\n\n## {version} ")


@pytest.mark.parametrize("constraints", ["tested", pytest.param("lowest", marks=pytest.mark.thorough)])
def test_the_demo_runs_where_only_the_wheel_is_installed(wheel: Path, tmp_path: Path, constraints: str) -> None:
    commands = install(tmp_path / "env", "-c", str(ROOT / "constraints" / f"{constraints}.txt"), str(wheel))
    assert "The proof." in run(commands / "shoal", "demo", "--out", tmp_path / "demo")


def find_python(version: str) -> str | None:
    """Return an interpreter of that version, from SHOAL_PYTHONS (paths with colons between them) or the PATH."""
    given = [path for path in os.environ.get("SHOAL_PYTHONS", "").split(os.pathsep) if path]
    for python in [*given, shutil.which(f"python{version}")]:
        asked = [str(python), "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
        if python and subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == version:
            return python
    return None


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
def test_the_demo_runs_with_every_interpreter(wheel: Path, tmp_path: Path, version: str) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"Python {version} is neither on the PATH nor in SHOAL_PYTHONS")
    commands = install(tmp_path / "env", str(wheel), python=python)
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
