"""Taxonomy builders, which policies select under ``taxonomy`` by their ``name``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
from pydantic import GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from shoal.core.documents import Parameters
from shoal.taxonomies.tree import Taxonomy


class TaxonomyBuilder(Parameters, ABC):
    """A builder of trees; its fields are parameters in the policy.

    If ``shorthand`` is the name of a field, a policy may give that field's value in place of the whole mapping:
    ``file: education.csv`` for ``file: {path: education.csv}``.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # a description for users
    shorthand: ClassVar[str | None] = None
    shorthand_is_mapping: ClassVar[bool] = False

    @abstractmethod
    def build(self, values: pa.Array) -> Taxonomy:
        """Build the tree for a column with these distinct values, in any order and of any type."""

    def resolve(self, base: Path) -> Self:  # noqa: ARG002
        """Return the builder with relative paths resolved against the folder *base*."""
        return self

    @model_validator(mode="before")
    @classmethod
    def _spell_out(cls, data: Any) -> Any:
        if data is None:
            return {}
        if cls.shorthand is None or isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            return {cls.shorthand: data}
        known = {field.alias or key for key, field in cls.model_fields.items()}
        return {cls.shorthand: data} if cls.shorthand_is_mapping and not known.issuperset(data) else data

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the builder by its title, and allow the shorthand."""
        full = handler(schema)
        spelled_out = handler.resolve_ref_schema(full)
        spelled_out["description"] = cls.title
        if cls.shorthand is None:
            return full
        return {"anyOf": [spelled_out["properties"][cls.shorthand], full]}
