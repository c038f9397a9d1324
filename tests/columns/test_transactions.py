"""Baskets: taken apart, grouped, unfolded, gathered, and refused where that would be unsafe."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.audit.audit import audit
from shoal.columns.baskets import UnfoldedSource, baskets, item_counts, item_groups
from shoal.core.errors import InputError, PolicyError, UsageError
from shoal.models.base import ClassHistograms, Whole
from shoal.models.confidence_bounding import ConfidenceBounding
from shoal.policy.policy import Policy, policy_schema
from shoal.policy.preparing import unfold_baskets
from shoal.sources.base import SourceOptions
from shoal.sources.frames import open_arrow
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


def test_columns_come_in_any_order_coded_or_not() -> None:
    table = SHOP.append_column("age", pa.array(range(8))).append_column("town", pa.array(list("abcdabcd")))
    document = policy({"columns": 2}, age={"role": "quasi"}, town={"role": "quasi"})
    _, source = unfold_baskets(Policy.load(document), open_source(table))
    assert source.schema.names == ["basket 1", "basket 2", "age", "town"]
    (batch,) = source.batches(["town", "basket 2", "age"], dictionary=["basket 2"])
    assert batch.schema.names == ["town", "basket 2", "age"]
    assert [str(kind) for kind in batch.schema.types] == [
        "string",
        "dictionary<values=string, indices=int32, ordered=0>",
        "int64",
    ]
    entries = batch.column("basket 2").dictionary.to_pylist()
    assert len(set(entries)) == len(entries)
    assert next(source.batches(["age"])).column("age").to_pylist() == list(range(8))


def test_other_policies_and_sources_stay_what_they_are() -> None:
    read = Policy.load({"attributes": {"age": {"role": "quasi"}}, "privacy": [{"k-anonymity": {"k": 2}}]})
    source = open_source(pa.table({"age": [1, 2]}))
    assert unfold_baskets(read, source) == (read, source)


def test_the_order_and_the_batches_of_rows_do_not_matter() -> None:
    rng = np.random.default_rng(5)
    rows = [";".join(f"i{item}" for item in np.flatnonzero(rng.random(40) < 0.15)) or None for _ in range(300)]
    wanted = Policy.load(policy({"columns": 3}))
    groups = []
    for order, batch_rows in ((np.arange(300), 1000), (rng.permutation(300), 7)):
        table = texts(*(rows[place] for place in order))
        _, source = unfold_baskets(wanted, open_arrow(table, SourceOptions(), "rows", batch_rows))
        assert isinstance(source, UnfoldedSource)
        groups.append(source.unfoldings[0].groups)
    assert groups[0] == groups[1]


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
        (policy({"sensitive": ["a;b"]}), "is no item"),
        (policy({"sensitive": [" a"]}), "is no item"),
        ({**policy({}), "attributes": {"basket": {"role": "sensitive", "items": {}}}}, "has the role quasi"),
        ({**policy({}), "attributes": {"basket": {"role": "quasi", "taxonomy": "flat", "items": {}}}}, "no taxonomy"),
        (policy({"columns": 2}, **{"basket 2": {"role": "quasi"}}), "makes 'basket 2', which another"),
        ({**policy({}), "privacy": [BOUND]}, "needs a sensitive attribute"),
    ],
)
def test_bad_policies_are_refused(document: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Policy.load(document)


def test_models_may_name_the_derived_attribute() -> None:
    named = {"confidence-bounding": {"most": 0.5, "attribute": "basket sensitive"}}
    read = Policy.load({**policy({"sensitive": ["test"]}), "privacy": [named]})
    assert read.attributes["basket"].sensitive_names("basket") == ("basket sensitive",)
    assert "items" in policy_schema()["properties"]["attributes"]["additionalProperties"]["properties"]


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


def test_long_tables_become_baskets(tmp_path: Path) -> None:
    path = tmp_path / "bought.csv"
    path.write_text("customer,product\nb,tea\na,milk\nb, ale\nb,tea\nc,\n", encoding="utf-8")
    assert baskets(path, "customer", "product", separator="|").to_pylist() == [
        {"customer": "a", "product": "milk"},
        {"customer": "b", "product": "ale|tea"},
        {"customer": "c", "product": ""},
    ]
    assert shoal.baskets is baskets


def test_long_tables_that_cannot_be_gathered_are_refused() -> None:
    table = pa.table({"customer": [1, None], "product": ["tea;milk", "ale"]})
    with pytest.raises(InputError, match="1 row without a 'customer'"):
        baskets(table, "customer", "product")
    with pytest.raises(InputError, match="contain ';'; choose another separator"):
        baskets(table.slice(0, 1), "customer", "product")
    with pytest.raises(UsageError, match="different columns"):
        baskets(table, "customer", "customer")


@pytest.mark.parametrize("separator", [None, ";"])
def test_a_missing_value_could_be_anything_and_is_harmful(separator: str | None) -> None:
    tree = FlatTaxonomy().build(pa.array(["gout", "none"])).with_missing()
    model = ConfidenceBounding(most=0.5, harmless=("none", "missing"), separator=separator)
    counts = [[1, 1, 2], [0, 1, 3]]
    found = model.reach(ClassHistograms.of(counts), Whole.of([1, 2, 5], taxonomy=tree))
    assert found.tolist() == [0.5, 0.75]


def test_harmless_values_are_of_one_attribute() -> None:
    with pytest.raises(ValueError, match="joint values have no names"):
        ConfidenceBounding(most=0.5, harmless=("none",), attribute=("a", "b"))
    assert ConfidenceBounding(most=0.5, attribute=("a", "b")).smallest_class == 2
    with pytest.raises(TypeError, match="needs the names"):
        ConfidenceBounding(most=0.5, harmless=("none",)).holds(ClassHistograms.of([[1, 1]]), Whole.of([1, 1]))


def test_the_audit_looks_at_what_baskets_unfold_into() -> None:
    """Of the two with a test one is alone with it; missing baskets are missing in all attributes."""
    found = audit(SHOP, policy({"columns": 2, "sensitive": ["test"]}))
    assert found.quasi == ("basket 1", "basket 2")
    (verdict,) = found.models
    assert (verdict.holds, verdict.achieved, verdict.records_missed) == (False, 1.0, 2)
