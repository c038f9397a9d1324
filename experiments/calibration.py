"""Calibration of attacks: known exposures are planted into releases, and every attack is asked whether it finds them.

A release is made of people who are neither in the source nor in the control group, so that nothing in it is about
either: to every attack the two are alike, and each alarm is false by construction. Then some of its rows are replaced.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from shoal.anonymize import anonymize
from shoal.attacks.base import Refusal
from shoal.attacks.running import attack
from shoal.core.arrays import BoolArray
from shoal.core.progress import Progress
from shoal.release.release import Release

SHARES = (0.001, 0.01, 0.05, 0.25)
WAYS = ("verbatim", "noisy", "unique", "random")
N_RECORDS = 10_000
N_WORLDS = 12
N_HARMLESS = 100  # more worlds, in whose releases nothing is planted that is anybody's
OFTEN = ("copies", "similarity", "skewness")  # attacks that are tried on these, too
ANY = "any attack"
PEER = "anonymeter"
ALONE = "anonymeter alone"  # found by it and by no attack of ours
PEER_FORMS, PEER_WORLDS = ("synthetic", "plain"), 2
PEER_ASKED = (("unique", 0.01), ("unique", 0.05), ("unique", 0.25), ("random", 0.25))
PEER_PYTHON = Path(".venv-anonymeter") / "bin" / "python"
PEER_QUESTIONS = Path(__file__).with_name("anonymeter_questions.py")
QUICK_FORMS = ("classes", "synthetic")
QUICK_SHARES = (0.01, 0.25)
QUICK_RECORDS = 4_000
NEAR = 2  # how far a planted number may be from the person's own
SWAPPED = 0.15  # chance of a category of a noisy row to be somebody else's
COLUMNS: dict[str, int] = {"sex": 2, "town": 30, "education": 8, "job": 16, "origin": 12}
ILLNESSES = 10
FORMS: dict[str, dict[str, Any]] = {
    "classes": {"method": {"mondrian": {}}, "privacy": [{"k-anonymity": {"k": 10}}]},
    "anatomy": {"method": {"anatomy": {}}, "privacy": [{"simple-l-diversity": {"l": 3}}]},
    "slices": {"method": {"slicing": {"columns": 3}}, "privacy": [{"simple-l-diversity": {"l": 3}}]},
    "averages": {"method": {"microaggregation": {}}, "privacy": [{"k-anonymity": {"k": 10}}]},
    "synthetic": {"method": {"synthetic": {"epsilon": 1}}, "privacy": []},
    "plain": {"method": {"plain": {}}, "privacy": []},
    "noise and swapping": {"method": {"plain": {}}, "privacy": []},
}
TECHNIQUES = {"age": {"noise": {"laplace": {"scale": 5}, "edges": "redraw", "decimals": 0}}} | {
    name: {"swapping": {"share": 0.2}} for name in COLUMNS
}


@dataclass(frozen=True, slots=True)
class Cell:
    """How often one attack raised an alarm over releases of one form with one exposure."""

    form: str
    way: str
    share: float
    attack: str
    alarms: int
    runs: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """What every attack found, what it was not tried on, and on how many people."""

    records: int
    worlds: int
    seed: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """Three groups of people like each other: whom a release is made of, and two that it says nothing of."""

    donors: pa.Table
    source: pa.Table
    control: pa.Table

    @classmethod
    def of(cls, n_records: int, rng: np.random.Generator) -> World:
        """Draw them."""
        return cls(*(draw_people(n_records, rng) for _ in range(3)))


def draw_people(n: int, rng: np.random.Generator) -> pa.Table:
    """Draw people with a few common and many rare values, whose jobs and illnesses follow from other values.

    >>> draw_people(3, np.random.default_rng(1)).column_names[:3]
    ['name', 'age', 'sex']
    """
    age = np.clip(rng.normal(46, 17, n).round(), 18, 95).astype(np.int64)
    found: dict[str, Any] = {"name": [f"{number:x}" for number in rng.integers(1 << 60, size=n)], "age": age}
    education = np.zeros(n, dtype=np.int64)
    for name, n_values in COLUMNS.items():
        weights = 1 / np.arange(1, n_values + 1) ** 1.3
        codes = rng.choice(n_values, n, p=weights / weights.sum())
        if name == "education":
            education = codes
        if name == "job":
            codes = np.where(rng.random(n) < 0.6, (3 * education + codes) % n_values, codes)
        found[name] = [f"{name} {code}" for code in codes]
    illness = np.where(rng.random(n) < 0.3, age // 10, rng.integers(ILLNESSES, size=n)) % ILLNESSES
    return pa.table(found | {"illness": [f"illness {code}" for code in illness]})


def make_policy(form: str) -> dict[str, Any]:
    """Return the policy of one form of release, with all values declared."""
    declared = {name: {"flat": [f"{name} {code}" for code in range(n)]} for name, n in COLUMNS.items()}
    age = {"intervals": {"min": 18, "max": 95, "widths": [5, 10, 20]}}
    kinds = {f"kind {kind}": [f"illness {code}" for code in range(kind, ILLNESSES, 3)] for kind in range(3)}
    attributes: dict[str, dict[str, Any]] = {
        "name": {"role": "identifier"},
        "age": {"role": "quasi", "taxonomy": age},
        **{name: {"role": "quasi", "taxonomy": taxonomy} for name, taxonomy in declared.items()},
        "illness": {"role": "sensitive", "taxonomy": {"groups": kinds}},
    }
    if form == "noise and swapping":
        for name, technique in TECHNIQUES.items():
            attributes[name]["technique"] = technique
    return {"attributes": attributes, **FORMS[form]}


def draw_planted(world: World, way: str, n: int, rng: np.random.Generator) -> pa.Table:
    """Return n rows to plant: people of the source, as they are or nearly, or rows that are nobody's."""
    if way == "random":  # each column from another row of those whom the release is made of anyway
        donors = world.donors
        columns = {
            name: donors.column(name).take(rng.integers(donors.num_rows, size=n)) for name in donors.column_names
        }
        return pa.table(columns)
    among = np.flatnonzero(find_unique(world.source)) if way == "unique" else np.arange(world.source.num_rows)
    rows = world.source.take(rng.choice(among, n, replace=False))
    if way != "noisy":
        return rows
    moved = np.clip(rows.column("age").to_numpy() + rng.integers(-NEAR, NEAR + 1, n), 18, 95)
    changed: dict[str, Any] = {"age": moved}
    for name in COLUMNS:
        others = world.donors.column(name).take(rng.integers(world.donors.num_rows, size=n))
        changed[name] = pc.if_else(pa.array(rng.random(n) < SWAPPED), others, rows.column(name))
    return pa.table({name: changed.get(name, rows.column(name)) for name in rows.column_names})


