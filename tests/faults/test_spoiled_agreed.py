"""Spoiled releases by an agency's plan: each breaks one thing, and the verifier must say which."""

from __future__ import annotations

import copy
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from operator import delitem, setitem
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.agency.apply import apply_plan
from shoal.agency.distribution import read_distribution
from shoal.agency.planning import make_plan, write_plan
from shoal.release.forms.agreed import ENTROPY, K_ANONYMITY, L_DIVERSITY, Promise, digest_plan
from shoal.sources.opening import open_source
from shoal.sources.writers import header_line, lines
from shoal.verify.verifier import verify, verify_table

L, K, E = L_DIVERSITY, K_ANONYMITY, ENTROPY
AGES, TOWNS = range(20, 28), ("Bonn", "Celle", "Hof", "Trier")
ILLNESSES = ("flu", "gout", "asthma", "angina")
PROMISES = {L: (Promise(L, 3), 450), K: (Promise(K, 5), 900), E: (Promise(E, 1.8), 3000)}  # and a number of samples


def counts_table() -> pa.Table:
    rows = [(a, t, i, 40 - 7 * n + a % 3) for a in AGES for t in TOWNS for n, i in enumerate(ILLNESSES)]
    return pa.table(dict(zip(("age", "town", "illness", "count"), zip(*rows, strict=True), strict=True)))


def people(n_rows: int, seed: int) -> pa.Table:
    known = counts_table()
    weights = np.asarray(known["count"], dtype=float)
    drawn = np.random.default_rng(seed).choice(known.num_rows, n_rows, p=weights / weights.sum())
    return known.drop(["count"]).take(pa.array(drawn))


@dataclass
class Spoiled:
    """An honest release, taken apart; mutants change a piece, and it is written and signed anew."""

    table: pa.Table
    manifest: dict[str, Any]
    plan: dict[str, Any]
    source: pa.Table
    sign_plan: bool = True  # the plan's own digest
    declare_plan: bool = True  # what the manifest says of the plan
    after: Callable[[Path], None] = lambda _: None

    def column(self, name: str) -> list[Any]:
        return self.table.column(name).to_pylist()

    def put(self, name: str, values: list[Any], kind: pa.DataType | None = None) -> None:
        place = self.table.column_names.index(name)
        array = pa.array(values, kind or self.table.schema.field(name).type)
        self.table = self.table.set_column(place, name, array)

    def set(self, name: str, row: int, value: object) -> None:
        values = self.column(name)
        values[row] = value
        self.put(name, values)

    def take(self, rows: list[int]) -> None:
        self.table = self.table.take(pa.array(rows))
        self.manifest["rows"] = len(rows)

    def rows_of(self, number: int) -> list[int]:
        return [row for row, own in enumerate(self.column("class")) if own == number]

    @property
    def labels(self) -> dict[str, Any]:
        return {name: entry.get("labels") for name, entry in self.manifest["attributes"].items()}

    def write(self, folder: Path, form: str = "parquet") -> Path:
        public = folder / "public"
        public.mkdir(parents=True)
        data = public / f"data.{form}"
        if form == "parquet":
            pq.write_table(self.table, data, store_schema=False, write_statistics=False)
        else:
            data.write_bytes(header_line(self.table.column_names) + b"".join(map(lines, self.table.to_batches())))
        manifest = copy.deepcopy(self.manifest)
        manifest["data"] = {"file": data.name, "format": form, "sha256": _sha(data.read_bytes())}
        if self.sign_plan:
            self.plan["digest"] = digest_plan(self.plan)
        content = json.dumps(self.plan).encode()
        if self.declare_plan and "agreed" in manifest:
            manifest["agreed"] |= {"sha256": _sha(content), "digest": self.plan["digest"]}
        (public / "plan.json").write_bytes(content)
        (public / "README.md").write_text("A release.\n")
        manifest.pop("readme", None)
        manifest.pop("report", None)
        (public / "manifest.json").write_text(json.dumps(manifest))
        self.after(public)
        return folder

    def judge(self, folder: Path, *, with_source: bool = True, form: str = "parquet") -> set[str]:
        source = open_source(self.source) if with_source else None
        found = verify(self.write(folder, form), source=source)
        names = {check.name for check in found.checks if not check.ok}
        assert (found.verdict == "failed") == (bool(names) or not all(promise.ok for promise in found.guarantees))
        names |= {promise.model for promise in found.guarantees if not promise.ok and promise.detail != "not checked"}
        assert "asthma" not in json.dumps(found.as_dict())
        return names


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> dict[str, tuple[pa.Table, dict[str, Any], dict[str, Any], pa.Table]]:
    """A release for each promise, as ``apply_plan`` writes it."""
    known = read_distribution(counts_table(), "illness")
    made = {}
    for model, (promise, samples) in PROMISES.items():
        folder = tmp_path_factory.mktemp("honest")
        plan = make_plan(known, promise=promise, delta=Fraction("0.05"), samples=samples)
        write_plan(plan, folder / "plan.json")
        source = people(plan.records + 10, seed=4)
        apply_plan(folder / "plan.json", source, folder / "out", format="parquet")
        public = folder / "out" / "public"
        made[model] = (
            pq.read_table(public / "data.parquet"),
            json.loads((public / "manifest.json").read_text()),
            json.loads((public / "plan.json").read_text()),
            source,
        )
    return made


