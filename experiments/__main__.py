"""``python -m experiments tau-l|slicing|l-delta|calibration|synthetic``: a source paper's experiments, or our own."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from experiments import (
    calibration,
    calibration_methods,
    calibration_page,
    l_delta,
    l_delta_page,
    slicing,
    slicing_page,
    synthetic,
    tau_l,
    tau_l_page,
)
from experiments.figures import Report, drop_times, require_plots
from experiments.slicing_learning import require_learning
from shoal.cli.console import bars
from shoal.core.errors import ShoalError, UsageError
from shoal.core.progress import Progress

Run = Callable[[argparse.Namespace, bool, Progress], Report]


def _run_tau_l(asked: argparse.Namespace, quick: bool, progress: Progress) -> Report:
    result = tau_l.run_tau_l(asked.data, quick=quick, seed=asked.seed, progress=progress)
    return tau_l_page.make_report(result)


def _run_slicing(asked: argparse.Namespace, quick: bool, progress: Progress) -> Report:
    require_learning()
    result = slicing.run_slicing(asked.data, quick=quick, seed=asked.seed, progress=progress)
    return slicing_page.make_report(result)


def _run_l_delta(asked: argparse.Namespace, quick: bool, progress: Progress) -> Report:
    return l_delta_page.make_report(l_delta.run_l_delta(quick=quick, seed=asked.seed, progress=progress))


def _run_calibration(asked: argparse.Namespace, quick: bool, progress: Progress) -> Report:
    more = calibration_methods.list_batches(asked.seed, quick=quick)
    found = calibration.run_calibration(quick=quick, seed=asked.seed, progress=progress, more=more)
    return calibration_page.make_report(found)


def _run_synthetic(asked: argparse.Namespace, quick: bool, progress: Progress) -> Report:
    require_learning()
    return synthetic.make_report(synthetic.run_synthetic(asked.data, quick=quick, seed=asked.seed, progress=progress))


EXPERIMENTS: dict[str, tuple[str, Run]] = {
    "tau-l": ("sequential sweep and its rivals: Figures 5 to 8 of the (tau,l)-diversity paper", _run_tau_l),
    "slicing": ("slicing, generalization and bucketization: Figures 3 to 7 of the slicing paper", _run_slicing),
    "l-delta": ("Figures 1 and 2 of the (l,delta)-diversity paper, and simulations of what they bound", _run_l_delta),
    "calibration": ("how often attacks find known exposures, and raise false alarms", _run_calibration),
    "synthetic": ("how near differentially private tables are to their source, by epsilon", _run_synthetic),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one experiment, write what it leaves behind, and print what became of the paper's statements."""
    asked = _parser().parse_args(arguments)
    try:
        _run(asked)
    except (ShoalError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    papers = parser.add_subparsers(dest="name", required=True, metavar="|".join(EXPERIMENTS))
    for name, (title, _) in EXPERIMENTS.items():
        one = papers.add_parser(name, help=title, description=title)
        target = one.add_mutually_exclusive_group()
        target.add_argument("--out", type=Path, help=f"new folder for page and figures; else experiments-{name}")
        target.add_argument("--docs", type=Path, help="folder of the documentation, for its plots and tables")
        one.add_argument("--data", type=Path, help="folder with adult.csv.gz and the like; else that of SHOAL_DATA")
        one.add_argument("--quick", action="store_true", help="a small grid, on a sample")
        one.add_argument("--seed", type=int, default=1, help="make another run of the random choices")
    return parser


def _run(asked: argparse.Namespace) -> None:
    folder = asked.out or Path(f"experiments-{asked.name}")
    if asked.docs is None and folder.exists():
        raise UsageError(f"{folder} exists already; name a new folder with --out")
    if asked.docs is not None and asked.quick:
        raise UsageError("the documentation shows the whole grid; leave --quick out")
    require_plots()
    run = EXPERIMENTS[asked.name][1]
    with bars() as progress:
        report = run(asked, asked.quick, progress)
        if asked.docs is not None:
            place = report.write_docs(asked.docs, drop_times(run(asked, True, progress).document))
        else:
            report.write(folder)
            place = folder / f"{asked.name}.md"
    for line in report.summary:
        print(line)
    print(f"The page is {place}.")


if __name__ == "__main__":
    sys.exit(main())
