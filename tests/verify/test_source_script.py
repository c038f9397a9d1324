"""verify-source.sql: run by DuckDB alone, it finds rows that are not rows of the source."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sql import run_source_script
from tests.tables import cover

import shoal

AGES = {"intervals": {"min": 0, "max": 119, "widths": [10, 30]}}
DATES = {"dates": {"min": "2000-01-01", "max": "2019-12-31", "levels": ["month", "year"]}}
GROUPED = {"tree": {"any": {"north": ["Kiel", "Bremen"], "south": ["Ulm", "Passau"]}}}
POLICY = {
    "attributes": {
        "name": {"role": "identifier"},
        "age": {"role": "quasi", "taxonomy": AGES},
        "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 5}}},
        "born": {"role": "quasi", "taxonomy": DATES},
        "town": {"role": "quasi", "taxonomy": GROUPED},
        "illness": {"role": "sensitive"},
        "wage": {"role": "insensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 4}}, {"distinct-l-diversity": {"l": 2}}],
}


def write_source(path: Path, seed: int = 5) -> Path:
    """Write a table with all kinds of attributes, some values missing."""
    chance = random.Random(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(POLICY["attributes"])
        for number in range(240):
            age, code = chance.randint(0, 110), f"{chance.randint(0, 3)}711{chance.randint(0, 9)}"
            day = f"{chance.randint(2000, 2019)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
            town = chance.choice(["Kiel", "Bremen", "Ulm", "Passau"])
            illness = chance.choice(["flu", "gout", "cold, dry", "=sum(1)", ""])
            row = [f"p{number}", age, code, chance.choice([day, day, ""]), town, illness, chance.randint(1, 10**9)]
            writer.writerow(row)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release of a CSV file, with its source."""
    folder = tmp_path_factory.mktemp("made")
    source = write_source(folder / "people.csv")
    shoal.anonymize(source, POLICY, out=folder / "out", seed=3)
    return folder / "out", source


@pytest.fixture
def release(made, tmp_path):
    """A copy of the release that a test may change."""
    out, source = made
    for path in out.rglob("*"):
        if path.is_file():
            copy = tmp_path / "out" / path.relative_to(out)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    return tmp_path / "out", source


def failing(out: Path, source: object) -> set[str]:
    return {line.promise for line in run_source_script(out, source) if line.holds is not True}


def edit(out: Path, change) -> None:
    """Change the rows of the data file."""
    path = out / "public" / "data.csv"
    with path.open(newline="") as file:
        head, *rows = list(csv.reader(file))
    rows = change([dict(zip(head, row, strict=True)) for row in rows])
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *(list(row.values()) for row in rows)])


@pytest.mark.parametrize(
    ("method", "kind"), cover(["mondrian", "sweep", "incognito", "hilbert", "slicing", "anatomy"], ["csv", "parquet"])
)
def test_release_is_true(tmp_path, method, kind):
    source = write_source(tmp_path / "people.csv")
    policy = {**POLICY, "method": {method: {}}}
    if method in ("slicing", "anatomy", "hilbert"):
        policy["privacy"] = [{"distinct-l-diversity": {"l": 2}}]
    shoal.anonymize(source, policy, out=tmp_path / "out", format=kind, seed=1)
    assert failing(tmp_path / "out", source) == set()


def test_changed_contents_are_found(release):
    out, source = release
    edit(out, lambda rows: [{**rows[0], "wage": "1"}, *rows[1:]])
    assert failing(out, source) == {"truth"}


def test_values_that_changed_places_are_found(release):
    out, source = release

    def swap(rows):
        other = next(row for row in rows if row["age"] != rows[0]["age"] and row["illness"] != rows[0]["illness"])
        rows[0]["illness"], other["illness"] = other["illness"], rows[0]["illness"]
        return rows

    edit(out, swap)
    assert failing(out, source) == {"truth"}


def test_missing_and_repeated_rows_are_found(release):
    out, source = release
    edit(out, lambda rows: [rows[1], *rows[1:]])
    assert failing(out, source) == {"truth"}


def test_value_outside_its_label_is_found(release, tmp_path):
    out, source = release
    other = tmp_path / "other.csv"
    with source.open(newline="") as file:
        head, first, *rest = list(csv.reader(file))
    first[1] = str((int(first[1]) + 60) % 110)
    with other.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, first, *rest])
    assert failing(out, other) == {"labels"}


def test_source_of_other_length_or_order_is_found(release, tmp_path):
    out, source = release
    lines = source.read_text().splitlines(keepends=True)
    shorter, turned = tmp_path / "shorter.csv", tmp_path / "turned.csv"
    shorter.write_text("".join(lines[:-1]))
    turned.write_text("".join([lines[0], *lines[:0:-1]]))
    assert "witness" in failing(out, shorter)
    assert {"labels", "truth"} <= failing(out, turned)


def test_witness_of_other_classes_is_found(release):
    out, source = release
    path = out / "internal" / "witness.parquet"
    numbers = pq.read_table(path)["class"].to_pylist()
    place = next(place for place, number in enumerate(numbers) if number != numbers[0])
    numbers[0], numbers[place] = numbers[place], numbers[0]
    pq.write_table(pa.table({"class": pa.array(numbers, pa.int64())}), path)
    assert "truth" in failing(out, source)
    numbers[0] = 0
    pq.write_table(pa.table({"class": pa.array(numbers, pa.int64())}), path)
    assert {"published", "withheld", "truth"} <= failing(out, source)
