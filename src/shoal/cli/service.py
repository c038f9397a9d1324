"""``shoal agency serve``, and commands of agency staff, data owners and clients that use the service."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from shoal.cli import console
from shoal.cli.agency import app as app
from shoal.core.errors import ShoalError, UsageError

if TYPE_CHECKING:
    from shoal.agency.client import AgencyClient
    from shoal.agency.service.settings import Settings


Client: TypeAlias = "AgencyClient"
Chosen: TypeAlias = "Settings"
Url = Annotated[str, typer.Argument(metavar="URL", help="The service: https://..., or http://... on this machine.")]
Campaign = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="Number of the campaign.")]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", help="File with your token; by default, SHOAL_AGENCY_TOKEN.")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Send the token over plain http to another machine anyway.")]
Database = Annotated[
    str | None,
    typer.Option(help="sqlite:///FILE or postgresql://...; by default, SHOAL_AGENCY_DATABASE or sqlite:///agency.db."),
]
Days = Annotated[int, typer.Option("--expires", metavar="DAYS", help="Days until it expires.", min=1, max=3660)]


def ask_service(name: str) -> Callable[[console.Replying], None]:
    """Return a decorator that registers a command whose function gets a *client* of the service."""

    def register(function: console.Replying) -> None:
        def run(*, url: Url, token_file: TokenFile = None, insecure: Insecure = False, **given: Any) -> console.Reply:
            console.require_packages("asking an agency's service", "agency", "httpx")
            from shoal.agency.client import AgencyClient, read_token

            return function(AgencyClient.at(url, read_token(token_file), insecure=insecure), **given)

        console.add_command(app, name)(console.join_parameters(run, function, "client"))

    return register


def work_beside(name: str) -> Callable[[console.Replying], None]:
    """Return a decorator that registers a command whose function gets the *settings* of a service's database."""

    def register(function: console.Replying) -> None:
        def run(*, database: Database = None, **given: Any) -> console.Reply:
            return function(read_settings(database=database), **given)

        console.add_command(app, name)(console.join_parameters(run, function, "settings"))

    return register


def read_settings(**given: Any) -> Chosen:
    """Return the settings of the service; raise if its packages are missing."""
    needed = ("fastapi", "sqlalchemy", "uvicorn")
    console.require_packages("the agency's service", "agency", *needed)
    from shoal.agency.service.settings import settings

    return settings(**given)


def quote(value: object, form: str = "") -> str:
    """Escape a value from a service so that neither the terminal nor the console interprets it."""
    from shoal.agency.client import make_printable

    return console.plain(make_printable(format(value, form) if form and isinstance(value, int) else value))


def amount(number: object, one: str, several: str | None = None) -> str:
    """Return a number with its word.

    >>> amount(1, "class", "classes"), amount(1200, "record")
    ('1 class', '1,200 records')
    """
    return f"{quote(number, ',')} {one if number == 1 else several or f'{one}s'}"


@app.command("serve")
def serve(
    database: Database = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; by default, 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 for any free port; by default, 8321.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate with its chain, PEM; needs --tls-key.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Key of the certificate, PEM.")] = None,
    behind_proxy: Annotated[
        bool | None, typer.Option("--behind-proxy", help="Listen without TLS behind a proxy that provides it.")
    ] = None,
    port_file: Annotated[Path | None, typer.Option(help="Write the port to this file when ready.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the address as one JSON object.")] = False,
) -> None:
    """Run the agency's service over HTTP: campaigns, plans and registered releases. Ctrl-C ends it."""
    with console.reporting(json_output):
        secured = {"tls_cert": tls_cert, "tls_key": tls_key, "behind_proxy": behind_proxy}
        chosen = read_settings(database=database, host=host, port=port, **secured)
        from shoal.agency.service.application import serve as run
        from shoal.agency.service.application import write_port
        from shoal.agency.service.database import open_with_tables

        def announce(name: str, number: int) -> None:
            address = f"http{'s' if chosen.tls_cert else ''}://{name}:{number}"
            console.reply(json_output, {"url": address, "port": number}, f"The agency serves on {address}")
            sys.stdout.flush()
            if port_file is not None:
                write_port(port_file, number)

        run(chosen, open_with_tables(chosen.database, creating=False), announce)
        if not json_output:
            console.say("The agency has stopped.")


