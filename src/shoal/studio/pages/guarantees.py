"""Guarantees: which promises, by which method, and what can be said of them beforehand.

The fields of forms come from where parameters of models and methods are declared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.responses import Response

from shoal.core.documents import flow, load_with_lines
from shoal.core.errors import PolicyError, UsageError
from shoal.core.registry import discover
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.studio.answers import Content, Form, Place, Visit, page
from shoal.studio.feasibility import foresee
from shoal.studio.project import Project

Shape = Literal["whole", "number", "truth", "choice", "text", "words", "attribute", "population", "yaml"]
_HERE = "/guarantees"
_VERDICTS = {
    "possible": ("Possible", "good"),
    "open": ("Not known yet", ""),
    "costly": ("Probably costly", "warning"),
    "impossible": ("Impossible", "problem"),
}


def require_quasi(project: Project) -> str | None:
    """Return None if there is a quasi-identifier, else what to do first."""
    roles = [entry.get("role") for entry in _attributes(project.document).values() if isinstance(entry, Mapping)]
    return None if "quasi" in roles else "give at least one column the role quasi first"


def _attributes(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("attributes")
    return found if isinstance(found, Mapping) else {}


def _split_entry(entry: Any) -> tuple[str, Content]:
    """Return the name and the parameters of a model or method as a policy writes it."""
    if isinstance(entry, str):
        return entry, {}
    if isinstance(entry, Mapping) and len(entry) == 1:
        name, given = next(iter(entry.items()))
        return str(name), dict(given) if isinstance(given, Mapping) else {}
    return "", {}


def _promises(document: Mapping[str, Any]) -> list[tuple[str, Content]]:
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
    promises = [
        {
            "place": place,
            "known": _models().get(name),
            "chosen": [named] if isinstance(named := given.get("attribute") or [], str) else list(map(str, named)),
            **_describe(name, given, _models()),
        }
        for place, (name, given) in enumerate(_promises(document))
    ]
    method, given = _split_entry(document.get("method", "mondrian"))
    return visit.render(
        "guarantees_part.html" if visit.swapping else "guarantees.html",
        promises=promises,
        explained=list_models(),
        methods=list(_methods().values()),
        method=_describe(method, given, _methods()),
        method_class=_methods().get(method),
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


def _describe(name: str, given: Mapping[str, Any], known: Mapping[str, type[BaseModel]]) -> Content:
    """Return a model or method of a policy with its fields and what these show."""
    fields = list_parameters(known[name]) if name in known else ()
    return {"name": name, "fields": fields, "given": show_values(fields, given)}


def _forecast(project: Project) -> Content:
    return {"forecast": foresee(project), "verdicts": _VERDICTS}


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
        raise UsageError("the policy names a guarantee that does not exist; change it in the YAML text")
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
        raise UsageError("this guarantee no longer exists; reload this page")
    return int(text)


def _read(form: Form, fields: tuple[Parameter, ...], given: Mapping[str, Any]) -> Content:
    """Return what a form gives, in the order in which the policy had it."""
    found = read_values(fields, {field.name: form.getlist(field.name) for field in fields})
    return {name: found[name] for name in (*(key for key in given if key in found), *found)}


def _change_promises(visit: Visit, promises: list[tuple[str, Content]]) -> Response:
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
        raise UsageError(
            "the share of records that may be withheld must be at least 0 and below 1, such as 0.01"
        ) from None
    document["missing"] = visit.form.get("missing")
    return _keep(visit, document)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter as a field of a form."""

    name: str
    shape: Shape
    hint: str
    required: bool
    default: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None

    @property
    def example(self) -> str:
        """How a value that is no single number or word is written."""
        return {"words": "separated by commas", "yaml": "written as in YAML: [1, 2] or {age: 2}"}.get(self.shape, "")


def list_parameters(kind: type[BaseModel]) -> tuple[Parameter, ...]:
    """Return the fields of a model or method, those that must be given first.

    >>> from shoal.models.k_anonymity import KAnonymity
    >>> [(field.name, field.shape, field.least, field.required) for field in list_parameters(KAnonymity)]
    [('k', 'whole', 1, True)]
    """
    found: list[Parameter] = []
    for name, field in kind.model_fields.items():
        kinds = [part for part in (field.annotation, *get_args(field.annotation)) if isinstance(part, type)]
        inner = next((part for part in kinds if issubclass(part, BaseModel)), None)
        if inner is None:
            found.append(_parameter(name, field))
        else:  # the fields of a part stand for themselves, as laplace.scale; none of them has to be filled in
            own = [replace(part, name=f"{name}.{part.name}", required=False) for part in list_parameters(inner)]
            found += own
    return tuple(sorted(found, key=lambda field: not field.required))


