"""``shoal agency``: what several data owners agree upon before they publish."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import answer, out, reporting

app = typer.Typer(
    help="Plan releases of several data owners about the same people.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _group() -> None:
    """Plan releases of several data owners about the same people."""


@app.command("plan")
def plan(
    counts: Annotated[
        Path, typer.Option(help="Quasi columns, the sensitive column, and `count` or `probability`: CSV or Parquet.")
    ],
    sensitive: Annotated[str, typer.Option(help="The sensitive column.")],
    l: Annotated[int, typer.Option("--l", help="Sensitive values that every class shall show.")],
    delta: Annotated[str, typer.Option(help="How probably a release may miss that.")],
    output: Annotated[Path, typer.Option("--out", "-o", help="New file for the plan.")],
    p: Annotated[str | None, typer.Option("--p", help="How likely l values of every class are at least.")] = None,
    samples: Annotated[
        int | None, typer.Option(help="Choose p for this many records; without both, for as many as were counted.")
    ] = None,
    eta: Annotated[str, typer.Option(help="How far the distribution may be off, in total variation.")] = "0",
    order: Annotated[str, typer.Option(help="Order of the points: lexicographic, hilbert or taxonomy.")] = (
        "lexicographic"
    ),
    attributes: Annotated[
        str | None, typer.Option(help="Quasi columns by weight, with commas; else as they come.")
    ] = None,
    taxonomy: Annotated[
        list[str] | None, typer.Option(help="COLUMN=FILE: the leaves' order for a column; may be repeated.")
    ] = None,
    arrangement: Annotated[
        str, typer.Option(help="Classes: contiguous, gathered (more of them, but no ranges) or independent.")
    ] = "contiguous",
    json_output: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Agree on classes and on the number of records with which each release keeps (l,delta)-diversity."""
    with reporting(json_output):
        from rich.markup import escape

        from shoal.agency.distribution import read_distribution
        from shoal.agency.ordering import ORDERS
        from shoal.agency.plan_file import rounded_down, write_plan
        from shoal.agency.planning import ARRANGEMENTS, make_plan
        from shoal.errors import UsageError
        from shoal.taxonomies.builders.file import read_taxonomy

        chosen_order = next((known for known in ORDERS if known == order), None)
        chosen = next((known for known in ARRANGEMENTS if known == arrangement), None)
        if chosen_order is None or chosen is None:
            listed = f"--order {', '.join(ORDERS)}; --arrangement {', '.join(ARRANGEMENTS)}"
            raise UsageError(f"unknown order {order!r} or arrangement {arrangement!r}; known are {listed}")
        if output.exists():
            raise UsageError(f"{output} exists already; choose another file or remove it first")
        asked, given_p, error = _number("delta", delta), None if p is None else _number("p", p), _number("eta", eta)
        trees = {name: read_taxonomy(path) for name, path in map(_taxonomy, taxonomy or [])}
        known = read_distribution(
            counts,
            sensitive,
            order=chosen_order,
            attributes=None if attributes is None else [name.strip() for name in attributes.split(",")],
            taxonomies=trees,
        )
        made = make_plan(known, l=l, delta=asked, p=given_p, samples=samples, eta=error, arrangement=chosen)
        digest = write_plan(made, output)
        if json_output:
            answer(
                {
                    "plan": str(output),
                    "n": made.n,
                    "n_tight": made.n_tight,
                    "m": float(made.m),
                    "p": rounded_down(made.p),
                    "classes": made.classes.n_classes,
                    "l": l,
                    "delta": float(asked),
                    "eta": float(error),
                    "digest": digest,
                }
            )
            return
        console = out()
        classes = made.classes.n_classes
        said = [
            f"[bold]{classes:,} {'class' if classes == 1 else 'classes'}[/] of {known.n_points:,} combinations of",
            f"quasi values; no way to make classes gives more than m = {float(made.m):,.6g}.\nOwners wait for",
            f"[bold]{made.n_tight:,} records[/] (n_tight, from these very classes); the paper's bound is",
            f"{made.n:,} (n).\nThen every class shows at least {l} values of {escape(sensitive)} except with",
            f"probability {float(asked):g}, and t linked releases except with t times that. p = {float(made.p):.6g}.",
            "\nThis holds for independent records of the distribution in the counts,",
            f"known up to {float(error):g}." if error else "taken as exact: give --eta if it is an estimate.",
        ]
        console.print(" ".join(said).replace(" \n", "\n"), soft_wrap=True)
        console.print(f"The plan is {escape(str(output))}.", soft_wrap=True)


def _number(name: str, text: str) -> Fraction:
    """Read a decimal exactly as it was typed."""
    from shoal.errors import UsageError

    try:
        if "/" in text or "_" in text:
            raise ValueError
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"--{name} must be a number such as 0.01, got {text!r}") from None


def _taxonomy(text: str) -> tuple[str, Path]:
    from shoal.errors import UsageError

    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise UsageError(f"--taxonomy must be COLUMN=FILE, got {text!r}")
    return name, Path(path)
