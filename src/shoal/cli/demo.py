"""``shoal demo``: the whole story on generated hospital data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import JsonOption, answer, out, reporting


def demo(
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="New folder for the data, the policy and the release.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Number of hospital stays to generate.", min=100)] = 20_000,
    seed: Annotated[int | None, typer.Option(help="Make the run repeatable.", min=0)] = None,
    json_output: JsonOption = False,
) -> None:
    """Generate hospital stays, draft a policy, audit, anonymize and verify them, and say what it did."""
    with reporting(json_output):
        from shoal.cli.bars import bars
        from shoal.cli.story import run_demo, tell

        with bars() as progress:
            story = run_demo(folder or Path("shoal-demo"), rows, seed, progress)
        if json_output:
            answer(story.as_dict())
        else:
            tell(story, out())
