"""Requests and answers of pages: visits, forms, templates, routes and the navigation."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from shoal.core.errors import InputError, ShoalError
from shoal.studio.project import Project, StaleError
from shoal.studio.studio import Studio

Content: TypeAlias = dict[str, Any]  # values of a template, or a part of a policy document

_MOST_FIELDS = 20_000
_STALE = 409
SWAP = "shoal-swap"  # header of requests for a part of a page
REVISION = "shoal-revision"  # header of answers about a project


def require_policy(project: Project) -> str | None:
    """Return what to do before the policy can be used, or None."""
    return "fix the policy first" if project.problems() else None


@dataclass(frozen=True, slots=True)
class Place:
    """One step of the navigation; *ready* returns what to do before it can be opened, or None."""

    title: str
    path: str  # below /projects/{project}, e.g. "/columns"
    order: int
    ready: Callable[[Project], str | None] = lambda _: None


@cache
def page_modules() -> tuple[ModuleType, ...]:
    home = importlib.import_module("shoal.studio.pages")
    found = sorted(each.name for each in pkgutil.iter_modules(home.__path__, prefix=f"{home.__name__}."))
    return tuple(importlib.import_module(name) for name in found)


@cache
def places() -> tuple[Place, ...]:
    return tuple(sorted((one.place for one in page_modules() if hasattr(one, "place")), key=lambda place: place.order))


class Form(ImmutableMultiDict[str, str]):
    """The fields of a form; a missing field is empty."""

    def get(self, key: str, default: str = "") -> str:  # type: ignore[override]
        return str(super().get(key, default))

    @property
    def revision(self) -> int:
        """The revision that the page showed; 0, which is always stale, if there is none."""
        text = self.get("revision")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


@dataclass(frozen=True, slots=True)
class Visit:
    """One request, with its form and project."""

    request: Request
    studio: Studio
    form: Form
    opened: Project | None = field(default=None)

    @property
    def project(self) -> Project:
        if self.opened is None:
            raise HTTPException(404)
        return self.opened

    @property
    def swapping(self) -> bool:
        """Whether the request is for a part of a page."""
        return SWAP in self.request.headers

    def at(self, path: str) -> str:
        return f"/projects/{self.project.id}{path}"

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        return render(self.request, template, status, project=self.opened, **values)

    def to(self, path: str) -> Response:
        return RedirectResponse(path, status_code=303)

    async def read_body(self, name: str, largest: int) -> bytes:
        """Return the body, or refuse one of more than *largest* bytes."""
        body = bytearray()
        async for part in self.request.stream():
            body += part
            if len(body) > largest:
                raise InputError(f"{name} is larger than {largest >> 20} MB")
        return bytes(body)

    def problem(self, message: str, status: int = 422) -> Response:
        template = "notice.html" if self.swapping else "problem.html"
        return self.render(template, status, message=message, title="Failed", reload=self.swapping and status == _STALE)


Handler = Callable[[Visit], Response]
Streaming = Callable[[Visit], Awaitable[Response]]


def render(request: Request, template: str, status: int = 200, **values: Any) -> Response:
    """Render a template, which always gets the studio, the project and the navigation."""
    studio: Studio = request.app.state.studio
    project: Project | None = values.pop("project", None)
    text = studio.templates.get_template(template).render(
        studio=studio,
        project=project,
        steps=[] if project is None else [_describe_step(place, project, request.url.path) for place in places()],
        **values,
    )
    headers = {} if project is None else {REVISION: str(project.revision)}
    return HTMLResponse(text, status_code=status, headers=headers)


def _describe_step(place: Place, project: Project, path: str) -> dict[str, object]:
    here = f"/projects/{project.id}{place.path}"
    current = path == here or path.startswith(f"{here}/")
    return {"title": place.title, "href": here, "current": current, "waiting": place.ready(project)}


def page(path: str, handler: Handler, method: str = "GET") -> Route:
    """Return a route whose handler runs in a thread; ``{project}`` in the path names its project."""

    async def answer(visit: Visit) -> Response:
        return await run_in_threadpool(handler, visit)

    return _route(path, answer, method)


def upload(path: str, handler: Streaming) -> Route:
    """Return a PUT route whose handler reads the body as a stream (``visit.request.stream()``)."""
    return _route(path, handler, "PUT")


def _route(path: str, handler: Streaming, method: str) -> Route:
    """Return a route; a ShoalError becomes a message, with status 409 for a stale change."""

    async def endpoint(request: Request) -> Response:
        visit = await _make_visit(request, method)
        try:
            return await handler(visit)
        except ShoalError as error:
            return visit.problem(str(error), _STALE if isinstance(error, StaleError) else 422)

    return Route(path, endpoint, methods=[method], name=f"{method} {path}")


async def _make_visit(request: Request, method: str) -> Visit:
    studio: Studio = request.app.state.studio
    project = None
    if "project" in request.path_params:
        project = studio.projects.get(request.path_params["project"])
        if project is None:
            raise HTTPException(404)
    pairs: list[tuple[str, str]] = []
    if method == "POST":
        try:
            text = (await request.body()).decode("utf-8")
            pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, encoding="utf-8")
        except ValueError:
            raise HTTPException(400) from None
    return Visit(request, studio, Form(pairs), project)
