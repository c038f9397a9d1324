"""The runner: ``python -m conformance --verifier "COMMAND {folder} [--source {source}]"``."""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"
ACCEPTED, REJECTED = 0, 4  # exit codes
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class UsageError(Exception):
    """The runner was called wrongly; the message says how."""


@dataclass(frozen=True, slots=True)
class Case:
    """A release and the verdict that a verifier must reach."""

    name: str
    folder: Path
    why: str
    verdict: str  # verified, failed or incomplete
    check: str | None  # the check or model that must fail or, if the verdict is incomplete, must be listed as not done
    source: bool
    population: bool = False
    actions: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def read(cls, folder: Path) -> Case:
        """Read ``case.json``."""
        entry = json.loads((folder / "case.json").read_bytes())
        return cls(folder.name, folder, **{**entry, "actions": tuple(entry.get("actions", ()))})

    @contextmanager
    def prepare(self) -> Iterator[dict[str, str]]:
        """Copy the case, do its actions, and yield what the placeholders of a command stand for."""
        with tempfile.TemporaryDirectory(prefix="conformance-") as temporary:
            folder = Path(temporary) / self.name
            shutil.copytree(self.folder, folder)
            for action in self.actions:
                path = folder / action["path"]
                if action["do"] == "folder":
                    path.mkdir()
                    continue
                path.unlink(missing_ok=True)
                path.symlink_to(action["target"])
            found = {"folder": str(folder)}
            if self.source:
                found["source"] = str(folder / "source.csv")
            if self.population:
                found["population"] = str(folder / "population.csv")
            yield found


def list_cases(pattern: str = "*", folder: Path = CASES) -> list[Case]:
    """Return the cases whose names match a pattern, in order of their names."""
    found = (Case.read(path.parent) for path in sorted(folder.glob("*/case.json")))
    return [case for case in found if fnmatch.fnmatchcase(case.name, pattern)]


def fill_command(template: str, values: Mapping[str, str]) -> list[str]:
    """Return the arguments of a command: parts in brackets are kept only if all of their placeholders have a value.

    >>> fill_command("check {folder} [--source {source}]", {"folder": "a b"})
    ['check', 'a b']
    >>> fill_command("check {folder} [--source {source}]", {"folder": "a", "source": "s.csv"})
    ['check', 'a', '--source', 's.csv']
    """

    def keep(part: re.Match[str]) -> str:
        return part[1] if all(name in values for name in _PLACEHOLDER.findall(part[1])) else ""

    words = shlex.split(_OPTIONAL.sub(keep, template))
    return [_PLACEHOLDER.sub(lambda found: values.get(found[1], ""), word) for word in words]


def judge(case: Case, code: int, output: str) -> str | None:
    """Return what is wrong with a verifier's answer, or None if it is as expected."""
    expected = ACCEPTED if case.verdict == "verified" else REJECTED
    if code != expected:
        return f"exit code {code} instead of {expected} ({case.verdict})"
    answer = _read_answer(output)
    if answer is None:
        return None
    if answer["verdict"] != case.verdict:
        return f"verdict {answer['verdict']!r} instead of {case.verdict!r}"
    named = list_objections(answer, case.verdict)
    if case.check is not None and case.check not in named:
        return f"{', '.join(named) or 'no check'} objected instead of {case.check!r}"
    return None


def _read_answer(output: str) -> dict[str, Any] | None:
    """Return the JSON object of a verdict and checks, if the output is one."""
    try:
        answer = json.loads(output)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) and {"verdict", "checks"} <= answer.keys() else None


def list_objections(answer: Mapping[str, Any], verdict: str) -> list[str]:
    """Return the names of checks and models that failed or, of an incomplete verdict, that lacked an input."""
    checks, guarantees = answer["checks"], answer.get("guarantees", ())
    if verdict == "incomplete":
        undone = [one["name"] for one in checks if one.get("required") and not one.get("done", True)]
        return [*undone, *(one["model"] for one in guarantees if not one.get("done", True))]
    models = [one["model"] for one in guarantees if not one["ok"]]
    return [*(one["name"] for one in checks if not one["ok"]), *models]


def run(case: Case, template: str, seconds: float) -> str | None:
    """Run a verifier on a case and return what is wrong with its answer."""
    with case.prepare() as values:
        try:
            done = subprocess.run(
                fill_command(template, values), capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {seconds:g} s"
        except OSError as error:
            raise UsageError(f"the verifier cannot be started: {error.strerror}") from None
    return judge(case, done.returncode, done.stdout)


def read_known(path: Path | None, folder: Path = CASES) -> set[str]:
    """Return the names in a file of known failures: one per line, comments after #."""
    if path is None:
        return set()
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    known = {name for line in lines if (name := line.partition("#")[0].strip())}
    if strange := known - {case.name for case in list_cases(folder=folder)}:
        raise UsageError(f"{path} names {len(strange)} cases that do not exist, such as {min(strange)}")
    return known


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite and return the exit code: 0 if every answer is as expected, 1 if not, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("--verifier", required=True, help="command with {folder}, [--source {source}] and so on")
    parser.add_argument("--only", default="*", help="pattern of case names, such as 'csv-*'")
    parser.add_argument("--known", type=Path, help="file of cases that this verifier is known to fail")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for each case")
    options = parser.parse_args(arguments)
    try:
        cases, known = list_cases(options.only), read_known(options.known)
        if not cases or "{folder}" not in options.verifier:
            raise UsageError("no case has such a name" if not cases else "the command has no {folder}")
        counts = {"passed": 0, "known": 0, "FAILED": 0, "UNEXPECTED PASS": 0}
        for case in cases:
            fault = run(case, options.verifier, options.timeout)
            if case.name in known:
                word = "UNEXPECTED PASS" if fault is None else "known"
            else:
                word = "passed" if fault is None else "FAILED"
            counts[word] += 1
            print(f"{word:6} {case.name}" + (f": {fault}" if fault else ""), flush=True)
            if word == "FAILED":
                print(f"       {case.why}")
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    return 1 if counts["FAILED"] or counts["UNEXPECTED PASS"] else 0


if __name__ == "__main__":
    sys.exit(main())
