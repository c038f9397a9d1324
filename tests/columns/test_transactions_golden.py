"""A shop small enough for pencil and paper: associations of items, groups, and what is believed of a sensitive one."""

from __future__ import annotations

import pyarrow as pa

import shoal
from shoal.models.base import ClassHistograms, Whole
from shoal.models.confidence_bounding import ConfidenceBounding
from shoal.taxonomies.builders.listed import FlatTaxonomy

# of ten people six buy milk, five buy tea and four buy both; three buy ale, two of them nuts
SHOP = [
    *["milk;tea"] * 4, "milk", "milk;ale;nuts", "tea", "ale;nuts", "ale", "test",
]  # fmt: skip


def test_a_person_with_two_items_counts_for_both() -> None:
    """Two of ten have gout, one flu, one both: no set has more than 0.2, but gout has 0.3."""
    tree = FlatTaxonomy().build(pa.array(["flu", "flu;gout", "gout", "none"]))
    people = ClassHistograms.of([[1, 1, 2, 6]])
    whole = Whole.of([1, 1, 2, 6], taxonomy=tree)
    by_set = ConfidenceBounding(most=0.2, harmless=("none",))
    by_item = ConfidenceBounding(most=0.2, harmless=("none",), separator=";")
    assert (by_set.reach(people, whole)[0], by_item.reach(people, whole)[0]) == (0.2, 0.3)
    assert by_set.holds(people, whole).all()
    assert not by_item.holds(people, whole).any()
    assert "share of 0.3 of the whole table" in str(by_item.why_unreachable(whole))
    assert ConfidenceBounding(most=0.2).reach(people, whole)[0] == 0.6


def test_the_shop_as_one_bucket() -> None:
    """One of ten has bought the test: that is what can be believed of anybody, and no bucket can be smaller."""
    release = shoal.anonymize(
        pa.table({"basket": SHOP}),
        {
            "attributes": {"basket": {"role": "quasi", "items": {"columns": 2, "sensitive": ["test"]}}},
            "privacy": [{"confidence-bounding": {"most": 0.1, "harmless": ["none"], "separator": ";"}}],
            "method": {"slicing": {"columns": "each", "bucket_size": 6}},
        },
    )
    assert release.manifest["buckets"] == 1
    assert release.guarantees[0]["achieved"] == 0.1
    assert sorted(release.data.column("basket 1").to_pylist()) == [
        "milk", "milk", "milk;tea", "milk;tea", "milk;tea", "milk;tea", "none", "none", "none", "tea",
    ]  # fmt: skip
    assert sorted(release.data.column("basket 2").to_pylist()) == ["ale", "ale;nuts", "ale;nuts", *["none"] * 7]
