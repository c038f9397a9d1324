"""The taxonomy of one column in a policy document: finding it, changing it, and saying at which field it is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from shoal.core.errors import PolicyError, ShoalError
from shoal.core.registry import find
from shoal.policy.guessing import list_values
from shoal.policy.profiling import ColumnProfile
from shoal.policy.reading import sentence
from shoal.studio.documents import outside_names
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.listed import FlatTaxonomy
from shoal.taxonomies.fitting import default_builder
from shoal.taxonomies.tree import Taxonomy

ROLES = ("quasi", "sensitive")


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
        Attribute(str(name), options["role"], _spelled(options.get("taxonomy")))
        for name, options in given.items()
        if isinstance(options, Mapping) and options.get("role") in ROLES and options.get("items") is None
    )


def _spelled(given: Any) -> Mapping[str, Any] | None:
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
    values = list_values(column)
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
