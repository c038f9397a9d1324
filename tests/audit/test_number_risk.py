"""Interval disclosure and distance-based record linkage: by hand, by brute force, and in releases joined by a key."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given as over
from hypothesis import strategies as st
from tests import tables

import shoal
from shoal.anonymize.opening import Options
from shoal.anonymize.run import run as run_policy
from shoal.audit import numbers
from shoal.audit.numbers import disclose_intervals, link_records
from shoal.cli.anonymize import show_release
from shoal.core.progress import Silent

N = 400
NOISE = {"noise": {"gaussian": {"sd": 400}}}
AS_IT_IS = {"coding": {"bottom": 0, "top": 100_000}}


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_intervals_by_hand() -> None:
    """Ranks 0 to 39: a width of 5 % reaches 1 rank to either side, one of 10 % reaches 2."""
    shown = np.arange(40.0) * 10
    moved = shown + np.repeat([0.0, 10.0, 20.0, 30.0], 10)  # the last ten leave the table: 370, 380, ... 420
    five, ten = disclose_intervals(moved, shown, rng())
    assert (five["width"], ten["width"]) == (5, 10)
    assert five["rank_based"] == 20 / 40  # own and next rank
    assert ten["rank_based"] == 30 / 40
    assert five["sd_based"] == ten["sd_based"] == 10 / 40  # of a standard deviation of 115.4: 2.9 and 5.8 to each side


def link_slowly(given: list[list[int | None]], shown: list[list[int | None]]) -> tuple[float, float]:
    """Look at every pair of records in two tables of rows."""

    def distance(one: list[int | None], other: list[int | None]) -> int:
        return sum(
            (10**9 if (a is None) != (b is None) else 0) + ((a or 0) - (b or 0)) ** 2
            for a, b in zip(one, other, strict=True)
        )

    first, two = Fraction(0), Fraction(0)
    for own, row in enumerate(given):
        distances = [distance(row, other) for other in shown]
        closer = sum(one < distances[own] for one in distances)
        equal = distances.count(distances[own])
        first += Fraction(closer == 0, equal)
        two += min(Fraction(max(2 - closer, 0), equal), Fraction(1))
    return float(first / len(given)), float(two / len(given))


@over(st.integers(2, 9), st.integers(0, 10**6))
def test_linkage_by_brute_force(n: int, seed: int) -> None:
    """Few whole numbers, so that many records are equally near, and some missing ones.

    Both columns publish the same numbers in another order: their standard deviations are equal, and distances can be
    compared in whole numbers.
    """
    draw = np.random.default_rng(seed)
    values = draw.integers(0, 4, (2, 2, n)).astype(float)  # (given or published, column, record)
    values[draw.random(values.shape) < 0.15] = np.nan
    values[1, 1] = draw.permutation(values[1, 0])
    if np.isnan(values[1, 0]).all():
        return
    found = link_records({"a": tuple(values[:, 0]), "b": tuple(values[:, 1])}, rng())
    given, shown = ([[None if np.isnan(one) else int(one) for one in row] for row in each.T] for each in values)
    assert (found["nearest"], found["two_nearest"]) == pytest.approx(link_slowly(given, shown))


def run(policy: dict[str, Any], table: Any, **options: Any) -> Any:
    return run_policy(table, policy, Options(seed=1, **options), Silent())


def joined(table: pa.Table, release: Any, column: str) -> tuple[Any, Any]:
    """Original and published numbers of all published records, joined by the column that tells whose a row is."""
    given, shown = (
        dict(zip(*(each[name].to_pylist() for name in ("row", column)), strict=True)) for each in (table, release.data)
    )
    order = [row for row in given if row in shown]
    return np.array([given[row] for row in order], dtype=float), np.array([shown[row] for row in order], dtype=float)


COLUMNS = "row age sex wage cost"
PROMISE = [{"k-anonymity": {"k": 4}}]
POLICIES: dict[str, dict[str, Any]] = {
    "plain": {"privacy": [], "method": "plain", "sample": {"share": 0.6}},
    "classes": {"privacy": PROMISE, "method": "mondrian", "missing": "drop"},
    "averages": {"privacy": PROMISE, "method": "microaggregation"},
}


@pytest.mark.parametrize("name", POLICIES)
def test_figures_are_those_of_the_published_rows(name: str) -> None:
    table = tables.people(N, 2, COLUMNS, missing={"wage": 0.1, "age": 0.05})
    attributes = tables.attributes(
        COLUMNS, wage={"technique": NOISE}, cost={"technique": {"rank-swapping": {"window": 0.1}}}
    )
    release = run({"attributes": attributes, **POLICIES[name]}, table)
    found = release.evidence["number_risk"]
    assert found["linkage"]["columns"] == [*(["age"] if name == "averages" else []), "wage", "cost"]
    assert found["records"] == found["of_records"] == release.data.num_rows
    for column, several in found["intervals"].items():
        wanted = disclose_intervals(*joined(table, release, column), rng())
        for one, other in zip(several, wanted, strict=True):
            assert (one["rank_based"], one["sd_based"]) == pytest.approx((other["rank_based"], other["sd_based"]))
    pairs = {column: joined(table, release, column) for column in found["intervals"]}
    linked = link_records(pairs, rng())
    for share in ("nearest", "two_nearest"):
        assert found["linkage"][share] == pytest.approx(linked[share])


def test_numbers_as_they_are_and_what_people_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A technique that changes nothing, on texts of a file, of which only a sample is compared."""
    monkeypatch.setattr(numbers, "MOST_RECORDS", 100)
    table = tables.people(N, 2, COLUMNS, wage=np.random.default_rng(1).permutation(9000)[:N])
    pa.csv.write_csv(table, tmp_path / "people.csv")
    attributes = tables.attributes(COLUMNS, wage={"technique": AS_IT_IS}, row={"technique": {"permutation": {}}})
    policy = {"attributes": attributes, "privacy": [], "method": "plain"}
    release = shoal.anonymize(tmp_path / "people.csv", policy, out=tmp_path / "out")
    found = release.evidence["number_risk"]
    assert (found["records"], found["of_records"], list(found["intervals"])) == (100, N, ["wage"])
    assert all(one[key] == 1 for one in found["intervals"]["wage"] for key in ("rank_based", "sd_based"))
    assert (found["linkage"]["nearest"], found["linkage"]["chance"]) == (1, 1 / 100)
    show_release(release)
    said = " ".join(capsys.readouterr().out.split())
    assert "For 100% of 100 records, the published record nearest to their original wage is their own" in said
    assert "around the published number: wage (100%)." in said
    page = (tmp_path / "out/internal/report.html").read_text(encoding="utf-8")
    assert "One number alone links poorly" in page
    assert "100 of 400 published records" in page
    assert "Interval disclosure" in page
    assert "Interval disclosure" not in (tmp_path / "out/public/report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("changed", "method"),
    [
        ({"age": {"technique": {"rounding": {"base": 5}}}}, "mondrian"),  # labels contain what was rounded
        ({"illness": {"technique": {"swapping": {"share": 0.5}}}}, "mondrian"),  # no numbers
        ({"name": {"technique": {"token": {}}}}, "mondrian"),
        ({"wage": {"technique": NOISE}}, "slicing"),  # whose the rows are is not known
        ({}, "mondrian"),
    ],
)
def test_releases_without_such_numbers(changed: dict[str, Any], method: str) -> None:
    columns = "name age sex illness wage"
    attributes = tables.attributes(columns, **changed)
    privacy = PROMISE if method == "mondrian" else [{"column-frequency": {"k": 2}}]
    release = run({"attributes": attributes, "privacy": privacy, "method": method}, tables.people(N, 2, columns))
    assert "number_risk" not in release.evidence