@pytest.fixture
def spoiled(honest) -> Spoiled:
    table, manifest, plan, source = honest[L]
    return Spoiled(table, copy.deepcopy(manifest), copy.deepcopy(plan), source)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("model", PROMISES)
def test_the_honest_release_is_accepted(honest, model, form, tmp_path):
    table, manifest, plan, source = honest[model]
    assert plan["classes"] > 1
    release = Spoiled(table, copy.deepcopy(manifest), copy.deepcopy(plan), source)
    assert release.judge(tmp_path / "a", form=form) == set()
    assert release.judge(tmp_path / "b", form=form, with_source=False) == set()


Mutant = Callable[[Spoiled], None]
NAMED: dict[str, tuple[Mutant, set[str]]] = {}  # seen without the source
TRUE: dict[str, tuple[Mutant, set[str]]] = {}  # seen with the source only


def mutant(*failing: str, source: bool = False) -> Callable[[Mutant], Mutant]:
    def keep(change: Mutant) -> Mutant:
        (TRUE if source else NAMED)[change.__name__.strip("_")] = change, set(failing)
        return change

    return keep


def moved(release: Spoiled, row: int, number: int) -> None:
    """Put a row into another class, labels and all."""
    like = release.rows_of(number)[0]
    for name in ("class", "age", "town"):
        release.set(name, row, release.column(name)[like])


# Rows


@mutant("records")
def _too_few_records(release):
    values, needed = release.column("illness"), release.plan["records"]
    first: dict[tuple[int, str], int] = {}
    for row, key in enumerate(zip(release.column("class"), values, strict=True)):
        first.setdefault(key, row)
    shown = sorted(first.values())  # one row for each value of each class
    rest = sorted(set(range(len(values))) - set(shown))
    release.take([*shown, *rest][: needed - 1])


@mutant(L)
def _named_value_does_not_show(release):
    hidden, instead = (release.plan["sensitive"]["values"][code] for code in release.plan["values"][0][:2])
    rows, values = set(release.rows_of(1)), release.column("illness")
    release.put("illness", [instead if v == hidden and row in rows else v for row, v in enumerate(values)])
    achieved(release)


@mutant(L)
def _class_without_records(release):
    """The records of class 1 are said to be of class 2, whose labels they get."""
    for row in release.rows_of(1):
        moved(release, row, 2)
    for name in ("age", "town"):
        met = set(release.column(name))
        release.manifest["attributes"][name]["labels"] = {
            label: cover for label, cover in release.labels[name].items() if label in met
        }


# Labels


@mutant("classes")
def _label_of_one_row(release):
    row = release.rows_of(1)[0]
    labels = [label for label in release.labels["age"] if label != release.column("age")[row]]
    release.set("age", row, labels[-1])


@mutant("hulls")
def _label_of_a_whole_class(release):
    rows = set(release.rows_of(1))
    own = release.column("age")[min(rows)]
    label = next(label for label in release.labels["age"] if label != own)
    release.put("age", [label if row in rows else old for row, old in enumerate(release.column("age"))])
    if own not in release.column("age"):
        del release.labels["age"][own]


@mutant("hulls")
def _labels_without_truth(release):
    release.labels["age"] |= {label: {"from": 0, "below": 20} for label in release.labels["age"]}


@mutant("hulls")
def _label_too_wide(release):
    first = next(iter(release.labels["age"]))
    release.labels["age"][first] = {"from": release.labels["age"][first]["from"], "below": 27}


@mutant("hulls")
def _label_too_narrow(release):
    wide = next(label for label, cover in release.labels["age"].items() if cover["below"] - cover["from"] > 1)
    release.labels["age"][wide]["below"] -= 1


@mutant("hulls")
def _label_with_a_gap(release):
    wide = next(cover for cover in release.labels["town"].values() if len(cover.get("values", ())) == 3)
    del wide["values"][1]


