"""Calibration on exposures that earlier versions of a method made: suppression, absence, lists, determined columns.

Every exposure has a harmless twin. If an attack needs the people of whom a release was made, then the twin has the same
release, and the sensitive values of source and control group are drawn again, all values alike: any guess is as often
right in one group as in the other. Otherwise the twin is made from people of neither group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from experiments.calibration import COLUMNS, ILLNESSES, Cell, draw_people, make_policy, try_attacks
from experiments.calibration_page import METHOD, NOBODY
from shoal.anonymize import anonymize
from shoal.core.arrays import BoolArray, CodeArray
from shoal.manifest import FORMAT
from shoal.release.release import Release
from shoal.verify.result import Verification

N_PEOPLE = 3_000
N_RUNS = 300  # of each exposure and of its twin: without an alarm, at most 1% are false at 95% confidence
BATCH = 10  # runs that a process does in a row
K = 5
FREQUENT = 0.4  # share of people who are given the most frequent illness, whatever they had
EXPOSED_SHARE = 0.1  # of the combinations of k people that have one illness
SUPPRESSED = ("sex", "town", "education")
WITHHELD_TOWNS = range(20, 30)
CODES, CHAPTERS = 3_000, 12
STAR = "*"


class Case(NamedTuple):
    """A release, the people it is tried on, and its policy if the attack may see it."""

    release: Release
    source: pa.Table
    control: pa.Table
    policy: Mapping[str, Any] | None


class Exposure(NamedTuple):
    """What a method gave away, and the attacks that should see it."""

    title: str
    attacks: tuple[str, ...]
    make: Callable[[int, np.random.Generator, bool], Case]


def suppress_groups(n: int, rng: np.random.Generator, harmless: bool) -> Case:
    """Publish combinations of k people with two illnesses as they are, and suppress all others.

    Local suppression did this for distinct l-diversity, so a suppressed combination of k people has one illness. Some
    combinations are given the most frequent illness.
    """
    source, control = (draw_frequent(n, rng).select([*SUPPRESSED, "illness"]) for _ in range(2))
    group = np.unique([encode(source, name) for name in SUPPRESSED], axis=1, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(group)
    source = _set_illness(source, ((rng.random(len(sizes)) < EXPOSED_SHARE) & (sizes >= K))[group])
    pairs = np.unique([group, encode(source, "illness")], axis=1)
    shown = ((sizes >= K) & (np.bincount(pairs[0]) > 1))[group]
    columns = {name: pc.if_else(pa.array(shown), source.column(name), STAR) for name in SUPPRESSED}
    rows = pa.table({**columns, "illness": source.column("illness")})
    return _draw_again(Case(_publish(rows, "local-suppression", 0, rng), source, control, None), rng, harmless)


def withhold_alike(n: int, rng: np.random.Generator, harmless: bool) -> Case:
    """Publish a class for each town, but withhold the people of some towns, who all have the most frequent illness."""
    source, control = (draw_frequent(n, rng).select(["town", "illness"]) for _ in range(2))
    gone = pc.is_in(source.column("town"), pa.array([f"town {code}" for code in WITHHELD_TOWNS])).to_numpy()
    source = _set_illness(source, gone)
    release = _publish(source.filter(pa.array(~gone)), "hilbert", int(gone.sum()), rng)
    return _draw_again(Case(release, source, control, None), rng, harmless)


def _publish(rows: pa.Table, method: str, withheld: int, rng: np.random.Generator) -> Release:
    """Return a release as an earlier version of a method wrote it, with labels for values and for all of them."""
    attributes: dict[str, Any] = {"illness": {"role": "sensitive", "kind": "category"}}
    for name in rows.column_names[:-1]:
        values = sorted({*rows.column(name).unique().to_pylist()} - {STAR})
        labels = {STAR: {"any": True}, **{value: {"values": [value]} for value in values}}
        attributes[name] = {"role": "quasi", "kind": "category", "labels": labels}
    manifest = {
        "format": FORMAT,
        "shoal_version": "calibration",
        "method": method,
        "method_parameters": {},
        "rows": rows.num_rows,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "parts": [rows.column_names],
        "attributes": {name: attributes[name] for name in rows.column_names},
        "guarantees": [
            {"model": "k-anonymity", "parameters": {"k": K}, "achieved": None},
            {"model": "distinct-l-diversity", "parameters": {"l": 2}, "achieved": None},
        ],
        "withheld": withheld,
    }
    return Release(manifest, {}, Verification((), ()), cast("Any", None), rows.take(rng.permutation(rows.num_rows)))


def list_occurring(n: int, rng: np.random.Generator, harmless: bool) -> Case:
    """List under each label of a code the values that occur among the people, not all values of the policy."""
    donors, source, control = (_add_codes(draw_people(n, rng), rng) for _ in range(3))
    own = donors if harmless else source
    policy = make_policy("classes")
    chapters = {
        f"chapter {place}": [f"code {code}" for code in range(place, CODES, CHAPTERS)] for place in range(CHAPTERS)
    }
    policy["attributes"] = {
        **{name: policy["attributes"][name] for name in ("name", "age", "sex", "illness")},
        "code": {"role": "quasi", "taxonomy": {"groups": chapters}},
    }
    people = own.select(list(policy["attributes"]))
    release = anonymize(people, policy, seed=int(rng.integers(1 << 30)))
    entry = release.manifest["attributes"]["code"]
    occurring = set(own.column("code").unique().to_pylist())
    labels = {
        text: {**cover, "values": [code for code in cover["values"] if code in occurring]}
        if "values" in cover
        else cover
        for text, cover in entry["labels"].items()
    }
    kept = {key: value for key, value in entry.items() if key != "domain"}  # which counts the declared values
    attributes = {**release.manifest["attributes"], "code": {**kept, "labels": labels}}
    return Case(replace(release, manifest={**release.manifest, "attributes": attributes}), source, control, policy)


def publish_determining(n: int, rng: np.random.Generator, harmless: bool) -> Case:
    """Publish beside the generalized town an insensitive column, the density, that follows from the town."""
    donors, source, control = (_add_density(draw_people(n, rng)) for _ in range(3))
    policy = make_policy("classes")
    policy["attributes"] = {**policy["attributes"], "density": {"role": "insensitive"}}
    release = anonymize(donors if harmless else source, policy, seed=int(rng.integers(1 << 30)))
    return Case(release, source, control, policy)


EXPOSURES = (
    Exposure("homogeneous groups that local suppression hid", ("minimality",), suppress_groups),
    Exposure("withheld people who all have one value", ("minimality",), withhold_alike),
    Exposure("labels that list the occurring values", ("named-values",), list_occurring),
    Exposure("a column that determines a quasi column", ("singling-out",), publish_determining),
)


def draw_frequent(n: int, rng: np.random.Generator) -> pa.Table:
    """Draw people of whom many have the same illness."""
    return _set_illness(draw_people(n, rng), rng.random(n) < FREQUENT)


def _set_illness(people: pa.Table, chosen: BoolArray) -> pa.Table:
    illness = pc.if_else(pa.array(chosen), "illness 0", people.column("illness"))
    return people.set_column(people.column_names.index("illness"), "illness", illness)


def encode(table: pa.Table, name: str) -> CodeArray:
    """Return (n_rows,) codes of a column's values."""
    return np.asarray(table.column(name).combine_chunks().dictionary_encode().indices)


