"""What must not be loaded before it is needed. Who may import whom is held by import-linter: ``make check``."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import shoal

ROOT = Path(shoal.__file__).parent
HEAVY = ("numpy", "numba", "pyarrow", "pydantic", "pandas", "polars", "duckdb", "rich")
# Packages of extras, and jinja2, which takes a while to load: imported where they are used, except in the programs that
# are built on them.
LATER = {
    *("pandas", "polars", "duckdb", "pyspark", "sklearn", "scipy", "matplotlib", "cryptography", "opendp"),
    *("fastapi", "sqlalchemy", "uvicorn", "psycopg", "starlette", "jinja2"),
    *("IPython", "ipykernel", "nbclient", "nbformat", "playwright"),
    *("adbc_driver_manager", "adbc_driver_postgresql", "adbc_driver_sqlite", "pyreadstat", "python_calamine"),
}
PROGRAMS = {"agency/service": LATER, "studio": {"starlette", "jinja2"}, "verify/engine.py": {"duckdb"}}

RUN = (
    "import pyarrow, shoal",
    "policy = {'attributes': {'age': {'role': 'quasi'}}, 'privacy': [{'k-anonymity': {'k': 2}}]}",
    "shoal.anonymize(pyarrow.table({'age': [1, 1, 2, 2]}), policy)",
)


def import_at_once(tree: ast.AST) -> Iterator[str]:
    """Yield the packages that a module loads when it is loaded; imports for type checking alone are none."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield str(node.module).split(".")[0]
        yield from import_at_once(node)


def test_packages_of_extras_load_only_where_they_are_used() -> None:
    wrong, walked = [], 0
    for path in ROOT.rglob("*.py"):
        place = path.relative_to(ROOT).as_posix()
        own = next((names for program, names in PROGRAMS.items() if place.startswith(program)), set())
        found = set(import_at_once(ast.parse(path.read_text(encoding="utf-8"))))
        walked += len(found)
        wrong += [(place, name) for name in found & (LATER - own)]
        if "typer" in found and not place.startswith("cli/"):
            wrong.append((place, "typer"))
    assert walked > 500
    assert not wrong


def test_no_module_has_a_generator_of_its_own() -> None:
    """Chance is passed as an argument; ``numpy.random``'s global functions and module-level generators are not used."""
    for path in ROOT.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for statement in tree.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                assert "default_rng" not in ast.dump(statement), path
        assert "random" not in set(import_at_once(tree)), path


def load(*code: str) -> set[str]:
    """Return the modules that a process has loaded after running the code."""
    program = ";".join([*code, "import sys", "print(chr(10).join(sys.modules), file=sys.__stdout__)"])
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_the_command_line_loads_nothing_heavy() -> None:
    by_typer = load("import typer")
    assert load("import shoal.cli") & set(HEAVY) <= by_typer & {"rich"}


def test_help_loads_nothing_heavy() -> None:
    helping = (
        "import io, contextlib, typer, shoal.cli",
        "f = contextlib.redirect_stdout(io.StringIO()); f.__enter__()",
        "g = contextlib.suppress(SystemExit); g.__enter__()",
        "getattr(typer.main.get_command(shoal.cli.app), 'main')(['--help'], standalone_mode=False)",
        "f.__exit__(None, None, None)",
    )
    assert load(*helping) & set(HEAVY) <= {"rich"} & load("import typer")


def test_importing_the_package_loads_nothing_else() -> None:
    before = load("pass")
    assert not {name for name in load("import shoal") - before if name.split(".")[0] in HEAVY}


def test_a_run_loads_only_what_its_policy_names() -> None:
    """Techniques, averages, linking and comparing take time to load, and some need packages that may not be there."""
    loaded = load(*RUN)
    techniques = {f"shoal.columns.{name}" for name in ("coding", "hash", "noise", "permutation", "pseudonym")}
    packages = {f"shoal.{name}" for name in ("attacks", "compare", "linking.linking", "studio")}
    assert "shoal.anonymize" in loaded
    assert not loaded & (
        techniques | packages | {"cryptography", "jinja2", "matplotlib", "opendp", "sklearn", "starlette"}
    )


def test_anonymizing_loads_few_modules() -> None:
    """Those of a method, technique, form or attack come when a policy names it: 97 when this was written."""
    assert len([name for name in load("import shoal.anonymize") if name.split(".")[0] == "shoal"]) <= 97


def test_kernels_are_loaded_without_the_compiler() -> None:
    load(*RUN)  # whoever compiles them
    loaded = load(*RUN)
    assert "numba.core.runtime.nrt" in loaded
    assert not loaded & {"scipy.linalg", "numba.np.linalg", "numba.np.npyimpl", "numba.np.arrayobj"}


def test_a_command_that_compiles_does_without_linear_algebra() -> None:
    """Numba looks for SciPy's wherever it is installed; afterwards whoever needs it has it."""
    compiling = (
        "import sys, shoal.cli",
        "sys.argv, shoal.cli.leave = ['shoal', '--version'], print",
        "shoal.cli.main()",
        "import numba",
        "assert numba.njit(lambda number: number + 1)(1) == 2",
    )
    loaded = load(*compiling)
    assert "numba.np.linalg" in loaded
    assert not {name for name in loaded if name.startswith("scipy")}
    assert "scipy.linalg" in load(*compiling, "import scipy.linalg")


def test_a_command_loads_no_file_systems_of_clouds() -> None:
    command = ("import sys, shoal.cli", "sys.argv, shoal.cli.leave = ['shoal', '--version'], print", "shoal.cli.main()")
    loaded = load(*command, "import pyarrow.parquet")
    assert "pyarrow.parquet" in loaded
    assert not loaded & {"pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs"}


def test_public_functions_stay_functions_when_their_packages_are_imported() -> None:
    """``shoal.audit`` is a function and a package: importing the package must not put it in the function's place."""
    code = "import shoal, shoal.audit.audit, shoal.compare.compare, shoal.verify.verifier, shoal.anonymize"
    asking = "assert all(callable(getattr(shoal, name)) for name in ('anonymize', 'audit', 'compare', 'verify'))"
    assert "shoal.compare.compare" in load(code, asking)
