"""The cost model, what follows from it for a cluster, and the pages that are written from recorded results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # the benchmarks are beside the package, not in it
    sys.path.append(str(ROOT))

from bench.scaling import cost, page, recording  # noqa: E402
from bench.scaling.cost import MODEL, Sizes  # noqa: E402

from bench import page as benchmarks_page  # noqa: E402

RECORDED: dict[str, Any] = json.loads(recording.RESULTS.read_text(encoding="utf-8"))
BENCHMARKS: dict[str, Any] = json.loads((ROOT / "bench" / "results" / "latest.json").read_text(encoding="utf-8"))
TRUE = {
    kind: {step: {term: (place + 1) * 1e-8 for place, term in enumerate(terms)} for step, terms in steps.items()}
    for kind, steps in MODEL.items()
}


def made(rows: int, cells: int, classes: int, quasi: int, *, use: str = "fit", regions: int = 0) -> dict[str, Any]:
    """A run that takes exactly what the true coefficients say, and a second once in each step."""
    point: dict[str, Any] = {"rows": rows, "cells": cells, "classes": classes, "quasi": quasi, "columns": quasi + 2}
    point |= {"use": use, "regions": regions}
    stated = cost.predicted(TRUE, cost.kind_of(point), Sizes.of(point))
    return {**point, "seconds": stated, "whole": sum(stated.values())}


def many() -> list[dict[str, Any]]:
    sizes = [(10**e, 10**c, 10 ** (c - 1), quasi) for e in (7, 8, 9) for c in (4, 6, 7) for quasi in (2, 5, 9)]
    found = [made(*one) for one in sizes]
    found += [made(7 * 10**e, 3 * 10 ** (e - 2), 10 ** (e - 5), 4) for e in (7, 8, 9)]
    return found + [made(10**e, 10**e, 10 ** (e - 1), 6, regions=9) for e in (8, 9)]


def test_the_fit_finds_the_coefficients_that_runs_were_made_with() -> None:
    found = cost.fitted(many())
    for kind, steps in TRUE.items():
        for step, terms in steps.items():
            assert found[kind][step] == pytest.approx(terms, rel=1e-4), (kind, step)


def test_the_recorded_runs_give_the_recorded_coefficients() -> None:
    again = cost.fitted(RECORDED["points"])
    for kind, steps in RECORDED["coefficients"].items():
        for step, terms in steps.items():
            assert again[kind][step] == pytest.approx(terms, rel=1e-6, abs=1e-15), (kind, step)


def test_the_pages_of_the_docs_are_those_that_the_recorded_results_give() -> None:
    template = recording.TEMPLATE.read_text(encoding="utf-8")
    assert recording.PAGE.read_text(encoding="utf-8") == page.page(RECORDED, BENCHMARKS, template)
    notes = (ROOT / "bench" / "notes.md").read_text(encoding="utf-8")
    stated = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert stated == benchmarks_page.page(BENCHMARKS, notes)
    whole = (ROOT / "bench" / "results" / "benchmarks.md").read_text(encoding="utf-8")
    assert whole == benchmarks_page.whole_table(BENCHMARKS)
    assert set(benchmarks_page.MAIN) <= {job["job"] for job in BENCHMARKS["jobs"]}
