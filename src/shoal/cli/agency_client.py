"""``shoal agency campaigns|contribute|fetch|report|register|releases``: owners and clients ask an agency's service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import answer, out, reporting

if TYPE_CHECKING:
    from rich.console import Console
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
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]


def campaigns(url: Url, token_file: TokenFile = None, insecure: Insecure = False, json_output: Json = False) -> None:
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


def contribute(
    url: Url,
    campaign: Campaign,
    counts: Annotated[
        Path | None, typer.Argument(help="The campaign's columns and `count`: one row a combination.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A table with one row a person instead, to be counted here.")
    ] = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: Json = False,
) -> None:
    """Send counts of past records to a campaign. They replace earlier ones; rows are not sent."""
    with reporting(json_output):
        from shoal.agency.contribution import Domain, counted, read_counts
        from shoal.errors import UsageError

        if (counts is None) == (data is None):
            raise UsageError("give a file of counts or --data with a table of records, and not both")
        client = client_of(url, token_file, insecure)
        domain = Domain.of(client.campaign(campaign).get("domain"))
        body = counted(data, domain) if data is not None else read_counts(counts, domain)
        told = client.contribute(campaign, body)
        if json_output:
            answer(told)
            return
        records = sum(row[-1] for row in body["rows"])
        combinations = amount(len(body["rows"]), "combination")
        print_lines(f"Counts of {amount(records, 'record')} in {combinations} are with the agency.")


def fetch(
    url: Url,
    campaign: Campaign,
    output: Annotated[Path, typer.Option("--out", "-o", help="New file for the plan.")],
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: Json = False,
) -> None:
    """Fetch a campaign's plan for `shoal agency apply`. Its digest is checked before it is written."""
    with reporting(json_output):
        plan = client_of(url, token_file, insecure).fetch(campaign, output)
        if json_output:
            told = {"plan": str(output), "classes": plan.classes, "records": plan.records, "delta": plan.delta}
            answer({**told, "promise": plan.promise.document(), "digest": plan.digest})
            return
        print_lines(
            f"The plan is {say(output)}: {amount(plan.classes, 'class', 'classes')} of {say(', '.join(plan.quasi))}.",
            f"Publish by it as soon as there are {plan.records:,} records, and not before.",
            f"Digest: {plan.digest}",
        )


def report(
    url: Url,
    campaign: Campaign,
    records: Annotated[int | None, typer.Option(help="How many records you have.", min=0)] = None,
    data: Annotated[Path | None, typer.Option(help="Count the rows of this table instead; they stay here.")] = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: Json = False,
) -> None:
    """Tell how many records you have. The agency answers how many are missing."""
    with reporting(json_output):
        from shoal.agency.contribution import number_of_records
        from shoal.errors import UsageError

        if (records is None) == (data is None):
            raise UsageError("give --records with a number or --data with a table to be counted, and not both")
        client = client_of(url, token_file, insecure)
        told = client.report(campaign, number_of_records(data) if records is None else records)
        if json_output:
            answer(told)
            return
        has = f"{amount(told['records'], 'record')} of {say(told['needed'], ',')} that are needed"
        print_lines(
            f"{has}: enough." if told["enough"] is True else f"{has}: wait for {say(told['missing'], ',')} more."
        )


def register(
    url: Url,
    campaign: Campaign,
    folder: Annotated[Path, typer.Argument(help="The release that `shoal agency apply` wrote.")],
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: Json = False,
) -> None:
    """Verify and register a release by the plan. Its manifest and digests are sent, no row."""
    with reporting(json_output):
        from shoal.agency.registration import registration
        from shoal.cli.bars import bars

        client = client_of(url, token_file, insecure)
        with bars() as progress:
            body = registration(folder, progress=progress)
        told = client.register(campaign, body)
        if json_output:
            answer(told)
            return
        print_lines(f"Verified, and registered as release {say(told['id'])}.")


def releases(
    url: Url,
    campaign: Campaign,
    together: Annotated[
        int | None, typer.Option(help="Tell what holds for this many releases together; else for all.", min=1)
    ] = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: Json = False,
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


def client_of(url: str, token_file: Path | None, insecure: bool) -> AgencyClient:
    """Return the client that a command asks with."""
    from shoal.agency.client import AgencyClient
    from shoal.agency.transport import read_token

    return AgencyClient.at(url, read_token(token_file), insecure=insecure)


def say(value: object, form: str = "") -> str:
    """Return what a service said as text that neither a terminal nor the console takes for anything else."""
    from rich.markup import escape

    from shoal.agency.transport import plain

    return escape(plain(format(value, form) if form and isinstance(value, int) else value))


def amount(number: object, one: str, several: str | None = None) -> str:
    """Return a number with its word.

    >>> amount(1, "class", "classes"), amount(1200, "record")
    ('1 class', '1,200 records')
    """
    return f"{say(number, ',')} {one if number == 1 else several or f'{one}s'}"


def table_of(*heads: str) -> Table:
    """Return an empty table as all commands show them."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in heads:
        table.add_column(head)
    return table


def print_lines(*lines: Table | str) -> None:
    """Print lines and tables for people."""
    console: Console = out()
    for line in lines:
        console.print(line, soft_wrap=True)
