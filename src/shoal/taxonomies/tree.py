"""The taxonomy of an attribute: a tree of values.

Leaves are numbered in tree order, so every node is a contiguous range of leaves ``[lo, hi)``. A published value is also
a range of leaves, whether it is a node of the taxonomy or a Mondrian interval. Leaves have the smallest node numbers,
their own numbers; inner nodes follow, each after its children, with the root last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray
from shoal.core.dictionaries import factor_column
from shoal.core.progress import show

Kind = Literal["category", "number", "date", "prefix"]
Cover = dict[str, Any]

MISSING_LABEL = "missing"
NOT_MISSING_LABEL = "(not missing)"
# Labels that a scale writes begin with one of these, so only node labels with the same beginning can equal them.
_MADE_UP = ("{", "[", "<", ">", "(")


class Scale(ABC):
    """The way of writing leaf ranges of one kind of attribute.

    A *cover* defines the source values of a label without reference to code. It is written to the manifest for the
    verifier and the users of the data:

    - ``{"any": true}``: every value, missing or not (the root);
    - ``{"values": [...]}``: these source values, as text;
    - ``{"prefixes": [...]}``: every text that starts with one of these;
    - ``{"from": "47102", "through": "47110"}``: every text between these two, inclusive, in the order of characters;
      a null end is open;
    - ``{"from": a, "below": b}``: numbers or ISO dates in [a, b); a null end is open;
    - any of them with ``"missing": true``: also missing values;
    - ``{"missing": true}`` alone: missing values only.
    """

    kind: ClassVar[Kind]

    @abstractmethod
    def label(self, taxonomy: Taxonomy, lo: int, hi: int) -> str:
        """Return the label of a leaf range that is not a node and does not contain the missing leaf."""

    @abstractmethod
    def cover(self, taxonomy: Taxonomy, lo: int, hi: int, node: int) -> Cover:
        """Return the cover of a leaf range without the missing leaf; *node* is its node, or -1."""

    @abstractmethod
    def locate(self, values: pa.Array) -> CodeArray:
        """Return (n_values,) the leaf of each source value; -1 for nulls and values outside the taxonomy."""

    def positions(self) -> FloatArray | None:
        """Return (n_leaves,) the numeric positions of the leaves, or None if they have no distances."""
        return None

    def reading(self) -> dict[str, Any]:
        """Return the parameters besides covers that are needed for reading source values: ``length``, ``format``."""
        return {}


@dataclass(frozen=True, slots=True, eq=False)
class Taxonomy:
    """A tree of values; node v covers the leaves ``lo[v]:hi[v]``.

    ``missing`` is the leaf of missing values, which is the last leaf and a child of the root, or None. If ``declared``,
    the leaves come from the policy and not from the data, so releases may list all of them.

    >>> from shoal.taxonomies.files import from_nested
    >>> disease = from_nested({"any": {"hemal": ["hepatitis", "anemia"], "other": ["phthisis", "flu"]}})
    >>> disease.label(0, 2), disease.label(1, 3)
    ('hemal', '{anemia, phthisis}')
    >>> disease.cover(2, 4)
    {'values': ['phthisis', 'flu']}
    """

    labels: tuple[str, ...]  # (n_nodes,) leaves first, in tree order; root last
    parent: CodeArray  # (n_nodes,) -1 for the root, otherwise larger than the node's number
    lo: CodeArray  # (n_nodes,)
    hi: CodeArray  # (n_nodes,)
    level: CodeArray  # (n_nodes,) the root's is 0
    n_leaves: int
    scale: Scale
    declared: bool
    missing: int | None = None
    _by_parent: CodeArray = field(init=False, repr=False)  # (n_nodes,) nodes grouped by parent, in leaf order
    _first_child: CodeArray = field(init=False, repr=False)  # (n_nodes + 1,) where each node's children start
    _claimed: frozenset[str] = field(init=False, repr=False)  # node labels that a scale might write too
    _climb: tuple[list[int], list[int], list[int]] = field(init=False, repr=False)  # lo, hi, parent as lists, for speed

    def __post_init__(self) -> None:
        """Index children and labels."""
        order = np.lexsort((self.lo, self.parent)).astype(np.int32)
        starts = np.searchsorted(self.parent[order], np.arange(len(self.labels) + 1)).astype(np.int32)
        object.__setattr__(self, "_by_parent", order)
        object.__setattr__(self, "_first_child", starts)
        claimed = frozenset(label for label in self.labels if label.startswith(_MADE_UP))
        object.__setattr__(self, "_claimed", claimed)
        object.__setattr__(self, "_climb", (self.lo.tolist(), self.hi.tolist(), self.parent.tolist()))

    @property
    def n_nodes(self) -> int:
        return len(self.labels)

    @property
    def root(self) -> int:
        return len(self.labels) - 1

    @property
    def height(self) -> int:
        """The number of generalization steps from the deepest leaf to the root."""
        return int(self.level.max())

    @property
    def leaf_labels(self) -> tuple[str, ...]:
        return self.labels[: self.n_leaves]

    @property
    def positions(self) -> FloatArray | None:
        """(n_leaves,) the numeric position of each leaf, NaN for the missing one; None for categories."""
        places = self.scale.positions()
        if places is None or self.missing is None:
            return places
        return np.append(places, np.nan)

    def is_leaf(self, node: int) -> bool:
        return node < self.n_leaves

    def children(self, node: int) -> tuple[int, ...]:
        return tuple(self._by_parent[self._first_child[node] : self._first_child[node + 1]].tolist())

    def covering(self, lo: int, hi: int) -> int:
        self._check(lo, hi)
        _, ends, parents = self._climb
        node = lo
        while ends[node] < hi:
            node = parents[node]
        return node

    def node_of(self, lo: int, hi: int) -> int:
        """Return the most specific node with exactly this leaf range, or -1."""
        node = self.covering(lo, hi)
        starts, ends, _ = self._climb
        return node if starts[node] == lo and ends[node] == hi else -1

    def lowest_nodes(self, lo: AnyIntArray, hi: AnyIntArray) -> CodeArray:
        nodes = np.array(lo, dtype=np.int32)
        outside = np.flatnonzero(self.hi[nodes] < hi)
        while outside.size:
            nodes[outside] = self.parent[nodes[outside]]
            outside = outside[self.hi[nodes[outside]] < hi[outside]]
        return nodes

    def node_at(self, height: int) -> CodeArray:
        """Return (n_leaves,) the node of each leaf after generalizing *height* steps.

        Steps are counted from the deepest leaves: each leaf moves to its ancestor at tree level
        ``self.height - height``, or stays if it is nearer to the root. In a file with lines of equal length, this is
        the column number *height*.
        """
        if not 0 <= height <= self.height:
            raise ValueError(f"height must be in 0..{self.height}, not {height}")
        nodes = np.arange(self.n_leaves, dtype=np.int32)
        wanted = self.height - height
        above = np.flatnonzero(self.level[nodes] > wanted)
        while above.size:
            nodes[above] = self.parent[nodes[above]]
            above = above[self.level[nodes[above]] > wanted]
        return nodes

    def tiles(self, lo: int, hi: int) -> tuple[int, ...]:
        """Return the smallest sequence of nodes that makes up the leaf range."""
        self._check(lo, hi)
        starts, ends, parents = self._climb
        found = []
        while lo < hi:
            node = lo
            while (up := parents[node]) >= 0 and starts[up] == lo and ends[up] <= hi:
                node = up
            found.append(self.node_of(lo, ends[node]))
            lo = ends[node]
        return tuple(found)

    def find_node(self, lo: int, hi: int, level: int | None = None) -> int:
        """Return the node by which a leaf range is published, or -1.

        In a chain of single children this is the lowest node or, after *level* generalization steps, the node that they
        reach. Other values are then suppressed: the whole range is the root.
        """
        if level is None:
            return self.node_of(lo, hi)
        node = lo
        while self.level[node] > self.height - level:
            node = int(self.parent[node])
        if (self.lo[node], self.hi[node]) == (lo, hi):
            return node
        return self.root if hi - lo == self.n_leaves else self.node_of(lo, hi)

    def label(self, lo: int, hi: int, level: int | None = None) -> str:
        """Return the label of a leaf range, which no other range has: a node's label, or one written by the scale."""
        node = self.find_node(lo, hi, level)
        if node >= 0:
            return self.labels[node]
        if self.missing is not None and hi > self.missing:
            return self._free(f"{{{self.label(lo, self.missing, level)}, {self.labels[self.missing]}}}")
        if self.missing is not None and hi - lo == self.missing:
            return self._free(NOT_MISSING_LABEL)
        return self._free(self.scale.label(self, lo, hi))

    def cover(self, lo: int, hi: int, level: int | None = None) -> Cover:
        """Return the cover of a leaf range, in the format of ``Scale``."""
        self._check(lo, hi)
        node = self.find_node(lo, hi, level)
        if node == self.root:
            return {"any": True}
        if self.missing is None or hi <= self.missing:
            return self.scale.cover(self, lo, hi, node)
        if lo == self.missing:
            return {"missing": True}
        return {**self.scale.cover(self, lo, self.missing, self.find_node(lo, self.missing, level)), "missing": True}

    def encode(self, values: pa.Array) -> CodeArray:
        """Return (n_values,) the leaf of each source value, the missing leaf for nulls, or -1."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if pa.types.is_dictionary(values.type):
            indices, entries = factor_column(values)
            return np.append(self.encode(entries), np.int32(self._null_code))[indices]  # index -1 takes the last code
        codes = self.scale.locate(values)
        if values.null_count:
            codes = np.where(values.is_null().to_numpy(zero_copy_only=False), self._null_code, codes)
        return codes.astype(np.int32, copy=False)

    def with_missing(self) -> Taxonomy:
        """Return the tree with a leaf for missing values."""
        if self.missing is not None:
            return self
        place, label = self.n_leaves, free_label(MISSING_LABEL, self.labels)
        parent = np.where(self.parent >= place, self.parent + 1, self.parent)
        hi = np.insert(self.hi, place, place + 1)
        hi[-1] = place + 1
        return Taxonomy(
            labels=(*self.labels[:place], label, *self.labels[place:]),
            parent=np.insert(parent, place, self.n_nodes).astype(np.int32),
            lo=np.insert(self.lo, place, place),
            hi=hi,
            level=np.insert(self.level, place, 1),
            n_leaves=place + 1,
            scale=self.scale,
            declared=self.declared,
            missing=place,
        )

    def _repr_html_(self) -> str:
        return str(show("taxonomy", self))

    @property
    def _null_code(self) -> int:
        return -1 if self.missing is None else self.missing

    def _check(self, lo: int, hi: int) -> None:
        if not 0 <= lo < hi <= self.n_leaves:
            raise ValueError(f"[{lo}, {hi}) is not a range of {self.n_leaves} leaves")

    def _free(self, text: str) -> str:
        while text in self._claimed:
            text += " (range)"
        return text


def free_label(wanted: str, taken: Iterable[str]) -> str:
    """Return *wanted* in enough brackets to differ from all labels taken.

    >>> free_label("*", ["a", "*"])
    '(*)'
    """
    known = set(taken)
    while wanted in known:
        wanted = f"({wanted})"
    return wanted


def widen(taxonomy: Taxonomy, lo: AnyIntArray, hi: AnyIntArray, *, ranges: bool) -> tuple[CodeArray, CodeArray]:
    """Return (n,) the narrowest ranges around ``[lo, hi)`` that may be published: nodes or, on request, ranges.

    >>> from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
    >>> ages = IntervalsTaxonomy(min=0, max=99, widths=(10, 50)).build(None)
    >>> few = np.array([23, 23]), np.array([24, 35])
    >>> [bounds.tolist() for bounds in widen(ages, *few, ranges=False)]
    [[23, 0], [24, 50]]
    >>> [bounds.tolist() for bounds in widen(ages, *few, ranges=True)]
    [[23, 20], [24, 40]]
    """
    if not ranges or not has_ranges(taxonomy):
        nodes = taxonomy.lowest_nodes(lo, hi)
        return taxonomy.lo[nodes], taxonomy.hi[nodes]
    first, last = range_ends(taxonomy)
    several = hi - lo > 1
    return np.where(several, first[lo], lo).astype(np.int32), np.where(several, last[hi - 1] + 1, hi).astype(np.int32)


def has_ranges(taxonomy: Taxonomy) -> bool:
    """Whether ranges of values make sense: for numbers, dates and values listed in the policy.

    Values that were found in the data are sorted as text, an order without meaning; they are published as nodes.
    """
    return taxonomy.declared or taxonomy.positions is not None


def range_ends(taxonomy: Taxonomy) -> tuple[CodeArray, CodeArray]:
    """Return (n_leaves,) the first leaf of ranges that begin with it, and the last leaf of ranges that end with it.

    Ranges of numbers and dates end at edges of the taxonomy's groups, so their ends are not values of records. Listed
    values are ends themselves.
    """
    leaf = np.arange(taxonomy.n_leaves, dtype=np.int32)
    if taxonomy.positions is None:
        return leaf, leaf
    groups = slice(taxonomy.n_leaves, None)
    edges = np.unique(np.concatenate([[0, taxonomy.n_leaves], taxonomy.lo[groups], taxonomy.hi[groups]]))
    if taxonomy.missing is not None:
        edges = np.union1d(edges, [taxonomy.missing])
    after = np.searchsorted(edges, leaf, side="right")
    return edges[after - 1].astype(np.int32), (edges[after] - 1).astype(np.int32)
