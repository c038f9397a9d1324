"""Open a table (an upload, the demo data, an open one), and attach files: hierarchies, populations.

A project can be saved as a file, reopened, duplicated, and closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from shoal.core.errors import InputError, UsageError
from shoal.datasets.hospital_files import write_stays
from shoal.studio.answers import Visit, page, upload
from shoal.studio.pages.reading import read_options
from shoal.studio.pages.run import describe_solution, list_solutions
from shoal.studio.project import ENDING, LARGEST, Project, is_plain, read_project, restore, save_project
from shoal.studio.reading import Reading

ENDINGS = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".xlsx", ".dta", ".sav", ".zsav")
_ENDINGS_OF_TABLES = (".csv.gz", ".tsv.gz", ".txt.gz", *(ending for ending in ENDINGS if ending != ".gz"))
_KINDS = "a .csv, .tsv, .txt (also .gz), .parquet, .xlsx, .dta, .sav or .zsav file"
_ENCODING = "set its character encoding under More about text files (often windows-1252), then open it again"
_DEMO_ROWS = 20_000
_TURN = 0.1  # seconds between checks whether the sender is connected
_SPARE = 256 << 20  # bytes of disk space left by an upload


def show(visit: Visit) -> Response:
    """Show the files that can be opened and the open tables; a saved project waits for its table."""
    waiting = visit.request.query_params.get("project", "")
    return visit.render(
        "open.html",
        projects=list(visit.studio.newest()),
        endings=(*ENDINGS, ENDING),
        waiting=waiting,
        saved=visit.studio.waiting.get(waiting),
    )


def demo(visit: Visit) -> Response:
    folder = visit.studio.new_folder()
    with _nothing_left(folder):
        path = write_stays(folder / "stays.csv", _DEMO_ROWS)
        project = visit.studio.open(Reading(path.name, path), folder)
    return visit.to(f"/projects/{project.id}/columns")


def alive(_: Visit) -> Response:
    return Response(status_code=204)


async def receive(visit: Visit) -> Response:
    """Store an uploaded table, open it, and return its address."""
    query = visit.request.query_params
    given = unquote(visit.request.headers.get("shoal-name", ""))
    if given.lower().endswith(ENDING):
        return await _receive_project(visit, given)
    name = plain_name(given)
    saved = visit.studio.waiting.get(query.get("project", ""))
    delimiter = "\t" if query.get("delimiter") == "tab" else query.get("delimiter") or None
    written = {"delimiter": delimiter, "encoding": query.get("encoding") or "utf-8"}
    options = saved.options if saved else read_options(written)
    folder = visit.studio.new_folder()
    with _nothing_left(folder):
        path = folder / name
        length, free = int(visit.request.headers.get("content-length", "0")), shutil.disk_usage(folder).free
        if length + _SPARE > free:
            raise UsageError(f"the table has {length:,} bytes, but the disk for temporary files has only {free:,} left")
        await _write_body(visit, path, name)
        if not path.stat().st_size:
            raise InputError(f"{name} is empty")
        try:
            asked = Reading(name, path, options, saved.types if saved else {}, settled=saved is not None)
            project = await _open_while_connected(visit, asked, folder)
        except InputError as error:
            if "set `encoding`" not in str(error):
                raise
            raise InputError(f"{str(error).partition(';')[0]}; {_ENCODING}") from None
        if saved is not None:
            await run_in_threadpool(restore, project, saved)
    return JSONResponse({"location": f"/projects/{project.id}/columns"})


async def _receive_project(visit: Visit, name: str) -> Response:
    """Read a project file; its table is opened next."""
    saved = read_project((await visit.read_body(name, LARGEST)).decode("utf-8", "replace"), name)
    return JSONResponse({"location": f"/?project={visit.studio.keep_waiting(saved)}"})


async def _open_while_connected(visit: Visit, asked: Reading, folder: Path) -> Project:
    """Read the table; stop if the sender disconnects or cancels."""
    stopped = threading.Event()
    reading = asyncio.ensure_future(run_in_threadpool(visit.studio.open, asked, folder, stopped))
    try:
        while not (await asyncio.wait([reading], timeout=_TURN))[0]:
            if await visit.request.is_disconnected():
                stopped.set()
        return await reading
    finally:
        stopped.set()


async def _write_body(visit: Visit, path: Path, name: str) -> None:
    """Write the body to a new file; an incomplete body is refused."""
    try:
        with path.open("xb") as file:
            async for part in visit.request.stream():
                await run_in_threadpool(file.write, part)
    except ClientDisconnect:
        raise InputError(f"the upload of {name} was interrupted; upload it again") from None
    except OSError as error:
        raise InputError(f"{name} could not be stored: {error.strerror}") from None


def plain_name(given: str) -> str:
    """Return the last part of a name without special characters; an unknown kind of file is refused.

    >>> plain_name("../../etc/Our patients?.CSV")
    'Our patients_.csv'
    """
    safe = re.sub(r"[^\w .()-]", "_", re.split(r"[/\\]", given)[-1])
    kind = next((known for known in _ENDINGS_OF_TABLES if safe.lower().endswith(known)), None)
    if kind is None:
        shown = safe.strip(" .-")[:80] or "this"
        raise UsageError(f"the studio does not recognize {shown} by its ending; choose {_KINDS}")
    return (safe[: -len(kind)].strip(" .-")[:76] or "table") + kind


@contextlib.contextmanager
def _nothing_left(folder: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


async def attach(visit: Visit) -> Response:
    """Store an uploaded file under its plain name."""
    name = unquote(visit.request.headers.get("shoal-name", ""))
    if not is_plain(name):
        raise InputError("this is not a valid file name; use letters and digits, and no folder")
    waiting = visit.project.new_folder("attach")
    try:
        await _write_body(visit, waiting / "body", name)
        visit.project.attach(name, waiting / "body")
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
    return JSONResponse({"name": name})


def detach(visit: Visit) -> Response:
    visit.project.detach(visit.form.get("name"))
    return visit.to(visit.at("/policy"))


def save(visit: Visit) -> Response:
    """Return the project as a file."""
    project = visit.project
    runs = [*map(describe_solution, list_solutions(project)), *project.earlier]
    text = save_project(project, runs)
    project.saved = project.revision
    name = re.sub(r"[^\w.-]+", "-", Path(project.title).stem, flags=re.ASCII).strip("-.") or "project"
    headers = {"content-disposition": f'attachment; filename="{name}{ENDING}"'}
    return Response(text, media_type="application/json", headers=headers)


def duplicate(visit: Visit) -> Response:
    copy = visit.studio.duplicate(visit.project)
    return visit.to(f"/projects/{copy.id}/columns")


def ask_to_close(visit: Visit) -> Response:
    return visit.render("close.html", hide_policy=True)


def close(visit: Visit) -> Response:
    visit.studio.forget(visit.project)
    return visit.to("/")


_PATH = "/projects/{project}"
routes = [
    page("/", show),
    page("/demo", demo, "POST"),
    page("/alive", alive),
    upload("/upload", receive),
    upload(f"{_PATH}/files", attach),
    page(f"{_PATH}/files/remove", detach, "POST"),
    page(f"{_PATH}/save", save),
    page(f"{_PATH}/duplicate", duplicate, "POST"),
    page(f"{_PATH}/close", ask_to_close),
    page(f"{_PATH}/close", close, "POST"),
]
