"""The command ``shoal``: one file a command; heavy packages load only in the command that needs them."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

import typer
from typer.core import TyperGroup

from shoal.cli import (
    anonymize,
    attack,
    audit,
    compare,
    demo,
    key,
    ledger,
    link,
    policy,
    service,
    studio,
    verify,
)
from shoal.cli.console import leave, show_version
from shoal.core.errors import without_passwords

_MISTAKE: Any = typer.BadParameter.__base__  # arguments that are not understood


class _Root(TyperGroup):
    """The command, which says what arguments it does not understand, but no password in them."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _MISTAKE as mistake:
            mistake.message = without_passwords(mistake.message)
            raise


app = typer.Typer(
    name="shoal",
    cls=_Root,
    help="Publish tables about people so that nobody in them can be picked out, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=show_version, is_eager=True, help="Show the version."),
) -> None:
    """Publish tables about people so that nobody in them can be picked out, and prove it."""


app.command("demo")(demo.demo)
app.command("init")(policy.init)
app.command("audit")(audit.audit)
app.command("anonymize")(anonymize.anonymize)
app.command("verify")(verify.verify)
app.command("attack")(attack.attack)
app.command("compare")(compare.compare)
app.command("link")(link.link)
app.command("studio")(studio.studio)
app.add_typer(policy.app, name="policy")
app.add_typer(key.app, name="key")
app.add_typer(ledger.app, name="ledger")
app.add_typer(service.app, name="agency")


class _NoPandas(MetaPathFinder):
    """Keeps pandas out of commands: pyarrow imports it wherever it is installed, and only Spark needs it there."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas" and "pyspark" not in sys.modules:
            raise ModuleNotFoundError(f"{name} is not used by commands", name=name)


def main() -> None:
    """Run the command line; one that stops early leaves by the short way."""
    sys.meta_path.insert(0, _NoPandas())
    try:
        app()
    except SystemExit as stop:
        if not stop.code:
            raise
        leave(stop.code if isinstance(stop.code, int) else 1)
