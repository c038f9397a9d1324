"""Shared fixtures, and the rules that hold for the whole suite.

``SHOAL_NO_SKIP=1`` turns every skip for a missing component into a failure: continuous integration sets it.
Otherwise a run ends with what it could not test, and how to install that.
The number of collected tests is guarded: a suite that silently loses files fails.
"""

from __future__ import annotations

import functools
import gc
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import typer.testing
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from bench import servers

ROOT = Path(__file__).parent.parent
USUAL = "not thorough"  # as pyproject.toml has it
# Examples of a property, unless a test states how many it can afford; no test fails because a machine is busy.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("usual", max_examples=40, **PATIENT)
settings.register_profile("thorough", max_examples=400, **PATIENT)
settings.load_profile("usual")
# Folders whose tests share what is slow to start (Spark, services, a browser): each is one worker's, and comes first.
TOGETHER = ("tests/engines/spark/", "tests/agency/service/", "tests/studio/browser/")
COMPONENTS = ("Chromium", "Java", "PostgreSQL")  # what .ci/install installs


@pytest.fixture(scope="session", autouse=True)
def shortcuts() -> Iterator[None]:
    """Nothing waits until the disk has it, for no test cuts the power; and the tree of commands is built only once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with Adult, Nursery and their hierarchies."""
    for folder in (os.environ.get("SHOAL_DATA"), ROOT.parent / "shared" / "data"):
        if folder and Path(folder, "adult.csv.gz").is_file():
            return Path(folder)
    pytest.skip("Adult and Nursery are not here: set SHOAL_DATA to their folder")


@pytest.fixture(scope="session")
def new_cluster() -> Callable[[], servers.PostgreSQL]:
    """Make a PostgreSQL that is not started yet; whoever makes one removes it."""
    binaries = servers.postgresql_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not here")
    return lambda: servers.PostgreSQL.create(binaries, fsync=False)


@pytest.fixture(scope="session")
def cluster(new_cluster: Callable[[], servers.PostgreSQL]) -> Iterator[servers.PostgreSQL]:
    """A real PostgreSQL, started once."""
    made = new_cluster()
    try:
        made.start()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def java() -> None:
    """Java, which Spark needs."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        pytest.skip("Java is not here")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any) -> Iterator[None]:
    """Say plainly, last of all, what was not tested for want of a component, and the one command that installs it."""
    yield
    reasons = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    wanting = Counter(name for reason in reasons for name in COMPONENTS if re.search(rf"\b{name} is not here", reason))
    if wanting:
        terminalreporter.section("not tested here", red=True)
        for name, number in sorted(wanting.items()):
            terminalreporter.line(f"{number} tests were skipped for want of {name}.")
        terminalreporter.line("On Debian, this installs what is missing: sudo .ci/install")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if os.environ.get("SHOAL_NO_SKIP") == "1" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skips are failures here: {reason}"


class FilesAndFolders(LoadScopeScheduling):
    """A worker takes a whole file, or a whole folder of those above, so that its fixtures are made once."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesAndFolders | None:
    return FilesAndFolders(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """What is loaded now stays to the end: the garbage collector need not look for any of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(TOGETHER))


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
