"""``shoal key``: keys of pseudonyms and of signatures, and taking reversible pseudonyms back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import JsonOption, plain, reply, reporting

app = typer.Typer(
    help="Make keys of pseudonyms and signatures, and take reversible pseudonyms back.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="New file for the key; one that exists is never written over.")],
    signing: Annotated[
        bool, typer.Option("--signing", help="A key that signs releases; the public key is written beside it.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Make a key that nobody can guess. Keep it away from releases: whoever has it finds out whose token is whose."""
    with reporting(json_output):
        from shoal.columns.keys import KEY_BYTES, new_key, refuse_public

        refuse_public(file)
        if signing:
            from shoal.release.signing import new_signing_key

            public = new_signing_key(file)
            reply(
                json_output,
                {"key": str(file), "public_key": str(public)},
                plain(f"{file} is a new key for signing, which only you may read: `shoal anonymize --sign {file}`."),
                plain(
                    f"{public} is for everybody who checks your releases: `shoal verify --public-key {public.name}`."
                ),
            )
            return
        new_key(file)
        text = f"{plain(file)} is a new key, which only you may read. A lost key cannot be made again: keep a copy."
        reply(json_output, {"key": str(file), "bytes": KEY_BYTES}, text)


@app.command("open")
def open_file(
    file: Annotated[Path, typer.Argument(help="A released file, CSV or Parquet, with reversible pseudonyms.")],
    key: Annotated[Path, typer.Option(help="The key file that the pseudonyms were made with.")],
    column: Annotated[str, typer.Option(help="The column of pseudonyms.")],
    to: Annotated[Path, typer.Option("--out", "-o", help="New file of the same format, for your eyes only.")],
    domain: Annotated[
        str | None,
        typer.Option(help="Domain of the pseudonyms; otherwise the manifest's beside the file, or the column's name."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Put the values of reversible pseudonyms back in their place.

    The file that is written names people: it is readable by you alone, and refused in a folder named public. Tokens
    that are not reversible cannot be taken back by anybody; with their key one can only treat a known value again and
    look for its token.
    """
    with reporting(json_output):
        from shoal.columns.keys import write_opened

        done = write_opened(file, column, key, to, domain)
        text = plain(f"{done['rows']:,} rows with the values of {column!r}  ->  {to}")
        reply(json_output, done, text, "This file names people: keep it to yourself.")
