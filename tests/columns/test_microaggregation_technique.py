"""Microaggregation of a group of variables: what averages keep, whom they hide, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

import shoal
from shoal.columns.base import treat
from shoal.columns.microaggregation import Microaggregation
from shoal.core.errors import InputError, PolicyError
from shoal.core.randomness import Chance
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify_table

N = 3000


def people(gaps: float = 0.1) -> pa.Table:
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, N))
    return pa.table(
        {
            "age": pa.array(np.rint(45 + 10 * x), mask=rng.random(N) < gaps),
            "wage": pa.array(np.rint(np.exp(8 + 0.5 * x + 0.2 * y)), mask=rng.random(N) < gaps),
            "debt": rng.integers(0, 90_000, N),
            "sex": rng.choice(["f", "m"], N),
        }
    )


def changed(table: pa.Table, column: str, seed: int | None = None, **parameters: Any) -> pa.Table:
    technique = Microaggregation(**parameters)
    return pa.Table.from_batches(
        treat({column: technique}, open_source(table, SourceOptions()), Chance.of(seed)).batches()
    )


def test_every_combination_is_there_k_times_within_strata() -> None:
    before, after = people(), changed(people(), "age", k=4, columns=("wage",), strata=("sex",), decimals=3)
    rows = Counter(zip(*(after[name].to_pylist() for name in ("age", "wage", "sex")), strict=True))
    assert min(count for (age, wage, _), count in rows.items() if (age, wage) != (None, None)) >= 4
    assert len(rows) > N / 10
    for name in ("age", "wage"):
        assert after[name].is_null().equals(before[name].is_null())
        assert np.mean(after[name].drop_null()) == pytest.approx(np.mean(before[name].drop_null()), abs=0.0005)
    assert after.select(["debt", "sex"]).equals(before.select(["debt", "sex"]))


def test_which_of_equal_records_are_averaged_is_left_to_chance() -> None:
    table = pa.table({"x": [1] * 4 + [2], "y": [1] * 4 + [9]})
    found = {changed(table, "x", k=2, columns=("y",), decimals=1)["y"].to_pylist().index(5.0) for _ in range(60)}
    assert len(found) > 1  # all 60 runs agree once in 4**59


def test_too_few_records_of_a_kind_are_refused() -> None:
    table = people(gaps=0.0)
    for spoiled in (
        table.set_column(0, "age", pa.array([None, *table["age"].to_pylist()[1:]])),
        table.set_column(3, "sex", pa.array(["x", *table["sex"].to_pylist()[1:]])),
    ):
        with pytest.raises(InputError, match="column 'age': 1 record is in strata of fewer than 3"):
            changed(spoiled, "age", k=3, columns=("wage",), strata=("sex",))
    nothing = pa.array([None, *table["debt"].to_pylist()[1:]])  # a record without any number needs no group
    assert changed(table.set_column(2, "debt", nothing), "debt", k=3)["debt"].null_count == 1
    with pytest.raises(InputError, match="cannot be read as a number"):
        changed(table, "sex", k=3)
    with pytest.raises(PolicyError, match="name other columns than this one"):
        changed(table, "age", k=3, columns=("age",))
    with pytest.raises(ValidationError, match="twice"):
        Microaggregation(k=3, columns=("wage",), strata=("wage",))


@pytest.mark.parametrize("method", ["plain", "mondrian", "slicing"])
def test_releases_of_two_groups_are_verified_and_promise_nothing_of_their_own(method: str) -> None:
    attributes: dict[str, Any] = {
        "age": {"role": "quasi", "technique": {"microaggregation": {"k": 3, "columns": ["wage"]}}},
        "wage": {"role": "quasi"},
        "debt": {"role": "sensitive", "technique": {"microaggregation": {"k": 3, "decimals": 1}}},
        "sex": {"role": "quasi"},
    }
    privacy: list[Any] = {"plain": [], "mondrian": [{"k-anonymity": {"k": 5}}]}.get(
        method, [{"column-frequency": {"k": 2}}]
    )
    policy = {
        "attributes": attributes,
        "privacy": privacy,
        "method": method,
        "missing": "drop",
        "sample": {"share": 0.7},
    }
    release = shoal.anonymize(people(0.05), policy, seed=3)
    entries = release.manifest["techniques"]
    assert {name: entry["columns"] for name, entry in entries.items()} == {"age": ["wage"], "debt": [], "wage": ["age"]}
    answer = verify_table(release.data, release.manifest, source=open_source(people(0.05)))
    assert answer.failures == ()
    assert bool(release.guarantees) == (method != "plain")
