"""Compiled code on disk, which another version of the package may have written."""

from __future__ import annotations

import pickle
from pathlib import Path

import numba
import numpy as np
import pytest

from shoal.core.kernels import kernel


def add_one(number: int) -> int:
    return number + 1


def test_code_of_another_version_is_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index names the types of arguments, and a class may have moved to another module since."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert kernel(add_one)(1) == 2
    (index,) = tmp_path.rglob("*.nbi")
    index.write_bytes(pickle.dumps(numba.__version__) + b"cshoal.module_that_was_moved\nThing\n.")
    assert kernel(add_one)(2) == 3
    again = kernel(add_one)
    assert again(3) == 4
    assert sum(again.stats.cache_hits.values()) == 1


def test_code_for_other_arguments_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that compile for different arguments at once may each give their code the same name."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    for number in (1, 0.5):
        assert kernel(add_one)(number) == number + 1
    whole, real = sorted(tmp_path.rglob("*.nbc"))
    whole.write_bytes(real.read_bytes())
    again = kernel(add_one)
    assert again(np.int64(3)) == 4
    assert not sum(again.stats.cache_hits.values())
    assert kernel(add_one)(0.5) == 1.5
