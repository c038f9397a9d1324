"""``shoal demo`` on a machine that has compiled nothing: two processes compile, and the other must not fail unseen."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import shoal.core.kernels
from shoal.cli.demo import run_demo
from shoal.core.progress import Silent


def test_the_process_that_compiles_ahead_ends_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Watched(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *given: object, **options: object) -> None:
            super().__init__(*given, **options)  # type: ignore[call-overload]
            started.append(self)

    monkeypatch.setattr(shoal.core.kernels, "is_compiled", lambda _: False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(subprocess, "Popen", Watched)
    story = run_demo(tmp_path / "demo", 300, 1, Silent())
    assert story.verification.verified
    assert [process.returncode for process in started] == [0]
