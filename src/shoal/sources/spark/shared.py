"""What is sent to all tasks and taken out of its parcel once in each worker, not once for each task."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_opened: dict[str, object] = {}  # the last parcel that this process has opened


class Shared(Generic[T]):
    """A value that goes with the work on all partitions."""

    def __init__(self, value: T) -> None:
        self.value = value
        self._token = secrets.token_hex(16)
        self._content: bytes | None = None

    def __reduce__(self) -> tuple[Callable[[str, bytes], Shared[T]], tuple[str, bytes]]:
        """Pack the value once, for however many steps it goes with."""
        if self._content is None:
            self._content = pickle.dumps(self.value, protocol=5)
        return _taken_out, (self._token, self._content)


def _taken_out(token: str, content: bytes) -> Shared[T]:
    found = _opened.get(token)
    if not isinstance(found, Shared):
        found = Shared(pickle.loads(content))  # noqa: S301  what the driver of this run has packed
        _opened.clear()
        _opened[token] = found
    return found
