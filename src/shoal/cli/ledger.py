"""``shoal ledger``: the record of releases, and what they leave together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.console import JsonOption, Reply, add_command, answer, bars, make_table, out, plain, reporting, say
from shoal.core.wording import count_noun, join_words

if TYPE_CHECKING:
    from shoal.linking.ledger.checking import PopulationCheck

BELOW = 3
MOST_SHOWN = 12  # sets of releases in the terminal; --json has all

app = typer.Typer(
    help="Keep the record of releases. Show it, check what releases leave together, export it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Ledger = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger file that --ledger named.")]


@app.command("show")
def show(
    ledger: _Ledger,
    population: Annotated[str | None, typer.Option(help="Only releases about these people.")] = None,
    json_output: JsonOption = False,
) -> None:
    """List the releases. Shows date, population, recipient, promises, and what remains with the other releases."""
    with reporting(json_output):
        from shoal.linking.ledger.book import Ledger
        from shoal.linking.ledger.checking import overview

        with Ledger.open(ledger) as opened:
            found = overview(opened, population)
        if json_output:
            answer(found)
        else:
            _show_releases(found)


@app.command("check")
def check(
    ledger: _Ledger,
    people: Annotated[
        Path | None, typer.Option(help="A table of the people with the quasi columns: link everything again for them.")
    ] = None,
    population: Annotated[str | None, typer.Option(help="Only releases about these people.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Link the releases again and settle unfinished ones. Exit code 3: some are below their floor together."""
    with reporting(json_output):
        from shoal.linking.ledger.checking import check as run
        from shoal.sources.opening import open_source

        rows = None if people is None else open_source(people)
        with bars() as progress:
            found = run(ledger, population, rows, progress)
        fails = any(each.fails for each in found)
        if json_output:
            answer({"below": fails, "populations": [each.as_dict() for each in found]})
        else:
            for each in found:
                _show_checked(each)
    if fails:
        raise typer.Exit(BELOW)


@add_command(app, "add")
def add(
    ledger: _Ledger,
    folder: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="The release: its folder, or the public folder in it.")
    ],
    population: Annotated[str | None, typer.Option(help="The people the release is about.")] = None,
    recipient: Annotated[str, typer.Option(help="Who received it.")] = "",
    source: Annotated[
        Path | None, typer.Option(help="The table it was made from, to verify and link the release with.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", "-p", help="Its policy: earlier names of columns, accepted findings.")
    ] = None,
) -> Reply:
    """Add an earlier release. It is verified and linked, but not refused."""
    from shoal.linking.ledger.entering import add as run
    from shoal.linking.ledger.records import LedgerOptions

    with bars() as progress:
        entered = run(LedgerOptions(ledger, population, recipient), folder, source, progress, policy)
    entry, warnings = entered.evidence["ledger"], [*entered.warnings, *entered.unsettled]
    lines = [f"Added as release {entry['number']}, about {plain(entry['population'])}."]
    lines += [f"[yellow]Warning:[/] {plain(warning)}." for warning in warnings]
    return {**entry, "warnings": warnings}, *lines


@add_command(app, "export")
def export(
    ledger: _Ledger,
    output: Annotated[
        Path, typer.Option("--out", "-o", help="New file: .json with everything, or .csv with one line per release.")
    ],
) -> Reply:
    """Write the record for auditors. Entries, guarantees, evaluations and digests; no rows."""
    from shoal.linking.ledger.checking import export as run

    counts = run(ledger, output)
    return {"out": str(output), **counts}, f"{count_noun(counts['releases'], 'release')}  ->  {plain(output)}"


@add_command(app, "floor")
def floor(
    ledger: _Ledger,
    least: Annotated[int, typer.Option("--floor", help="Sensitive values that must remain for each person.")],
    population: Annotated[str | None, typer.Option(help="The population; needed only if there are several.")] = None,
    warn: Annotated[
        bool | None, typer.Option("--warn/--refuse", help="Warn about releases below the floor, or refuse them.")
    ] = None,
) -> Reply:
    """Set the floor of a population. This is the only way to lower it, and it is recorded."""
    from shoal.linking.ledger.book import Ledger
    from shoal.linking.ledger.records import check_floor

    check_floor(least)
    with Ledger.open(ledger, write=True) as opened:
        name = opened.choose(population)
        before = opened.find_population(name).limits
        after = opened.set_limits(name, floor=least, warns=before.warns if warn is None else warn).limits
    what = "published with a warning" if after.warns else "refused"
    return (
        {"population": name, "before": before.floor, "floor": after.floor, "warns": after.warns},
        f"The floor of {plain(name)} is now {after.floor} (before: {before.floor}). Releases below it are {what}.",
    )


