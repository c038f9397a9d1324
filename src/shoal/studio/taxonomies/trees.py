"""Trees of values: edits that return a new tree or raise, and a first taxonomy of each kind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.policy.guessing import guess_taxonomy_of_kind
from shoal.policy.profiling import ColumnProfile
from shoal.studio.taxonomies.entries import EntryError
from shoal.taxonomies.builders.listed import FlatTaxonomy
from shoal.taxonomies.construct import ROOT_LABEL
from shoal.taxonomies.parse import texts
from shoal.taxonomies.scales import Categories, Numbers
from shoal.taxonomies.tree import Taxonomy

MOST_IN_POLICY = 5_000  # values of a tree that a policy holds; larger ones are files
# Name, title and description, in the order of the page.
KINDS = (
    ("default", "by kind", "no declaration: the column's kind decides"),
    ("intervals", "intervals", "numbers become intervals: 37, [35, 39], [30, 39]"),
    ("numbers", "numbers", "whole numbers become ranges chosen by the method"),
    ("dates", "dates", "days become months, quarters, years, decades"),
    ("mask", "masked codes", "the last characters are hidden: 47110, 4711*, 47***"),
    ("tree", "a tree", "values become nested groups with your names"),
    ("groups", "ordered groups", "a tree with the top *, in your order"),
    ("flat", "flat", "a value stays, joins its neighbours, or becomes *"),
    ("file", "a file", "a tree from a file: ARX CSV, YAML or JSON"),
)
_WRONG = {
    "intervals": "intervals are for numbers, and not every value of this column is one",
    "numbers": "this kind is for whole numbers, and not every value of this column is one",
    "dates": "some values of this column are not readable dates; choose another kind",
    "mask": "masks are for codes of 2 to 12 characters, and this column has other values",
    "file": "choose the file under Import a tree",
}
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class ValueTree:
    """A tree in reading order: a node before its children, the root first.

    ``fixed_root`` marks named groups, whose root is always ``*``.

    >>> tree = ValueTree(("any", "lungs", "asthma", "flu"), (-1, 0, 1, 0))
    >>> tree.document()
    {'tree': {'any': {'lungs': ['asthma'], 'flu': {}}}}
    """

    labels: tuple[str, ...]
    parents: tuple[int, ...]  # -1 for the root
    fixed_root: bool = False

    @classmethod
    def of(cls, taxonomy: Taxonomy, *, fixed_root: bool = False) -> ValueTree:
        labels: list[str] = []
        parents: list[int] = []
        waiting = [(taxonomy.root, -1)]
        while waiting:
            node, parent = waiting.pop()
            waiting += [(child, len(labels)) for child in reversed(taxonomy.children(node))]
            labels.append(taxonomy.labels[node])
            parents.append(parent)
        return cls(tuple(labels), tuple(parents), fixed_root)

    @classmethod
    def flat(cls, values: Iterable[str], *, fixed_root: bool = False) -> ValueTree:
        """Return a tree with all values directly below the root."""
        listed = tuple(values)
        root = ROOT_LABEL
        while root in listed:
            root = f"({root})"
        return cls((root, *listed), (-1, *([0] * len(listed))), fixed_root)

    def children(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.labels]
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                found[parent].append(node)
        return found

    def leaves(self) -> tuple[str, ...]:
        return tuple(label for label, below in zip(self.labels, self.children(), strict=True) if not below)

    def document(self) -> dict[str, object]:
        """Return the tree in the form of a policy."""
        below = self.children()
        made: list[Any] = [{} for _ in self.labels]
        for node in range(len(self.labels) - 1, -1, -1):
            if below[node] and not any(below[child] for child in below[node]):
                made[node] = [self.labels[child] for child in below[node]]
            else:
                made[node] = {self.labels[child]: made[child] for child in below[node]}
        if not self.fixed_root:
            return {"tree": {self.labels[0]: made[0]}}
        groups = made[0] if isinstance(made[0], dict) else {label: {} for label in made[0]}
        return {"groups": groups}

    def groups(self, values: Collection[str]) -> tuple[int, ...]:
        """Return the nodes that may have children: all but the *values* of the data."""
        below = self.children()
        return tuple(node for node, label in enumerate(self.labels) if below[node] or label not in values)

    def add_group(self, under: int, name: str, values: Collection[str], members: Sequence[int] = ()) -> ValueTree:
        """Add a group below a node, at the position of the first of its *members*, which move into it."""
        text = group_name(name)
        self._check_new(text)
        self._check_target(under, values)
        new = len(self.labels)
        grown = ValueTree((*self.labels, text), (*self.parents, under), self.fixed_root)
        below = grown.children()
        beside = [place for place, node in enumerate(below[under]) if node in members]
        below[under].insert(min(beside, default=0), below[under].pop())
        return grown._renumber(grown._move(below, members, new, values))

    def place(self, texts: Sequence[str], under: int, values: Collection[str]) -> ValueTree:
        """Add values of the data that are not in the tree below a node."""
        self._check_target(under, values)
        for text in texts:
            self._check_new(text)
        labels, parents = (*self.labels, *texts), (*self.parents, *([under] * len(texts)))
        grown = ValueTree(labels, parents, self.fixed_root)
        return grown._renumber(grown.children())

    def rename(self, node: int, name: str, values: Collection[str]) -> ValueTree:
        """Rename a group; values of the data keep their names."""
        if node == 0 and self.fixed_root:
            raise EntryError("the top of named groups is always *; change to a tree to name it", "name")
        if self.labels[node] in values and not self.children()[node]:
            raise EntryError("this is a value of the data; only groups can be renamed", "name")
        text = group_name(name)
        if text == self.labels[node]:
            return self
        self._check_new(text)
        labels = [*self.labels]
        labels[node] = text
        return ValueTree(tuple(labels), self.parents, self.fixed_root)

    def move(self, nodes: Sequence[int], under: int, values: Collection[str]) -> ValueTree:
        return self._renumber(self._move(self.children(), nodes, under, values))

    def shift(self, node: int, steps: int) -> ValueTree:
        """Move a node among its siblings."""
        if node == 0:
            raise EntryError("the top cannot be moved", "node")
        below = self.children()
        siblings = below[self.parents[node]]
        place = siblings.index(node)
        siblings.insert(max(0, min(len(siblings) - 1, place + steps)), siblings.pop(place))
        return self._renumber(below)

    def remove(self, node: int) -> ValueTree:
        """Remove a node; its children take its place."""
        if node == 0:
            raise EntryError("the top cannot be deleted", "node")
        below = self.children()
        siblings = below[self.parents[node]]
        if len(self.labels) == 2:
            raise EntryError("a tree needs at least one value; this is the last one", "node")
        place = siblings.index(node)
        siblings[place : place + 1] = below[node]
        below[node] = []
        return self._renumber(below)

    def _move(
        self, below: list[list[int]], nodes: Sequence[int], under: int, values: Collection[str]
    ) -> list[list[int]]:
        """Return the children of each node after a move; a selected descendant moves with its selected group."""
        self._check_target(under, values)
        if 0 in nodes:
            raise EntryError("the top cannot be moved", "target")
        if set(self._path(under)) & set(nodes):
            raise EntryError("a group cannot be put under itself", "target")
        chosen = [node for node in dict.fromkeys(nodes) if not set(self._path(node)[1:]) & set(nodes)]
        for node in chosen:
            below[self.parents[node]].remove(node)
        below[under] += chosen
        return below

    def _check_target(self, node: int, values: Collection[str]) -> None:
        if self.labels[node] in values and not self.children()[node]:
            raise EntryError("this is a value of the data; choose a group instead", "target")

    def _path(self, node: int) -> list[int]:
        path = []
        while node >= 0:
            path.append(node)
            node = self.parents[node]
        return path

    def _check_new(self, text: str) -> None:
        if text in self.labels:
            raise EntryError(f"{text!r} is already in the tree; choose another name", "name")

    def _renumber(self, below: list[list[int]]) -> ValueTree:
        """Return the tree with these children in reading order."""
        labels: list[str] = []
        parents: list[int] = []
        waiting = [(0, -1)]
        while waiting:
            node, parent = waiting.pop()
            waiting += [(child, len(labels)) for child in reversed(below[node])]
            labels.append(self.labels[node])
            parents.append(parent)
        return ValueTree(tuple(labels), tuple(parents), self.fixed_root)


def group_name(name: str) -> str:
    text = name.strip()
    if not text:
        raise EntryError("give the group a name", "name")
    if len(text) > LONGEST_NAME or not text.isprintable():
        raise EntryError(f"a name has at most {LONGEST_NAME} characters, all on one line", "name")
    return text


def start_taxonomy(kind: str, column: ColumnProfile, present: Taxonomy | None = None) -> dict[str, object] | None:
    """Return a first taxonomy of a kind, with the groups of *present* if both are trees; None for ``default``."""
    if kind == "default":
        return None
    if kind == "flat":
        return {"flat": {}}
    if kind in ("tree", "groups"):
        return _tree(kind, column, present)
    if kind == "numbers":
        if column.kind != "whole":
            raise EntryError(_WRONG[kind], "kind")
        return {"numbers": {}}
    guess = guess_taxonomy_of_kind(column, kind)
    if guess is None:
        raise EntryError(_WRONG.get(kind, f"unknown kind of taxonomy {kind!r}"), "kind")
    return dict(guess.choice)


def list_offered(column: ColumnProfile, role: str) -> tuple[str, ...]:
    """Return the kinds that are possible for a column of that role, except ``file``."""
    found = []
    for kind, _, _ in KINDS:
        try:
            if kind != "file" and not (kind == "default" and role == "quasi" and column.kind == "decimal"):
                start_taxonomy(kind, column)
                found.append(kind)
        except EntryError:
            continue
    return tuple(found)


def sort_values(column: ColumnProfile) -> list[str]:
    """Return the distinct values as text: numbers by size, otherwise by text."""
    scale = FlatTaxonomy().build(column.values).scale
    return list(scale.leaves.to_pylist()) if isinstance(scale, Categories) else []


def _tree(kind: str, column: ColumnProfile, present: Taxonomy | None) -> dict[str, object]:
    if column.n_distinct > MOST_IN_POLICY or not column.exact:
        raise EntryError(
            f"the column has {column.n_distinct:,} values, and a tree in a policy holds at most {MOST_IN_POLICY:,}; "
            "make the groups in a file and import it",
            "kind",
        )
    if not column.n_distinct:
        raise EntryError("the column has no values to group", "kind")
    fixed = kind == "groups"
    if present is not None and present.n_leaves <= MOST_IN_POLICY and _holds_all(present, column):
        tree = ValueTree.of(present, fixed_root=fixed)
        return (ValueTree(("*", *tree.labels[1:]), tree.parents, fixed) if fixed else tree).document()
    return ValueTree.flat(sort_values(column), fixed_root=fixed).document()


def _holds_all(present: Taxonomy, column: ColumnProfile) -> bool:
    """Return whether the leaves are the values themselves, so their tree can be edited by hand."""
    endless = isinstance(present.scale, Numbers) and (present.scale.open_low or present.scale.open_high)
    return not endless and set(texts(column.values).to_pylist()) <= set(present.leaf_labels)
