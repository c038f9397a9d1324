"""``shoal agency apply`` as an owner runs it: a release by the plan, or a refusal that says why."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from shoal.agency.apply import apply_plan
from shoal.core.errors import InputError, ShoalError

AGES, SEXES, TOWNS = range(20, 30), ("F", "M"), ("Aachen", "Bonn", "Köln")
ILLNESSES = ("flu", "gout", "so-called, cold", "angina")
SHARES = np.array([0.4, 0.3, 0.2, 0.1])
COLUMNS = ("name", "town", "age", "sex", "illness", "note")
SECRET = "Zaphod-4711"
Rows = list[tuple[str, ...]]


def domain() -> list[tuple[int, str, str]]:
    """Nobody in Bonn is 29 in this domain."""
    return [(a, s, t) for a in AGES for s in SEXES for t in TOWNS if (a, t) != (29, "Bonn")]


def people(n_rows: int, seed: int) -> Rows:
    rng, points = np.random.default_rng(seed), domain()
    where, what = rng.integers(0, len(points), n_rows), rng.choice(len(ILLNESSES), n_rows, p=SHARES)
    return [
        (f"{SECRET}-{n}", points[w][2], str(points[w][0]), points[w][1], ILLNESSES[i], f"Ünique {n}")
        for n, (w, i) in enumerate(zip(where, what, strict=True))
    ]


def write(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


@pytest.fixture(scope="module")
def agency(shoal, tmp_path_factory) -> Path:
    """A folder with the agency's plan."""
    folder = tmp_path_factory.mktemp("agency")
    counts = [
        (*point, i, round(1000 * share)) for point in domain() for i, share in zip(ILLNESSES, SHARES, strict=True)
    ]
    write(folder / "counts.csv", ("age", "sex", "town", "illness", "count"), counts)
    arguments = ("--counts", folder / "counts.csv", "--sensitive", "illness", "--samples", 1500)
    made = shoal("agency", "plan", *arguments, "--l", 3, "--delta", 0.001, "-o", folder / "plan.json", "--json")
    assert made.returncode == 0, made.stdout
    assert json.loads(made.stdout)["classes"] > 5
    return folder


@pytest.fixture(scope="module")
def needed(agency) -> int:
    return int(json.loads((agency / "plan.json").read_text())["records"])


@pytest.fixture(scope="module")
def owner(agency, needed) -> Path:
    """A folder with one owner's records, as CSV and as Parquet with numbers."""
    write(agency / "owner.csv", COLUMNS, people(needed + 200, seed=5))
    pq.write_table(pa_csv.read_csv(agency / "owner.csv"), agency / "owner.parquet")
    return agency


@pytest.fixture(scope="module", params=["csv", "parquet"])
def released(shoal, owner, request) -> tuple[Path, dict]:
    out = owner / f"out-{request.param}"
    ran = shoal("agency", "apply", owner / "plan.json", owner / f"owner.{request.param}", "-o", out, "--json")
    assert ran.returncode == 0, ran.stdout
    return out, json.loads(ran.stdout)


def read(public: Path) -> list[dict[str, str]]:
    path = public / "data.csv"
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    return [
        {name: str(value) for name, value in row.items()} for row in pq.read_table(public / "data.parquet").to_pylist()
    ]


def test_what_is_written(released, owner, needed):
    out, stated = released
    public = out / "public"
    data = stated["data"]["file"]
    expected = {data, "manifest.json", "README.md", "report.html", "verify.sql", "plan.json"}
    assert {path.name for path in public.iterdir()} == expected
    plan = (public / "plan.json").read_bytes()
    assert plan == (owner / "plan.json").read_bytes()
    document = json.loads(plan)
    assert stated["method"] == "agreed"
    assert stated["agreed"] == {
        "file": "plan.json",
        "sha256": hashlib.sha256(plan).hexdigest(),
        "digest": document["digest"],
        "classes": document["classes"],
    }
    assert stated["parts"] == [["age", "sex", "town", "illness"]]
    assert stated["left_out"] == ["name", "note"]
    assert stated["rows"] == needed + 200
    assert (stated["withheld"], stated["records_needed"]) == (0, needed)
    (promise,) = stated["guarantees"]
    assert promise["model"] == "l-delta-diversity"
    assert promise["parameters"] == {"l": 3, "delta": 0.001}
    assert promise["achieved"] >= 3
    assert not any(SECRET.encode() in path.read_bytes() for path in public.iterdir())


def test_labels_come_from_the_plan_alone(released, owner):
    out, stated = released
    plan = json.loads((owner / "plan.json").read_text())
    numbers = [number for number, length in plan["runs"] for _ in range(length)]
    ages = [int(plan["quasi"][0]["values"][code]) for code in plan["points"][0]]
    for row in read(out / "public"):
        own = [age for age, number in zip(ages, numbers, strict=True) if str(number) == row["class"]]
        wanted = str(min(own)) if min(own) == max(own) else f"[{min(own)}, {max(own)}]"
        assert row["age"] in (wanted, "*")
        assert stated["attributes"]["age"]["kind"] == "number"


def test_verify_accepts_it_with_and_without_source(shoal, released, owner):
    out, _ = released
    crossed = owner / ("owner.csv" if (out / "public" / "data.parquet").exists() else "owner.parquet")
    for more in ((), ("--source", crossed)):
        ran = shoal("verify", out, *more, "--json")
        assert ran.returncode == 0, ran.stdout
        stated = json.loads(ran.stdout)
        assert stated["verified"] is True
        assert [promise["model"] for promise in stated["guarantees"]] == ["l-delta-diversity"]