@add_command(app, "budget")
def budget(
    ledger: _Ledger,
    epsilon: Annotated[
        float, typer.Option(help="Total epsilon that differentially private releases may spend.", min=0)
    ],
    delta: Annotated[float, typer.Option(help="Total delta that they may spend.", min=0, max=1)] = 0.0,
    population: Annotated[str | None, typer.Option(help="The population; needed only if there are several.")] = None,
) -> Reply:
    """Set the total privacy budget of a population's differentially private releases. It is recorded."""
    from shoal.linking.ledger.book import Ledger
    from shoal.linking.ledger.checking import overview

    with Ledger.open(ledger, write=True) as opened:
        name = opened.choose(population)
        opened.set_limits(name, epsilon=epsilon, delta=delta)
        (found,) = overview(opened, name)["populations"]
    spent = found["spent"]
    have = f"The budget of {plain(name)} is epsilon {epsilon:g} and delta {delta:g}"
    text = f"{have}; {spent['epsilon']:g} and {spent['delta']:g} are spent."
    return {"population": name, "epsilon": epsilon, "delta": delta, "spent": spent}, text


@add_command(app, "strike")
def strike(
    ledger: _Ledger,
    number: Annotated[int, typer.Argument(help="The number of an unfinished release.")],
    reason: Annotated[str, typer.Option(help="How you know that no one received it.")],
) -> Reply:
    """Declare that an unfinished release was never published. It stays in the record but no longer counts."""
    from shoal.linking.ledger.checking import entry_document
    from shoal.linking.ledger.checking import strike as run

    entry = run(ledger, number, reason)
    return entry_document(entry), f"Release {number} is struck and no longer counts."


def _show_releases(found: dict[str, Any]) -> None:
    """Print a table for each population, with a line for each release."""
    from shoal.linking.ledger.checking import guarantees_text

    for population in found["populations"]:
        what = "published with a warning" if population["warns"] else "refused"
        floor = population["floor"]
        spent = population["spent"]
        cost = f"; epsilon {spent['epsilon']:g} and delta {spent['delta']:g} are spent" if spent["epsilon"] else ""
        say(f"[bold]{plain(population['name'])}[/]: floor {floor:,}; releases below it are {what}{cost}")
        table = make_table()
        for head in ("", "rows", "l"):
            table.add_column(head, justify="right", no_wrap=True)
        for head in ("date", "status"):
            table.add_column(head, no_wrap=True)
        for head in ("to", "method", "promises"):
            table.add_column(head, overflow="fold")
        for each in found["releases"]:
            if each["population"] != population["name"]:
                continue
            low = each["l"] is not None and each["l"] < floor
            table.add_row(
                str(each["number"]),
                f"{each['rows']:,}",
                "-" if each["l"] is None else f"[red]{each['l']:,}[/]" if low else f"{each['l']:,}",
                each["at"][:10],
                each["status"],
                plain(each["recipient"]),
                plain(each["method"]),
                plain(guarantees_text(each["guarantees"])),
            )
        out().print(table)
    text = "l: the number of sensitive values that remain at worst, given this release and others about the same people"
    say(text if found["releases"] else "No releases.")


def _show_checked(checked: PopulationCheck) -> None:
    """Print the check of one population, worst sets of releases first."""
    from shoal.linking.ledger.entering import describe_set, least_failing

    name, floor = plain(checked.population.name), checked.population.limits.floor
    verdict = f"[bold green]keep the floor of {floor:,} and their promises[/] together"
    if any(one.failing for one in checked.linked):
        verdict = f"[bold red]do not keep the floor of {floor:,} or their promises[/] together, or cannot be linked"
    say(f"[bold]{name}[/]: {count_noun(len(checked.entries), 'release')} that {verdict}.")
    if checked.spending.epsilon:
        say(f"  {'[bold red]Overspent[/]' if checked.spending.over else 'Spent'}: {checked.spending.text}.")
    for one in checked.linked:
        fine = sorted((each for each in one.evaluations if not each.fails), key=lambda each: each.l or floor)
        sets = [*least_failing(one), *fine]
        for each in sets[:MOST_SHOWN]:
            which = f"release{'s' if len(each.releases) > 1 else ''} {join_words([*map(str, each.releases)])}"
            bound = "" if each.problem or each.exact else " (a lower bound: classes overlap)"
            say(f"  {plain(describe_set(each, which))}{bound}")
        if len(one.evaluations) > min(len(sets), MOST_SHOWN):
            say(f"  {len(one.evaluations):,} sets of releases in total; --json lists them.")
        if not one.complete:
            say("  Not all sets of more than three releases were examined; --people examines them.")
    for number in checked.settled:
        say(f"  Release {number} was unfinished; its files are in place, so it now counts as published.")
    for entry in checked.entries:
        if entry.status == "unfinished":
            say(f"  Release {entry.number} is unfinished and counts as published; see `shoal ledger strike`.")
