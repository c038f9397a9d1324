"""The same seed, policy and source give the same release as before: digests of small releases of every kind.

``expected.json`` holds for each release

- ``data``: the digest of the bytes of its data files,
- ``rows``: that of its rows without their order, and of a sliced table that of its buckets without their numbers and
  the order within their parts, so that other randomness can be told from other classes,
- ``manifest``: that of each part of the manifest which describes the content; floats count to nine digits.

A change that is meant to alter releases records them anew, and its author looks at which ones changed::

    SHOAL_RECORD_CORPUS=1 python -m pytest tests/corpus

Recorded tests fail, so that nobody records by mistake; entries of releases that are no more are removed by hand.
Digests hold for the versions of NumPy and Arrow that are installed for development: another generator or another CSV
writer changes them all. Of a synthetic table only the manifest is compared, since its noise never follows from a seed.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests.sql import run_script, run_source_script
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.datasets.hospital import hospital_policy, stays
from shoal.manifest import unpack_labels

EXPECTED = Path(__file__).with_name("expected.json")
RECORDING = os.environ.get("SHOAL_RECORD_CORPUS") == "1"
SEED = 2024
CONTENT = (
    "method",
    "method_parameters",
    "guarantees",
    "claims",
    "parts",
    "rows",
    "withheld",
    "missing",
    "attributes",
    "levels",
    "buckets",
    "techniques",
    "sample",
    "people",
    "items",
    "synthetic",
)

Policy = dict[str, Any]


# Tables. Each is the same whenever it is made.


@cache
def hospital(n_rows: int = 1500) -> pa.Table:
    """Generated stays: numbers, dates, postcodes, two trees of categories; some occupations are missing."""
    return pa.Table.from_batches(list(stays(n_rows, seed=SEED, missing=0.03)))


@cache
def people(n_rows: int = 1200, of: int = 1200) -> pa.Table:
    """So many records *of* so many people, two in a home: categories with holes, numbers, days and baskets."""
    rng = np.random.default_rng([SEED, n_rows, of])

    def chosen(values: str, *weights: float) -> np.ndarray:
        return rng.choice(np.array(values.split(), dtype=object), n_rows, p=np.array(weights) / sum(weights))

    def holed(values: np.ndarray, share: float = 0.04) -> pa.Array:
        return pa.array(values, mask=rng.random(n_rows) < share)

    age = rng.integers(18, 90, n_rows)
    ill = np.where(rng.random(n_rows) < 0.7, rng.integers(0, 6, n_rows), (age // 15) % 6)
    items = np.array(["ale", "bread", "eggs", "gum", "milk", "nuts", "tea", "test"], dtype=object)
    had = rng.random((n_rows, len(items))) < [0.3, 0.5, 0.4, 0.05, 0.5, 0.25, 0.4, 0.04]
    had[:, 1] |= had[:, 0] & (rng.random(n_rows) < 0.7)
    had[:, 6] |= had[:, 4] & (rng.random(n_rows) < 0.6)
    person = np.arange(n_rows) % of
    return pa.table(
        {
            "person": pa.array([f"person {number}" for number in person]),
            "home": pa.array([f"home {number // 2}" for number in person]),
            "age": holed(age),
            "sex": holed(chosen("f m x", 48, 48, 4)),
            "town": holed(chosen("Bonn Celle Gera Kiel Mainz Ulm", 30, 20, 8, 20, 12, 10)),
            "joined": pa.array(np.datetime64("2015-01-01") + rng.integers(0, 3652, n_rows)),
            "wage": pa.array(np.round(np.exp(rng.normal(7.8, 0.4, n_rows)), 2)),
            "illness": pa.array(np.array(["asthma", "cold", "flu", "gout", "sprain", "stroke"], dtype=object)[ill]),
            "ward": holed(chosen("east north south west", 4, 3, 2, 1)),
            "bought": pa.array([";".join(items[row]) or "bread" for row in had]),
        }
    )


@cache
def many(n_rows: int = 800_000) -> pa.Table:
    """More combinations of values than the least memory holds."""
    rng = np.random.default_rng(SEED)
    return pa.table(
        {
            "age": pa.array(rng.integers(0, 100, n_rows), pa.int8()),
            "zip": pa.array(rng.integers(0, 100_000, n_rows), pa.int32()),
            "illness": pa.array(rng.integers(0, 5, n_rows), pa.int8()),
        }
    )


# Policies


def of_hospital(privacy: list[Policy], method: Policy | None = None, **other: Any) -> Policy:
    """The policy of the stays, with other promises and another method."""
    return {**hospital_policy(), "privacy": privacy, "method": method or {"mondrian": {}}, **other}


def few_of_hospital(privacy: list[Policy], method: Policy, **other: Any) -> Policy:
    """The same with three quasi attributes; those left are not protected."""
    policy = of_hospital(privacy, method, **other)
    for name in ("admitted", "insurance", "postcode"):
        policy["attributes"][name] = {"role": "insensitive"}
    return policy


PEOPLE: Policy = {
    "person": {"role": "identifier"},
    "home": {"role": "identifier"},
    "age": {
        "role": "quasi",
        "taxonomy": {"intervals": {"min": 0, "max": 119, "widths": [5, 10, 20, 40], "open": "high"}},
    },
    "sex": {"role": "quasi", "weight": 2},
    "town": {
        "role": "quasi",
        "taxonomy": {"tree": {"*": {"north": ["Celle", "Kiel"], "south": ["Bonn", "Gera", "Mainz", "Ulm"]}}},
    },
    "joined": {
        "role": "quasi",
        "taxonomy": {"dates": {"levels": ["month", "year"], "min": "2015-01-01", "max": "2024-12-31"}},
    },
    "wage": {"role": "insensitive"},
    "illness": {
        "role": "sensitive",
        "taxonomy": {
            "tree": {"*": {"lungs": ["asthma", "cold", "flu"], "limbs": ["gout", "sprain"], "head": ["stroke"]}}
        },
    },
    "ward": {"role": "insensitive"},
    "bought": {"role": "insensitive"},
}


def of_people(
    privacy: list[Policy], method: Policy | None = None, changed: Policy | None = None, **other: Any
) -> Policy:
    """The policy of the people with some *changed* attributes."""
    return {
        "attributes": {**PEOPLE, **(changed or {})},
        "privacy": privacy,
        "method": method or {"mondrian": {}},
        **other,
    }


def of_many(privacy: list[Policy]) -> Policy:
    return {
        "attributes": {
            "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [5, 20]}}},
            "zip": {
                "role": "quasi",
                "taxonomy": {"intervals": {"min": 0, "max": 99_999, "widths": [100, 1000, 10_000]}},
            },
            "illness": {"role": "sensitive"},
        },
        "privacy": privacy,
    }


def technique(role: str, **named: Policy) -> Policy:
    return {"role": role, "technique": named}


WARD = {"ward": {"role": "sensitive"}}
INSENSITIVE = {"role": "insensitive"}
NUMBERS: Policy = {  # for averages: numbers and dates matter, other categories are carried along
    "wage": {"role": "quasi"},
    "town": INSENSITIVE,
}
DECLARED: Policy = {  # a synthetic table needs its values declared, and takes no other columns
    "sex": {"role": "quasi", "taxonomy": {"flat": ["f", "m", "x"]}},
    "joined": {"role": "identifier"},
    "wage": {"role": "identifier"},
    "ward": {"role": "identifier"},
    "bought": {"role": "identifier"},
}
BASKETS: Policy = {
    "joined": INSENSITIVE,
    "illness": INSENSITIVE,
    "bought": {"role": "quasi", "items": {"separator": ";", "columns": 3, "sensitive": ["gum", "test"]}},
}
TOKENS: Policy = {
    "person": technique("identifier", pseudonym={"key": "people.key"}),
    "home": technique("identifier", hash={"salt": "random"}),
    "town": technique("quasi", token={"length": 26}),
    "ward": technique("sensitive", permutation={"within": ["sex"]}),
    "illness": technique("sensitive", swapping={"share": 0.3, "within": ["sex"]}),
}
PERTURBED: Policy = {
    "age": technique("quasi", noise={"laplace": {"scale": 3}, "min": 0, "max": 119, "edges": "reflect", "decimals": 0}),
    "wage": technique("insensitive", noise={"gaussian": {"sd": 50.5}, "decimals": 1}),
}
ROUNDED: Policy = {
    "age": {**PEOPLE["age"], "technique": {"coding": {"bottom": 20, "top": 84}}},
    "wage": technique("insensitive", rounding={"base": 100, "random": True}),
    "illness": {**PEOPLE["illness"], "technique": {"swapping": {"share": 0.1}}},
}


# Releases


@dataclass(frozen=True)
class Recipe:
    """What a release is made of; *options* are further arguments of ``shoal.anonymize``."""

    table: Callable[[], pa.Table]
    policy: Policy
    options: dict[str, Any] = field(default_factory=dict)

    def release(self, out: Path) -> None:
        shoal.anonymize(self.table(), self.policy, out=out, format="csv", seed=SEED, **self.options)


@dataclass(frozen=True)
class Agreed:
    """A release by an agency's plan: counts of the past, what is planned from them, and an owner's table."""

    options: tuple[str, ...]

    def release(self, out: Path) -> None:
        ages, illnesses = range(20, 80), {"flu": 40, "gout": 30, "asthma": 20, "angina": 10}
        pairs = [(age, illness) for age in ages for illness in illnesses]
        rng = np.random.default_rng(SEED)
        weights = np.tile(np.array(list(illnesses.values())), len(ages)) / (100 * len(ages))
        drawn = [pairs[place] for place in rng.choice(len(pairs), 2000, p=weights)]
        owner = {
            "name": [f"owner {n}" for n in range(2000)],
            "age": [a for a, _ in drawn],
            "illness": [i for _, i in drawn],
        }
        known = {
            "age": [a for a, _ in pairs],
            "illness": [i for _, i in pairs],
            "count": [illnesses[i] for _, i in pairs],
        }
        for name, columns in (("counts.csv", known), ("owner.csv", owner)):
            pyarrow.csv.write_csv(pa.table(columns), name)
        plan = ["agency", "plan", "--counts", "counts.csv", "--sensitive", "illness", "--delta", "0.01"]
        apply = ["agency", "apply", "plan.json", "owner.csv", "-o", str(out), "--seed", str(SEED)]
        for call in ([*plan, *self.options, "-o", "plan.json"], apply):
            done = CliRunner().invoke(app, call)
            assert done.exit_code == 0, done.output


def k(number: int) -> Policy:
    return {"k-anonymity": {"k": number}}


def model(name: str, **parameters: Any) -> Policy:
    return {name: parameters}


TAU = model("tau-l-diversity", tau=0.4, l=4)
STRICT_TAU = model("tau-l-diversity", tau=0.25, l=5)
DISTINCT = model("distinct-l-diversity", l=3)
POPULATION = "population.csv"

RELEASES: dict[str, Recipe | Agreed] = {
    "mondrian levels": Recipe(hospital, of_hospital([k(5)])),
    "mondrian ranges": Recipe(hospital, of_hospital([k(4)], {"mondrian": {"labels": "ranges"}})),
    "mondrian entropy l": Recipe(hospital, of_hospital([k(3), model("entropy-l-diversity", l=3.5)])),
    "mondrian distinct l, recursive c l": Recipe(
        people,
        of_people([DISTINCT, model("recursive-cl-diversity", c=3, l=2, attribute="illness")], changed=WARD),
    ),
    "mondrian simple l, joint": Recipe(
        people, of_people([model("simple-l-diversity", l=3, attribute=["illness", "ward"])], changed=WARD)
    ),
    "mondrian tau l": Recipe(people, of_people([TAU])),
    "mondrian t equal": Recipe(people, of_people([model("t-closeness", t=0.25, distance="equal")])),
    "mondrian t ordered": Recipe(people, of_people([model("t-closeness", t=0.2, distance="ordered")])),
    "mondrian t hierarchical": Recipe(
        hospital, of_hospital([k(5), model("t-closeness", t=0.35, distance="hierarchical")])
    ),
    "mondrian alpha k": Recipe(people, of_people([model("alpha-k-anonymity", alpha=0.5, k=4)])),
    "mondrian beta": Recipe(people, of_people([model("beta-likeness", beta=1.5, enhanced=True)])),
    "mondrian delta disclosure": Recipe(people, of_people([model("delta-disclosure", delta=1.5)])),
    "mondrian confidence": Recipe(
        people, of_people([k(3), model("confidence-bounding", most=0.3, harmless=["cold", "flu"])])
    ),
    "mondrian k map": Recipe(people, of_people([model("k-map", k=8, population=POPULATION)])),
    "mondrian delta presence": Recipe(
        people, of_people([k(2), model("delta-presence", min=0, max=0.5, population=POPULATION)])
    ),
    "mondrian withheld": Recipe(people, of_people([k(12)], max_withheld=0.08)),
    "mondrian missing drop": Recipe(people, of_people([k(4)], missing="drop")),
    "mondrian persons and homes": Recipe(
        lambda: people(1600, of=500),
        of_people([k(4), model("distinct-l-diversity", l=2)], unit="person", household="home"),
    ),
    "mondrian one of each person": Recipe(
        lambda: people(1600, of=700), of_people([k(4), DISTINCT], unit="person", sample={"one_per": "unit"})
    ),
    "mondrian techniques and sample": Recipe(people, of_people([k(4)], changed=ROUNDED, sample={"share": 0.6})),
    "mondrian larger than memory": Recipe(many, of_many([k(700)]), {"memory": "768MiB", "threads": 4}),
    "incognito loss": Recipe(people, of_people([k(5)], {"incognito": {}})),
    "incognito discernibility, suppression": Recipe(
        people, of_people([k(8)], {"incognito": {"measure": "discernibility"}}, max_withheld=0.1)
    ),
    "incognito entropy, l": Recipe(
        people,
        of_people(
            [model("entropy-l-diversity", l=3)], {"incognito": {"measure": "non-uniform-entropy"}}, max_withheld=0.03
        ),
    ),
    "incognito recode": Recipe(hospital, of_hospital([k(5)], {"incognito": {"recode": True}}, max_withheld=0.02)),
    "sweep": Recipe(people, of_people([STRICT_TAU], {"sweep": {}})),
    "sweep without improving": Recipe(
        people, of_people([k(3), STRICT_TAU], {"sweep": {"improve": False, "defend": False}})
    ),
    "sweep without defending": Recipe(
        people,
        of_people([STRICT_TAU], {"sweep": {"defend": False}}, max_generalized={"illness": 0.3}, max_withheld=0.05),
    ),
    "hilbert levels": Recipe(hospital, of_hospital([k(5), model("simple-l-diversity", l=2)], {"hilbert": {}})),
    "hilbert ranges": Recipe(people, of_people([k(6), DISTINCT], {"hilbert": {"labels": "ranges"}})),
    "slicing columns": Recipe(hospital, few_of_hospital([DISTINCT], {"slicing": {"columns": 3}})),
    "slicing alpha": Recipe(people, of_people([model("entropy-l-diversity", l=1.5)], {"slicing": {"alpha": 2}})),
    "slicing parts, overlapping": Recipe(
        people,
        of_people(
            [model("simple-l-diversity", l=1.4)],
            {"slicing": {"parts": [["age", "sex", "joined"], ["sex", "town", "illness"]], "overlapping": True}},
        ),
    ),
    "slicing column frequency": Recipe(
        people, of_people([model("column-frequency", k=5), DISTINCT], {"slicing": {"columns": 2, "labels": "ranges"}})
    ),
    "slicing random": Recipe(
        people, of_people([DISTINCT], {"slicing": {"columns": "each", "grouping": "random", "bucket_size": 30}})
    ),
    "slicing baskets": Recipe(
        people,
        of_people(
            [model("confidence-bounding", most=0.3, harmless=["none"], separator=";")],
            {"slicing": {"columns": "each", "bucket_size": 20}},
            BASKETS,
        ),
    ),
    "anatomy": Recipe(people, of_people([model("simple-l-diversity", l=3)], {"anatomy": {}})),
    "anatomy two tables": Recipe(
        hospital, few_of_hospital([model("simple-l-diversity", l=4)], {"anatomy": {"two_tables": True}})
    ),
    "microaggregation means": Recipe(people, of_people([k(5)], {"microaggregation": {}}, NUMBERS, missing="drop")),
    "microaggregation medians": Recipe(
        people,
        of_people(
            [k(3), DISTINCT], {"microaggregation": {"numbers": "median", "decimals": 0}}, NUMBERS, max_withheld=0.1
        ),
    ),
    "plain tokens and swapping": Recipe(people, of_people([], {"plain": {}}, TOKENS)),
    "plain noise": Recipe(people, of_people([], {"plain": {}}, PERTURBED, sample={"share": 0.5})),
    "synthetic": Recipe(
        people,
        of_people(
            [], {"synthetic": {"epsilon": 2, "rows": 300, "tree": [["age", "illness"], ["sex", "town"]]}}, DECLARED
        ),
    ),
    "agency l diversity": Agreed(("--l", "3", "--samples", "1800")),
    "agency k anonymity": Agreed(("--promise", "k-anonymity", "--k", "5", "--samples", "1500")),
}


# Digests


def digest(*parts: bytes) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(len(part).to_bytes(8, "big") + part)
    return made.hexdigest()


def canonical(value: Any) -> Any:
    """The value with floats of nine digits, so that another order of summation makes no difference."""
    if isinstance(value, dict):
        return {key: canonical(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [canonical(inner) for inner in value]
    return f"{value:.9g}" if isinstance(value, float) else value


def buckets(lines: list[str], parts: list[list[str]]) -> Iterator[str]:
    """Yield a line for each bucket of a sliced table: what each part holds, sorted, without the bucket's number."""
    inside: dict[str, list[list[str]]] = defaultdict(list)
    for row in csv.reader(lines):
        inside[row[0]].append(row[1:])
    for rows in inside.values():
        ends = np.cumsum([0, *map(len, parts)])
        yield json.dumps([sorted(row[begin:end] for row in rows) for begin, end in pairwise(ends)])


