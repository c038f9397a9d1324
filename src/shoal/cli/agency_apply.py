"""``shoal agency apply``: an owner's release by the agency's plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.anonymize import Format
from shoal.cli.console import answer, out, reporting
from shoal.cli.ledger_options import (
    FloorOption,
    LedgerOption,
    PopulationOption,
    RecipientOption,
    WarnOption,
    show_entry,
    told_of_ledger,
)

if TYPE_CHECKING:
    from shoal.release import Release


def apply(
    plan: Annotated[Path, typer.Argument(help="The agency's plan, as it was sent.")],
    data: Annotated[Path, typer.Argument(help="The table: CSV (also .gz), Parquet, or a folder of Parquet files.")],
    folder: Annotated[Path, typer.Option("--out", "-o", help="New folder for the release.")],
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Format of the published file; as the source without it."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Make the run repeatable. Whoever has it and the source knows the shuffle.", min=0),
    ] = None,
    ledger: LedgerOption = None,
    population: PopulationOption = None,
    recipient: RecipientOption = None,
    floor: FloorOption = None,
    warn: WarnOption = False,
    json_output: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Publish a table by the plan, verified; exit code 3 with too few records or classes that show too little."""
    with reporting(json_output):
        from shoal.agency.applying import apply_plan
        from shoal.cli.bars import bars
        from shoal.ledger.options import options_of_command

        entering = options_of_command(ledger, population, recipient, floor, warn)
        with bars() as progress:
            release = apply_plan(
                plan,
                data,
                folder,
                format=None if format_ is None else format_.value,
                seed=seed,
                progress=progress,
                ledger=entering,
            )
        if json_output:
            answer(
                {
                    "verified": True,
                    "out": str(folder),
                    **release.manifest,
                    "records_needed": release.evidence["records_needed"],
                    "left_out": release.evidence["left_out"],
                    "warnings": release.evidence["warnings"],
                    **told_of_ledger(release),
                    "seconds": release.evidence["seconds"],
                }
            )
        else:
            _show(release)


def _show(release: Release) -> None:
    """Say in plain words what was published."""
    from rich.markup import escape

    from shoal.wording import parameters_text

    console, manifest, evidence = out(), release.manifest, release.evidence
    (promise,) = manifest["guarantees"]
    console.print(
        f"[bold]Verified and published[/]: {manifest['rows']:,} rows in the plan's {manifest['agreed']['classes']:,} "
        f"classes  ->  {escape(str(release.data_file))}",
        soft_wrap=True,
    )
    console.print(
        f"{promise['model']} ({parameters_text(promise['parameters'])}) holds: the weakest class reaches "
        f"{promise['achieved']:.6g}. The plan asks for {evidence['records_needed']:,} records.",
        soft_wrap=True,
    )
    if evidence["left_out"]:
        listed = escape(", ".join(evidence["left_out"]))
        console.print(f"Left out, since the plan does not know them: {listed}.", soft_wrap=True)
    console.print(f"The plan goes with the data: public/{manifest['agreed']['file']}.", soft_wrap=True)
    show_entry(release)
    for warning in evidence["warnings"]:
        console.print(f"[yellow]Warning:[/] {escape(warning)}.", soft_wrap=True)
    place = escape(str(release.folder))
    console.print(f"Keep {place}/internal to yourself; {place}/public may leave the house.", soft_wrap=True)
