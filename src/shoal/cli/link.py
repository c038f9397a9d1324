"""``shoal link``: which sensitive values several releases together still hide."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import JsonOption, answer, out, plain, reporting, say
from shoal.core.wording import count_noun

if TYPE_CHECKING:
    from shoal.linking.result import PopulationLinkage, TargetLinkage

MOST_SHOWN = 10  # values of one case in the terminal; --json has all


def link(
    releases: Annotated[list[Path], typer.Argument(help="Two or more releases, or other tables with --policy.")],
    target: Annotated[
        str | None, typer.Option(help="What an attacker knows about one person: 'sex=Female,zip=560010'.")
    ] = None,
    floor: Annotated[int, typer.Option(help="Count people for whom fewer values than this remain.", min=1)] = 2,
    population: Annotated[
        Path | None, typer.Option(help="A table of the people in question, with the quasi columns.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", "-p", help="Roles of the columns of tables that are not releases.")
    ] = None,
    sensitive: Annotated[
        str | None, typer.Option(help="The sensitive attribute, if the releases have several in common.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Show which sensitive values remain for one person, or for all people, if several releases are linked."""
    with reporting(json_output):
        from shoal.linking.linking import link as run
        from shoal.linking.result import TargetLinkage

        found = run(releases, target, floor=floor, population=population, policy=policy, sensitive=sensitive)
        if json_output:
            answer(found.as_dict())
        elif isinstance(found, TargetLinkage):
            show_target(found)
        else:
            show(found)


def show_target(found: TargetLinkage) -> None:
    """Print the values that remain for one person."""
    name = plain(found.sensitive)
    if found.remaining.l == 1:
        text = f"The releases together disclose {name}: one value remains."
    elif found.remaining.l:
        text = f"{found.remaining.l:,} values of {name} remain."
    else:
        text = f"No value of {name} remains: the person cannot be in all of these releases with the same value."
    say(f"[bold]{text}[/]")
    shown = list(found.remaining.counts.items())
    say(*(f"  {count:>7,}  {plain(value)}" for value, count in shown[:MOST_SHOWN]))
    if len(shown) > MOST_SHOWN:
        out().print(f"  and {len(shown) - MOST_SHOWN:,} more (--json lists all)")
    _say_plan(found, found.remaining.l)
    say(
        *(
            f"{plain(release)} alone leaves {left.l:,}."
            for release, left in zip(found.releases, found.alone, strict=True)
        )
    )


def show(found: PopulationLinkage) -> None:
    """Print how many values remain for the people of a population, and the worst cases."""
    values, remain = (
        f"{count_noun(found.l, 'value')} of {plain(found.sensitive)}",
        "remains" if found.l == 1 else "remain",
    )
    say(
        f"[bold]For people in all {len(found.releases)} releases, "
        f"{f'{values} {remain} at worst' if found.exact else f'at least {values} {remain}'}[/] "
        f"(frequency l {found.frequency_l:.3g}, "
        f"entropy l {found.entropy_l:.3g})."
    )
    _say_plan(found, found.l)
    if found.population:
        say(
            f"{found.people_linked:,} of {found.people:,} people can be in all of the releases; "
            f"for {found.people_below:,} of them, fewer than {found.floor} values remain."
        )
    elif not found.people_below:
        say(f"At least {found.floor} values remain for each of {found.people:,} people.")
    else:
        say(
            f"For at most {found.people_below:,} of {found.people:,} people, fewer than {found.floor} values remain "
            "(--population counts them exactly)."
        )
    if not found.exact:
        say("Classes of a release overlap, so a person may be in any of several; this is a lower bound.")
    for release, alone in zip(found.releases, found.alone, strict=True):
        say(f"{plain(release)} alone: l = {alone:,}")
    say(
        f"At worst, releases with these l can leave {found.bound:,} of {found.values:,} values "
        "(Proposition 3.1 of the (l, delta)-diversity paper)."
    )
    out().print("\n[bold]Worst cases, as classes of the releases[/]")
    for number, (l, classes) in enumerate(_cases(found), start=1):
        say(f"{number}. {l:,} of {found.values:,} values:")
        for release, text in zip(found.releases, classes, strict=True):
            say(f"   {plain(release)}: {plain(text) or 'sliced, without classes'}")


def _cases(found: PopulationLinkage) -> list[tuple[int, tuple[str, ...]]]:
    """Return the distinct worst cases as text: cases that differ only in a sliced release look the same."""
    shown = [
        (
            case.remaining.l,
            tuple(", ".join(f"{attribute}={label}" for attribute, label in labels.items()) for labels in case.classes),
        )
        for case in found.worst
    ]
    return list(dict.fromkeys(shown))


def _say_plan(found: TargetLinkage | PopulationLinkage, l: int) -> None:
    """Print the promise of the plan if all releases follow the same one."""
    if found.plan is None:
        return
    text = f"All of the releases follow one plan (digest {found.plan[:12]})"
    if found.promised is None:
        text += ", which promises nothing about several releases together."
    elif l >= found.promised:
        text += f", which promises each person {found.promised:,} values for any number of releases."
    else:
        text += f", which promises {found.promised:,} values: a release breaks it; run `shoal verify` on each."
    say(text)
