"""``shoal papers``: the experiments of the source papers, run again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar

import typer

from shoal.cli.console import JsonOption, answer, out, reporting

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.core.progress import Progress


class _Result(Protocol):
    def as_dict(self) -> dict[str, Any]: ...


R = TypeVar("R", bound=_Result)

Folder = Annotated[Path | None, typer.Option("--out", "-o", help="New folder for the page and its figures.")]
Seed = Annotated[int, typer.Option(help="Make another run of the random choices.", min=0)]

app = typer.Typer(help="Run the experiments of the source papers again.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Run the experiments of the source papers again."""


def _run(
    name: str,
    folder: Path | None,
    json_output: bool,
    run: Callable[[Progress], R],
    write: Callable[[R, Path], None],
    tell: Callable[[R, Console], None],
) -> None:
    """Run one experiment, write what it leaves behind into a new folder, and tell what it found."""
    from experiments.figures import require_plots

    from shoal.cli.bars import bars
    from shoal.release.release import refuse_existing

    target = folder or Path(f"shoal-papers-{name}")
    refuse_existing(target)
    require_plots()
    with bars() as progress:
        result = run(progress)
    write(result, target)
    if json_output:
        answer({"folder": str(target), **result.as_dict()})
        return
    console = out()
    tell(result, console)
    console.print(f"The page is {target / f'{name}.md'}; its figures are beside it.", soft_wrap=True)


@app.command("tau-l")
def tau_l(
    folder: Folder = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with adult.csv.gz, nursery.csv and hierarchies/adult; else that of SHOAL_DATA."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few requirements on a sample of the records.")] = False,
    seed: Seed = 1,
    json_output: JsonOption = False,
) -> None:
    """Compare sequential sweep with its rivals: Figures 5 to 8 of the (tau,l)-diversity paper."""
    with reporting(json_output):
        from experiments.tau_l import Result, run_tau_l
        from experiments.tau_l_page import write_result
        from experiments.tau_l_statements import statements

        def run(progress: Progress) -> Result:
            return run_tau_l(data, quick=quick, seed=seed, progress=progress)

        def tell(result: Result, console: Console) -> None:
            for table in result.tables:
                console.print(f"[bold]{table.title}[/], {table.records:,} records", soft_wrap=True)
                for statement in statements(table):
                    console.print(f"  {statement.verdict}: {statement.claim} {statement.measured}", soft_wrap=True)

        _run("tau-l", folder, json_output, run, write_result, tell)


@app.command("slicing")
def slicing(
    folder: Folder = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with adult.csv.gz; else that of SHOAL_DATA, else it is downloaded.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few settings on a sample of the records.")] = False,
    seed: Seed = 1,
    json_output: JsonOption = False,
) -> None:
    """Compare slicing with generalization and bucketization: Figures 3 to 7 of the slicing paper."""
    with reporting(json_output):
        from experiments.classifiers import require_learning
        from experiments.slicing import Result, run_slicing
        from experiments.slicing_page import statements, write_result

        def run(progress: Progress) -> Result:
            require_learning()
            return run_slicing(data, quick=quick, seed=seed, progress=progress)

        def tell(result: Result, console: Console) -> None:
            for table in result.tables:
                console.print(f"[bold]{table.title}[/], {table.records:,} records", soft_wrap=True)
                for asked, statement in statements(table, result):
                    about = f" ({asked})" if asked else ""
                    text = f"  {statement.verdict}: {statement.claim}{about} {statement.measured}"
                    console.print(text, soft_wrap=True)

        _run("slicing", folder, json_output, run, write_result, tell)


@app.command("l-delta")
def l_delta(
    folder: Folder = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few simulated releases.")] = False,
    seed: Seed = 1,
    json_output: JsonOption = False,
) -> None:
    """Compute Figures 1 and 2 of the (l,delta)-diversity paper and simulate what they bound."""
    with reporting(json_output):
        from experiments.l_delta import Result, run_l_delta
        from experiments.l_delta_page import write_result
        from experiments.l_delta_statements import findings

        def run(progress: Progress) -> Result:
            return run_l_delta(quick=quick, seed=seed, progress=progress)

        def tell(result: Result, console: Console) -> None:
            for finding in findings(result):
                text = f"{finding.verdict}: {finding.claim} ({finding.where}) {finding.measured}"
                console.print(text, soft_wrap=True, markup=False)

        _run("l-delta", folder, json_output, run, write_result, tell)