@mutant("hulls")
def _label_that_begins_too_early(release):
    cover = next(cover for cover in release.labels["town"].values() if cover.get("values") == ["Celle", "Hof", "Trier"])
    cover["values"] = ["Bonn", "Hof", "Trier"]


@mutant("hulls")
def _label_that_ends_too_late(release):
    cover = next(cover for cover in release.labels["town"].values() if cover.get("values") == ["Bonn", "Celle", "Hof"])
    cover["values"] = ["Bonn", "Celle", "Trier"]


@mutant("labels", "hulls")
def _label_that_nobody_declared(release):
    label = release.column("age")[0]
    release.labels["age"]["another"] = release.labels["age"].pop(label)


# The manifest


def promise_of(release: Spoiled) -> dict[str, Any]:
    return release.manifest["guarantees"][0]


@mutant(L)
def _achieved_exaggerated(release):
    promise_of(release)["achieved"] += 1


@mutant("manifest")
def _second_promise(release):
    release.manifest["guarantees"] *= 2


@mutant("folder", "columns")
def _passed_off_as_mondrian(release):
    del release.manifest["agreed"]
    release.manifest |= {"method": "mondrian", "form": "classes"}


@mutant("manifest")
def _records_dropped(release):
    release.manifest["missing"] |= {"policy": "drop", "dropped": 3}


@mutant("attributes")
def _order_of_attributes(release):
    release.manifest["parts"] = [["town", "age", "illness"]]
    release.table = release.table.select(["class", "town", "age", "illness"])


@mutant("attributes")
def _quasi_attribute_left_out(release):
    release.manifest["parts"] = [["age", "illness"]]
    del release.manifest["attributes"]["town"]
    release.table = release.table.drop(["town"])


@mutant("attributes")
def _sensitive_labels(release):
    covers = {value: {"values": [value]} for value in ILLNESSES}
    release.manifest["attributes"]["illness"] |= {"kind": "category", "labels": covers}


@mutant("plan")
def _number_of_classes(release):
    release.manifest["agreed"]["classes"] += 1


# The plan


@mutant("plan")
def _plan_altered(release):
    release.plan["records"] = release.plan["n"] = release.plan["n_tight"] = 1
    release.sign_plan = False


@mutant("plan")
def _plan_replaced(release):
    release.plan["records"] = release.plan["n"] = release.plan["n_tight"] = 1
    release.declare_plan = False


@mutant("hulls")
def _plan_with_other_classes(release):
    at = next(place for place, (_, length) in enumerate(release.plan["runs"]) if length > 1)
    other = at + 1 if at + 1 < len(release.plan["runs"]) else at - 1
    release.plan["runs"][at][1] -= 1
    release.plan["runs"][other][1] += 1


@mutant("hulls")
def _classes_renumbered(release):
    (first, a), (second, b), *rest = release.plan["runs"]
    release.plan["runs"] = [[second, a], [first, b], *rest]


@mutant("plan")
def _digest_edited(release):
    release.plan["digest"] = "0" * 64
    release.sign_plan = False


@mutant("plan")
def _declared_digest_edited(release):
    release.manifest["agreed"]["digest"] = "0" * 64
    release.declare_plan = False
    release.after = lambda public: redeclared(public, digest="0" * 64)


def redeclared(public: Path, **changes: str) -> None:
    path = public / "manifest.json"
    manifest = json.loads(path.read_text())
    plan = (public / "plan.json").read_bytes()
    manifest["agreed"] |= {"sha256": _sha(plan), "digest": json.loads(plan)["digest"], **changes}
    path.write_text(json.dumps(manifest))


@mutant("plan", "folder")
def _plan_elsewhere(release):
    def link(public: Path) -> None:
        (public.parent / "plan.json").write_bytes(b"{}")
        (public / "plan.json").unlink()
        (public / "plan.json").symlink_to("../plan.json")

    release.after = link