@work_beside("migrate")
def migrate(settings: Chosen) -> console.Reply:
    """Create the tables of an empty database."""
    from shoal.agency.service.database import open_with_tables

    open_with_tables(settings.database, creating=True)
    return {"migrated": True}, "The database has its tables."


@work_beside("token")
def token(
    settings: Chosen,
    role: Annotated[str, typer.Option(help="agency, owner or client.")],
    name: Annotated[str, typer.Option(help="The holder's name; it distinguishes owners.")],
    expires: Days = 90,
) -> console.Reply:
    """Make a token and print it. It is shown only once; use this for an agency's first token."""
    from shoal.agency.service.administration import create_first_token

    made = create_first_token(settings, name, role, expires)
    return made, console.plain(made["token"])


@work_beside("renew")
def renew(
    settings: Chosen,
    token: Annotated[int, typer.Argument(metavar="TOKEN", help="Number of the token, as `GET /v1/tokens` lists it.")],
    expires: Days = 90,
) -> console.Reply:
    """Renew a token, even if it has expired. The token itself stays the same."""
    from shoal.agency.service.administration import renew_beside

    made = renew_beside(settings, token, expires)
    return made, f"Token {token}, of {console.plain(made['name'])}, is valid until {made['expires_at'][:10]}."


@ask_service("open")
def open_campaign(
    client: Client,
    campaign_file: Annotated[Path, typer.Argument(metavar="CAMPAIGN.YAML", help="Name, columns, values and promise.")],
    distribution: Annotated[
        Path | None,
        typer.Option(help="Known distribution of the population (counts or probabilities); owners then send none."),
    ] = None,
) -> console.Reply:
    """Open a campaign. Owners contribute counts to it, unless you give a distribution."""
    from shoal.agency.distribution import read_distribution
    from shoal.agency.domain import Domain
    from shoal.agency.tables import read_campaign, read_counts

    body = read_campaign(campaign_file)
    given = None
    if distribution is not None:
        given = read_counts(distribution, Domain.of(body["domain"]), probabilities=True)
        read_distribution(distribution, body["domain"]["sensitive"]["name"])  # a plan could be made from it
    opened = client.ask("POST", "campaigns", body=body)
    number = str(opened["id"])
    try:
        if given is None:
            opened = client.ask("POST", "campaigns", number, "state", body={"state": "collecting"})
        else:
            client.ask("PUT", "campaigns", number, "distribution", body=given)
    except ShoalError as error:
        raise type(error)(f"campaign {number} was created, but remains an unusable draft: {error}") from None
    next_step = "Owners may contribute counts now" if given is None else "Its distribution is known"
    text = f"Campaign {quote(number)} is open. {next_step}; `shoal agency settle` makes the plan."
    return opened, text


@ask_service("status")
def status(client: Client, campaign: Campaign) -> console.Reply:
    """Show the progress of a campaign: contributions, numbers of records, and registered releases."""
    found = client.ask("GET", "campaigns", campaign)
    planned = found["state"] in ("planned", "closed")
    content: dict[str, Any] = {
        "campaign": found,
        "contributions": client.list("campaigns", campaign, "counts"),
        "reports": client.list("campaigns", campaign, "records") if planned else [],
        "releases": client.list("campaigns", campaign, "releases"),
        "requests": [entry for entry in client.list("requests") if entry["state"] == "open"],
    }
    templates = {
        "contributions": "{owner} contributed {records} records.",
        "reports": "{owner} has {records} of {needed} records.",
        "releases": "{owner} registered release {id}, {basis}.",
        "requests": "{client} asks for releases (request {id}).",
    }
    lines = [f"Campaign {quote(campaign)}, {quote(found['name'])}: {quote(found['state'])}."]
    for what, template in templates.items():
        lines += [
            template.format_map({name: quote(value, ",") for name, value in entry.items()}) for entry in content[what]
        ]
    return content, *lines


@ask_service("settle")
def settle(
    client: Client,
    campaign: Campaign,
    samples: Annotated[int | None, typer.Option(help="Make as many classes as this many records allow.", min=1)] = None,
    p: Annotated[
        float | None, typer.Option("--p", help="Least probability of each of the l values of every class.")
    ] = None,
) -> console.Reply:
    """Make a campaign's plan. From then on it never changes."""
    from shoal.agency.client import PLANNING

    body = {"p": p, "samples": samples}
    made = client.ask("POST", "campaigns", campaign, "plan", body=body, patience=PLANNING)
    classes = amount(made["classes"], "class", "classes")
    text = f"{classes}; owners publish with {quote(made['records'], ',')} records or more."
    return made, text, f"Digest of the plan: {quote(made['digest'])}"


