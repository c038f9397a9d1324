"""``shoal agency serve`` and what asks it: commands of the agency's staff, of data owners, and of all with a token."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.agency import app as app
from shoal.cli.console import JsonOption, bars, make_table, plain, reply, reporting, require_packages
from shoal.core.errors import ShoalError, UsageError

if TYPE_CHECKING:
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
Days = Annotated[int, typer.Option("--expires", metavar="DAYS", help="Days until it expires.", min=1, max=3660)]
PACKAGES = ("alembic", "fastapi", "prometheus_client", "sqlalchemy", "uvicorn")


def make_client(url: str, token_file: Path | None, insecure: bool) -> AgencyClient:
    """Return the client that a command asks with."""
    from shoal.agency.client import AgencyClient, read_token

    return AgencyClient.at(url, read_token(token_file), insecure=insecure)


def quote(value: object, form: str = "") -> str:
    """Return what a service said as text that neither a terminal nor the console takes for anything else."""
    from shoal.agency.client import make_printable

    return plain(make_printable(format(value, form) if form and isinstance(value, int) else value))


def amount(number: object, one: str, several: str | None = None) -> str:
    """Return a number with its word.

    >>> amount(1, "class", "classes"), amount(1200, "record")
    ('1 class', '1,200 records')
    """
    return f"{quote(number, ',')} {one if number == 1 else several or f'{one}s'}"


@app.command("serve")
def serve(
    database: Database = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; else 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port, 0 for any free one; else 8321.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate with its chain, PEM; needs --tls-key.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Key of the certificate, PEM.")] = None,
    behind_proxy: Annotated[
        bool | None, typer.Option("--behind-proxy", help="A proxy with TLS stands before a plain listener.")
    ] = None,
    port_file: Annotated[Path | None, typer.Option(help="Write the port to this file when ready.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Say where it serves as one JSON object.")] = False,
) -> None:
    """Serve an agency over HTTP. Campaigns, plans and registered releases, until interrupted."""
    with reporting(json_output):
        require_packages("the agency's service", "agency", *PACKAGES)
        from shoal.agency.service.application import serve as run
        from shoal.agency.service.application import write_port
        from shoal.agency.service.database import open_migrated
        from shoal.agency.service.settings import settings

        secured = {"tls_cert": tls_cert, "tls_key": tls_key, "behind_proxy": behind_proxy}
        chosen = settings(None, database=database, host=host, port=port, **secured)

        def announce(name: str, number: int) -> None:
            address = f"http{'s' if chosen.tls_cert else ''}://{name}:{number}"
            reply(json_output, {"url": address, "port": number}, f"The agency serves on {address}")
            sys.stdout.flush()
            if port_file is not None:
                write_port(port_file, number)

        run(chosen, open_migrated(chosen.database, migrating=False), announce)


@app.command("migrate")
def migrate(
    database: Database = None,
    json_output: JsonOption = False,
) -> None:
    """Bring a database up to date. It is made if it is not there."""
    with reporting(json_output):
        require_packages("the agency's service", "agency", *PACKAGES)
        from shoal.agency.service.database import open_migrated
        from shoal.agency.service.settings import settings

        open_migrated(settings(database=database).database, migrating=True)
        reply(json_output, {"migrated": True}, "The database is of the newest version.")


@app.command("token")
def token(
    role: Annotated[str, typer.Option(help="agency, owner or client.")],
    name: Annotated[str, typer.Option(help="Whom it is for; owners are told apart by it.")],
    expires: Days = 90,
    database: Database = None,
    json_output: JsonOption = False,
) -> None:
    """Make a token and print it. It is shown this once; the first of an agency is made so."""
    with reporting(json_output):
        require_packages("the agency's service", "agency", *PACKAGES)
        from shoal.agency.service.administration import create_first_token
        from shoal.agency.service.settings import settings

        made = create_first_token(settings(database=database), name, role, expires)
        reply(json_output, made, plain(made["token"]))


@app.command("renew")
def renew(
    token: Annotated[int, typer.Argument(metavar="TOKEN", help="Number of the token, as `GET /v1/tokens` lists it.")],
    expires: Days = 90,
    database: Database = None,
    json_output: JsonOption = False,
) -> None:
    """Renew a token, also one that has expired. The token stays as it is."""
    with reporting(json_output):
        require_packages("the agency's service", "agency", *PACKAGES)
        from shoal.agency.service.administration import renew_beside
        from shoal.agency.service.settings import settings

        made = renew_beside(settings(database=database), token, expires)
        reply(json_output, made, f"Token {token}, of {plain(made['name'])}, is valid until {made['expires_at'][:10]}.")


@app.command("open")
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
        from shoal.agency.distribution import read_distribution
        from shoal.agency.domain import Domain
        from shoal.agency.submissions import read_campaign, read_counts

        body = read_campaign(campaign_file)
        given = None
        if distribution is not None:
            given = read_counts(distribution, Domain.of(body["domain"]), probabilities=True)
            read_distribution(distribution, body["domain"]["sensitive"]["name"])  # a plan could be made from it
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
        next_step = "Owners may contribute counts now" if given is None else "Its distribution is known"
        text = f"Campaign {quote(number)} is open. {next_step}; `shoal agency settle` makes the plan."
        reply(json_output, client.campaign(number) if json_output else {}, text)


@app.command("status")
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
        lines = [f"Campaign {quote(campaign)}, {quote(found['name'])}: {quote(found['state'])}."]
        lines += [
            f"{quote(each['owner'])} contributed {quote(each['records'], ',')} records." for each in contributions
        ]
        for entry in reports:
            has = f"{quote(entry['records'], ',')} of {quote(entry['needed'], ',')} records"
            lines.append(f"{quote(entry['owner'])} has {has}.")
        lines += [
            f"{quote(entry['owner'])} registered release {quote(entry['id'])}, {quote(entry['basis'])}."
            for entry in released
        ]
        waiting = [entry for entry in client.requests() if entry["state"] == "open"]
        lines += [f"{quote(entry['client'])} asks for releases (request {quote(entry['id'])})." for entry in waiting]
        content = {"campaign": found, "contributions": contributions, "reports": reports, "releases": released}
        content["requests"] = waiting
        reply(json_output, content, *lines)


@app.command("settle")
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
        classes = amount(made["classes"], "class", "classes")
        text = f"{classes}; owners publish with {quote(made['records'], ',')} records or more."
        reply(json_output, made, text, f"Digest of the plan: {quote(made['digest'])}")


@app.command("close")
def close(
    url: Url,
    campaign: Campaign,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """Close a campaign. No release is registered any more; what is registered stays."""
    with reporting(json_output):
        closed = make_client(url, token_file, insecure).move(campaign, "closed")
        reply(json_output, closed, f"Campaign {quote(campaign)} is closed.")


@app.command("campaigns")
def campaigns(
    url: Url, token_file: TokenFile = None, insecure: Insecure = False, json_output: JsonOption = False
) -> None:
    """List the campaigns of an agency."""
    with reporting(json_output):
        found = make_client(url, token_file, insecure).campaigns()
        table = make_table("campaign", "name", "state", "promise")
        for entry in found:
            number = f"l = {quote(entry['l'])}" if entry["k"] is None else f"k = {quote(entry['k'])}"
            promise = f"{quote(entry['promise'])} ({number}, delta = {quote(entry['delta'])})"
            table.add_row(quote(entry["id"]), quote(entry["name"]), quote(entry["state"]), promise)
        reply(json_output, {"campaigns": found}, table if found else "There is no campaign yet.")


@app.command("request")
def request(
    url: Url,
    wanted: Annotated[str, typer.Argument(help="Number of a campaign, or the columns that are wanted, with commas.")],
    purpose: Annotated[str, typer.Option(help="What the releases are for.")],
    l: Annotated[float | None, typer.Option("--l", help="Sensitive values that shall remain for everybody.")] = None,
    delta: Annotated[float | None, typer.Option(help="How probably a release may miss that.")] = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """Ask an agency for releases. It approves or refuses; `shoal agency requests` shows what it decided."""
    with reporting(json_output):
        of_campaign = wanted.isdecimal()
        what = (
            {"campaign": int(wanted)} if of_campaign else {"attributes": [name.strip() for name in wanted.split(",")]}
        )
        body = {"purpose": purpose, "l": l, "delta": delta, **what}
        made = make_client(url, token_file, insecure).request(body)
        reply(json_output, made, f"Request {quote(made['id'])} waits for the agency.")


@app.command("requests")
def requests(
    url: Url,
    request: Annotated[int | None, typer.Argument(metavar="REQUEST", help="One to decide, by the agency.")] = None,
    approve: Annotated[bool | None, typer.Option("--approve/--refuse", help="What is decided about it.")] = None,
    campaign: Annotated[int | None, typer.Option(help="For which campaign, if it names none.", min=1)] = None,
    reason: Annotated[str, typer.Option(help="Why; the client reads it.")] = "",
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """List requests of clients, or decide one. An approved client may read what the campaign has registered."""
    with reporting(json_output):
        client = make_client(url, token_file, insecure)
        if (request is None) != (approve is None):
            raise UsageError(
                "a decision is a request's number and --approve or --refuse; give both, or neither to list"
            )
        if request is not None:
            body = {"state": "approved" if approve else "refused", "campaign": campaign, "reason": reason}
            made = client.decide(request, body)
            reply(json_output, made, f"Request {request} of {quote(made['client'])} is {quote(made['state'])}.")
            return
        found, names = client.requests(), ("id", "client", "campaign", "state", "purpose", "reason")
        table = make_table("request", *names[1:])
        for entry in found:
            table.add_row(*(quote(entry[name] or "") for name in names))
        reply(json_output, {"requests": found}, table if found else "There is no request yet.")


@app.command("contribute")
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

        if (counts is None) == (data is None):
            raise UsageError("give a file of counts or --data with a table of records, and not both")
        client = make_client(url, token_file, insecure)
        domain = Domain.of(client.campaign(campaign).get("domain"))
        body = count_by_domain(data, domain) if data is not None else read_counts(counts, domain)
        stored = client.contribute(campaign, body)
        records = amount(sum(row[-1] for row in body["rows"]), "record")
        combinations = amount(len(body["rows"]), "combination")
        reply(json_output, stored, f"Counts of {records} in {combinations} are with the agency.")


@app.command("fetch")
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
        content = {"plan": str(output), "classes": plan.classes, "records": plan.records, "delta": plan.delta}
        classes = f"{amount(plan.classes, 'class', 'classes')} of {quote(', '.join(plan.quasi))}"
        reply(
            json_output,
            {**content, "promise": plan.promise.document(), "digest": plan.digest},
            f"The plan is {quote(output)}: {classes}.",
            f"Publish by it as soon as there are {plan.records:,} records, and not before.",
            f"Digest: {plan.digest}",
        )


@app.command("report")
def report(
    url: Url,
    campaign: Campaign,
    records: Annotated[int | None, typer.Option(help="How many records you have.", min=0)] = None,
    data: Annotated[Path | None, typer.Option(help="Count the rows of this table instead; they stay here.")] = None,
    unit: Annotated[str | None, typer.Option(help="With --data: count people, whom this column tells apart.")] = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """Tell how many records you have. The agency answers how many are missing."""
    with reporting(json_output):
        from shoal.agency.apply import count_people
        from shoal.agency.submissions import count_rows
        from shoal.sources.opening import open_source

        if unit is not None and data is None:
            raise UsageError("--unit is a column of the table that --data names; give both")
        if (records is None) == (data is None):
            raise UsageError("give --records with a number or --data with a table to be counted, and not both")
        client = make_client(url, token_file, insecure)
        if records is None:
            records = count_rows(data) if unit is None else count_people(open_source(data), unit)
        found = client.report(campaign, records)
        has = f"{amount(found['records'], 'record')} of {quote(found['needed'], ',')} that are needed"
        verdict = "enough" if found["enough"] is True else f"wait for {quote(found['missing'], ',')} more"
        reply(json_output, found, f"{has}: {verdict}.")


@app.command("register")
def register(
    url: Url,
    campaign: Campaign,
    folder: Annotated[Path, typer.Argument(help="The release that `shoal agency apply` wrote.")],
    token_file: TokenFile = None,
    insecure: Insecure = False,
    json_output: JsonOption = False,
) -> None:
    """Verify and register a release by the plan. Its manifest, digests and counts are sent, no row."""
    with reporting(json_output):
        from shoal.agency.submissions import make_registration

        client = make_client(url, token_file, insecure)
        with bars() as progress:
            body = make_registration(folder, progress=progress)
        registered = client.register(campaign, body)
        number, basis = quote(registered["id"]), quote(registered["basis"])
        reply(json_output, registered, f"Verified, and registered as release {number}; for clients it is {basis}.")


@app.command("releases")
def releases(
    url: Url,
    campaign: Campaign,
    together: Annotated[
        int | None, typer.Option(help="Tell what is known of this many releases together; else of all.", min=1)
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Tell what remains of a person, such as age=34,sex=F, by the releases' counts.")
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
        table = make_table("release", "owner", "rows", "its promise is", "registered (UTC)")
        for entry in found:
            when = quote(entry["at"])[:19].replace("T", " ")
            table.add_row(
                *map(quote, (entry["id"], entry["owner"])), quote(entry["rows"], ","), quote(entry["basis"]), when
            )
        lines = [table if found else "No release is registered yet.", quote(guarantee["statement"])]
        content = {"releases": found, "guarantee": guarantee}
        if target is not None:
            from shoal.linking.linking import parse_target

            content["linkage"] = linked = client.link(campaign, parse_target(target))
            left = ", ".join(f"{quote(value)} ({quote(count)})" for value, count in linked["remaining"].items())
            lines.append(f"{quote(linked['statement'])} They are {left}.")
        reply(json_output, content, *lines)
