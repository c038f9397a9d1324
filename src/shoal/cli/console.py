"""Answers on standard output, messages on standard error, exit codes, and options that several commands share."""

from __future__ import annotations

import atexit
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeAlias

import typer

from shoal.core.errors import FindingsError, ShoalError, UsageError
from shoal.core.progress import Silent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from shoal.core.progress import Progress

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Reply: TypeAlias = "tuple[Any, *tuple[str | Table, ...]]"  # the JSON content, then lines for people
Replying: TypeAlias = Callable[..., Reply]
INTERRUPTED = 130
UNEXPECTED = 1
_LEAST_SPACE = 3 << 30  # Arrow and LLVM reserve much: with 2 cores, 2.5 GB were enough and 2 GB were not
_SPACE_PER_CORE = 64 << 20  # stacks and heaps of threads
EngineOption: TypeAlias = Annotated[Literal["local", "spark"], typer.Option(help="Where rows are processed.")]
MasterOption: TypeAlias = Annotated[
    str | None,
    typer.Option(help="With --engine spark: the Spark master, such as spark://host:7077; by default, this machine."),
]


def show_version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        import shoal

        typer.echo(f"shoal {shoal.__version__}")
        raise typer.Exit


@contextmanager
def reporting(json_output: bool, folder: Path | None = None) -> Iterator[None]:
    """Turn errors into messages and exit codes; with ``--json`` the message is an object on standard output.

    *folder* is where the command publishes. Once the release is published, interrupts have no effect.
    """

    def number_public() -> int:
        return (folder / "public").stat().st_ino if folder is not None and (folder / "public").is_dir() else 0

    before = number_public()  # of an earlier release

    def is_published() -> bool:
        return number_public() not in (0, before)

    def outcome() -> str:
        return f"the release in {folder} is published" if is_published() else "nothing was published"

    with _interrupts(is_published) as seen:
        try:
            _refuse_narrow()
            yield
        except ShoalError as error:
            more = {"findings": [one.as_dict() for one in error.findings]} if isinstance(error, FindingsError) else {}
            _stop(str(error), error.exit_code, json_output, more)
        except KeyboardInterrupt:
            _stop(f"interrupted; {outcome()}", INTERRUPTED, json_output)
        except MemoryError:
            _stop(f"out of memory; {outcome()}", 2, json_output)
        except typer.Exit:
            raise
        except Exception as error:  # its message is hidden, because a library may quote a record
            if seen and not is_published():  # compiled code turns an interrupt into another error
                _stop(f"interrupted; {outcome()}", INTERRUPTED, json_output)
            if os.environ.get("SHOAL_DEBUG") == "1":
                raise
            _stop(_describe_defect(error, outcome()), UNEXPECTED, json_output)
        if seen and is_published():
            typer.echo(f"shoal: interrupted too late: {outcome()}", err=True)


def _refuse_narrow() -> None:
    """Raise if the address space is too small for libraries, which would abort or hang without a message."""
    if sys.platform == "win32":
        return
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    needed = _LEAST_SPACE + _SPACE_PER_CORE * (os.cpu_count() or 1)
    if limit not in (resource.RLIM_INFINITY, -1) and limit < needed:
        raise UsageError(
            f"the address space of this process is limited to {limit / 2**30:.1f} GiB, and shoal needs "
            f"{needed / 2**30:.1f} GiB of it, most of which stays unused: raise that limit (ulimit -v). --memory "
            "limits the memory that is actually used; nothing was published"
        )


