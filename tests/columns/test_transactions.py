"""Baskets: taken apart, grouped, unfolded, gathered, and refused where that would be unsafe."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.columns.baskets import UnfoldedSource, item_counts, item_groups
from shoal.core.errors import InputError, PolicyError
from shoal.models.base import ClassHistograms, Whole
from shoal.models.confidence_bounding import ConfidenceBounding
from shoal.policy.policy import Policy
from shoal.policy.preparing import unfold_baskets
from shoal.sources.opening import open_source
from shoal.taxonomies.builders.listed import FlatTaxonomy
from shoal.verify.items import Folded, unfold

BOUND = {"confidence-bounding": {"most": 0.5, "harmless": ["none"], "separator": ";"}}


def policy(items: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    return {
        "attributes": {**attributes, "basket": {"role": "quasi", "items": items}},
        "privacy": [BOUND] if items.get("sensitive") else [{"column-frequency": {"k": 2}}],
        "method": "slicing",
    }


def texts(*values: str | None) -> pa.Table:
    return pa.table({"basket": pa.array(values, pa.string())})


SHOP = texts("tea; milk", "milk;tea;tea", "ale;nuts", "nuts; ale;test", None, "milk;tea", "ale; nuts;", "test")


def test_people_keep_their_items_group_by_group() -> None:
    read, source = unfold_baskets(Policy.load(policy({"columns": 2, "sensitive": ["test"]})), open_source(SHOP))
    assert read.names("quasi") == ("basket 1", "basket 2")
    assert read.names("sensitive") == ("basket sensitive",)
    assert isinstance(source, UnfoldedSource)
    assert source.unfoldings[0].groups == (("ale", "nuts"), ("milk", "tea"), ("test",))
    table = pa.Table.from_batches(list(source.batches()))
    assert table.column("basket 1").to_pylist() == [
        "none",
        "none",
        "ale;nuts",
        "ale;nuts",
        None,
        "none",
        "ale;nuts",
        "none",
    ]
    assert table.column("basket 2").to_pylist() == [
        "milk;tea",
        "milk;tea",
        "none",
        "none",
        None,
        "milk;tea",
        "none",
        "none",
    ]
    assert table.column("basket sensitive").to_pylist() == [
        "none",
        "none",
        "none",
        "test",
        None,
        "none",
        "none",
        "test",
    ]
    assert source.digest() == open_source(SHOP).digest()
    assert source.n_rows == 8


def test_items_that_go_together_share_a_group_and_rare_ones_join_them() -> None:
    rng = np.random.default_rng(2)
    kinds = rng.integers(0, 3, 4000)
    chance = np.where(np.arange(12) % 3 == kinds[:, np.newaxis], 0.6, 0.05)
    has = rng.random((4000, 12)) < chance
    rows = [[f"{'abc'[item % 3]}{item}" for item in np.flatnonzero(row)] for row in has]
    for rare in range(3):  # in fewer than one of a hundred baskets, always beside its kind
        for row in np.flatnonzero(kinds == rare)[:20]:
            rows[row] = [*rows[row], f"{'abc'[rare]} rare"]
    source = open_source(texts(*(";".join(row) for row in rows)))
    counts, n_baskets = item_counts(source, "basket", ";")
    assert counts["a rare"] == 20
    assert counts["a0"] == sum("a0" in row for row in rows)
    assert n_baskets == sum(bool(row) for row in rows)
    groups = item_groups(source, "basket", ";", counts, n_baskets, 3)
    assert sorted({item[0] for item in group} == {group[0][0]} and len(group) for group in groups) == [5, 5, 5]
    assert Counter(item for group in groups for item in group) == Counter(dict.fromkeys(counts, 1))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (policy({"columns": 0}), "columns: must be at least 1"),
        (policy({"colums": 2}), "unknown key 'colums'; did you mean 'columns'"),
        (policy({"separator": ""}), "separator"),
        (policy({"sensitive": ["a", "a"]}), "listed twice"),
        (policy({"sensitive": ["a;b"]}), "is not an item"),
        (policy({"sensitive": [" a"]}), "is not an item"),
        ({**policy({}), "attributes": {"basket": {"role": "sensitive", "items": {}}}}, "has the role quasi"),
        ({**policy({}), "attributes": {"basket": {"role": "quasi", "taxonomy": "flat", "items": {}}}}, "no taxonomy"),
        (policy({"columns": 2}, **{"basket 2": {"role": "quasi"}}), "makes 'basket 2', which another"),
        ({**policy({}), "privacy": [BOUND]}, "needs a sensitive attribute"),
    ],
)
def test_bad_policies_are_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Policy.load(document)


@pytest.mark.parametrize(
    ("table", "items", "error", "message"),
    [
        (SHOP, {"columns": 2, "sensitive": ["tset"]}, PolicyError, "no record has 1 of the 1 sensitive items"),
        (SHOP, {"columns": 9}, PolicyError, "has 5 items that are not sensitive, too few for 9 columns"),
        (texts("none;tea", "tea"), {"columns": 1}, InputError, "1 items that are 'none'"),
        (texts("?;tea", "tea"), {"columns": 1}, InputError, "texts that mean missing"),
        (pa.table({"basket": [1, 2]}), {"columns": 1}, InputError, "holds int64; items are text"),
    ],
)
def test_unsafe_baskets_are_refused(
    table: pa.Table, items: dict[str, Any], error: type[Exception], message: str
) -> None:
    read = Policy.load({**policy(items), "source": {"missing": ["", "?"]}})
    with pytest.raises(error, match=message) as raised:
        unfold_baskets(read, open_source(table, read.source))
    assert "milk" not in str(raised.value)


def test_the_verifier_unfolds_alike_and_keeps_what_is_not_listed_in_the_row() -> None:
    source = open_source(SHOP)
    folded = Folded("basket", ";", ("basket 1", "basket 2"), (("ale", "nuts"), ("milk", "tea")))
    rows = unfold(source, (folded,))
    table = pa.Table.from_batches(list(rows.batches()))
    assert table.column("basket 1").to_pylist()[3] == "ale;nuts;test"
    assert table.column("basket 2").to_pylist()[3:5] == ["none", None]
    assert (rows.n_rows, rows.name) == (8, source.name)


@pytest.mark.parametrize("separator", [None, ";"])
def test_a_missing_value_could_be_anything_and_is_harmful(separator: str | None) -> None:
    tree = FlatTaxonomy().build(pa.array(["gout", "none"])).with_missing()
    model = ConfidenceBounding(most=0.5, harmless=("none", "missing"), separator=separator)
    counts = [[1, 1, 2], [0, 1, 3]]
    found = model.reach(ClassHistograms.of(counts), Whole.of([1, 2, 5], taxonomy=tree))
    assert found.tolist() == [0.5, 0.75]
