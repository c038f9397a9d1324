"""Labels of classes: each distinct range written once, sorted, with what it covers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from shoal.plan.problem import Attribute
from shoal.release.columns import PublishedColumn
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.files import from_nested

DISEASE = Attribute("disease", from_nested({"any": {"hemal": ["hepatitis", "anemia"], "other": ["phthisis", "flu"]}}))
AGE = Attribute("age", IntervalsTaxonomy(min=0, max=99, widths=(10,)).build(pa.array([])))
LO = np.array([[0, 20], [2, 0], [0, 25], [0, 20]], dtype=np.int32)
HI = np.array([[2, 30], [4, 100], [4, 26], [2, 30]], dtype=np.int32)
CLASSES = np.arange(4, dtype=np.int32)


def test_every_class_bears_the_label_of_its_range() -> None:
    column = PublishedColumn.of_ranges(DISEASE, LO[:, 0], HI[:, 0])
    assert column.values.to_pylist() == ["any", "hemal", "other"]
    published = column.take(CLASSES).to_pylist()
    assert published == ["hemal", "other", "any", "hemal"]
    assert column.entry is not None
    assert [cover.get("values", cover) for cover in column.entry["labels"].values()] == [
        {"any": True},
        ["hepatitis", "anemia"],
        ["phthisis", "flu"],
    ]


def test_the_manifest_entry() -> None:
    entry = PublishedColumn.of_ranges(AGE, LO[:, 1], HI[:, 1]).entry
    assert entry is not None
    assert entry["role"] == "quasi"
    assert entry["kind"] == "number"
    assert entry["labels"] == {
        "*": {"any": True},
        "25": {"from": 25, "below": 26},
        "[20, 29]": {"from": 20, "below": 30},
    }
