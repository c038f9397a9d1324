"""``shoal papers``: the experiments of the source papers, run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import answer, out, reporting

Folder = Annotated[Path | None, typer.Option("--out", "-o", help="New folder for the page and its figures.")]
Seed = Annotated[int, typer.Option(help="Make another run of the random choices.", min=0)]
Json = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]

app = typer.Typer(help="Run the experiments of the source papers again.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Run the experiments of the source papers again."""


@app.command("tau-l")
def tau_l(
    folder: Folder = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with adult.csv.gz, nursery.csv and hierarchies/adult; else that of SHOAL_DATA."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few requirements on a sample of the records.")] = False,
    seed: Seed = 1,
    json_output: Json = False,
) -> None:
    """Compare sequential sweep with its rivals: Figures 5 to 8 of the (tau,l)-diversity paper."""
    with reporting(json_output):
        from shoal.cli.bars import bars
        from shoal.papers.figures import require_plots
        from shoal.papers.tau_l import run_tau_l
        from shoal.papers.tau_l_page import write_result
        from shoal.papers.tau_l_statements import statements
        from shoal.release import refuse_existing

        target = folder or Path("shoal-papers-tau-l")
        refuse_existing(target)
        require_plots()
        with bars() as progress:
            result = run_tau_l(data, quick=quick, seed=seed, progress=progress)
        write_result(result, target)
        if json_output:
            answer({"folder": str(target), **result.as_dict()})
            return
        console = out()
        for table in result.tables:
            console.print(f"[bold]{table.title}[/], {table.records:,} records", soft_wrap=True)
            for statement in statements(table):
                console.print(f"  {statement.verdict}: {statement.claim} {statement.measured}", soft_wrap=True)
        console.print(f"The page is {target / 'tau-l.md'}; its figures are beside it.", soft_wrap=True)


@app.command("slicing")
def slicing(
    folder: Folder = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with adult.csv.gz; else that of SHOAL_DATA, else it is downloaded.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few settings on a sample of the records.")] = False,
    seed: Seed = 1,
    json_output: Json = False,
) -> None:
    """Compare slicing with generalization and bucketization: Figures 3 to 7 of the slicing paper."""
    with reporting(json_output):
        from shoal.cli.bars import bars
        from shoal.papers.classifiers import require_learning
        from shoal.papers.figures import require_plots
        from shoal.papers.slicing import run_slicing
        from shoal.papers.slicing_page import statements, write_result
        from shoal.release import refuse_existing

        target = folder or Path("shoal-papers-slicing")
        refuse_existing(target)
        require_plots()
        require_learning()
        with bars() as progress:
            result = run_slicing(data, quick=quick, seed=seed, progress=progress)
        write_result(result, target)
        if json_output:
            answer({"folder": str(target), **result.as_dict()})
            return
        console = out()
        for table in result.tables:
            console.print(f"[bold]{table.title}[/], {table.records:,} records", soft_wrap=True)
            for asked, statement in statements(table, result):
                about = f" ({asked})" if asked else ""
                console.print(f"  {statement.verdict}: {statement.claim}{about} {statement.measured}", soft_wrap=True)
        console.print(f"The page is {target / 'slicing.md'}; its figures are beside it.", soft_wrap=True)


@app.command("l-delta")
def l_delta(
    folder: Folder = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few simulated releases.")] = False,
    seed: Seed = 1,
    json_output: Json = False,
) -> None:
    """Compute Figures 1 and 2 of the (l,delta)-diversity paper and simulate what they bound."""
    with reporting(json_output):
        from shoal.cli.bars import bars
        from shoal.papers.figures import require_plots
        from shoal.papers.l_delta import run_l_delta
        from shoal.papers.l_delta_page import write_result
        from shoal.papers.l_delta_statements import findings
        from shoal.release import refuse_existing

        target = folder or Path("shoal-papers-l-delta")
        refuse_existing(target)
        require_plots()
        with bars() as progress:
            result = run_l_delta(quick=quick, seed=seed, progress=progress)
        write_result(result, target)
        if json_output:
            answer({"folder": str(target), **result.as_dict()})
            return
        console = out()
        for finding in findings(result):
            text = f"{finding.verdict}: {finding.claim} ({finding.where}) {finding.measured}"
            console.print(text, soft_wrap=True, markup=False)
        console.print(f"The page is {target / 'l-delta.md'}; its figures are beside it.", soft_wrap=True)
