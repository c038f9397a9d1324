"""``shoal init``: a draft policy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import JsonOption, answer, err, reporting
from shoal.cli.publishing import DataArgument

if TYPE_CHECKING:
    from shoal.policy.drafting import Draft
    from shoal.sources.base import SourceOptions


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
        from shoal.cli.bars import bars
        from shoal.core.errors import UsageError
        from shoal.policy.drafting import draft_policy

        if file is not None and (file.exists() or file.is_symlink()):
            raise UsageError(f"{file} exists already; choose another name or remove it first")
        with bars() as progress:
            draft = draft_policy(data, options=_options(delimiter, encoding), progress=progress)
        if file is not None:
            _write(file, draft.text)
        if json_output:
            answer({**draft.as_dict(), "out": None if file is None else str(file)})
        else:
            if file is None:
                typer.echo(draft.text, nl=False)
            _review(draft, data, file)


def _options(delimiter: str | None, encoding: str) -> SourceOptions:
    from pydantic import ValidationError

    from shoal.core.errors import UsageError
    from shoal.sources.base import SourceOptions

    try:
        return SourceOptions(delimiter=delimiter, encoding=encoding)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise UsageError(f"--{problem['loc'][0]}: {problem['ctx']['error']}") from None


def _write(file: Path, text: str) -> None:
    from shoal.core.errors import UsageError

    try:
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except FileExistsError:
        raise UsageError(f"{file} exists already; choose another name or remove it first") from None
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None


def _review(draft: Draft, data: str, file: Path | None) -> None:
    """Say on standard error what to look at next."""
    from rich.markup import escape

    from shoal.sources.addresses import hide_address

    console = err()
    for role in ("identifier", "quasi", "sensitive", "insensitive"):
        if names := draft.names(role):
            console.print(f"{role:<12}{escape(', '.join(names))}", soft_wrap=True)
    name = "policy.yaml" if file is None else str(file)
    if not draft.names("quasi"):
        console.print("No quasi attribute was found: the policy cannot be used before one is declared.")
    console.print(
        f"{draft.n_questions} questions are open in the draft: check every role, answer them, then run\n"
        f"  shoal audit {hide_address(data)} -p {name}",
        markup=False,
        soft_wrap=True,
    )
