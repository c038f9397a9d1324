"""Runs the scripts of a release as a stranger would: DuckDB alone, in their folder."""

from __future__ import annotations

from contextlib import chdir
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
    """Run the script in the public folder."""
    return _run(public, "verify.sql", None)


def run_source_script(out: Path, source: object) -> list[Line]:
    """Run the data holder's script, with the source as a table of Arrow or a relation of DuckDB."""
    return _run(out / "internal", "verify-source.sql", source)


def _run(folder: Path, script: str, source: object) -> list[Line]:
    """Run all statements but the last, which gives the verdict; return the lines of the answer."""
    with duckdb.connect() as engine, chdir(folder):
        if isinstance(source, Path):
            engine.execute(f"CREATE VIEW source AS FROM read_csv('{source}', all_varchar = true)")
        elif source is not None:
            engine.register("source", source)
        *statements, verdict = duckdb.extract_statements(Path(script).read_text("utf-8"))
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
