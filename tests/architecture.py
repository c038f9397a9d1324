"""The size and the shape of the code, counted: ``python tests/architecture.py`` prints the table, and more than is
allowed ends with 1. Who may import whom is held by import-linter (``pyproject.toml``); both are run by ``make check``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
# A release's form is asked for by its class in release/forms/; the verifier, which shares nothing with it, may look.
FORM_TESTS = re.compile(
    r"is_sliced|is_synthetic|\"(?:synthetic|parts|agreed|averages|sliced)\" (?:not )?in [\w.]*manifest"
    r"|(?:manifest|release|publication|method)[\w.]*\.(?:form|publishes) (?:==|!=|in)|(?<![.\w])form (?:==|!=)"
)
# Names that tell neither a verb nor a noun: a bare participle, or one before another word.
IRREGULAR = (
    *("built", "broken", "chosen", "dealt", "done", "drawn", "found", "given", "grown", "held", "kept"),
    *("known", "laid", "left", "lost", "made", "met", "paid", "said", "seen", "sent", "shown", "spent", "taken"),
    *("told", "written"),
)
PARTICIPLE = re.compile(rf"^_?(?:[a-z]+ed|{'|'.join(IRREGULAR)})(?:_|$)")
NO_PARTICIPLES = re.compile(r"^_?(?:embed|need|feed|seed|speed|exceed|proceed|red|shed)(?:_|$)")
LIMITS = {
    "lines": 76_890,
    "files": 362,
    "packages and modules of shoal": 24,
    "modules with exactly one importer": 53,
    "lines of the verifier": 7_021,
    "files of the verifier": 30,
    "tests of a release's form elsewhere": 0,
    "functions over 80 lines": 0,
    "functions with more than 8 parameters": 9,
    "functions named by a participle": 0,
    "untyped dictionaries in annotations": 150,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_modules() -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    named = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def find_imports(tree: ast.Module, modules: dict[str, Path]) -> Iterator[str]:
    """Yield the modules of the package that a module imports, at once or later."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def count_parameters(function: Function) -> int:
    """Return how many parameters a caller may give."""
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def count_lines(function: Function) -> int:
    """Return the lines of a function without its docstring."""
    lines, first = (function.end_lineno or 0) - function.lineno + 1, function.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return lines - ((first.end_lineno or 0) - first.lineno + 1 if is_docstring else 0)


def is_participle(function: Function) -> bool:
    decorators = " ".join(ast.unparse(decorator) for decorator in function.decorator_list)
    if "property" in decorators or NO_PARTICIPLES.match(function.name):
        return False
    return PARTICIPLE.match(function.name) is not None


def measure() -> dict[str, list[str]]:
    """Return what there is of each thing that is limited, one entry for each."""
    modules = name_modules()
    texts = {name: path.read_text(encoding="utf-8") for name, path in modules.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    importers = Counter(other for name, tree in trees.items() for other in set(find_imports(tree, modules)) - {name})
    functions = [(f"{n}.{f.name}", f) for n, t in trees.items() for f in ast.walk(t) if isinstance(f, Function)]
    verifier = [name for name in modules if f"{name}.".startswith("shoal.verify.")]
    elsewhere = [n for n in modules if n not in verifier and not f"{n}.".startswith("shoal.release.forms.")]
    return {
        "lines": [line for text in texts.values() for line in text.splitlines()],
        "files": list(modules),
        "packages and modules of shoal": sorted({name.split(".")[1] for name in modules if "." in name}),
        "modules with exactly one importer": [name for name in modules if importers[name] == 1],
        "lines of the verifier": [line for name in verifier for line in texts[name].splitlines()],
        "files of the verifier": verifier,
        "tests of a release's form elsewhere": [
            f"{n}: {line.strip()}" for n in elsewhere for line in texts[n].splitlines() if FORM_TESTS.search(line)
        ],
        "functions over 80 lines": [n for n, f in functions if count_lines(f) > 80],
        "functions with more than 8 parameters": [n for n, f in functions if count_parameters(f) > 8],
        "functions named by a participle": [n for n, f in functions if is_participle(f)],
        "untyped dictionaries in annotations": [
            f"{n}: {line.strip()}"
            for n, text in texts.items()
            for line in text.splitlines()
            if "dict[str, Any]" in line
        ],
    }


def main() -> int:
    """Print the table; with the name of a line of it, also every entry of that line."""
    found = measure()
    for what, limit in LIMITS.items():
        print(f"{what:40} {len(found[what]):7,} of at most {limit:,}")
    for what in sys.argv[1:]:
        print(*found[what], sep="\n")
    return int(any(len(found[what]) > limit for what, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
