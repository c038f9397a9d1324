"""``shoal init`` drafts a policy; ``shoal policy`` checks policies and prints their schema."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.console import JsonOption, Reply, add_command, answer, bars, err, plain, reporting
from shoal.cli.publishing import DataArgument
from shoal.core.errors import UsageError
from shoal.core.wording import count_noun

if TYPE_CHECKING:
    from shoal.policy.drafting import Draft
    from shoal.policy.policy import WrittenRole
    from shoal.sources.base import SourceOptions

ROLES: tuple[WrittenRole, ...] = ("identifier", "quasi", "sensitive", "insensitive", "weight", "drop")

app = typer.Typer(help="Check policies and print their schema.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def schema(
    json_output: Annotated[bool, typer.Option("--json", help="No effect: the schema is a JSON object anyway.")] = False,
) -> None:
    """Print the JSON Schema of policies."""
    with reporting(json_output):
        from shoal.policy.policy import policy_schema

        answer(policy_schema())


@add_command(app, "check")
def check(policy: Annotated[Path, typer.Argument(help="The policy to check.")]) -> Reply:
    """Check a policy without data: its taxonomies, and whether its method supports its models."""
    from shoal.anonymize.refusing import refuse_policy
    from shoal.policy.policy import Policy

    loaded = Policy.load(policy)
    refuse_policy(loaded)
    declared = {str(name): str(options["role"]) for name, options in loaded.document["attributes"].items()}
    roles = [f"{n_names} {role}" for role in ROLES if (n_names := list(declared.values()).count(role))]
    return {"valid": True, "attributes": declared}, f"{plain(policy)} is valid: {', '.join(roles)}"


def _flag(kind: Any, about: str) -> Any:
    return Annotated[kind, typer.Option(help=about, show_default=False)]


# One for each option under `source` in a policy. Options that are not given are detected if possible.
SOURCE_FLAGS = {
    "delimiter": _flag(str | None, "Character between fields."),
    "quote": _flag(str | None, "Character that quotes fields; empty for none."),
    "encoding": _flag(str | None, "Character encoding of a text file."),
    "header": _flag(bool | None, "Whether the first record contains the column names."),
    "names": _flag(list[str] | None, "Column name that replaces the header's; repeat for every column, in order."),
    "missing": _flag(list[str] | None, "Text that means missing in every column; may be repeated."),
    "missing_in": _flag(list[str] | None, "COLUMN=TEXT that means missing in that column; may be repeated."),
    "decimal_comma": _flag(list[str] | None, "Column with numbers like 1.234,50; may be repeated."),
    "trim": _flag(bool | None, "Whether to remove blanks around text."),
    "sheet": _flag(str | None, "Sheet of an Excel file."),
    "labels": _flag(str | None, "texts or codes: how to read labelled values of Stata and SPSS files."),
}


def _add_source_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the source flags to the signature of a command."""
    signature = inspect.signature(command, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    named = inspect.Parameter.KEYWORD_ONLY
    flags = [inspect.Parameter(name, named, default=None, annotation=kind) for name, kind in SOURCE_FLAGS.items()]
    command.__signature__ = signature.replace(parameters=[*own, *flags])  # type: ignore[attr-defined]
    return command


@_add_source_flags
def init(
    data: DataArgument,
    file: Annotated[Path, typer.Option("--out", "-o", help="File for the policy; - prints it.")] = Path("policy.yaml"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
    column_type: Annotated[
        list[str] | None,
        typer.Option("--type", help="COLUMN=TYPE, such as sex=category or zip=postcode; may be repeated."),
    ] = None,
    group_rare: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Put categories with fewer records than this into one group, other; the draft then lists them.",
            show_default=False,
        ),
    ] = None,
    json_output: JsonOption = False,
    **source: Any,
) -> None:
    """Write a draft policy: roles with their evidence, taxonomies, and open questions as comments."""
    with reporting(json_output):
        from shoal.policy.column_types import TYPES
        from shoal.policy.drafting import draft_policy
        from shoal.release.release import write_text, writing

        printed = file == Path("-")
        if not printed and not overwrite and os.path.lexists(file):
            raise UsageError(f"{file} exists already; choose another name with -o, or replace it with --overwrite")
        types: dict[str, Any] = {name: kinds[-1] for name, kinds in _pairs(column_type, "--type").items()}
        if unknown := [kind for kind in types.values() if kind not in TYPES]:
            raise UsageError(f"--type: unknown type {unknown[0]!r}; choose one of {', '.join(TYPES)}")
        with bars() as progress:
            options = _read_options(source)
            draft = draft_policy(data, options=options, types=types, group_rare=group_rare, progress=progress)
        if not printed:
            if overwrite:
                with writing(file):
                    file.unlink(missing_ok=True)
            write_text(file, draft.text)
        if json_output:
            answer({**draft.as_dict(), "out": None if printed else str(file)})
        else:
            if printed:
                typer.echo(draft.text, nl=False)
            _review(draft, data, None if printed else file)


def _read_options(given: dict[str, Any]) -> SourceOptions:
    from pydantic import ValidationError

    from shoal.sources.base import SourceOptions

    chosen = {name: value for name, value in given.items() if value not in (None, [])}
    if "missing" in chosen:
        chosen["missing"] = ["", *chosen["missing"]]
    if "missing_in" in chosen:
        chosen["missing_in"] = _pairs(chosen["missing_in"], "--missing-in")
    try:
        return SourceOptions(**chosen)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        about = problem.get("ctx", {}).get("error", problem["msg"])
        raise UsageError(f"--{str(problem['loc'][0]).replace('_', '-')}: {about}") from None


def _pairs(given: list[str] | None, flag: str) -> dict[str, list[str]]:
    """Return the texts of each column from values COLUMN=TEXT."""
    pairs: dict[str, list[str]] = {}
    for one in given or ():
        column, equals, text = one.rpartition("=")
        if not equals:
            raise UsageError(f"{flag} takes COLUMN=TEXT, such as income=-9")
        pairs.setdefault(column, []).append(text)
    return pairs


def _review(draft: Draft, data: str, file: Path | None) -> None:
    """Print the roles and the next step on standard error."""
    from shoal.sources.addresses import hide_address

    console = err()
    for role in ROLES:
        if names := draft.names(role):
            console.print(f"{role:<12}{plain(', '.join(names))}", soft_wrap=True)
    if not draft.names("quasi"):
        console.print("No quasi attribute was found; declare at least one before you use the policy.")
    console.print(
        f"The draft {'' if file is None else f'in {file} '}has {count_noun(draft.n_questions, 'open question')}. Check "
        f"every role, answer them, then run\n  shoal audit {hide_address(data)} -p {file or 'policy.yaml'}",
        markup=False,
        soft_wrap=True,
    )
