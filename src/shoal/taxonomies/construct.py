"""Building trees from the parents of nodes or from levels, with all checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import TaxonomyError
from shoal.taxonomies.scales import Categories, Numbers, interval_label
from shoal.taxonomies.tree import Scale, Taxonomy, free_label

ROOT_LABEL = "*"
MOST_LEAVES = 1_000_000
_INTERVAL = re.compile(r"\D?-?[\d.]+ ?(-|,|to|\u2013) ?-?[\d.]+\D?|[<>\u2264\u2265]=? ?-?[\d.]+|[\d.]+ ?\+")
_MADE = re.compile(r"\[.*, .*[\])]|[<>]=? .*")


@dataclass(frozen=True, slots=True)
class Level:
    """The nodes of one level; leaves between them have no node on it."""

    lo: IntArray  # (n,) ascending
    hi: IntArray  # (n,)
    labels: Sequence[str]  # (n,)


def from_levels(leaves: Sequence[str], levels: Sequence[Level], scale: Scale, *, declared: bool) -> Taxonomy:
    """Build a tree from its levels, finest first; each level's nodes must nest in the next."""
    own = np.arange(len(leaves), dtype=np.int64)
    rows = [Level(own, own + 1, leaves), *(level for level in levels if len(level.lo))]
    first = np.cumsum([0, *(len(row.lo) for row in rows)])
    top = int(first[-1])
    parents = [np.full(len(row.lo), top, dtype=np.int64) for row in rows]
    depth = [np.ones(len(row.lo), dtype=np.int64) for row in rows]
    for i in range(len(rows) - 1, -1, -1):
        for j in range(len(rows) - 1, i, -1):  # the finest level with a node around this one comes last
            at = np.searchsorted(rows[j].lo, rows[i].lo, side="right") - 1
            inside = (at >= 0) & (rows[i].hi <= rows[j].hi[at])
            parents[i][inside] = first[j] + at[inside]
            depth[i][inside] = depth[j][at[inside]] + 1
    labels = [label for row in rows for label in row.labels]
    return Taxonomy(
        labels=(*labels, free_label(ROOT_LABEL, labels)),
        parent=_codes([*parents, [-1]]),
        lo=_codes([*(row.lo for row in rows), [0]]),
        hi=_codes([*(row.hi for row in rows), [len(leaves)]]),
        level=_codes([*depth, [0]]),
        n_leaves=len(leaves),
        scale=scale,
        declared=declared,
    )


def from_parents(
    labels: Sequence[str], parents: Sequence[int], *, name: str = "taxonomy", lines: Sequence[int] | None = None
) -> Taxonomy:
    """Build a tree from the parent of each node, -1 for the root; children keep their order.

    If the leaves are ascending numbers and all groups are called by intervals, such as 20-29, the tree is numeric;
    otherwise it is a tree of categories. A group with the same label as a value gets brackets. Messages name *lines*.

    >>> from_parents(["any", "a", "b"], [-1, 0, 0]).labels
    ('a', 'b', 'any')
    """

    def name_node(node: int) -> str:
        return f"{labels[node]!r}" + (f" (line {lines[node]})" if lines else "")

    roots = [node for node, parent in enumerate(parents) if parent < 0]
    if len(roots) > 1:
        raise TaxonomyError(
            f"{name} has {len(roots)} roots, among them {name_node(roots[0])} and {name_node(roots[1])}; "
            "put one most general value above all others"
        )
    children: list[list[int]] = [[] for _ in labels]
    for node, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(node)
    order, depth = _walk(children, roots)
    if len(order) < len(labels):
        node = min(set(range(len(labels))) - set(order))
        for _ in labels:  # this many steps upwards end within the cycle
            node = parents[node]
        raise TaxonomyError(f"{name} has a cycle: {name_node(node)} is its own ancestor")
    if len(labels) < 2:
        raise TaxonomyError(f"{name} has no value below its root")

    leaves = [node for node in order if not children[node]]
    lo, hi = [0] * len(labels), [0] * len(labels)
    for place, node in enumerate(leaves):
        lo[node], hi[node] = place, place + 1
    for node in reversed(order):
        if children[node]:
            lo[node], hi[node] = lo[children[node][0]], hi[children[node][-1]]
    values = {labels[node]: place for place, node in enumerate(leaves)}
    labels = [*labels]
    for node in (node for node in order if children[node] and labels[node] in values):
        if (lo[node], hi[node] - 1) != (values[labels[node]],) * 2:  # a group of one value may have its label
            labels[node] = free_label(labels[node], values)
    _check_labels(labels, parents, children, lo, hi, order, name, name_node)

    inner = sorted((node for node in order if children[node]), key=lambda node: (-depth[node], lo[node]))
    numbered = np.array([*leaves, *inner])
    number = np.empty(len(labels), dtype=np.int64)
    number[numbered] = np.arange(len(labels))
    above = np.asarray(parents)[numbered]
    scale = scale_of([labels[node] for node in leaves])
    groups = [(labels[node], lo[node], hi[node]) for node in inner if node != roots[0]]
    if isinstance(scale, Numbers) and not (groups and all(_is_interval(scale, *group) for group in groups)):
        scale = Categories(pa.array([*values], pa.string()))
    return Taxonomy(
        labels=tuple(labels[node] for node in numbered.tolist()),
        parent=np.where(above < 0, -1, number[above]).astype(np.int32),
        lo=np.asarray(lo, dtype=np.int32)[numbered],
        hi=np.asarray(hi, dtype=np.int32)[numbered],
        level=np.asarray(depth, dtype=np.int32)[numbered],
        n_leaves=len(leaves),
        scale=scale,
        declared=True,
    )


