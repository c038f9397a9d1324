"""Reading in a process of its own: what it finds, and that limits and stopping end it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from shoal.core.errors import InputError
from shoal.studio import reading

READ = reading.Reading.read  # as it is, before tests of pages replace it


def test_limits_and_a_stop_end_it(small_table: Path) -> None:
    asked = reading.Reading("patients.csv", small_table)
    with pytest.raises(InputError, match=r"within 0.1 GB of memory"):
        READ(asked, reading.Limits(64 << 20))
    with pytest.raises(InputError, match="took longer than 0 minutes"):
        READ(asked, reading.Limits(2 << 30, 0.001))
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(InputError, match="was cancelled; the file was removed"):
        READ(asked, stopped=stopped)
