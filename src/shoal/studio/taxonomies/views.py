"""What a page shows of a taxonomy: the records under each node, its levels, examples, and what it does not cover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray
from shoal.policy.profiling import ColumnProfile
from shoal.taxonomies.fitting import Uncovered, find_uncovered
from shoal.taxonomies.parse import texts
from shoal.taxonomies.tree import Taxonomy

MOST_CHILDREN = 60  # of one node, in a tree that is only shown
MOST_SHOWN = 1_500
MOST_LOOSE = 200
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Branch:
    """A node as it is drawn; ``number`` is its place in reading order, ``rest`` the children that are not drawn."""

    number: int
    label: str
    records: int
    values: int
    level: int
    children: tuple[Branch, ...] = ()
    rest: int = 0

    @property
    def group(self) -> bool:
        """Whether anything is under it."""
        return bool(self.children) or self.rest > 0

    @property
    def rest_records(self) -> int:
        return self.records - sum(child.records for child in self.children)


@dataclass(frozen=True, slots=True)
class LevelView:
    """One step of generalization: how many different values records have then, and the fewest records of one."""

    height: int
    n_nodes: int
    smallest: int
    example: str


@dataclass(frozen=True, slots=True)
class TreeView:
    """A taxonomy with the records of a table in it."""

    taxonomy: Taxonomy
    codes: CodeArray  # (n_values,) the leaf of each value, or -1
    values: pa.Array
    counts: IntArray  # (n_values,)
    records: IntArray  # (n_nodes,)
    gaps: Uncovered

    def levels(self) -> tuple[LevelView, ...]:
        """Return what each level leaves of the values, the finest first."""
        often = np.bincount(self.codes[self.codes >= 0], self.counts[self.codes >= 0], self.taxonomy.n_leaves)
        found = []
        for height in range(self.taxonomy.height + 1):
            per_node = np.bincount(self.taxonomy.node_at(height), often, self.taxonomy.n_nodes).astype(np.int64)
            taken = per_node[per_node > 0]
            example = self.taxonomy.labels[int(per_node.argmax())]
            smallest, example = (int(taken.min()), example) if len(taken) else (0, "")
            found.append(LevelView(height, len(taken), smallest, example))
        return tuple(found)

    def examples(self) -> tuple[tuple[str, ...], ...]:
        """Return what the most frequent values may be published as: themselves, then each node above."""
        placed = np.flatnonzero(self.codes >= 0)
        often = placed[np.argsort(-self.counts[placed], kind="stable")][:_EXAMPLES]
        shown = texts(self.values.take(pa.array(often))).to_pylist()
        return tuple(
            self._chain(text, int(self.codes[place])) for text, place in zip(shown, often.tolist(), strict=True)
        )

    def loose(self) -> tuple[tuple[str, int], ...]:
        """Return the values without a place, with their records, the most frequent first; at most some hundred."""
        found = np.flatnonzero(self.codes < 0)
        found = found[np.argsort(-self.counts[found], kind="stable")][:MOST_LOOSE]
        shown = texts(self.values.take(pa.array(found))).to_pylist()
        return tuple(zip(shown, self.counts[found].tolist(), strict=True))

    def whole(self) -> Branch:
        return self._draw(most_children=self.taxonomy.n_nodes, most=self.taxonomy.n_nodes, empty=True)

    def part(self) -> Branch:
        """Return as much of the tree as one can look at: nodes that records have, from the top down."""
        return self._draw(most_children=MOST_CHILDREN, most=MOST_SHOWN, empty=False)

    def _draw(self, *, most_children: int, most: int, empty: bool) -> Branch:
        tree = self.taxonomy
        shown: dict[int, list[int]] = {}
        rest: dict[int, int] = {}
        order = [tree.root]  # a node before its children
        for node in order:
            below = tree.children(node)
            kept = [child for child in below if empty or self.records[child]]
            kept = kept[: min(most_children, max(0, most - len(order)))]
            shown[node], rest[node] = kept, len(below) - len(kept)
            order += kept
        numbers: dict[int, int] = {}  # in reading order
        waiting = [tree.root]
        while waiting:
            node = waiting.pop()
            numbers[node] = len(numbers)
            waiting += reversed(shown[node])
        made: dict[int, Branch] = {}
        for node in reversed(order):
            made[node] = Branch(
                number=numbers[node],
                label=tree.labels[node],
                records=int(self.records[node]),
                values=int(tree.hi[node] - tree.lo[node]),
                level=int(tree.level[node]) + 1,
                children=tuple(made[child] for child in shown[node]),
                rest=rest[node],
            )
        return made[tree.root]

    def _chain(self, text: str, leaf: int) -> tuple[str, ...]:
        found, node = [text], leaf
        while node >= 0:
            if self.taxonomy.labels[node] != found[-1]:
                found.append(self.taxonomy.labels[node])
            node = int(self.taxonomy.parent[node])
        return tuple(found)


def view(taxonomy: Taxonomy, column: ColumnProfile) -> TreeView:
    """Put the counted values of a column into a tree."""
    present = column.counts[1:] > 0
    values, counts = column.values.filter(pa.array(present)), column.counts[1:][present]
    codes = taxonomy.encode(values)
    leaves = np.bincount(codes[codes >= 0], counts[codes >= 0], taxonomy.n_leaves).astype(np.int64)
    below = np.append(0, np.cumsum(leaves))
    records = below[taxonomy.hi] - below[taxonomy.lo]
    return TreeView(taxonomy, codes, values, counts, records, find_uncovered(codes, values, counts))
