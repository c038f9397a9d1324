"""Persons and households in the audit against counting with dictionaries."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.audit.audit import audit

row = st.tuples(
    st.sampled_from(["p1", "p2", "p3", "p4", "p5", None]),
    st.sampled_from(["h1", "h2", "h3", None]),
    st.sampled_from(["x", "y", None]),
    st.integers(0, 2),
    st.sampled_from(["flu", "gout", None]),
)


def policy(*, unit: bool, household: bool, missing: str, privacy: list | None = None) -> dict:
    roles = {"person": "identifier", "home": "identifier", "a": "quasi", "b": "quasi", "s": "sensitive"}
    document = {
        "attributes": {name: {"role": role} for name, role in roles.items()},
        "privacy": privacy or [{"k-anonymity": {"k": 2}}],
        "missing": missing,
    }
    return document | ({"unit": "person"} if unit else {}) | ({"household": "home"} if household else {})


def table(rows: list[tuple]) -> pa.Table:
    kinds = {"person": pa.string(), "home": pa.string(), "a": pa.string(), "b": pa.int64(), "s": pa.string()}
    return pa.table({name: pa.array([r[i] for r in rows], kind) for i, (name, kind) in enumerate(kinds.items())})


def usable(rows: list[tuple]) -> bool:
    """Columns without any value are refused, and tested elsewhere."""
    return all(any(one[place] is not None for one in rows) for place in range(5))


@given(rows=st.lists(row, min_size=2, max_size=16).filter(usable), missing=st.sampled_from(["category", "drop"]))
def test_persons_by_dictionaries(rows, missing):
    kept = [one for one in rows if missing == "category" or None not in one[2:]]
    if not any(one[0] for one in kept):
        return
    found = audit(table(rows), policy(unit=True, household=False, missing=missing))
    people, records = defaultdict(set), defaultdict(int)
    for one in kept:
        people[one[2:4]].add(one[0])
        records[one[2:4]] += 1
    risk = found.persons
    alone = [key for key in people if len(people[key]) == 1]
    named = {one[0] for one in kept} - {None}
    assert found.households is None
    assert found.k == risk.smallest_class == min(map(len, people.values()))
    assert found.smallest_class == min(records.values())
    assert risk.persons == len(named)
    assert risk.records_without_person == sum(one[0] is None for one in kept)
    assert risk.most_records == max(sum(one[0] == name for one in kept) for name in named)
    assert risk.mean_records == pytest.approx(sum(one[0] is not None for one in kept) / len(named))
    assert risk.lone_persons == len({name for key in alone for name in people[key]} - {None})
    assert risk.lone_records == sum(records[key] for key in alone)
    assert risk.unseen_classes == sum(records[key] > 1 for key in alone)
    several = [name for name in named if len({one[2:4] for one in kept if one[0] == name}) > 1]
    assert risk.persons_in_several_classes == len(several)
    sizes = list(map(len, people.values()))
    assert found.prosecutor.highest == 1 / min(sizes)
    assert found.prosecutor.mean == pytest.approx(len(sizes) / sum(sizes))
    (verdict,) = found.models
    assert verdict.achieved == min(sizes)
    assert verdict.holds == (min(sizes) >= 2)
    assert verdict.records_missed == sum(records[key] for key in alone)
    assert found.special.unique_records == len(alone)
