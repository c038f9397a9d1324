"""Rows that wait for their turn in a temporary file, which has no name and vanishes with the process."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.verify.kernels import kernel

_WORD = 8  # bytes
_TOGETHER = 1 << 18  # rows that are handed out at a time


@kernel
def sorted_by_parts(words: KeyArray, parts: CodeArray, n_parts: int) -> tuple[KeyArray, IntArray]:
    """Return (n_rows, n_words) rows part by part, and (n_parts + 1,) where each part begins."""
    n_words, n = words.shape
    first = np.zeros(n_parts + 1, dtype=np.int64)
    for i in range(n):
        first[parts[i] + 1] += 1
    for part in range(n_parts):
        first[part + 1] += first[part]
    free = first.copy()
    out = np.empty((n, n_words), dtype=np.uint64)
    for i in range(n):
        place = free[parts[i]]
        free[parts[i]] = place + 1
        for w in range(n_words):
            out[place, w] = words[w, i]
    return out, first


class PartsFile:
    """Rows of all parts in one file: every batch that was written has its rows part by part."""

    def __init__(self, n_words: int, n_parts: int, folder: Path | None) -> None:
        """Open a file in *folder*, or in the system's temporary folder if that is None or cannot be written."""
        self._n_words = n_words
        self._n_parts = n_parts
        self._file = _opened(folder)
        self._offsets: list[int] = []  # of every batch, in rows
        self._firsts: list[IntArray] = []
        self.n_rows = 0

    def write(self, rows: KeyArray, first: IntArray) -> None:
        """Take a batch that is sorted by parts."""
        with kept():
            self._file.write(rows.data)
        self._offsets.append(self.n_rows)
        self._firsts.append(first)
        self.n_rows += len(rows)

    def finish(self) -> None:
        """Say that no rows come any more."""
        with kept():
            self._file.flush()

    def counts(self) -> IntArray:
        """Return (n_parts,) how many rows each part has."""
        total = np.zeros(self._n_parts + 1, dtype=np.int64)
        for first in self._firsts:
            total += first
        return np.diff(total)

    def read(self, begin: int, end: int) -> Iterator[KeyArray]:
        """Yield (n_rows, n_words) the rows of the parts from *begin* to before *end*; several threads may read."""
        waiting: list[KeyArray] = []
        held = 0
        for offset, first in zip(self._offsets, self._firsts, strict=True):
            if first[end] > first[begin]:
                waiting.append(self._rows(offset + int(first[begin]), int(first[end] - first[begin])))
                held += len(waiting[-1])
            if held >= _TOGETHER:
                yield np.concatenate(waiting)
                waiting, held = [], 0
        if waiting:
            yield np.concatenate(waiting)

    def _rows(self, offset: int, n_rows: int) -> KeyArray:
        size = self._n_words * _WORD
        with kept():
            data = os.pread(self._file.fileno(), n_rows * size, offset * size)
        if len(data) != n_rows * size:
            raise UsageError("cannot keep rows in a temporary file: it was cut short")
        return np.frombuffer(data, dtype=np.uint64).reshape(n_rows, self._n_words)

    def close(self) -> None:
        """Let the file go."""
        with contextlib.suppress(OSError):  # what did not fit on the disk does not fit now
            self._file.close()


def _opened(folder: Path | None) -> IO[bytes]:
    with kept():
        if folder is not None:
            with contextlib.suppress(PermissionError, FileNotFoundError):
                return tempfile.TemporaryFile(dir=folder)
        return tempfile.TemporaryFile()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Turn a failure of temporary files into a message."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or "input or output error"
        raise UsageError(
            f"cannot keep rows in a temporary file: {reason}; give more memory, or make room on the disk"
        ) from None
