"""The value tree of one attribute.

Leaves are numbered in tree order, so every node is a contiguous range of leaves ``[lo, hi)``, and a
published value is a leaf range too: a taxonomy node and a Mondrian interval are one type. A node's number
below ``n_leaves`` is the leaf's own number; inner nodes follow, each after its children, the root last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray
from shoal.core.progress import show

Kind = Literal["category", "number", "date", "prefix"]
Cover = dict[str, Any]

MISSING_LABEL = "missing"
NOT_MISSING_LABEL = "(not missing)"
# Labels that a scale makes up start with one of these, so only such node labels can be mistaken for them.
_MADE_UP = ("{", "[", "<", ">", "(")


class Scale(ABC):
    """How the leaf ranges of one kind of attribute are written down.

    A *cover* says, without reference to any code, which source values a label stands for. It goes to the
    manifest, where the verifier and the users of the data read it:

    - ``{"any": true}``: every value, missing or not (the root);
    - ``{"values": [...]}``: these source values, as text;
    - ``{"prefixes": [...]}``: every text that starts with one of these;
    - ``{"from": "47102", "through": "47110"}``: every text from the one to the other, in the order of characters;
      a null end is open;
    - ``{"from": a, "below": b}``: numbers or ISO dates in [a, b); a null end is open;
    - any of them with ``"missing": true``: missing values as well;
    - ``{"missing": true}`` alone: missing values only.
    """

    kind: ClassVar[Kind]

    @abstractmethod
    def label(self, taxonomy: Taxonomy, lo: int, hi: int) -> str:
        """Text for a leaf range that is no taxonomy node and does not contain the missing leaf."""

    @abstractmethod
    def cover(self, taxonomy: Taxonomy, lo: int, hi: int, node: int) -> Cover:
        """Source values under a leaf range, which is that of a *node* but not the root, or of none (-1).

        The range does not contain the missing leaf.
        """

    @abstractmethod
    def locate(self, values: pa.Array) -> CodeArray:
        """Return (n_values,) the leaf of each source value; -1 for nulls and values outside the taxonomy."""

    def positions(self) -> FloatArray | None:
        """Return the places of the leaves on the line of numbers, or None if they have no distance."""
        return None

    def reading(self) -> dict[str, Any]:
        """Return what one must know to read source values besides their covers: ``length``, ``format``."""
        return {}


@dataclass(frozen=True, slots=True, eq=False)
class Taxonomy:
    """A tree of values; node v covers the leaves ``lo[v]:hi[v]``.

    ``missing`` is the leaf that stands for missing values, always the last one and a child of the root, or
    None. ``declared`` says that the leaves come from the policy, not from the data, so that all may be named.

    >>> from shoal.taxonomies.files import from_nested
    >>> disease = from_nested({"any": {"hemal": ["hepatitis", "anemia"], "other": ["phthisis", "flu"]}})
    >>> disease.label(0, 2), disease.label(1, 3)
    ('hemal', '{anemia, phthisis}')
    >>> disease.cover(2, 4)
    {'values': ['phthisis', 'flu']}
    """

    labels: tuple[str, ...]  # (n_nodes,) leaves first, in tree order; root last
    parent: CodeArray  # (n_nodes,) the root's is -1; every other's is larger than the node itself
    lo: CodeArray  # (n_nodes,)
    hi: CodeArray  # (n_nodes,)
    level: CodeArray  # (n_nodes,) the root's is 0
    n_leaves: int
    scale: Scale
    declared: bool
    missing: int | None = None
    _by_parent: CodeArray = field(init=False, repr=False)  # (n_nodes,) nodes grouped by parent, in leaf order
    _first_child: CodeArray = field(init=False, repr=False)  # (n_nodes + 1,) where a node's group starts
    _claimed: frozenset[str] = field(init=False, repr=False)  # node labels that look made up by a scale
    _climb: tuple[list[int], list[int], list[int]] = field(init=False, repr=False)  # lo, hi, parent: fast one by one

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
        """Number of nodes, leaves and root included."""
        return len(self.labels)

    @property
    def root(self) -> int:
        """The node above all others."""
        return len(self.labels) - 1

    @property
    def height(self) -> int:
        """The number of generalization steps: 0 keeps values as they are, this many take every leaf to the root."""
        return int(self.level.max())

    @property
    def leaf_labels(self) -> tuple[str, ...]:
        """Labels of the leaves, in tree order."""
        return self.labels[: self.n_leaves]

    @property
    def positions(self) -> FloatArray | None:
        """Return (n_leaves,) the numeric place of each leaf, NaN for the missing one; None for categories."""
        places = self.scale.positions()
        if places is None or self.missing is None:
            return places
        return np.append(places, np.nan)

    def is_leaf(self, node: int) -> bool:
        """Whether the node has no children."""
        return node < self.n_leaves

    def children(self, node: int) -> tuple[int, ...]:
        """Return the node's children in leaf order."""
        return tuple(self._by_parent[self._first_child[node] : self._first_child[node + 1]].tolist())

    def covering(self, lo: int, hi: int) -> int:
        """Return the lowest node that contains the leaf range."""
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
        """Return (n_ranges,) the lowest node that contains each leaf range."""
        nodes = np.array(lo, dtype=np.int32)
        outside = np.flatnonzero(self.hi[nodes] < hi)
        while outside.size:
            nodes[outside] = self.parent[nodes[outside]]
            outside = outside[self.hi[nodes[outside]] < hi[outside]]
        return nodes

    def node_at(self, height: int) -> CodeArray:
        """Return (n_leaves,) the node of each leaf after generalizing *height* steps.

        Steps are counted from the deepest leaves: a leaf goes to its ancestor at tree level
        ``self.height - height``, or stays where it is while it is nearer to the root than that. For a file whose
        lines are equally long this is the file's column *height*.
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
        """Return the fewest nodes whose leaf ranges, side by side, make up this one."""
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
        """Return the node that a leaf range is published as, or -1.

        Of a chain of single children that is the lowest node or, if values were generalized *level* steps, the node
        that these steps lead to. Such values are otherwise suppressed: the whole range is then the root.
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
        """Return the text published for a leaf range; no two ranges share one.

        A node reads as its label (see ``find_node``), everything else as the scale writes it.
        """
        node = self.find_node(lo, hi, level)
        if node >= 0:
            return self.labels[node]
        if self.missing is not None and hi > self.missing:
            return self._free(f"{{{self.label(lo, self.missing, level)}, {self.labels[self.missing]}}}")
        if self.missing is not None and hi - lo == self.missing:
            return self._free(NOT_MISSING_LABEL)
        return self._free(self.scale.label(self, lo, hi))

    def cover(self, lo: int, hi: int, level: int | None = None) -> Cover:
        """Return which source values a leaf range stands for, in the format that ``Scale`` describes."""
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
        """Return (n_values,) the leaf of each source value, or -1; nulls go to the missing leaf."""
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if pa.types.is_dictionary(values.type):
            of_entry = np.append(self.encode(values.dictionary), self._null_code)
            index = values.indices.cast(pa.int64()).fill_null(len(of_entry) - 1)
            return np.asarray(of_entry[index.to_numpy(zero_copy_only=False)], dtype=np.int32)
        codes = self.scale.locate(values)
        if values.null_count:
            codes = np.where(values.is_null().to_numpy(zero_copy_only=False), self._null_code, codes)
        return codes.astype(np.int32, copy=False)

    def with_missing(self) -> Taxonomy:
        """Return the same tree with a leaf for missing values, last and under the root."""
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
        """Return what a notebook shows: the tree, to unfold."""
        return str(show("taxonomy", self))

    @property
    def _null_code(self) -> int:
        return -1 if self.missing is None else self.missing

    def _check(self, lo: int, hi: int) -> None:
        if not 0 <= lo < hi <= self.n_leaves:
            raise ValueError(f"[{lo}, {hi}) is no range of {self.n_leaves} leaves")

    def _free(self, text: str) -> str:
        while text in self._claimed:
            text += " (range)"
        return text


def free_label(wanted: str, taken: Iterable[str]) -> str:
    """Return *wanted*, in as many brackets as it takes to differ from all labels taken.

    >>> free_label("*", ["a", "*"])
    '(*)'
    """
    known = set(taken)
    while wanted in known:
        wanted = f"({wanted})"
    return wanted


def widen(taxonomy: Taxonomy, lo: AnyIntArray, hi: AnyIntArray, *, ranges: bool) -> tuple[CodeArray, CodeArray]:
    """Return (n,) the narrowest leaf ranges around ``[lo, hi)`` that may be published: nodes or, if asked for, ranges.

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
    """Whether the values have an order that a range can follow: numbers, dates, and what the policy lists.

    Values that were found in the data are sorted as text, which says nothing about them: they are published as nodes.
    """
    return taxonomy.declared or taxonomy.positions is not None


def range_ends(taxonomy: Taxonomy) -> tuple[CodeArray, CodeArray]:
    """Return (n_leaves,) the first leaf of a range that has this leaf lowest, and the last one if it has it highest.

    Ranges of numbers and dates end at edges of the taxonomy's groups, so that no end is a record's value. Listed values
    are named one by one.
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
