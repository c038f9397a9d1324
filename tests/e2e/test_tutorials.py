"""The tutorials run as they are printed, and the documentation site is built without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.walkthrough import check_steps, read_steps, run_steps

ROOT = Path(__file__).parents[2]
TUTORIALS = [*sorted((ROOT / "docs").glob("tutorial-*.md")), ROOT / "docs" / "pipelines.md"]


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


def test_schedulers_are_given_the_command_that_the_page_runs() -> None:
    text = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
    shown = re.findall(r"bash publish\.sh .*?\"(?=['\n])", text)
    days = {"{{ ds }}": "2024-05-01", "$(date +%F)": "2024-05-01"}
    written = [re.sub("|".join(map(re.escape, days)), lambda day: days[day[0]], call).split('"') for call in shown]
    assert len(written) == 2
    ran = next(
        step.command for step in read_steps(text) if "publish.sh " in step.command and "releases" in step.command
    )
    for call in written:
        assert "".join(call) == ran.removesuffix("; echo $?").replace('"', "")
