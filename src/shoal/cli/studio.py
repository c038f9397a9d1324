"""``shoal studio``: the local web application."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import leave, plain, reply, reporting, require_packages, say
from shoal.core.errors import UsageError

if TYPE_CHECKING:
    from shoal.studio.application import Entrance


def studio(
    data: Annotated[
        Path | None, typer.Argument(help="A table to open in place, without copying; open others in the studio.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on this machine; 0 for any free port.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
    json_output: Annotated[bool, typer.Option("--json", help="Print the address as one JSON object.")] = False,
) -> None:
    """Open tables, set roles, run and compare in a browser. Only this machine can reach it. Ctrl-C ends it."""
    with reporting(json_output):
        if os.name != "posix":
            raise UsageError("the studio runs on Linux and macOS only; the other commands work here")
        require_packages("the studio", "studio", "starlette", "uvicorn")
        import threading
        import webbrowser

        from shoal.studio.application import serve

        def announce(entrance: Entrance) -> None:
            link = entrance.link()
            reply(
                json_output,
                {"url": link},
                f"The studio is open at {plain(link)}",
                "The link works once; press Enter for another. Ctrl-C ends the studio and deletes its files.",
            )
            sys.stdout.flush()
            if not json_output and sys.stdin.isatty():
                threading.Thread(target=_print_links, args=(entrance,), daemon=True).start()
            if browser:
                page = entrance.file(link).as_uri()
                threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()  # some browsers block

        serve(port, data, announce)
        leave(0)  # a thread may still read standard input


def _print_links(entrance: Entrance) -> None:
    """Print another link whenever Enter is pressed."""
    for _ in sys.stdin:
        say(f"Another link: {plain(entrance.link())}")
