"""Intervals with edges of one's own: what is built, what is refused, and that a release of them is accepted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import anonymize
from shoal.core.errors import TaxonomyError
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy

NOTHING = pa.array([])


def labels_at(taxonomy, height):
    return [taxonomy.labels[node] for node in dict.fromkeys(taxonomy.node_at(height).tolist())]


def test_decimals_need_a_step_that_the_edges_keep():
    widths = IntervalsTaxonomy(min=0.0, max=2.0, step=0.1, edges=((0.3, 1.5),)).build(NOTHING)
    assert labels_at(widths, 1) == ["[0, 0.3)", "[0.3, 1.5)", "[1.5, 2]"]
    codes = widths.encode(pa.array([0.3, 1.5, 2.0]))
    assert [widths.labels[widths.parent[code]] for code in codes.tolist()] == ["[0.3, 1.5)", "[1.5, 2]", "[1.5, 2]"]
    with pytest.raises(TaxonomyError, match="need a step with their edges"):
        IntervalsTaxonomy(min=0.0, max=2.0, edges=((1.0,),))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"edges": ((65, 18),)}, "edges must rise, and 18 comes after 65"),
        ({"edges": ((18, 18),)}, "edges must rise, and 18 comes after 18"),
        ({"edges": ((0, 18),)}, "the edge 0 must lie above min 0 and not beyond max 99"),
        ({"edges": ((100,),)}, "the edge 100 must lie above min 0 and not beyond max 99"),
        ({"edges": ((18, 65), (30,))}, "the edge 30 is missing among the edges of the finer level"),
        ({"edges": ((18,),), "widths": (5,)}, "give widths or edges, not both"),
        ({"edges": ((18,),), "step": 5}, "the edge 18 lies within a step of 5"),
    ],
    ids=["falling", "twice", "at-min", "beyond", "not-nested", "both", "off-step"],
)
def test_what_is_no_scale_is_refused(parameters, message):
    with pytest.raises(TaxonomyError, match=message):
        IntervalsTaxonomy(min=0, max=99, **parameters)


@given(edges=st.sets(st.integers(1, 99), min_size=1, max_size=12), data=st.data())
def test_every_number_is_in_the_interval_of_its_edges(edges, data):
    fine = sorted(edges)
    coarse = sorted(data.draw(st.sets(st.sampled_from(fine))))
    taxonomy = IntervalsTaxonomy(min=0, max=99, edges=(tuple(fine), tuple(coarse))).build(NOTHING)
    for level in (fine, coarse):
        starts = [0, *level]
        ends = [*level, 100]
        for low, below in zip(starts, ends, strict=True):
            assert taxonomy.node_of(low, below) >= 0
            assert taxonomy.cover(low, below) in ({"from": low, "below": below}, {"any": True})


def test_a_release_with_own_edges_is_accepted():
    rng = np.random.default_rng(5)
    table = pa.table({"age": rng.integers(0, 100, 300), "illness": rng.choice(["flu", "gout", "cold"], 300)})
    intervals = {"min": 0, "max": 99, "edges": [[18, 40, 65], [65]], "open": "high"}
    policy = {
        "attributes": {
            "age": {"role": "quasi", "taxonomy": {"intervals": intervals}},
            "illness": {"role": "sensitive"},
        },
        "privacy": [{"k-anonymity": {"k": 40}}],
        "method": {"incognito": {}},
    }
    release = anonymize(table, policy)
    assert release.verification.verified
    assert set(release.data["age"].to_pylist()) == {"[0, 17]", "[18, 39]", "[40, 64]", "[65, 99]"}
