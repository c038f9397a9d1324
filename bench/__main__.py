"""Run all benchmarks, or those named: ``python -m bench [start] [adult] [sweep] ...``."""

from __future__ import annotations

import datetime
import json
import os
import sys
import tempfile
from pathlib import Path

from bench.jobs import JOBS
from bench.measuring import REPEATS, Measured, machine
from bench.page import page

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results" / "latest.json"
NOTES = ROOT / "bench" / "notes.md"


def main(names: list[str]) -> None:
    """Measure, print, and write results and page; a partial run leaves both as they are."""
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
    if names:
        return
    results = {
        "date": datetime.date.today().isoformat(),
        "repeats": REPEATS,
        "machine": machine(),
        "jobs": [line.as_dict() for line in measured],
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    (ROOT / "docs" / "benchmarks.md").write_text(page(results, NOTES.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
