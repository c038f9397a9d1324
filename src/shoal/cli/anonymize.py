"""``shoal anonymize``: plan, apply, verify, publish."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.console import JsonOption, out, reporting
from shoal.cli.publishing import (
    DataArgument,
    FloorOption,
    FolderOption,
    FormatOption,
    LedgerOption,
    PopulationOption,
    RecipientOption,
    SeedOption,
    WarnOption,
    answer_release,
    ledger_asked,
    show_end,
)

if TYPE_CHECKING:
    from shoal.release import Release


class Utility(StrEnum):
    """How much is measured of what a release keeps."""

    quick = "quick"
    full = "full"


def anonymize(
    data: DataArgument,
    policy: Annotated[
        Path,
        typer.Option("--policy", "-p", help="What to protect and how: YAML or JSON; `shoal policy schema` lists all."),
    ],
    folder: FolderOption,
    format_: FormatOption = None,
    seed: SeedOption = None,
    utility: Annotated[
        Utility,
        typer.Option(help="Measures of utility; full also asks the release 10,000 counts and other questions."),
    ] = Utility.quick,
    ledger: LedgerOption = None,
    population: PopulationOption = None,
    recipient: RecipientOption = None,
    floor: FloorOption = None,
    warn: WarnOption = False,
    json_output: JsonOption = False,
) -> None:
    """Publish a table by a policy: plan, apply, verify, and only then put it in place."""
    with reporting(json_output):
        from shoal.anonymizing import anonymize as run
        from shoal.cli.bars import bars

        entering = ledger_asked(ledger, population, recipient, floor, warn)
        with bars() as progress:
            release = run(
                data,
                policy,
                out=folder,
                format=None if format_ is None else format_.value,
                seed=seed,
                utility=utility.value,
                progress=progress,
                ledger=entering,
            )
        if json_output:
            answer_release(release, folder, {"utility": release.utility})
        else:
            show(release)


def show(release: Release) -> None:
    """Say in plain words what was published."""
    from rich.markup import escape

    from shoal.cli.tables import table_of
    from shoal.sliced.table import is_sliced
    from shoal.wording import parameters_text

    manifest, evidence = release.manifest, release.evidence
    console = out()
    withheld = f", {manifest['withheld']:,} withheld" if manifest["withheld"] else ""
    dropped = f", {manifest['missing']['dropped']:,} dropped" if manifest["missing"]["dropped"] else ""
    sliced = is_sliced(manifest)
    groups = "buckets" if sliced else "classes"
    console.print(
        f"[bold]Verified and published[/]: {manifest['rows']:,} rows in {evidence['risk_after'][groups]:,} "
        f"{groups}{withheld}{dropped}  ->  {escape(str(release.data_file))}",
        soft_wrap=True,
    )
    table = table_of("guarantee", "asked", "achieved")
    for entry in manifest["guarantees"]:
        asked = parameters_text(entry["parameters"])
        table.add_row(entry["model"], escape(asked), f"{entry['achieved']:.6g}")
    console.print(table)
    if sliced:
        _tell_parts(release)
    else:
        before, after = evidence["risk_before"], evidence["risk_after"]
        console.print(
            f"Unique people: {before['unique_records']:,} before, {after['unique_records']:,} after. "
            f"Information kept: {manifest['utility']['um']:.1%}."
        )
    for name, records in evidence["generalized_sensitive"].items():
        console.print(f"{records:,} records publish a generalized {escape(name)}.", soft_wrap=True)
    _tell_in_users_terms(evidence["utility"])
    show_end(release)


def _tell_parts(release: Release) -> None:
    """Say which columns stay together, and among how many records the others hide."""
    from rich.markup import escape

    from shoal.sliced.table import published_columns

    console, risks = out(), release.evidence["risk_after"]
    for number, columns in enumerate(published_columns(release.manifest["parts"]), start=1):
        console.print(f"Part {number}: {escape(', '.join(columns))}", soft_wrap=True)
    console.print(
        f"Within a bucket every part is in an order of its own. Records in a bucket: at least "
        f"{risks['smallest_bucket']:,}, {risks['mean_bucket']:,.1f} on average.",
        soft_wrap=True,
    )
    for name, entry in release.manifest.get("tables", {}).items():
        console.print(f"The {name} values are also in public/{entry['file']}.", soft_wrap=True)


def _tell_in_users_terms(utility: dict[str, Any]) -> None:
    """Say what the release answers, where it was asked."""
    if "query-error" in utility:
        median, most = utility["query-error"], utility["query-error-95"]
        text = f"A random count is off by {median:.1%} in the median, by at most {most:.1%} for 95 of 100."
        out().print(text, soft_wrap=True)
    kept = []
    if "association-kept" in utility:
        kept.append(f"{utility['association-kept']:.0%} of the association between columns")
    if "accuracy-ratio" in utility:
        kept.append(f"{utility['accuracy-ratio']:.0%} of the accuracy of predictions")
    if kept:
        out().print(f"It keeps {' and '.join(kept)}.", soft_wrap=True)
