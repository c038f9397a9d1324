"""``shoal attack``: what somebody could still find out about people from a release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import JsonOption, answer, bars, out, plain, reporting, say
from shoal.cli.publishing import show_findings
from shoal.core.wording import attack_text, count_noun

if TYPE_CHECKING:
    from shoal.attacks.base import Refusal, Tally, Trials

WIDE = 100  # columns of a terminal from which the verdict has one of its own


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
    json_output: JsonOption = False,
) -> None:
    """Measure what attacks find out, on your own data. The results are for the data holder only."""
    with reporting(json_output):
        from shoal.attacks.base import NO_CONTROL, Refusal, Trials, verdict
        from shoal.attacks.running import attack, read_findings
        from shoal.policy.policy import Policy

        read = None if policy is None else Policy.load(policy)
        recorder = judging = None
        if record:
            from shoal.reports.internal import Recorder
            from shoal.sources.opening import open_source

            recorder = Recorder.of(folder)
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
        findings = read_findings(folder, () if read is None else read.accept)
        results = {
            "attacks": [{**each.as_dict(), "verdict": verdict(each)} for each in tried],
            "refused": [each.as_dict() for each in refused],
            "notes": [] if control is not None else [NO_CONTROL],
            "findings": [finding.as_dict() for finding in findings],
        }
        if recorder is not None and judging is not None:
            recorder.write(results, {"name": judging.name, "sha256": judging.digest()})
        if json_output:
            answer(results)
            return
        show(tried, refused, controlled=control is not None)
        if recorder is not None:
            say(f"Recorded in {plain(recorder.folder)}.")
        show_findings(findings)


def show(tried: Sequence[Trials], refused: Sequence[Refusal], *, controlled: bool) -> None:
    """Tell a steward what was found, the greatest risk first, then what has no meaning here."""
    from shoal.attacks.base import NO_CONTROL

    ordered = sorted(tried, key=lambda each: -each.worst.value)
    finding = sum(each.worst.low > 0 for each in ordered)
    say(f"[bold]{finding or 'None'} of {count_noun(len(ordered), 'attack')} found out more than chance explains.[/]")
    if not controlled:
        say(f"[yellow]Note:[/] {NO_CONTROL}. Give --control.")
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


def _show_table(tried: Sequence[Trials]) -> None:
    """Show the counts, the risk and its meaning of every attack."""
    from rich.table import Table

    from shoal.attacks.base import Attack, verdict
    from shoal.core.registry import discover

    kinds, wide = discover("shoal.attacks", Attack), out().width >= WIDE
    table = Table(box=None, padding=(1, 2, 0, 0))
    table.add_column("attack", min_width=20)
    for head in ("right", "baseline", "control", "risk"):
        table.add_column(head, justify="right", no_wrap=True)
    if wide:
        table.add_column("verdict", min_width=20)
    for each in tried:
        risk = each.risk
        conclusion = f"[{'red' if each.worst.low > 0 else 'green'}]{plain(verdict(each))}[/]"
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
