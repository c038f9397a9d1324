"""``shoal agency contribute|fetch|report|register``: data owners ask an agency's service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
        from shoal.agency.submissions import Domain, count_by_domain, read_counts
        from shoal.core.errors import UsageError

        if (counts is None) == (data is None):
            raise UsageError("give a file of counts or --data with a table of records, and not both")
        client = client_of(url, token_file, insecure)
        domain = Domain.of(client.campaign(campaign).get("domain"))
        body = count_by_domain(data, domain) if data is not None else read_counts(counts, domain)
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
    json_output: JsonOption = False,
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
    json_output: JsonOption = False,
) -> None:
    """Tell how many records you have. The agency answers how many are missing."""
    with reporting(json_output):
        from shoal.agency.submissions import count_rows
        from shoal.core.errors import UsageError

        if (records is None) == (data is None):
            raise UsageError("give --records with a number or --data with a table to be counted, and not both")
        client = client_of(url, token_file, insecure)
        told = client.report(campaign, count_rows(data) if records is None else records)
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
    json_output: JsonOption = False,
) -> None:
    """Verify and register a release by the plan. Its manifest and digests are sent, no row."""
    with reporting(json_output):
        from shoal.agency.submissions import make_registration
        from shoal.cli.bars import bars

        client = client_of(url, token_file, insecure)
        with bars() as progress:
            body = make_registration(folder, progress=progress)
        told = client.register(campaign, body)
        if json_output:
            answer(told)
            return
        print_lines(f"Verified, and registered as release {say(told['id'])}.")
