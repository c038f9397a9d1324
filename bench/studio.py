"""The studio with a million rows: opening a table, pages, hints and results, asked as a browser asks."""

from __future__ import annotations

import json
import re
import signal
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from bench.measuring import REPEATS, Measured, shoal_command, timed, timed_once

ROWS, OPENED = 1_000_000, 3
PAGES = ("columns", "taxonomies", "guarantees")
_PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Browser:
    """One who has entered a running studio."""

    address: str
    cookie: str
    process: int

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> str:
        """Return an answer's text, or for a redirection where it leads."""
        connection = HTTPConnection(self.address, timeout=_PATIENCE)
        own = {"Cookie": self.cookie, "Origin": f"http://{self.address}"}
        connection.request(method, path, body, {**own, **{name.replace("_", "-"): headers[name] for name in headers}})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]}")
        return answer.headers.get("location") or text

    def send(self, path: str, **fields: object) -> str:
        """Send a form and return the part of the page that it changes."""
        kind = "application/x-www-form-urlencoded"
        return self.ask("POST", path, urlencode(fields).encode(), Content_Type=kind, Shoal_Swap="1")

    def open(self, table: Path) -> str:
        """Upload a table and return the path of its project."""
        answer = self.ask("PUT", "/upload", table.read_bytes(), Shoal_Name=table.name)
        return str(json.loads(answer)["location"]).removesuffix("/columns")

    def revision(self, project: str) -> str:
        """Return the number of the newest policy."""
        found = re.search(r'name="revision" value="(\d+)"', self.ask("GET", f"{project}/guarantees"))
        return found[1] if found else ""

    def settled(self, path: str) -> str:
        """Ask for a part of a page until nothing of it is under way."""
        while 'data-state="running"' in (text := self.ask("GET", path)):
            time.sleep(0.02)
        return text

    @property
    def peak_mib(self) -> float | None:
        """The most memory that the studio's process had."""
        lines = Path(f"/proc/{self.process}/status").read_text().splitlines()
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)


def studio(folder: Path, rows: int = ROWS) -> Iterator[Measured]:
    """Open stays as Parquet and as CSV; pages, hints and results are those of the CSV file."""
    from shoal.datasets.hospital_files import write_stays

    name = f"studio, {rows / 1e6:g} million stays"
    with entered() as browser:
        for ending, kind in (("parquet", "Parquet"), ("csv", "CSV")):
            table = write_stays(folder / f"studio.{ending}", rows, seed=1)
            opened = [timed_once(lambda table=table: browser.open(table)) for _ in range(OPENED)]
            yield _line(f"{name}: upload and profile, {kind}", opened, 5)
        project = browser.open(table)
        for page in PAGES:
            asked = timed(lambda page=page: browser.ask("GET", f"{project}/{page}"))
            yield _line(f"{name}: page {page}", asked, 0.3)
    began = time.perf_counter()
    with entered() as browser:
        project = browser.open(table)
        yield from _hints(browser, project, name)
        yield from _results(browser, project, name)
        peak = browser.peak_mib
        within = peak is not None and peak <= 1536
        took = [time.perf_counter() - began]
        yield Measured(f"{name}: a session with hints, a run and results", took, "1.5 GiB", within, peak)


def _hints(browser: Browser, project: str, name: str) -> Iterator[Measured]:
    hint, sizes = f"{project}/guarantees/hint", count(3)
    yield _line(f"{name}: first hint", [timed_once(lambda: browser.settled(hint))], None)
    took = []
    for _ in range(REPEATS):
        fields = {"revision": browser.revision(project), "place": 0, "k": next(sizes)}
        began = time.perf_counter()
        if "data-verdict" not in browser.send(f"{project}/guarantees/change", **fields):
            browser.settled(hint)
        took.append(time.perf_counter() - began)
    yield _line(f"{name}: hint for a changed k", took, 0.2)


def _results(browser: Browser, project: str, name: str) -> Iterator[Measured]:
    browser.send(f"{project}/run", revision=browser.revision(project), name="bench")
    found = re.search(r"/jobs/([0-9a-f]+)", browser.ask("GET", f"{project}/run"))
    run = found[1] if found else ""
    browser.settled(f"{project}/jobs/{run}")
    yield _line(f"{name}: page results", timed(lambda: browser.ask("GET", f"{project}/results")), None)

    def nothing() -> object:
        return browser.send(f"{project}/results/{run}/rows", column="occupation", text="no such")

    yield _line(f"{name}: first filter, which no row fits", [timed_once(nothing)], None)
    yield _line(f"{name}: later filters", timed(nothing), None)


@contextmanager
def entered() -> Iterator[Browser]:
    """Start a studio, enter it, and end it afterwards."""
    command = [str(shoal_command()), "studio", "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        try:
            url = urlsplit(str(json.loads(_said(process))["url"]))
            connection = HTTPConnection(url.netloc, timeout=_PATIENCE)
            connection.request("GET", f"/?{url.query}")
            cookie = (connection.getresponse().headers.get("set-cookie") or "").partition(";")[0]
            connection.close()
            yield Browser(url.netloc, cookie, process.pid)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _said(process: subprocess.Popen[str]) -> str:
    said = ""
    while "}" not in said:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise RuntimeError("the studio did not start")
        said += line
    return said


def _line(job: str, seconds: list[float], limit: float | None) -> Measured:
    within = limit is None or statistics.median(seconds) <= limit
    return Measured(job, seconds, "-" if limit is None else f"{limit:g} s", within)
