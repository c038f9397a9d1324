"""Edits of a column's taxonomy, which return a valid tree or an error at a field; import and export of trees."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from shoal.core.errors import TaxonomyError
from shoal.studio.taxonomies.entries import ColumnTaxonomy, EntryError, Fields, first_value, taxonomy_from
from shoal.studio.taxonomies.trees import MOST_IN_POLICY, ValueTree, start_taxonomy
from shoal.studio.taxonomies.views import by_hand, view
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.builders.listed import READERS
from shoal.taxonomies.files import to_arx_csv, to_nested_yaml
from shoal.taxonomies.tree import Taxonomy

TREES = ("tree", "groups")
LARGEST = 32 * 2**20  # bytes of a file
MOST_EXPORTED = 200_000  # leaves
EXPORTS: dict[str, Callable[[Taxonomy, Path], None]] = {"csv": to_arx_csv, "yaml": to_nested_yaml}


def apply_edit(entry: ColumnTaxonomy, edit: str, fields: Fields) -> dict[str, object] | None:
    """Return the taxonomy after an edit of the form and the selection; it is valid."""
    if edit not in EDITS:
        raise EntryError("this edit is unknown; reload the page")
    made = EDITS[edit](entry, fields)
    replace(entry, taxonomy=made).tree()
    return made


def _by_hand(entry: ColumnTaxonomy, fields: Fields) -> dict[str, object]:  # noqa: ARG001
    builder = entry.builder()
    if not isinstance(builder, IntervalsTaxonomy):
        raise EntryError("only intervals have edges to move; choose that kind first", "kind")
    return {"intervals": by_hand(builder)}


def _tree(edit: Callable[[_TreeEdit], ValueTree]) -> Callable[[ColumnTaxonomy, Fields], dict[str, object]]:
    def make(entry: ColumnTaxonomy, fields: Fields) -> dict[str, object]:
        return edit(_TreeEdit.of(entry, fields)).document()

    return make


@dataclass(frozen=True, slots=True)
class _TreeEdit:
    """An edit of a tree: the selection, the target, and the values of the data, which keep their names."""

    tree: ValueTree
    nodes: tuple[int, ...]
    loose: tuple[str, ...]  # selected values outside the tree
    every_loose: tuple[str, ...]
    target: int | None
    name: str
    values: Collection[str]

    @classmethod
    def of(cls, entry: ColumnTaxonomy, fields: Fields) -> _TreeEdit:
        present = entry.present()
        if entry.kind not in TREES or present is None:
            raise EntryError("the policy no longer has a tree here; reload the page")
        if present.n_leaves > MOST_IN_POLICY:
            raise EntryError(f"a tree of more than {MOST_IN_POLICY:,} values is edited as a file")
        tree = ValueTree.of(present, fixed_root=entry.kind == "groups")
        unplaced = tuple(text for text, _ in view(present, entry.column).loose())
        chosen = first_value(fields, "nodes").split()
        return cls(
            tree=tree,
            nodes=tuple(_place(text[1:], len(tree.labels)) for text in chosen if text.startswith("n")),
            loose=tuple(unplaced[_place(text[1:], len(unplaced))] for text in chosen if text.startswith("u")),
            every_loose=unplaced,
            target=_place(text[1:], len(tree.labels)) if (text := first_value(fields, "target")) else None,
            name=first_value(fields, "name"),
            values=entry.values,
        )

    def goal(self) -> int:
        return 0 if self.target is None else self.target

    def single(self) -> int:
        if len(self.nodes) != 1 or self.loose:
            raise EntryError("select one group or value in the tree first", "nodes")
        return self.nodes[0]


def _group(edit: _TreeEdit) -> ValueTree:
    """Make a group of the selection at the position of its first member, or an empty group."""
    above = edit.tree.parents[edit.nodes[0]] if edit.nodes and edit.nodes[0] else 0
    under = edit.target if edit.target is not None else above
    with_loose = edit.tree.place(edit.loose, 0, edit.values) if edit.loose else edit.tree
    # Values added last directly below the top leave all other numbers unchanged.
    placed = range(len(edit.tree.labels), len(with_loose.labels))
    return with_loose.add_group(under, edit.name, edit.values, (*edit.nodes, *placed))


def _move(edit: _TreeEdit) -> ValueTree:
    if edit.target is None:
        raise EntryError("choose where to move it", "target")
    if not edit.nodes and not edit.loose:
        raise EntryError("select what to move in the tree first", "nodes")
    with_loose = edit.tree.place(edit.loose, 0, edit.values) if edit.loose else edit.tree
    placed = range(len(edit.tree.labels), len(with_loose.labels))
    return with_loose.move((*edit.nodes, *placed), edit.target, edit.values)


def _remove(edit: _TreeEdit) -> ValueTree:
    tree = edit.tree
    if not edit.nodes:
        raise EntryError("select what to delete in the tree first", "nodes")
    for node in sorted(edit.nodes, reverse=True):  # earlier numbers stay valid
        tree = tree.remove(node)
    return tree


def _place(text: str, n_places: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < n_places):
        raise EntryError("the tree has changed; reload the page", "nodes")
    return int(text)


EDITS: dict[str, Callable[[ColumnTaxonomy, Fields], dict[str, object] | None]] = {
    "start": lambda entry, fields: start_taxonomy(first_value(fields, "kind"), entry.column, entry.present()),
    "form": lambda entry, fields: taxonomy_from(first_value(fields, "kind"), fields, entry.column),
    "by-hand": _by_hand,
    "group": _tree(_group),
    "rename": _tree(lambda edit: edit.tree.rename(edit.single(), edit.name, edit.values)),
    "move": _tree(_move),
    "place-all": _tree(lambda edit: edit.tree.place(edit.every_loose, edit.goal(), edit.values)),
    "delete": _tree(_remove),
    "earlier": _tree(lambda edit: edit.tree.shift(edit.single(), -1)),
    "later": _tree(lambda edit: edit.tree.shift(edit.single(), 1)),
}


def read_tree(name: str, content: bytes) -> Taxonomy:
    """Read a tree from the bytes of a file, by the ending of its name."""
    ending = Path(name).suffix.lower()
    if ending not in READERS:
        known = ", ".join(READERS)
        raise EntryError(f"the file ends in {ending or 'nothing'!r}; it must end in one of {known}", "file")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise EntryError(f"the file is not UTF-8 (byte {error.start}); save it as UTF-8", "file") from None
    if "\0" in text:
        raise EntryError("the file has NUL bytes; it is not a text file", "file")
    try:
        return READERS[ending](text, name=name)
    except TaxonomyError as error:
        raise EntryError(str(error), "file") from None


def tree_in_policy(taxonomy: Taxonomy) -> dict[str, object]:
    if taxonomy.n_leaves > MOST_IN_POLICY:
        raise EntryError(
            f"the file has {taxonomy.n_leaves:,} values, and a tree in a policy holds at most {MOST_IN_POLICY:,}; "
            "keep it as a file",
            "keep",
        )
    return ValueTree.of(taxonomy).document()


def write_tree(taxonomy: Taxonomy, ending: str) -> bytes:
    if taxonomy.n_leaves > MOST_EXPORTED:
        raise EntryError(f"the tree has {taxonomy.n_leaves:,} values; files have at most {MOST_EXPORTED:,}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"tree.{ending}")
        EXPORTS[ending](taxonomy, path)
        return path.read_bytes()
