"""Runs verify.sql as a stranger would: DuckDB alone, in the folder of the release."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest


class Line(NamedTuple):
    """A line of the answer."""

    promise: str
    required: str | None
    achieved: str | None
    holds: bool | None


def run_script(public: Path) -> list[Line]:
    """Run all statements but the last, which gives the verdict; return the lines of the answer."""
    with duckdb.connect() as engine:
        engine.execute(f"SET file_search_path = '{public}'")
        *statements, verdict = duckdb.extract_statements((public / "verify.sql").read_text("utf-8"))
        for statement in statements:
            answer = engine.execute(statement)
        lines = [Line(*row) for row in answer.fetchall()]
        held = {line.holds for line in lines}
        if False in held:
            with pytest.raises(duckdb.InvalidInputException, match="failed: "):
                engine.execute(verdict)
        else:
            assert engine.execute(verdict).fetchall() == [("incomplete" if None in held else "verified",)]
        return lines
