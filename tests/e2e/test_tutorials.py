"""The tutorials run as they are printed, and the documentation site is built without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.walkthrough import check_steps, read_steps, run_steps

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted(path for path in (ROOT / "docs").glob("tutorial-*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_run(page: Path, tmp_path: Path) -> None:
    steps = read_steps(page.read_text(encoding="utf-8"))
    assert len(steps) >= 4
    check_steps(steps, run_steps(steps, tmp_path))


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
