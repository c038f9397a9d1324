"""What all commands share: answers on standard output, the rest on standard error, exit codes, and some options."""

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
Reply: TypeAlias = "tuple[Any, *tuple[str | Table, ...]]"  # for programs; then lines for people
Replying: TypeAlias = Callable[..., Reply]
INTERRUPTED = 130
UNEXPECTED = 1
_LEAST_SPACE = 3 << 30  # with 2 cores 2.5 GB were enough and 2 GB were not: Arrow and LLVM reserve much
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

    *folder* is where the command publishes. Once the release is there, it is too late for an interrupt: the command
    ends as it would have without.
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
        except Exception as error:  # a message of a library may quote a record, so none is shown
            if seen and not is_published():  # compiled code makes another error of an interrupt that falls into it
                _stop(f"interrupted; {outcome()}", INTERRUPTED, json_output)
            if os.environ.get("SHOAL_DEBUG") == "1":
                raise
            _stop(_describe_defect(error, outcome()), UNEXPECTED, json_output)
        if seen and is_published():
            typer.echo(f"shoal: interrupted too late: {outcome()}", err=True)


def _refuse_narrow() -> None:
    """Raise if libraries would run out of address space: they do not say so, but abort or wait for ever."""
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
    """Name an error that nobody foresaw by its kind and place alone."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
    return (
        f"unexpected {type(error).__name__}{place}; {outcome}. This is a bug in shoal: please report "
        "it. SHOAL_DEBUG=1 shows more, which may include values of records"
    )


def require_packages(what: str, extra: str, *names: str) -> None:
    """Raise unless the packages are there that an extra of shoal brings."""
    if absent := [name for name in names if find_spec(name) is None]:
        raise UsageError(f"{what} needs {', '.join(absent)}; install shoal[{extra}]")


def leave(code: int) -> NoReturn:
    """End the process at once, with what was written seen out.

    Python's own way out takes all modules and compiled code apart, which is a fifth of a short command. And a command
    that stops early may leave a thread that still reads ahead in the source: that way would abort or wait for ever when
    the thread calls back, and the exit code would be lost. What is to be done at the end of a process is done here.
    """
    atexit._run_exitfuncs()  # noqa: SLF001  Python has no public name for it
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:  # nobody reads it any more
            code = code or UNEXPECTED
    os._exit(code)


@contextmanager
def _interrupts(too_late: Callable[[], bool]) -> Iterator[list[int]]:
    """Raise KeyboardInterrupt on Ctrl-C and on SIGTERM, unless they are ignored or too late; yield those that came."""
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
    """Answer a program with *content*, or people with *lines*."""
    if json_output:
        answer(content)
    else:
        say(*lines)


def add_command(app: typer.Typer, name: str) -> Callable[[Replying], None]:
    """Return a decorator that makes a command of a function that returns its reply; the command takes --json."""

    def register(function: Replying) -> None:
        def run(*, json_output: JsonOption = False, **given: Any) -> None:
            with reporting(json_output):
                reply(json_output, *function(**given))

        app.command(name)(join_parameters(run, function))

    return register


def join_parameters(outer: Callable[..., Any], inner: Replying, supplied: str = "") -> Callable[..., Any]:
    """Return *outer*, which passes all else on to *inner*, with the parameters of both, as a command line has them.

    Those of *outer* that must be given come first, and its options last; one parameter of *inner* is *supplied* by it.
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
    """Return the console for what happens meanwhile."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def say(*lines: str | Table) -> None:
    """Print lines of an answer to people: wrapped on a terminal, whole in a file or a pipe."""
    console = out()
    for line in lines:
        console.print(line, soft_wrap=not console.is_terminal)


def plain(text: object) -> str:
    """Return a text that the console prints as it is, without taking any of it for markup."""
    from rich.markup import escape

    return escape(str(text))


def bars() -> AbstractContextManager[Progress]:
    """Return the progress of a command: bars on a terminal, lines if SHOAL_PROGRESS asks for them, else nothing."""
    lines = os.environ.get("SHOAL_PROGRESS") == "lines"
    if not lines and not sys.stderr.isatty():
        return nullcontext(Silent())
    from shoal.cli.bars import Lines, show_bars

    return nullcontext(Lines()) if lines else show_bars()


def make_table(*heads: str, headed: bool = True) -> Table:
    """Return an empty table as all commands show them."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 2, 0, 0), show_header=headed)
    for head in heads:
        made.add_column(head)
    return made


def print_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a title; nothing if there are none. Columns of numbers are aligned to the right."""
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
