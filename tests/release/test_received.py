"""Releases as their recipients read them: typed columns, drawn tables, combined estimates."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import shoal
from shoal.core.errors import InputError, VerificationError
from shoal.release.received import combine_estimates, read_release

TREE = {"any": {"lungs": ["flu", "asthma"], "joints": ["gout", "arthritis"]}}
ATTRIBUTES: dict[str, Any] = {
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 119, "widths": [10, 40]}}},
    "came": {
        "role": "quasi",
        "taxonomy": {"dates": {"levels": ["month", "year"], "min": "2023-01-01", "max": "2024-12-31"}},
    },
    "ill": {"role": "quasi", "taxonomy": {"tree": TREE}},
    "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 5}}},
    "wage": {"role": "sensitive"},
}


def people(n: int = 400, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": pa.array(rng.integers(18, 90, n), mask=rng.random(n) < 0.05),
            "came": [datetime.date(2023, 1, 1) + datetime.timedelta(int(days)) for days in rng.integers(0, 700, n)],
            "ill": rng.choice(["flu", "asthma", "gout", "arthritis"], n, p=[0.5, 0.2, 0.2, 0.1]),
            "zip": [f"{code:05}" for code in rng.integers(1000, 1200, n)],
            "wage": rng.integers(1, 9, n),
        }
    )


def publish(folder: Path, method: Any = "mondrian", **more: Any) -> Path:
    policy = {"attributes": ATTRIBUTES, "privacy": [{"k-anonymity": {"k": 8}}], "method": method, **more}
    if method == "slicing":
        policy["privacy"] = [{"distinct-l-diversity": {"l": 2}}]
    shoal.anonymize(people(), policy, out=folder, seed=1)
    return folder


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_labels_have_typed_bounds_and_drawn_values_lie_within_them(tmp_path: Path, kind: str) -> None:
    policy = {"attributes": ATTRIBUTES, "privacy": [{"k-anonymity": {"k": 8}}]}
    shoal.anonymize(people(), policy, out=tmp_path / "out", seed=1, format=kind)
    received = read_release(tmp_path / "out")
    table = received.table
    assert table.schema.field("age_mid").type == pa.float64()
    assert table.schema.field("came_from").type == pa.date32()
    assert pa.types.is_dictionary(table.schema.field("ill").type)
    assert "zip_from" not in table.column_names
    for drawn in received.draw(3, seed=5):
        assert drawn.schema.field("age").type == pa.int64()
        for name in ("age", "came"):
            known = drawn.column(name).is_valid()
            assert known.equals(table.column(f"{name}_from").is_valid())  # without a domain, a star stays open
            above = pc.greater_equal(
                drawn.column(name), table.column(f"{name}_from").cast(drawn.schema.field(name).type)
            )
            below = pc.less(drawn.column(name), table.column(f"{name}_below").cast(drawn.schema.field(name).type))
            assert pc.all(pc.or_(pc.invert(known), pc.and_(above.fill_null(True), below.fill_null(True)))).as_py()
        under = received.labels("ill")
        pairs = zip(table.column("ill").to_pylist(), drawn.column("ill").to_pylist(), strict=True)
        assert all(under[label].get("any") or value in under[label]["values"] for label, value in pairs)
        assert drawn.column("zip").equals(received.rows.column("zip"))  # only how a text begins is known
    assert received.draw(1, seed=5)[0].equals(received.draw(1, seed=5)[0])


def test_sliced_releases_are_linked_anew_for_every_table(tmp_path: Path) -> None:
    received = read_release(publish(tmp_path / "out", "slicing"))
    first, second = received.draw(2, seed=1)
    assert first.num_rows == second.num_rows == 400
    assert not first.equals(second)
    assert received.slices.table.n_buckets > 1


def test_intervals_contain_the_truth_as_often_as_they_say(tmp_path: Path) -> None:
    # Of 20 intervals of 95 % fewer than 15 contain the truth in 3 of 100,000 runs.
    contained = 0
    for repeat in range(20):
        rng = np.random.default_rng(repeat)
        ages = np.minimum(rng.gamma(9.0, 5.0, 300).astype(int), 119)  # of a population with the mean 44.5
        roles = {"age": ATTRIBUTES["age"], "sex": {"role": "quasi"}}
        table = pa.table({"age": ages, "sex": rng.choice(["f", "m"], 300)})
        shoal.anonymize(
            table, {"attributes": roles, "privacy": [{"k-anonymity": {"k": 10}}]}, out=tmp_path / f"{repeat}", seed=1
        )
        received = read_release(tmp_path / f"{repeat}")
        drawn = [one.column("age").to_numpy() for one in received.draw(10, seed=repeat, domains={"age": (0, 120)})]
        found = combine_estimates([one.mean() for one in drawn], [one.var(ddof=1) / len(one) for one in drawn])
        assert 0 < found.unknown < 1
        contained += found.low <= 44.5 <= found.high
    assert contained >= 15


def test_what_fails_verification_or_is_no_release_is_not_read(tmp_path: Path) -> None:
    folder = publish(tmp_path / "out")
    data = folder / "public" / "data.parquet"
    data.write_bytes(data.read_bytes() + b"x\n")
    with pytest.raises(VerificationError, match="was not read"):
        read_release(folder)
    with pytest.raises(InputError, match="manifest"):
        read_release(tmp_path)
