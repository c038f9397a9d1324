"""A driver of its own process: publishes a table on a cluster and, if asked, loses a worker on the way.

Run as ``python driving.py MASTER DATA POLICY OUT KIND GROUP WHEN``: KIND is "files" or "frame"; GROUP is the process
group of the worker to end, WHEN "early" (soon after the rewriting has begun) or "late" (when rows have been rewritten).
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any


class LosingAWorker:
    """Ends a group of processes while rows are rewritten, or when they have been."""

    def __init__(self, group: int, when: str) -> None:
        self._group = group
        self._when = when
        self._rewriting = False

    @contextlib.contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Any]:
        self._rewriting = title in ("rewriting", "writing")  # of files, rows are written as Spark rewrites them
        if self._rewriting and self._when == "early":
            threading.Timer(0.3, os.killpg, [self._group, signal.SIGKILL]).start()
            self._when = "done"
        yield self

    def advance(self, amount: int) -> None:
        if self._rewriting and self._when == "late":
            os.killpg(self._group, signal.SIGKILL)
            self._when = "done"


def main() -> None:
    import shoal
    from shoal.core.errors import ShoalError
    from shoal.engines.spark import rewriting
    from shoal.sources.spark import source as files
    from shoal.sources.spark.session import spark_session

    files.FEWEST_ROWS = rewriting.ROWS_PER_HEAP = 500  # several partitions of few rows
    master, path, policy, out, kind, group, when = sys.argv[1:]
    data: Any = spark_session(master).read.parquet(path) if kind == "frame" else path
    more: dict[str, Any] = {} if kind == "frame" else {"engine": "spark", "master": master}
    try:
        shoal.anonymize(data, policy, out=out, progress=LosingAWorker(int(group), when), **more)
    except ShoalError as error:
        print(error)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