def digests(public: Path) -> dict[str, Any]:
    """Return what is kept of a release."""
    manifest = unpack_labels(json.loads((public / "manifest.json").read_bytes()))
    found: dict[str, Any] = {}
    if "synthetic" in manifest:
        del manifest["attributes"]  # they list the labels that were drawn
    else:
        files = sorted(public.glob("*.csv"))
        head, *lines = (public / "data.csv").read_text("utf-8").splitlines()
        if "buckets" in manifest:
            lines = list(buckets(lines, manifest["parts"]))
        found["data"] = digest(*(part for file in files for part in (file.name.encode(), file.read_bytes())))
        found["rows"] = digest("\n".join([head, *sorted(lines)]).encode())
    content = {key: json.dumps(canonical(manifest[key]), sort_keys=True) for key in CONTENT if key in manifest}
    found["manifest"] = {key: digest(text.encode())[:16] for key, text in content.items()}
    return found


def changes(was: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return what differs between two entries, in words."""
    found = []
    if was.get("rows") != now.get("rows"):
        found.append("other rows are published")
    elif was.get("data") != now.get("data"):
        found.append("the same rows are published in other bytes: order, numbers of buckets, or further tables")
    old, new = was["manifest"], now["manifest"]
    return [*found, *(f"manifest.json has another {key!r}" for key in CONTENT if old.get(key) != new.get(key))]


def expected() -> dict[str, Any]:
    return json.loads(EXPECTED.read_text("utf-8")) if EXPECTED.is_file() else {}


def record(name: str, entry: dict[str, Any]) -> None:
    entries = expected() | {name: entry}
    ordered = {key: entries[key] for key in sorted(entries)}
    EXPECTED.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")


# Promises that verify.sql leaves open: about people, a population or a plan, and about parts that overlap.
UNDECIDED = {
    "mondrian k map": {"k-map"},
    "mondrian delta presence": {"delta-presence"},
    "mondrian persons and homes": {"k-anonymity", "distinct-l-diversity"},
    "slicing parts, overlapping": {"simple-l-diversity"},
    "agency l diversity": {"l-delta-diversity"},
    "agency k anonymity": {"k-delta-anonymity"},
}


# Releases of which verify-source.sql compares only some columns, or none.
NOT_COMPARED = {
    "mondrian one of each person",
    "mondrian techniques and sample",
    "slicing column frequency",
    "slicing baskets",
    "microaggregation means",
    "microaggregation medians",
    "plain tokens and swapping",
    "plain noise",
    "synthetic",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the population and the key that policies name by relative paths."""
    monkeypatch.chdir(tmp_path)
    others = people(2400).select(["age", "sex", "town", "joined"])
    pyarrow.csv.write_csv(pa.concat_tables([others, people().select(others.column_names)]), POPULATION)
    key = Path("people.key")
    key.touch(0o600)
    key.write_bytes(hashlib.shake_256(b"a key of this corpus").digest(32))
    return tmp_path


@pytest.mark.parametrize("name", RELEASES)
def test_release_is_as_before(name: str, folder: Path) -> None:
    if name == "synthetic":
        pytest.importorskip("opendp")
    RELEASES[name].release(folder / "out")
    found = digests(folder / "out" / "public")
    if RECORDING:
        record(name, found)
        pytest.fail("recorded anew; run again without SHOAL_RECORD_CORPUS, and look at what changed in expected.json")
    differing = changes(expected()[name], found)
    assert not differing, "; ".join(differing)
    lines = run_script(folder / "out" / "public")
    assert not [line for line in lines if line.holds is False]
    assert {line.promise for line in lines if line.holds is None} == UNDECIDED.get(name, set())
    if isinstance(recipe := RELEASES[name], Recipe):
        truth = run_source_script(folder / "out", recipe.table())
        assert not [line for line in truth if line.holds is False]
        assert (None in {line.holds for line in truth}) == (name in NOT_COMPARED)


def test_expected_digests_are_of_these_releases() -> None:
    assert expected().keys() == RELEASES.keys()
    assert len(RELEASES) >= 40
