"""``shoal key``: keys of pseudonyms and of signatures, and taking reversible pseudonyms back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import JsonOption, plain, reply, reporting
from shoal.core.wording import count_noun

app = typer.Typer(
    help="Make keys for pseudonyms and signatures, and reverse reversible pseudonyms.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="New file for the key; an existing file is never overwritten.")],
    signing: Annotated[
        bool, typer.Option("--signing", help="Make a key that signs releases; the public key is written next to it.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Make a random key. Keep it away from releases: anybody who has it can find out whose token is whose."""
    with reporting(json_output):
        from shoal.columns.keys import KEY_BYTES, new_key, refuse_public

        refuse_public(file)
        if signing:
            from shoal.release.signing import new_signing_key

            public = new_signing_key(file)
            reply(
                json_output,
                {"key": str(file), "public_key": str(public)},
                plain(f"{file} is a new signing key, readable only by you: `shoal anonymize --sign {file}`."),
                plain(
                    f"{public} is for everybody who checks your releases: `shoal verify --public-key {public.name}`."
                ),
            )
            return
        new_key(file)
        text = f"{plain(file)} is a new key, readable only by you. A lost key cannot be recovered: keep a copy."
        reply(json_output, {"key": str(file), "bytes": KEY_BYTES}, text)


@app.command("open")
def open_file(
    file: Annotated[Path, typer.Argument(help="A released file, CSV or Parquet, with reversible pseudonyms.")],
    key: Annotated[Path, typer.Option(help="The key file with which the pseudonyms were made.")],
    column: Annotated[str, typer.Option(help="The column of pseudonyms.")],
    to: Annotated[Path, typer.Option("--out", "-o", help="New file of the same format, for your eyes only.")],
    domain: Annotated[
        str | None,
        typer.Option(help="Domain of the pseudonyms; by default, the one in the manifest, or the column's name."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Replace reversible pseudonyms by their original values.

    The new file names people: only you can read it, and it is never written to a folder named public. Nobody can
    reverse other tokens; with their key, you can only tokenize a known value again and look for the result.
    """
    with reporting(json_output):
        from shoal.columns.keys import write_opened

        done = write_opened(file, column, key, to, domain)
        text = plain(f"{count_noun(int(str(done['rows'])), 'row')} with the values of {column!r}  ->  {to}")
        reply(json_output, done, text, "This file names people: keep it to yourself.")
