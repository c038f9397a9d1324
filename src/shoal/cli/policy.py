"""``shoal init`` drafts a policy; ``shoal policy`` looks at policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import JsonOption, answer, bars, err, plain, reply, reporting
from shoal.cli.publishing import DataArgument
from shoal.core.errors import UsageError

if TYPE_CHECKING:
    from shoal.policy.drafting import Draft
    from shoal.policy.policy import Role

ROLES: tuple[Role, ...] = ("identifier", "quasi", "sensitive", "insensitive")

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
        roles = [f"{len(names)} {role}" for role in ROLES if (names := loaded.names(role))]
        document = {"valid": True, "attributes": {name: a.role for name, a in loaded.attributes.items()}}
        reply(json_output, document, f"{plain(policy)} is valid: {', '.join(roles)}")


def init(
    data: DataArgument,
    file: Annotated[
        Path | None, typer.Option("--out", "-o", help="New file for the policy; otherwise it is printed.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Character between fields, if it is not found by itself.")
    ] = None,
    encoding: Annotated[str, typer.Option(help="Character encoding of a CSV file.")] = "utf-8",
    json_output: JsonOption = False,
) -> None:
    """Draft a policy: roles by evidence, taxonomies by kind, questions left open as comments."""
    with reporting(json_output):
        from pydantic import ValidationError

        from shoal.policy.drafting import draft_policy
        from shoal.release.release import write_text
        from shoal.sources.base import SourceOptions

        if file is not None and (file.exists() or file.is_symlink()):
            raise UsageError(f"{file} exists already; choose another name or remove it first")
        try:
            options = SourceOptions(delimiter=delimiter, encoding=encoding)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            raise UsageError(f"--{problem['loc'][0]}: {problem['ctx']['error']}") from None
        with bars() as progress:
            draft = draft_policy(data, options=options, progress=progress)
        if file is not None:
            write_text(file, draft.text)
        if json_output:
            answer({**draft.as_dict(), "out": None if file is None else str(file)})
        else:
            if file is None:
                typer.echo(draft.text, nl=False)
            _review(draft, data, file)


def _review(draft: Draft, data: str, file: Path | None) -> None:
    """Say on standard error what to look at next."""
    from shoal.sources.addresses import hide_address

    console = err()
    for role in ROLES:
        if names := draft.names(role):
            console.print(f"{role:<12}{plain(', '.join(names))}", soft_wrap=True)
    name = "policy.yaml" if file is None else str(file)
    if not draft.names("quasi"):
        console.print("No quasi attribute was found: the policy cannot be used before one is declared.")
    console.print(
        f"{draft.n_questions} questions are open in the draft: check every role, answer them, then run\n"
        f"  shoal audit {hide_address(data)} -p {name}",
        markup=False,
        soft_wrap=True,
    )
