"""The studio put together: pages, own files, and the same form for every refusal."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from shoal.studio.answers import SWAP, render
from shoal.studio.gate import Gate, Key, Pages
from shoal.studio.peers import Own
from shoal.studio.places import page_modules
from shoal.studio.studio import HOME, Studio

_SAID = {
    400: "The request could not be understood.",
    404: "There is no such page. Perhaps the table was closed, or the studio was started anew.",
    405: "The studio does not know this kind of request.",
}


def create_app(studio: Studio, key: Key, address: str, landing: str = "/", own: Own | None = None) -> Starlette:
    """Return the application behind its gate; who comes in by the link of the *key* is led to *landing*.

    *own* tells whether a connection is one of the studio's user, where that is known.
    """
    routes: list[BaseRoute] = [route for module in page_modules() for route in getattr(module, "routes", [])]
    routes.append(Mount("/static", StaticFiles(directory=HOME / "static")))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False
    app.state.studio = studio

    def pages(scope: Scope) -> Pages:
        request = Request({**scope, "app": app})
        return lambda status, message: (
            render(request, "enter.html", landing=landing) if status == 200 else _page(request, status, message)
        )

    app.add_middleware(Gate, key=key, address=address, pages=pages, own=own)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return _page(request, status, _SAID.get(status, "The studio cannot answer that."))


def _page(request: Request, status: int, message: str) -> Response:
    template = "notice.html" if SWAP in request.headers else "problem.html"
    return render(request, template, status, message=message, title="Not possible")
