"""Releases by an agency's plan, linked: every point of the domain asked of every published row."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.tables import cover

from shoal.agency.apply import apply_plan
from shoal.agency.distribution import read_distribution
from shoal.agency.planning import make_plan, write_plan
from shoal.core.errors import InputError
from shoal.linking import linking
from shoal.linking.linkable import make_boxes
from shoal.linking.linking import link
from shoal.release.forms.agreed import AgreedPlan, read_plan

ILLNESSES = ("cold", "flu", "gout", "mumps", "rash")
SEXES = ("f", "m")
TOWNS = ("Ash", "Elm", "Fir", "Oak")
AGES = range(20, 26)


def counts() -> pa.Table:
    rng = np.random.default_rng(8)
    points = [point for point in itertools.product(AGES, SEXES, TOWNS) if rng.random() < 0.85]
    rows = [(*point, illness, int(rng.integers(1, 25))) for point in points for illness in ILLNESSES]
    names = ("age", "sex", "town", "illness", "count")
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def drawn(known: pa.Table, n: int, seed: int) -> pa.Table:
    weights = known["count"].to_numpy()
    rows = np.random.default_rng(seed).choice(len(weights), n, p=weights / weights.sum())
    return known.take(rows).drop_columns(["count"])


WAYS = {
    "runs": ("lexicographic", "contiguous"),
    "hilbert": ("hilbert", "contiguous"),
    "gathered": ("lexicographic", "gathered"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Return three releases by each of three plans."""
    folder, known = tmp_path_factory.mktemp("agreed"), counts()
    folders: dict[str, list[Path]] = {}
    for way, (order, arrangement) in WAYS.items():
        plan = make_plan(
            read_distribution(known, "illness", order=order), promise=3, delta=Fraction("0.2"), samples=900,
            arrangement=arrangement,
        )  # fmt: skip
        write_plan(plan, folder / f"{way}.json")
        folders[way] = [folder / f"{way}-{seed}" for seed in range(3)]
        for seed, out in enumerate(folders[way]):
            apply_plan(folder / f"{way}.json", drawn(known, plan.records + 40, seed), out, seed=seed, format="csv")
    return folders


def plan_of(folder: Path) -> AgreedPlan:
    return read_plan(folder / "public" / "plan.json")


def left(folder: Path, **person: str) -> Counter[str]:
    """Return what a release leaves, by its rows' classes and the plan's points alone."""
    agreed = plan_of(folder)
    points = [
        tuple(v[c] for v, c in zip(agreed.quasi_values, p, strict=True)) for p in zip(*agreed.points, strict=True)
    ]
    classes = {
        int(number) + 1
        for point, number in zip(points, agreed.number, strict=True)
        if all(point[agreed.quasi.index(name)] == value for name, value in person.items())
    }
    rows = pyarrow.csv.read_csv(folder / "public" / "data.csv").to_pylist()
    return Counter(row["illness"] for row in rows if row["class"] in classes)


def together(each: list[Counter[str]]) -> dict[str, int]:
    return {s: n for s in ILLNESSES if (n := min(counted[s] for counted in each))}


PEOPLE = [
    {"age": str(age), "sex": sex, "town": town} for age, sex, town in itertools.product((*AGES, 40), SEXES, TOWNS)
]


