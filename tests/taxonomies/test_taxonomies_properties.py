"""What holds for every taxonomy: ranges nest, labels tell ranges apart, covers hold exactly their values."""

from __future__ import annotations

import datetime
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.taxonomies.builders.intervals import DatesTaxonomy, IntervalsTaxonomy, NumbersTaxonomy
from shoal.taxonomies.builders.listed import FlatTaxonomy, MaskTaxonomy, read_taxonomy
from shoal.taxonomies.files import from_nested, to_arx_csv, to_nested, to_nested_yaml
from shoal.taxonomies.tree import Cover, Taxonomy

AWKWARD = st.text(alphabet='ab,{}"[]<>=( )*12;', min_size=1, max_size=4)


@st.composite
def trees(draw: st.DrawFn) -> Taxonomy:
    """A random uneven tree with labels that try to look like made-up ones."""
    shape = draw(st.recursive(st.none(), lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=7))
    if shape is None:
        shape = [None]
    labels = draw(st.lists(AWKWARD.filter(str.strip), min_size=40, max_size=40, unique=True))

    def mapping(children: list[Any]) -> dict[str, Any]:
        return {labels.pop(): {} if child is None else mapping(child) for child in children}

    return from_nested({labels.pop(): mapping(shape)})


def check_tree(taxonomy: Taxonomy) -> None:
    n = taxonomy.n_leaves
    assert taxonomy.lo[:n].tolist() == list(range(n))
    assert (taxonomy.hi[:n] - taxonomy.lo[:n]).tolist() == [1] * n
    assert (taxonomy.lo[taxonomy.root], taxonomy.hi[taxonomy.root]) == (0, n)
    assert taxonomy.parent[taxonomy.root] == -1
    for node in range(taxonomy.n_nodes - 1):
        up = taxonomy.parent[node]
        assert up > node
        assert taxonomy.level[node] == taxonomy.level[up] + 1
    for node in range(n, taxonomy.n_nodes):
        children = taxonomy.children(node)
        edges = [taxonomy.lo[node], *(taxonomy.hi[child] for child in children)]
        assert [taxonomy.lo[child] for child in children] == edges[:-1]
        assert edges[-1] == taxonomy.hi[node]


def ranges(taxonomy: Taxonomy, most: int = 12) -> list[tuple[int, int]]:
    marks = sorted({*range(min(most, taxonomy.n_leaves + 1)), taxonomy.n_leaves - 1, taxonomy.n_leaves})
    return [(lo, hi) for lo in marks for hi in marks if lo < hi]


def check_labels(taxonomy: Taxonomy) -> None:
    found = ranges(taxonomy)
    assert len({taxonomy.label(lo, hi) for lo, hi in found}) == len(found)
    for lo, hi in found:
        node = taxonomy.covering(lo, hi)
        assert taxonomy.lo[node] <= lo < hi <= taxonomy.hi[node]
        for child in taxonomy.children(node):
            assert not (taxonomy.lo[child] <= lo and hi <= taxonomy.hi[child])
        tiles = taxonomy.tiles(lo, hi)
        assert taxonomy.lo[tiles[0]] == lo
        assert taxonomy.hi[tiles[-1]] == hi
        assert all(taxonomy.hi[a] == taxonomy.lo[b] for a, b in pairwise(tiles))
    pairs = np.array(found)
    lowest = taxonomy.lowest_nodes(pairs[:, 0], pairs[:, 1])
    assert lowest.tolist() == [taxonomy.covering(lo, hi) for lo, hi in found]


def covers(cover: Cover, value: Any) -> bool:
    """What a reader of the manifest makes of a cover."""
    if cover.get("any"):
        return True
    if value is None:
        return bool(cover.get("missing"))
    if "values" in cover:
        return value in cover["values"]
    if "prefixes" in cover:
        return value.startswith(tuple(cover["prefixes"]))
    if "through" in cover:
        first, last = cover["from"], cover["through"]
        return (first is None or first <= value) and (last is None or value <= last)
    if "from" in cover:
        low, below = cover["from"], cover["below"]
        return (low is None or low <= value) and (below is None or value < below)
    return False


def check_covers(taxonomy: Taxonomy, values: list[Any]) -> None:
    """A value is covered by a range's cover if, and only if, its leaf is in the range."""
    codes = taxonomy.encode(pa.array(values))
    for lo, hi in ranges(taxonomy, most=6):
        cover = taxonomy.cover(lo, hi)
        for value, code in zip(values, codes.tolist(), strict=True):
            if code >= 0:
                assert covers(cover, value) == (lo <= code < hi), (cover, value)


@given(trees())
def test_every_tree(taxonomy: Taxonomy) -> None:
    values = [*taxonomy.scale.cover(taxonomy, 0, taxonomy.n_leaves, -1).get("values", []), None]
    for tree in (taxonomy, taxonomy.with_missing()):
        check_tree(tree)
        check_labels(tree)
        if tree.scale.kind == "category":
            check_covers(tree, values)
        for height in range(tree.height):
            finer, coarser = tree.node_at(height), tree.node_at(height + 1)
            assert (tree.lo[coarser] <= tree.lo[finer]).all()
            assert (tree.hi[coarser] >= tree.hi[finer]).all()
        assert set(tree.node_at(tree.height).tolist()) == {tree.root}


