"""The copy test: who stands in a release word for word, by chance or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests import releases

import shoal
from shoal.attacks.base import Tally, Trials, verdict
from shoal.attacks.copies import NEAR, CopiesAttack, Matches
from shoal.attacks.view import ReleaseView

JOBS = [f"job {i}" for i in range(40)]
ORIGINS = [f"land {i}" for i in range(10)]
ROLES: dict[str, Any] = {
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [5, 20]}}},
    "sex": {"role": "quasi", "taxonomy": {"tree": {"any": ["F", "M"]}}},
    "town": {"role": "quasi", "taxonomy": {"tree": {"any": ["Bonn", "Hof", "Jena", "Kiel", "Ulm"]}}},
    "ill": {"role": "sensitive", "taxonomy": {"tree": {"any": ["asthma", "flu", "gout", "ulcer"]}}},
    "job": {"role": "quasi", "taxonomy": {"tree": {"any": JOBS}}},
    "origin": {"role": "quasi", "taxonomy": {"tree": {"any": ORIGINS}}},
}


def people(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(20, 90, n),
            "sex": rng.choice(["F", "M"], n),
            "town": rng.choice(["Bonn", "Hof", "Jena", "Kiel", "Ulm"], n, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
            "ill": rng.choice(["asthma", "flu", "gout", "ulcer"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "job": rng.choice(JOBS, n, p=np.arange(40, 0, -1) / 820),
            "origin": rng.choice(ORIGINS, n, p=np.array([512, 256, 128, 64, 32, 16, 8, 4, 2, 1]) / 1023),
        }
    )


SOURCE, CONTROL = people(6000, 1), people(4000, 2)


def release(method: dict[str, Any], privacy: tuple[Any, ...] = (), **more: Any) -> shoal.Release:
    return shoal.anonymize(SOURCE, {"attributes": ROLES, "privacy": list(privacy), "method": method, **more}, seed=1)


def look(made: shoal.Release, control: pa.Table | None = CONTROL) -> Trials:
    (found,) = shoal.attack(made, SOURCE, control, attacks=["copies"], seed=1)
    assert isinstance(found, Trials)
    return found


def make_up(share: float, seed: int = 5) -> ReleaseView:
    """Rows of nobody, ages in steps of two years as synthetic tables have them; a share are people of the source."""
    n = round(share * SOURCE.num_rows)
    members = np.random.default_rng(seed).choice(SOURCE.num_rows, n, replace=False)
    rows = pa.concat_tables([people(6000 - n, seed), SOURCE.take(pa.array(members))])
    begins = rows["age"].to_numpy() // 2 * 2
    rows = rows.set_column(0, "age", pa.array([f"from {begin}" for begin in begins.tolist()]))
    labels = {f"from {begin}": {"from": begin, "below": begin + 2} for begin in range(20, 90, 2)}
    attributes = {name: {"role": entry["role"], "kind": "category"} for name, entry in ROLES.items()}
    attributes["age"] |= {"kind": "number", "labels": labels}
    return releases.view(rows, {"method": "synthetic", "parts": [rows.column_names], "attributes": attributes})


def look_into(view: ReleaseView, control: pa.Table | None = CONTROL) -> Trials:
    beside = None if control is None else view.people(control, "the control table")
    return CopiesAttack().run(view, view.people(SOURCE, "the source"), beside, np.random.default_rng(1))


def test_combinations_that_one_person_has_are_counted() -> None:
    published, source, control = [0, 0, 1, 2, 5, -1], [0, 2, 3, 4, 4], [1, 2, 6]
    column = np.array([*published, *source, *control], dtype=np.int32)
    found = Matches.of([column, np.zeros_like(column)], [6, 5, 3])
    assert found.rows == 3  # two have 0, one has 2
    tried = found.compare(np.inf, True)
    assert tried.success == Tally(1, 2)  # 0 and 3 are alone in the source, and 0 is published
    assert tried.control == Tally(1, 2)  # 1 and 6 in the control table
    assert found.compare(-1.0, True) is None  # beside nobody nothing is compared


@pytest.mark.parametrize("share", [0.05, 0.01])
def test_people_planted_among_rows_of_nobody_are_found_and_counted(share: float) -> None:
    found = look_into(make_up(share))
    assert 0 < found.worst.low <= share <= found.worst.high
    assert verdict(found).startswith("severe: about ")
    assert "6,000 people are copied verbatim into rows that should be synthetic" in verdict(found)


def look_into_copies(share: float, seed: int, *, near: bool) -> Trials:
    """Rows of nobody with nine columns, among which some of 6,000 people are copied, or nearly: one value changed."""

    def draw(n: int) -> pa.Table:
        shares = 1 / np.arange(1, 21) ** 1.3
        return pa.table({f"c{a}": rng.choice(20, n, p=shares / shares.sum()).astype(str) for a in range(9)})

    rng = np.random.default_rng(seed)
    source, control, rows, n = draw(6000), draw(6000), draw(6000), round(share * 6000)
    planted, others = source.slice(0, n), draw(n)
    changed = np.where(near, rng.integers(9, size=n), -1)
    columns = [
        pc.if_else(pa.array(changed == a), theirs, own)
        for a, (own, theirs) in enumerate(zip(planted.columns, others.columns, strict=True))
    ]
    rows = pa.concat_tables([rows.slice(n), pa.table(columns, names=rows.column_names)])
    attributes = {name: {"role": "quasi", "kind": "category"} for name in rows.column_names}
    view = releases.view(rows, {"method": "synthetic", "parts": [rows.column_names], "attributes": attributes})
    people, beside = (view.people(table, "people") for table in (source, control))
    return CopiesAttack().run(view, people, beside, np.random.default_rng(1))


@pytest.mark.parametrize("seed", range(6))
def test_near_copies_are_found_by_leaving_one_column_out(seed: int) -> None:
    found = look_into_copies(0.05, seed, near=True)
    assert found.variants[NEAR].risk.low > 0
    assert "are copied but for one column into rows that should be synthetic" in verdict(found)


def test_no_copies_are_found_where_there_are_none() -> None:
    """Three intervals alarm in 3 of 1,000 runs each: more than 4 of 60 runs do with a chance of 1 in 4,000."""
    assert sum(look_into_copies(0.0, seed, near=True).worst.low > 0 for seed in range(60)) <= 4


def test_where_rows_are_published_as_they_are_every_row_is_somebodys() -> None:
    found = look(release({"plain": {}}, attributes={**ROLES, "job": {"role": "insensitive"}}))
    assert "in age, sex, town, ill, job, origin;" in found.notes[0]
    assert found.success.success == found.success.trials
    assert found.control == Tally(0, found.control.trials)
    assert verdict(found) == "severe: 6,000 of 6,000 rows are people's own, as the method publishes them"


def test_generalized_rows_count_if_every_label_is_one_value() -> None:
    found = look(release({"mondrian": {}}, ({"k-anonymity": {"k": 100}},)))
    assert found.success.success == 0
    assert verdict(found) == "nothing found"
    some = look(release({"mondrian": {}}, ({"k-anonymity": {"k": 1}},)))
    assert some.success.success == some.success.trials