def _parameter(name: str, field: FieldInfo) -> Parameter:
    shape, choices = _shape(name, field.annotation)
    required = field.is_required()
    limits = {
        end: next((getattr(limit, end) for limit in field.metadata if hasattr(limit, end)), None)
        for end in ("ge", "gt", "le", "lt")
    }
    return Parameter(
        name,
        shape,
        field.description or "",
        required,
        "" if required or field.default in ((), {}, None) else _format(shape, field.default),
        choices,
        least=limits["gt"] if limits["ge"] is None else limits["ge"],
        most=limits["lt"] if limits["le"] is None else limits["le"],
    )


def _shape(name: str, annotation: Any) -> tuple[Shape, tuple[str, ...]]:
    """Return how a parameter is typed in, by its type."""
    if name in ("attribute", "population"):
        return ("attribute" if name == "attribute" else "population"), ()
    if get_origin(annotation) is Literal:
        return "choice", tuple(map(str, get_args(annotation)))
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)] or [annotation]
    simple: dict[Any, Shape] = {bool: "truth", int: "whole", float: "number", str: "text"}
    if len(kinds) == 1 and get_origin(kinds[0]) is Literal:
        return "choice", ("", *map(str, get_args(kinds[0])))
    if len(kinds) == 1 and kinds[0] in simple:
        return simple[kinds[0]], ()
    if set(kinds) == {int, float}:
        return "number", ()
    return ("words" if annotation == tuple[str, ...] else "yaml"), ()


def show_values(fields: tuple[Parameter, ...], given: Mapping[str, Any]) -> dict[str, str]:
    """Return the text of each field for parameters as a policy has them; a box that is not named is as by default."""
    parts = [(name, part) for name, part in given.items() if isinstance(part, Mapping)]
    flat = {**given, **{f"{name}.{key}": value for name, part in parts for key, value in part.items()}}
    boxes = {field.name: field.default for field in fields if field.shape == "truth"}
    return boxes | {field.name: _format(field.shape, flat[field.name]) for field in fields if field.name in flat}


def _format(shape: Shape, value: Any) -> str:
    if value is None or value == "":
        return ""
    if shape == "truth":
        return "true" if value else "false"
    if shape == "words" and isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if shape == "yaml":
        return flow(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def read_values(fields: tuple[Parameter, ...], form: Mapping[str, Sequence[str]]) -> Content:
    """Return the parameters that a form gives; empty fields are left to their defaults.

    Limits are not judged here: the policy does that when it is loaded. What is not even of the right shape is kept as
    it was typed, so that the policy's message tells it.
    """
    found: Content = {}
    for field in fields:
        texts = [text for text in form.get(field.name, ()) if text.strip()]
        if field.shape == "truth":
            value: Any = "true" in texts
        elif not texts:
            continue
        elif field.shape == "attribute":
            value = texts[0] if len(texts) == 1 else texts
        elif field.shape in ("whole", "number"):
            value = read_number(texts[-1].strip())
        elif field.shape == "words":
            value = [word for part in texts[-1].split(",") if (word := part.strip())]
        elif field.shape == "yaml":
            try:
                value = load_with_lines(texts[-1].strip(), field.name)[0]
            except PolicyError:
                raise PolicyError(f"{field.name}: this is not valid YAML; write it like [1, 2] or {{age: 2}}") from None
        else:
            value = texts[-1].strip()
        if field.required or _format(field.shape, value) != field.default:
            part, _, inner = field.name.partition(".")
            if inner:
                found.setdefault(part, {})[inner] = value
            else:
                found[part] = value
    return found


def read_number(text: str) -> int | float | str:
    """Return the number that a text writes, or the text if it writes none."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if math.isfinite(number) else text
    return text


_SIMPLEST = (
    "k-anonymity",
    "column-frequency",
    "k-map",
    "delta-presence",
    "distinct-l-diversity",
    "simple-l-diversity",
    "entropy-l-diversity",
    "recursive-cl-diversity",
    "tau-l-diversity",
    "t-closeness",
)  # then all others


def list_models() -> tuple[type[PrivacyModel], ...]:
    """Return every model that a policy may name, those that are simplest to explain first."""
    known = _models()
    return tuple(known[name] for name in dict.fromkeys([*(name for name in _SIMPLEST if name in known), *known]))


def start_of(kind: type[PrivacyModel | Method], fields: Iterable[Parameter]) -> Content:
    """Return parameters for a model or method that was just chosen: what must be given, with a usual value."""
    return {field.name: kind.usual.get(field.name, field.least or 1) for field in fields if field.required}


place = Place("Guarantees", _HERE, 30, require_quasi)
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
