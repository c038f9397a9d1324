"""The tables of the walk-through: repeatable, of the sizes asked for, with the patients that both hospitals share."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.core.errors import UsageError
from shoal.datasets.hospital import diagnosis_tree
from shoal.datasets.hospital_files import write_two_hospitals

NAMES = ("north/past.csv", "north/stays.csv", "shared.csv", "south/past.csv", "south/stays.csv")


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text(encoding="utf-8").splitlines()[1:]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_two_hospitals(tmp_path / "a", seed=3, past=500, rows=200, shared=30)


def test_the_files_have_the_rows_asked_for(folder: Path) -> None:
    written = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.csv"))
    assert tuple(written) == NAMES
    assert [len(lines(folder, name)) for name in NAMES] == [500, 200, 30, 500, 200]


def test_shared_patients_are_in_both_hospitals_and_nobody_else_is(folder: Path) -> None:
    north, south = (set(lines(folder, f"{name}/stays.csv")) for name in ("north", "south"))
    assert north & south == set(lines(folder, "shared.csv"))
    past = set(lines(folder, "north/past.csv")) | set(lines(folder, "south/past.csv"))
    assert len(past) == 1000
    assert not past & (north | south)


def test_values_are_those_of_the_walk_through(folder: Path) -> None:
    rows = [line.split(",") for line in lines(folder, "north/past.csv")]
    assert {row[4] for row in rows} <= set(diagnosis_tree())
    assert {row[2] for row in rows} == {"F", "M"}
    assert {row[3] for row in rows} == set("0123456789")
    assert all(0 <= int(row[1]) <= 105 for row in rows)


def test_a_seed_repeats_the_files_and_none_does_not(folder: Path, tmp_path: Path) -> None:
    again = write_two_hospitals(tmp_path / "b", seed=3, past=500, rows=200, shared=30)
    other = write_two_hospitals(tmp_path / "c", past=500, rows=200, shared=30)
    for name in NAMES:
        assert (again / name).read_bytes() == (folder / name).read_bytes()
        assert (other / name).read_bytes() != (folder / name).read_bytes()


def test_impossible_sizes_are_refused(tmp_path: Path) -> None:
    for sizes in ({"rows": 10, "shared": 11}, {"rows": 10, "shared": 0}, {"past": 0}):
        with pytest.raises(UsageError):
            write_two_hospitals(tmp_path, **sizes)
