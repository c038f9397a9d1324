"""``shoal attack``: what somebody could still find out about people from a release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import JsonOption, answer, out, reporting, say
from shoal.cli.publishing import show_findings

if TYPE_CHECKING:
    from shoal.attacks.base import Refusal, Tally, Trials

WIDE = 100  # columns of a terminal from which the verdict has one of its own


def attack(
    folder: Annotated[Path, typer.Argument(help="The release: its folder, or the folder public in it.")],
    source: Annotated[str, typer.Option(help="The original table, by which the answers are judged.")],
    control: Annotated[
        str | None, typer.Option(help="A table of like people who are not in the data; say, records put aside.")
    ] = None,
    attacks: Annotated[
        list[str] | None, typer.Option("--attack", metavar="NAME", help="Try this attack; may be repeated.")
    ] = None,
    targets: Annotated[int, typer.Option(help="People, or predicates, that each attack is tried on.")] = 2000,
    register: Annotated[
        str | None, typer.Option(help="A table with names and quasi columns, to look people up in.")
    ] = None,
    other: Annotated[
        list[Path] | None, typer.Option(help="Another release about the same people; may be repeated.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", "-p", help="Policy that says how to read the tables, and which values are alike."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeat a run; the same seed gives the same figures.", min=0)] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Keep the results in the folder internal, and write its report again.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Measure what attacks find, on your own data. The results are for the data holder alone."""
    with reporting(json_output):
        from shoal.attacks.base import NO_CONTROL, Refusal, Trials, verdict
        from shoal.attacks.running import attack, read_findings
        from shoal.cli.bars import bars
        from shoal.policy.policy import Policy

        recorder = judging = None
        if record:
            from shoal.policy.policy import Policy
            from shoal.reports.recorded import Recorder
            from shoal.sources.opening import open_source

            recorder = Recorder.of(folder)
            judging = open_source(source, None if policy is None else Policy.load(policy).source)
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
        findings = read_findings(folder, () if policy is None else Policy.load(policy).accept)
        told = {
            "attacks": [{**each.as_dict(), "verdict": verdict(each)} for each in tried],
            "refused": [each.as_dict() for each in refused],
            "notes": [] if control is not None else [NO_CONTROL],
            "findings": [finding.as_dict() for finding in findings],
        }
        if recorder is not None and judging is not None:
            recorder.write(told, {"name": judging.name, "sha256": judging.digest()})
        if json_output:
            answer(told)
        else:
            show(tried, refused, controlled=control is not None)
            if recorder is not None:
                say(f"Recorded in {recorder.folder}.", markup=False)
            show_findings(findings)


def show(tried: Sequence[Trials], refused: Sequence[Refusal], *, controlled: bool) -> None:
    """Tell a steward what was found, the greatest risk first, then what has no meaning here."""
    from rich.markup import escape

    from shoal.attacks.base import NO_CONTROL, Attack
    from shoal.core.registry import discover
    from shoal.core.wording import attack_text

    titles = {name: kind.title for name, kind in discover("shoal.attacks", Attack).items()}
    ordered = sorted(tried, key=lambda each: -each.risk.value)
    finding = sum(each.risk.low > 0 for each in ordered)
    attacks = "1 attack" if len(ordered) == 1 else f"{len(ordered)} attacks"
    say(f"[bold]{finding or 'None'} of {attacks} found more than chance explains.[/]")
    if not controlled:
        say(f"[yellow]Note:[/] {NO_CONTROL}. Give --control.")
    _table(ordered, titles)
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
        for name, text in lines:
            say(f"{name}: {escape(text)}.")


def _table(tried: Sequence[Trials], titles: Mapping[str, str]) -> None:
    """Show the counts, the risk and its meaning of every attack."""
    from rich.markup import escape
    from rich.table import Table

    from shoal.attacks.base import verdict
    from shoal.core.wording import attack_text

    if not tried:
        return
    wide = out().width >= WIDE
    table = Table(box=None, padding=(1, 2, 0, 0))
    table.add_column("attack", min_width=20)
    for head in ("right", "baseline", "control", "risk"):
        table.add_column(head, justify="right", no_wrap=True)
    if wide:
        table.add_column("verdict", min_width=20)
    for each in tried:
        risk = each.risk
        colour = "red" if risk.low > 0 else "green"
        told = f"[{colour}]{verdict(each)}[/]"
        what = f"[bold]{escape(attack_text(each.as_dict()))}[/]\n{titles[each.attack]}"
        table.add_row(
            what if wide else f"{what}\n{told}",
            *map(_format_tally, (each.success, each.baseline, each.control)),
            f"{risk.value:.3f}\n{risk.low:.3f} to {risk.high:.3f}",
            *([told] if wide else []),
        )
    out().print(table)


def _format_tally(tally: Tally | None) -> str:
    return "-" if tally is None else f"{tally.success / tally.trials:.1%}\n{tally.success:,}/{tally.trials:,}"
