"""``shoal agency campaigns|releases``: what everybody with a token may ask an agency's service."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli.agency.asking import (
    Campaign,
    Insecure,
    TokenFile,
    Url,
    client_of,
    print_lines,
    say,
)
from shoal.cli.console import JsonOption, answer, reporting
from shoal.cli.tables import table_of


def campaigns(
    url: Url, token_file: TokenFile = None, insecure: Insecure = False, json_output: JsonOption = False
) -> None:
    """List the campaigns of an agency."""
    with reporting(json_output):
        found = client_of(url, token_file, insecure).campaigns()
        if json_output:
            answer({"campaigns": found})
            return
        table = table_of("campaign", "name", "state", "promise")
        for entry in found:
            promise = f"l = {say(entry['l'])}, delta = {say(entry['delta'])}"
            table.add_row(say(entry["id"]), say(entry["name"]), say(entry["state"]), promise)
        print_lines(table if found else "There is no campaign yet.")


def releases(
    url: Url,
    campaign: Campaign,
    together: Annotated[
        int | None, typer.Option(help="Tell what holds for this many releases together; else for all.", min=1)
    ] = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """List a campaign's releases, and what they keep together."""
    with reporting(json_output):
        client = client_of(url, token_file, insecure)
        found = client.releases(campaign)
        guarantee = client.guarantee(campaign, together)
        if json_output:
            answer({"releases": found, "guarantee": guarantee})
            return
        table = table_of("release", "owner", "rows", "registered (UTC)")
        for entry in found:
            when = say(entry["at"])[:19].replace("T", " ")
            table.add_row(say(entry["id"]), say(entry["owner"]), say(entry["rows"], ","), when)
        print_lines(table if found else "No release is registered yet.", say(guarantee["statement"]))
