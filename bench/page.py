"""The page docs/benchmarks.md and the table of all measurements, written from the newest results."""

from __future__ import annotations

from typing import Any

HEAD = """# Benchmarks

`make bench` writes these tables from `bench/results/latest.json`. [All
measurements](../bench/results/benchmarks.md) are in the repository.

{machine}

| job | median | least to most | peak memory | limit | met | measured |
|---|---|---|---|---|---|---|
{rows}

## Information loss

The normalized certainty penalty (NCP) is the mean width of published values, from 0 (unchanged) to
1. The columns *levels* and *ranges* are Mondrian's.

{penalties}

{notes}"""
WHOLE = """# All measurements

These tables are written by `make bench` from `latest.json`. The page on [benchmarks](../../docs/benchmarks.md) explains
how they are measured.

{machine}

| job | median | least to most | peak memory | limit | met | measured |
|---|---|---|---|---|---|---|
{rows}

## The slowest jobs by step, before and after the last changes

Commands of both versions alternated on one machine. The steps, in seconds, are those of the fastest run. *Rest* is the
start, the findings and the report. `python -m bench.profiling` adds a line.

| job | | count | plan | apply | verify | rest | whole, least to most | peak memory | measured |
|---|---|---|---|---|---|---|---|---|---|
{profiles}

## Information loss

Normalized certainty penalty. Stays have a drawn hierarchy for every column.

{penalties}
"""
MAIN = (  # jobs of the page; the others are in the whole table
    "`shoal --help`",
    "whole Adult command (incognito, k = 5) against importing numpy, pyarrow, numba, pydantic and typer",
    "first run: demo",
    "Adult, k = 10 and entropy 4: whole command",
    "Adult, k = 10 by anonypy 0.2.1 (peer)",
    "incognito, 30,162 rows of Adult, 8 quasi, k = 5: whole command",
    "incognito, 3 million perturbed rows of Adult, CSV, k = 5: whole command",
    "sweep, Adult, tau = 0.25, l = 6, improve: in process, verified",
    "sweep, 1 million stays, tau = 0.5, l = 3: whole command",
    "slicing, 1,000,000 perturbed rows of Adult, 7 attributes, c = 2: whole command",
    "anatomy, 1 million perturbed rows of Adult, l = 5: in process, verified",
    "local suppression, 1 million stays, k = 5: in process, verified",
    "microaggregation, 1,000,000 rows of six quasi attributes: whole command",
    "Adult, synthetic, epsilon 1: in process, verified",
    "1 million stays: whole command, verified",
    "10 million stays: whole command, verified",
    "10 million stays, Spark local[2]: whole command, verified",
    "85 million perturbed rows of Adult, 8 quasi, k = 50, Mondrian: whole command, verified",
    "100 million stays, 6 quasi, 1 sensitive, Mondrian: whole command, verified",
    "all attacks, 2,000 targets, Adult, Mondrian, simple 3",
    "compare all techniques, Adult, 2,000 targets",
)
STEPS = ("count", "plan", "apply", "verify", "rest")


def page(results: dict[str, Any], notes: str) -> str:
    """Return the page of the documentation as Markdown."""
    by_name = {job["job"]: job for job in results["jobs"]}
    return HEAD.format(
        machine=_machine(results),
        rows="\n".join(_row(by_name[name]) for name in MAIN if name in by_name),
        penalties="\n".join(_penalties([job for job in _lossy(results) if job["detail"]["of"].startswith("Adult")])),
        notes=notes,
    )


def whole_table(results: dict[str, Any]) -> str:
    """Return all measurements as Markdown."""
    return WHOLE.format(
        machine=_machine(results),
        rows="\n".join(_row(job) for job in results["jobs"] if "ncp" not in job["detail"]),
        profiles="\n".join(line for one in results["profiles"] for line in _profile(one)),
        penalties="\n".join(_penalties(_lossy(results))),
    )


def _lossy(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the jobs that measure information loss."""
    return [job for job in results["jobs"] if "ncp" in job["detail"]]


def _machine(results: dict[str, Any]) -> str:
    where = results["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in where["packages"].items())
    return (
        f"Medians of {results['repeats']} runs (one to three for long jobs) on: "
        f"{where['cpu']}, {where['cores']} cores, "
        f"{where['memory_gib']} GiB, {where['system']}, Python {where['python']}, {packages}."
    )


def _profile(one: dict[str, Any]) -> list[str]:
    """Return a line for the earlier version and one for this."""
    lines = []
    for which in ("before", "after"):
        own = one[which]
        steps = " | ".join(f"{own['seconds'][step]:.2f}" for step in STEPS)
        whole = f"{own['whole']:.2f} to {own['most']:.2f}"
        lines.append(f"| {one['job']} | {which} | {steps} | {whole} | {own['peak_mib']:,} MiB | {one['date']} |")
    return lines


def _penalties(jobs: list[dict[str, Any]]) -> list[str]:
    """Return a table with a line for each requirement and a column for each method."""
    columns = list(dict.fromkeys(job["detail"]["column"] for job in jobs))
    lines = [f"| | {' | '.join(columns)} | at most | met |", "|---" * (len(columns) + 3) + "|"]
    for asked in dict.fromkeys(job["detail"]["of"] for job in jobs):
        own = {job["detail"]["column"]: job for job in jobs if job["detail"]["of"] == asked}
        cells = [f"{own[column]['detail']['ncp']:.4f}" for column in columns]
        limit = next((job for job in own.values() if job["limit"] != "-"), None)
        met = ["-", "-"] if limit is None else [limit["limit"], "yes" if limit["within"] else "**no**"]
        lines.append(f"| {' | '.join([asked, *cells, *met])} |")
    return lines


def _row(job: dict[str, Any]) -> str:
    if job["median"] is None:
        return f"| {job['job']} | failed | - | - | - | - | {job['date']} |"
    ratio = job["detail"].get("ratio")
    unit = "x" if "ratio, not seconds" in job["job"] else " s"
    median = f"{_short(job['median'])}{unit}" + (f" ({ratio:.2f}x)" if ratio else "")
    peak = "-" if job["peak_mib"] is None else f"{job['peak_mib']:,.0f} MiB"
    met = "-" if job["limit"] == "-" else "yes" if job["within"] else "**no**"
    spread = f"{_short(job['least'])} to {_short(job['most'])}"
    beside = job["detail"].get("beside")
    title = f"{job['job']} (quoted, not measured: {beside})" if beside else job["job"]
    return f"| {title} | {median} | {spread} | {peak} | {job['limit']} | {met} | {job['date']} |"


def _short(value: float) -> str:
    return f"{value:.3f}" if value < 1 else f"{value:.2f}"
