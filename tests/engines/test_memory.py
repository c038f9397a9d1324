"""Giving free memory back."""

from __future__ import annotations

import ctypes

import pytest

from shoal.engines.local import release_memory


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_libraries_that_cannot_give_memory_back_are_left_alone(monkeypatch: pytest.MonkeyPatch, error: type) -> None:
    asked = []

    def fail(name: object) -> None:
        asked.append(name)
        raise error

    monkeypatch.setattr(ctypes, "CDLL", fail)
    release_memory()
    assert asked == [None]
