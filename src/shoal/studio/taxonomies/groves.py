"""Editing a tree of values: every edit returns a new tree, or says why it cannot be made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.studio.taxonomies.entries import EntryError
from shoal.taxonomies.construct import ROOT_LABEL
from shoal.taxonomies.tree import Taxonomy

LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Grove:
    """A tree in the order in which it is read: a node before its children, children in their order, the root first.

    ``fixed_root`` is for named groups, whose root is always ``*``.

    >>> grove = Grove(("any", "lungs", "asthma", "flu"), (-1, 0, 1, 0))
    >>> grove.document()
    {'tree': {'any': {'lungs': ['asthma'], 'flu': {}}}}
    """

    labels: tuple[str, ...]
    parents: tuple[int, ...]  # each before its children; the root's is -1
    fixed_root: bool = False

    @classmethod
    def of(cls, taxonomy: Taxonomy, *, fixed_root: bool = False) -> Grove:
        """Take a tree over."""
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
    def flat(cls, values: Iterable[str], *, fixed_root: bool = False) -> Grove:
        """Put all values right under a root."""
        listed = tuple(values)
        root = ROOT_LABEL
        while root in listed:
            root = f"({root})"
        return cls((root, *listed), (-1, *([0] * len(listed))), fixed_root)

    def children(self) -> list[list[int]]:
        """Return the children of each node."""
        found: list[list[int]] = [[] for _ in self.labels]
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                found[parent].append(node)
        return found

    def leaves(self) -> tuple[str, ...]:
        """Return the labels without anything under them."""
        return tuple(label for label, below in zip(self.labels, self.children(), strict=True) if not below)

    def document(self) -> dict[str, Any]:
        """Return the tree as a policy writes it."""
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
        """Return the nodes under which something may be put: all but the *values* of the data."""
        below = self.children()
        return tuple(node for node, label in enumerate(self.labels) if below[node] or label not in values)

    def add_group(self, under: int, name: str, values: Collection[str], members: Sequence[int] = ()) -> Grove:
        """Put a new group under a node, at the place of the first of its *members*, which go into it."""
        text = group_name(name)
        self._check_new(text)
        self._check_target(under, values)
        new = len(self.labels)
        grown = Grove((*self.labels, text), (*self.parents, under), self.fixed_root)
        below = grown.children()
        beside = [place for place, node in enumerate(below[under]) if node in members]
        below[under].insert(min(beside, default=0), below[under].pop())
        return grown._renumbered(grown._moved(below, members, new, values))

    def place(self, texts: Sequence[str], under: int, values: Collection[str]) -> Grove:
        """Put values of the data that have no place yet under a node."""
        self._check_target(under, values)
        for text in texts:
            self._check_new(text)
        labels, parents = (*self.labels, *texts), (*self.parents, *([under] * len(texts)))
        grown = Grove(labels, parents, self.fixed_root)
        return grown._renumbered(grown.children())

    def rename(self, node: int, name: str, values: Collection[str]) -> Grove:
        """Give a group another name; values of the data keep theirs."""
        if node == 0 and self.fixed_root:
            raise EntryError("the top of named groups is always *; change to a tree to name it", "name")
        if self.labels[node] in values and not self.children()[node]:
            raise EntryError("this is a value of the data; only groups have names of yours", "name")
        text = group_name(name)
        if text == self.labels[node]:
            return self
        self._check_new(text)
        labels = [*self.labels]
        labels[node] = text
        return Grove(tuple(labels), self.parents, self.fixed_root)

    def move(self, nodes: Sequence[int], under: int, values: Collection[str]) -> Grove:
        """Put nodes, with all that is under them, last under another one."""
        return self._renumbered(self._moved(self.children(), nodes, under, values))

    def shift(self, node: int, steps: int) -> Grove:
        """Move a node before or after its neighbours under the same parent."""
        if node == 0:
            raise EntryError("the top cannot be moved", "node")
        below = self.children()
        siblings = below[self.parents[node]]
        place = siblings.index(node)
        siblings.insert(max(0, min(len(siblings) - 1, place + steps)), siblings.pop(place))
        return self._renumbered(below)

    def remove(self, node: int) -> Grove:
        """Take a node out; what is under it goes to its place."""
        if node == 0:
            raise EntryError("the top cannot be deleted", "node")
        below = self.children()
        siblings = below[self.parents[node]]
        if len(self.labels) == 2:
            raise EntryError("a tree needs at least one value; this is the last one", "node")
        place = siblings.index(node)
        siblings[place : place + 1] = below[node]
        below[node] = []
        return self._renumbered(below)

    def _moved(
        self, below: list[list[int]], nodes: Sequence[int], under: int, values: Collection[str]
    ) -> list[list[int]]:
        """Return the children of each node after a move; what is selected with the group it is in goes with it."""
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
            raise EntryError("this is a value of the data; nothing can be put under it: choose a group", "target")

    def _path(self, node: int) -> list[int]:
        path = []
        while node >= 0:
            path.append(node)
            node = self.parents[node]
        return path

    def _check_new(self, text: str) -> None:
        if text in self.labels:
            raise EntryError(f"{text!r} is in the tree already; every name has one place", "name")

    def _renumbered(self, below: list[list[int]]) -> Grove:
        """Return the tree that these children make, numbered in reading order."""
        labels: list[str] = []
        parents: list[int] = []
        waiting = [(0, -1)]
        while waiting:
            node, parent = waiting.pop()
            waiting += [(child, len(labels)) for child in reversed(below[node])]
            labels.append(self.labels[node])
            parents.append(parent)
        return Grove(tuple(labels), tuple(parents), self.fixed_root)


def group_name(name: str) -> str:
    """Return the name of a group without blanks around it."""
    text = name.strip()
    if not text:
        raise EntryError("give the group a name", "name")
    if len(text) > LONGEST_NAME or not text.isprintable():
        raise EntryError(f"a name has at most {LONGEST_NAME} characters, all on one line", "name")
    return text
