"""Edges that were looked up in a sample: nobody knows its rows, so the source cannot speak against them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify_table

PEOPLE = pa.table({"wage": np.random.default_rng(1).integers(0, 10**6, 400)})


def release(**more: Any) -> Any:
    coding = {"coding": {"shares": {"top": 0.05}}}
    policy = {"attributes": {"wage": {"role": "quasi", "technique": coding}}, "privacy": [], "method": "plain", **more}
    return shoal.anonymize(PEOPLE, policy, seed=1)


@pytest.mark.parametrize("more", [{}, {"sample": {"share": 0.5}}], ids=["all", "sample"])
def test_honest_edges_are_confirmed(more: dict[str, Any]) -> None:
    made = release(**more)
    answer = verify_table(made.data, made.manifest, source=open_source(PEOPLE))
    assert answer.failures == ()
    assert all(check.done for check in answer.checks if check.name == "technique")


def test_the_edge_of_the_sample_is_not_that_of_the_source() -> None:
    """So the test above asks something."""
    assert (
        release().manifest["techniques"]["wage"]["top"]
        != (release(sample={"share": 0.5}).manifest["techniques"]["wage"]["top"])
    )
