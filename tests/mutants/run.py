"""Mutants of the verifier's formulas: each changes one operator, number or answer, and some test must notice.

The operators, functions and numbers of statements in SQL, which are strings, are changed as well.

    python tests/mutants/run.py shoal.verify.promises tests/verify/test_promises.py

The tests are functions that need no fixture. They run in this process: the code of a mutant is put into the functions
of the loaded module, so a mutant costs what its tests do.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import functools
import importlib
import importlib.util
import inspect
import io
import re
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

COMPARED = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
COMPARED |= {ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
COUNTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
COUNTED |= {ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Mod: ast.Mult, ast.Pow: ast.Mult}
COUNTED |= {ast.LShift: ast.RShift, ast.RShift: ast.LShift}
IS_SQL = re.compile(
    r"\b(SELECT|FROM|WHERE|JOIN|CASE|WHEN|OVER|AND|OR|NULL)\b|[a-z_]\(| [<>]=? | <> |::|^(true|false|[<>]=?)$"
)
TOKENS = re.compile(
    r"(?<![<>=])(<=|>=|<>|<|>|=)(?![<>=])|(?<= )[+-](?= )|(?<![\w'.{}])\d+(?![\w'.])"
    r"|\b(min|max|sum|count|bool_and|bool_or|greatest|least)(?=\()(?!\(\*)"
    r"|\b(IS NOT|IS|NOT IN) (?=NULL|DISTINCT|\()|\bNOT (?!NULL|DISTINCT|IN|MATER)"
    r"|(?<=SELECT )DISTINCT |(?<=count\()DISTINCT |\b(AND(?! 1 PREC)|OR|DESC|ASC|ANTI|SEMI|LEFT JOIN|true|false)\b"
)
PAIRS = (("<=", "<"), (">=", ">"), ("=", "<>"), ("+", "-"), ("AND", "OR"), ("min", "max"), ("sum", "count"))
PAIRS += (("bool_and", "bool_or"), ("greatest", "least"), ("IS ", "IS NOT "), ("DESC", "ASC"), ("ANTI", "SEMI"))
SWAPPED = {one: other for pair in (*PAIRS, ("true", "false")) for one, other in (pair, pair[::-1])}
SWAPPED |= {"NOT IN ": "IN ", "NOT ": "", "LEFT JOIN": "JOIN", "DISTINCT ": ""}
SECONDS = 300  # for the tests of one mutant; one that never ends is noticed too


def find_mutants(tree: ast.Module) -> Iterator[tuple[int, str, ast.Module]]:
    """Yield the line, what is changed, and the changed module; annotations, docstrings and messages stay."""
    skipped = set(_skipped(tree))
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        for what, change in _changes(node):
            mutant = copy.deepcopy(tree)
            change(next(found for number, found in enumerate(ast.walk(mutant)) if number == place))
            yield getattr(node, "lineno", 0), what, ast.fix_missing_locations(mutant)


def _skipped(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.FunctionDef):
            parts = [
                *node.decorator_list,
                node.returns,
                *(argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg)),
            ]
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            parts = [node]
        elif isinstance(node, ast.ClassDef):
            parts = [*node.decorator_list]
        elif isinstance(node, ast.Raise | ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.JoinedStr) and not IS_SQL.search(_join(node))
        ):
            parts = [node]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            parts = [node.value]
        for part in parts:
            if part is not None:
                yield from (id(inner) for inner in ast.walk(part))


def _join(text: ast.JoinedStr) -> str:
    return "".join(one.value if isinstance(one, ast.Constant) else "x" for one in text.values)


def _change_sql(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is changed, and the changed text, for each token of a statement or of a part of one."""
    for match in TOKENS.finditer(text):
        begin, end = match.span()
        if text[text.rfind("\n", 0, begin) + 1 :].startswith("--"):  # a comment
            continue
        new = str(int(match[0]) + 1) if match[0].isdigit() else SWAPPED[match[0]]
        around = text[max(0, begin - 25) : end + 25].replace("\n", " ")
        yield f"{match[0]} -> {new} in {around!r}", text[:begin] + new + text[end:]


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[Any], None]]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        new = COMPARED[type(node.ops[0])]
        yield f"{type(node.ops[0]).__name__} -> {new.__name__}", lambda one: one.ops.__setitem__(0, new())
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in COUNTED:
        other = COUNTED[type(node.op)]
        yield f"{type(node.op).__name__} -> {other.__name__}", lambda one: setattr(one, "op", other())
    elif isinstance(node, ast.BoolOp):
        swap = ast.Or if isinstance(node.op, ast.And) else ast.And
        yield f"{type(node.op).__name__} -> {swap.__name__}", lambda one: setattr(one, "op", swap())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert | ast.USub):
        yield f"without {type(node.op).__name__}", _drop_operator
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} -> {not node.value}", lambda one: setattr(one, "value", not one.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} -> {node.value + 1}", lambda one: setattr(one, "value", one.value + 1)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        for what, text in _change_sql(node.value):
            yield what, lambda one, text=text: setattr(one, "value", text)
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield "return None", lambda one: setattr(one, "value", ast.Constant(None))
    elif isinstance(node, ast.IfExp):
        yield "the other branch", lambda one: setattr(one, "test", ast.UnaryOp(ast.Not(), one.test))
    elif isinstance(node, ast.If):
        yield "if not", lambda one: setattr(one, "test", ast.UnaryOp(ast.Not(), one.test))