def _describe_defect(error: Exception, outcome: str) -> str:
    """Describe an unexpected error by its type and place only."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return (
        f"unexpected {type(error).__name__}{place}; {outcome}. This is a bug in shoal: please report "
        "it. SHOAL_DEBUG=1 shows more, which may include values of records"
    )


def require_packages(what: str, extra: str, *names: str) -> None:
    """Raise unless the packages of an extra of shoal are installed."""
    if missing := [name for name in names if find_spec(name) is None]:
        raise UsageError(f"{what} needs {', '.join(missing)}; install shoal[{extra}]")


def leave(code: int) -> NoReturn:
    """Run the exit functions, flush the output, and end the process immediately.

    The interpreter's own shutdown takes a fifth of the time of a short command. After an early stop, a thread may still
    read ahead in the source; when it calls back during shutdown, Python aborts or hangs, and the exit code is lost.
    """
    atexit._run_exitfuncs()  # noqa: SLF001  Python has no public name for it
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # the reading end is closed
            code = code or UNEXPECTED
    os._exit(code)


@contextmanager
def _interrupts(too_late: Callable[[], bool]) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt on SIGINT and SIGTERM unless they are ignored or too late; yield the list of signals."""
    seen: list[int] = []

    def interrupt(number: int, _: object) -> None:
        seen.append(number)
        if not too_late():
            raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt)
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(message: str, code: int, json_output: bool, more: Mapping[str, Any] | None = None) -> NoReturn:
    if json_output:
        answer({"error": message, "exit_code": code, **(more or {})})
    else:
        typer.echo(f"shoal: {message}", err=True)
    raise typer.Exit(code)


def answer(content: Any) -> None:
    """Print one JSON object on standard output."""
    sys.stdout.write(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def reply(json_output: bool, content: Any, *lines: str | Table) -> None:
    """Print *content* as JSON or *lines* as text."""
    if json_output:
        answer(content)
    else:
        say(*lines)


def add_command(app: typer.Typer, name: str) -> Callable[[Replying], None]:
    """Return a decorator that registers a function as a command with ``--json``; the function returns its reply."""

    def register(function: Replying) -> None:
        def run(*, json_output: JsonOption = False, **given: Any) -> None:
            with reporting(json_output):
                reply(json_output, *function(**given))

        app.command(name)(join_parameters(run, function))

    return register


def join_parameters(outer: Callable[..., Any], inner: Replying, supplied: str = "") -> Callable[..., Any]:
    """Give *outer* the signature of a command that passes its keyword arguments to *inner*.

    Its required parameters come first, then the ones of *inner*, then its options. *outer* itself supplies the
    parameter of *inner* named *supplied*.
    """
    own = [each for each in _list_parameters(outer) if each.kind is not inspect.Parameter.VAR_KEYWORD]
    passed = [each for each in _list_parameters(inner) if each.name != supplied]
    first = [each for each in own if each.default is inspect.Parameter.empty]
    joined = [*first, *passed, *(each for each in own if each not in first)]
    named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in joined]
    outer.__doc__ = inner.__doc__
    vars(outer)["__signature__"] = inspect.Signature(named)
    return outer


def _list_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def out() -> Console:
    """Return the console for answers to people."""
    from rich.console import Console

    return Console(highlight=False)


def err() -> Console:
    """Return the console for messages and progress."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def say(*lines: str | Table) -> None:
    """Print lines, wrapped on a terminal but not in a file or a pipe."""
    console = out()
    for line in lines:
        console.print(line, soft_wrap=not console.is_terminal)


def plain(text: object) -> str:
    """Escape a text so that the console reads no markup in it."""
    from rich.markup import escape

    return escape(str(text))


def bars() -> AbstractContextManager[Progress]:
    """Return the progress of a command: lines if SHOAL_PROGRESS is "lines", bars on a terminal, otherwise silence."""
    lines = os.environ.get("SHOAL_PROGRESS") == "lines"
    if not lines and not sys.stderr.isatty():
        return nullcontext(Silent())
    from shoal.cli.bars import Lines, show_bars

    return nullcontext(Lines()) if lines else show_bars()


def make_table(*heads: str, headed: bool = True) -> Table:
    """Return an empty table in the style of all commands."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), show_header=headed)
    for head in heads:
        made.add_column(head)
    return made


def print_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows, if any, under a title. Columns of numbers are aligned to the right."""
    listed = list(rows)
    if not listed:
        return
    out().print(f"\n[bold]{plain(title)}[/]")
    shown = make_table(*heads, headed=any(heads))
    for number, column in enumerate(shown.columns):
        column.justify = "right" if listed[0][number][:1].isdigit() and number else "left"
    for row in listed:
        shown.add_row(*map(plain, row))
    out().print(shown)
