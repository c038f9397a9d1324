"""Who may import whom, and what must not be loaded before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal

ROOT = Path(shoal.__file__).parent
HEAVY = ("numpy", "numba", "pyarrow", "pydantic", "pandas", "polars", "duckdb", "rich")
OPTIONAL = (
    *("pandas", "polars", "duckdb", "pyspark", "sklearn", "scipy", "plotly", "matplotlib", "cryptography", "opendp"),
    *("fastapi", "sqlalchemy", "alembic", "uvicorn", "prometheus_client", "psycopg", "starlette", "jinja2"),
    *("IPython", "ipykernel", "nbclient", "nbformat", "playwright"),
    *("adbc_driver_manager", "adbc_driver_postgresql", "adbc_driver_sqlite", "pyreadstat", "python_calamine"),
)
SERVICE = "shoal.agency.service"  # a program of its own, which stands on what the extra `agency` brings
STUDIO = "shoal.studio"  # another one, on what the extra `studio` brings


def module_name(path: Path) -> str:
    parts = ["shoal", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(path: Path, *, only_at_import: bool = False) -> Iterator[str]:
    """Yield what a file imports, names of ``from`` imports included; type checking does not count."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting.extend(node.orelse)
            continue
        if only_at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: imports are absolute"
            assert node.module is not None
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        waiting.extend(ast.iter_child_nodes(node))


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def of_shoal(path: Path) -> set[str]:
    """Return the modules of shoal that a file imports."""
    found = {name for name in imports(path) if within(name, "shoal")}
    return {name for name in found if name in MODULES}


def members(*packages: str) -> list[str]:
    return [name for name in MODULES if any(within(name, package) for package in packages)]


def test_the_walk_sees_the_package() -> None:
    assert len(MODULES) > 80
    assert "shoal.plan.plan" in of_shoal(MODULES["shoal.methods.base"])
    assert "numba" in set(imports(MODULES["shoal.core.compiled"]))


@pytest.mark.parametrize("name", members("shoal.models", "shoal.taxonomies"))
def test_models_and_taxonomies_know_no_methods_and_no_engines(name: str) -> None:
    above = (
        "shoal.methods",
        "shoal.engines",
        "shoal.plan.plan",
        "shoal.plan.cells",
        "shoal.policy",
        "shoal.verify",
        "shoal.sources",
    )
    assert not [other for other in of_shoal(MODULES[name]) if any(within(other, package) for package in above)]


@pytest.mark.parametrize("name", members("shoal.verify"))
def test_the_verifier_is_independent(name: str) -> None:
    transport = ("shoal.sources.spark",) if within(name, "shoal.verify.spark") else ()
    allowed = ("shoal.core.errors", "shoal.core.arrays", "shoal.core.progress", "shoal.verify", *transport)
    foreign = [
        other
        for other in of_shoal(MODULES[name])
        if other != "shoal" and not any(within(other, package) for package in allowed)
    ]
    assert not foreign


@pytest.mark.parametrize("name", members("shoal.sources"))
def test_sources_know_nothing_of_privacy(name: str) -> None:
    allowed = ("shoal.core.errors", "shoal.core.arrays", "shoal.core.progress", "shoal.sources")
    assert all(any(within(other, package) for package in allowed) for other in of_shoal(MODULES[name]))


@pytest.mark.parametrize("name", members("shoal.methods", "shoal.utility"))
def test_methods_and_measures_read_no_files_and_know_no_engine(name: str) -> None:
    outside = (
        "shoal.sources",
        "shoal.engines",
        "shoal.release.release",
        "shoal.policy",
        "shoal.verify",
        "shoal.release.publishing",
    )
    assert not [other for other in of_shoal(MODULES[name]) if any(within(other, package) for package in outside)]


@pytest.mark.parametrize("name", [name for name in MODULES if not within(name, "shoal.cli")])
def test_only_the_command_line_knows_the_command_line(name: str) -> None:
    assert not [other for other in of_shoal(MODULES[name]) if within(other, "shoal.cli")]
    assert not [other for other in imports(MODULES[name]) if within(other, "typer")]


@pytest.mark.parametrize("name", [name for name in MODULES if not within(name, SERVICE)])
def test_optional_packages_load_only_where_they_are_used(name: str) -> None:
    at_once = list(imports(MODULES[name], only_at_import=True))
    own = ("starlette", "jinja2") if within(name, STUDIO) else ()
    assert not [other for other in at_once if within(other, SERVICE)]
    assert not [other for other in at_once if any(within(other, o) for o in OPTIONAL if o not in own)]


@pytest.mark.parametrize("name", [name for name in MODULES if not within(name, STUDIO)])
def test_nothing_stands_on_the_studio(name: str) -> None:
    """The command starts it and knows no more of it."""
    known = {other for other in of_shoal(MODULES[name]) if within(other, STUDIO)}
    assert known <= ({STUDIO, "shoal.studio.serving"} if name == "shoal.cli.studio" else set())
    assert not [other for other in imports(MODULES[name], only_at_import=True) if within(other, STUDIO)]


@pytest.mark.parametrize("name", MODULES)
def test_no_module_has_a_generator_of_its_own(name: str) -> None:
    """Chance is passed as an argument; ``numpy.random``'s global functions and module-level generators are not used."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            assert "default_rng" not in ast.dump(statement)
    assert "random" not in {other.split(".")[0] for other in imports(MODULES[name])}


def loaded_by(*code: str) -> set[str]:
    program = ";".join([*code, "import sys", "print(chr(10).join(sys.modules), file=sys.__stdout__)"])
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_the_command_line_loads_nothing_heavy() -> None:
    by_typer = loaded_by("import typer")
    heavy = loaded_by("import shoal.cli") & set(HEAVY)
    assert heavy <= by_typer & {"rich"}


def test_help_loads_nothing_heavy() -> None:
    helping = (
        "import io, contextlib, typer, shoal.cli",
        "f = contextlib.redirect_stdout(io.StringIO()); f.__enter__()",
        "g = contextlib.suppress(SystemExit); g.__enter__()",
        "getattr(typer.main.get_command(shoal.cli.app), 'main')(['--help'], standalone_mode=False)",
        "f.__exit__(None, None, None)",
    )
    assert loaded_by(*helping) & set(HEAVY) <= {"rich"} & loaded_by("import typer")


def test_importing_the_package_loads_nothing_else() -> None:
    before = loaded_by("pass")
    assert not {name for name in loaded_by("import shoal") - before if name.split(".")[0] in HEAVY}


def test_a_run_loads_only_what_its_policy_names() -> None:
    """Techniques, averages, linking and comparing take time to load, and some need packages that may not be there."""
    loaded = loaded_by(
        "import pyarrow, shoal",
        "policy = {'attributes': {'age': {'role': 'quasi'}}, 'privacy': [{'k-anonymity': {'k': 2}}]}",
        "shoal.anonymize(pyarrow.table({'age': [1, 1, 2, 2]}), policy)",
    )
    techniques = {f"shoal.columns.{name}" for name in ("coding", "hash", "noise", "permutation", "pseudonym")}
    packages = {
        f"shoal.{name}" for name in ("attacks", "comparing", "linkage", "microaggregation", "notebook", "studio")
    }
    assert "shoal.anonymize" in loaded
    assert not loaded & (
        techniques | packages | {"cryptography", "jinja2", "matplotlib", "opendp", "sklearn", "starlette"}
    )