def _drop_operator(one: Any) -> None:
    one.op = ast.UAdd()  # the truth value as 0 or 1, the array or number as it is


def _functions(owner: Any) -> dict[str, types.FunctionType]:
    """Return the functions of a module or class, under their paths, whatever wraps them."""
    found = {}
    for name, thing in vars(owner).items():
        inner = thing.fget if isinstance(thing, property) else getattr(thing, "__func__", getattr(thing, "func", thing))
        inner = getattr(inner, "__wrapped__", inner)
        if isinstance(inner, types.FunctionType) and inner.__module__ == owner.__dict__.get(
            "__module__", owner.__name__
        ):
            found[name] = inner
        elif isinstance(thing, type) and thing.__module__ == owner.__name__:
            found |= {f"{name}.{key}": one for key, one in _functions(thing).items()}
    return found


@contextlib.contextmanager
def put_in(module: types.ModuleType, mutant: ast.Module) -> Iterator[None]:
    """Let the functions and constants of a module be those of its mutant."""
    changed = types.ModuleType(module.__name__)
    changed.__file__ = module.__file__
    original_module = sys.modules[module.__name__]
    sys.modules[module.__name__] = changed
    try:
        exec(compile(mutant, str(module.__file__), "exec"), changed.__dict__)
    finally:
        sys.modules[module.__name__] = original_module
    mine, theirs = _functions(module), _functions(changed)
    codes = {name: (one.__code__, one.__defaults__, one.__kwdefaults__) for name, one in mine.items()}
    constants = {name: thing for name, thing in vars(changed).items() if name.removeprefix("_").isupper()}
    before = {name: module.__dict__[name] for name in constants if name in module.__dict__}
    for name, one in theirs.items():
        if name in mine and len(one.__code__.co_freevars) == len(mine[name].__code__.co_freevars):
            mine[name].__code__, mine[name].__defaults__ = one.__code__, one.__defaults__
            mine[name].__kwdefaults__ = one.__kwdefaults__
    module.__dict__.update(constants)
    _clear_caches(module)
    try:
        yield
    finally:
        for name, one in mine.items():
            one.__code__, one.__defaults__, one.__kwdefaults__ = codes[name]
        module.__dict__.update(before)
        _clear_caches(module)


def _clear_caches(module: types.ModuleType) -> None:
    for thing in vars(module).values():
        if isinstance(thing, functools._lru_cache_wrapper):
            thing.cache_clear()


def load_tests(path: Path) -> list[Callable[[], None]]:
    """Return the tests of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tests = [one for name, one in vars(module).items() if name.startswith("test_") and callable(one)]
    return [call for test in tests for call in _fill(test)]


def _fill(test: Callable[..., None]) -> list[Callable[[], None]]:
    """Return a test with all its parameters; tests that need a fixture are left out."""
    calls: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "parametrize":
            names = mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else mark.args[0]
            values = [dict(zip(names, one if len(names) > 1 else [one], strict=True)) for one in mark.args[1]]
            calls = [{**call, **one} for call in calls for one in values]
    needed = set(inspect.signature(test).parameters)
    return [functools.partial(test, **call) for call in calls if set(call) == needed]


def _interrupt(*_: Any) -> None:
    raise TimeoutError


def is_noticed(tests: list[Callable[[], None]]) -> bool:
    """Whether some test fails, or does not end; those that noticed the last mutant come first."""
    signal.signal(signal.SIGALRM, _interrupt)
    signal.alarm(SECONDS)
    try:
        for place, test in enumerate(tests):
            try:
                with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                    warnings.simplefilter("error")
                    test()
            except BaseException as fault:
                if isinstance(fault, KeyboardInterrupt):
                    raise
                tests.insert(0, tests.pop(place))
                return True
    except TimeoutError:
        return True
    finally:
        signal.alarm(0)
    return False


def main() -> int:
    """Print the survivors and how many mutants there were; return 1 if more than a tenth survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("tests", type=Path, nargs="+")
    given = parser.parse_args()
    module = importlib.import_module(given.module)
    tests = [test for path in given.tests for test in load_tests(path)]
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    with put_in(module, ast.parse(source)):
        if is_noticed(tests):
            print("a test fails without any mutant")
            return 2
    found, survivors = 0, []
    for line, what, mutant in find_mutants(ast.parse(source)):
        found += 1
        try:
            with put_in(module, mutant):
                noticed = is_noticed(tests)
        except Exception:  # noqa: BLE001 - a module that cannot even be loaded
            noticed = True
        if not noticed:
            survivors.append((line, what))
            print(f"{given.module}:{line}: {what}: {source.splitlines()[line - 1].strip()}", flush=True)
    killed = found - len(survivors)
    print(f"{killed} of {found} mutants killed ({killed / found:.1%})")
    return int(len(survivors) > found / 10)


if __name__ == "__main__":
    raise SystemExit(main())
