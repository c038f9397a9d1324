"""Every type of column can be published in every format, ordered distances included; a changed instant is caught."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from tests.tables import cover

import shoal
from shoal.core.errors import UnreachableError
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify_table

DAYS = [datetime.datetime(2020, 1, 2, 3, 4, 5), datetime.datetime(2021, 7, 2), None, datetime.datetime(1950, 5, 6)]
ZONES = (None, "UTC", "Europe/Berlin", "+05:30")
KINDS: dict[str, pa.Array] = {
    "truth": pa.array([True, False, None, True]),
    "blank": pa.array([" ", "a", None, "  "]),
    "float16": pa.array([0.1, 2.5, None, 7.0], pa.float32()).cast(pa.float16()),
    "float32": pa.array([0.1, 1e30, None, 3.0], pa.float32()),
    "float64": pa.array([1 / 3, 5e-324, None, 3.0]),
    "decimal": pa.array([1, 2, None, 4]).cast(pa.decimal128(25, 3)),
    "uint64": pa.array([2**64 - 1, 3, None, 2**63], pa.uint64()),
    "date64": pa.array(DAYS, pa.date64()),
    "time32": pa.array([1, 7200, None, 4], pa.time32("s")),
    "time64": pa.array([1, 2_000_000_000, None, 4_000_000_000], pa.time64("ns")),
    **{f"timestamp[{u}, {z}]": pa.array(DAYS, pa.timestamp(u, z)) for u in ("s", "ms", "us", "ns") for z in ZONES},
}


@pytest.mark.parametrize(("role", "kind"), cover(["sensitive", "insensitive"], KINDS))
def test_every_type_is_published_and_verified(
    kind: str, role: Literal["sensitive", "insensitive"], tmp_path: Path
) -> None:
    values = pa.concat_arrays([KINDS[kind]] * 3)
    people = pa.table({"group": [n // 4 for n in range(12)], "value": values})
    privacy: list[dict[str, Any]] = [{"k-anonymity": {"k": 4}}]
    if role == "sensitive":
        privacy.append({"t-closeness": {"t": 0.1, "distance": "ordered"}})
    policy = {"attributes": {"group": {"role": "quasi"}, "value": {"role": role}}, "privacy": privacy}
    for written in ("csv", "parquet"):
        release = shoal.anonymize(people, policy, out=tmp_path / written, format=written)
        assert release.manifest["rows"] == 12
        assert list(release.manifest["attributes"]["group"]["labels"]) == ["0", "1", "2"]
    published = shoal.anonymize(people, policy).data.column("value")
    assert sorted(map(str, published.to_pylist())) == sorted(map(str, pa.chunked_array([values]).to_pylist()))


def test_a_nanosecond_is_not_overlooked() -> None:
    people = pa.table({"group": [1, 1], "at": pa.array([1001, 2001], pa.timestamp("ns"))})
    policy = {
        "attributes": {"group": {"role": "quasi"}, "at": {"role": "insensitive"}},
        "privacy": [{"k-anonymity": {"k": 2}}],
    }
    release = shoal.anonymize(people, policy)
    late = pa.table({"group": ["1", "1"], "at": pa.array([1002, 2001], pa.timestamp("ns"))})
    given = {"source": open_source(people), "witness": np.ones(2, dtype=np.int64)}
    assert verify_table(release.data, release.manifest, **given).verified
    assert verify_table(late, release.manifest, **given).verdict == "failed"


@pytest.mark.parametrize(
    ("model", "offered"),
    [
        ({"delta-disclosure": {"delta": 0.5}}, "no weaker parameter allows"),
        ({"t-closeness": {"t": 0.1}}, "reaches 0.5, so ask for more than that"),
    ],
)
def test_a_refusal_offers_only_what_can_be_asked_for(model: dict[str, Any], offered: str) -> None:
    people = pa.table({"group": [1, 1, 2, 2], "illness": ["flu", "flu", "cold", "cold"]})
    policy = {"attributes": {"group": {"role": "quasi"}, "illness": {"role": "sensitive"}}, "privacy": [model]}
    with pytest.raises(UnreachableError, match=offered):
        shoal.anonymize(people, policy)
