"""``shoal anonymize``: plan, apply, verify, publish."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.console import Engine, EngineOption, JsonOption, MasterOption, out, reporting, say
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
    read_ledger_options,
    show_end,
)

if TYPE_CHECKING:
    from shoal.release.release import Release


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

        entering = read_ledger_options(ledger, population, recipient, floor, warn)
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
            show_release(release)


def show_release(release: Release) -> None:
    """Say in plain words what was published."""
    manifest, evidence = release.manifest, release.evidence
    say(_headline(release))
    _show_promises(manifest)
    _show_changes(manifest, evidence)
    for sentence in release.form.summary(evidence):
        say(_plain(sentence))
    for name, records in evidence["generalized_sensitive"].items():
        say(
            f"{_plain(name)} is suppressed in {records:,} of {manifest['rows']:,} records "
            f"({records / manifest['rows']:.1%}): they publish a more general label."
        )
    _say_utility(evidence["utility"])
    show_end(release)


def _headline(release: Release) -> str:
    manifest, risks, groups = release.manifest, release.evidence["risk_after"], release.form.groups
    what = f"{manifest['rows']:,} rows" + ("" if groups is None else f" in {risks[groups]:,} {groups}")
    withheld = f", {manifest['withheld']:,} withheld" if manifest["withheld"] else ""
    dropped = f", {manifest['missing']['dropped']:,} dropped" if manifest["missing"]["dropped"] else ""
    return f"[bold]Verified and published[/]: {what}{withheld}{dropped}  ->  {_plain(str(release.data_file))}"


def _show_promises(manifest: Mapping[str, Any]) -> None:
    """Show what was promised and achieved, what is claimed, or that nothing is."""
    from shoal.cli.console import make_table
    from shoal.core.wording import model_text, parameters_text

    if manifest["guarantees"]:
        table = make_table("guarantee", "asked", "achieved")
        for entry in manifest["guarantees"]:
            table.add_row(model_text(entry), _plain(parameters_text(entry["parameters"])), f"{entry['achieved']:.6g}")
        out().print(table)
    for claim in manifest.get("claims", ()):
        told = f"{claim['model']} ({parameters_text(claim['parameters'])})"
        say(f"No row is a person. Claimed is {told}; no file can show that it was kept.")
    if not manifest["guarantees"] and not manifest.get("claims"):
        say(
            "[bold red]It promises nothing about people.[/] Verified are the form of the files, and that values are "
            "those of the source or changed as the policy says."
        )


def _show_changes(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> None:
    """Say which records were drawn, and which columns were changed how."""
    if "sample" in evidence:
        drawn = evidence["sample"]
        say(f"Drawn at random: {drawn['sampled_rows']:,} of {drawn['source_rows']:,} records.")
    if "techniques" in manifest:
        changed = (f"{_plain(name)} ({entry['technique']})" for name, entry in manifest["techniques"].items())
        say(f"Changed: {', '.join(changed)}. These are not the original values.")


def _say_utility(utility: Mapping[str, Any]) -> None:
    """Say what the release answers, where it was asked."""
    if "query-error" in utility:
        median, most = utility["query-error"], utility["query-error-95"]
        say(f"A random count is off by {median:.1%} in the median, by at most {most:.1%} for 95 of 100.")
    kept = []
    if "association-kept" in utility:
        kept.append(f"{utility['association-kept']:.0%} of the association between columns")
    if "accuracy-ratio" in utility:
        kept.append(f"{utility['accuracy-ratio']:.0%} of the accuracy of predictions")
    if kept:
        say(f"It keeps {' and '.join(kept)}.")


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
