"""Whole commands that anonymize a table, with what their evidence tells of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measuring import Finished, shoal_command, watched


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that ended, and the evidence of its release."""

    finished: Finished
    evidence: Mapping[str, Any]

    @property
    def steps(self) -> dict[str, float]:
        """Seconds of each step; what none of them took is the start, and what is said about the release."""
        stated = dict(self.evidence["seconds"])
        return {"rest": max(self.finished.seconds - sum(stated.values()), 0.0), **stated}


def anonymized(
    source: Path,
    policy: Mapping[str, Any],
    folder: Path,
    *options: str,
    one_core: bool = False,
    shared: bool = False,
    shoal: Path | None = None,
) -> Ran:
    """Run ``shoal anonymize`` on a table, read its evidence, and remove what it wrote.

    On *one_core* the system gives the process no other. Where processes have *shared* pages, these count once. *shoal*
    is another installed command than that of this environment.
    """
    written, out = folder / "asked.json", folder / "anonymized"
    written.write_text(json.dumps(policy))
    shutil.rmtree(out, ignore_errors=True)
    bound = [_taskset(), "-c", "0"] if one_core else []
    program = [*bound, shoal or shoal_command()]
    command: list[str | Path] = [*program, "anonymize", source, "-p", written, "-o", out, *options]
    finished = watched(command, folder, shared=shared)
    evidence = json.loads((out / "internal" / "evidence.json").read_text())
    shutil.rmtree(out)
    return Ran(finished, evidence)


def described(run: Ran, cells: int) -> dict[str, Any]:
    """Return what the cost of a run depends on, and what it took."""
    attributes = run.evidence["policy"]["attributes"].values()
    roles = [entry["role"] for entry in attributes]
    steps = run.steps
    steps["rest"] += steps.pop("findings", 0.0) + steps.pop("open", 0.0)
    return {
        "rows": run.evidence["source"]["rows"],
        "cells": cells,
        "classes": run.evidence["risk_after"]["classes"],
        "quasi": roles.count("quasi"),
        "columns": len(roles) - roles.count("identifier"),
        "regions": run.evidence["search"].get("regions", 0),
        "seconds": {step: round(seconds, 3) for step, seconds in steps.items()},
        "whole": round(run.finished.seconds, 3),
        "peak_mib": round(run.finished.peak_mib),
    }


def _taskset() -> str:
    found = shutil.which("taskset")
    if found is None:
        raise RuntimeError("one core is given to a process by taskset (util-linux), which is not here")
    return found
