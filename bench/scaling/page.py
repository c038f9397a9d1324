"""The page bench/results/scaling.md, made from the measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from string import Template
from typing import Any

from bench.scaling.cluster import Cluster, Expectation, Measurements, Table, expected
from bench.scaling.cost import BY_REGIONS, IN_MEMORY, STEPS, Coefficients, Sizes, error, predicted, predicted_whole
from bench.scaling.points import of_series
from bench.scaling.wording import bytes_text, count_text, duration, gains, line, rows_text, small_time
from shoal.engines.regions.budget import MOST_FILES, Budget

SPARK = 1.5  # times the local engine, on 2026-11-17, while tasks rewrote rows on one machine as they do on a cluster
SMALL = Cluster(machines=8, cores=16, memory_gib=64, network=1.25e9, disk=1e9)
LARGE = Cluster(machines=100, cores=16, memory_gib=64, network=3.125e9, disk=2e9)
FEW_CELLS = 10e6
TWO_CORES = "2GiB"  # of memory, for the machine of the measurements
TABLES = tuple(
    table
    for rows in (1e9, 1e11)
    for table in (
        Table("few cells", rows, FEW_CELLS, FEW_CELLS / 10),
        Table("all distinct", rows, rows, rows / 15),
    )
)
_BUDGET = Budget.of(TWO_CORES, threads=2)

Points = Sequence[Mapping[str, Any]]


def page(results: Mapping[str, Any], benchmarks: Mapping[str, Any], template: str) -> str:
    """Return the page as Markdown."""
    points, coefficients = results["points"], results["coefficients"]
    large = [{**job["detail"]["point"], "date": job["date"]} for job in benchmarks["jobs"] if "point" in job["detail"]]
    checks = [{**point, "date": results["date"]} for point in points if point["use"] == "check"]
    checks += [point for point in large if point["method"] == "mondrian"]
    measured = Measurements(coefficients, results["volumes"], one_core(points), SPARK)
    expectations = [expected(table, cluster, measured) for table in TABLES for cluster in (SMALL, LARGE)]
    return Template(template).substitute(
        machine=_machine(results),
        rows=_table(of_series(points, "rows"), coefficients),
        cells=_table(of_series(points, "cells"), coefficients),
        quasi=_table(of_series(points, "quasi"), coefficients),
        regions=_regions(of_series(points, "regions")),
        cores=_cores(points),
        methods=_methods(of_series(points, "methods")),
        coefficients=_coefficients(coefficients),
        fit=_fit(points, coefficients),
        checks=_checks(checks, coefficients),
        volumes=_volumes(results["volumes"]),
        small=SMALL.stated,
        large=LARGE.stated,
        spark=f"{SPARK:g}",
        few=f"{FEW_CELLS / 1e6:g} million",
        expectations="\n".join(_expectation(one) for one in expectations),
        shares="\n".join(_shares(one) for one in expectations if one.cluster is LARGE),
        alone=_alone(coefficients),
        budget=TWO_CORES,
        regions_kept=MOST_FILES,
        region_rows=rows_text(float(f"{_BUDGET.region_rows:.2g}")),
        most_rows=rows_text(float(f"{_BUDGET.region_rows * MOST_FILES:.2g}")),
        gains="\n".join(gains(one) for one in expectations if one.cluster is SMALL),
    )


def one_core(points: Points) -> dict[str, float]:
    """Return how many times longer each step takes on one core than on two; between 1 and 2, whatever noise says."""
    largest = max(point["rows"] for point in of_series(points, "cores"))
    pair = {point["one_core"]: point for point in of_series(points, "cores") if point["rows"] == largest}
    return {step: min(max(pair[True]["seconds"][step] / pair[False]["seconds"][step], 1.0), 2.0) for step in STEPS}


def _machine(results: Mapping[str, Any]) -> str:
    where = results["machine"]
    stated = f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB; {results['date']}"
    return (
        stated
        if results["share"] == 1
        else f"{stated}; a trial with {results['share']:.0%} of the rows, to be measured again"
    )


def _table(points: Points, coefficients: Coefficients) -> str:
    """Return a line for each point: its sizes, its steps, all of it, and what the model says."""
    ordered = sorted(points, key=lambda point: (point["quasi"], point["rows"], point["cells"]))
    return "\n".join(
        line(
            rows_text(point["rows"]),
            count_text(point["cells"]),
            point["quasi"],
            *(f"{point['seconds'][step]:.2f}" for step in STEPS),
            f"**{point['whole']:.2f}**",
            f"{predicted_whole(coefficients, point):.2f}",
            f"{point['peak_mib']:,} MiB",
        )
        for point in ordered
    )


def _regions(points: Points) -> str:
    return "\n".join(
        line(
            rows_text(point["rows"]),
            point["memory"],
            point["regions"],
            *(f"{point['seconds'][step]:.2f}" for step in STEPS),
            f"**{point['whole']:.2f}**",
            f"{point['peak_mib']:,} MiB",
        )
        for point in sorted(points, key=lambda point: point["rows"])
    )


def _cores(points: Points) -> str:
    ordered = sorted(of_series(points, "cores"), key=lambda point: (point["rows"], point["one_core"]))
    return "\n".join(
        line(
            rows_text(point["rows"]),
            "one" if point["one_core"] else "two",
            *(f"{point['seconds'][step]:.2f}" for step in STEPS),
            f"**{point['whole']:.2f}**",
        )
        for point in ordered
    )


def _methods(points: Points) -> str:
    names = dict.fromkeys(point["method"] for point in points)
    found = []
    for name in names:
        own = [point for point in points if point["method"] == name]
        stated = "; ".join(f"{rows_text(point['rows'])}: {point['whole']:.1f} s" for point in own)
        plans = "; ".join(f"{point['seconds']['plan']:.1f} s" for point in own)
        found.append(line(f"`{name}`", stated, plans))
    return "\n".join(found)


def _coefficients(coefficients: Coefficients) -> str:
    """Return a line for each step: what it costs once, and each term in small_time."""
    found = []
    for kind in (IN_MEMORY, BY_REGIONS):
        for step, terms in coefficients[kind].items():
            per = ", ".join(f"{small_time(value)} {term}" for term, value in terms.items() if term != "once")
            found.append(line(kind, "start and the rest" if step == "rest" else step, f"{terms['once']:.2f} s", per))
    return "\n".join(found)


def _fit(points: Points, coefficients: Coefficients) -> str:
    errors = [abs(error(coefficients, point)) for point in points if point["use"] == "fit"]
    middle = sorted(errors)[len(errors) // 2]
    return f"{len(errors)} runs, half of them within {middle:.0%}, the worst off by {max(errors):.0%}"


def _checks(points: Iterable[Mapping[str, Any]], coefficients: Coefficients) -> str:
    return "\n".join(
        line(
            f"{rows_text(point['rows'])} of {point['table']}, {point['quasi']} quasi",
            count_text(point["cells"]),
            "by regions" if point["regions"] else "in memory",
            f"{predicted_whole(coefficients, point):.1f} s",
            f"{point['whole']:.1f} s",
            f"{error(coefficients, point):+.0%}",
            point["date"],
        )
        for point in points
    )


def _volumes(volumes: Mapping[str, float]) -> str:
    stated = {
        "count": ("cells of a partition, per cell", "values of a partition, per partition"),
        "plan, sent to all": ("cells in memory, per cell", "class of a cell, per cell", "labels of classes, per class"),
        "plan by regions": ("row on its way to a region, per row",),
        "apply": ("published row and its key, per row",),
        "verify": ("class number in the witness, per row",),
        "files": ("source file, per row", "released file, per row"),
    }
    return "\n".join(
        line(step, name.rpartition(", per ")[0], f"{bytes_text(volumes[name])} per {name.rpartition(', per ')[2]}")
        for step, names in stated.items()
        for name in names
    )


def _expectation(one: Expectation) -> str:
    return line(
        rows_text(one.table.rows),
        one.table.name,
        f"{one.cluster.all_cores:,}",
        *(duration(one.steps[step].whole) for step in ("count", "plan", "apply", "verify")),
        f"**{duration(one.whole)}**",
        one.bottleneck,
        duration(one.files),
    )


def _alone(coefficients: Coefficients) -> str:
    """Return how long a billion rows are expected to take on the machine of the measurements, by regions."""
    sizes = Sizes(1e9, 1e9, 1e9 / 15, 6, 8)
    return duration(sum(predicted(coefficients, BY_REGIONS, sizes).values()))


def _shares(one: Expectation) -> str:
    parts = {part: sum(getattr(step, part) for step in one.steps.values()) for part in ("workers", "network", "disk")}
    return line(
        rows_text(one.table.rows),
        one.table.name,
        *(f"{value / one.whole:.0%}" for value in (*parts.values(), one.serial)),
    )
