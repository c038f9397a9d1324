"""``shoal key``: keys for pseudonyms and signatures, and reversing pseudonyms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import Reply, add_command, plain
from shoal.core.wording import count_noun

app = typer.Typer(
    help="Make keys for pseudonyms and signatures, and reverse reversible pseudonyms.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@add_command(app, "new")
def new(
    file: Annotated[Path, typer.Argument(help="New file for the key; an existing file is never overwritten.")],
    signing: Annotated[
        bool, typer.Option("--signing", help="Make a key that signs releases; the public key is written next to it.")
    ] = False,
) -> Reply:
    """Make a random key. Keep it away from releases: with the key, tokens can be linked to people."""
    from shoal.columns.keys import KEY_BYTES, new_key, refuse_public

    refuse_public(file)
    if signing:
        from shoal.release.signing import new_signing_key

        public = new_signing_key(file)
        return (
            {"key": str(file), "public_key": str(public)},
            plain(f"{file} is a new signing key, readable only by you: `shoal anonymize --sign {file}`."),
            plain(f"Give {public} to those who check your releases: `shoal verify --public-key {public.name}`."),
        )
    new_key(file)
    text = f"{plain(file)} is a new key, readable only by you. A lost key cannot be recovered: keep a copy."
    return {"key": str(file), "bytes": KEY_BYTES}, text


@add_command(app, "open")
def open_file(
    file: Annotated[Path, typer.Argument(help="A released file, CSV or Parquet, with reversible pseudonyms.")],
    key: Annotated[Path, typer.Option(help="The key file with which the pseudonyms were made.")],
    column: Annotated[str, typer.Option(help="The column of pseudonyms.")],
    to: Annotated[Path, typer.Option("--out", "-o", help="New file of the same format, for your eyes only.")],
    domain: Annotated[
        str | None,
        typer.Option(help="Domain of the pseudonyms; by default, the one in the manifest, or the column's name."),
    ] = None,
) -> Reply:
    """Replace reversible pseudonyms by their original values.

    The new file names people: only you can read it, and it is never written to a folder named public. Other tokens
    cannot be reversed; with their key, you can only tokenize a known value again and look for the result.
    """
    from shoal.columns.keys import write_opened

    done = write_opened(file, column, key, to, domain)
    text = plain(f"{count_noun(int(str(done['rows'])), 'row')} with the values of {column!r}  ->  {to}")
    return done, text, "This file names people: keep it to yourself."
