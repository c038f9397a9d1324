"""``shoal attack``: measure the disclosure risk of a release by attacking it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import JsonOption, answer, bars, out, plain, reporting, say
from shoal.cli.publishing import SignOption, show_decision, show_findings
from shoal.core.wording import attack_text, count_noun, percent

if TYPE_CHECKING:
    from shoal.attacks.base import Refusal, Tally, Trials
    from shoal.attacks.running import Bearing

WIDE = 100  # terminal width from which the verdict has its own column


def attack(
    folder: Annotated[Path, typer.Argument(help="The release: its folder, or the public folder in it.")],
    source: Annotated[str, typer.Option(help="The original table, against which guesses are scored.")],
    control: Annotated[
        str | None, typer.Option(help="A table of similar people who are not in the data, such as held-out records.")
    ] = None,
    attacks: Annotated[
        list[str] | None, typer.Option("--attack", metavar="NAME", help="Try this attack; may be repeated.")
    ] = None,
    targets: Annotated[int, typer.Option(help="Number of people, or predicates, on which to try each attack.")] = 2000,
    register: Annotated[
        str | None, typer.Option(help="A table with names and quasi columns, in which to look people up.")
    ] = None,
    other: Annotated[
        list[Path] | None, typer.Option(help="Another release about the same people; may be repeated.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", "-p", help="Policy that states how to read the tables and which values are similar."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Make the run repeatable.", min=0)] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Save the results in the internal folder and update its report.")
    ] = False,
    sign: SignOption = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show the counts, notes and refusals of every attack.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Measure what attacks find out, on your own data. The results are for the data holder only."""
    with reporting(json_output):
        from shoal.attacks.base import NO_CONTROL, Refusal, Trials
        from shoal.attacks.running import attack, find_bearing, read_findings, record_results
        from shoal.policy.policy import Policy

        read = None if policy is None else Policy.load(policy)
        recorder = judging = decision = None
        if record or sign is not None:
            from shoal.reports.internal import Recorder
            from shoal.sources.opening import open_source

            recorder = Recorder.of(folder, sign)
            judging = open_source(source, None if read is None else read.source)
        with bars() as progress:
            found = attack(
                folder,
                source,
                control,
                attacks=attacks or None,
                targets=targets,
                seed=seed,
                policy=policy,
                register=register,
                others=other or (),
                progress=progress,
            )
        tried = [each for each in found if isinstance(each, Trials)]
        refused = [each for each in found if isinstance(each, Refusal)]
        accept, bears_on = None if read is None else read.accept, find_bearing(folder)
        findings = read_findings(folder, accept or ())
        results: dict[str, object] = {
            "attacks": record_results(tried, bears_on),
            "refused": [each.as_dict() for each in refused],
            "notes": [] if control is not None else [NO_CONTROL],
            "findings": [finding.as_dict() for finding in findings],
        }
        if recorder is not None and judging is not None:
            decision = recorder.write(results, {"name": judging.name, "sha256": judging.digest()}, accept)
        if json_output:
            answer(results if decision is None else results | {"decision": decision.as_dict()})
            return
        show(tried, refused, bears_on, controlled=control is not None)
        if verbose:
            show_details(tried, refused)
        if recorder is not None and decision is not None:
            say(f"Recorded in {plain(recorder.folder)}.")
            show_decision(decision)
        else:
            show_findings(findings)


def show(tried: Sequence[Trials], refused: Sequence[Refusal], bears_on: Bearing, *, controlled: bool) -> None:
    """Show one line for each risk of the decision record, the largest result first."""
    from shoal.attacks.base import NO_CONTROL, name_size
    from shoal.core.results import LITTLE

    finding = sum(each.worst.low > 0 for each in tried)
    say(f"[bold]{finding or 'None'} of {count_noun(len(tried), 'attack')} found out more than chance explains.[/]")
    if not controlled:
        say(f"[yellow]Note:[/] {NO_CONTROL}. Give --control.")
    for kind, head in {"identity": "", "attribute": "", "membership": "", None: "Other columns"}.items():
        own = [each for each in sort_results(tried) if bears_on(each) == kind]
        texts, quiet = [], []
        for each in own:
            name, worst = plain(attack_text(each.as_dict())), each.worst
            if worst.low > 0:
                texts.append(f"[red]{name_size(worst)} {percent(worst.value)}[/] {name}")
            elif each.risk.high > LITTLE:
                texts.append(f"[yellow]inconclusive, at most {percent(each.risk.high)}[/] {name}")
            else:
                quiet.append(name)
        texts += [f"[green]nothing found[/] by {', '.join(quiet)}"] if quiet else []
        if own or head == "":
            say(f"[bold]{head or f'{kind} risk'.capitalize()}:[/] {'; '.join(texts) or 'not tried'}.")
    more = f", and why {count_noun(len(refused), 'attack was', 'attacks were')} not tried" if refused else ""
    say(f"--verbose shows counts and notes{more}.")


def show_details(tried: Sequence[Trials], refused: Sequence[Refusal]) -> None:
    """Show the counts of every attack, its notes, and the attacks that were not tried."""
    from shoal.attacks.base import NO_CONTROL

    ordered = sort_results(tried)
    if ordered:
        _show_table(ordered)
    said: dict[str, list[str]] = {}
    for each in ordered:
        for note in each.notes:
            said.setdefault(note, []).append(attack_text(each.as_dict()))
    notes = [
        ("all attacks" if len(names) == len(ordered) > 1 else ", ".join(names), note)
        for note, names in said.items()
        if note != NO_CONTROL
    ]
    for head, lines in (("Notes", notes), ("Not tried", [(attack_text(no.as_dict()), no.reason) for no in refused])):
        if lines:
            out().print(f"\n[bold]{head}[/]")
        say(*(f"{name}: {plain(text)}." for name, text in lines))


def sort_results(tried: Sequence[Trials]) -> list[Trials]:
    """Return the results, successes first and the largest risk first."""
    return sorted(tried, key=lambda each: (each.worst.low <= 0, -each.worst.value))


def _show_table(tried: Sequence[Trials]) -> None:
    """Show the counts, the risk and its meaning of every attack."""
    from rich.table import Table

    from shoal.attacks.base import Attack, verdict
    from shoal.core.registry import discover
    from shoal.core.results import LITTLE

    kinds, wide = discover("shoal.attacks", Attack), out().width >= WIDE
    table = Table(box=None, padding=(1, 2, 0, 0))
    table.add_column("attack", min_width=20)
    for head in ("right", "baseline", "control", "risk"):
        table.add_column(head, justify="right", no_wrap=True)
    if wide:
        table.add_column("verdict", min_width=20)
    for each in tried:
        risk = each.risk
        colour = "red" if each.worst.low > 0 else "green" if risk.high <= LITTLE else "yellow"
        conclusion = f"[{colour}]{plain(verdict(each))}[/]"
        what = f"[bold]{plain(attack_text(each.as_dict()))}[/]\n{kinds[each.attack].title}"
        table.add_row(
            what if wide else f"{what}\n{conclusion}",
            *map(_format_tally, (each.success, each.baseline, each.control)),
            f"{risk.value:.3f}\n{risk.low:.3f} to {risk.high:.3f}",
            *([conclusion] if wide else []),
        )
    out().print(table)


def _format_tally(tally: Tally | None) -> str:
    return "-" if tally is None else f"{tally.success / tally.trials:.1%}\n{tally.success:,}/{tally.trials:,}"
