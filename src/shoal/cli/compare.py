"""``shoal compare``: the risk, guarantees, utility and cost of techniques or policies, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import JsonOption, answer, bars, out, plain, reporting
from shoal.cli.publishing import DataArgument
from shoal.core.wording import write_kept

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from shoal.compare.result import Comparison, Row

WIDE = 110  # terminal width from which every figure has its own column


def compare(
    data: DataArgument,
    policies: Annotated[list[Path], typer.Option("--policy", "-p", help="A policy; may be repeated, one row each.")],
    techniques: Annotated[
        str | None,
        typer.Option(metavar="all|NAME,...", help="Compare techniques on the attributes of one policy, one row each."),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE,...",
            help="Values of a parameter, one row each: k-anonymity.k=2,5,10, max_withheld=0,0.05; may be repeated.",
        ),
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Methods, one row each: mondrian,incognito{measure: um}.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=WEIGHT,...",
            help="Weights of the ranking, such as risk=2; by default, risk and marginals have the same.",
        ),
    ] = None,
    control: Annotated[str | None, typer.Option(help="A table of similar people who are not in the data.")] = None,
    hold_out: Annotated[
        float | None,
        typer.Option(help="Share of the data to hold out as control group; 0.2 by default, 0 for none.", min=0),
    ] = None,
    targets: Annotated[int, typer.Option(help="Number of people, or predicates, on which to try each attack.")] = 2000,
    seed: Annotated[
        int | None, typer.Option(help="Make the run repeatable, except for differential privacy.", min=0)
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="New file for the table, as CSV.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="New file for the table, as Markdown.")] = None,
    frontier: Annotated[Path | None, typer.Option(help="New file for the plot of risk against utility, .svg.")] = None,
    html: Annotated[Path | None, typer.Option(help="New file for ranking, plot and table, as one HTML page.")] = None,
    json_output: JsonOption = False,
) -> None:
    """Compare the risk, promises, utility and cost of techniques or policies. For the data holder only."""
    with reporting(json_output):
        from shoal.compare.compare import compare as compared
        from shoal.compare.writing import Wanted
        from shoal.sources.addresses import name_of

        wanted = Wanted(csv, markdown, frontier, html)
        wanted.check()
        with bars() as progress:
            found = compared(
                data,
                *policies,
                techniques=techniques,
                sweep=sweep,
                methods=methods,
                weights=weights,
                control=control,
                hold_out=hold_out,
                targets=targets,
                seed=seed,
                progress=progress,
            )
        wanted.write(found, title=f"Comparison on {name_of(data)}")
        if json_output:
            answer(found.as_dict())
        else:
            show(found, out())


def show(found: Comparison, console: Console) -> None:
    """Print the table, the techniques that failed, and how to read the figures."""
    from shoal.compare.writing import reading

    if any(row.reason is None for row in found.rows):
        console.print(_table(found, wide=console.width >= WIDE))
    for row in found.rows:
        if row.reason is not None:
            name = " ".join(filter(None, [row.name, f"({row.parameters})" if row.parameters else ""]))
            console.print(f"[bold]{plain(name)}[/] failed: {plain(row.reason)}.", soft_wrap=True)
    for line in reading(found):
        console.print(plain(line), soft_wrap=True)


def _table(found: Comparison, *, wide: bool) -> Table:
    """Return the table; in a narrow terminal, records and seconds share a column with the name."""
    from rich.table import Table

    from shoal.compare.result import HEADS, KEPT, RISKS, share_text
    from shoal.compare.writing import standing_text

    table = Table(box=None, padding=(0, 2 if wide else 1, 1, 0))
    table.add_column("release" if found.of_policies else "technique", ratio=1, overflow="fold")
    for head in HEADS.values():
        table.add_column(head, no_wrap=True)
    for head in (KEPT, "records", "s") if wide else (KEPT,):
        table.add_column(head, justify="right", no_wrap=True)
    stands = found.standings()
    for place, row in enumerate(found.rows):
        if row.reason is not None:
            continue
        lines = [f"[bold]{plain(row.name)}[/]"]
        lines += [] if row.settings else [plain(row.parameters)]  # a swept row's name has its parameters
        lines.append(f"promise: {plain(row.promise)}")
        if len(stands) > 1:
            stand = stands.get(place)
            rank = "" if stand is None else f"rank {stand.rank}, score {share_text(stand.score)}: "
            lines.append(plain(rank + standing_text(stand)))
        kept = "-" if row.kept is None else write_kept(row.kept.release)
        made = (f"{row.records:,}", f"{row.seconds:.1f}")
        lines += [] if wide else [f"{made[0]} records, {made[1]} s"]
        table.add_row(
            "\n".join(lines),
            *(_risk(row, risk, rated=not found.of_policies) for risk in RISKS),
            *((kept, *made) if wide else (kept,)),
        )
    return table


def _risk(row: Row, risk: str, *, rated: bool) -> str:
    """Return a measured risk, its interval, and its rating if such rows are rated."""
    from shoal.compare.result import share_text

    trials, said = row.trials(risk), (row.opinion(risk) or "not rated") if rated else ""
    if trials is None:
        return f"not tried\n\n[dim]{said}[/]"
    colour = "red" if trials.risk.low > 0 else "green"
    value, low, high = map(share_text, (trials.risk.value, trials.risk.low, trials.risk.high))
    return f"[{colour}]{value}[/]\n{low} to {high}\n[dim]{said}[/]"
