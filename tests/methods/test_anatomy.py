"""Anatomy: who is eligible, exactly at the border, what its buckets hold, what it withholds, and its two tables."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import shoal
from shoal.core.errors import UnreachableError
from shoal.methods.anatomy import _number_of_buckets

NAMES = "abcdefgh"


def table(*counts: int, quasi: int = 5) -> pa.Table:
    """So many records of each sensitive value."""
    values = [name for name, count in zip(NAMES, counts, strict=False) for _ in range(count)]
    rows = range(len(values))
    return pa.table({"age": [20 + i % quasi for i in rows], "s": values, "row": [f"r{i}" for i in rows]})


def policy(model: dict[str, Any], parameters: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    roles = {"age": {"role": "quasi"}, "s": {"role": "sensitive"}, "row": {"role": "insensitive"}}
    return {"attributes": roles, "privacy": [model], "method": {"anatomy": parameters or {}}, **options}


def run(data: pa.Table, model: dict[str, Any], seed: int = 1, **options: Any) -> Any:
    return shoal.anonymize(data, policy(model, **options), seed=seed)


def buckets_of(release: Any) -> list[Counter[str]]:
    buckets: dict[int, Counter[str]] = defaultdict(Counter)
    for number, value in zip(release.data["bucket"].to_pylist(), release.data["s"].to_pylist(), strict=True):
        buckets[number][value] += 1
    return [buckets[number] for number in sorted(buckets)]


@pytest.mark.parametrize(
    ("l", "counts"),
    [
        (2, (6, 3, 3)),
        (2, (6, 6)),
        (3, (4, 4, 4)),
        (3, (5, 5, 3, 2)),
        (3, (4, 4, 3, 1)),
        (4, (5, 5, 5, 3, 2)),
        (5, (1,) * 5),
    ],
)
def test_a_value_of_just_one_lth_is_eligible_and_one_more_record_is_refused(l: int, counts: tuple[int, ...]) -> None:
    assert max(counts) * l == sum(counts)
    release = run(table(*counts), {"simple-l-diversity": {"l": l}})
    assert release.guarantees[0]["achieved"] == l
    assert release.manifest["withheld"] == 0
    assert [sorted(bucket.values()) for bucket in buckets_of(release)] == [[1] * l] * max(counts)
    more = (counts[0] + 1, *counts[1:])
    with pytest.raises(UnreachableError) as refusal:
        run(table(*more), {"simple-l-diversity": {"l": l}})
    text = str(refusal.value)
    assert f"a bucket needs {l} different values of 's'" in text
    assert f"the most frequent one has {more[0]} of {sum(more)} records, more than 1/{l}" in text
    assert refusal.value.exit_code == 3


@pytest.mark.parametrize(
    ("model", "different"),
    [
        ({"simple-l-diversity": {"l": 3}}, 3),
        ({"simple-l-diversity": {"l": 2.5}}, 3),
        ({"distinct-l-diversity": {"l": 4}}, 4),
        ({"entropy-l-diversity": {"l": 3}}, 3),
        ({"entropy-l-diversity": {"l": 3.01}}, 4),
        ({"recursive-cl-diversity": {"c": 1, "l": 3}}, 4),
        ({"recursive-cl-diversity": {"c": 2, "l": 3}}, 3),
        ({"tau-l-diversity": {"tau": 0.5, "l": 3}}, 3),
        ({"tau-l-diversity": {"tau": 0.25, "l": 3}}, 4),
        ({"confidence-bounding": {"most": 0.3}}, 4),
    ],
    ids=str,
)
def test_buckets_have_as_many_different_values_as_the_model_needs(model: dict[str, Any], different: int) -> None:
    data = table(9, 8, 8, 7, 6, 5, 3)
    release = run(data, model)
    buckets = buckets_of(release)
    assert len(buckets) == data.num_rows // different
    for bucket in buckets:
        assert set(bucket.values()) == {1}
        assert different <= len(bucket)
    sizes = [bucket.total() for bucket in buckets]
    assert max(sizes) - min(sizes) <= 1
    assert sum(buckets, Counter()) == Counter(data["s"].to_pylist())


def test_records_are_dealt_by_chance() -> None:
    """Any two records of different values may meet, and with equal frequencies all pairs meet alike."""
    data = table(6, 6, quasi=12)
    meetings: Counter[frozenset[str]] = Counter()
    for seed in range(40):
        release = run(data, {"simple-l-diversity": {"l": 2}}, seed)
        buckets: dict[int, set[str]] = defaultdict(set)
        for number, row in zip(release.data["bucket"].to_pylist(), release.data["row"].to_pylist(), strict=True):
            buckets[number].add(row)
        meetings.update(frozenset(rows) for rows in buckets.values())
    # a pair meets with the chance 1/6: 20 or more of 40 times with one below 1 in 10^5, for each of 36 pairs
    assert len(meetings) > 30
    assert max(meetings.values()) < 20


@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_no_record_is_withheld_for_its_value(share: float) -> None:
    """All withheld records would have the most frequent value: a register shows whose these are."""
    with pytest.raises(UnreachableError, match="buckets of 2 are reachable; records cannot be withheld instead"):
        run(table(9, 4, 5), {"simple-l-diversity": {"l": 3}}, max_withheld=share)
    release = run(table(9, 4, 5), {"simple-l-diversity": {"l": 2}}, max_withheld=share)
    assert release.manifest["withheld"] == 0


def test_the_number_of_buckets_is_the_largest_there_can_be() -> None:
    for counts in itertools.product(range(1, 6), repeat=3):
        for size, most in ((1, 1), (2, 1), (3, 1), (3, 2), (5, 2)):
            possible = [n for n in range(sum(counts) + 1) if sum(min(c, most * n) for c in counts) >= n * size]
            assert _number_of_buckets(np.array(counts), size, most) == max(possible)


@pytest.mark.parametrize(
    ("model", "counts", "n_buckets", "most"),
    [
        ({"simple-l-diversity": {"l": 2.5}}, (40, 30, 30), 20, 2),  # buckets of 5
        ({"simple-l-diversity": {"l": 2.5}}, (4, 3, 3), 2, 2),
        ({"distinct-l-diversity": {"l": 2}}, (60, 40), 33, 2),  # of 3
        ({"entropy-l-diversity": {"l": 2.95}}, (4, 3, 3), 1, 4),  # all records together, and nothing less
    ],
    ids=str,
)
def test_a_value_that_is_too_frequent_to_be_once_in_a_bucket_is_there_more_often(
    model: dict[str, Any], counts: tuple[int, ...], n_buckets: int, most: int
) -> None:
    data = table(*counts)
    release = run(data, model)
    buckets = buckets_of(release)
    assert release.verification.verified
    assert (len(buckets), max(bucket["a"] for bucket in buckets)) == (n_buckets, most)
    assert sum(buckets, Counter()) == Counter(data["s"].to_pylist())


@pytest.mark.parametrize(
    "model", [{"distinct-l-diversity": {"l": 4}}, {"recursive-cl-diversity": {"c": 0.4, "l": 2}}], ids=str
)
def test_too_few_values_are_told(model: dict[str, Any]) -> None:
    with pytest.raises(UnreachableError, match=r"3|recursive"):
        run(table(3, 3, 3), model)


def test_several_sensitive_attributes_are_refused() -> None:
    data = table(4, 4).append_column("other", pa.array(list("xyxyxyxy")))
    document = policy({"distinct-l-diversity": {"l": 2}})
    document["attributes"]["other"] = {"role": "sensitive"}
    with pytest.raises(UnreachableError, match="takes one sensitive attribute, the policy has 2"):
        shoal.anonymize(data, document)
    document = policy({"column-frequency": {"k": 2}})
    document["attributes"]["s"] = {"role": "quasi"}
    with pytest.raises(UnreachableError, match="the policy has 0"):
        shoal.anonymize(table(4, 4), document)


@pytest.mark.parametrize("file", ["csv", "parquet"])
def test_two_tables_say_what_the_one_says(file: str, tmp_path: Path) -> None:
    data = table(6, 5, 4, 3)
    document = policy({"distinct-l-diversity": {"l": 3}}, {"two_tables": True})
    release = shoal.anonymize(data, document, out=tmp_path / "out", format=file, seed=3)  # type: ignore[arg-type]
    public = tmp_path / "out" / "public"
    read = pyarrow.csv.read_csv if file == "csv" else pyarrow.parquet.read_table
    whole, quasi, sensitive = (read(public / f"{name}.{file}") for name in ("data", "quasi", "sensitive"))
    manifest = json.loads((public / "manifest.json").read_text())
    assert {entry["file"] for entry in manifest["tables"].values()} == {f"quasi.{file}", f"sensitive.{file}"}
    assert quasi.equals(whole.select(["bucket", "age", "row"]))
    assert sensitive.column_names == ["bucket", "s", "count"]
    listed = {(row["bucket"], row["s"]): row["count"] for row in sensitive.to_pylist()}
    assert listed == Counter(zip(whole["bucket"].to_pylist(), whole["s"].to_pylist(), strict=True))
    in_memory = release.tables()
    assert in_memory[0].num_rows == data.num_rows
    assert in_memory[1].num_rows == len(listed)
    without = shoal.anonymize(data, policy({"distinct-l-diversity": {"l": 3}}), out=tmp_path / "one", seed=3)
    assert "tables" not in without.manifest
