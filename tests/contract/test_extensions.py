"""Another distribution adds a model, a technique, an attack, a method and a form by entry points.

Each test runs in a process of its own, with a distribution that is nothing but a module and its metadata.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOY = '''
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from shoal.attacks.base import Attack, Tally, Trials
from shoal.columns.base import Technique, Treatment
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.plan.plan import Plan
from shoal.release.forms.classes import Classes
from shoal.verify.classes import verify_classes
from shoal.verify.promises import Answer, Model
from shoal.verify.techniques.base import Declared


class Pairs(PrivacyModel):
    """Every class has so many pairs of records."""

    name = "pairs"
    title = "every class has at least n pairs of records"
    weaknesses = "It says nothing about anything but pairs."
    sees = "sizes"
    achieved_is = "at least"

    n: int = Field(ge=1, description="pairs")

    def holds(self, classes, whole):
        return classes.sizes // 2 >= self.n

    def reach(self, classes, whole):
        return (classes.sizes // 2).astype(float)


def _count_pairs(promise, counts):
    return Answer("min(n // 2)", f"n // 2 >= {promise.whole('n')}", counts.table)


PAIRS = Model({"n": (int, ...)}, _count_pairs, about="sizes", worst=min)


class ShoutTreatment(Treatment):
    def apply(self, column, first_row):
        texts = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        return pc.utf8_upper(texts)


class Shout(Technique):
    """All letters are capitals."""

    name = "shout"
    title = "texts in capitals"
    roles = ("insensitive",)

    def prepare(self, column, source, chance, domain):
        return ShoutTreatment(column, pa.string(), self.public())


class Shouted(Declared):
    @property
    def determined(self):
        return True

    def recompute(self, values):
        return pc.utf8_upper(values.cast(pa.string()))

    @property
    def finding(self):
        return "texts are the source's in capitals"


class Coin(Attack):
    """Guesses."""

    name = "coin"
    title = "who is guessed"

    def refuses(self, view):
        return None

    def run(self, view, targets, control, rng):
        return Trials(self.name, Tally(int(rng.binomial(self.n_targets, 0.5)), self.n_targets))


class Together(Method):
    """All records are one class."""

    name = "together"
    title = "everyone in one class"
    form = "crowd"

    def plan(self, problem, rng, progress):
        widest = [[one.taxonomy.n_leaves for one in problem.quasi]]
        counts = problem.cells.counts
        return Plan.of_cells(np.zeros((1, len(problem.quasi)), np.int32), np.array(widest, np.int32),
                             np.zeros(len(counts), np.int32), counts)


class Crowd(Classes):
    """One class."""

    name = "crowd"

    def describe_rows(self):
        return "Each row is a record in the only class."
'''
ENTRY_POINTS = {
    "shoal.models": {"pairs": "toy_shoal:Pairs"},
    "shoal.promises": {"pairs": "toy_shoal:PAIRS"},
    "shoal.techniques": {"shout": "toy_shoal:Shout"},
    "shoal.declared": {"shout": "toy_shoal:Shouted"},
    "shoal.attacks": {"coin": "toy_shoal:Coin"},
    "shoal.methods": {"together": "toy_shoal:Together"},
    "shoal.forms": {"crowd": "toy_shoal:Crowd"},
    "shoal.verified-forms": {"crowd": "toy_shoal:verify_classes"},
}
POLICY: dict[str, Any] = {
    "attributes": {
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 120, "widths": [5, 10, 20]}}},
        "ill": {"role": "sensitive"},
        "note": {"role": "insensitive", "technique": {"shout": {}}},
    },
    "privacy": [{"pairs": {"n": 2}}],
    "method": "mondrian",
}


def install(folder: Path, entry_points: dict[str, dict[str, str]]) -> Path:
    """Write a distribution as an installer would, and return the folder to be put on the path."""
    metadata = folder / "toy_shoal-1.0.dist-info"
    metadata.mkdir()
    (folder / "toy_shoal.py").write_text(TOY, encoding="utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-shoal\nVersion: 1.0\n", encoding="utf-8")
    lines = [
        f"[{group}]\n" + "\n".join(f"{name} = {at}" for name, at in of.items()) for group, of in entry_points.items()
    ]
    (metadata / "entry_points.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return folder


def shoal(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command where the distribution is installed."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    code = "import sys; from shoal.cli import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-W", "default", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = "\n".join(f"{20 + i % 40},{'flu' if i % 3 else 'gout'},note {i % 7}" for i in range(200))
    (tmp_path / "data.csv").write_text(f"age,ill,note\n{rows}\n", encoding="utf-8")
    (tmp_path / "policy.json").write_text(json.dumps(POLICY), encoding="utf-8")
    return tmp_path


def publish(folder: Path, entry_points: dict[str, dict[str, str]]) -> subprocess.CompletedProcess[str]:
    install(folder, entry_points)
    data, policy, out = (str(folder / name) for name in ("data.csv", "policy.json", "out"))
    return shoal(folder, "anonymize", data, "-p", policy, "-o", out)


def test_models_techniques_and_attacks_of_others_are_used_like_shoals_own(table: Path) -> None:
    done = publish(table, ENTRY_POINTS)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((table / "out/public/manifest.json").read_text(encoding="utf-8"))
    (promise,) = manifest["guarantees"]
    assert (promise["model"], promise["parameters"]) == ("pairs", {"n": 2})
    assert promise["achieved"] >= 2
    readme = (table / "out/public/README.md").read_text(encoding="utf-8")
    assert "every class has at least n pairs of records" in readme
    assert "texts in capitals" in readme
    assert "NOTE 3" in (table / "out/public/data.csv").read_text(encoding="utf-8")
    assert "nothing about anything but pairs" in (table / "out/internal/report.html").read_text(encoding="utf-8")
    attacked = shoal(
        table, "attack", str(table / "out"), "--source", str(table / "data.csv"), "--attack", "coin", "--json"
    )
    assert attacked.returncode == 0, attacked.stderr
    (found,) = json.loads(attacked.stdout)["attacks"]
    assert (found["name"], found["attack"]["trials"]) == ("coin", 2000)


def test_methods_and_forms_of_others_are_published_and_verified(table: Path) -> None:
    (table / "policy.json").write_text(json.dumps(POLICY | {"method": "together"}), encoding="utf-8")
    done = publish(table, ENTRY_POINTS)
    assert done.returncode == 0, done.stderr
    manifest = json.loads((table / "out/public/manifest.json").read_text(encoding="utf-8"))
    assert (manifest["method"], manifest["form"], manifest["rows"]) == ("together", "crowd", 200)
    assert "the only class" in (table / "out/public/README.md").read_text(encoding="utf-8")
    verified = shoal(table, "verify", str(table / "out"), "--source", str(table / "data.csv"), "--json")
    assert json.loads(verified.stdout)["verdict"] == "verified"


def test_a_form_that_the_verifier_does_not_have_is_not_published(table: Path) -> None:
    (table / "policy.json").write_text(json.dumps(POLICY | {"method": "together"}), encoding="utf-8")
    done = publish(table, {group: of for group, of in ENTRY_POINTS.items() if group != "shoal.verified-forms"})
    assert done.returncode == 4
    assert "its form is unknown" in done.stderr
    assert not (table / "out").exists()


@pytest.mark.parametrize(
    ("without", "message"),
    [("shoal.promises", "this verifier does not know the model"), ("shoal.declared", "is unknown to this verifier")],
)
def test_what_the_verifier_does_not_know_is_not_published(table: Path, without: str, message: str) -> None:
    done = publish(table, {group: of for group, of in ENTRY_POINTS.items() if group != without})
    assert done.returncode == 4
    assert message in done.stderr
    assert not (table / "out").exists()


def test_a_broken_entry_point_is_named_where_it_is_asked_for_and_warned_of_elsewhere(table: Path) -> None:
    broken = ENTRY_POINTS | {"shoal.models": {"pairs": "toy_shoal:Nothing"}}
    done = publish(table, broken)
    assert done.returncode == 2
    assert "the entry point 'pairs' (toy_shoal:Nothing) in shoal.models of toy-shoal cannot be loaded" in done.stderr
    listed = shoal(table, "policy", "schema")
    assert listed.returncode == 0
    assert "it is left out" in listed.stderr
    assert '"k-anonymity"' in listed.stdout