def find_unique(table: pa.Table) -> BoolArray:
    """Return (n_rows,) whose quasi values nobody else has."""
    keys = ["age", *COLUMNS]
    counts = table.append_column("row", pa.array(np.arange(table.num_rows))).group_by(keys)
    found = counts.aggregate([("row", "count"), ("row", "min")])
    alone = np.zeros(table.num_rows, dtype=np.bool_)
    alone[found.column("row_min").filter(pc.equal(found.column("row_count"), 1)).to_numpy()] = True
    return alone


def plant(release: Release, rows: pa.Table, rng: np.random.Generator) -> Release:
    """Return the release with these rows in place of as many of its own, each by itself.

    Values become the labels that stand for nothing else, and every row of a sliced release has a bucket of its own.
    """
    data: pa.Table = release.data
    attributes = {name: dict(entry) for name, entry in release.manifest["attributes"].items()}
    columns: dict[str, pa.Array] = {}
    for name in data.column_names:
        if name == "bucket":
            first = pc.max(data.column(name)).as_py() + 1
            columns[name] = pa.array(np.arange(first, first + rows.num_rows)).cast(data.column(name).type)
            continue
        values = rows.column(name).combine_chunks()
        columns[name] = values.cast(data.column(name).type)
        if "labels" in attributes[name]:
            attributes[name]["labels"] = attributes[name]["labels"] | _list_labels(values)
            attributes[name].pop("domain", None)  # it counts the leaves under the labels of the release itself
    kept = np.sort(rng.permutation(data.num_rows)[rows.num_rows :])
    whole = pa.concat_tables([data.take(kept).cast(data.schema), pa.table(columns, schema=data.schema)])
    mixed = whole.take(rng.permutation(whole.num_rows))
    if "bucket" in columns:  # numbered without gaps, though all rows of one may be gone
        numbers = np.unique(mixed.column("bucket").to_numpy(), return_inverse=True)[1] + 1
        mixed = mixed.set_column(0, data.schema.field(0), pa.array(numbers).cast(data.schema.field(0).type))
    return replace(release, data=mixed, manifest={**release.manifest, "attributes": attributes})


def _list_labels(values: pa.Array) -> dict[str, dict[str, Any]]:
    """Return the label of each value, which covers it alone."""
    if pa.types.is_integer(values.type):
        return {str(value): {"from": value, "below": value + 1} for value in values.unique().to_pylist()}
    return {value: {"values": [value]} for value in values.unique().to_pylist()}


def run_world(
    records: int,
    seed: int,
    forms: tuple[str, ...],
    shares: tuple[float, ...],
    peer: bool = False,
    ways: tuple[str, ...] = WAYS,
    attacks: tuple[str, ...] | None = None,
) -> list[Cell]:
    """Plant exposures into a release of every form, and try all or some attacks once; anonymeter too, if it is asked.

    Anonymeter knows whole rows of values only, and takes long.
    """
    rng = np.random.default_rng(seed)
    world = World.of(records, rng)
    found = []
    for form in forms:
        policy = make_policy(form)
        release = anonymize(world.donors, policy, seed=int(rng.integers(1 << 30)))
        for way in ways:
            for share in shares:
                planted = plant(release, draw_planted(world, way, round(share * records), rng), rng)
                own = int(rng.integers(1 << 30))
                alarms = find_alarms(planted, world, policy, own, attacks)
                if peer and form in PEER_FORMS and (way, share) in PEER_ASKED:
                    theirs = ask_peer(planted, world, own)
                    alarms |= {name: [alarm] for name, alarm in theirs.items()}
                    alarms[ALONE] = [any(theirs.values()) and not any(alarms[ANY])]
                found += [
                    Cell(form, way, share, name, sum(raised), len(raised))
                    for name, raised in alarms.items()
                    if name in (attacks or alarms)
                ]
    return found


