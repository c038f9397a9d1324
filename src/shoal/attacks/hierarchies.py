"""The hierarchies of quasi attributes: the policy's, or those that published labels show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.attacks.people import People
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.taxonomies.fitting import default_builder
from shoal.taxonomies.tree import Taxonomy


def known_tree(view: ReleaseView, name: str, everybody: People) -> Taxonomy | None:
    """Return the taxonomy that the policy gives an attribute, for the values of everybody; None without a policy."""
    attribute = None if view.policy is None else view.policy.attributes.get(name)
    if attribute is None:
        return None
    column = everybody.table.column(name)
    values = _values(column)
    builder = attribute.taxonomy or default_builder(values.type, values)
    tree = builder.build(values)
    if column.null_count:
        tree = tree.with_missing()
    if (tree.encode(values) < 0).any():
        raise UsageError(f"column {name!r} has values outside the policy's taxonomy: it is not the release's policy")
    return tree


def _values(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    values = whole.dictionary.take(whole.indices.unique()) if pa.types.is_dictionary(whole.type) else whole.unique()
    return values.drop_null()


@dataclass(frozen=True, slots=True, eq=False)
class Nested:
    """The hierarchy of one quasi attribute: nodes are ranges of leaves, and each label is a node.

    It is the policy's, if that is known; else it is made of the published labels, which must be nested or apart.
    """

    name: str
    lo: IntArray  # (n_nodes,)
    hi: IntArray  # (n_nodes,) exclusive
    start: IntArray  # (n_nodes + 1,)
    child: IntArray  # (n_children,) those of node v are start[v]:start[v + 1]
    node_of: IntArray  # (n_labels,) the node of each label of the view
    n_leaves: int
    tree: Taxonomy | None
    position: IntArray  # (n_codes,) without a tree, the leaf of each code of the view
    attribute: int

    @classmethod
    def of(cls, view: ReleaseView, attribute: int, everybody: People) -> Nested:
        """Read the hierarchy of an attribute."""
        name = view.known[attribute]
        tree = known_tree(view, name, everybody)
        position = np.empty(0, dtype=np.int64)
        if tree is None:
            label_lo, label_hi, position = _in_line(name, covered(view, attribute))
            lo, hi, n_leaves = label_lo, label_hi, len(position)
        else:
            number = view.labels[attribute].number
            node = {label: place for place, label in enumerate(tree.labels)}
            own = np.empty(len(number), dtype=np.int64)
            own[list(number.values())] = [node.get(str(text), -1) for text in number]
            if (own < 0).any():
                raise UsageError(f"labels of {name!r} are no nodes of the policy's taxonomy, but cut to fit the data")
            lo, hi, n_leaves = tree.lo.astype(np.int64), tree.hi.astype(np.int64), tree.n_leaves
            label_lo, label_hi = lo[own], hi[own]
        width = n_leaves + 1
        key = np.unique(lo * width + (width - 1 - hi))  # wider ones first
        lo, hi = key // width, width - 1 - key % width
        parent = _parents(lo, hi)
        order = np.argsort(parent, kind="stable")
        start = np.searchsorted(parent[order], np.arange(len(lo) + 1))
        node_of = np.searchsorted(key, label_lo * width + (width - 1 - label_hi))
        return cls(name, lo, hi, start, order, node_of, n_leaves, tree, position, attribute)

    def leaves(self, people: People) -> CodeArray:
        """Return (n,) the leaf of each person's value; a value that the hierarchy does not have is beyond all."""
        if self.tree is None:
            return self.position[people.codes[:, self.attribute]].astype(np.int32)
        codes = self.tree.encode(people.table.column(self.name))
        return np.where(codes < 0, self.n_leaves, codes).astype(np.int32)

    def before(self, labels: AnyIntArray) -> FloatArray:
        """Return (n_leaves + 1,) how many published records lie before each leaf, each spread evenly over its label."""
        records = np.bincount(self.node_of[labels], minlength=len(self.lo))
        each = records / (self.hi - self.lo)
        steps = np.bincount(self.lo, each, self.n_leaves + 1) - np.bincount(self.hi, each, self.n_leaves + 1)
        return np.concatenate([[0.0], np.cumsum(np.maximum(np.cumsum(steps)[:-1], 0.0))])


def covered(view: ReleaseView, attribute: int) -> BoolArray:
    """Return (n_labels, n_codes) which codes of an attribute each label covers."""
    told, code = view.labels[attribute], np.arange(int(view.widths[attribute]))
    under = (code >= told.low[:, None]) & (code < told.high[:, None])
    gaps = np.flatnonzero(told.gaps >= 0)
    if len(gaps):
        bits = np.ascontiguousarray(view.space.bits[told.gaps[gaps]]).view(np.uint8)
        under[gaps] &= np.unpackbits(bits, axis=1, bitorder="little")[:, : len(code)].astype(np.bool_)
    return np.asarray(under)


def _in_line(name: str, under: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
    """Put codes into an order in which every label is a range, and return the ranges and the place of each code.

    Sorted by whether the widest label has them, then the next, codes of nested labels stand together. Of two labels
    that overlap otherwise, one is torn.
    """
    sizes = under.sum(axis=1)
    packed = np.packbits(under[np.argsort(-sizes, kind="stable")], axis=0)
    order = np.lexsort(packed[::-1])
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    lined = under[:, order]
    lo = lined.argmax(axis=1)
    hi = under.shape[1] - lined[:, ::-1].argmax(axis=1)
    if (hi - lo != sizes).any():
        raise UsageError(f"labels of {name!r} overlap without being nested: they are not of a hierarchy")
    return lo, hi, position


def _parents(lo: IntArray, hi: IntArray) -> IntArray:
    """Return (n,) the narrowest range around each of nested ranges, wider ones first; -1 if there is none."""
    parent = np.full(len(lo), -1, dtype=np.int64)
    above: list[int] = []
    for node, begin in enumerate(lo.tolist()):
        while above and hi[above[-1]] <= begin:
            above.pop()
        parent[node] = above[-1] if above else -1
        above.append(node)
    return parent
