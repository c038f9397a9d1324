"""A driver of its own process: publishes a file on a cluster and, if asked, loses a worker while rows are rewritten.

Run as ``python driving.py MASTER DATA POLICY OUT [GROUP]``; GROUP is the process group of the worker to end.
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
    """Ends a group of processes soon after the rewriting has begun."""

    def __init__(self, group: int | None) -> None:
        self._group = group

    @contextlib.contextmanager
    def step(self, title: str, total: int | None = None, unit: str = "rows") -> Iterator[Any]:
        if title == "rewriting" and self._group is not None:
            threading.Timer(0.3, os.killpg, [self._group, signal.SIGKILL]).start()
        yield self

    def advance(self, amount: int) -> None:
        pass


def main() -> None:
    import shoal
    from shoal.errors import ShoalError

    master, data, policy, out, *group = sys.argv[1:]
    progress = LosingAWorker(int(group[0]) if group else None)
    try:
        shoal.anonymize(data, policy, out=out, engine="spark", master=master, progress=progress)
    except ShoalError as error:
        print(error)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
