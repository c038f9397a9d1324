"""``shoal anonymize``: plan, apply, verify, publish."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from shoal.cli import console, publishing
from shoal.core.errors import UsageError
from shoal.core.wording import count_noun, model_text, parameters_text, write_kept

if TYPE_CHECKING:
    from shoal.release.release import Release


def anonymize(
    data: publishing.DataArgument,
    policy: Annotated[
        Path, typer.Option("--policy", "-p", help="The policy, YAML or JSON; see `shoal policy schema`.")
    ],
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="New folder for the release; needed unless --dry-run is given.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier release in that folder.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Describe the release without writing anything.")] = False,
    format_: publishing.FormatOption = None,
    to: publishing.ToOption = None,
    seed: publishing.SeedOption = None,
    utility: Annotated[
        Literal["quick", "full"],
        typer.Option(help="Utility measures; full adds 10,000 random counts, associations and regressions."),
    ] = "quick",
    ledger: publishing.LedgerOption = None,
    population: publishing.PopulationOption = None,
    recipient: publishing.RecipientOption = None,
    floor: publishing.FloorOption = None,
    warn: publishing.WarnOption = False,
    memory: Annotated[
        str | None, typer.Option(help="Memory limit, such as 2GiB; by default, three quarters of the machine's memory.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Number of threads; by default, one per core.", min=1)] = None,
    engine: console.EngineOption = "local",
    master: console.MasterOption = None,
    strict: publishing.StrictOption = False,
    sign: publishing.SignOption = None,
    json_output: console.JsonOption = False,
) -> None:
    """Anonymize a table by a policy, verify the result, and only then publish it."""
    if folder is None and not dry_run:
        raise typer.BadParameter("give a new folder for the release, or --dry-run", param_hint="--out")
    with console.reporting(json_output, folder):
        from shoal.anonymize import anonymize as run

        if dry_run and (ledger or to or sign):
            raise UsageError("--dry-run writes nothing; leave out --ledger, --to and --sign")
        entering = publishing.read_ledger_options(ledger, population, recipient, floor, warn)
        with console.bars() as progress:
            release = run(
                data,
                policy,
                out=None if dry_run else folder,
                overwrite=overwrite,
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
            publishing.answer_release(release, {"utility": release.utility, "marginals": release.evidence["marginals"]})
        else:
            show_release(release)


def show_release(release: Release) -> None:
    """Describe the release: rows, guarantees, method, changed columns, utility and the decision."""
    manifest, evidence, groups = release.manifest, release.evidence, release.form.groups
    published = count_noun(manifest["rows"], "row")
    if groups is not None:
        published += f" in {count_noun(evidence['risk_after'][groups], release.form.group, groups)}"
    for records, what in ((manifest["withheld"], "withheld"), (manifest["missing"]["dropped"], "dropped")):
        published += f", {records:,} {what}" if records else ""
    if release.folder is None:
        console.say(f"[bold]Dry run[/], nothing was written. The release would have {published}.")
    else:
        console.say(f"[bold]Verified and published[/]: {published}  ->  {console.plain(release.data_file)}")
    _show_promises(release)
    if "choice" in evidence:
        _show_choice(evidence["choice"])
    if "sample" in evidence:
        sample = evidence["sample"]
        console.say(f"Drawn at random: {sample['sampled_rows']:,} of {sample['source_rows']:,} records.")
    if "techniques" in manifest:
        changed = (f"{console.plain(name)} ({entry['technique']})" for name, entry in manifest["techniques"].items())
        console.say(f"Changed: {', '.join(changed)}. These are not the original values.")
    if "number_risk" in evidence:
        from shoal.audit.numbers import describe_high  # imports NumPy

        console.say(*map(console.plain, describe_high(evidence["number_risk"], release.form.manifest)))
    console.say(*map(console.plain, release.form.summary(evidence)))
    for name, records in evidence["generalized_sensitive"].items():
        console.say(
            f"{console.plain(name)} is suppressed in {records:,} of {manifest['rows']:,} records "
            f"({records / manifest['rows']:.1%}): they publish a more general label."
        )
    _show_utility(release)
    publishing.show_end(release)


def _show_choice(choice: Mapping[str, Any]) -> None:
    """List the methods that were tried, best first, and the ones that could not be used."""

    def name(trial: Mapping[str, Any]) -> str:
        chosen = parameters_text(trial["parameters"])
        return console.plain(f"{trial['method']} ({chosen})" if chosen else trial["method"])

    scored = sorted((trial for trial in choice["tried"] if "score" in trial), key=lambda trial: -trial["score"])
    listed = ", ".join(f"{name(trial)} {write_kept(trial['score'])}" for trial in scored)
    console.say(
        f"Method {choice['method']} was chosen because it keeps most of the three-way tables of {choice['records']:,} "
        f"records, with labels spread over the values they cover: {listed}."
    )
    refused = [name(trial) for trial in choice["tried"] if "score" not in trial]
    if refused:
        console.say(f"These could not be used: {', '.join(refused)}; internal/evidence.json says why.")


def _show_promises(release: Release) -> None:
    """Show the guarantees and claims, or warn that there are none."""
    guarantees, claims = release.manifest["guarantees"], release.manifest.get("claims", ())
    if guarantees:
        table = console.make_table("guarantee", "required", "achieved")
        for entry in guarantees:
            table.add_row(
                model_text(entry), console.plain(parameters_text(entry["parameters"])), f"{entry['achieved']:.6g}"
            )
        console.out().print(table)
    for claim in claims:
        claimed = f"{claim['model']} ({parameters_text(claim['parameters'])})"
        console.say(f"The release claims {claimed}, which no file can prove.")
    if not guarantees and not claims:
        console.say(
            "[bold red]It promises nothing about people.[/] Verification covered the form of the files and that each "
            "value is the source's value or was changed as the policy says."
        )


def _show_utility(release: Release) -> None:
    from shoal.utility.marginals import describe_marginals  # imports NumPy

    utility = release.evidence["utility"]
    console.say(*describe_marginals(release.evidence["marginals"]))
    off = [
        f"{utility[f'count-error-{size}']:.0%} ({utility[f'count-error-{size}-95']:.0%}) for {size:,} records or more"
        for size in (10, 100, 1000)
        if f"count-error-{size}" in utility
    ]
    if off:
        console.say(f"Median error of counts (95th percentile): {', '.join(off)}.")
    if "association-kept" in utility:
        console.say(
            f"It keeps {utility['association-kept']:.0%} of the association between columns. Confidence intervals of "
            f"regression coefficients overlap by {utility['regression-overlap']:.0%}. The median error of subgroup "
            f"means is {utility['subgroup-error']:.2f} standard deviations (95th percentile: "
            f"{utility['subgroup-error-95']:.2f})."
        )
