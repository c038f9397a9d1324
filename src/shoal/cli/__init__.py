"""The command ``shoal``: one file a command; heavy packages load only in the command that needs them."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder
from typing import Any

import typer
from typer.core import TyperGroup

from shoal.cli.console import leave, show_version
from shoal.core.errors import without_passwords

_OBJECTS = 200_000  # that are made before Python looks for cycles among them; imports make thousands, and no cycles
_MEMORY = {-3: 32 << 20, -1: 64 << 20}  # of malloc: above the first, arrays have pages of their own; the other stays
_CLOUDS = {"pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs"}
_LOOKING, _LOOKED_FOR = ("numba", "numba.np.arraymath"), {"colorama", "scipy", "scipy.linalg"}
_MISTAKE: Any = typer.BadParameter.__base__  # arguments that are not understood


class _Root(TyperGroup):
    """The command, which says what arguments it does not understand, but no password in them."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        _complete_help(self)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _MISTAKE as mistake:
            mistake.message = without_passwords(mistake.message)
            raise


def _complete_help(command: Any) -> None:
    """Let help show what a value is instead of its Python type, and the whole first sentence of every command."""
    for option in command.params:
        kind = getattr(option, "type_descriptor", None)
        if option.metavar is None and kind is not None and not (kind.is_choice or getattr(option, "is_flag", False)):
            number = kind.is_ranged or kind.annotation in (int, float)
            value = "PATH" if kind.is_path else "NUMBER" if number else "TEXT"
            if option.param_type_name == "argument":
                option.metavar, option.display_type = option.name.upper(), lambda _: ""
            else:
                option.metavar = value
    for one in getattr(command, "commands", {}).values():
        one.short_help = one.short_help or (one.help or "").split(". ")[0].rstrip(".").replace("\n", " ")
        _complete_help(one)


_COMMANDS = {  # by name: the module, and the function in it or the group
    "demo": ("demo", "demo"),
    "warm": ("warm", "warm"),
    "init": ("policy", "init"),
    "audit": ("audit", "audit"),
    "anonymize": ("anonymize", "anonymize"),
    "verify": ("verify", "verify"),
    "attack": ("attack", "attack"),
    "compare": ("compare", "compare"),
    "link": ("link", "link"),
    "studio": ("studio", "studio"),
    "policy": ("policy", "app"),
    "key": ("key", "app"),
    "ledger": ("ledger", "app"),
    "agency": ("service", "app"),
}


def _root(
    version: bool = typer.Option(False, "--version", callback=show_version, is_eager=True, help="Show the version."),
) -> None:
    """Publish tables about people so that nobody in them can be picked out, and prove it."""


def make_app() -> typer.Typer:
    """Return the command line."""
    made = typer.Typer(
        name="shoal", cls=_Root, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    made.callback()(_root)
    for name, (module, attribute) in _COMMANDS.items():
        found = getattr(importlib.import_module(f"shoal.cli.{module}"), attribute)
        if attribute == "app":
            made.add_typer(found, name=name)
        else:
            made.command(name)(found)
    return made


def __getattr__(name: str) -> Any:
    if name == "app":
        return make_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Unneeded(MetaPathFinder):
    """Keeps out of commands what other packages import only because it is there.

    pyarrow imports pandas, which only Spark needs, and file systems of clouds; numba looks for SciPy, for its linear
    algebra, which no kernel needs, and for colours of messages.
    """

    def find_spec(self, name: str, *_: object) -> None:
        loading = (one.__spec__ for one in map(sys.modules.get, _LOOKING) if one is not None)
        looking = name in _LOOKED_FOR and any(getattr(spec, "_initializing", False) for spec in loading)
        pandas = name == "pandas" and "pyspark" not in sys.modules
        if name in _CLOUDS or pandas or looking:
            raise ModuleNotFoundError(f"{name} is not used by commands", name=name)


def get_ready() -> None:
    """Let this process start fast, which is all for a command, and keep the memory of arrays for those that follow."""
    gc.set_threshold(_OBJECTS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # others would wait busily for products that are all small
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would look for them among all installed packages
    with suppress(AttributeError, OSError, TypeError):  # only glibc has it
        for option, n_bytes in _MEMORY.items():
            ctypes.CDLL(None).mallopt(option, n_bytes)
    sys.meta_path.insert(0, _Unneeded())


def main() -> None:
    """Run the command line, and leave by the short way."""
    get_ready()
    try:
        make_app()()
    except SystemExit as stop:
        leave(stop.code if isinstance(stop.code, int) else int(stop.code is not None))
