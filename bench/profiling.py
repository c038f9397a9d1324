"""Where the time of a command goes, before and after: two installed commands run by turns on one table.

``python -m bench.profiling "10 million stays, Mondrian" stays.parquet policy.json --before ../old/.venv/bin/shoal``

With ``--in-process``, ``shoal.anonymize`` is called by the Python beside each command, once before it counts.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.__main__ import RESULTS, write_pages
from bench.measuring import Finished, shoal_command
from bench.running import Ran, anonymized

_CALLS = """
import json, resource, sys, time
import shoal
shoal.anonymize(sys.argv[1], sys.argv[2], seed=1)
began = time.perf_counter()
evidence = shoal.anonymize(sys.argv[1], sys.argv[2], seed=1).evidence
seconds, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([seconds, peak, {"seconds": evidence["seconds"]}]))
"""


def call(source: Path, policy: Path, shoal: Path) -> Ran:
    """Return what the second of two calls in one process took."""
    given = [shoal.with_name("python"), "-c", _CALLS, source, policy]
    seconds, peak_mib, evidence = json.loads(subprocess.run(given, check=True, capture_output=True).stdout)
    return Ran(Finished(seconds, peak_mib), evidence)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both by turns, keep the fastest run of each, and put its steps into results and page."""
    parser = argparse.ArgumentParser(prog="python -m bench.profiling", description=__doc__)
    parser.add_argument("title", help="what the table and the method are, for people")
    parser.add_argument("source", type=Path, help="the table")
    parser.add_argument("policy", type=Path, help="the policy, JSON")
    parser.add_argument("--before", type=Path, required=True, help="the command of the earlier version")
    parser.add_argument("--after", type=Path, default=shoal_command(), help="that of this version, unless given")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--in-process", action="store_true", help="call the package instead of the command")
    asked = parser.parse_args(arguments)
    policy = json.loads(asked.policy.read_text())
    found: dict[str, Any] = {"job": asked.title, "date": datetime.date.today().isoformat()}
    with tempfile.TemporaryDirectory(prefix="shoal-profile-") as temporary:
        runs: dict[str, list[Ran]] = {"before": [], "after": []}
        for _ in range(asked.turns):
            for which, own in runs.items():
                shoal = getattr(asked, which)
                if asked.in_process:
                    own.append(call(asked.source, asked.policy, shoal))
                else:
                    own.append(anonymized(asked.source, policy, Path(temporary), shoal=shoal))
    for which, own in runs.items():
        best = min(own, key=lambda run: run.finished.seconds)
        steps = {step: round(seconds, 2) for step, seconds in best.steps.items()}
        whole, most = (round(end(run.finished.seconds for run in own), 2) for end in (min, max))
        found[which] = {"seconds": steps, "whole": whole, "most": most, "peak_mib": round(best.finished.peak_mib)}
        print(f"{asked.title}, {which}: {whole} to {most} s, {found[which]['peak_mib']:,} MiB, {steps}", flush=True)
    results = json.loads(RESULTS.read_text())
    results["profiles"] = [one for one in results["profiles"] if one["job"] != asked.title] + [found]
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    write_pages()


if __name__ == "__main__":
    main()
