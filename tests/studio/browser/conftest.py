"""A real browser, a real studio, and pages that are watched: whatever they ask for elsewhere or complain of is a fault.

The browser is one for each file of tests: the event loop that drives it would hinder tests of other folders.
"""

from __future__ import annotations

import csv
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

COMMAND = Path(sys.executable).with_name("shoal")
PATIENCE = 60_000  # milliseconds; a run on a busy machine


@dataclass
class Watch:
    """What the pages of one browser context did wrong."""

    address: str
    foreign: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def follow(self, page) -> None:
        """Listen to a page and to everything it opens."""
        page.set_default_timeout(PATIENCE)
        page.on("request", self._asked)
        page.on("console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _asked(self, request) -> None:
        own = f"http://{self.address}/"
        if not request.url.startswith((own, "data:", f"blob:{own}", "about:")):
            self.foreign.append(request.url)

    def forgive(self, *parts: str) -> None:
        """Take away complaints that a test provoked; each part must have been complained of."""
        for part in parts:
            found = [text for text in self.complaints if part in text]
            assert found, f"nothing complained of {part}"
            self.complaints = [text for text in self.complaints if part not in text]


@dataclass
class Running:
    """A studio in a process of its own, whose temporary files are in a folder that nobody else uses."""

    process: subprocess.Popen
    url: str
    temporary: Path
    cookie: dict | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return urlsplit(self.url).netloc

    @property
    def origin(self) -> str:
        """What pages of the studio have as their origin."""
        return f"http://{self.address}"

    def rooms(self) -> list[Path]:
        """The private folders."""
        return sorted(self.temporary.glob("shoal-studio-*"))

    def enter(self) -> dict:
        """Use the link as a browser would, once; return the cookie it became."""
        if self.cookie is None:
            asking = http.client.HTTPConnection(self.address, timeout=30)
            asking.request("GET", "/?" + urlsplit(self.url).query)
            answer = asking.getresponse()
            answer.read()
            asking.close()
            name, value = answer.headers["set-cookie"].split(";")[0].split("=", 1)
            self.cookie = {"name": name, "value": value, "url": self.origin, "httpOnly": True, "sameSite": "Strict"}
        return self.cookie

    def end(self) -> None:
        """End the process, by its number; until then it lived, without a word of complaint."""
        ended = self.process.poll()
        self.process.terminate()
        self.process.communicate(timeout=60)
        assert (ended, (self.temporary / "said.txt").read_text()) == (None, "")


def start(temporary: Path, *arguments: object) -> Running:
    temporary.mkdir(exist_ok=True)
    with (temporary / "said.txt").open("w") as said:
        process = subprocess.Popen(
            [str(COMMAND), "studio", "--no-browser", "--json", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
        )
    announced = ""
    while "}" not in announced:
        line = process.stdout.readline()
        assert line, f"the studio ended with {process.wait()}"
        announced += line
    return Running(process, json.loads(announced)["url"], temporary)


@pytest.fixture(scope="module")
def chromium() -> Iterator:
    """Debian's Chromium without a window; the one that never has any needs a quarter of the time."""
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not here")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    playwright.expect.set_options(timeout=PATIENCE)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A studio for all tests of one file."""
    running = start(tmp_path_factory.mktemp("studio"))
    yield running
    running.end()


@pytest.fixture
def another_studio(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Start a studio of one's own, for tests that end it or use up its link."""
    started: list[Running] = []

    def begin(*arguments: object) -> Running:
        started.append(start(tmp_path / f"temporary-{len(started)}", *arguments))
        return started[-1]

    yield begin
    for running in started:
        if running.process.poll() is None:
            running.end()
        else:
            running.process.communicate()


@pytest.fixture
def watch(studio: Running) -> Iterator[Watch]:
    """What went wrong on pages; nothing may have, at the end."""
    watching = Watch(studio.address)
    yield watching
    assert watching.foreign == []
    assert watching.complaints == []


@pytest.fixture
def context(chromium, studio: Running, watch: Watch) -> Iterator:
    """A browser that entered the studio; what one test leaves in it no other sees."""
    made = chromium.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB")
    made.add_cookies([studio.enter()])
    made.on("page", watch.follow)
    yield made
    made.close()


@pytest.fixture
def page(context, studio: Running):
    """The first page of the studio."""
    made = context.new_page()
    made.goto(studio.origin)
    return made


class Person:
    """Somebody in front of a page of the studio, who finds things by what they are called."""

    def __init__(self, page) -> None:
        from playwright.sync_api import expect

        self.page = page
        self.expect = lambda what: expect(what, "what the page shows")
        self.steps = page.get_by_role("navigation", name="Steps")
        self.notices = page.locator("#notices")

    def goes_to(self, title: str) -> None:
        """Go to a page by the list of steps."""
        self.steps.get_by_role("link", name=title, exact=True).click()
        self.expect(self.steps.locator("[aria-current=page]")).to_have_text(title)

    def opens_demo(self) -> None:
        """Open the generated hospital stays."""
        self.page.get_by_role("button", name="Try the demo data").click()
        self.sees_columns()

    def opens(self, table: Path) -> None:
        """Choose a file in the dialog that the button opens."""
        self.chooses(table, lambda: self.page.get_by_text("Choose a file", exact=True).click())
        self.sees_columns()

    def chooses(self, file: Path, act: Callable[[], object]) -> None:
        """Choose a file in the dialog that an act opens.

        The driver asks the browser to hand over dialogs, and does not wait for its answer: an act that comes at once
        may be faster, and its dialog is lost. The browser answers in order, so an answer to anything that was asked
        later means that it heard the first.
        """
        with self.page.expect_file_chooser() as chooser:
            self.page.evaluate("0")
            act()
        chooser.value.set_files(file)

    def sees_columns(self) -> None:
        """Wait for the page of columns."""
        self.expect(self.page.get_by_role("heading", level=1)).to_contain_text("What does each column say")

    def is_told(self, said: str) -> None:
        """Wait until a screen reader is told so."""
        self.expect(self.page.locator("#announcer")).to_have_text(said)

    def policy(self) -> dict:
        """The policy as the panel of every page has it."""
        return yaml.safe_load(self.page.locator("#policy-panel pre").text_content())

    def waits_for_policy(self, right: Callable[[dict], bool]) -> dict:
        """Wait until the panel shows a policy that is right."""
        end = time.monotonic() + PATIENCE / 1000
        while not right(self.policy()):
            assert time.monotonic() < end, f"the policy stays {self.policy()}"
            self.page.wait_for_timeout(50)
        return self.policy()

    def runs(self, *, quickly: bool = True) -> None:
        """Run the policy and wait for the page of results."""
        self.goes_to("Run")
        if quickly:
            self.page.get_by_label("Utility measures").select_option("quick")
        self.page.get_by_role("button", name="Start the run").click()
        self.expect(self.page.get_by_role("heading", level=1)).to_contain_text("Results: ")

    def downloads(self, button: str, into: Path) -> Path:
        """Download what a link gives; return the file under the name that the studio gave it."""
        with self.page.expect_download() as taken:
            self.page.get_by_role("link", name=button, exact=True).first.click()
        path = into / taken.value.suggested_filename
        taken.value.save_as(path)
        return path


@pytest.fixture
def person(page) -> Person:
    """Somebody in front of the first page of the studio."""
    return Person(page)


@pytest.fixture(scope="session")
def somebody() -> type[Person]:
    """For tests with several tabs: ``somebody(page)``."""
    return Person


def write_visits(path: Path, rows: int = 600) -> Path:
    """Write a table with columns of many kinds, the same every time."""
    chance = random.Random(7)
    jobs = ("baker", "clerk", "driver", "farmer", "nurse", "teacher")
    illnesses = ("asthma", "bronchitis", "diabetes", "flu", "gastritis", "ulcer")
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["person", "age", "sex", "zip", "job", "illness"])
        for number in range(rows):
            table.writerow(
                [
                    f"P{number:05}",
                    chance.randint(18, 89),
                    chance.choice("FM"),
                    f"{chance.randint(48100, 48199)}",
                    chance.choice(jobs),
                    chance.choice(illnesses),
                ]
            )
    return path


@pytest.fixture(scope="session")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 600 people."""
    return write_visits(tmp_path_factory.mktemp("visits") / "visits.csv")


@pytest.fixture(scope="session")
def shoal() -> Callable[..., subprocess.CompletedProcess]:
    """Run a command as people type it."""

    def run(*arguments: object) -> subprocess.CompletedProcess:
        return subprocess.run([str(COMMAND), *map(str, arguments)], capture_output=True, text=True, timeout=300)

    return run


@pytest.fixture(scope="session")
def until() -> Callable[[Callable[[], object]], None]:
    """Wait until something is true that no page shows."""

    def wait(true: Callable[[], object]) -> None:
        for _ in range(600):
            if true():
                return
            time.sleep(0.05)
        raise AssertionError("it did not happen in half a minute")

    return wait
