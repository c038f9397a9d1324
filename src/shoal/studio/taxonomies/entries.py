"""The taxonomy of one column in a policy document: what a form declares, a first one of each kind, what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from shoal.core.errors import PolicyError, ShoalError
from shoal.core.registry import find
from shoal.policy.profiling import ColumnProfile
from shoal.policy.reading import sentence
from shoal.studio.project import outside_names
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.listed import FlatTaxonomy
from shoal.taxonomies.fitting import default_builder
from shoal.taxonomies.scales import Number, number_text
from shoal.taxonomies.tree import Taxonomy

ROLES = ("quasi", "sensitive")

Fields = Mapping[str, Sequence[str]]

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_BETWEEN = re.compile(r"[\s,;]+")


class EntryError(PolicyError):
    """A taxonomy that cannot be taken: ``field`` is the part of the form to correct, empty if it is the whole."""

    def __init__(self, message: str, field: str = "") -> None:
        """Keep the message and its place."""
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column that may have a taxonomy; ``taxonomy`` is None where the policy leaves it to the column's kind."""

    name: str
    role: str
    taxonomy: Mapping[str, Any] | None

    @property
    def kind(self) -> str:
        """The builder's name, or ``default``."""
        return "default" if self.taxonomy is None else next(iter(self.taxonomy))


def attributes(document: Mapping[str, Any]) -> tuple[Attribute, ...]:
    """Return the quasi and sensitive columns, those of sets aside, in the order of the policy."""
    given = document.get("attributes")
    if not isinstance(given, Mapping):
        return ()
    return tuple(
        Attribute(str(name), options["role"], _read_taxonomy(options.get("taxonomy")))
        for name, options in given.items()
        if isinstance(options, Mapping) and options.get("role") in ROLES and options.get("items") is None
    )


def _read_taxonomy(given: Any) -> Mapping[str, Any] | None:
    if given is None or (isinstance(given, Mapping) and len(given) == 1):
        return given
    return {given if isinstance(given, str) else "": None if isinstance(given, str) else given}


