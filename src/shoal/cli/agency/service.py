"""``shoal agency serve`` and what asks it: commands of the agency's staff, of data owners, and of all with a token."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.console import JsonOption, answer, make_table, out, reporting

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
Database = Annotated[
    str | None,
    typer.Option(help="sqlite:///FILE or postgresql://...; else SHOAL_AGENCY_DATABASE, else sqlite:///agency.db."),
]


def make_client(url: str, token_file: Path | None, insecure: bool) -> AgencyClient:
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


def serve(
    database: Database = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; else 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port, 0 for any free one; else 8321.")] = None,
    port_file: Annotated[Path | None, typer.Option(help="Write the port to this file when ready.")] = None,
    migrate: Annotated[bool, typer.Option("--migrate", help="Bring the database to the newest version first.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Say where it serves as one JSON object.")] = False,
) -> None:
    """Serve an agency over HTTP. Campaigns, plans and registered releases, until interrupted."""
    with reporting(json_output):
        _demand_packages()
        from shoal.agency.service.application import serve as run
        from shoal.agency.service.application import write_port
        from shoal.agency.service.database import open_migrated
        from shoal.agency.service.settings import settings

        chosen = settings(database=database, host=host, port=port)

        def announce(name: str, number: int) -> None:
            address = f"http://{name}:{number}"
            if json_output:
                answer({"url": address, "port": number})
                sys.stdout.flush()
            else:
                out().print(f"The agency serves on {address}", soft_wrap=True)
            if port_file is not None:
                write_port(port_file, number)

        run(chosen, open_migrated(chosen.database, migrating=migrate), announce)


def migrate(
    database: Database = None,
    json_output: JsonOption = False,
) -> None:
    """Bring a database up to date. It is made if it is not there."""
    with reporting(json_output):
        _demand_packages()
        from shoal.agency.service.database import open_migrated
        from shoal.agency.service.settings import settings

        open_migrated(settings(database=database).database, migrating=True)
        if json_output:
            answer({"migrated": True})
        else:
            out().print("The database is of the newest version.")


def token(
    role: Annotated[str, typer.Option(help="agency, owner or client.")],
    name: Annotated[str, typer.Option(help="Whom it is for; owners are told apart by it.")],
    database: Database = None,
    json_output: JsonOption = False,
) -> None:
    """Make a token and print it. It is shown this once; the first of an agency is made so."""
    with reporting(json_output):
        _demand_packages()
        from shoal.agency.service.administration import create_first_token
        from shoal.agency.service.settings import settings

        made = create_first_token(settings(database=database), name, role)
        if json_output:
            answer(made)
        else:
            out().print(made["token"], soft_wrap=True, markup=False)


def _demand_packages() -> None:
    """Raise unless the packages of the service are there."""
    from importlib.util import find_spec

    from shoal.core.errors import UsageError

    absent = [
        name for name in ("alembic", "fastapi", "prometheus_client", "sqlalchemy", "uvicorn") if find_spec(name) is None
    ]
    if absent:
        raise UsageError(f"the agency's service needs {', '.join(absent)}; install shoal[agency]")


def open_campaign(
    url: Url,
    campaign_file: Annotated[Path, typer.Argument(metavar="CAMPAIGN.YAML", help="Name, columns, values and promise.")],
    distribution: Annotated[
        Path | None, typer.Option(help="What is known of the population: counts or probabilities; owners give none.")
    ] = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """Open a campaign. Owners contribute counts to it, unless a distribution is given at once."""
    with reporting(json_output):
        from shoal.agency.submissions import read_campaign
        from shoal.core.errors import ShoalError

        body = read_campaign(campaign_file)
        given = None if distribution is None else _distribution(distribution, body["domain"])
        client = make_client(url, token_file, insecure)
        number = str(client.open_campaign(body)["id"])
        try:
            if given is None:
                client.move(number, "collecting")
            else:
                client.distribute(number, given)
        except ShoalError as error:
            raise type(error)(
                f"campaign {number} was made, but stays a draft that is good for nothing: {error}"
            ) from None
        if json_output:
            answer(client.campaign(number))
            return
        next_step = "Owners may contribute counts now" if given is None else "Its distribution is known"
        print_lines(f"Campaign {say(number)} is open. {next_step}; `shoal agency settle` makes the plan.")


def _distribution(path: Path, domain: dict[str, Any]) -> dict[str, Any]:
    """Read a distribution for sending, and refuse here what no plan could be made from."""
    from shoal.agency.distribution import read_distribution
    from shoal.agency.domain import Domain
    from shoal.agency.submissions import read_counts

    given = read_counts(path, Domain.of(domain), probabilities=True)
    read_distribution(path, domain["sensitive"]["name"])
    return given


def status(
    url: Url,
    campaign: Campaign,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """Show how far a campaign is. Who contributed, who has how many records, and what is registered."""
    with reporting(json_output):
        client = make_client(url, token_file, insecure)
        found = client.campaign(campaign)
        contributions = client.contributions(campaign)
        reports = client.reports(campaign) if found["state"] in ("planned", "closed") else []
        released = client.releases(campaign)
        if json_output:
            reply = {"contributions": contributions, "reports": reports, "releases": released}
            answer({"campaign": found, **reply})
            return
        lines = [f"Campaign {say(campaign)}, {say(found['name'])}: {say(found['state'])}."]
        lines += [f"{say(entry['owner'])} contributed {say(entry['records'], ',')} records." for entry in contributions]
        lines += [
            f"{say(entry['owner'])} has {say(entry['records'], ',')} of {say(entry['needed'], ',')} records."
            for entry in reports
        ]
        lines += [f"{say(entry['owner'])} registered release {say(entry['id'])}." for entry in released]
        print_lines(*lines)


def settle(
    url: Url,
    campaign: Campaign,
    samples: Annotated[
        int | None, typer.Option(help="Make the most classes that so many records allow.", min=1)
    ] = None,
    p: Annotated[float | None, typer.Option("--p", help="How likely l values of every class are at least.")] = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """Have a campaign's plan made. From then on it never changes."""
    with reporting(json_output):
        made = make_client(url, token_file, insecure).settle(campaign, p=p, samples=samples)
        if json_output:
            answer(made)
            return
        classes = amount(made["classes"], "class", "classes")
        print_lines(
            f"{classes}; owners publish with {say(made['records'], ',')} records or more.",
            f"Digest of the plan: {say(made['digest'])}",
        )


