"""A taxonomy of each kind to begin with, from what the profile says and from the tree that is there."""

from __future__ import annotations

from typing import Any

from shoal.policy.guessing import guess_taxonomy_of_kind, list_values
from shoal.policy.profiling import ColumnProfile
from shoal.studio.taxonomies.entries import EntryError
from shoal.studio.taxonomies.groves import Grove
from shoal.taxonomies.builders.listed import FlatTaxonomy
from shoal.taxonomies.parse import texts
from shoal.taxonomies.scales import Categories, Numbers
from shoal.taxonomies.tree import Taxonomy

MOST_IN_POLICY = 5_000  # values of a tree that a policy holds; larger ones are files

# In the order in which they are offered: name, what it is called, what it does to a value.
KINDS = (
    ("default", "by kind", "nothing is declared: the column's kind decides"),
    ("intervals", "intervals", "numbers become intervals: 37, [35, 39], [30, 39]"),
    ("numbers", "numbers", "whole numbers become ranges wherever the method cuts"),
    ("dates", "dates", "days become months, quarters, years, decades"),
    ("mask", "masked codes", "the last characters are hidden: 47110, 4711*, 47***"),
    ("tree", "a tree", "values become groups, and groups of groups, that you name"),
    ("groups", "ordered groups", "a tree whose top is *, in the order you give"),
    ("flat", "flat", "a value stays whole, joins its neighbours, or becomes *"),
    ("file", "a file", "a tree from a file: ARX CSV, YAML or JSON"),
)
_WRONG = {
    "intervals": "intervals are for numbers, and not every value of this column is one",
    "numbers": "this kind is for whole numbers, and not every value of this column is one",
    "dates": "not every value of this column is a date that we can read; take another kind",
    "mask": "masks are for texts of one length, from 2 to 12 characters, and the values of this column differ in it",
    "file": "choose the file under Import a tree",
}


def start(kind: str, column: ColumnProfile, present: Taxonomy | None = None) -> dict[str, Any] | None:
    """Return a taxonomy of that kind, with the groups of *present* where both are trees; None for ``default``."""
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
    if guess is None or guess.taxonomy is None:
        raise EntryError(_WRONG.get(kind, f"there is no taxonomy of kind {kind!r}"), "kind")
    return dict(guess.taxonomy)


def offered(column: ColumnProfile, role: str) -> tuple[str, ...]:
    """Return the kinds that can be started for a column of that role, ``file`` aside."""
    found = []
    for kind, _, _ in KINDS:
        try:
            if kind != "file" and not (kind == "default" and role == "quasi" and column.kind == "decimal"):
                start(kind, column)
                found.append(kind)
        except EntryError:
            continue
    return tuple(found)


def sorted_values(column: ColumnProfile) -> list[str]:
    """Return the distinct values as text: numbers by size, all others by text."""
    scale = FlatTaxonomy().build(list_values(column)).scale
    return list(scale.leaves.to_pylist()) if isinstance(scale, Categories) else []


def _tree(kind: str, column: ColumnProfile, present: Taxonomy | None) -> dict[str, Any]:
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
        grove = Grove.of(present, fixed_root=fixed)
        return (Grove(("*", *grove.labels[1:]), grove.parents, fixed) if fixed else grove).document()
    return Grove.flat(sorted_values(column), fixed_root=fixed).document()


def _holds_all(present: Taxonomy, column: ColumnProfile) -> bool:
    """Whether the leaves are the values themselves, so that their tree can be edited by hand."""
    endless = isinstance(present.scale, Numbers) and (present.scale.open_low or present.scale.open_high)
    return not endless and set(texts(list_values(column)).to_pylist()) <= set(present.leaf_labels)