def try_attacks(
    release: Release,
    source: pa.Table,
    control: pa.Table,
    policy: Mapping[str, Any] | None,
    seed: int,
    attacks: Sequence[str] | None = None,
) -> list[tuple[str, bool]]:
    """Return the attacks that apply to the release, once for each column, and whether each raises an alarm."""
    asked: dict[str, Any] = {"attacks": attacks, "register": source.drop_columns("illness")}
    found = attack(release, source, control, seed=seed, policy=policy, **asked)
    return [(each.attack, each.worst.low > 0) for each in found if not isinstance(each, Refusal)]


def find_alarms(
    release: Release, world: World, policy: Mapping[str, Any], seed: int, attacks: tuple[str, ...] | None = None
) -> dict[str, list[bool]]:
    """Return for each attack that applies to the release whether it raises an alarm, column by column."""
    alarms: dict[str, list[bool]] = {}
    for name, alarm in try_attacks(release, world.source, world.control, policy, seed, attacks):
        alarms.setdefault(name, []).append(alarm)
    return alarms | {ANY: [any(map(any, alarms.values()))]}


def ask_peer(release: Release, world: World, seed: int, n_attacks: int = 500) -> dict[str, bool]:
    """Return the same of anonymeter's attacks, of which its interval says whether it is sure."""
    names = release.data.column_names
    with tempfile.TemporaryDirectory() as folder:
        tables = {"source": world.source, "published": _read_numbers(release), "control": world.control}
        for stem, table in tables.items():
            csv.write_csv(table.select(names), Path(folder) / f"{stem}.csv")
        asked = ["--secret", "illness", "--attacks", str(n_attacks), "--seed", str(seed)]
        command = [str(PEER_PYTHON), str(PEER_QUESTIONS), folder, *asked]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True)  # noqa: S603
    answers = json.loads(done.stdout)
    return {f"{PEER} {name}": risk is not None and risk["low"] > 0 for name, risk in answers.items()}


def _read_numbers(release: Release) -> pa.Table:
    """Return the published rows with numbers in place of labels: of a range the middle."""
    data: pa.Table = release.data
    labels = release.manifest["attributes"]["age"].get("labels")
    if labels is None:
        return data
    middles = {text: (cover.get("from", 18) + cover.get("below", 96) - 1) // 2 for text, cover in labels.items()}
    ages = [middles[text] for text in data.column("age").to_pylist()]
    return data.set_column(data.column_names.index("age"), "age", pa.array(ages))


def run_calibration(
    *, quick: bool, seed: int, progress: Progress, more: Sequence[Callable[[], list[Cell]]] = ()
) -> Calibration:
    """Run all worlds and *more*, in as many processes as there are processors."""
    records, worlds = (QUICK_RECORDS, 1) if quick else (N_RECORDS, N_WORLDS)
    forms, shares = (QUICK_FORMS, QUICK_SHARES) if quick else (tuple(FORMS), SHARES)
    n_peers = PEER_WORLDS if not quick and PEER_PYTHON.exists() else 0
    asked: list[Callable[[], list[Cell]]] = [
        partial(run_world, records, 1000 * seed + world, forms, shares, world < n_peers) for world in range(worlds)
    ]
    if not quick:
        harmless = partial(run_world, records, forms=tuple(FORMS), shares=(0.01,), ways=("random",), attacks=OFTEN)
        asked += [partial(harmless, seed=1000 * seed + worlds + number) for number in range(N_HARMLESS)]
    asked += more
    counted: dict[tuple[str, str, float, str], tuple[int, int]] = {}
    with progress.step("calibrating", len(asked), unit="worlds") as step:
        for cells in _run_worlds(asked):
            for cell in cells:
                key = cell.form, cell.way, cell.share, cell.attack
                alarms, runs = counted.get(key, (0, 0))
                counted[key] = alarms + cell.alarms, runs + cell.runs
            step.advance(1)
    found = tuple(Cell(*key, alarms, runs) for key, (alarms, runs) in counted.items())
    return Calibration(records, worlds, seed, found)


def _run_worlds(asked: Sequence[Callable[[], list[Cell]]]) -> Iterator[list[Cell]]:
    if len(asked) == 1:
        yield asked[0]()
        return
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as processes:
        for waiting in [processes.submit(each) for each in asked]:
            yield waiting.result()
