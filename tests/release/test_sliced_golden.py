"""Table 1 of the slicing paper: multiset generalization is one-attribute-per-column slicing."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from tests import releases

from shoal.release.release import Release
from shoal.release.sliced.query import Estimate, Query

# Table 1(e)
AGE = [22, 22, 33, 52, 54, 60, 60, 64]
SEX = ["F", "M", "F", "F", "M", "F", "M", "M"]
ZIP = [47906, 47905, 47906, 47905, 47302, 47304, 47302, 47304]
DISEASE = ["flu", "flu", "dysp.", "bron.", "dysp.", "gast.", "dysp.", "flu"]
ENTRIES = {
    "age": {"role": "quasi", "kind": "number"},
    "sex": {"role": "quasi", "kind": "category"},
    "zip": {"role": "quasi", "kind": "number"},
    "disease": {"role": "sensitive", "kind": "category"},
}


def release(rows: dict[str, list[object]], parts: list[list[str]]) -> Release:
    manifest = releases.DEFAULTS | {"method": "slicing", "parts": parts, "attributes": ENTRIES}
    return Release(manifest, {}, None, None, data=pa.table({"bucket": [1] * 4 + [2] * 4, **rows}))


def test_table_1d_comes_from_table_1e() -> None:
    rows = {"age": AGE, "sex": SEX, "zip": ZIP, "disease": DISEASE}
    made = release(rows, [["age"], ["sex"], ["zip"], ["disease"]]).multisets()
    assert made["age"].to_pylist() == ["22:2,33:1,52:1"] * 4 + ["54:1,60:2,64:1"] * 4
    assert made["zip"].to_pylist() == ["47905:2,47906:2"] * 4 + ["47302:2,47304:2"] * 4
    # The paper writes M before F.
    assert made["sex"].to_pylist() == ["F:3,M:1"] * 4 + ["F:1,M:3"] * 4
    first, second = made["disease"].to_pylist()[:4], made["disease"].to_pylist()[4:]
    assert Counter(first) == {"dysp.": 1, "flu": 2, "bron.": 1}
    assert Counter(second) == {"flu": 1, "dysp.": 2, "gast.": 1}


def test_what_table_1f_tells_of_a_tuple() -> None:
    """t1 = (22, M, 47906, dyspepsia): a quarter of bucket 1 is (22, M), and half of those at 47906 have dyspepsia."""
    rows = {
        "age": [22, 22, 33, 52, 54, 60, 60, 64],
        "sex": ["M", "F", "F", "F", "M", "M", "M", "F"],
        "zip": [47905, 47906, 47905, 47906, 47304, 47302, 47302, 47304],
        "disease": ["flu", "dysp.", "bron.", "flu", "gast.", "flu", "dysp.", "dysp."],
    }
    made = release(rows, [["age", "sex"], ["zip", "disease"]])
    here = made.estimate(Query(where={"age": 22, "sex": "M", "zip": 47906}))
    ill = made.estimate(Query(where={"age": 22, "sex": "M", "zip": 47906, "disease": "dysp."}))
    assert isinstance(here, Estimate)
    assert isinstance(ill, Estimate)
    assert here.value == pytest.approx(0.25 * 0.5 * 4)
    assert ill.value / here.value == pytest.approx(0.5)
    assert made.estimate(Query(where={"age": (20, 40), "sex": "F"})) == Estimate(2.0, 0.0)
