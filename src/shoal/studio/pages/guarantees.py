"""Guarantees: which promises, by which method, and what can be said of them beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from shoal.core.errors import UsageError
from shoal.core.registry import discover
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.studio.answers import Form, Place, Visit, page
from shoal.studio.feasibility import Forecast
from shoal.studio.parameters import Parameter, explain_models, list_parameters, read_values, show_values, start_of
from shoal.studio.project import Project

_HERE = "/guarantees"
_VERDICTS = {
    "possible": ("Possible", "good"),
    "open": ("Not known yet", ""),
    "costly": ("Likely to cost much", "warning"),
    "impossible": ("Impossible", "problem"),
}


def _ready(project: Project) -> str | None:
    roles = [entry.get("role") for entry in _attributes(project.document).values() if isinstance(entry, Mapping)]
    return None if "quasi" in roles else "give at least one column the role quasi first"


place = Place("Guarantees", _HERE, 30, _ready)


def _attributes(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("attributes")
    return found if isinstance(found, Mapping) else {}


def _split_entry(entry: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of a model or method as a policy writes it."""
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, Mapping) and len(entry) == 1:
        name, given = next(iter(entry.items()))
        return str(name), dict(given) if isinstance(given, Mapping) else {}
    return "", {}


def _promises(document: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    given = document.get("privacy")
    if isinstance(given, Mapping):
        given = [{name: entry} for name, entry in given.items()]
    return [_split_entry(entry) for entry in given] if isinstance(given, list | tuple) else []


def _models() -> Mapping[str, type[PrivacyModel]]:
    return discover("shoal.models", PrivacyModel)


def _methods() -> Mapping[str, type[Method]]:
    return discover("shoal.methods", Method)


def show(visit: Visit) -> Response:
    """Show every promise with its fields, what else could be promised, and the method."""
    project = visit.project
    document = project.document
    explained = {each.name: each for each in explain_models()}
    promises = [
        {
            "place": place,
            "name": name,
            "known": explained.get(name),
            "fields": _fields(name, _models()),
            "given": show_values(_fields(name, _models()), given),
            "chosen": _list_attributes(given),
        }
        for place, (name, given) in enumerate(_promises(document))
    ]
    method, given = _split_entry(document.get("method", "mondrian"))
    return visit.render(
        "guarantees_part.html" if visit.swapping else "guarantees.html",
        promises=promises,
        explained=list(explained.values()),
        methods=list(_methods().values()),
        method=method,
        method_class=_methods().get(method),
        method_fields=_fields(method, _methods()),
        method_given=show_values(_fields(method, _methods()), given),
        sensitive=[
            name
            for name, entry in _attributes(document).items()
            if isinstance(entry, Mapping) and entry.get("role") == "sensitive"
        ],
        attached=project.list_attached(),
        max_withheld=document.get("max_withheld", 0),
        missing=document.get("missing", "category"),
        **_forecast(project),
    )


def _list_attributes(given: Mapping[str, Any]) -> list[str]:
    """Return the attributes that a promise names."""
    names = given.get("attribute")
    return [] if names is None else [names] if isinstance(names, str) else [str(name) for name in names]


def _fields(name: str, known: Mapping[str, type[Any]]) -> tuple[Parameter, ...]:
    return list_parameters(known[name]) if name in known else ()


def _forecast(project: Project) -> dict[str, Any]:
    found = Forecast.of(project).ask(project)
    return {"forecast": found, "verdicts": _VERDICTS}


def hint(visit: Visit) -> Response:
    """Show what can be said beforehand of the newest policy."""
    return visit.render("feasibility.html", **_forecast(visit.project))


def add(visit: Visit) -> Response:
    """Promise one thing more."""
    name = visit.form.get("model")
    if name not in _models():
        raise UsageError("choose one of the guarantees")
    promises = _promises(visit.project.document)
    return _change_promises(visit, [*promises, (name, start_of(_models()[name], list_parameters(_models()[name])))])


def change(visit: Visit) -> Response:
    """Take the parameters of one promise from its form."""
    promises = _promises(visit.project.document)
    where = _place(visit.form, len(promises))
    name, given = promises[where]
    if name not in _models():
        raise UsageError("the policy names a guarantee that there is not; change it in the YAML text")
    promises[where] = name, _read(visit.form, list_parameters(_models()[name]), given)
    return _change_promises(visit, promises)


def remove(visit: Visit) -> Response:
    """Take one promise back."""
    promises = _promises(visit.project.document)
    del promises[_place(visit.form, len(promises))]
    return _change_promises(visit, promises)


def _place(form: Form, n_promises: int) -> int:
    text = form.get("place")
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < n_promises):
        raise UsageError("there is no such guarantee any more; reload this page")
    return int(text)


def _read(form: Form, fields: tuple[Parameter, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a form gives, in the order in which the policy had it."""
    found = read_values(fields, {field.name: form.all(field.name) for field in fields})
    return {name: found[name] for name in (*(key for key in given if key in found), *found)}


def _change_promises(visit: Visit, promises: list[tuple[str, dict[str, Any]]]) -> Response:
    document = visit.project.document
    document["privacy"] = [{name: given} if given else name for name, given in promises]
    return _keep(visit, document)


def _keep(visit: Visit, document: Mapping[str, Any]) -> Response:
    visit.project.change(visit.form.revision, document)
    return show(visit) if visit.swapping else visit.to(visit.at(_HERE))


def choose_method(visit: Visit) -> Response:
    """Take another method, or other parameters of the same."""
    document = visit.project.document
    before, given = _split_entry(document.get("method", "mondrian"))
    name = visit.form.get("method")
    if name not in _methods():
        raise UsageError("choose one of the methods")
    fields = list_parameters(_methods()[name])
    kept = _read(visit.form, fields, given) if name == before else start_of(_methods()[name], fields)
    document["method"] = {name: kept}
    return _keep(visit, document)


def choose_options(visit: Visit) -> Response:
    """Take the options of the table as a whole."""
    document = visit.project.document
    text = visit.form.get("max_withheld").strip()
    try:
        document["max_withheld"] = int(text) if text.isdigit() else float(text)
    except ValueError:
        raise UsageError("the share of records that may be withheld is a number from 0 to below 1, like 0.01") from None
    document["missing"] = visit.form.get("missing")
    return _keep(visit, document)


_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(f"{_PATH}/hint", hint),
    page(f"{_PATH}/add", add, "POST"),
    page(f"{_PATH}/change", change, "POST"),
    page(f"{_PATH}/remove", remove, "POST"),
    page(f"{_PATH}/method", choose_method, "POST"),
    page(f"{_PATH}/options", choose_options, "POST"),
]
