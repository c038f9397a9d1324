"""Mondrian on Adult against the best that any peer was measured to reach.

The normalized certainty penalty is taken from the published table itself: copies of the quasi columns travel
along as insensitive ones, so that the true extents of each class can be seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import shoal
from shoal.datasets.uci import adult, adult_policy

QUASI = ("age", "workclass", "education", "marital-status", "race", "sex")
BEST_PEER = 0.0235  # mosaicrown/mondrian, 2,049 classes
COPY = "copy of "


@pytest.fixture(scope="module")
def release(shared_data: Path) -> Any:
    table = adult(folder=shared_data, columns=[*QUASI, "occupation"])
    assert table.num_rows == 45_222
    for name in QUASI:
        table = table.append_column(COPY + name, table[name])
    policy = adult_policy(QUASI, privacy=[{"k-anonymity": {"k": 10}}], folder=shared_data)
    policy["method"] = {"mondrian": {"labels": "ranges"}}
    policy["attributes"] |= {COPY + name: {"role": "insensitive"} for name in QUASI}
    return shoal.anonymize(table, policy, seed=1)


def codes(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(pc.dictionary_encode(column).combine_chunks().indices)


def class_numbers(data: pa.Table) -> np.ndarray:
    number = np.zeros(data.num_rows, dtype=np.int64)
    for name in QUASI:
        number = number * data.num_rows + codes(data[name])
        number = np.unique(number, return_inverse=True)[1]
    return number


def test_every_class_has_ten_records(release: Any) -> None:
    sizes = np.bincount(class_numbers(release.data))
    assert release.data.num_rows == 45_222
    assert sizes.min() >= 10
    assert sizes.min() == release.guarantees[0]["achieved"]
    assert len(sizes) == release.evidence["risk_after"]["classes"]


def test_the_penalty_is_at_most_the_best_peers(release: Any) -> None:
    data = release.data
    number = class_numbers(data)
    sizes = np.bincount(number)
    order = np.argsort(number, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    penalty = 0.0
    for name in QUASI:
        original = data[COPY + name]
        if name == "age":
            ages = np.asarray(original.combine_chunks())[order]
            assert (ages.min(), ages.max()) == (17, 90)
            width = (np.maximum.reduceat(ages, starts) - np.minimum.reduceat(ages, starts)) / 73
        else:
            value = codes(original)
            domain = int(value.max()) + 1
            pairs = np.unique(number * domain + value)
            width = (np.bincount(pairs // domain, minlength=len(sizes)) - 1) / (domain - 1)
        penalty += float(np.dot(width, sizes)) / len(number)
    assert penalty / len(QUASI) <= BEST_PEER


def test_levels_keep_the_promise(shared_data: Path) -> None:
    table = adult(folder=shared_data, columns=[*QUASI, "occupation"])
    policy = adult_policy(QUASI, folder=shared_data)
    release = shoal.anonymize(table, policy, seed=2)
    assert np.bincount(class_numbers(release.data)).min() >= 10
    assert release.verification.verified
    assert release.manifest["rows"] == 45_222
