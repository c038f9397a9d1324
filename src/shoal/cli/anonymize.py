"""``shoal anonymize``: plan, apply, verify, publish."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import JsonOption, reporting
from shoal.cli.engines import Engine, EngineOption, MasterOption
from shoal.cli.publishing import (
    DataArgument,
    FloorOption,
    FolderOption,
    FormatOption,
    LedgerOption,
    PopulationOption,
    RecipientOption,
    SeedOption,
    StrictOption,
    ToOption,
    WarnOption,
    answer_release,
    ledger_asked,
)
from shoal.cli.released import show


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
    to: ToOption = None,
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
    memory: Annotated[
        str | None,
        typer.Option(help="What the process may use, like 2GiB; without it, three quarters of what the machine has."),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads that count and rewrite; one for each core without it.", min=1)
    ] = None,
    engine: EngineOption = Engine.local,
    master: MasterOption = None,
    strict: StrictOption = False,
    sign: Annotated[
        Path | None, typer.Option(help="Key of `shoal key new --signing` that signs the release's manifest.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Publish a table by a policy: plan, apply, verify, and only then put it in place."""
    with reporting(json_output, folder):
        from shoal.anonymize import anonymize as run
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
                to=to,
                memory=memory,
                threads=threads,
                engine=engine.value,
                master=master,
                strict=strict,
                sign=sign,
            )
        if json_output:
            answer_release(release, folder, {"utility": release.utility})
        else:
            show(release)
