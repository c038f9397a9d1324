"""What an edit of the page makes of a column's taxonomy: a new one that loads, or a reason at a field."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.policy.guessing import list_values
from shoal.policy.profiling import ColumnProfile
from shoal.studio.taxonomies.entries import Attribute, EntryError, builder_of, tree_of
from shoal.studio.taxonomies.forms import Fields, taxonomy_from
from shoal.studio.taxonomies.groves import Grove
from shoal.studio.taxonomies.scale import by_hand
from shoal.studio.taxonomies.starts import MOST_IN_POLICY, start
from shoal.studio.taxonomies.views import view
from shoal.taxonomies.builders.numbers import IntervalsTaxonomy
from shoal.taxonomies.parse import texts
from shoal.taxonomies.tree import Taxonomy

TREES = ("tree", "groups")


@dataclass(frozen=True, slots=True)
class Desk:
    """One column on the table: its entry in the policy, its profile, and the folder of attached files."""

    attribute: Attribute
    column: ColumnProfile
    folder: Path

    @property
    def values(self) -> frozenset[str]:
        """The values of the data, as text."""
        return frozenset(texts(list_values(self.column)).to_pylist())

    def tree(self, taxonomy: dict[str, Any] | None) -> Taxonomy:
        """Return the tree of another taxonomy for the same column."""
        return tree_of(Attribute(self.attribute.name, self.attribute.role, taxonomy), self.column, self.folder)

    def present(self) -> Taxonomy | None:
        """Return the tree of now, or None if the policy's does not load."""
        try:
            return tree_of(self.attribute, self.column, self.folder)
        except EntryError:
            return None


def edited(desk: Desk, edit: str, fields: Fields) -> dict[str, Any] | None:
    """Return the taxonomy that an edit makes of what was typed and selected; it loads."""
    if edit not in EDITS:
        raise EntryError("this page does not know that edit; reload it")
    made = EDITS[edit](desk, fields)
    desk.tree(made)
    return made


def _start(desk: Desk, fields: Fields) -> dict[str, Any] | None:
    kind = _one(fields, "kind")
    return start(kind, desk.column, desk.present())


def _form(desk: Desk, fields: Fields) -> dict[str, Any]:
    return taxonomy_from(_one(fields, "kind"), fields, desk.column)


def _by_hand(desk: Desk, fields: Fields) -> dict[str, Any]:  # noqa: ARG001
    builder = None if desk.attribute.taxonomy is None else builder_of(desk.attribute.taxonomy, desk.folder)
    if not isinstance(builder, IntervalsTaxonomy):
        raise EntryError("only intervals have edges to move; choose that kind first", "kind")
    return {"intervals": by_hand(builder)}


def _tree(edit: Callable[[_Pruning], Grove]) -> Callable[[Desk, Fields], dict[str, Any]]:
    def make(desk: Desk, fields: Fields) -> dict[str, Any]:
        return edit(_Pruning.of(desk, fields)).document()

    return make


@dataclass(frozen=True, slots=True)
class _Pruning:
    """An edit of a tree: what is selected, where it shall go, and the values of the data, which keep their names."""

    grove: Grove
    nodes: tuple[int, ...]
    loose: tuple[str, ...]  # selected values that have no place yet
    every_loose: tuple[str, ...]
    target: int | None
    name: str
    values: Collection[str]

    @classmethod
    def of(cls, desk: Desk, fields: Fields) -> _Pruning:
        present = desk.present()
        if desk.attribute.kind not in TREES or present is None:
            raise EntryError("the policy has no tree here any more; reload the page")
        if present.n_leaves > MOST_IN_POLICY:
            raise EntryError(f"a tree of more than {MOST_IN_POLICY:,} values is edited as a file")
        grove = Grove.of(present, fixed_root=desk.attribute.kind == "groups")
        unplaced = tuple(text for text, _ in view(present, desk.column).loose())
        chosen = _one(fields, "nodes").split()
        return cls(
            grove=grove,
            nodes=tuple(_place(text[1:], len(grove.labels)) for text in chosen if text.startswith("n")),
            loose=tuple(unplaced[_place(text[1:], len(unplaced))] for text in chosen if text.startswith("u")),
            every_loose=unplaced,
            target=_place(text[1:], len(grove.labels)) if (text := _one(fields, "target")) else None,
            name=_one(fields, "name"),
            values=desk.values,
        )

    def goal(self) -> int:
        """Return where to put things: the node that was named, or the top."""
        return 0 if self.target is None else self.target

    def single(self) -> int:
        if len(self.nodes) != 1 or self.loose:
            raise EntryError("select one group or value in the tree first", "nodes")
        return self.nodes[0]


def _group(edit: _Pruning) -> Grove:
    """Make a group of what is selected, where its first member is, or an empty one."""
    above = edit.grove.parents[edit.nodes[0]] if edit.nodes and edit.nodes[0] else 0
    under = edit.target if edit.target is not None else above
    with_loose = edit.grove.place(edit.loose, 0, edit.values) if edit.loose else edit.grove
    # Values placed last right under the top leave the numbers of all others as they are.
    placed = range(len(edit.grove.labels), len(with_loose.labels))
    return with_loose.add_group(under, edit.name, edit.values, (*edit.nodes, *placed))


def _move(edit: _Pruning) -> Grove:
    if edit.target is None:
        raise EntryError("choose where to move it", "target")
    if not edit.nodes and not edit.loose:
        raise EntryError("select what to move in the tree first", "nodes")
    with_loose = edit.grove.place(edit.loose, 0, edit.values) if edit.loose else edit.grove
    placed = range(len(edit.grove.labels), len(with_loose.labels))
    return with_loose.move((*edit.nodes, *placed), edit.target, edit.values)


def _place_all(edit: _Pruning) -> Grove:
    return edit.grove.place(edit.every_loose, edit.goal(), edit.values)


def _remove(edit: _Pruning) -> Grove:
    grove = edit.grove
    if not edit.nodes:
        raise EntryError("select what to delete in the tree first", "nodes")
    for node in sorted(edit.nodes, reverse=True):  # the numbers of those before stay as they are
        grove = grove.remove(node)
    return grove


def _one(fields: Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "").strip()


def _place(text: str, n_places: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < n_places):
        raise EntryError("the tree is another one now; reload the page", "nodes")
    return int(text)


EDITS: dict[str, Callable[[Desk, Fields], dict[str, Any] | None]] = {
    "start": _start,
    "form": _form,
    "by-hand": _by_hand,
    "group": _tree(_group),
    "rename": _tree(lambda edit: edit.grove.rename(edit.single(), edit.name, edit.values)),
    "move": _tree(_move),
    "place-all": _tree(_place_all),
    "delete": _tree(_remove),
    "earlier": _tree(lambda edit: edit.grove.shift(edit.single(), -1)),
    "later": _tree(lambda edit: edit.grove.shift(edit.single(), 1)),
}