def close(
    url: Url,
    campaign: Campaign,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """Close a campaign. No release is registered any more; what is registered stays."""
    with reporting(json_output):
        reply = make_client(url, token_file, insecure).move(campaign, "closed")
        if json_output:
            answer(reply)
            return
        print_lines(f"Campaign {say(campaign)} is closed.")


def contribute(
    url: Url,
    campaign: Campaign,
    counts: Annotated[
        Path | None, typer.Argument(help="The campaign's columns and `count`: one row per combination.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A table with one row per person instead, to be counted here.")
    ] = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """Send counts of past records to a campaign. They replace earlier ones; rows are not sent."""
    with reporting(json_output):
        from shoal.agency.domain import Domain
        from shoal.agency.submissions import count_by_domain, read_counts
        from shoal.core.errors import UsageError

        if (counts is None) == (data is None):
            raise UsageError("give a file of counts or --data with a table of records, and not both")
        client = make_client(url, token_file, insecure)
        domain = Domain.of(client.campaign(campaign).get("domain"))
        body = count_by_domain(data, domain) if data is not None else read_counts(counts, domain)
        stored = client.contribute(campaign, body)
        if json_output:
            answer(stored)
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
    json_output: JsonOption = False,
) -> None:
    """Fetch a campaign's plan for `shoal agency apply`. Its digest is checked before it is written."""
    with reporting(json_output):
        plan = make_client(url, token_file, insecure).fetch(campaign, output)
        if json_output:
            reply = {"plan": str(output), "classes": plan.classes, "records": plan.records, "delta": plan.delta}
            answer({**reply, "promise": plan.promise.document(), "digest": plan.digest})
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
    json_output: JsonOption = False,
) -> None:
    """Tell how many records you have. The agency answers how many are missing."""
    with reporting(json_output):
        from shoal.agency.submissions import count_rows
        from shoal.core.errors import UsageError

        if (records is None) == (data is None):
            raise UsageError("give --records with a number or --data with a table to be counted, and not both")
        client = make_client(url, token_file, insecure)
        reply = client.report(campaign, count_rows(data) if records is None else records)
        if json_output:
            answer(reply)
            return
        has = f"{amount(reply['records'], 'record')} of {say(reply['needed'], ',')} that are needed"
        print_lines(
            f"{has}: enough." if reply["enough"] is True else f"{has}: wait for {say(reply['missing'], ',')} more."
        )


def register(
    url: Url,
    campaign: Campaign,
    folder: Annotated[Path, typer.Argument(help="The release that `shoal agency apply` wrote.")],
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """Verify and register a release by the plan. Its manifest and digests are sent, no row."""
    with reporting(json_output):
        from shoal.agency.submissions import make_registration
        from shoal.cli.bars import bars

        client = make_client(url, token_file, insecure)
        with bars() as progress:
            body = make_registration(folder, progress=progress)
        reply = client.register(campaign, body)
        if json_output:
            answer(reply)
            return
        print_lines(f"Verified, and registered as release {say(reply['id'])}.")


def campaigns(
    url: Url, token_file: TokenFile = None, insecure: Insecure = False, json_output: JsonOption = False
) -> None:
    """List the campaigns of an agency."""
    with reporting(json_output):
        found = make_client(url, token_file, insecure).campaigns()
        if json_output:
            answer({"campaigns": found})
            return
        table = make_table("campaign", "name", "state", "promise")
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
        client = make_client(url, token_file, insecure)
        found = client.releases(campaign)
        guarantee = client.guarantee(campaign, together)
        if json_output:
            answer({"releases": found, "guarantee": guarantee})
            return
        table = make_table("release", "owner", "rows", "registered (UTC)")
        for entry in found:
            when = say(entry["at"])[:19].replace("T", " ")
            table.add_row(say(entry["id"]), say(entry["owner"]), say(entry["rows"], ","), when)
        print_lines(table if found else "No release is registered yet.", say(guarantee["statement"]))
