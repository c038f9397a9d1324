"""Import: how the file is read, what each column is, which values mean missing, and who the people are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from starlette.responses import Response

from shoal.core.errors import UsageError
from shoal.policy.column_types import TYPES as KNOWN
from shoal.sources.base import SourceOptions
from shoal.sources.opening import is_delimited
from shoal.studio.answers import Content, Form, Place, Visit, page
from shoal.studio.pages.columns import TYPES, entry_of, put_away, with_role
from shoal.studio.project import Project
from shoal.taxonomies.parse import texts

_HERE = "/import"
_EXAMPLES = 3
_FILE = ("delimiter", "encoding", "sheet")  # options of the file as a whole


def show(visit: Visit) -> Response:
    """Show how the table was read, and what can be chosen."""
    project = visit.project
    options = project.found.options
    columns = [
        {
            "number": number,
            "name": profile.name,
            "examples": texts(profile.values[:_EXAMPLES]).to_pylist() if drafted.type != "text" else [],
            "type": drafted.type,
            "missing": profile.n_missing,
            "markers": [
                (text, records, text in options.missing or text in options.missing_in.get(profile.name, ()))
                for text, records in project.found.markers.get(profile.name, {}).items()
            ],
            "comma": profile.name in options.decimal_comma if profile.name in project.found.commas else None,
        }
        for number, (profile, drafted) in enumerate(zip(project.profile, project.draft.columns, strict=True))
    ]
    document = project.document
    return visit.render(
        "import.html",
        columns=columns,
        types=TYPES,
        options=options,
        delimited=is_delimited(project.source),
        unit=document.get("unit") or "",
        one_each=(document.get("sample") or {}).get("one_per") == "unit",
    )


def change_file(visit: Visit) -> Response:
    """Read the file with another character between fields, or in another encoding; the policy is drafted anew."""
    project, form = visit.project, visit.form
    given = {name: form.get(name) for name in _FILE if form.get(name)}
    if given.get("delimiter") == "tab":
        given["delimiter"] = "\t"
    asked = replace(project.asked, options=read_options(given), types={}, settled=False, earlier=None)
    found = asked.read()
    project.change(form.revision, found.draft.policy, found.draft.text)
    project.replace_table(asked, found)
    return visit.to(visit.at(_HERE))


def change_columns(visit: Visit) -> Response:
    """Read the columns as the form says: their types, what means missing in them, decimal commas."""
    project, form = visit.project, visit.form
    types = dict(project.types)
    for number, drafted in enumerate(project.draft.columns):
        if (said := form.get(f"type-{number}")) != drafted.type:
            found = next((known for known in KNOWN if known == said), None)
            if found is None:
                raise UsageError("choose one of the types")
            types[drafted.name] = found
    visit.studio.read_again(project, _choose_markers(project, form), types)
    project.change(form.revision, _follow(project))
    return visit.to(visit.at(_HERE))


def _choose_markers(project: Project, form: Form) -> SourceOptions:
    """Return the options with the ticked markers: one that means missing wherever it occurs stands for all columns."""
    markers, options = project.found.markers, project.found.options
    chosen: dict[str, list[str]] = {}
    for number, name in enumerate(project.columns):
        added = [text for part in form.get(f"other-{number}").split(",") if (text := part.strip())]
        known = [text for text in form.getlist(f"missing-{number}") if text in markers.get(name, {})]
        if found := list(dict.fromkeys([*known, *added])):
            chosen[name] = found
    everywhere = [
        text
        for text in dict.fromkeys(text for own in chosen.values() for text in own)
        if sum(text in own for own in chosen.values()) > 1
        and all(text in chosen.get(name, ()) for name, own in markers.items() if text in own)
        and not text.lstrip("+-").isdigit()
    ]
    own = {name: left for name, found in chosen.items() if (left := [text for text in found if text not in everywhere])}
    commas = [project.columns[int(text)] for text in form.getlist("comma") if text.isdigit()]
    return read_options(
        options.model_dump(exclude_defaults=True)
        | {"missing": ["", *everywhere], "missing_in": own, "decimal_comma": commas}
    )


def read_options(given: Mapping[str, Any]) -> SourceOptions:
    """Return options for reading; what is wrong with one of them is said."""
    try:
        return SourceOptions(**given)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        said = problem.get("ctx", {}).get("error", problem["msg"])
        raise UsageError(f"{problem['loc'][0] if problem['loc'] else 'reading'}: {said}") from None


def _follow(project: Project) -> Content:
    """Return the policy after a reading: columns that are of another type get the role and taxonomy of the draft."""
    document = project.document
    for profile, drafted in zip(project.profile, project.draft.columns, strict=True):
        entry = entry_of(document, profile.name)
        if drafted.name not in project.types or entry.get("taxonomy") == drafted.entry.get("taxonomy"):
            continue
        document, _ = with_role(document, profile, drafted.role, put_away(project))
        kept = {key: value for key, value in entry.items() if key in ("description", "weight", "technique")}
        document["attributes"][profile.name] = drafted.entry | kept
    reading = project.found.options.model_dump(exclude_defaults=True)
    document.pop("source", None)
    return document | ({"source": reading} if reading else {})


def change_people(visit: Visit) -> Response:
    """Say which column names people, or that every record is another person; and whether one record each is enough."""
    project, unit = visit.project, visit.form.get("unit")
    document = {key: value for key, value in project.document.items() if key not in ("unit", "sample")}
    if unit:
        profile = next((each for each in project.profile if each.name == unit), None)
        if profile is None:
            raise UsageError("choose one of the columns")
        if entry_of(document, unit).get("role") != "identifier":
            document, _ = with_role(document, profile, "identifier", put_away(project))
        document["unit"] = unit
        if "one" in visit.form:
            document["sample"] = {"one_per": "unit"}
    project.change(visit.form.revision, document)
    return visit.to(visit.at(_HERE))


def read_as_policy_says(visit: Visit) -> None:
    """Read the table again if the policy, which somebody wrote, says to read it in another way."""
    project = visit.project
    if project.problems():
        return
    said = SourceOptions(**(project.document.get("source") or {}))
    if said.model_dump() != project.found.options.model_dump():
        visit.studio.read_again(project, said, project.types)


place = Place("Import", _HERE, 5)
_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(f"{_PATH}/file", change_file, "POST"),
    page(f"{_PATH}/columns", change_columns, "POST"),
    page(f"{_PATH}/people", change_people, "POST"),
]
