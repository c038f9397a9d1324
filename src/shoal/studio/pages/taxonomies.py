"""Taxonomies: what each column may be generalized to, drawn, edited, imported and exported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from shoal.studio.answers import Place, Visit, page, upload
from shoal.studio.project import Project, StaleError, is_plain
from shoal.studio.taxonomies.editing import EXPORTS, LARGEST, ColumnTaxonomy, apply_edit, read_tree, tree_in_policy
from shoal.studio.taxonomies.editing import write_tree as file_of
from shoal.studio.taxonomies.entries import EntryError, Fields, attributes, tree_of, with_taxonomy
from shoal.studio.taxonomies.sheets import sheet, summary

_HERE = "/taxonomies"
_COLUMN = "/projects/{project}" + _HERE + "/{column:int}"
_MOST_UNDONE = 50
_TYPES = {"csv": "text/csv; charset=utf-8", "yaml": "application/yaml"}

Undone = list[Mapping[str, Any] | None]


def overview(visit: Visit) -> Response:
    """List the columns with what is declared for each."""
    return visit.render(
        "taxonomies.html", columns=[summary(index, entry) for index, entry in _list_entries(visit.project)]
    )


def show(visit: Visit) -> Response:
    """Show the page of one column."""
    return _answer(visit, "taxonomy.html")


def change(visit: Visit) -> Response:
    """Make an edit, unless what it makes does not load; then the old one stays, with a message at the field."""
    index, entry = _find_entry(visit)
    fields = _fields(visit)
    before = _history(visit.project, entry.attribute.name)
    edit = visit.form.get("do")
    undoing = edit == "undo"
    try:
        if undoing and not before:
            raise EntryError("there is nothing to undo")
        made = before[-1] if undoing else apply_edit(entry, edit, fields)
    except EntryError as wrong:
        return _answer(visit, "taxonomy_part.html" if visit.swapping else "taxonomy.html", wrong, fields)
    _keep(visit.project, visit.form.revision, entry, made, undoing=undoing)
    return _finish(visit, index)


async def bring(visit: Visit) -> Response:
    """Take a file with a tree, as a part of the policy or as an attached file."""
    parts = bytearray()
    async for part in visit.request.stream():
        parts += part
        if len(parts) > LARGEST:
            raise EntryError(f"the file is larger than {LARGEST >> 20} MB")
    return await run_in_threadpool(_take, visit, bytes(parts))


def _take(visit: Visit, content: bytes) -> Response:
    index, entry = _find_entry(visit)
    name = unquote(visit.request.headers.get("shoal-name", ""))
    revision = visit.request.query_params.get("revision", "")
    if revision != str(visit.project.revision):
        raise StaleError
    taxonomy = read_tree(name, content)
    if visit.request.query_params.get("keep") == "file":
        made: dict[str, Any] = {"file": _attach(visit.project, name, content)}
    else:
        made = tree_in_policy(taxonomy)
    _keep(visit.project, int(revision), entry, made)
    return _finish(visit, index)


def _attach(project: Project, name: str, content: bytes) -> str:
    """Keep a file, under another name if one of its name is there already: that one may be in use, or be undone to."""
    if not is_plain(name):
        raise EntryError(f"{name[:100]!r} is no name for a file; use letters and digits, and no folder", "file")
    own, number = Path(name), 1
    while name in project.list_attached():
        if (project.files / name).read_bytes() == content:
            return name
        number += 1
        name = f"{own.stem}-{number}{own.suffix}"
    return project.attach(name, [content])


def export(visit: Visit) -> Response:
    """Give the tree as a file."""
    _, entry = _find_entry(visit)
    ending = visit.request.path_params["ending"]
    if ending not in EXPORTS:
        raise HTTPException(404)
    content = file_of(tree_of(entry.attribute, entry.column, entry.folder), ending)
    name = entry.column.name if entry.column.name.isascii() and entry.column.name.isidentifier() else "taxonomy"
    headers = {"content-disposition": f'attachment; filename="{name}.{ending}"'}
    return Response(content, media_type=_TYPES[ending], headers=headers)


def _list_entries(project: Project) -> list[tuple[int, ColumnTaxonomy]]:
    found = {attribute.name: attribute for attribute in attributes(project.document)}
    return [
        (index, ColumnTaxonomy(found[column.name], column, project.files))
        for index, column in enumerate(project.profile)
        if column.name in found
    ]


def _find_entry(visit: Visit) -> tuple[int, ColumnTaxonomy]:
    wanted = visit.request.path_params["column"]
    for index, entry in _list_entries(visit.project):
        if index == wanted:
            return index, entry
    raise HTTPException(404)


def _answer(visit: Visit, template: str, wrong: EntryError | None = None, typed: Fields | None = None) -> Response:
    index, entry = _find_entry(visit)
    entries_of_columns = _list_entries(visit.project)
    return visit.render(
        template,
        sheet=sheet(entry, visit.project.document, wrong, typed),
        here=visit.at(f"{_HERE}/{index}"),
        columns=[(other, each.attribute.name) for other, each in entries_of_columns],
        index=index,
        n_undone=len(_history(visit.project, entry.attribute.name)),
        attached=visit.project.list_attached(),
    )


def _finish(visit: Visit, index: int) -> Response:
    return _answer(visit, "taxonomy_part.html") if visit.swapping else visit.to(visit.at(f"{_HERE}/{index}"))


def _keep(
    project: Project, revision: int, entry: ColumnTaxonomy, made: Mapping[str, Any] | None, *, undoing: bool = False
) -> None:
    """Make a taxonomy the policy's and remember the one before, so that the edit can be undone."""
    name = entry.attribute.name
    project.change(revision, with_taxonomy(project.document, name, made))
    before = _history(project, name)
    if undoing:
        before.pop()
    elif made != entry.attribute.taxonomy:
        before.append(entry.attribute.taxonomy)
        del before[:-_MOST_UNDONE]


def _history(project: Project, name: str) -> Undone:
    kept: dict[str, Undone] = project.memory.setdefault("taxonomies", {})
    return kept.setdefault(name, [])


def _fields(visit: Visit) -> Fields:
    found: dict[str, list[str]] = {}
    for key, value in visit.form.pairs:
        found.setdefault(key, []).append(value)
    return found


def _ready(project: Project) -> str | None:
    return None if _list_entries(project) else "no column is quasi or sensitive"


place = Place("Taxonomies", _HERE, 20, _ready)
routes = [
    page("/projects/{project}" + _HERE, overview),
    page(_COLUMN, show),
    page(_COLUMN, change, "POST"),
    upload(_COLUMN, bring),
    page(_COLUMN + "/taxonomy.{ending}", export),
]
