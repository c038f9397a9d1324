"""``shoal agency open|status|settle|close``: an agency's staff leads a campaign through its states."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.agency.asking import (
    Campaign,
    Insecure,
    TokenFile,
    Url,
    amount,
    client_of,
    print_lines,
    say,
)
from shoal.cli.console import JsonOption, answer, reporting


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
        client = client_of(url, token_file, insecure)
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
    from shoal.agency.submissions import Domain, read_counts

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
        client = client_of(url, token_file, insecure)
        found = client.campaign(campaign)
        contributions = client.contributions(campaign)
        reports = client.reports(campaign) if found["state"] in ("planned", "closed") else []
        released = client.releases(campaign)
        if json_output:
            told = {"contributions": contributions, "reports": reports, "releases": released}
            answer({"campaign": found, **told})
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
        made = client_of(url, token_file, insecure).settle(campaign, p=p, samples=samples)
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
        told = client_of(url, token_file, insecure).move(campaign, "closed")
        if json_output:
            answer(told)
            return
        print_lines(f"Campaign {say(campaign)} is closed.")
