"""What every experiment leaves behind: a page, all its figures as JSON and CSV, and plots with their data."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shoal.papers.figures import Drawing
from shoal.release import write_json, write_text, written


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
