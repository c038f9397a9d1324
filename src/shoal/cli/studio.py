"""``shoal studio``: the local web application."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import answer, out, reporting


def studio(
    data: Annotated[
        Path | None, typer.Argument(help="A table to open at once; it is read where it is. Others are opened there.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on this machine, 0 for any free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    json_output: Annotated[bool, typer.Option("--json", help="Say the address as one JSON object.")] = False,
) -> None:
    """Open tables, set roles, run and compare in a browser. Only this machine can reach it, until interrupted."""
    with reporting(json_output):
        _installed()
        from shoal.studio.serving import serve

        def announce(url: str) -> None:
            if json_output:
                answer({"url": url})
            else:
                out().print(f"The studio is open at {url}", soft_wrap=True, markup=False)
                out().print("The link works once. Ctrl-C ends the studio and removes what was opened in it.")
            sys.stdout.flush()
            if browser:
                _open(url)

        serve(port, data, announce)


def _open(url: str) -> None:
    """Open the browser from a thread: some wait until it is closed."""
    import threading
    import webbrowser

    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


def _installed() -> None:
    """Raise unless the packages of the studio are there."""
    from importlib.util import find_spec

    from shoal.errors import UsageError

    if os.name != "posix":
        raise UsageError("the studio runs on Linux and macOS only; the other commands run here too")
    if absent := [name for name in ("jinja2", "starlette", "uvicorn") if find_spec(name) is None]:
        raise UsageError(f"the studio needs {', '.join(absent)}; install shoal[studio]")