def test_two_owners_by_one_plan_leave_l_values_to_everybody(shoal, owner, needed, tmp_path):
    for name, seed in (("one", 21), ("two", 22)):
        write(tmp_path / f"{name}.csv", COLUMNS, people(needed, seed))
    apply_plan(owner / "plan.json", tmp_path / "one.csv", tmp_path / "one")
    ran = shoal("agency", "apply", owner / "plan.json", tmp_path / "two.csv", "-o", tmp_path / "two")
    assert ran.returncode == 0, ran.stderr
    assert "Left out" in ran.stdout
    assert "name, note" in ran.stdout
    ran = shoal("link", tmp_path / "one", tmp_path / "two", "--json")
    assert ran.returncode == 0, ran.stdout
    assert json.loads(ran.stdout)["l"] >= 3


Change = Callable[[Rows], Rows]


def with_value(column: str, value: str, *rows: int) -> Change:
    place = COLUMNS.index(column)
    return lambda table: [(*r[:place], value, *r[place + 1 :]) if n in rows else r for n, r in enumerate(table)]


def hide(table: Rows) -> Rows:
    """Everybody who is 20 has the flu."""
    return [(*r[:4], "flu", r[5]) if r[2] == "20" else r for r in table]


REFUSALS: dict[str, tuple[Change, int, tuple[str, ...]]] = {
    "values": (
        lambda table: with_value("age", "elderly", 0, 1)(
            with_value("age", "young", 2)(with_value("sex", "X", 3)(table))
        ),
        2,
        ("column 'age': 3 records with 2 values", "column 'sex': 1 record with 1 value", "nothing was published"),
    ),
    "sensitive value": (with_value("illness", "plague", 4), 2, ("column 'illness': 1 record with 1 value",)),
    "missing values": (
        lambda table: with_value("town", "", 0, 5)(with_value("illness", "", 6)(table)),
        2,
        ("column 'town': 2 records without a value", "column 'illness': 1 record without a value"),
    ),
    "values before their number": (
        lambda table: with_value("age", "elderly", 0)(table)[:10],
        2,
        ("column 'age': 1 record with 1 value",),
    ),
    "combinations": (
        lambda table: with_value("town", "Bonn", 0, 1)(
            with_value("age", "29", 0, 1)(with_value("sex", "F", 0, 1)(table))
        ),
        2,
        ("2 records outside the agreed domain", "1 combination", "'age', 'sex', 'town'"),
    ),
    "too few": (
        lambda table: table[:100],
        3,
        ("there are 100 records", "the plan asks for {needed}", "{missing} are missing"),
    ),
    "values that do not show": (hide, 3, ("values that the plan names are absent", "delta = 0.001", "wait for more")),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(shoal, agency, needed, tmp_path, name):
    change, code, words = REFUSALS[name]
    path = write(tmp_path / "data.csv", COLUMNS, change(people(needed, seed=6)))
    with pytest.raises(ShoalError) as caught:
        apply_plan(agency / "plan.json", path, tmp_path / "out")
    assert caught.value.exit_code == code
    for word in words:
        assert word.format(needed=f"{needed:,}", missing=f"{needed - 100:,}") in str(caught.value)
    for value in ("elderly", "young", "plague", SECRET):
        assert value not in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.csv"]


def test_an_altered_plan_is_refused_first(owner, needed, tmp_path):
    text = (owner / "plan.json").read_text().replace(f'"records": {needed}', '"records": 4')
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(InputError, match="altered"):
        apply_plan(tmp_path / "plan.json", tmp_path / "no such.csv", tmp_path / "out")
    with pytest.raises(InputError, match=r"absent\.json"):
        apply_plan(tmp_path / "absent.json", owner / "owner.csv", tmp_path / "out")


def test_people_are_counted_where_a_column_tells_them_apart(shoal, agency, needed, tmp_path):
    """Half of the people that the plan asks for, each with two records, are as many records as it asks for."""
    half = people(needed // 2 + 1, seed=8)
    path = write(tmp_path / "twice.csv", COLUMNS, half * 2)
    arguments = ("agency", "apply", agency / "plan.json", path, "-o", tmp_path / "out", "--json")
    counted = shoal(*arguments, "--unit", "name")
    assert counted.returncode == 3, counted.stdout
    said = json.loads(counted.stdout)["error"]
    assert f"{2 * len(half):,} records of {len(half):,} people" in said
    assert f"the plan asks for {needed:,} people" in said
    assert shoal(*arguments, "--unit", "nmae").returncode == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("columns", [COLUMNS, COLUMNS[1:5]], ids=["identified", "nameless"])
def test_a_table_given_twice_is_a_finding(shoal, agency, needed, tmp_path, columns):
    first = 0 if columns == COLUMNS else 1
    rows = [row[first : first + len(columns)] for row in people(needed // 2 + 200, seed=8)]
    path = write(tmp_path / "twice.csv", columns, rows * 2)
    arguments = ("agency", "apply", agency / "plan.json", path, "-o", tmp_path / "out", "--json")
    strict = shoal(*arguments, "--strict")
    assert strict.returncode == 5, strict.stdout
    assert not (tmp_path / "out").exists()
    shown = shoal(*arguments)
    assert shown.returncode == 0, shown.stdout
    stated = json.loads(shown.stdout)
    assert "repeated-people" in {finding["id"] for finding in stated["findings"] if finding["severity"] == "high"}
    assert stated["people"] is None  # nobody said who is who
    assert SECRET not in shown.stdout
