"""Columns: what each looks like, which role it has and why, and what is left to decide."""

from __future__ import annotations

from typing import cast

from starlette.exceptions import HTTPException
from starlette.responses import Response

from shoal.core.errors import UsageError
from shoal.policy.policy import Role
from shoal.studio.answers import Place, Visit, page
from shoal.studio.columns import (
    ROLES,
    Column,
    PutAway,
    describe_columns,
    description_of,
    role_of,
    with_description,
    with_role,
)
from shoal.studio.project import Project

_MEMORY = "columns"
_LONGEST = 500  # characters of a description


def show(visit: Visit) -> Response:
    """Show the columns with their roles."""
    project, document = visit.project, visit.project.document
    rows = [_row(column, document) for column in columns_of(project)]
    return visit.render("columns.html", rows=rows, roles=ROLES, said="", told="")


def change(visit: Visit) -> Response:
    """Give one column another role or description, and answer with its row."""
    project, form = visit.project, visit.form
    column = _column(visit)
    document, said, told = project.document, "", f"Meaning of {column.name} saved"
    if "role" in form and form.get("role") != role_of(document, column.name):
        if form.get("role") not in [role for role, _, _ in ROLES]:
            raise UsageError("choose one of the four roles")
        profile = project.profile[column.number]
        document, said = with_role(document, profile, cast("Role", form.get("role")), _memory_of_roles(project))
        told = "; ".join(filter(None, [f"{column.name} is {form.get('role')} now", said]))
    if "description" in form and role_of(document, column.name):
        if len(form.get("description")) > _LONGEST:
            raise UsageError(f"a description has at most {_LONGEST} characters")
        if form.get("description") != description_of(document, column.name):
            document = with_description(document, column.name, form.get("description"))
    project.change(form.revision, document)
    if visit.swapping:
        row = _row(column, project.document)
        return visit.render("column_row.html", row=row, roles=ROLES, said=said, told=told)
    return visit.to(visit.at("/columns"))


def columns_of(project: Project) -> tuple[Column, ...]:
    """Return the described columns of a project, made once."""
    if _MEMORY not in project.memory:
        project.memory[_MEMORY] = describe_columns(project.profile, project.draft.columns)
    return cast("tuple[Column, ...]", project.memory[_MEMORY])


def _memory_of_roles(project: Project) -> PutAway:
    return cast("PutAway", project.memory.setdefault("put away", {}))


def _column(visit: Visit) -> Column:
    columns = columns_of(visit.project)
    number: int = visit.request.path_params["number"]
    if number >= len(columns):
        raise HTTPException(404)
    return columns[number]


def _row(column: Column, document: dict[str, object]) -> dict[str, object]:
    return {
        "column": column,
        "role": role_of(document, column.name),
        "description": description_of(document, column.name),
    }


place = Place("Columns", "/columns", 10)
routes = [
    page("/projects/{project}/columns", show),
    page("/projects/{project}/columns/{number:int}", change, "POST"),
]
