"""The command ``shoal``. Each command has its own file and imports heavy packages only when it runs."""

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

_GC_THRESHOLD = 200_000  # imports create many thousands of objects, but no cycles
_MALLOC = {-3: 32 << 20, -1: 64 << 20}  # mallopt: mmap threshold and trim threshold
_CLOUDS = {"pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs"}
_NUMBA, _OPTIONAL_FOR_NUMBA = ("numba", "numba.np.arraymath"), {"colorama", "scipy", "scipy.linalg"}
_USAGE_ERROR: Any = typer.BadParameter.__base__


class _Root(TyperGroup):
    """The group of all commands; its usage errors never repeat a password."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        _complete_help(self)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except _USAGE_ERROR as error:
            error.message = without_passwords(error.message)
            raise


def _complete_help(command: Any) -> None:
    """Replace Python types in the help by PATH, NUMBER or TEXT, and summarize each command by its first sentence."""
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


_COMMANDS = {  # name: (module, function or group in it)
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
    """Publish tables about people without exposing anyone in them, and prove it."""


def make_app() -> typer.Typer:
    """Return the command line."""
    root = typer.Typer(
        name="shoal", cls=_Root, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode=None
    )
    root.callback()(_root)
    for name, (module, attribute) in _COMMANDS.items():
        command = getattr(importlib.import_module(f"shoal.cli.{module}"), attribute)
        if attribute == "app":
            root.add_typer(command, name=name)
        else:
            root.command(name)(command)
    return root


def __getattr__(name: str) -> Any:
    if name == "app":
        return make_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _UnneededPackages(MetaPathFinder):
    """Hide packages that dependencies import if they are installed, although no command needs them.

    pyarrow imports pandas, which only Spark needs, and cloud file systems. numba imports SciPy for linear algebra,
    which no kernel uses, and colorama for coloured messages.
    """

    def find_spec(self, name: str, *_: object) -> None:
        specs = (module.__spec__ for module in map(sys.modules.get, _NUMBA) if module is not None)
        for_numba = name in _OPTIONAL_FOR_NUMBA and any(getattr(spec, "_initializing", False) for spec in specs)
        pandas = name == "pandas" and "pyspark" not in sys.modules
        if name in _CLOUDS or pandas or for_numba:
            raise ModuleNotFoundError(f"{name} is not used by commands", name=name)


def get_ready() -> None:
    """Make the process start fast, and let it reuse the memory of freed arrays."""
    gc.set_threshold(_GC_THRESHOLD)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # all matrix products are small; more threads would busy-wait
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # searching all installed packages takes long
    with suppress(AttributeError, OSError, TypeError):  # only glibc has mallopt
        for option, n_bytes in _MALLOC.items():
            ctypes.CDLL(None).mallopt(option, n_bytes)
    sys.meta_path.insert(0, _UnneededPackages())


def main() -> None:
    """Run the command line and end the process."""
    get_ready()
    try:
        make_app()()
    except SystemExit as stop:
        leave(stop.code if isinstance(stop.code, int) else int(stop.code is not None))
