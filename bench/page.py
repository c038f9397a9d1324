"""The page docs/benchmarks.md, written from the newest results."""

from __future__ import annotations

from typing import Any

HEAD = """# Benchmarks

Measured by `make bench` on the machine named below, each line on its own day: medians of {repeats} runs (one to three
where they take long) with the least and the most, whole commands as processes of their own, peak memory as the system
reports it for that process. The demo data are generated with fixed seeds; Adult is read from a local folder. Every
release counted here was verified with its source before it was put in place, and that time is included. Timings never
decide a test.

{machine}

| job | median | least to most | peak memory | at most | met | measured |
|---|---|---|---|---|---|---|
{rows}

## The slowest jobs, before and after

Whole commands of the earlier version and of this one, by turns on the same machine; the steps are those of the fastest
run, in seconds. *Rest* is the start, what is said about the release, and the report. `python -m bench.profiling` adds a
line.

| job | | count | plan | apply | verify | rest | whole, least to most | peak memory | measured |
|---|---|---|---|---|---|---|---|---|---|
{profiles}

## Information loss

Normalized certainty penalty (NCP) by method: the mean width of published values, from 0 (as they were) to 1. Levels
and ranges are Mondrian's; stays have a drawn hierarchy for every column.

{penalties}

## Notes

{notes}"""
STEPS = ("count", "plan", "apply", "verify", "rest")


def page(results: dict[str, Any], notes: str) -> str:
    """Return the page as Markdown."""
    where = results["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in where["packages"].items())
    machine = (
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB, {where['system']}, "
        f"Python {where['python']}, {packages}."
    )
    jobs = [job for job in results["jobs"] if "ncp" not in job["detail"]]
    return HEAD.format(
        repeats=results["repeats"],
        machine=machine,
        rows="\n".join(_row(job) for job in jobs),
        profiles="\n".join(line for one in results["profiles"] for line in _profile(one)),
        penalties="\n".join(_penalties([job for job in results["jobs"] if "ncp" in job["detail"]])),
        notes=notes,
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
