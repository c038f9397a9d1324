"""The cost model, what follows from it for a cluster, and the pages that are written from recorded results."""

from __future__ import annotations

import doctest
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # the benchmarks are beside the package, not in it
    sys.path.append(str(ROOT))

from bench.scaling import cluster, cost, page, points, recording  # noqa: E402
from bench.scaling.cost import BY_REGIONS, IN_MEMORY, MODEL, STEPS, TERMS, Sizes  # noqa: E402

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


def test_the_fit_never_goes_below_zero_and_leaves_out_what_is_not_there() -> None:
    runs = [
        {**run, "seconds": dict.fromkeys(STEPS, 3e-06 * run["rows"]), "whole": 1.0}
        for run in many()
        if not run["regions"]
    ]
    runs += [run for run in many() if run["regions"]]
    rest = cost.fitted(runs)[IN_MEMORY]["rest"]
    assert min(rest.values()) >= 0
    assert rest["per row"] == pytest.approx(3e-6)
    assert rest["per class"] == pytest.approx(0, abs=1e-12)


def test_runs_to_check_and_to_show_are_not_used_to_fit() -> None:
    honest = cost.fitted(many())
    spoiled = [made(10**6, 10**5, 10**4, 6, use=use) for use in ("check", "show")]
    for run in spoiled:
        run["seconds"] = dict.fromkeys(STEPS, 1e6)
    assert cost.fitted([*many(), *spoiled]) == honest
    for run in spoiled:
        run["use"] = "fit"
    assert cost.fitted([*many(), *spoiled]) != honest


def test_the_error_is_above_zero_where_more_is_expected() -> None:
    run = made(10**6, 10**5, 10**4, 6)
    assert cost.error(TRUE, run) == pytest.approx(0)
    assert cost.error(TRUE, {**run, "whole": run["whole"] / 2}) == pytest.approx(1)
    assert cost.error(TRUE, {**run, "whole": run["whole"] * 2}) == pytest.approx(-0.5)


def test_every_term_of_the_model_exists_and_grows() -> None:
    small, large = Sizes(1e5, 1e4, 1e3, 3, 5), Sizes(1e7, 1e6, 1e5, 6, 8)
    for steps in MODEL.values():
        assert tuple(steps) == STEPS
        for term in {term for terms in steps.values() for term in terms} - {"once"}:
            assert TERMS[term](large) > TERMS[term](small) > 0


def test_what_is_measured_has_runs_to_fit_and_runs_beyond() -> None:
    runs = points.points()
    mondrian = [run for run in runs if run.method == "mondrian" and not run.one_core]
    for memory in (True, False):
        own = [run for run in mondrian if (run.memory is not None) is memory]
        most = max(run.rows for run in own if run.use == "fit")
        assert any(run.rows > most for run in own if run.use == "check")  # beyond
    inside = [run for run in mondrian if run.use == "check" and run.rows < 3_000_000]
    assert {run.table for run in inside} == {"stays", "adult"}
    for series, least in (("rows", 5), ("cells", 4), ("quasi", 5), ("cores", 4), ("regions", 4), ("methods", 9)):
        assert sum(series in run.series for run in runs) >= least, series
    assert {run.use for run in runs if run.one_core or run.method != "mondrian"} == {"show"}
    assert {run.rows for run in points.points(0.01) if run.memory is None} == {
        run.rows // 100 for run in runs if run.memory is None
    }


def test_a_policy_with_fewer_quasi_attributes_leaves_the_others_out() -> None:
    asked = points.Point(10, ("quasi",), quasi=2).policy()["attributes"]
    assert [name for name, entry in asked.items() if entry["role"] == "quasi"] == ["age", "sex"]
    assert asked["postcode"] == {"role": "identifier"}
    assert asked["diagnosis"]["role"] == "sensitive"


MEASURED = cluster.Measurements(
    TRUE, RECORDED["volumes"], dict.fromkeys(STEPS, 1.5), 2.0
)  # the volumes matter to no test below


@pytest.mark.parametrize("table", page.TABLES, ids=lambda table: f"{table.rows:g} {table.name}")
def test_more_machines_take_less_and_the_driver_the_same(table: cluster.Table) -> None:
    few = cluster.expected(table, page.SMALL, MEASURED)
    more = cluster.expected(table, replace(page.SMALL, machines=80), MEASURED)
    for step, share in few.steps.items():
        assert more.steps[step].workers == pytest.approx(share.workers / 10)
        assert more.steps[step].disk == pytest.approx(share.disk / 10)
        assert more.steps[step].driver == pytest.approx(share.driver)
    assert more.whole < few.whole
    assert more.most_gain == pytest.approx(few.most_gain)  # Amdahl: of the work, not of the machines
    assert few.whole == pytest.approx(sum(share.whole for share in few.steps.values()))
    assert few.serial < few.whole
    step, part = few.bottleneck.split(": ")
    assert getattr(few.steps[step], part) == max(
        value for share in few.steps.values() for value in (share.workers, share.network, share.disk, share.driver)
    )


