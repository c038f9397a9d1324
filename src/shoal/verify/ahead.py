"""Work on several batches at a time, and their results in the order of the batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from threading import Lock
from typing import TypeVar

Batch = TypeVar("Batch")
Result = TypeVar("Result")
WORKERS = max(2, min(8, os.cpu_count() or 1))


def prepared(
    batches: Iterator[Batch], prepare: Callable[[Batch], Result], threads: int | None = None
) -> Iterator[Result]:
    """Yield prepare(batch) of every batch in turn; reading and preparing run ahead in other threads.

    At most one batch more than there are threads is held, so memory stays bounded; without a number there are WORKERS.

    >>> list(prepared(iter([1, 2, 3]), lambda number: number * number))
    [1, 4, 9]
    """
    turn, numbers, held = Lock(), count(), ((batch,) for batch in batches)

    def task() -> tuple[int, tuple[Result] | None]:
        with turn:
            number, batch = next(numbers), next(held, None)
        return number, None if batch is None else (prepare(batch[0]),)

    done: dict[int, tuple[Result] | None] = {}
    n_threads = threads or WORKERS
    with ThreadPoolExecutor(n_threads) as pool:
        running: list[Future[tuple[int, tuple[Result] | None]]] = [pool.submit(task) for _ in range(n_threads + 1)]
        for wanted in count():
            while wanted not in done:
                number, result = running.pop(0).result()
                done[number] = result
            found = done.pop(wanted)
            if found is None:
                return
            yield found[0]
            del found
            running.append(pool.submit(task))
