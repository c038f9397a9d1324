"""Rows in random order, with memory for a part of them only.

Each row goes to a random one of several heaps; heaps beyond memory wait in anonymous temporary files, which
vanish with the process however it ends. Then each heap is put in random order by itself. Both steps together
make every order of all rows equally likely.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from shoal.core.errors import UsageError
from shoal.core.randomness import Chance

ROWS_PER_HEAP = 1 << 20
MOST_HEAPS = 400  # files that are open at a time, of the 1,024 that a process may usually have


class Shuffler:
    """Takes batches in any order and gives all their rows back in random order."""

    def __init__(self, n_rows: int, chance: Chance, folder: Path | None, rows_per_heap: int | None = None) -> None:
        """Expect about *n_rows* rows; *folder* is where heaps wait (None: the system's temporary folder)."""
        self._chance = chance
        self._folder = folder
        self._n_heaps = min(max(-(-n_rows // (rows_per_heap or ROWS_PER_HEAP)), 1), MOST_HEAPS)
        self._in_memory: list[pa.RecordBatch] = []
        self._files: list[IO[bytes]] = []
        self._writers: list[pa.RecordBatchStreamWriter] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take the rows of one batch; its columns must have plain types, the same in all batches."""
        if self._n_heaps == 1:
            self._in_memory.append(batch)
            return
        with kept_in_files():
            if not self._writers:
                for _ in range(self._n_heaps):
                    file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  closed in __exit__
                    self._files.append(file)
                    self._writers.append(pa.ipc.new_stream(file, batch.schema))
            half_keys = self._chance.keys(-(-batch.num_rows // 2)).view(np.uint32)[: batch.num_rows]
            heap = (half_keys * np.uint64(self._n_heaps) >> np.uint64(32)).astype(np.uint16)
            order = np.argsort(heap, kind="stable")
            edges = np.searchsorted(heap[order], np.arange(self._n_heaps + 1))
            sorted_rows = batch.take(pa.array(order))
            for number, writer in enumerate(self._writers):
                writer.write_batch(sorted_rows.slice(edges[number], edges[number + 1] - edges[number]))

    def heaps(self) -> Iterator[pa.Table]:
        """Yield all rows, each heap in random order."""
        if self._n_heaps == 1:
            rows, self._in_memory = pa.Table.from_batches(self._in_memory), []
            yield self._shuffled(rows)
            return
        with kept_in_files():
            for writer in self._writers:
                writer.close()
        for file in self._files:
            with kept_in_files():
                file.flush()
                file.seek(0)
                with pa.ipc.open_stream(file) as reader:
                    rows = reader.read_all()
                file.close()
            if rows.num_rows:
                yield self._shuffled(rows)

    def __enter__(self) -> Shuffler:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):  # what did not fit on the disk does not fit now; the file goes anyway
                file.close()

    def _shuffled(self, rows: pa.Table) -> pa.Table:
        return rows.combine_chunks().take(pa.array(self._chance.order(rows.num_rows)))


@contextlib.contextmanager
def kept_in_files() -> Iterator[None]:
    """Turn a failure of the temporary files into a message."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "input or output error"
        raise UsageError(f"cannot keep rows in a temporary file: {reason}; nothing was published") from None
