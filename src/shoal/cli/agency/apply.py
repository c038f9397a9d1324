"""``shoal agency apply``: an owner's release by the agency's plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    from shoal.release.release import Release


def apply(
    plan: Annotated[Path, typer.Argument(help="The agency's plan, as it was sent.")],
    data: DataArgument,
    folder: FolderOption,
    format_: FormatOption = None,
    seed: SeedOption = None,
    ledger: LedgerOption = None,
    population: PopulationOption = None,
    recipient: RecipientOption = None,
    floor: FloorOption = None,
    warn: WarnOption = False,
    json_output: JsonOption = False,
) -> None:
    """Publish a table by a plan. Exit code 3: too few records, or classes that show too little."""
    with reporting(json_output, folder):
        from shoal.agency.apply import apply_plan
        from shoal.cli.bars import bars

        entering = ledger_asked(ledger, population, recipient, floor, warn)
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
            more = {name: release.evidence[name] for name in ("records_needed", "left_out")}
            answer_release(release, folder, more)
        else:
            _show(release)


def _show(release: Release) -> None:
    """Say in plain words what was published."""
    from rich.markup import escape

    from shoal.core.wording import parameters_text

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
    show_end(release)
