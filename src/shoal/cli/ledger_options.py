"""The options of commands that publish and enter what they publish into a ledger, and what they say of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from shoal.cli.console import out

if TYPE_CHECKING:
    from shoal.release import Release

LedgerOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--ledger", help="Link it with the releases in this ledger first; enter it there. Made if absent."),
]
PopulationOption: TypeAlias = Annotated[
    str | None, typer.Option("--population", help="With --ledger: about whom the release is.")
]
RecipientOption: TypeAlias = Annotated[
    str | None, typer.Option("--recipient", help="With --ledger: for whom the release is.")
]
FloorOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--floor",
        help="With --ledger: sensitive values that releases must leave to everybody together; sets or raises it.",
        min=1,
    ),
]
WarnOption: TypeAlias = Annotated[
    bool, typer.Option("--warn", help="With --ledger: publish also below the floor, with a warning.")
]


def told_of_ledger(release: Release) -> dict[str, Any]:
    """Return what the JSON of a release says of its ledger; nothing without one."""
    return {"ledger": release.evidence["ledger"]} if "ledger" in release.evidence else {}


def show_entry(release: Release) -> None:
    """Say under which number a release is in the ledger, and what it leaves with the others."""
    from rich.markup import escape

    entry = release.evidence.get("ledger")
    if entry is None:
        return
    console = out()
    console.print(
        f"It is number {entry['number']} in the ledger, about {escape(entry['population'])}, linked with "
        f"{len(entry['earlier']):,} earlier.",
        soft_wrap=True,
    )
    for found in entry["linked"]:
        if found["l"] is not None:
            console.print(
                f"Together they leave at least {found['l']:,} values of {escape(found['sensitive'])} to everybody; the "
                f"floor is {entry['floor']:,}.",
                soft_wrap=True,
            )
