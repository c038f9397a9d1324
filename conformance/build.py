"""Build all cases again: ``python -m conformance.build``. Run it when the format of releases changes."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from conformance.__main__ import CASES, Case, fill_command, judge, list_cases, list_objections, read_known
from conformance.changes import combine_changes
from conformance.drafts import Draft
from conformance.faults import Fault, read_faults
from conformance.releases import Recipe, read_recipes
from shoal.cli import app

KNOWN = CASES.with_name("known-shoal.txt")
VERIFIER = "verify {folder} [--source {source}] [--population {population}] --json"


def build(cases: Path) -> None:
    """Make every honest release, and a case of each and of each fault."""
    with tempfile.TemporaryDirectory() as temporary:
        faults = read_faults()
        for name, recipe in read_recipes().items():
            made = Path(temporary) / name
            make_honest(recipe, made)
            honest = Fault(name, name, recipe.why, "verified", None, recipe.source, combine_changes({}))
            for fault in (honest, *(one for one in faults if one.base == name)):
                write_case(fault, recipe, made, cases / fault.name)


def make_honest(recipe: Recipe, folder: Path) -> None:
    """Make a release, and leave out everything that no verifier needs."""
    folder.mkdir()
    recipe.make(folder)
    for part in ("public", "internal"):
        (folder / "out" / part).rename(folder / part)
    draft = Draft.open(folder)
    draft.trim()
    draft.close()


def write_case(fault: Fault, recipe: Recipe, honest: Path, case: Path) -> None:
    """Copy an honest release, add the fault, and write the expected verdict."""
    wanted = ["public"]
    if fault.source:
        wanted += ["internal", "source.csv"]
    if recipe.population:
        wanted.append("population.csv")
    case.mkdir(parents=True)
    for name in wanted:
        (shutil.copytree if (honest / name).is_dir() else shutil.copy)(honest / name, case / name)
    draft = Draft.open(case)
    fault.spoil(draft)
    draft.close()
    entry: dict[str, Any] = {"why": fault.why, "verdict": fault.verdict, "check": fault.check, "source": fault.source}
    if (case / "population.csv").is_file():
        entry["population"] = True
    if draft.actions:
        entry["actions"] = draft.actions
    (case / "case.json").write_text(json.dumps(entry, indent=1) + "\n", "utf-8")


def verify(case: Case) -> tuple[str | None, list[str]]:
    """Return what is wrong with the answer of shoal's own verifier, and all checks that objected."""
    with case.prepare() as values:
        done = CliRunner().invoke(app, fill_command(VERIFIER, values))
    try:
        named = list_objections(json.loads(done.stdout), case.verdict)
    except (ValueError, KeyError):
        named = []
    return judge(case, done.exit_code, done.stdout), named


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the cases, verify each of them, and return 1 if a verdict is not the expected one."""
    parser = argparse.ArgumentParser(prog="python -m conformance.build", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=CASES, help="where to write the cases")
    folder: Path = parser.parse_args(arguments).folder
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        made = Path(temporary) / "cases"
        build(made)
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
    wrong, known = 0, read_known(KNOWN, folder)
    for case in list_cases(folder=folder):
        fault, named = verify(case)
        unexpected = (fault is None) == (case.name in known)
        wrong += unexpected
        if unexpected or len(set(named)) > 1:
            print(f"{case.name}: {fault or 'as expected'}; objections: {', '.join(dict.fromkeys(named))}")
    print(f"{len(list_cases(folder=folder))} cases, {wrong} with an unexpected verdict")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
