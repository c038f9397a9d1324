"""Public files that were changed and made consistent again, checked with the source but without ``internal/``.

None of them is verified. Marks in files and pages are refused; a changed promise cannot be seen, so the verdict is
incomplete until ``internal/`` or the public key is given.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests import tables
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.manifest import PAGES
from shoal.reports.pages import public_readme, public_report

COLUMNS = "age sex zip town illness cost"
METHODS: dict[str, dict[str, Any]] = {"classes": {"mondrian": {}}, "slices": {"slicing": {"columns": 2}}}
Change = Callable[[bytes], bytes]
SCRIPT = b"<script>alert(1)</script>"


def people() -> pa.Table:
    notes = ["a, b", 'say "a"', "=1+1", "plain"] * 75
    numbers = [1.5, 2.0, None, 1e20] * 75
    return tables.people(300, 2, COLUMNS, note=notes, size=numbers)


def policy(method: str) -> dict[str, Any]:
    extra = {"note": {"role": "insensitive"}, "size": {"role": "insensitive"}}
    attributes = tables.attributes(COLUMNS, plain=True) | extra
    return {"attributes": attributes, "privacy": [{"distinct-l-diversity": {"l": 2}}], "method": METHODS[method]}


@pytest.fixture(scope="module", params=METHODS)
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public") / "out"
    shoal.anonymize(people(), policy(request.param), out=folder, format="csv")
    return folder


@pytest.fixture
def public(published: Path, tmp_path: Path) -> Path:
    shutil.copytree(published / "public", tmp_path / "out" / "public")
    return tmp_path / "out" / "public"


def forge(public: Path, change: Callable[[dict[str, Any]], Any] = lambda _: None, *, pages: bool = False) -> None:
    """Make a manifest that fits the files, and if asked pages that fit the manifest."""
    manifest = json.loads((public / "manifest.json").read_text())
    change(manifest)
    stated = {key: entry for key, entry in manifest.items() if key not in PAGES}
    if pages:
        (public / "README.md").write_text(public_readme(stated))
        (public / "report.html").write_text(public_report(stated))
    manifest["data"]["sha256"] = hashlib.sha256((public / "data.csv").read_bytes()).hexdigest()
    for key, name in PAGES.items():
        manifest[key] = {"sha256": hashlib.sha256((public / name).read_bytes()).hexdigest()}
    (public / "manifest.json").write_text(json.dumps(manifest))


def failing(public: Path) -> set[str]:
    answer = shoal.verify(public, source=people())
    assert answer.verdict == "failed"
    return {check.name for check in answer.checks if not check.ok}


def on_line(number: int, change: Change) -> Change:
    def spoil(data: bytes) -> bytes:
        lines = data.split(b"\n")
        lines[number] = change(lines[number])
        return b"\n".join(lines)

    return spoil


def replace_first(pattern: bytes, text: bytes) -> Change:
    def spoil(data: bytes) -> bytes:
        changed, times = re.subn(pattern, text, data, count=1)
        assert times
        return changed

    return spoil


MARKS: dict[str, Change] = {
    "a line that ends with CRLF": on_line(7, lambda line: line + b"\r"),
    "all lines with CRLF": lambda data: data.replace(b"\n", b"\r\n"),
    "no line end at the end": lambda data: data[:-1],
    "quotes around a number": replace_first(rb",1\.5(?=[,\n])", rb',"1.5"'),
    "quotes around a text": replace_first(rb",plain(?=[,\n])", rb',"plain"'),
    "quotes around a name": on_line(0, lambda line: line.replace(b"note", b'"note"')),
    "quotes around nothing": replace_first(rb",(?=[,\n])", rb',""'),
    "a formula without its quote": replace_first(rb"'=1\+1", rb"=1+1"),
    "a byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "a byte of NUL": replace_first(rb"plain", b"plain\0"),
    "a blank before a number": replace_first(rb",1\.5(?=[,\n])", rb", 1.5"),
    "a number with more digits": replace_first(rb",1\.5(?=[,\n])", rb",1.50"),
    "a number with a sign": replace_first(rb",1\.5(?=[,\n])", rb",+1.5"),
    "a number with an exponent": replace_first(rb",1\.5(?=[,\n])", rb",15e-1"),
    "a number with a point": replace_first(rb",2(?=[,\n])", rb",2.0"),
    "a number in full": replace_first(rb",1e\+20(?=[,\n])", rb",100000000000000000000"),
    "a blank after a text": replace_first(rb"plain", b"plain "),
    "another value": replace_first(rb",2(?=[,\n])", rb",3"),
    "an empty line": on_line(3, lambda line: line + b"\n"),
}


@pytest.mark.parametrize("mark", MARKS)
def test_marks_in_the_data_are_refused(public: Path, published: Path, mark: str) -> None:
    (public.parent / "internal").mkdir()
    shutil.copy(published / "internal" / "witness.parquet", public.parent / "internal")
    data = (public / "data.csv").read_bytes()
    (public / "data.csv").write_bytes(MARKS[mark](data))
    assert (public / "data.csv").read_bytes() != data
    forge(public)
    assert failing(public) & {"hygiene", "spelling", "file", "truth", "parts", "rows", "buckets"}


@pytest.mark.parametrize("name", PAGES.values())
@pytest.mark.parametrize(
    "change",
    [
        lambda page: page + SCRIPT,
        lambda page: page.replace(b"records", b"persons"),
        lambda _: b"",
        lambda page: page + b"\n",
    ],
    ids=["a script", "other words", "nothing", "a line more"],
)
def test_rewritten_pages_are_refused(public: Path, name: str, change: Change) -> None:
    (public / name).write_bytes(change((public / name).read_bytes()))
    forge(public)
    assert failing(public) == {"pages"}


def test_pages_of_another_version_have_no_active_content(public: Path) -> None:
    """Pages of other versions cannot be made again; they are searched for scripts, handlers and references."""

    def age(manifest: dict[str, Any]) -> None:
        manifest["shoal_version"] = "0.1.0"

    forge(public, age)
    answer = shoal.verify(public)
    assert answer.verdict == "verified"
    assert [check.done for check in answer.checks if check.name == "pages"] == [False]
    report = (public / "report.html").read_bytes()
    for harm in (SCRIPT, b"<p onclick='x()'>", b"<img src=//example.org/a>", b"<a href='https://example.org'>"):
        (public / "report.html").write_bytes(report + harm)
        forge(public)
        assert failing(public) == {"pages"}


def lower_promise(manifest: dict[str, Any]) -> None:
    manifest["guarantees"][0]["parameters"]["l"] = 1


def drop_promise(manifest: dict[str, Any]) -> None:
    manifest["guarantees"] = [{"model": "k-anonymity", "parameters": {"k": 1}, "achieved": 1.0}]


def describe_otherwise(manifest: dict[str, Any]) -> None:
    manifest["attributes"]["cost"]["description"] = "another"


def forget_the_domain(manifest: dict[str, Any]) -> None:
    manifest["about"] = {"owner": "another"}


@pytest.mark.parametrize("change", [lower_promise, drop_promise, describe_otherwise, forget_the_domain])
def test_a_rewritten_manifest_is_never_verified(public: Path, change: Callable[[dict[str, Any]], None]) -> None:
    forge(public, change, pages=True)
    answer = shoal.verify(public, source=people())
    assert answer.verdict in ("failed", "incomplete")
    assert not answer.verified
    (recorded,) = [check for check in answer.checks if check.name == "recorded"]
    assert (recorded.done, recorded.required) == (False, True)


def test_the_command_says_what_was_not_checked(public: Path, tmp_path: Path) -> None:
    source = tmp_path / "people.parquet"
    pa.parquet.write_table(people(), source)
    told = CliRunner().invoke(app, ["verify", str(public), "--source", str(source)])
    assert told.exit_code == 4
    assert "Incomplete" in told.output
    assert "Verified" not in told.output
    assert "internal/evidence.json" in " ".join(told.output.split())
    assert "internal/witness.parquet" in " ".join(told.output.split())
    answer = json.loads(CliRunner().invoke(app, ["verify", str(public), "--source", str(source), "--json"]).stdout)
    assert (answer["verified"], answer["verdict"]) == (False, "incomplete")
    undone = [check["name"] for check in answer["checks"] if check.get("required")]
    assert set(undone) == {"recorded", "truth"}
    assert CliRunner().invoke(app, ["verify", str(public)]).exit_code == 0
