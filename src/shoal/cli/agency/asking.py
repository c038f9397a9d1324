"""What the commands that ask an agency's service share: options, the client, and lines for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import out

if TYPE_CHECKING:
    from rich.table import Table

    from shoal.agency.client import AgencyClient

Url = Annotated[str, typer.Argument(metavar="URL", help="The service: https://..., or http://... on this machine.")]
Campaign = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Number of the campaign.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File with your token; else SHOAL_AGENCY_TOKEN holds it.")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Send the token over plain http to another machine all the same.")
]


def client_of(url: str, token_file: Path | None, insecure: bool) -> AgencyClient:
    """Return the client that a command asks with."""
    from shoal.agency.client import AgencyClient, read_token

    return AgencyClient.at(url, read_token(token_file), insecure=insecure)


def say(value: object, form: str = "") -> str:
    """Return what a service said as text that neither a terminal nor the console takes for anything else."""
    from rich.markup import escape

    from shoal.agency.client import make_printable

    return escape(make_printable(format(value, form) if form and isinstance(value, int) else value))


def amount(number: object, one: str, several: str | None = None) -> str:
    """Return a number with its word.

    >>> amount(1, "class", "classes"), amount(1200, "record")
    ('1 class', '1,200 records')
    """
    return f"{say(number, ',')} {one if number == 1 else several or f'{one}s'}"


def print_lines(*lines: Table | str) -> None:
    """Print lines and tables for people."""
    console = out()
    for line in lines:
        console.print(line, soft_wrap=True)
