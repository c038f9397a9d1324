"""Options and closing messages of the commands that publish."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from shoal.cli.console import answer, out, plain, say
from shoal.core.errors import UsageError
from shoal.core.wording import count_noun, percent

if TYPE_CHECKING:
    from shoal.audit.decision import Decision
    from shoal.core.results import Finding
    from shoal.linking.ledger.records import LedgerOptions
    from shoal.release.release import Release

MOST_ALIKE = 3  # findings of one kind shown in full

# Text, because a Path would change an address. Never print it unchanged: see shoal.sources.addresses.
DataArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="The table: CSV (also .gz), Parquet file or folder, Excel, Stata, SPSS, or a database address."
    ),
]
FolderOption: TypeAlias = Annotated[Path, typer.Option("--out", "-o", help="New folder for the release.")]
FormatOption: TypeAlias = Annotated[
    Literal["csv", "parquet"] | None,
    typer.Option("--format", help="Format of the published file; by default, the source's format."),
]
SeedOption: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Make the run repeatable. With the seed and the source, the shuffle can be undone.", min=0),
]
ToOption: TypeAlias = Annotated[
    str | None, typer.Option("--to", metavar="ADDRESS#TABLE", help="Also write the release to this new database table.")
]
LedgerOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--ledger", help="First link the release with those in this ledger, then add it; created if missing."),
]
PopulationOption: TypeAlias = Annotated[
    str | None, typer.Option("--population", help="With --ledger: the people the release is about.")
]
RecipientOption: TypeAlias = Annotated[
    str | None, typer.Option("--recipient", help="With --ledger: who receives the release.")
]
FloorOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--floor",
        help="With --ledger: sensitive values that all releases together must leave each person; sets or raises it.",
        min=1,
    ),
]
SignOption: TypeAlias = Annotated[
    Path | None, typer.Option(help="Key from `shoal key new --signing`: also record the outcome in a signed statement.")
]
StrictOption: TypeAlias = Annotated[
    bool, typer.Option("--strict", help="Publish nothing if high findings are open (exit code 5).")
]
WarnOption: TypeAlias = Annotated[
    bool, typer.Option("--warn", help="With --ledger: publish with a warning even below the floor.")
]


def read_ledger_options(
    ledger: Path | None, population: str | None, recipient: str | None, floor: int | None, warn: bool
) -> LedgerOptions | None:
    """Return the options of the ledger; without ``--ledger`` the others are an error."""
    from shoal.linking.ledger.records import LedgerOptions

    if ledger is not None:
        return LedgerOptions(ledger, population, recipient or "", floor, warn)
    others = {"--population": population, "--recipient": recipient, "--floor": floor, "--warn": warn or None}
    for option, value in others.items():
        if value is not None:
            raise UsageError(f"{option} needs a ledger; name it with --ledger")
    return None


def answer_release(release: Release, more: Mapping[str, Any]) -> None:
    """Print a release as one JSON object, with *more* entries of one command."""
    evidence = release.evidence
    answer(
        {
            "verified": True,
            "out": None if release.folder is None else str(release.folder),
            **release.manifest,
            **more,
            "warnings": evidence["warnings"],
            "findings": evidence["findings"],
            "decision": release.decision.as_dict(),
            **({"ledger": evidence["ledger"]} if "ledger" in evidence else {}),
            "seconds": evidence["seconds"],
        }
    )


def show_end(release: Release) -> None:
    """Print the entry in the ledger, warnings, folders, and the decision record."""
    if (entry := release.evidence.get("ledger")) is not None:
        earlier = f"linked with {len(entry['earlier']):,} earlier" if entry["earlier"] else "the first about them"
        say(f"It is release {entry['number']} in the ledger, about {plain(entry['population'])}, {earlier}.")
        for found in entry["linked"]:
            if found["l"] is not None and not found["sensitive"]:
                say(f"At least {count_noun(found['l'], 'person', 'people')} share the same classes in all of them.")
            elif found["l"] is not None:
                values = f"{count_noun(found['l'], 'value')} of {plain(found['sensitive'])}"
                say(f"Together they leave at least {values} for each person; the floor is {entry['floor']:,}.")
    for warning in release.evidence["warnings"]:
        end = "" if warning.endswith(("?", ".")) else "."
        say(f"[yellow]Warning:[/] {plain(warning)}{end}")
    if release.folder is not None:
        folder = plain(release.folder)
        say(f"The folder to share is {folder}/public; keep {folder}/internal to yourself.")
    show_decision(release.decision)


def show_decision(decision: Decision) -> None:
    """Print the decision record: verdict, the three risks, and findings."""
    colour = "green" if decision.ready else "red"
    out().print()
    say(f"[bold {colour}]{decision.verdict.capitalize()}.[/] {plain(decision.headline)}")
    for one in decision.risk:
        say(f"[bold]{one.kind.capitalize()} risk: {plain(one.figure)}.[/] {plain(one.sentence)}")
    if decision.reasons:
        say(f"Not ready because: {plain(' '.join(decision.reasons))}")
    show_findings(decision.findings)


def show_findings(findings: Sequence[Finding], supposed: str = "") -> None:
    """Print the findings: open ones with their fix, then accepted ones; *supposed* says when."""
    left = [one for one in findings if one.open]
    high = sum(one.severity == "high" for one in left)
    if left:
        out().print(
            f"\n[bold]{count_noun(len(left), 'open finding')}[/], {high} high{supposed}. No promise covers "
            f"{'this' if len(left) == 1 else 'these'}:"
        )
    else:
        out().print("\n[bold]No open findings.[/] Whether the promises are enough for these data is your decision.")
    groups: dict[tuple[str, str, str | None], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.id, one.severity, one.accepted), []).append(one)
    for group in groups.values():
        shown = group if len(group) <= MOST_ALIKE else group[:1]
        for one in shown:
            about = f" ({plain(', '.join(one.about))})" if one.about else ""
            colour = {"high": "red", "medium": "yellow"}.get(one.severity, "blue") if one.open else "green"
            text = f"{plain(one.text)} {plain(one.fix)}" if one.open else f"accepted: {plain(one.accepted)}"
            say(f"[{colour}]{one.severity}[/] {one.id}{about}: {text}")
        if others := group[len(shown) :]:
            named = "; ".join(f"{plain(', '.join(other.about))} {percent(other.share)}" for other in others)
            say(f"The same applies to {len(others):,} more, each with its share of the records: {named}.")
