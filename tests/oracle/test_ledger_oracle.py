"""The ledger's answers against those of ``shoal link``, and against all sets of releases one by one."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.core.errors import InputError
from shoal.linking.ledger.book import NEW
from shoal.linking.ledger.comparing import LeftToPeople
from shoal.linking.ledger.records import LedgerOptions
from shoal.linking.linking import link

ATTRIBUTES = {
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [5, 25]}}},
    "sex": {"role": "quasi"},
    "town": {"role": "quasi"},
    "illness": {"role": "sensitive"},
}


@st.composite
def left_to_people(draw: st.DrawFn) -> LeftToPeople:
    n, queries = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    words = draw(st.integers(1, 2))
    few = st.integers(0, 2**5 - 1).map(lambda bits: bits << 60)  # across the border of two words
    cells = draw(st.lists(few, min_size=n * queries, max_size=n * queries))
    both = [[cell & (2**64 - 1), cell >> 64][:words] for cell in cells]
    bits = np.array(both, dtype=np.uint64).reshape(n, queries, words)
    rows = np.array(draw(st.lists(st.integers(1, 3), min_size=queries, max_size=queries)), dtype=np.int64)
    return LeftToPeople((*range(1, n), NEW), bits, rows)


@given(left=left_to_people(), floor=st.integers(1, 4), newest=st.sampled_from([None, NEW]))
def test_the_least_of_all_sets_is_found_without_looking_at_all(
    left: LeftToPeople, floor: int, newest: int | None
) -> None:
    sets = [one for size in range(1, len(left.numbers) + 1) for one in combinations(left.numbers, size)]
    sets = [one for one in sets if newest is None or newest in one]
    remaining = np.array([left.remaining(one) for one in sets])  # (n_sets, n_queries)
    found = left.anyset(floor, newest)
    if not remaining.any():
        assert found is None
        return
    assert found is not None
    assert found.l == remaining[remaining > 0].min()
    assert found.below == left.rows[((remaining > 0) & (remaining < floor)).any(axis=0)].sum()
    assert left.count(found.worst, floor)[0] == found.l
    for number in found.worst:
        fewer = tuple(other for other in found.worst if other != number)
        if fewer and number != newest:
            assert left.count(fewer, floor)[0] >= found.l
    for one, counts in zip(sets, remaining, strict=True):
        least, linked, below = left.count(one, floor)
        assert least == (counts[counts > 0].min() if counts.any() else None)
        assert (linked, below) == (left.rows[counts > 0].sum(), left.rows[(counts > 0) & (counts < floor)].sum())


@pytest.mark.parametrize("seed", range(3))
def test_every_set_is_as_link_finds_it(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 120
    people = pa.table(
        {
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["F", "M"], n),
            "town": rng.choice(["Bonn", "Kiel", "Ulm"], n),
            "illness": rng.choice(["flu", "gout", "ulcer", "cold", "rash"], n),
        }
    )
    for number, method in enumerate(("mondrian", "sweep", "slicing", "hilbert"), start=1):
        kept = people.take(np.sort(rng.choice(n, n - 20, replace=False)))
        policy = {
            "attributes": ATTRIBUTES,
            "privacy": [{"distinct-l-diversity": {"l": 2}}],
            "method": {method: {}},
            "max_withheld": 0.1,
        }
        ledger = LedgerOptions(tmp_path / "ledger.db", floor=2, warn=True)
        release = shoal.anonymize(kept, policy, out=tmp_path / str(number), ledger=ledger)
        (found,) = release.evidence["ledger"]["linked"]
        assert len(found["sets"]) == 2 ** (number - 1)
        assert found["complete"]
        for one in found["sets"]:
            if len(one["releases"]) == 1:
                assert one["l"] >= 2
                continue
            try:
                expected = link([tmp_path / str(each) for each in one["releases"]], population=kept, floor=2)
            except InputError:
                assert (one["l"], one["people_linked"]) == (None, 0)
                continue
            answer = (one["l"], one["people"], one["people_linked"], one["people_below"], one["exact"])
            assert answer == (
                expected.l,
                expected.people,
                expected.people_linked,
                expected.people_below,
                expected.exact,
            )
