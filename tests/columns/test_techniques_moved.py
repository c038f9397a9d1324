"""Swapping, permutation and sampling: values change places, and nothing else happens."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import shoal
from shoal.columns.base import NumberDomain, treat
from shoal.columns.permutation import Permutation, Swapping
from shoal.core.errors import InputError, PolicyError
from shoal.core.randomness import Chance
from shoal.sources.base import SourceOptions
from shoal.sources.frames import open_arrow
from shoal.sources.opening import open_source

rows = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, None]), st.integers(0, 3)), min_size=1
)


@given(rows, st.sampled_from([(), ("g",), ("g", "h")]), st.sampled_from([None, 0.3, 1.0]), st.integers(0, 2**32))
def test_groups_keep_their_values(
    table: list[tuple[str | None, int | None, int]], within: tuple[str, ...], share: float | None, seed: int
) -> None:
    g, h, x = (list(column) for column in zip(*table, strict=True))
    assume(not within or len(set(zip(*([g, h][: len(within)]), strict=True))) < len(table))
    people = pa.table({"g": pa.array(g, pa.string()), "h": pa.array(h, pa.int64()), "x": x})
    technique = Permutation(within=within) if share is None else Swapping(share=share, within=within)
    source = treat({"x": technique}, open_arrow(people, SourceOptions(), "people", 7), Chance.of(seed))
    moved = pa.Table.from_batches(source.batches())
    keys = [*within, "x"]
    before, after = (Counter(zip(*(t[k].to_pylist() for k in keys), strict=True)) for t in (people, moved))
    assert before == after


def test_many_records_alone_in_their_group_are_warned_of() -> None:
    people = pa.table({"g": [*range(6), *[7] * 94], "h": ["a"] * 100, "x": list(range(100))})
    policy = {"attributes": {"g": {"role": "quasi"}, "h": {"role": "quasi"}}, "privacy": [], "method": "plain"}
    for within, warned in (("g", True), ("h", False)):
        swapped = {"role": "sensitive", "technique": {"swapping": {"share": 0.5, "within": [within]}}}
        release = shoal.anonymize(people, policy | {"attributes": policy["attributes"] | {"x": swapped}})
        said = "column 'x': 6 of 100 records are alone in their group and keep their value"
        assert any(warning.startswith(said) for warning in release.evidence["warnings"]) == warned


def test_groups_are_made_by_the_columns_as_they_were_given() -> None:
    people = pa.table({"g": ["a", "a", "b", "b"] * 50, "x": [1, 2, 3, 4] * 50})
    both = {"g": Permutation(), "x": Permutation(within=("g",))}
    source = treat(both, open_source(people, SourceOptions()), Chance.of(3))
    after = pa.Table.from_batches(source.batches())
    small = after["x"].to_numpy() <= 2
    assert np.array_equal(small, people["x"].to_numpy() <= 2)
    assert not after["g"].equals(people["g"])


@pytest.mark.parametrize("technique", [Permutation(within=("g", "h")), Swapping(share=1, within=("g", "h"))])
def test_groups_of_one_record_each_are_refused(technique: Permutation | Swapping) -> None:
    people = pa.table({"g": ["a", "a", "b"], "h": [1, 2, 1], "x": [1, 2, 3]})
    with pytest.raises(PolicyError, match=r"column 'x': every record is alone in its group.* than 'g', 'h'"):
        treat({"x": technique}, open_source(people, SourceOptions()), Chance.of(None))


def test_a_source_that_grew_is_refused() -> None:
    source = open_source(pa.table({"x": [1, 2]}), SourceOptions())
    treatment = Permutation().prepare("x", source, Chance.of(None), NumberDomain())
    with pytest.raises(InputError, match="changed while it was being read"):
        treatment.apply(pa.array([1, 2, 3]), 0)