@given(trees())
def test_exported_trees_read_back_the_same(taxonomy: Taxonomy) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, write in (("t.csv", to_arx_csv), ("t.yaml", to_nested_yaml)):
            write(taxonomy, Path(folder, name))
            again = read_taxonomy(Path(folder, name))
            assert to_nested(again) == to_nested(taxonomy)
            assert again.labels == taxonomy.labels
            assert again.level.tolist() == taxonomy.level.tolist()


@given(st.lists(AWKWARD, min_size=1, max_size=7, unique=True))
def test_flat(values: list[str]) -> None:
    taxonomy = FlatTaxonomy().build(pa.array(values))
    assert sorted(taxonomy.encode(pa.array(values)).tolist()) == list(range(len(values)))
    for tree in (taxonomy, taxonomy.with_missing()):
        check_tree(tree)
        check_labels(tree)
        check_covers(tree, [*values, None])


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=9, unique=True))
def test_numbers(values: list[int]) -> None:
    taxonomy = NumbersTaxonomy().build(pa.array(values))
    for tree in (taxonomy, taxonomy.with_missing()):
        check_tree(tree)
        check_labels(tree)
        check_covers(tree, [*values, None])
    smallest, largest = str(min(values)), str(max(values))
    for lo, hi in ranges(taxonomy):
        if hi - lo > 1:  # no interval shows the ends of the data
            label = taxonomy.label(lo, hi)
            assert not label.startswith(f"[{smallest},")
            assert label != f"<= {largest}"
            assert not label.endswith(f", {largest}]")


@given(
    low=st.integers(-30, 30),
    size=st.integers(1, 60),
    factors=st.lists(st.integers(2, 4), max_size=3),
    step=st.integers(1, 3),
    unit=st.sampled_from([1, 0.1, 0.25]),
    opened=st.sampled_from(["none", "low", "high", "both"]),
    origin=st.none() | st.integers(-5, 5),
)
def test_intervals(
    low: int, size: int, factors: list[int], step: int, unit: float, opened: str, origin: int | None
) -> None:
    def scaled(number: int) -> int | float:
        return number if unit == 1 else float(f"{number * unit:.6g}")

    widths = np.cumprod([step, *factors]).tolist()
    builder = IntervalsTaxonomy.model_validate(
        {
            "min": scaled(low),
            "max": scaled(low + size),
            "widths": [scaled(width) for width in widths[1:]],
            "step": scaled(step),
            "open": opened,
            "origin": None if origin is None else scaled(origin),
        }
    )
    taxonomy = builder.build(pa.array([]))
    check_tree(taxonomy)
    values = [scaled(number) for number in range(low - 3, low + size + 4)]
    codes = taxonomy.encode(pa.array(values))
    inside = [scaled(low) <= value <= scaled(low + size) for value in values]
    for value, code, within in zip(values, codes.tolist(), inside, strict=True):
        beyond = opened in ("low", "both") if value < scaled(low) else opened in ("high", "both")
        assert (code >= 0) == (within or beyond)
    for tree in (taxonomy, taxonomy.with_missing()):
        check_labels(tree)
        check_covers(tree, [*values, None])


@settings(max_examples=25)
@given(
    st.lists(st.dates(datetime.date(1968, 1, 1), datetime.date(1972, 12, 31)), min_size=1, max_size=6),
    st.lists(st.sampled_from(["month", "quarter", "year"]), unique=True),
    st.booleans(),
)
def test_dates(dates: list[datetime.date], levels: list[str], declared: bool) -> None:
    ends = {"min": min(dates), "max": max(dates)} if declared else {}
    taxonomy = DatesTaxonomy.model_validate({"levels": levels, **ends}).build(pa.array(dates))
    check_tree(taxonomy)
    values = [*(date.isoformat() for date in dates), None]
    assert (taxonomy.encode(pa.array(dates)) == taxonomy.encode(pa.array(values[:-1]))).all()
    for tree in (taxonomy, taxonomy.with_missing()):
        check_labels(tree)
        check_covers(tree, values)


@given(
    st.lists(st.text("01a", min_size=3, max_size=3), min_size=1, max_size=8, unique=True),
    st.sets(st.integers(0, 3)),
)
def test_masks(values: list[str], keep: set[int]) -> None:
    taxonomy = MaskTaxonomy(length=3, keep=tuple(keep)).build(pa.array(values))
    for tree in (taxonomy, taxonomy.with_missing()):
        check_tree(tree)
        check_labels(tree)
        check_covers(tree, [*values, None])
    heights = {kept for kept in keep if 0 < kept < 3}
    assert taxonomy.height == len(heights) + 1


@given(
    st.lists(st.text("01.a", min_size=1, max_size=4), min_size=1, max_size=8, unique=True),
    st.none() | st.sets(st.integers(0, 5), max_size=3),
)
def test_codes_of_any_length(values: list[str], keep: set[int] | None) -> None:
    taxonomy = MaskTaxonomy(keep=None if keep is None else tuple(keep)).build(pa.array(values))
    for tree in (taxonomy, taxonomy.with_missing()):
        check_tree(tree)
        check_labels(tree)
        check_covers(tree, [*values, None])
