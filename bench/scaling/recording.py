"""Measurements for the page bench/results/scaling.md, and the page made from them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.measuring import machine
from bench.scaling import points
from bench.scaling.cost import fitted
from bench.scaling.curves import draw_curves
from bench.scaling.page import page
from bench.scaling.volumes import weighed

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results" / "scaling.json"
TEMPLATE = Path(__file__).with_name("template.md")
PAGE = RESULTS.with_suffix(".md")
FIGURES = ROOT / "docs" / "figures"


def measured(folder: Path, share: float = 1.0) -> dict[str, Any]:
    """Run everything and return it with the fit; each run is printed."""
    found = []
    for point in points.measured(folder, share):
        found.append(point)
        about = f"{point['rows']:,} rows, {point['cells']:,} cells, {point['quasi']} quasi, {point['method']}"
        cores = ", one core" if point["one_core"] else ""
        stated = f"scaling, {point['table']}, {about}{cores}, {point['memory'] or 'enough'} memory"
        print(f"{stated}: {point['whole']:.2f} s, {point['peak_mib']:,} MiB, {point['seconds']}", flush=True)
    return {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "share": share,
        "points": found,
        "volumes": weighed(folder),
        "coefficients": fitted(found),
    }


def record(results: Mapping[str, Any]) -> None:
    """Keep what was measured."""
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def write_page(benchmarks: Mapping[str, Any]) -> None:
    """Write the page and its pictures from what is kept, with the lines of large tables and Spark beside it."""
    results = json.loads(RESULTS.read_text())
    draw_curves(results["points"], results["coefficients"], FIGURES)
    PAGE.write_text(page(results, benchmarks, TEMPLATE.read_text()))
