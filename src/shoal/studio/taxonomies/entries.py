"""The taxonomy of one column in a policy document: reading its form, and errors by field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
from shoal.taxonomies.parse import texts
from shoal.taxonomies.scales import Number
from shoal.taxonomies.tree import Taxonomy

ROLES = ("quasi", "sensitive")

Fields = Mapping[str, Sequence[str]]

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_BETWEEN = re.compile(r"[\s,;]+")


class EntryError(PolicyError):
    """An invalid taxonomy; ``field`` is the field of the form to correct, empty for the whole form."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class ColumnTaxonomy:
    """A column that may have a taxonomy, and the folder of attached files.

    ``taxonomy`` is None if the policy declares none.
    """

    role: str
    taxonomy: Mapping[str, Any] | None
    column: ColumnProfile
    folder: Path

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def kind(self) -> str:
        return "default" if self.taxonomy is None else next(iter(self.taxonomy))

    @property
    def values(self) -> frozenset[str]:
        return frozenset(texts(self.column.values).to_pylist())

    def builder(self) -> TaxonomyBuilder | None:
        return None if self.taxonomy is None else builder_of(self.taxonomy, self.folder)

    def tree(self) -> Taxonomy:
        """Return the tree that a run would build for the column's values without missing ones."""
        values = self.column.values
        builder = self.builder()
        try:
            if builder is None and self.role != "sensitive":
                builder = default_builder(values.type, values)
            return (builder or FlatTaxonomy()).build(values)
        except ShoalError as error:
            raise _at_field(error, type(builder or FlatTaxonomy())) from None

    def present(self) -> Taxonomy | None:
        try:
            return self.tree()
        except EntryError:
            return None


def list_taxonomies(
    document: Mapping[str, Any], profile: Sequence[ColumnProfile], folder: Path
) -> dict[int, ColumnTaxonomy]:
    """Return the quasi and sensitive columns, without columns of sets, by position."""
    declared = document.get("attributes")
    found = {}
    for place, column in enumerate(profile):
        options = declared.get(column.name) if isinstance(declared, Mapping) else None
        if isinstance(options, Mapping) and options.get("role") in ROLES and options.get("items") is None:
            taxonomy = options.get("taxonomy")
            if taxonomy is not None and not (isinstance(taxonomy, Mapping) and len(taxonomy) == 1):
                taxonomy = {taxonomy: None} if isinstance(taxonomy, str) else {"": taxonomy}
            found[place] = ColumnTaxonomy(options["role"], taxonomy, column, folder)
    return found


def with_taxonomy(document: Mapping[str, Any], name: str, taxonomy: Mapping[str, Any] | None) -> dict[str, object]:
    entry = {key: value for key, value in document["attributes"][name].items() if key != "taxonomy"}
    if taxonomy is not None:
        entry["taxonomy"] = dict(taxonomy)
    return {**document, "attributes": {**document["attributes"], name: entry}}


def builder_of(taxonomy: Mapping[str, Any], folder: Path) -> TaxonomyBuilder:
    """Return the declared builder, or raise an error at its field."""
    ((name, parameters),) = taxonomy.items()
    if not name:
        raise EntryError("a taxonomy is one name with its parameters, such as {flat: {}}; correct it in the policy")
    if outside_names(dict(taxonomy)):
        raise EntryError("add the file here and name it without a folder", "path")
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


def _at_field(error: ShoalError, kind: type[TaxonomyBuilder]) -> EntryError:
    """Return the error at the first field that its message names, without the name of the builder."""
    text = re.sub(rf"^{kind.name}( taxonomy)?: ", "", str(error))
    named = {"edge": "edges", "width": "widths", **{field: field for field in kind.model_fields}}
    places = {field: found.start() for word, field in named.items() if (found := re.search(rf"\b{word}\b", text))}
    return EntryError(text, min(places, key=places.__getitem__, default=""))


def taxonomy_from(kind: str, fields: Fields, column: ColumnProfile) -> dict[str, object]:
    """Return the taxonomy in a form, or raise an error at its field."""
    typed = {name: first_value(fields, name) for name in fields}
    match kind:
        case "intervals":
            found = _read_intervals(typed, column)
        case "dates":
            found = {"levels": list(fields.get("levels", ()))}
            found |= {field: typed[field] for field in ("min", "max", "format") if typed.get(field)}
        case "mask":
            found = _read_mask(typed)
        case "flat":
            listed = [line.strip("\r") for line in "".join(fields.get("values", ())).split("\n")]
            values = [line for line in listed if line.strip()]
            found = {"values": values} if values else {}
        case "numbers":
            found = {}
        case _:
            raise EntryError(f"a taxonomy of kind {kind!r} has no form; edit it in the policy", "kind")
    return {kind: found}


def _read_intervals(typed: Mapping[str, str], column: ColumnProfile) -> dict[str, object]:
    found: dict[str, Any] = {}
    for field in ("min", "max"):
        if not typed.get(field):
            raise EntryError("is required", field)
        found[field] = number(typed[field], field)
    if typed.get("cut") == "edges":
        lines = [numbers(line, "edges") for line in typed.get("edges", "").splitlines()]
        found["edges"] = [line for line in lines if line]
    else:
        found["widths"] = sorted(set(numbers(typed.get("widths", ""), "widths")))
    found |= {field: number(typed[field], field) for field in ("step", "origin") if typed.get(field)}
    if typed.get("open") not in (None, "", "none"):
        found["open"] = typed["open"]
    if column.kind == "decimal":  # otherwise intervals cover whole numbers only
        found["min"] = float(found["min"])
    return {key: value for key, value in found.items() if value != []}


def _read_mask(typed: Mapping[str, str]) -> dict[str, object]:
    found: dict[str, Any] = {"length": _whole(typed["length"], "length")} if typed.get("length") else {}
    if typed.get("keep"):
        found["keep"] = sorted({_whole(part, "keep") for part in _BETWEEN.split(typed["keep"]) if part}, reverse=True)
    if typed.get("character") not in (None, "", "*"):
        found["character"] = typed["character"]
    if typed.get("alphabet"):
        found["alphabet"] = "digits"
    return found


def number(text: str, field: str) -> Number:
    """Read a number: an integer if it has no point.

    >>> number("18", "min"), number("0.50", "step")
    (18, 0.5)
    """
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    raise EntryError(f"must be a number such as 18 or 0.5; received {text!r}", field)


def numbers(text: str, field: str) -> list[Number]:
    """Read numbers separated by commas or blanks.

    >>> numbers("5, 10 20", "widths")
    [5, 10, 20]
    """
    return [number(part, field) for part in _BETWEEN.split(text.strip()) if part]


def _whole(text: str, field: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise EntryError(f"must be a whole number{f'; received {text!r}' if text else ''}", field)
    return int(text)


def first_value(fields: Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "").strip()
