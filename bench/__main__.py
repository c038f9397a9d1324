"""Run all benchmarks, or those named: ``python -m bench [--record] [start] [adult] [sweep] ...``."""

from __future__ import annotations

import datetime
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.jobs import JOBS
from bench.measuring import REPEATS, Measured, machine
from bench.page import page

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results" / "latest.json"
NOTES = ROOT / "bench" / "notes.md"


def main(names: list[str]) -> None:
    """Measure, print, and write results and page; a partial run leaves both as they are, unless it is recorded."""
    record = "--record" in names
    names = [name for name in names if name != "--record"]
    local = ROOT.parent / "shared" / "data"
    if local.is_dir():
        os.environ.setdefault("SHOAL_DATA", str(local))
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        for name in names or JOBS:
            for line in JOBS[name](Path(folder)):
                measured.append(line)
                memory = "" if line.peak_mib is None else f", {line.peak_mib:,.0f} MiB"
                spread = f"{min(line.seconds):.3f} to {max(line.seconds):.3f}"
                print(f"{line.job}: {line.median:.3f} ({spread}{memory}); at most {line.limit}", flush=True)
    if names and not record:
        return
    lines = [line.as_dict() for line in measured]
    results = {
        "date": datetime.date.today().isoformat(),
        "repeats": REPEATS,
        "machine": machine(),
        "jobs": _among(json.loads(RESULTS.read_text())["jobs"], lines) if names else lines,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    (ROOT / "docs" / "benchmarks.md").write_text(page(results, NOTES.read_text()))


def _among(earlier: list[dict[str, Any]], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all lines: new ones in the places of earlier ones of the same job, or at the end."""
    by_job = {line["job"]: line for line in [*earlier, *lines]}
    return list(by_job.values())


if __name__ == "__main__":
    main(sys.argv[1:])