@ask_service("close")
def close(client: Client, campaign: Campaign) -> console.Reply:
    """Close a campaign. No more releases can be registered; registered ones stay."""
    closed = client.ask("POST", "campaigns", campaign, "state", body={"state": "closed"})
    return closed, f"Campaign {quote(campaign)} is closed."


@ask_service("campaigns")
def campaigns(client: Client) -> console.Reply:
    """List the campaigns of an agency."""
    found = client.list("campaigns")
    table = console.make_table("campaign", "name", "state", "promise")
    for entry in found:
        number = f"l = {quote(entry['l'])}" if entry["k"] is None else f"k = {quote(entry['k'])}"
        promise = f"{quote(entry['promise'])} ({number}, delta = {quote(entry['delta'])})"
        table.add_row(quote(entry["id"]), quote(entry["name"]), quote(entry["state"]), promise)
    return {"campaigns": found}, table if found else "No campaigns yet."


@ask_service("request")
def request(
    client: Client,
    wanted: Annotated[str, typer.Argument(help="Number of a campaign, or the columns you want, separated by commas.")],
    purpose: Annotated[str, typer.Option(help="How the releases will be used.")],
    l: Annotated[float | None, typer.Option("--l", help="Sensitive values that must remain for each person.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Probability with which a release may break that promise.")
    ] = None,
) -> console.Reply:
    """Ask an agency for releases. It approves or refuses; `shoal agency requests` shows its decision."""
    body: dict[str, Any] = {"purpose": purpose, "l": l, "delta": delta}
    if wanted.isdecimal():
        body["campaign"] = int(wanted)
    else:
        body["attributes"] = [name.strip() for name in wanted.split(",")]
    made = client.ask("POST", "requests", body=body)
    lines = [f"Request {quote(made['id'])} waits for the agency.", *_show_shortfall(made)]
    return made, *lines


@ask_service("requests")
def requests(
    client: Client,
    request: Annotated[
        int | None, typer.Argument(metavar="REQUEST", help="Request to decide (agency staff only).")
    ] = None,
    approve: Annotated[bool | None, typer.Option("--approve/--refuse", help="The decision.")] = None,
    campaign: Annotated[int | None, typer.Option(help="The campaign, if the request names none.", min=1)] = None,
    reason: Annotated[str, typer.Option(help="The reason, shown to the client.")] = "",
) -> console.Reply:
    """List clients' requests, or decide one. An approved client may read the campaign's registered releases."""
    if (request is None) != (approve is None):
        raise UsageError("give a request's number with --approve or --refuse to decide it, or neither to list requests")
    if request is not None:
        body = {"state": "approved" if approve else "refused", "campaign": campaign, "reason": reason}
        made = client.ask("POST", "requests", str(request), "decision", body=body)
        lines = [f"Request {request} of {quote(made['client'])} is {quote(made['state'])}.", *_show_shortfall(made)]
        return made, *lines
    found, names = client.list("requests"), ("id", "client", "campaign", "state", "purpose", "reason")
    table = console.make_table("request", *names[1:], "not promised")
    for entry in found:
        table.add_row(*(quote(entry[name] or "") for name in names), " ".join(_show_shortfall(entry)))
    return {"requests": found}, table if found else "No requests yet."


