"""Everything that the page of one column shows, put together from its taxonomy and its profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.core.registry import discover
from shoal.studio.project import write_document
from shoal.studio.taxonomies.editing import TREES, ColumnTaxonomy
from shoal.studio.taxonomies.entries import EntryError, Fields, builder_of, edges_text, numbers_text, tree_of
from shoal.studio.taxonomies.trees import KINDS, MOST_IN_POLICY, ValueTree, list_offered, start_taxonomy
from shoal.studio.taxonomies.views import Branch, ScaleView, TreeView, levels_of, scale_view, view
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.scales import number_text

WIDE_OPEN = 60  # nodes up to which every group is shown open


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of the overview."""

    index: int
    name: str
    role: str
    kind: str
    chain: tuple[str, ...]
    gaps: int
    problem: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """The page of one column; ``drawn`` is None if the policy's taxonomy does not load, which ``broken`` tells."""

    entry: ColumnTaxonomy
    yaml: str  # of the policy's entry
    drawn: TreeView | None
    broken: str
    scale: ScaleView | None
    values: Mapping[str, Any]  # of the form's fields
    wrong: EntryError | None = None  # what an edit was refused for

    @property
    def kind(self) -> str:
        """The builder's name, or ``default``."""
        return self.entry.attribute.kind

    @property
    def kinds(self) -> tuple[tuple[str, str, str], ...]:
        """The kinds that this column may have: name, title, what it does."""
        possible = list_offered(self.entry.column, self.entry.attribute.role)
        return tuple(each for each in KINDS if each[0] in possible)

    @property
    def editable(self) -> bool:
        """Whether it is a tree that is edited in place."""
        small = self.drawn is not None and self.drawn.taxonomy.n_leaves <= MOST_IN_POLICY
        return self.kind in TREES and small

    @property
    def tree(self) -> Branch | None:
        """The tree, all of it if it is edited."""
        if self.drawn is None:
            return None
        return self.drawn.whole() if self.editable else self.drawn.part()

    @property
    def wide_open(self) -> bool:
        """Whether every group is shown open."""
        return self.drawn is not None and self.drawn.taxonomy.n_nodes <= WIDE_OPEN

    @property
    def targets(self) -> tuple[tuple[int, str], ...]:
        """The groups that something may be moved to, as they are numbered, each with its depth in front."""
        if self.drawn is None or not self.editable:
            return ()
        tree = ValueTree.of(self.drawn.taxonomy)
        depth = [0] * len(tree.labels)
        for node, parent in enumerate(tree.parents):
            depth[node] = depth[parent] + 1 if parent >= 0 else 0
        found = tree.groups(self.entry.values)
        return tuple((node, "\u2003" * depth[node] + tree.labels[node]) for node in found)

    @property
    def empty_groups(self) -> tuple[str, ...]:
        """Labels that no value of the data has, with nothing under them."""
        if self.drawn is None or not self.editable:
            return ()
        leaves = self.drawn.taxonomy.n_leaves
        records = self.drawn.records[:leaves].tolist()
        return tuple(label for label, count in zip(self.drawn.taxonomy.leaf_labels, records, strict=True) if not count)

    @property
    def formats(self) -> str:
        """The formats of dates, other than ISO, that read every value of the column."""
        return ", ".join(filter(None, self.entry.column.date_formats))

    def problem(self, field: str) -> str:
        """Return what is wrong with a field, or nothing."""
        return str(self.wrong) if self.wrong is not None and self.wrong.field == field else ""

    def other_problem(self, *fields: str) -> str:
        """Return what is wrong, unless it is said at one of these fields."""
        return str(self.wrong) if self.wrong is not None and self.wrong.field not in fields else ""


def sheet(
    entry: ColumnTaxonomy, document: Mapping[str, Any], wrong: EntryError | None = None, typed: Fields | None = None
) -> Sheet:
    """Put together what is shown of a column, with what was typed if that was refused."""
    attribute = entry.attribute
    builder: TaxonomyBuilder | None = None
    drawn, broken, scale = None, "", None
    try:
        builder = None if attribute.taxonomy is None else builder_of(attribute.taxonomy, entry.folder)
        drawn = view(tree_of(attribute, entry.column, entry.folder), entry.column)
        scale = scale_view(builder, drawn) if isinstance(builder, IntervalsTaxonomy) else None
    except EntryError as error:
        broken = str(error)
    values = _blank(attribute.kind) | _values(builder or _fresh(entry))
    if wrong is not None and typed is not None:
        values = {**values, **{key: list(given) if key == "levels" else given[0] for key, given in typed.items()}}
    yaml = write_document({attribute.name: document["attributes"][attribute.name]})
    return Sheet(entry, yaml, drawn, broken, scale, values, wrong)


def summary(index: int, entry: ColumnTaxonomy) -> Summary:
    """Return a column's line of the overview."""
    attribute = entry.attribute
    title = next((title for name, title, _ in KINDS if name == attribute.kind), attribute.kind)
    try:
        drawn = view(tree_of(attribute, entry.column, entry.folder), entry.column)
    except EntryError as error:
        return Summary(index, attribute.name, attribute.role, title, (), 0, str(error))
    chain = next(iter(drawn.examples()), ())
    return Summary(index, attribute.name, attribute.role, title, chain, drawn.gaps.n_values, "")


def _fresh(entry: ColumnTaxonomy) -> TaxonomyBuilder | None:
    """Return a builder to begin with where the policy's does not load."""
    try:
        made = start_taxonomy(entry.attribute.kind, entry.column)
        return None if made is None else builder_of(made, entry.folder)
    except EntryError:
        return None


def _blank(kind: str) -> dict[str, Any]:
    known = discover("shoal.taxonomies.builders", TaxonomyBuilder).get(kind)
    return {} if known is None else {"cut": "widths"} | dict.fromkeys(known.model_fields, "")


def _values(builder: TaxonomyBuilder | None) -> dict[str, Any]:
    """Return what the fields of a builder's form show."""
    if builder is None:
        return {}
    shown: dict[str, Any] = {}
    for field in type(builder).model_fields:
        given = getattr(builder, field)
        if given is None:
            shown[field] = ""
        elif isinstance(given, bool | int | float):
            shown[field] = number_text(given)
        elif field in ("widths", "keep"):
            shown[field] = numbers_text(given)
        elif field == "values":
            shown[field] = "\n".join(map(str, given))
        else:
            shown[field] = list(given) if isinstance(given, tuple) else str(given)
    if isinstance(builder, IntervalsTaxonomy):
        shown["cut"] = "edges" if builder.edges else "widths"
        shown["edges"] = edges_text(levels_of(builder) if builder.edges else ())
    return shown
