"""Files beside the table: hierarchies, populations and control tables, taken as they come."""

from __future__ import annotations

import shutil
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from shoal.core.errors import InputError
from shoal.studio.answers import Visit, page, upload
from shoal.studio.documents import is_plain


async def attach(visit: Visit) -> Response:
    """Keep a file under its plain name; one that is cut off leaves nothing behind."""
    name = unquote(visit.request.headers.get("shoal-name", ""))
    if not is_plain(name):
        raise InputError("this is no name for a file here; use letters and digits, and no folder")
    waiting = visit.project.new_folder("attach")
    try:
        with (waiting / "body").open("xb") as file:
            async for part in visit.request.stream():
                await run_in_threadpool(file.write, part)
        with (waiting / "body").open("rb") as file:
            await run_in_threadpool(visit.project.attach, name, file)
    except ClientDisconnect:
        raise InputError("the file was cut off; nothing of it is kept") from None
    except OSError as error:
        raise InputError(f"{name} could not be kept: {error.strerror}") from None
    finally:
        shutil.rmtree(waiting, ignore_errors=True)
    return JSONResponse({"name": name})


def remove(visit: Visit) -> Response:
    """Remove a file that was added."""
    visit.project.detach(visit.form.get("name"))
    return visit.to(visit.at("/policy"))


routes = [
    upload("/projects/{project}/files", attach),
    page("/projects/{project}/files/remove", remove, "POST"),
]
