"""Run all benchmarks, or those named: ``python -m bench [--record] [start] [adult] [large] [scaling] ...``."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.jobs import GROUPS, JOBS, PEERED, SIZED
from bench.measuring import REPEATS, Measured, machine
from bench.page import page, whole_table
from bench.peers import PLACEHOLDERS, Peer
from bench.scaling import recording

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results" / "latest.json"
NOTES = ROOT / "bench" / "notes.md"
SCALING = "scaling"  # has results and a page of its own
PAGES = "pages"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write results and pages; a partial run leaves all as they are, unless it is recorded."""
    asked = _asked(arguments)
    names = [one for name in asked.names for one in GROUPS.get(name, (name,))]
    local = ROOT.parent / "shared" / "data"
    if local.is_dir():
        os.environ.setdefault("SHOAL_DATA", str(local))
    wanted = [name for name in names if name not in (SCALING, PAGES)]
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as temporary:
        folder = Path(temporary)
        measured = list(_measured(wanted if names else [*JOBS, *PEERED, *SIZED], folder, asked))
        points = recording.measured(folder, asked.share) if SCALING in names or not names else None
    recorded = asked.record or not names
    if recorded and measured:
        _record(measured, partial=bool(names))
    if recorded and points is not None:
        recording.record(points)
    if recorded or PAGES in names:
        write_pages()


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    known = [*JOBS, *PEERED, *SIZED, *GROUPS, SCALING, PAGES]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="job", help=f"all without any: {', '.join(known)}")
    parser.add_argument("--record", action="store_true", help="write what was measured to results and pages")
    parser.add_argument("--share", type=float, default=1.0, help="of the rows of large, spark and scaling, to try them")
    parser.add_argument("--tables", type=Path, help="folder where the tables of large and spark are made and kept")
    stated = "; ".join(f"{{{name}}}: {meaning}" for name, meaning in PLACEHOLDERS.items())
    what = f"a command to run by turns with shoal's on the tables of {', '.join(PEERED)}; may be repeated. {stated}"
    parser.add_argument("--peer", type=Peer.parse, action="append", default=[], metavar='NAME="command"', help=what)
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in known]
    if unknown:
        parser.error(f"there is no job {unknown[0]}; there are {', '.join(known)}")
    if asked.peer and asked.names and not set(asked.names) & PEERED.keys():
        parser.error(f"peers run beside {', '.join(PEERED)}, which was not asked for")
    return asked


def _measured(names: Sequence[str], folder: Path, asked: argparse.Namespace) -> Iterator[Measured]:
    tables = asked.tables or folder
    tables.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name in SIZED:
            lines = SIZED[name](tables, asked.share)
        else:
            lines = PEERED[name](folder, asked.peer) if name in PEERED else JOBS[name](folder)
        for line in lines:
            memory = "" if line.peak_mib is None else f", {line.peak_mib:,.0f} MiB"
            if line.median is None:
                print(f"{line.job}: failed", flush=True)
            else:
                spread = f"{min(line.seconds):.3f} to {max(line.seconds):.3f}"
                print(f"{line.job}: {line.median:.3f} ({spread}{memory}); at most {line.limit}", flush=True)
            yield line


def _record(measured: Sequence[Measured], *, partial: bool) -> None:
    earlier = json.loads(RESULTS.read_text())
    lines = [line.as_dict(datetime.date.today().isoformat()) for line in measured]
    jobs = _among(earlier["jobs"], lines) if partial else lines
    results = {**earlier, "repeats": REPEATS, "machine": machine(), "jobs": jobs}
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")


def write_pages() -> None:
    """Write the pages from the recorded results."""
    results = json.loads(RESULTS.read_text())
    (ROOT / "docs" / "benchmarks.md").write_text(page(results, NOTES.read_text()))
    RESULTS.with_name("benchmarks.md").write_text(whole_table(results))
    recording.write_page(results)


def _among(earlier: list[dict[str, Any]], lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all lines: new ones in the places of earlier ones of the same job, or at the end."""
    by_job = {line["job"]: line for line in [*earlier, *lines]}
    return list(by_job.values())


if __name__ == "__main__":
    main()