def scale_of(leaves: Sequence[str]) -> Scale:
    """Return a numeric scale if the leaves are ascending numbers without leading zeros, otherwise categories.

    >>> scale_of(["1", "2", "10"]).kind, scale_of(["01", "02"]).kind, scale_of(["2", "1"]).kind
    ('number', 'category', 'category')
    """
    texts = pa.array(leaves, pa.string())
    return (
        _numbers(texts, r"^(0|-?[1-9][0-9]{0,17})$")
        or _numbers(texts, r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$")
        or Categories(texts)
    )


def _numbers(texts: pa.Array, pattern: str) -> Numbers | None:
    if not pc.all(pc.match_substring_regex(texts, pattern)).as_py():
        return None
    whole = "." not in pattern
    points = texts.cast(pa.int64() if whole else pa.float64()).to_numpy()
    if not np.all(np.diff(points) > 0):
        return None
    stops = points + 1 if whole else np.nextafter(points, np.inf)
    return Numbers(points, stops, np.ones(len(points), dtype=bool))


def _is_interval(scale: Numbers, label: str, lo: int, hi: int) -> bool:
    """Whether a group's label is an interval; an interval in shoal's own notation must equal the group."""
    own = interval_label(scale.starts[lo].item(), scale.stops[hi - 1].item(), whole=scale.whole, inclusive=True)
    return label == own or (_INTERVAL.fullmatch(label) is not None and _MADE.fullmatch(label) is None)


def _walk(children: list[list[int]], roots: list[int]) -> tuple[list[int], list[int]]:
    order: list[int] = []
    depth = [0] * len(children)
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        order.append(node)
        for child in reversed(children[node]):
            depth[child] = depth[node] + 1
            waiting.append(child)
    return order, depth


def _check_labels(
    labels: Sequence[str],
    parents: Sequence[int],
    children: list[list[int]],
    lo: list[int],
    hi: list[int],
    order: list[int],
    name: str,
    name_node: Callable[[int], str],
) -> None:
    """Raise if two different sets of leaves have one label; a chain of single children may repeat a label."""
    seen: dict[str, int] = {}
    for node in order:
        other = seen.setdefault(labels[node], node)
        if (lo[node], hi[node]) == (lo[other], hi[other]):
            continue
        if not children[node] and not children[other]:
            raise TaxonomyError(f"{name} has the leaf {name_node(other)} twice: again as {name_node(node)}")
        if parents[other] >= 0 and parents[node] >= 0 and parents[other] != parents[node]:
            above = f"{name_node(parents[other])} and {name_node(parents[node])}"
            raise TaxonomyError(f"{name}: {labels[node]!r} has two parents, {above}; give each group one place")
        raise TaxonomyError(
            f"{name}: {name_node(other)} and {name_node(node)} are different groups with one label; rename one"
        )


def _codes(parts: Sequence[IntArray | list[int]]) -> CodeArray:
    return np.concatenate([np.asarray(part) for part in parts]).astype(np.int32)
