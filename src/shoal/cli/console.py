"""What all commands share: answers on standard output, everything else on standard error, and exit codes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = 130


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        import shoal

        typer.echo(f"shoal {shoal.__version__}")
        raise typer.Exit


@contextmanager
def reporting(json_output: bool) -> Iterator[None]:
    """Turn errors into messages and exit codes; with ``--json`` the message is an object on standard output."""
    from shoal.errors import ShoalError

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    except ShoalError as error:
        _stop(str(error), error.exit_code, json_output)
    except KeyboardInterrupt:
        _stop("interrupted; nothing was published", INTERRUPTED, json_output)
    except MemoryError:
        _stop("out of memory; nothing was published", 2, json_output)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _stop(message: str, code: int, json_output: bool) -> NoReturn:
    if json_output:
        answer({"error": message, "exit_code": code})
    else:
        typer.echo(f"shoal: {message}", err=True)
    raise typer.Exit(code)


def answer(content: Any) -> None:
    """Print one JSON object on standard output."""
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def out() -> Console:
    """Return the console for answers to people."""
    from rich.console import Console

    return Console(highlight=False)


def err() -> Console:
    """Return the console for what happens meanwhile."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)
