"""Taxonomies: the generalization of each column, drawn, edited, imported and exported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from shoal.core.registry import discover
from shoal.studio.answers import Content, Place, Visit, page, upload
from shoal.studio.project import Project, StaleError, is_plain, write_document
from shoal.studio.taxonomies import editing
from shoal.studio.taxonomies.entries import ColumnTaxonomy, EntryError, Fields, list_taxonomies, with_taxonomy
from shoal.studio.taxonomies.trees import KINDS, MOST_IN_POLICY, ValueTree, list_offered, start_taxonomy
from shoal.studio.taxonomies.views import Branch, ScaleView, TreeView, scale_view, view
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.scales import number_text

_HERE = "/taxonomies"
_COLUMN = "/projects/{project}" + _HERE + "/{column:int}"
_MOST_UNDONE = 50
_TYPES = {"csv": "text/csv; charset=utf-8", "yaml": "application/yaml"}
WIDE_OPEN = 60  # nodes of a tree whose groups are all open

Undone = list[Mapping[str, Any] | None]


def overview(visit: Visit) -> Response:
    return visit.render(
        "taxonomies.html", columns=[summary(index, entry) for index, entry in _list_entries(visit.project).items()]
    )


def show(visit: Visit) -> Response:
    return _answer(visit, "taxonomy.html")


def change(visit: Visit) -> Response:
    """Apply an edit if its result is valid; otherwise keep the old taxonomy and show a message at the field."""
    index, entry = _find_entry(visit)
    fields = {key: visit.form.getlist(key) for key in visit.form}
    before = _history(visit.project, entry.name)
    edit = visit.form.get("do")
    undoing = edit == "undo"
    try:
        if undoing and not before:
            raise EntryError("there is nothing to undo")
        made = before[-1] if undoing else editing.apply_edit(entry, edit, fields)
    except EntryError as wrong:
        return _answer(visit, "taxonomy_part.html" if visit.swapping else "taxonomy.html", wrong, fields)
    _keep(visit.project, visit.form.revision, entry, made, undoing=undoing)
    return _finish(visit, index)


async def bring(visit: Visit) -> Response:
    """Import a file with a tree into the policy or as an attached file."""
    return await run_in_threadpool(_take, visit, await visit.read_body("the file", editing.LARGEST))


def _take(visit: Visit, content: bytes) -> Response:
    index, entry = _find_entry(visit)
    name = unquote(visit.request.headers.get("shoal-name", ""))
    revision = visit.request.query_params.get("revision", "")
    if revision != str(visit.project.revision):
        raise StaleError
    taxonomy = editing.read_tree(name, content)
    if visit.request.query_params.get("keep") == "file":
        made: Content = {"file": _attach(visit.project, name, content)}
    else:
        made = editing.tree_in_policy(taxonomy)
    _keep(visit.project, int(revision), entry, made)
    return _finish(visit, index)


def _attach(project: Project, name: str, content: bytes) -> str:
    """Attach a file, under a new name if another file has its name, which may be in use or needed for undo."""
    if not is_plain(name):
        raise EntryError(f"{name[:100]!r} is not a valid file name; use letters and digits, and no folder", "file")
    own, number = Path(name), 1
    while name in project.list_attached():
        if (project.files / name).read_bytes() == content:
            return name
        number += 1
        name = f"{own.stem}-{number}{own.suffix}"
    project.attach_content(name, content)
    return name


def export(visit: Visit) -> Response:
    _, entry = _find_entry(visit)
    ending = visit.request.path_params["ending"]
    if ending not in editing.EXPORTS:
        raise HTTPException(404)
    content = editing.write_tree(entry.tree(), ending)
    name = entry.column.name if entry.column.name.isascii() and entry.column.name.isidentifier() else "taxonomy"
    headers = {"content-disposition": f'attachment; filename="{name}.{ending}"'}
    return Response(content, media_type=_TYPES[ending], headers=headers)


def _list_entries(project: Project) -> dict[int, ColumnTaxonomy]:
    return list_taxonomies(project.document, project.profile, project.files)


def _find_entry(visit: Visit) -> tuple[int, ColumnTaxonomy]:
    index, entries = visit.request.path_params["column"], _list_entries(visit.project)
    if index not in entries:
        raise HTTPException(404)
    return index, entries[index]


def _answer(visit: Visit, template: str, wrong: EntryError | None = None, typed: Fields | None = None) -> Response:
    index, entry = _find_entry(visit)
    return visit.render(
        template,
        sheet=sheet(entry, visit.project.document, wrong, typed),
        here=visit.at(f"{_HERE}/{index}"),
        columns=[(other, each.name) for other, each in _list_entries(visit.project).items()],
        index=index,
        n_undone=len(_history(visit.project, entry.name)),
        attached=visit.project.list_attached(),
    )


def _finish(visit: Visit, index: int) -> Response:
    return _answer(visit, "taxonomy_part.html") if visit.swapping else visit.to(visit.at(f"{_HERE}/{index}"))


def _keep(
    project: Project, revision: int, entry: ColumnTaxonomy, made: Mapping[str, Any] | None, *, undoing: bool = False
) -> None:
    """Put a taxonomy into the policy and remember the previous one for undo."""
    name = entry.name
    project.change(revision, with_taxonomy(project.document, name, made))
    before = _history(project, name)
    if undoing:
        before.pop()
    elif made != entry.taxonomy:
        before.append(entry.taxonomy)
        del before[:-_MOST_UNDONE]


def _history(project: Project, name: str) -> Undone:
    kept: dict[str, Undone] = project.memory.setdefault("taxonomies", {})
    return kept.setdefault(name, [])


def _ready(project: Project) -> str | None:
    return None if _list_entries(project) else "no column is quasi or sensitive"


@dataclass(frozen=True, slots=True)
class Sheet:
    """The page of one column; if the policy's taxonomy is invalid, ``drawn`` is None and ``broken`` has the reason."""

    entry: ColumnTaxonomy
    yaml: str  # the entry in the policy
    drawn: TreeView | None
    broken: str
    scale: ScaleView | None
    values: Mapping[str, Any]  # of the form's fields
    wrong: EntryError | None = None  # the error of an edit

    @property
    def kind(self) -> str:
        return self.entry.kind

    @property
    def kinds(self) -> tuple[tuple[str, str, str], ...]:
        possible = list_offered(self.entry.column, self.entry.role)
        return tuple(each for each in KINDS if each[0] in possible)

    @property
    def editable(self) -> bool:
        """Whether the tree can be edited on the page."""
        small = self.drawn is not None and self.drawn.taxonomy.n_leaves <= MOST_IN_POLICY
        return self.kind in editing.TREES and small

    @property
    def tree(self) -> Branch | None:
        return None if self.drawn is None else self.drawn.draw(whole=self.editable)

    @property
    def wide_open(self) -> bool:
        return self.drawn is not None and self.drawn.taxonomy.n_nodes <= WIDE_OPEN

    @property
    def targets(self) -> tuple[tuple[int, str], ...]:
        """The groups that a node can be moved to, with their numbers and indented names."""
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
        """Labels without values and children."""
        if self.drawn is None or not self.editable:
            return ()
        leaves = self.drawn.taxonomy.n_leaves
        records = self.drawn.records[:leaves].tolist()
        return tuple(label for label, count in zip(self.drawn.taxonomy.leaf_labels, records, strict=True) if not count)

    @property
    def formats(self) -> str:
        """The date formats, other than ISO, that fit every value of the column."""
        return ", ".join(filter(None, self.entry.column.date_formats))

    def problem(self, field: str) -> str:
        return str(self.wrong) if self.wrong is not None and self.wrong.field == field else ""

    def other_problem(self, *fields: str) -> str:
        return str(self.wrong) if self.wrong is not None and self.wrong.field not in fields else ""