def with_taxonomy(document: Mapping[str, Any], name: str, taxonomy: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the document with another taxonomy of one column, everything else as it was."""
    entry = {key: value for key, value in document["attributes"][name].items() if key != "taxonomy"}
    if taxonomy is not None:
        entry["taxonomy"] = dict(taxonomy)
    return {**document, "attributes": {**document["attributes"], name: entry}}


def builder_of(taxonomy: Mapping[str, Any], folder: Path) -> TaxonomyBuilder:
    """Return the builder that a policy declares, or say what is wrong with which field of it."""
    ((name, parameters),) = taxonomy.items()
    if not name:
        raise EntryError("a taxonomy is one name with its parameters, such as {flat: {}}; correct it in the policy")
    if outside_names(dict(taxonomy)):
        raise EntryError("only files that were added here can be named, without a folder", "path")
    try:
        kind = find("shoal.taxonomies.builders", TaxonomyBuilder, str(name), what="taxonomy")
    except PolicyError as error:
        raise EntryError(str(error), "kind") from None
    try:
        return kind.model_validate(parameters).resolve(folder)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=True)[0]
        field = next(map(str, problem["loc"]), "")
        raise EntryError(sentence(dict(problem), list(kind.model_fields)), field) from None
    except EntryError:
        raise
    except ShoalError as error:
        raise _at_field(error, kind) from None


def tree_of(attribute: Attribute, column: ColumnProfile, folder: Path) -> Taxonomy:
    """Return the tree that a run would make of the column's values, missing ones aside."""
    values = column.values
    kind: type[TaxonomyBuilder] = FlatTaxonomy
    try:
        if attribute.taxonomy is not None:
            builder = builder_of(attribute.taxonomy, folder)
        else:
            builder = FlatTaxonomy() if attribute.role == "sensitive" else default_builder(values.type, values)
        kind = type(builder)
        return builder.build(values)
    except EntryError:
        raise
    except ShoalError as error:
        raise _at_field(error, kind) from None


def _at_field(error: ShoalError, kind: type[TaxonomyBuilder]) -> EntryError:
    """Put a message to the first field that it names, without the name of the builder in front."""
    text = re.sub(rf"^{kind.name}( taxonomy)?: ", "", str(error))
    named = {"edge": "edges", "width": "widths", **{field: field for field in kind.model_fields}}
    places = {field: found.start() for word, field in named.items() if (found := re.search(rf"\b{word}\b", text))}
    return EntryError(text, min(places, key=places.__getitem__, default=""))


def taxonomy_from(kind: str, fields: Fields, column: ColumnProfile) -> dict[str, Any]:
    """Return the taxonomy that a form declares, or say which field cannot be read."""
    if kind not in READERS:
        raise EntryError(f"there is no form for a taxonomy of kind {kind!r}; edit it in the policy", "kind")
    return {kind: READERS[kind](fields, column)}


def number(text: str, field: str) -> Number:
    """Read one number as it is typed: whole if it has no point.

    >>> number("18", "min"), number("0.50", "step")
    (18, 0.5)
    """
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    raise EntryError(f"must be a number such as 18 or 0.5; received {text!r}", field)


def numbers(text: str, field: str) -> list[Number]:
    """Read numbers with commas or blanks between them.

    >>> numbers("5, 10 20", "widths")
    [5, 10, 20]
    """
    return [number(part, field) for part in _BETWEEN.split(text.strip()) if part]


def numbers_text(given: Sequence[Number]) -> str:
    """Write numbers as a field shows them."""
    return ", ".join(map(number_text, given))


def edges_text(levels: Sequence[Sequence[Number]]) -> str:
    """Write the edges of several levels, a line for each."""
    return "\n".join(map(numbers_text, levels))


def _intervals(fields: Fields, column: ColumnProfile) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in ("min", "max"):
        if not first_value(fields, field):
            raise EntryError("is required", field)
        found[field] = number(first_value(fields, field), field)
    if first_value(fields, "cut") == "edges":
        lines = [numbers(line, "edges") for line in first_value(fields, "edges").splitlines()]
        found["edges"] = [line for line in lines if line]
    else:
        found["widths"] = sorted(set(numbers(first_value(fields, "widths"), "widths")))
    for field in ("step", "origin"):
        if first_value(fields, field):
            found[field] = number(first_value(fields, field), field)
    if first_value(fields, "open") not in ("", "none"):
        found["open"] = first_value(fields, "open")
    if column.kind == "decimal":  # else an interval of whole numbers, which has no place for the others
        found["min"] = float(found["min"])
    return {key: value for key, value in found.items() if value != []}


def _dates(fields: Fields, column: ColumnProfile) -> dict[str, Any]:  # noqa: ARG001
    found: dict[str, Any] = {"levels": list(fields.get("levels", ()))}
    return found | {
        field: first_value(fields, field) for field in ("min", "max", "format") if first_value(fields, field)
    }


def _mask(fields: Fields, column: ColumnProfile) -> dict[str, Any]:  # noqa: ARG001
    found: dict[str, Any] = {"length": _whole(first_value(fields, "length"), "length")}
    if first_value(fields, "keep"):
        kept = {_whole(part, "keep") for part in _BETWEEN.split(first_value(fields, "keep")) if part}
        found["keep"] = sorted(kept, reverse=True)
    if first_value(fields, "character") not in ("", "*"):
        found["character"] = first_value(fields, "character")
    if first_value(fields, "alphabet"):
        found["alphabet"] = "digits"
    return found


def _flat(fields: Fields, column: ColumnProfile) -> dict[str, Any]:  # noqa: ARG001
    listed = [line.strip("\r") for line in "".join(fields.get("values", ())).split("\n")]
    return {"values": values} if (values := [line for line in listed if line.strip()]) else {}


def _nothing(fields: Fields, column: ColumnProfile) -> dict[str, Any]:  # noqa: ARG001
    return {}


def _whole(text: str, field: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise EntryError(f"must be a whole number{f'; received {text!r}' if text else ''}", field)
    return int(text)


def first_value(fields: Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "").strip()


READERS: dict[str, Callable[[Fields, ColumnProfile], dict[str, Any]]] = {
    "intervals": _intervals,
    "dates": _dates,
    "mask": _mask,
    "flat": _flat,
    "numbers": _nothing,
}
