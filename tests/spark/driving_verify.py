"""A driver of its own process: verifies a release on a cluster and loses a worker on the way.

Run as ``python driving_verify.py MASTER DATA RELEASE GROUP``; GROUP is the process group of the worker that is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class LosingAWorker:
    """Ends a group of processes soon after regions are being checked."""

    def __init__(self, group: int) -> None:
        self._group = group

    @contextlib.contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Any]:
        if title == "checking regions":
            threading.Timer(0.5, os.killpg, [self._group, signal.SIGKILL]).start()
        yield self

    def advance(self, amount: int) -> None:
        pass


def main() -> None:
    from shoal.sources.spark import files
    from shoal.spark import open_spark_files, spark_session
    from shoal.verify import verify_folder
    from shoal.verify.spark import checking

    files.FEWEST_ROWS, checking.ROWS_PER_REGION = 500, 300  # several partitions and regions of few rows
    master, data, release, group = sys.argv[1:]
    session = spark_session(master)
    source = open_spark_files(Path(data), session)
    found = verify_folder(Path(release), source=source, spark=session, progress=LosingAWorker(int(group)))
    print(json.dumps(found.as_dict()))


if __name__ == "__main__":
    main()
