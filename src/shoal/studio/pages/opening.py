"""Open a table (an upload, the demo data, one that is open already), and files beside it: hierarchies, populations."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from shoal.core.errors import InputError, UsageError
from shoal.datasets.hospital_files import write_stays
from shoal.sources.base import SourceOptions
from shoal.studio.answers import Visit, page, upload
from shoal.studio.project import is_plain

ENDINGS = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".xlsx", ".dta", ".sav", ".zsav")
_ENDINGS_OF_TABLES = (".csv.gz", ".tsv.gz", ".txt.gz", *(ending for ending in ENDINGS if ending != ".gz"))
_KINDS = "a .csv, .tsv, .txt (also .gz), .parquet, .xlsx, .dta, .sav or .zsav file"
_ENCODING = "set its character encoding under More about text files (often windows-1252), then open it again"
_DEMO_ROWS = 20_000
_SPARE = 256 << 20  # bytes of the disk that an upload leaves


def show(visit: Visit) -> Response:
    """Show what can be opened, and what is open."""
    return visit.render("open.html", projects=list(visit.studio.newest()), endings=ENDINGS)


def demo(visit: Visit) -> Response:
    """Generate hospital stays and open them."""
    folder = visit.studio.new_folder()
    with _nothing_left(folder):
        path = write_stays(folder / "stays.csv", _DEMO_ROWS)
        project = visit.studio.open(path.name, path, folder)
    return visit.to(f"/projects/{project.id}/columns")


def close(visit: Visit) -> Response:
    """Close a table and remove what was made of it."""
    visit.studio.forget(visit.project)
    return visit.to("/")


async def receive(visit: Visit) -> Response:
    """Take a table as it comes, open it, and say where it is; a broken one leaves nothing behind."""
    query = visit.request.query_params
    name = plain_name(unquote(visit.request.headers.get("shoal-name", "")))
    options = _options(query.get("delimiter", ""), query.get("encoding", ""))
    folder = visit.studio.new_folder()
    with _nothing_left(folder):
        path = folder / name
        _refuse_too_large(visit, folder)
        await _write_body(visit, path, name)
        if not path.stat().st_size:
            raise InputError(f"{name} is empty")
        try:
            project = await run_in_threadpool(visit.studio.open, name, path, folder, options)
        except InputError as error:
            if "set `encoding`" not in str(error):
                raise
            raise InputError(f"{str(error).partition(';')[0]}; {_ENCODING}") from None
    return JSONResponse({"location": f"/projects/{project.id}/columns"})


async def _write_body(visit: Visit, path: Path, name: str) -> None:
    """Write what is sent to a new file; what is cut off or cannot be written is refused."""
    try:
        with path.open("xb") as file:
            async for part in visit.request.stream():
                await run_in_threadpool(file.write, part)
    except ClientDisconnect:
        raise InputError(f"the upload of {name} was cut off; nothing of it is kept") from None
    except OSError as error:
        raise InputError(f"{name} could not be kept: {error.strerror}") from None


def plain_name(given: str) -> str:
    """Return the last part of a name without what is odd in it; a kind of file that cannot be read is refused.

    >>> plain_name("../../etc/Our patients?.CSV")
    'Our patients_.csv'
    """
    safe = re.sub(r"[^\w .()-]", "_", re.split(r"[/\\]", given)[-1])
    kind = next((known for known in _ENDINGS_OF_TABLES if safe.lower().endswith(known)), None)
    if kind is None:
        shown = safe.strip(" .-")[:80] or "this"
        raise UsageError(f"the studio cannot tell what {shown} is by its ending; choose {_KINDS}")
    return (safe[: -len(kind)].strip(" .-")[:76] or "table") + kind


def _options(delimiter: str, encoding: str) -> SourceOptions:
    try:
        return SourceOptions(delimiter="\t" if delimiter == "tab" else delimiter or None, encoding=encoding or "utf-8")
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise UsageError(f"{problem['loc'][0] if problem['loc'] else 'reading'}: {problem['ctx']['error']}") from None


def _refuse_too_large(visit: Visit, folder: Path) -> None:
    length = visit.request.headers.get("content-length", "0")
    free = shutil.disk_usage(folder).free
    if int(length) + _SPARE > free:
        raise UsageError(f"the table has {int(length):,} bytes, and the disk of temporary files has {free:,} left")


@contextlib.contextmanager
def _nothing_left(folder: Path) -> Iterator[None]:
    """Remove a project's folder if it does not come to be one."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


async def attach(visit: Visit) -> Response:
    """Keep a file under its plain name; one that is cut off leaves nothing behind."""
    name = unquote(visit.request.headers.get("shoal-name", ""))
    if not is_plain(name):
        raise InputError("this is no name for a file here; use letters and digits, and no folder")
    waiting = visit.project.new_folder("attach")
    try:
        await _write_body(visit, waiting / "body", name)
        visit.project.attach(name, waiting / "body")
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
    return JSONResponse({"name": name})


def detach(visit: Visit) -> Response:
    """Remove a file that was added."""
    visit.project.detach(visit.form.get("name"))
    return visit.to(visit.at("/policy"))


routes = [
    page("/", show),
    page("/demo", demo, "POST"),
    page("/projects/{project}/close", close, "POST"),
    upload("/upload", receive),
    upload("/projects/{project}/files", attach),
    page("/projects/{project}/files/remove", detach, "POST"),
]
