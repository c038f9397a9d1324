"""The studio with a million rows: from the upload to the page of columns, and pages that others ask for meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.measuring import Measured
from shoal.datasets import write_stays

ROWS, RUNS, SEED = 1_000_000, 3, 1
_LIMIT = 5.0
_LIVELY = 1.0


@dataclass(frozen=True, slots=True)
class Entered:
    """A running studio, asked as the browser that used its link."""

    address: str
    cookie: str

    def ask(self, method: str, path: str, body: Path | None = None) -> bytes:
        """Return the answer's body; anything but success is an error."""
        headers = {"Cookie": self.cookie, "Origin": f"http://{self.address}"}
        asking = http.client.HTTPConnection(self.address, timeout=300)
        with contextlib.closing(asking), contextlib.ExitStack() as opened:
            if body is None:
                asking.request(method, path, headers=headers)
            else:
                headers |= {"Shoal-Name": body.name, "Content-Length": str(body.stat().st_size)}
                asking.request(method, path, opened.enter_context(body.open("rb")), headers)
            answer = asking.getresponse()
            content = answer.read()
        if answer.status not in (200, 303):
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:500]!r}")
        return content


@contextlib.contextmanager
def entered(folder: Path) -> Iterator[Entered]:
    """Start a studio whose private folder is within *folder*, and end it."""
    command = [str(Path(sys.executable).with_name("shoal")), "studio", "--no-browser", "--json"]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)}
    )
    try:
        assert process.stdout is not None
        said = ""
        while "}" not in said:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the studio did not start")
            said += line
        link = urlsplit(json.loads(said)["url"])
        asking = http.client.HTTPConnection(link.netloc, timeout=30)
        asking.request("GET", f"/?{link.query}")
        cookie = asking.getresponse().headers["set-cookie"].split(";")[0]
        asking.close()
        yield Entered(link.netloc, cookie)
    finally:
        process.terminate()
        process.communicate()


def studio(folder: Path) -> Iterator[Measured]:
    """A million hospital stays as CSV and as Parquet."""
    with entered(folder) as browser:
        for ending in ("csv", "parquet"):
            table = write_stays(folder / f"stays.{ending}", ROWS, seed=SEED)
            runs = [_opened(browser, table) for _ in range(RUNS)]
            seconds, waits = [run[0] for run in runs], [run[1] for run in runs]
            job = f"studio: {ROWS:,} rows as {ending}"
            yield Measured(f"{job}, from the upload to the page", seconds, "5 s", max(seconds) <= _LIMIT)
            yield Measured(f"{job}, longest wait for another page", waits, "1 s", max(waits) <= _LIVELY)
            table.unlink()


def _opened(browser: Entered, table: Path) -> tuple[float, float]:
    """Return the seconds until the page of columns is there, and the longest that the first page took meanwhile."""
    waits = [0.0]
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            began = time.perf_counter()
            browser.ask("GET", "/")
            waits.append(time.perf_counter() - began)
            ended.wait(0.05)

    looking = threading.Thread(target=look)
    looking.start()
    began = time.perf_counter()
    page = json.loads(browser.ask("PUT", "/upload", table))["location"]
    browser.ask("GET", page)
    seconds = time.perf_counter() - began
    ended.set()
    looking.join()
    browser.ask("POST", page.replace("/columns", "/close"))
    return seconds, max(waits)
