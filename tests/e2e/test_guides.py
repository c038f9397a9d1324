"""The examples of the README and of the guides run as they are printed."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = sorted(path for path in (ROOT / "docs").glob("*.md") if ">>>" in path.read_text(encoding="utf-8"))


def python_block(path: Path) -> str:
    """The one Python block of a page."""
    (block,) = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return block


def test_the_library_example_of_the_readme_runs() -> None:
    block = python_block(ROOT / "README.md")
    assert block.count("\n") <= 20
    said = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(said):
        exec(compile(block, "README.md", "exec"), names)
    release = names["release"]
    assert [entry["model"] for entry in release.guarantees] == ["k-anonymity", "distinct-l-diversity"]
    assert release.guarantees[0]["achieved"] >= 5
    assert "name" not in release.data.columns
    assert "illness" in said.getvalue()


def test_the_policy_of_the_readme_is_valid(tmp_path: Path) -> None:
    from shoal import Policy

    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "taxonomies").mkdir()
    (tmp_path / "taxonomies" / "icd.csv").write_text("flu;lung;*\ngout;joint;*\n")
    (tmp_path / "policy.yaml").write_text(block)
    policy = Policy.load(tmp_path / "policy.yaml")
    assert policy.names("quasi") == ("age", "zip", "sex")


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_examples_of_the_guides_run(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(str(guide), module_relative=False, optionflags=flags)
    assert tried > 0
    assert failed == 0


def test_every_command_of_the_readme_exists() -> None:
    from shoal.cli import app

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^shoal (\w+).*\s{3,}", text, flags=re.MULTILINE))
    known = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    assert named == known