def instead_of(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def exchange(public: Path) -> None:
        (public / name).unlink()
        make(public / name)

    return exchange


# With the source


@mutant("truth", source=True)
def _row_moved_to_another_class(release):
    moved(release, release.rows_of(1)[0], 2)
    achieved(release)


@mutant("truth", source=True)
def _values_of_two_classes_swapped(release):
    values = release.column("illness")
    one = release.rows_of(1)[0]
    two = next(row for row in release.rows_of(2) if values[row] != values[one])
    values[one], values[two] = values[two], values[one]
    release.put("illness", values)
    achieved(release)


@mutant("truth", source=True)
def _a_value_invented(release):
    values = release.column("illness")
    row = next(row for row, value in enumerate(values) if value == "flu")
    release.set("illness", row, "gout")
    achieved(release)


@mutant("truth", "source counts", source=True)
def _row_twice(release):
    release.take([0, *range(release.table.num_rows)])
    achieved(release)


@mutant("truth", "source counts", source=True)
def _row_left_out(release):
    release.take(list(range(1, release.table.num_rows)))
    achieved(release)


@mutant("domain", "truth", source=True)
def _source_outside_the_domain(release):
    ages = release.source.column("age").to_pylist()
    release.source = release.source.set_column(0, "age", pa.array([99, *ages[1:]]))


@mutant("domain", "truth", source=True)
def _source_with_a_missing_value(release):
    towns = release.source.column("town").to_pylist()
    release.source = release.source.set_column(1, "town", pa.array([None, *towns[1:]]))


def achieved(release: Spoiled) -> None:
    values = release.column("illness")
    kinds = [len({values[row] for row in release.rows_of(n + 1)}) for n in range(release.plan["classes"])]
    promise_of(release)["achieved"] = float(min(kinds))


# Changes of one step, and the checks that must fail without the source.
NAMED |= {
    "number of a row": (lambda r: r.set("class", r.rows_of(1)[0], max(r.column("class"))), {"classes"}),
    "class without number": (
        lambda r: r.put("class", [0 if number == 1 else number for number in r.column("class")]),
        {"classes", L},
    ),
    "class beyond the last": (lambda r: r.set("class", r.rows_of(1)[0], r.plan["classes"] + 1), {"classes"}),
    "negative class": (lambda r: r.set("class", r.rows_of(1)[0], -1), {"classes"}),
    "missing class": (lambda r: r.set("class", r.rows_of(1)[0], None), {"classes"}),
    "classes as text": (
        lambda r: r.put("class", [str(number) for number in r.column("class")], pa.string()),
        {"class column"},
    ),
    "classes as decimals": (
        lambda r: r.put("class", [float(number) for number in r.column("class")], pa.float64()),
        {"class column"},
    ),
    "class column dropped": (lambda r: setattr(r, "table", r.table.drop(["class"])), {"columns"}),
    "class column last": (
        lambda r: setattr(r, "table", r.table.select(["age", "town", "illness", "class"])),
        {"columns"},
    ),
    "further column": (
        lambda r: setattr(r, "table", r.table.append_column("age (exact)", pa.array(range(r.table.num_rows)))),
        {"columns"},
    ),
    "classes under another name": (
        lambda r: setattr(r, "table", r.table.rename_columns(["bucket", "age", "town", "illness"])),
        {"columns"},
    ),
    "value that the plan does not know": (lambda r: r.set("illness", 0, "plague"), {"values"}),
    "missing value": (lambda r: r.set("illness", 0, None), {"values"}),
    "value in another spelling": (
        lambda r: r.put("illness", [v if n else f"{v} " for n, v in enumerate(r.column("illness"))]),
        {"values"},
    ),
    "fewer rows than declared": (lambda r: setattr(r, "table", r.table.slice(1)), {"rows"}),
    "no rows": (lambda r: setattr(r, "table", r.table.slice(0, 0)), {"rows", "records", "labels", "hygiene", L}),
    "label that no row has": (lambda r: setitem(r.labels["age"], "99", {"from": 99, "below": 100}), {"labels"}),
    "cover without meaning": (
        lambda r: setitem(r.labels["age"], r.column("age")[0], {"from": 30, "below": 20}),
        {"labels"},
    ),
    "l lowered": (lambda r: setitem(promise_of(r)["parameters"], "l", 2), {L}),
    "l raised": (lambda r: setitem(promise_of(r)["parameters"], "l", 4), {L}),
    "delta lowered": (lambda r: setitem(promise_of(r)["parameters"], "delta", 0.001), {L}),
    "delta dropped": (lambda r: delitem(promise_of(r)["parameters"], "delta"), {L}),
    "promise of another kind": (
        lambda r: setitem(
            r.manifest, "guarantees", [{"model": "distinct-l-diversity", "parameters": {"l": 2}, "achieved": 3.0}]
        ),
        {"distinct-l-diversity"},
    ),
    "promise of another plan": (
        lambda r: setitem(
            r.manifest, "guarantees", [{"model": K, "parameters": {"k": 2, "delta": 0.05}, "achieved": 10.0}]
        ),
        {K},
    ),
    "form renamed": (lambda r: setitem(r.manifest, "form", "classes"), {"manifest"}),
    "plan not declared": (lambda r: delitem(r.manifest, "agreed"), {"manifest"}),
    "records withheld": (lambda r: setitem(r.manifest, "withheld", 5), {"manifest"}),
    "value declared missing": (lambda r: setitem(r.manifest["missing"], "tokens", ["", "flu"]), {"manifest"}),
    "levels": (lambda r: setitem(r.manifest, "levels", {"age": 0, "town": 0}), {"manifest"}),
    "quasi attribute called insensitive": (
        lambda r: setitem(r.manifest["attributes"], "town", {"role": "insensitive", "kind": "category"}),
        {"attributes"},
    ),
    "another name for the plan": (lambda r: setitem(r.manifest["agreed"], "file", "../plan.json"), {"manifest"}),
    "declared sha256 edited": (
        lambda r: setattr(r, "after", lambda public: redeclared(public, sha256="0" * 64)),
        {"plan"},
    ),
    "no plan": (lambda r: setattr(r, "after", lambda public: (public / "plan.json").unlink()), {"plan"}),
    "folder called plan": (lambda r: setattr(r, "after", instead_of("plan.json", Path.mkdir)), {"plan", "folder"}),
    "plan that never comes": (lambda r: setattr(r, "after", instead_of("plan.json", os.mkfifo)), {"plan", "folder"}),
    "plan without end": (
        lambda r: setattr(r, "after", instead_of("plan.json", lambda path: path.symlink_to("/dev/zero"))),
        {"plan", "folder"},
    ),
    "rows that never come": (lambda r: setattr(r, "after", instead_of("data.parquet", os.mkfifo)), {"file", "folder"}),
    "readme that never comes": (lambda r: setattr(r, "after", instead_of("README.md", os.mkfifo)), {"folder"}),
    "half a character in the plan": (lambda r: r.plan["sensitive"]["values"].append("\ud800"), {"plan"}),
    "half a character in a name": (lambda r: setitem(r.plan["quasi"][0], "name", "age\udfff"), {"plan"}),
    "half a character in a label": (
        lambda r: setitem(r.labels["town"], "\ud800", {"values": ["\ud800"]}),
        {"manifest"},
    ),
    "further file": (
        lambda r: setattr(r, "after", lambda public: (public / "plan.json.orig").write_text("{}")),
        {"folder"},
    ),
}
TRUE |= {
    "another owners source": (lambda r: setattr(r, "source", people(r.table.num_rows, seed=99)), {"truth"}),
}


@pytest.mark.parametrize("name", NAMED)
def test_seen_without_the_source(spoiled, tmp_path, name):
    change, expected = NAMED[name]
    change(spoiled)
    assert spoiled.judge(tmp_path, with_source=False) == expected


@pytest.mark.parametrize("name", TRUE)
def test_seen_with_the_source_only(spoiled, tmp_path, name):
    change, expected = TRUE[name]
    change(spoiled)
    assert spoiled.judge(tmp_path / "a", with_source=False) == set()
    assert spoiled.judge(tmp_path / "b") == expected


def test_a_whole_character_may_be_written_as_two_halves(spoiled, tmp_path):
    spoiled.plan["sensitive"]["values"].append("\U0001f912")  # which JSON writes as two escapes
    assert spoiled.judge(tmp_path, with_source=False) == set()


def test_class_with_fewer_than_k_records(honest, tmp_path):
    table, manifest, plan, source = honest[K]
    release = Spoiled(table, copy.deepcopy(manifest), copy.deepcopy(plan), source)
    for row in release.rows_of(1)[4:]:
        moved(release, row, 2)
    promise_of(release)["achieved"] = 4.0
    assert release.judge(tmp_path, with_source=False) == {K}


def test_class_that_is_too_certain(honest, tmp_path):
    table, manifest, plan, source = honest[E]
    release = Spoiled(table, copy.deepcopy(manifest), copy.deepcopy(plan), source)
    rows = set(release.rows_of(1))
    release.put("illness", ["flu" if row in rows else value for row, value in enumerate(release.column("illness"))])
    promise_of(release)["achieved"] = 1.0
    assert release.judge(tmp_path, with_source=False) == {E}


@pytest.mark.parametrize("text", ["01", "1.0", " 1", "+1", "1e0", "one"])
def test_class_numbers_have_one_spelling(spoiled, tmp_path, text):
    numbers = [str(number) for number in spoiled.column("class")]
    numbers[spoiled.rows_of(1)[0]] = text
    spoiled.put("class", numbers, pa.string())
    assert spoiled.judge(tmp_path, with_source=False, form="csv") == {"classes"}


def test_a_table_in_memory_has_no_plan_beside_it(spoiled):
    found = verify_table(spoiled.table, spoiled.manifest)
    assert found.verdict == "failed"
    assert "folder" in found.failures[0]
