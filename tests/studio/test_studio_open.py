"""Opening tables in the studio: uploads, broken ones included, the demo data, and closing."""

from __future__ import annotations

import asyncio
import stat
from urllib.parse import quote

import pytest

from shoal.core.errors import UsageError
from shoal.studio.pages.opening import plain_name

TABLE = b"age,sex,illness\n" + b"".join(b"%d,%s,flu\n" % (30 + i % 20, b"FM"[i % 2 : i % 2 + 1]) for i in range(60))


def left(studio) -> list[str]:
    """What is in the room beside its lock."""
    return sorted(path.name for path in studio.folder.iterdir() if path.name != "lock")


def opened(browser, answer):
    """The project that an upload made."""
    assert answer.status_code == 200, answer.text
    location = answer.json()["location"]
    assert browser.get(location).status_code == 200
    return browser.studio.projects[location.split("/")[2]]


def test_an_upload_becomes_a_project(browser):
    project = opened(browser, browser.put("/upload", TABLE, quote("Unsere Patienten, März.csv")))
    assert project.name == "Unsere Patienten_ März.csv"
    assert (project.rows, project.columns) == (60, ("age", "sex", "illness"))
    assert project.source.parent == project.folder
    assert project.folder.parent == browser.studio.folder
    assert stat.S_IMODE(project.folder.stat().st_mode) == 0o700
    assert project.name in browser.get("/").text


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (b"", "t.csv", "empty"),
        (b"PAR1 not really", "t.parquet", "t.parquet"),
        (b"a,b\n1,2,3\n4\n", "t.csv", "t.csv"),
        (b"\x1f\x8b broken", "t.csv.gz", "t.csv.gz"),
        (b"PK not a sheet", "t.xlsx", "t.xlsx"),
        (b"a,b\n\xff\xfe,1\n", "t.csv", "encod"),
        (TABLE, "t.exe", "ending"),
        (TABLE, "", "ending"),
        (TABLE, "t.parquet.gz", "ending"),
    ],
    ids=["empty", "parquet", "ragged", "gzip", "excel", "encoding", "exe", "nameless", "gzipped-parquet"],
)
def test_a_broken_upload_says_why_and_leaves_nothing(browser, content, name, said):
    answer = browser.put("/upload", content, name)
    assert answer.status_code == 422
    assert said in answer.text
    assert str(browser.studio.folder) not in answer.text
    assert left(browser.studio) == []
    assert not browser.studio.projects


def test_an_upload_that_is_cut_off_leaves_nothing(browser):
    """The connection ends in the midst of the body."""
    app, cookie = browser.client.app, f"shoal-studio-8765={browser.key.cookie}"
    headers = {"host": "127.0.0.1:8765", "origin": "http://127.0.0.1:8765", "cookie": cookie, "shoal-name": "t.csv"}
    scope = {
        "type": "http",
        "method": "PUT",
        "path": "/upload",
        "raw_path": b"/upload",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8765),
        "client": ("127.0.0.1", 5),
        "root_path": "",
    }
    waiting = [{"type": "http.request", "body": TABLE[:100], "more_body": True}, {"type": "http.disconnect"}]
    seen, sent = [], []

    async def receive():
        seen.append(left(browser.studio))
        return waiting.pop(0)

    async def send(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert len(seen[-1]) == 1, "the folder was there while it came"
    assert left(browser.studio) == []
    assert not browser.studio.projects
    assert sent[0]["status"] == 422


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("../../etc/passwd.csv", "passwd.csv"),
        ("C:\\temp\\x.csv", "x.csv"),
        ("...csv", "table.csv"),
        ("-rf.csv", "rf.csv"),
        ("a\x00b\n.csv", "a_b_.csv"),
        ("<script>.csv", "_script_.csv"),
        ("x" * 500 + ".csv", "x" * 76 + ".csv"),
        ("T.CSV.GZ", "T.csv.gz"),
    ],
    ids=["up", "windows", "dots", "option", "control", "markup", "long", "capitals"],
)
def test_names_lose_their_paths_and_oddities(given, name):
    assert plain_name(given) == name


@pytest.mark.parametrize("given", ["", "..", "csv", "x.zip", "x.gz", ".gz"])
def test_names_without_a_known_ending_are_refused(given):
    with pytest.raises(UsageError):
        plain_name(given)


def test_the_disk_is_not_filled(browser, monkeypatch):
    from shoal.studio.pages import opening

    monkeypatch.setattr(opening, "_SPARE", 1 << 60)
    answer = browser.put("/upload", TABLE, "t.csv")
    assert answer.status_code == 422
    assert "the disk" in answer.text
    assert left(browser.studio) == []


def test_closing_removes_everything_but_a_table_read_in_place(browser, project, small_table):
    assert browser.post(f"/projects/{project.id}/close").headers["location"] == "/"
    assert left(browser.studio) == []
    assert small_table.exists()
    assert browser.get(f"/projects/{project.id}/columns").status_code == 404
    assert "does not exist" in browser.get("/projects/../../etc/passwd").text


def test_only_so_many_tables(browser, monkeypatch):
    from shoal.studio import studio

    monkeypatch.setattr(studio, "MOST_PROJECTS", 1)
    opened(browser, browser.put("/upload", TABLE, "t.csv"))
    answer = browser.put("/upload", TABLE, "t.csv")
    assert answer.status_code == 422
    assert "close one" in answer.text


def test_names_of_tables_and_columns_are_text_not_markup(browser):
    answer = browser.put("/upload", b'<script>alert(1)</script>,"a""b"\n1,x\n2,<b>y\n', "t.csv")
    project = opened(browser, answer)
    for path in ("/columns", "/policy"):
        page = browser.get(f"/projects/{project.id}{path}").text
        assert "<script>alert" not in page
        assert "<b>y" not in page
