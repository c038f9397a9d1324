"""One Spark session on two cores for all tests of a process, and a table of people to publish."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

N_PEOPLE = 3_000
POLICY: dict[str, Any] = {
    "attributes": {
        "person": {"role": "identifier"},
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 100, "widths": [5, 10, 20]}}},
        "zip code": {"role": "quasi", "taxonomy": {"mask": {"length": 4}}},
        "sex": {"role": "quasi"},
        "cost.total": {"role": "insensitive"},
        "seen": {"role": "insensitive"},
        "illness": {"role": "sensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 5}}, {"simple-l-diversity": {"l": 2}}],
    "method": {"mondrian": {}},
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of Spark in this process."""
    from shoal.sources.spark.session import spark_session

    quick = {"spark__driver__extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    session = spark_session("local[2]", spark__driver__memory="700m", spark__sql__shuffle__partitions="2", **quick)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def people() -> pa.Table:
    """People with missing values, and column names that Spark stumbles over."""
    rng = np.random.default_rng(20)
    sex = rng.choice(["F", "M", ""], N_PEOPLE, p=[0.5, 0.45, 0.05])
    days = rng.integers(0, 900, N_PEOPLE).tolist()
    seen = [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=day) for day in days]
    cost = pa.array(rng.normal(100, 20, N_PEOPLE).round(2), mask=rng.random(N_PEOPLE) < 0.02)
    return pa.table(
        {
            "person": pa.array([f"p{number}" for number in range(N_PEOPLE)]),
            "age": rng.integers(0, 95, N_PEOPLE),
            "zip code": pa.array([f"{10 * (number // 3):04d}" for number in rng.integers(0, 30, N_PEOPLE)]),
            "sex": pa.array(sex),
            "cost.total": cost,
            "seen": pa.array(seen, pa.timestamp("us", tz="UTC")),
            "illness": pa.array(rng.choice(["flu", "gout", "cold", "none"], N_PEOPLE)),
        }
    )


@pytest.fixture
def policy() -> Callable[..., dict[str, Any]]:
    """A policy for the people, with other entries if wanted."""

    def changed(**entries: Any) -> dict[str, Any]:
        return POLICY | entries

    return changed


@pytest.fixture(scope="session")
def frame(spark: Any, people: pa.Table) -> Any:
    """The people as a DataFrame of two partitions, in the order of the table."""
    return spark.createDataFrame(people)