@pytest.mark.parametrize(
    ("floor", "ways"),
    cover(
        [4, 5],
        [
            ("runs", "gathered"),
            ("hilbert", "runs"),
            ("runs",) * 2,
            ("runs",) * 3,
            ("gathered",) * 2,
            ("runs", "gathered", "hilbert"),
        ],
    ),
)
def test_points_are_left_what_their_classes_have(
    ways: tuple[str, ...], floor: int, made: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [made[way][place] for place, way in enumerate(ways)]
    expected = {tuple(person.values()): together([left(each, **person) for each in folders]) for person in PEOPLE}
    linked = [each for each in expected.values() if each]
    assert 0 < len(linked) < len(PEOPLE)
    population = pa.table({name: [person[name] for person in PEOPLE] for name in ("age", "sex", "town")})
    found = link(folders, population=population, floor=floor)
    assert (found.people, found.people_linked) == (len(PEOPLE), len(linked))
    assert found.people_below == sum(len(each) < floor for each in linked)
    assert found.l == min(map(len, linked))
    whole = link(folders, floor=floor)
    monkeypatch.setattr(linking, "_FEW", 1)  # threads, none of which breaks up a class
    assert link(folders, floor=floor).as_dict() == whole.as_dict()
    assert whole.exact
    assert whole.l == found.l
    assert whole.frequency_l == pytest.approx(found.frequency_l)
    assert whole.entropy_l == pytest.approx(found.entropy_l)
    combined = {
        tuple(number_of(each, person) for each in folders): expected[tuple(person.values())] for person in PEOPLE
    }
    combined = {key: each for key, each in combined.items() if None not in key}
    assert whole.combinations == sum(bool(each) for each in combined.values())
    assert whole.combinations_below == sum(0 < len(each) < floor for each in combined.values())
    assert len({tuple(c["class"] for c in case.classes) for case in whole.worst}) == len(whole.worst)
    below = [key for key, each in combined.items() if 0 < len(each) < floor]
    sizes = [Counter(pyarrow.csv.read_csv(each / "public" / "data.csv")["class"].to_pylist()) for each in folders]
    most = [sum(size[number] for number in {key[at] for key in below}) for at, size in enumerate(sizes)]
    assert whole.people_below == min(most)
    if len(set(ways)) == 1:
        assert whole.l >= 3 == whole.promised
        assert whole.plan == plan_of(folders[0]).digest
    else:
        assert whole.plan is None
        assert whole.promised is None


def number_of(folder: Path, person: dict[str, str]) -> int | None:
    agreed = plan_of(folder)
    codes = [
        np.array([values.index(person[name]) if person[name] in values else -1])
        for name, values in zip(agreed.quasi, agreed.quasi_values, strict=True)
    ]
    found = int(agreed.locate(codes)[0])
    return None if found < 0 else found + 1


def test_spoiled_plans_are_refused(made: dict[str, list[Path]], tmp_path: Path) -> None:
    good = made["runs"][0]

    def refused(change: Any, said: str) -> None:
        shutil.copytree(good, tmp_path / "bad")
        public = tmp_path / "bad" / "public"
        change(public)
        with pytest.raises(InputError, match=said):
            link([good, tmp_path / "bad"])
        shutil.rmtree(tmp_path / "bad")

    def manifest(**entries: Any) -> Any:
        def change(public: Path) -> None:
            document = json.loads((public / "manifest.json").read_text())
            document["agreed"] = entries.get("agreed", {**document["agreed"], **entries})
            (public / "manifest.json").write_text(json.dumps(document))

        return change

    def classes(text: str) -> Any:
        def change(public: Path) -> None:
            lines = (public / "data.csv").read_text().splitlines()
            lines[1] = text + lines[1][lines[1].index(",") :]
            (public / "data.csv").write_text("\n".join(lines) + "\n")

        return change

    refused(lambda public: (public / "plan.json").unlink(), "lacks its plan")
    refused(lambda public: shutil.copy(made["hilbert"][0] / "public" / "plan.json", public), "not the file")
    refused(manifest(digest="0" * 64), "the digest of its plan is not in the manifest")
    refused(manifest(sha256="0" * 64), "not the file")
    refused(manifest(agreed=5), "not the manifest of a release")
    for text in ("0", "100000", "-1", "one", "1.5", "9" * 30, ""):
        refused(classes(text), "classes that its plan does not have")


@pytest.mark.parametrize("seed", range(10))
def test_boxes_hold_every_point_of_their_class_once_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (5, 4, 6)[: 1 + seed % 3]
    cells = np.flatnonzero(rng.random(int(np.prod(shape))) < 0.8)
    number = np.sort(rng.integers(0, 4, len(cells))) if seed % 2 else rng.integers(0, 4, len(cells))
    points = np.unravel_index(cells, shape)
    order = rng.permutation(len(cells))
    owner, low, high = make_boxes(number[order].astype(np.int32), [column[order] for column in points])
    found = [
        (int(each), *point)
        for each, begin, end in zip(owner, low, high, strict=True)
        for point in itertools.product(*map(range, begin, end))
    ]
    assert sorted(found) == sorted(zip(number.tolist(), *(column.tolist() for column in points), strict=True))
    if len(shape) == 2 and seed % 2:
        assert len(owner) < len(cells) / 2
