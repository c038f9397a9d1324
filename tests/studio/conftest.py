"""A studio behind its gate, asked without a browser, and a small table that is open in it."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from shoal.studio.application import Key, create_app
from shoal.studio.jobs import Job
from shoal.studio.project import Project
from shoal.studio.reading import Reading, ReadTable
from shoal.studio.studio import PrivateFolder, Studio

with warnings.catch_warnings():  # it would rather have another client than the one that is installed
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

HOST = "127.0.0.1:8765"
COLUMNS = ("patient", "age", "sex", "town", "disease", "note")


class Browser:
    """Asks a studio as a browser that has its cookie would."""

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.key = Key()
        self.client = TestClient(create_app(studio, self.key, HOST), base_url=f"http://{HOST}")
        assert self.client.get(f"/?token={self.key.token}").status_code == 200
        assert self.client.cookies

    def get(self, path: str, **headers: str):
        """Read a page; redirections are followed."""
        return self.client.get(path, headers=headers)

    def post(self, path: str, fields: dict | list | None = None, *, swap: bool = False, origin: str = f"http://{HOST}"):
        """Send a form; redirections are not followed."""
        headers = {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode(fields or {}, doseq=True)
        more = {"Shoal-Swap": "1"} if swap else {}
        return self.client.post(path, content=body, headers={**headers, **more}, follow_redirects=False)

    def put(self, path: str, content: bytes, name: str):
        """Upload a file."""
        return self.client.put(path, content=content, headers={"Origin": f"http://{HOST}", "Shoal-Name": name})

    def revision(self, page: str) -> int:
        """The revision that a page's forms name."""
        return int(re.search(r'name="revision" value="(\d+)"', self.get(page).text)[1])


@pytest.fixture(autouse=True, scope="session")
def read_here() -> Iterator[None]:
    """Read tables in this process, which is quicker; tests of the reading itself put the real one back."""

    def read(reading: Reading, *_: object, **__: object) -> ReadTable:
        found = reading.work()
        if isinstance(found, ReadTable):
            return found
        raise found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reading, "read", read)
        yield


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    """A studio whose private folder is in the test's folder."""
    with PrivateFolder(tmp_path) as private:
        made = Studio(private)
        yield made
        made.close()


@pytest.fixture
def browser(studio: Studio) -> Browser:
    """A browser that entered the studio."""
    return Browser(studio)


def write_patients(path: Path) -> Path:
    towns, diseases = ("Koeln", "Bonn", "Aachen"), ("flu", "gout", "angina", "cold")
    rows = [
        (f"p{i}", 20 + i * 7 % 50, "FM"[i % 2], towns[i * i % 3], diseases[i * 5 % 7 % 4], f"note {i}")
        for i in range(120)
    ]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    return path


@pytest.fixture
def small_table(tmp_path: Path) -> Path:
    """A table of 120 patients."""
    return write_patients(tmp_path / "patients.csv")


@dataclass(frozen=True)
class Solved:
    """A table with a release: for tests that look at it, and change neither."""

    browser: Browser
    project: Project
    run: Job
    table: Path

    def at(self, path: str) -> str:
        """The path of a page of the project."""
        return f"/projects/{self.project.id}{path}"


@pytest.fixture(scope="session")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Solved]:
    """The patients with one release, made by the page that makes them."""
    folder = tmp_path_factory.mktemp("solved")
    with PrivateFolder(folder) as private:
        studio = Studio(private)
        table = write_patients(folder / "patients.csv")
        project = studio.open(Reading(table.name, table), studio.new_folder())
        browser = Browser(studio)
        fields = {"revision": project.revision, "name": "First try", "utility": "full"}
        assert browser.post(f"/projects/{project.id}/run", fields).status_code == 303
        (run,) = project.jobs_of("run")
        assert run.finished.wait(600)
        assert run.state == "done", run.message
        yield Solved(browser, project, run, table)
        studio.close()


@pytest.fixture
def project(studio: Studio, small_table: Path):
    """The small table, opened."""
    return studio.open(Reading(small_table.name, small_table), studio.new_folder())


@pytest.fixture
def open_in(studio: Studio) -> Callable:
    """Open a table of one's own: ``open_in(path)``."""
    return lambda path: studio.open(Reading(path.name, path), studio.new_folder())
