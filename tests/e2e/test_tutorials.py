"""The tutorials run as they are printed, and the documentation site is built without a warning."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.walkthrough import Step, check_steps, read_steps, run_steps

ROOT = Path(__file__).parents[2]
TUTORIALS = [*sorted((ROOT / "docs").glob("tutorial-*.md")), ROOT / "docs" / "pipelines.md"]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run(page: Path, tmp_path: Path) -> None:
    steps = read_steps(page.read_text(encoding="utf-8"))
    assert len(steps) >= 4
    check_steps(steps, run_steps(steps, tmp_path))
    if "--record" in page.read_text(encoding="utf-8"):
        recorded = json.loads((tmp_path / "out" / "internal" / "attacks.json").read_text(encoding="utf-8"))["attacks"]
        assert len(recorded) > 15
        severe = [entry["attack"] for entry in recorded if entry["verdict"].startswith("severe")]
        assert not severe, "the page says that no attack has a severe result"


def test_the_readme_runs_from_the_demo_on(tmp_path: Path) -> None:
    """The commands before the demo install shoal, which the tests already run in; ``make thorough`` runs them too."""
    steps = read_steps((ROOT / "README.md").read_text(encoding="utf-8"), "python")
    first = next(number for number, step in enumerate(steps) if step.command.startswith("shoal demo"))
    check_steps(steps[first:], run_steps(steps[first:], tmp_path))
    assert (tmp_path / "out" / "public" / "report.html").is_file()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files that are under version control."""
    folder = tmp_path_factory.mktemp("checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


@pytest.mark.thorough
def test_the_readme_runs_in_a_new_checkout(checkout: Path) -> None:
    steps = [*read_steps((checkout / "README.md").read_text(encoding="utf-8"), "python"), Step("make demo", "...\n")]
    python = shutil.which("python3.11")
    assert python is not None
    check_steps(steps, run_steps(steps, checkout, Path(python).parent))
    assert (checkout / "demo-out" / "release" / "public" / "manifest.json").is_file()


@pytest.mark.thorough
def test_the_tutorials_run_with_what_the_readme_installs_without_extras(checkout: Path, tmp_path: Path) -> None:
    programs = tmp_path / "environment" / "bin"
    subprocess.run(["python3.11", "-m", "venv", programs.parent], check=True)
    subprocess.run([programs / "pip", "install", "--quiet", checkout], check=True)
    for page in sorted((checkout / "docs").glob("tutorial-*.md")):
        steps, folder = read_steps(page.read_text(encoding="utf-8")), tmp_path / page.stem
        folder.mkdir()
        check_steps(steps, run_steps(steps, folder, programs))


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "WARNING" in done.stderr) == (0, False), done.stderr
    page = (tmp_path / "site" / "reference" / "policy.html").read_text(encoding="utf-8")
    assert "tau-l-diversity" in page
    commands = (tmp_path / "site" / "reference" / "command.html").read_text(encoding="utf-8")
    assert "shoal agency plan" in commands
    assert (tmp_path / "site" / "search" / "search_index.js").is_file()  # searched without a server