def _show_shortfall(entry: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each number that a client asked for and that the campaign does not promise."""
    return [f"Not promised: {quote(reason)}." for reason in entry.get("shortfall", ())]


@ask_service("contribute")
def contribute(
    client: Client,
    campaign: Campaign,
    counts: Annotated[
        Path | None, typer.Argument(help="The campaign's columns and `count`: one row per combination.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="A table with one row per person instead, counted on this machine.")
    ] = None,
) -> console.Reply:
    """Send counts of past records to a campaign. They replace earlier ones; rows are not sent."""
    from shoal.agency.domain import Domain
    from shoal.agency.tables import count_by_domain, read_counts

    if (counts is None) == (data is None):
        raise UsageError("give either a file of counts, or --data with a table of records")
    domain = Domain.of(client.ask("GET", "campaigns", campaign)["domain"])
    body = count_by_domain(data, domain) if data is not None else read_counts(counts, domain)
    stored = client.ask("PUT", "campaigns", campaign, "counts", body=body)
    records = amount(sum(row[-1] for row in body["rows"]), "record")
    combinations = amount(len(body["rows"]), "combination")
    return stored, f"The agency has received counts of {records} in {combinations}."


@ask_service("fetch")
def fetch(
    client: Client,
    campaign: Campaign,
    output: Annotated[Path, typer.Option("--out", "-o", help="New file for the plan.")],
) -> console.Reply:
    """Fetch a campaign's plan for `shoal agency apply`. Its digest is checked before it is written."""
    plan = client.fetch(campaign, output)
    content = {"plan": str(output), "classes": plan.classes, "records": plan.records, "delta": plan.delta}
    classes = f"{amount(plan.classes, 'class', 'classes')} of {quote(', '.join(plan.quasi))}"
    return (
        {**content, "promise": plan.promise.document(), "digest": plan.digest},
        f"The plan is {quote(output)}: {classes}.",
        f"Publish by it once you have {plan.records:,} records, not before.",
        f"Digest: {plan.digest}",
    )


@ask_service("report")
def report(
    client: Client,
    campaign: Campaign,
    records: Annotated[int | None, typer.Option(help="How many records you have.", min=0)] = None,
    data: Annotated[Path | None, typer.Option(help="Count the rows of this table instead; they stay here.")] = None,
    unit: Annotated[str | None, typer.Option(help="With --data: count people, identified by this column.")] = None,
) -> console.Reply:
    """Report how many records you have. The agency answers how many are missing."""
    from shoal.agency.apply import count_people
    from shoal.agency.tables import count_rows
    from shoal.sources.opening import open_source

    if unit is not None and data is None:
        raise UsageError("--unit is a column of the table that --data names; give both")
    if (records is None) == (data is None):
        raise UsageError("give either --records with a number, or --data with a table to count")
    if records is None:
        records = count_rows(data) if unit is None else count_people(open_source(data), unit)
    found = client.ask("PUT", "campaigns", campaign, "records", body={"records": records})
    has = f"{amount(found['records'], 'record')} of {quote(found['needed'], ',')} needed"
    verdict = "enough" if found["enough"] is True else f"wait for {quote(found['missing'], ',')} more"
    return found, f"{has}: {verdict}."


@ask_service("register")
def register(
    client: Client,
    campaign: Campaign,
    folder: Annotated[Path, typer.Argument(help="The release that `shoal agency apply` wrote.")],
) -> console.Reply:
    """Verify and register a release by the plan. Its manifest, digests and counts are sent, but no rows."""
    from shoal.agency.tables import make_registration

    with console.bars() as progress:
        body = make_registration(folder, progress=progress)
    registered = client.ask("POST", "campaigns", campaign, "releases", body=body)
    number, basis = quote(registered["id"]), quote(registered["basis"])
    return registered, f"Verified, and registered as release {number}; for clients it is {basis}."


@ask_service("releases")
def releases(
    client: Client,
    campaign: Campaign,
    together: Annotated[
        int | None,
        typer.Option(help="State the guarantee for this many releases together; by default, for all.", min=1),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="State which values remain for a person such as age=34,sex=F, by the releases' counts."),
    ] = None,
) -> console.Reply:
    """List a campaign's releases and their joint guarantee."""
    found = client.list("campaigns", campaign, "releases")
    query = {} if together is None else {"releases": together}
    guarantee = client.ask("GET", "campaigns", campaign, "guarantee", query=query)
    table = console.make_table("release", "owner", "rows", "its promise is", "registered (UTC)")
    for entry in found:
        shown = type(entry)({name: quote(value, "" if name == "id" else ",") for name, value in entry.items()})
        when = shown["at"][:19].replace("T", " ")
        table.add_row(*(shown[name] for name in ("id", "owner", "rows", "basis")), when)
    lines = [table if found else "No release is registered yet.", quote(guarantee["statement"])]
    content = {"releases": found, "guarantee": guarantee}
    if target is not None:
        from shoal.linking.linking import parse_target

        body = {"target": parse_target(target)}
        content["linkage"] = linked = client.ask("POST", "campaigns", campaign, "linkage", body=body)
        left = ", ".join(f"{quote(value)} ({quote(count)})" for value, count in linked["remaining"].items())
        lines.append(f"{quote(linked['statement'])} They are {left}.")
    return content, *lines
