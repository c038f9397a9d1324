"""``shoal policy``: look at policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import JsonOption, answer, reporting

app = typer.Typer(help="Look at policies.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def schema(
    json_output: Annotated[bool, typer.Option("--json", help="As without: the schema is one JSON object.")] = False,
) -> None:
    """Print the JSON Schema of policies."""
    with reporting(json_output):
        from shoal.policy.policy import policy_schema

        answer(policy_schema())


@app.command()
def check(
    policy: Annotated[Path, typer.Argument(help="The policy to check.")],
    json_output: JsonOption = False,
) -> None:
    """Check a policy by itself, without data."""
    with reporting(json_output):
        from shoal.policy.policy import Policy

        loaded = Policy.load(policy)
        if json_output:
            answer({"valid": True, "attributes": {name: a.role for name, a in loaded.attributes.items()}})
        else:
            roles = {role: len(loaded.names(role)) for role in ("identifier", "quasi", "sensitive", "insensitive")}
            typer.echo(f"{policy} is valid: " + ", ".join(f"{n} {role}" for role, n in roles.items() if n))