def _draw_again(case: Case, rng: np.random.Generator, harmless: bool) -> Case:
    """Return the case as it is, or with illnesses of source and control group that are drawn again, all alike."""
    if not harmless:
        return case
    drawn = []
    for table in (case.source, case.control):
        illness = pa.array([f"illness {code}" for code in rng.integers(ILLNESSES, size=table.num_rows)])
        drawn.append(table.set_column(table.column_names.index("illness"), "illness", illness))
    return case._replace(source=drawn[0], control=drawn[1])


def _add_codes(people: pa.Table, rng: np.random.Generator) -> pa.Table:
    weights = 1 / np.arange(1, CODES + 1)
    codes = rng.choice(CODES, people.num_rows, p=weights / weights.sum())
    return people.append_column("code", pa.array([f"code {code}" for code in codes]))


def _add_density(people: pa.Table) -> pa.Table:
    numbers = {f"town {code}": 7 * code % COLUMNS["town"] for code in range(COLUMNS["town"])}
    return people.append_column("density", pa.array([numbers[town] for town in people.column("town").to_pylist()]))


def run_methods(seed: int, runs: int = BATCH, records: int = N_PEOPLE) -> list[Cell]:
    """Make every exposure and its twin some times, and try the attacks that should see it."""
    rng, found = np.random.default_rng(seed), []
    for exposure in EXPOSURES:
        for way in (METHOD, NOBODY):
            for _ in range(runs):
                case = exposure.make(records, rng, way == NOBODY)
                own = int(rng.integers(1 << 30))
                tried = try_attacks(*case, own, exposure.attacks)
                found += [Cell(exposure.title, way, 1.0, name, int(alarm), 1) for name, alarm in tried]
    return found


def list_batches(seed: int, *, quick: bool) -> list[Callable[[], list[Cell]]]:
    """Return the runs of all exposures, to be done in processes."""
    if quick:
        return [partial(run_methods, seed, 1)]
    return [partial(run_methods, 10**6 * seed + number) for number in range(N_RUNS // BATCH)]