def sheet(
    entry: ColumnTaxonomy, document: Mapping[str, Any], wrong: EntryError | None = None, typed: Fields | None = None
) -> Sheet:
    """Return the page of a column, with the rejected input after an error."""
    builder: TaxonomyBuilder | None = None
    drawn, broken, scale = None, "", None
    try:
        builder = entry.builder()
        drawn = view(entry.tree(), entry.column)
        scale = scale_view(builder, drawn) if isinstance(builder, IntervalsTaxonomy) else None
    except EntryError as error:
        broken = str(error)
    values = _values(entry.kind, builder or _fresh(entry))
    if wrong is not None and typed is not None:
        values = {**values, **{key: list(given) if key == "levels" else given[0] for key, given in typed.items()}}
    yaml = write_document({entry.name: document["attributes"][entry.name]})
    return Sheet(entry, yaml, drawn, broken, scale, values, wrong)


def summary(index: int, entry: ColumnTaxonomy) -> dict[str, object]:
    drawn, broken = None, ""
    try:
        drawn = view(entry.tree(), entry.column)
    except EntryError as error:
        broken = str(error)
    return {
        "index": index,
        "entry": entry,
        "kind": next((title for name, title, _ in KINDS if name == entry.kind), entry.kind),
        "chain": () if drawn is None else next(iter(drawn.examples()), ()),
        "gaps": 0 if drawn is None else drawn.gaps.n_values,
        "problem": broken,
    }


def _fresh(entry: ColumnTaxonomy) -> TaxonomyBuilder | None:
    try:
        return replace(entry, taxonomy=start_taxonomy(entry.kind, entry.column)).builder()
    except EntryError:
        return None


def _values(kind: str, builder: TaxonomyBuilder | None) -> dict[str, object]:
    """Return the values of the form's fields from the builder."""
    known = discover("shoal.taxonomies.builders", TaxonomyBuilder).get(kind)
    shown: Content = {} if known is None else {"cut": "widths", **dict.fromkeys(known.model_fields, "")}
    for field in () if builder is None else type(builder).model_fields:
        given = getattr(builder, field)
        if given is None:
            shown[field] = ""
        elif isinstance(given, bool | int | float):
            shown[field] = number_text(given)
        elif field in ("widths", "keep"):
            shown[field] = ", ".join(map(number_text, given))
        elif field == "edges":
            shown[field] = "\n".join(", ".join(map(number_text, level)) for level in given if level)
        elif field == "values":
            shown[field] = "\n".join(map(str, given))
        else:
            shown[field] = list(given) if isinstance(given, tuple) else str(given)
    if isinstance(builder, IntervalsTaxonomy):
        shown["cut"] = "edges" if builder.edges else "widths"
    return shown


place = Place("Taxonomies", _HERE, 20, _ready)
routes = [
    page("/projects/{project}" + _HERE, overview),
    page(_COLUMN, show),
    page(_COLUMN, change, "POST"),
    upload(_COLUMN, bring),
    page(_COLUMN + "/taxonomy.{ending}", export),
]
