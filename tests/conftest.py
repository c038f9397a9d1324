"""Shared fixtures, and the rules that hold for the whole suite.

``SHOAL_NO_SKIP=1`` turns every skip for a missing component into a failure: continuous integration sets it.
The number of collected tests is guarded: a suite that silently loses files fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
USUAL = "not thorough"  # as pyproject.toml has it


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with Adult, Nursery and their hierarchies."""
    for folder in (os.environ.get("SHOAL_DATA"), ROOT.parent / "shared" / "data"):
        if folder and Path(folder, "adult.csv.gz").is_file():
            return Path(folder)
    pytest.skip("Adult and Nursery are not here: set SHOAL_DATA to their folder")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if os.environ.get("SHOAL_NO_SKIP") == "1" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skips are failures here: {reason}"


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fail a whole run that collected fewer tests than are known to exist."""
    config = session.config
    whole = config.args == config.getini("testpaths") or config.args == [str(ROOT)]
    if (
        whole
        and not config.option.keyword
        and config.option.markexpr == USUAL
        and not getattr(config.option, "lf", False)
    ):
        expected = int((ROOT / "tests" / "collected.txt").read_text())
        if len(session.items) < expected:
            raise pytest.UsageError(f"{len(session.items)} tests were collected, at least {expected} are expected")