def test_with_few_cells_the_plan_does_not_grow_with_rows() -> None:
    billion, hundred = (cluster.Table("few", rows, 1e7, 1e6) for rows in (1e9, 1e11))
    first, second = (cluster.expected(table, page.LARGE, MEASURED) for table in (billion, hundred))
    assert first.steps["plan"] == second.steps["plan"]
    assert second.steps["apply"].workers > 50 * first.steps["apply"].workers
    assert second.files == pytest.approx(100 * first.files)


def test_the_gain_of_workers_ends_at_the_work_of_the_driver() -> None:
    shares = {"plan": cluster.Share(0.0, 0.0, 0.0, 10.0), "apply": cluster.Share(2.0, 5.0, 5.0, 0.0)}
    machines = cluster.Cluster(machines=4, cores=5, memory_gib=1, network=1.0, disk=1.0)
    found = cluster.Expectation(page.TABLES[0], machines, shares, 0.0)
    assert found.most_gain == pytest.approx((20 * 2.0 + 10.0) / 10.0)
    assert (found.whole, found.serial, found.bottleneck) == (22.0, 10.0, "plan: driver")


def test_steps_gain_between_nothing_and_all_of_a_second_core() -> None:
    pair = [
        {"series": ["cores"], "rows": 9, "one_core": True, "seconds": dict(zip(STEPS, (3, 3, 3, 3, 1), strict=True))},
        {"series": ["cores"], "rows": 9, "one_core": False, "seconds": dict(zip(STEPS, (3, 2, 1, 4, 2), strict=True))},
        {"series": ["cores"], "rows": 1, "one_core": False, "seconds": dict.fromkeys(STEPS, 100)},
    ]
    assert list(page.one_core(pair).values()) == [1.0, 1.5, 2.0, 1.0, 1.0]


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


def test_the_page_tells_every_coefficient_and_every_run_that_checks_it() -> None:
    stated = recording.PAGE.read_text(encoding="utf-8")
    for kind in (IN_MEMORY, BY_REGIONS):
        for step in STEPS:
            assert f"| {kind} | {'start and the rest' if step == 'rest' else step} |" in stated
    checks = [run for run in RECORDED["points"] if run["use"] == "check"]
    assert len(checks) >= 3
    for run in checks:
        assert f"| {cost.predicted_whole(RECORDED['coefficients'], run):.1f} s | {run['whole']:.1f} s |" in stated


def test_a_figure_of_others_is_marked_as_quoted() -> None:
    job = {"job": "a", "detail": {"beside": "b took 9 s"}, "median": 1.0, "least": 1.0, "most": 1.0}
    job |= {"peak_mib": 5.0, "limit": "2 s", "within": True, "date": "2026-01-02"}
    results = {**BENCHMARKS, "jobs": [job]}
    stated = benchmarks_page.whole_table(results)
    assert "| a (quoted, not measured: b took 9 s) | 1.00 s | 1.00 to 1.00 | 5 MiB | 2 s | yes | 2026-01-02 |" in stated


def test_the_pictures_are_drawn_from_recorded_runs(tmp_path: Path) -> None:
    from bench.scaling.curves import draw_curves

    draw_curves(RECORDED["points"], RECORDED["coefficients"], tmp_path)
    stated = recording.PAGE.read_text(encoding="utf-8")
    for name in ("scaling-model.svg", "scaling-others.svg"):
        assert f"(../../docs/figures/{name})" in stated
        assert (recording.FIGURES / name).is_file()
        drawn = (tmp_path / name).read_text(encoding="utf-8")
        assert all(word in drawn for word in ("verify", "cores") if name == "scaling-others.svg" or word == "verify")
        assert len(drawn) < 200_000


@pytest.mark.parametrize("name", ["bench.scaling.wording", "bench.scaling.cost"])
def test_the_examples_of_the_benchmarks_run(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0
    assert tried > 0


def test_tables_are_written_when_they_are_needed_and_go_when_they_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[set[str]] = []

    def run(point: points.Point, folder: Path) -> Any:
        there.append({path.name for path in folder.iterdir()})
        return point

    monkeypatch.setattr(points.Point, "run", run)
    monkeypatch.setattr(points, "n_cells", lambda *_: 1)
    monkeypatch.setattr(points, "_told", lambda point, *_: {"rows": point.rows})
    monkeypatch.setattr(points, "min", lambda runs, key: runs[0], raising=False)
    few = [points.Point(rows, ("rows",), copies=copies) for rows, copies in ((40, 1), (30, 2), (40, 1))]
    monkeypatch.setattr(points, "points", lambda _: few)
    assert [stated["rows"] for stated in points.measured(tmp_path)] == [40, 30, 40]
    first, second = "stays-40-1.parquet", "stays-30-2.parquet"
    assert there == [{first}] * 2 + [{first, second}] * 2 + [{first}] * 2
    assert list(tmp_path.iterdir()) == []
