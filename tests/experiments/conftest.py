"""One quick run of an experiment, compared with the small grid stored in docs/figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from experiments.__main__ import main
from experiments.figures import drop_times

FIGURES = Path(__file__).parents[2] / "docs" / "figures"


def differences(found: Any, stored: Any, where: str = "") -> list[str]:
    """Name the places where two documents differ; numbers may by what another processor's rounding does."""
    if isinstance(found, dict) and isinstance(stored, dict) and found.keys() == stored.keys():
        return [one for key in found for one in differences(found[key], stored[key], f"{where}.{key}")]
    if isinstance(found, list) and isinstance(stored, list) and len(found) == len(stored):
        pairs = enumerate(zip(found, stored, strict=True))
        return [one for place, (a, b) in pairs for one in differences(a, b, f"{where}[{place}]")]
    if isinstance(found, float) and isinstance(stored, float):
        return [] if math.isclose(found, stored, rel_tol=1e-6) else [where]
    return [] if found == stored else [where]


@pytest.fixture
def quick_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Run an experiment on its small grid, twice into the same folder, and return its document."""

    def run(name: str, *options: str) -> dict[str, Any]:
        monkeypatch.setattr("experiments.figures.draw", lambda *_, **__: None)  # drawn in another test
        out = tmp_path / "out"
        asked = [name, "--quick", "--out", str(out), *options]
        assert main(asked) == 0
        assert main(asked) == 2  # never over an older run
        assert "A quick run" in (out / f"{name}.md").read_text(encoding="utf-8")
        document: dict[str, Any] = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))
        stored = json.loads((FIGURES / f"{name}-small.json").read_text(encoding="utf-8"))
        stale = differences(drop_times(document), stored)
        assert not stale, (
            f"experiments/results/{name}.md is not what this code makes: run make figures; {len(stale)}: {stale[:5]}"
        )
        return document

    return run
