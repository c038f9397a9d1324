"""What every attack must keep, against releases of each form: one new attack, and all of these are tried on it.

Whether it counts or says why not is asked of releases of every kind in test_attack_kinds.py.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import releases

import shoal
from shoal.agency.apply import apply_plan
from shoal.agency.distribution import read_distribution
from shoal.agency.planning import make_plan, write_plan
from shoal.attacks.base import NO_CONTROL, Attack, Refusal, Trials
from shoal.attacks.running import attack, attack_names
from shoal.attacks.view import ReleaseView
from shoal.core.errors import InputError, UsageError
from shoal.core.registry import discover
from shoal.release.forms.agreed import read_plan

ATTACKS = discover("shoal.attacks", Attack)
TREE = {"tree": {"any": {"lung": ["asthma", "flu"], "other": ["gout", "ulcer", "migraine"]}}}
ROLES: dict[str, dict[str, Any]] = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 100, "widths": [5, 20]}}},
    "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 3}}},
    "sex": {"role": "quasi"},
    "ill": {"role": "sensitive", "taxonomy": TREE},
    "pay": {"role": "insensitive"},
}
BUCKETS = {"anatomy", "overlapping", "generalized slices"}
SWEEPS = {"sweep", "sweep of the paper"}
CLASSES = {"mondrian", *SWEEPS, "incognito for l"}
WHOLE = {*CLASSES, "as it is"}
APPLIES = {  # of attacks that have no meaning for some releases, the kinds for which they have one
    # Only labels between values and root show which values are alike. The defended sweep has no such labels here.
    "similarity": {"sweep of the paper"},
    "composition": set(),  # needs other releases
    "copies": WHOLE,  # in buckets no row is one record's
    "decoding": SWEEPS,  # sensitive values are generalized
    "definetti": BUCKETS,
    "downcoding": {"mondrian", *SWEEPS},  # labels show hierarchies
    "minimality": set(),  # needs the policy, which says what is below a label
    "named-values": set(),  # no value has a single holder
    "reconstruction": WHOLE,
    "refinement": {"mondrian", *SWEEPS},  # classes overlap
}


def people(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "name": [f"person {seed}-{i}" for i in range(n)],
            "age": rng.integers(18, 90, n),
            "zip": [f"{code:03d}" for code in rng.integers(100, 160, n)],
            "sex": pa.array([None if x > 0.98 else "F" if x < 0.5 else "M" for x in rng.random(n)], pa.string()),
            "ill": rng.choice(["asthma", "flu", "gout", "ulcer", "migraine"], n, p=[0.3, 0.3, 0.2, 0.1, 0.1]),
            "pay": rng.integers(1000, 5000, n),
        }
    )


SOURCE, CONTROL = people(800, 1), people(700, 2)


def made(privacy: dict[str, Any], method: dict[str, Any]) -> Callable[[Path], Any]:
    def make(folder: Path) -> Any:
        policy = {"attributes": ROLES, "privacy": [{name: privacy[name]} for name in privacy], "method": method}
        shoal.anonymize(SOURCE, policy, out=folder / "out", seed=1)
        return folder / "out"

    return make


def as_rows(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], Any]:
    """A release whose rows are values, as techniques without classes publish them."""

    def make(folder: Path) -> Any:
        rows = change(SOURCE.drop_columns(["name"]))
        kinds = {"age": "number", "pay": "number"}
        attributes = {
            name: {"role": ROLES[name]["role"], "kind": kinds.get(name, "category")} for name in rows.column_names
        }
        manifest = releases.DEFAULTS | {
            "method": "plain",
            "parts": [rows.column_names],
            "attributes": attributes,
            "data": {"file": "data.parquet", "format": "parquet", "sha256": "0" * 64},
        }
        pq.write_table(rows, folder / "data.parquet")
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return folder

    return make


SLICED = {"simple-l-diversity": {"l": 2}}
KINDS: dict[str, Callable[[Path], Any]] = {
    "mondrian": made({"k-anonymity": {"k": 5}}, {"mondrian": {}}),
    "sweep": made({"tau-l-diversity": {"tau": 0.6, "l": 3}}, {"sweep": {}}),
    "sweep of the paper": made({"tau-l-diversity": {"tau": 0.6, "l": 3}}, {"sweep": {"defend": False}}),
    "incognito for l": made({"distinct-l-diversity": {"l": 3}}, {"incognito": {}}),
    "anatomy": made(SLICED, {"anatomy": {}}),
    "overlapping": made(
        SLICED, {"slicing": {"parts": [["age", "sex"], ["sex", "ill"], ["zip", "pay"]], "overlapping": True}}
    ),
    "generalized slices": made(
        SLICED | {"column-frequency": {"k": 9}}, {"slicing": {"parts": [["age", "zip"], ["sex", "ill"], ["pay"]]}}
    ),
    "as it is": as_rows(lambda rows: rows),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def release(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return KINDS[kind](tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made({"distinct-l-diversity": {"l": 2}}, {"mondrian": {}})(tmp_path_factory.mktemp("other"))


def test_the_attacks_of_this_part_are_there() -> None:
    assert set(attack_names()) >= {
        "background-knowledge",
        "composition",
        "copies",
        "decoding",
        "definetti",
        "downcoding",
        "external",
        "homogeneity",
        "inference",
        "linkability",
        "membership",
        "minimality",
        "named-values",
        "reconstruction",
        "refinement",
        "similarity",
        "singling-out",
        "skewness",
    }
    assert all(kind.title and kind.name == name for name, kind in ATTACKS.items())


def test_every_attack_counts_or_says_why_not(kind: str, release: Path) -> None:
    found = attack(release, SOURCE, CONTROL, targets=100, seed=5)
    assert list(dict.fromkeys(each.attack for each in found)) == list(ATTACKS)  # reconstruction is of several columns
    tried = {each.attack for each in found if isinstance(each, Trials)}
    assert tried == {name for name in ATTACKS if kind in APPLIES.get(name, KINDS)}
    for each in found:
        if isinstance(each, Refusal):
            assert len(each.reason) > 20
            continue
        stated = each.as_dict()
        json.dumps(stated)
        assert stated["control"]["trials"] > 0
        assert stated["attack"]["trials"] <= (800 if each.attack == "copies" else 200)  # which looks at everybody
        assert stated["risk"]["low"] <= stated["risk"]["value"] <= stated["risk"]["high"]
        assert NO_CONTROL not in stated.get("notes", [])


def test_a_seed_repeats_a_run_whatever_else_is_tried(release: Path) -> None:
    one = attack(release, SOURCE, CONTROL, targets=60, seed=9)
    two = attack(release, SOURCE, CONTROL, targets=60, seed=9, attacks=["inference", "singling-out"])
    assert [each for each in one if each.attack in ("inference", "singling-out")] == two


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    folder = as_rows(lambda rows: rows)(tmp_path)
    with pytest.raises(UsageError, match=r"unknown attack 'infrence'.*inference"):
        attack(folder, SOURCE, attacks=["infrence"])
    with pytest.raises(InputError, match="source has no column 'zip'"):
        attack(folder, SOURCE.drop_columns(["zip"]))
    with pytest.raises(InputError, match="fewer than 7 records"):
        attack(folder, SOURCE.slice(0, 6))
    with pytest.raises(InputError, match="no manifest"):
        attack(tmp_path / "nothing", SOURCE)
    (lacking,) = attack(folder, SOURCE, CONTROL.drop_columns(["ill"]), targets=50, attacks=["inference"], seed=1)
    assert isinstance(lacking, Trials)
    assert lacking.control is None
    assert "cannot be judged" in lacking.notes[0]


@pytest.mark.parametrize("arrangement", ["contiguous", "gathered"])
def test_a_release_by_a_plan_is_read_by_its_classes(tmp_path: Path, arrangement: str) -> None:
    """Hulls of a plan's classes overlap, its classes do not: everybody is in one, which the plan tells."""
    rng = np.random.default_rng(6)
    rows = [
        (age, sex, town, ill, int(rng.integers(1, 25)))
        for age, sex, town, ill in itertools.product(
            range(20, 26), "fm", ("Ash", "Elm", "Oak"), ("cold", "flu", "gout")
        )
    ]
    names = ("age", "sex", "town", "ill", "count")
    counts = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    plan = make_plan(
        read_distribution(counts, "ill"), promise=2, delta=Fraction("0.05"), samples=900, arrangement=arrangement
    )
    write_plan(plan, tmp_path / "plan.json")
    weights = counts["count"].to_numpy() / counts["count"].to_numpy().sum()
    source, control = (counts.take(rng.choice(len(rows), plan.records, p=weights)) for _ in range(2))
    apply_plan(tmp_path / "plan.json", source.drop_columns(["count"]), tmp_path / "out", format="parquet")
    published = pq.read_table(tmp_path / "out" / "public" / "data.parquet")
    agreed = read_plan(tmp_path / "plan.json")
    view = ReleaseView.read(tmp_path / "out")
    members = view.people(source, "the source")
    codes = [
        np.array([values.index(str(value)) for value in source[name].to_pylist()])
        for name, values in zip(agreed.quasi, agreed.quasi_values, strict=True)
    ]
    sizes = np.bincount(published["class"].to_numpy(), minlength=agreed.classes + 1)
    own = sizes[agreed.locate(codes) + 1]
    assert view.copies(members.codes, members.numbers)[0].tolist() == own.tolist()
    assert view.find_left(view.secrets["ill"], members).entries.tolist() == own.tolist()
    found = attack(tmp_path / "out", source, control, targets=100, seed=1)
    assert {each.attack for each in found if isinstance(each, Refusal)} == set(APPLIES)
    with pytest.raises(UsageError, match="give the folder"):
        releases.view(published, view.manifest)
