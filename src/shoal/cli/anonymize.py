"""``shoal anonymize``: plan, apply, verify, publish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from shoal.cli.console import (
    EngineOption,
    JsonOption,
    MasterOption,
    bars,
    make_table,
    out,
    plain,
    reporting,
    say,
)
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
from shoal.core.wording import model_text, parameters_text

if TYPE_CHECKING:
    from shoal.release.release import Release


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
        Literal["quick", "full"],
        typer.Option(help="Measures of utility; full also asks the release 10,000 counts and other questions."),
    ] = "quick",
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
    engine: EngineOption = "local",
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

        entering = read_ledger_options(ledger, population, recipient, floor, warn)
        with bars() as progress:
            release = run(
                data,
                policy,
                out=folder,
                format=format_,
                seed=seed,
                utility=utility,
                progress=progress,
                ledger=entering,
                to=to,
                memory=memory,
                threads=threads,
                engine=engine,
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
    manifest, evidence, groups = release.manifest, release.evidence, release.form.groups
    published = f"{manifest['rows']:,} rows"
    if groups is not None:
        published += f" in {evidence['risk_after'][groups]:,} {groups}"
    for records, what in ((manifest["withheld"], "withheld"), (manifest["missing"]["dropped"], "dropped")):
        published += f", {records:,} {what}" if records else ""
    say(f"[bold]Verified and published[/]: {published}  ->  {plain(release.data_file)}")
    _show_promises(release)
    if "sample" in evidence:
        sample = evidence["sample"]
        say(f"Drawn at random: {sample['sampled_rows']:,} of {sample['source_rows']:,} records.")
    if "techniques" in manifest:
        changed = (f"{plain(name)} ({entry['technique']})" for name, entry in manifest["techniques"].items())
        say(f"Changed: {', '.join(changed)}. These are not the original values.")
    say(*map(plain, release.form.summary(evidence)))
    for name, records in evidence["generalized_sensitive"].items():
        say(
            f"{plain(name)} is suppressed in {records:,} of {manifest['rows']:,} records "
            f"({records / manifest['rows']:.1%}): they publish a more general label."
        )
    _show_utility(release)
    show_end(release)


def _show_promises(release: Release) -> None:
    """Show what was promised and achieved, what is claimed, or that nothing is."""
    guarantees, claims = release.manifest["guarantees"], release.manifest.get("claims", ())
    if guarantees:
        table = make_table("guarantee", "asked", "achieved")
        for entry in guarantees:
            table.add_row(model_text(entry), plain(parameters_text(entry["parameters"])), f"{entry['achieved']:.6g}")
        out().print(table)
    for claim in claims:
        claimed = f"{claim['model']} ({parameters_text(claim['parameters'])})"
        say(f"No row is a person. Claimed is {claimed}; no file can show that it was kept.")
    if not guarantees and not claims:
        say(
            "[bold red]It promises nothing about people.[/] Verified are the form of the files, and that values are "
            "those of the source or changed as the policy says."
        )


def _show_utility(release: Release) -> None:
    """Say what the release answers, where it was asked."""
    utility = release.evidence["utility"]
    if "query-error" in utility:
        median, most = utility["query-error"], utility["query-error-95"]
        say(f"A random count is off by {median:.1%} in the median, by at most {most:.1%} for 95 of 100.")
    measures = {
        "association-kept": "association between columns",
        "accuracy-ratio": "accuracy of predictions",
    }
    kept = [f"{utility[name]:.0%} of the {what}" for name, what in measures.items() if name in utility]
    if kept:
        say(f"It keeps {' and '.join(kept)}.")
