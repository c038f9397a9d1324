"""The policy as YAML: read, edit, take another one, or go back to the draft."""

from __future__ import annotations

import secrets
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, PlainTextResponse, Response

from shoal.errors import InputError, PolicyError
from shoal.studio.answers import Visit, page, upload
from shoal.studio.project import StaleError

_STALE = (
    "The policy was changed in another tab. Your text is kept below and was not saved; compare it with the policy "
    "there. If you save it now, it replaces that change."
)


def show(visit: Visit) -> Response:
    """Show the text to edit."""
    return visit.render("policy.html", text=visit.project.policy_text, wrong="", hide_policy=True)


def save(visit: Visit) -> Response:
    """Take the text as the policy; one that is no YAML is shown again with its line, and nothing is changed."""
    text = visit.form.get("text").replace("\r\n", "\n")
    try:
        visit.project.change_text(visit.form.revision, text)
    except StaleError:
        return visit.render("policy.html", 409, text=text, wrong=_STALE, hide_policy=True)
    except PolicyError as error:
        return visit.render("policy.html", 422, text=text, wrong=f"{error}. Nothing was changed yet.", hide_policy=True)
    return visit.to(visit.at("/policy"))


def reset(visit: Visit) -> Response:
    """Go back to the draft, reasons and questions included."""
    draft = visit.project.draft
    visit.project.change(visit.form.revision, draft.policy, draft.text)
    return visit.to(visit.at("/policy"))


def download(visit: Visit) -> Response:
    """Give the policy as a file."""
    headers = {"content-disposition": 'attachment; filename="policy.yaml"'}
    return PlainTextResponse(visit.project.policy_text, headers=headers, media_type="application/yaml")


async def receive_file(visit: Visit) -> Response:
    """Take a file that the policy names, such as a hierarchy or a population."""
    name = unquote(visit.request.headers.get("shoal-name", ""))
    taken = visit.project.folder / f"{secrets.token_hex(8)}.taken"
    try:
        with taken.open("xb") as file:
            async for part in visit.request.stream():
                await run_in_threadpool(file.write, part)
        with taken.open("rb") as file:
            await run_in_threadpool(visit.project.attach, name, file)
    except ClientDisconnect:
        raise InputError("the upload was cut off; nothing of it is kept") from None
    finally:
        taken.unlink(missing_ok=True)
    return JSONResponse({"location": visit.at("/policy")})


def remove_file(visit: Visit) -> Response:
    """Remove a file that was added."""
    visit.project.detach(visit.form.get("name"))
    return visit.to(visit.at("/policy"))


def panel(visit: Visit) -> Response:
    """Give the panel that stands on every page."""
    return visit.render("policy_panel.html")


routes = [
    upload("/projects/{project}/files", receive_file),
    page("/projects/{project}/files/remove", remove_file, "POST"),
    page("/projects/{project}/policy", show),
    page("/projects/{project}/policy", save, "POST"),
    page("/projects/{project}/policy/draft", reset, "POST"),
    page("/projects/{project}/policy/download", download),
    page("/projects/{project}/policy/panel", panel),
]
