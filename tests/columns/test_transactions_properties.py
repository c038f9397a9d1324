"""Baskets of any shape: nothing is lost, planner and verifier agree, and bounds on items mean what they say."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shoal.columns.baskets import UnfoldedSource
from shoal.manifest import Attribute
from shoal.models.base import ClassHistograms, Whole
from shoal.models.confidence_bounding import ConfidenceBounding
from shoal.policy.policy import Policy
from shoal.policy.preparing import unfold_baskets
from shoal.sources.opening import open_source
from shoal.taxonomies.builders.listed import FlatTaxonomy
from shoal.verify.engine import Engine
from shoal.verify.items import Folded, unfold
from shoal.verify.promises import Counts, judge, read_promise

ITEMS = ["ale", "Bread", "milk 1", "oß", "tea", "日本"]
SETS = st.lists(st.sampled_from(ITEMS), max_size=5)
ATTRIBUTE = Attribute(name="s", role="sensitive", kind="category")
MACRO = "CREATE TEMP MACRO folded(t) AS trim(t)"
BLANKS = st.sampled_from(["", " ", "  "])


@st.composite
def written(draw: st.DrawFn) -> tuple[set[str], str | None]:
    """A set, and a careless way to write it: items in any order, more than once, with blanks and empty ones."""
    items = draw(SETS)
    text = ";".join(draw(BLANKS) + item + draw(BLANKS) for item in draw(st.permutations(items + items[:1])))
    return set(items), text + draw(st.sampled_from(["", ";"])) if items else None


@given(st.lists(written(), min_size=1, max_size=30), st.integers(1, 3))
def test_sets_are_kept_and_the_verifier_unfolds_alike(rows: list[tuple[set[str], str | None]], columns: int) -> None:
    everything = set().union(*(items for items, _ in rows))
    sensitive = sorted(everything)[:1]
    if len(everything) - 1 < columns:
        return
    document = {
        "attributes": {"b": {"role": "quasi", "items": {"columns": columns, "sensitive": sensitive}}},
        "privacy": [{"confidence-bounding": {"most": 1}}],
    }
    given_rows = open_source(pa.table({"b": pa.array([text for _, text in rows], pa.string())}))
    _, source = unfold_baskets(Policy.load(document), given_rows)
    assert isinstance(source, UnfoldedSource)
    (how,) = source.unfoldings
    assert Counter(item for group in how.groups for item in group) == Counter(dict.fromkeys(everything, 1))
    table = pa.Table.from_batches(list(source.batches()))
    again = unfold(given_rows, (Folded(how.column, how.separator, how.names, how.groups),))
    assert table.equals(pa.Table.from_batches(list(again.batches(table.column_names))))
    for record, (items, text) in zip(table.to_pylist(), rows, strict=True):
        if text is None:
            assert set(record.values()) == {None}
            continue
        parts = [[] if value == "none" else value.split(";") for value in record.values()]
        assert all(part == sorted(part) for part in parts)
        assert sorted(item for part in parts for item in part) == sorted(items)
        assert all(set(part) <= set(group) for part, group in zip(parts, how.groups, strict=True))


@given(
    st.lists(
        st.lists(st.frozensets(st.sampled_from("abcd"), max_size=3), min_size=1, max_size=8), min_size=1, max_size=4
    ),
    st.sampled_from([0.2, 0.25, 0.4, 0.5, 1.0]),
    st.booleans(),
)
def test_bounds_on_items_are_what_counting_says(classes: list[list[frozenset[str]]], most: float, apart: bool) -> None:
    """Model and verifier against a count of people, item by item or set by set; "none" and d harm nobody."""
    spelled = [[";".join(sorted(items)) or "none" for items in people] for people in classes]
    values = pa.array(sorted({text for people in spelled for text in people}))
    tree = FlatTaxonomy().build(values)
    counts = np.zeros((len(classes), tree.n_leaves), dtype=np.int64)
    for place, people in enumerate(spelled):
        np.add.at(counts[place], tree.encode(pa.array(people)), 1)
    shares = []
    for people, texts in zip(classes, spelled, strict=True):
        found = Counter(item for items in people for item in items) if apart else Counter(texts)
        harmful = [number for item, number in found.items() if item not in ("none", "d")]
        shares.append(Fraction(max(harmful, default=0), len(people)))
    model = ConfidenceBounding(most=most, harmless=("none", "d"), separator=";" if apart else None)
    histograms, whole = ClassHistograms.of(counts), Whole.of(counts.sum(axis=0), taxonomy=tree)
    expected = [share <= Fraction(str(most)) for share in shares]
    assert model.holds(histograms, whole).tolist() == expected
    assert model.reach(histograms, whole).tolist() == [float(share) for share in shares]
    sure = model.holds_surely(counts / counts.sum(axis=1, keepdims=True), whole)
    assert sure.tolist() == [share < Fraction(str(most)) for share in shares]
    owner, value = np.nonzero(counts)
    labels = [tree.leaf_labels[place] for place in value]
    cells = {"class": owner, "n": counts.sum(axis=1)[owner], "value": labels, "c": counts[owner, value]}
    promise = read_promise(model.name, model.model_dump(mode="json", exclude_none=True), None, ["s"])
    with Engine() as engine:
        engine.run(MACRO)
        engine.put("seen", cells)
        found = judge(engine, promise, [Counts("seen", attribute=ATTRIBUTE)])
    assert found.obstacle is None
    assert (found.classes, found.failing) == (len(classes), expected.count(False))
    assert found.achieved == float(max(shares))
