"""What every experiment leaves behind: a page, all its figures as JSON and CSV, and plots with their data."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from experiments.figures import Drawing
from shoal.release.release import write_json, write_text, written

Verdict = Literal["holds", "holds in part", "does not hold", "not tested"]


def write_experiment(
    folder: Path,
    name: str,
    *,
    drawings: Iterable[Drawing],
    tables: Mapping[str, str],
    whole: str,
    document: Mapping[str, Any],
    page: str,
) -> None:
    """Write ``name.md``, ``name.json``, ``name.csv`` and, under ``figures``, the plots and the tables (stem -> CSV).

    A folder that cannot be finished is removed.
    """
    figures = folder / "figures"
    with written(folder):
        figures.mkdir(parents=True)
    try:
        for drawing in drawings:
            drawing.write(figures)
        for stem, table in tables.items():
            write_text(figures / f"{stem}.csv", table)
        write_text(folder / f"{name}.csv", whole)
        write_json(folder / f"{name}.json", document)
        write_text(folder / f"{name}.md", page)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@dataclass(frozen=True, slots=True)
class Statement:
    """One finding of a paper on one table, and what became of it."""

    figure: int
    claim: str
    verdict: Verdict
    measured: str


def verdict_of(wins: int, trials: int, needed: float = 1.0) -> Verdict:
    """Return whether a claim holds that is borne out in so many trials; it must be in the *needed* share of them.

    >>> verdict_of(3, 4), verdict_of(3, 4, needed=0.5), verdict_of(0, 0)
    ('holds in part', 'holds', 'not tested')
    """
    if not trials:
        return "not tested"
    if wins >= needed * trials:
        return "holds"
    return "holds in part" if wins else "does not hold"
