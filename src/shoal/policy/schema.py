"""The JSON Schema of policies."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.policy.policy import AttributeOptions, TableOptions
from shoal.registry import discover
from shoal.sources.options import SourceOptions
from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.techniques.base import Technique
from shoal.techniques.sampling import Sampling
from shoal.transactions.options import ItemOptions


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema of policies, put together from what models, methods and builders declare."""

    def one_of(package: str, base: type[Any]) -> dict[str, Any]:
        return {
            "oneOf": [
                {
                    "type": "object",
                    "description": getattr(kind, "title", (kind.__doc__ or "").strip().split("\n")[0]),
                    "properties": {name: _schema(kind)},
                    "required": [name],
                    "additionalProperties": False,
                }
                for name, kind in discover(package, base).items()
            ]
        }

    attribute = _schema(AttributeOptions)
    attribute["properties"]["taxonomy"] = one_of("shoal.taxonomies.builders", TaxonomyBuilder)
    attribute["properties"]["items"] = _schema(ItemOptions)
    attribute["properties"]["technique"] = one_of("shoal.techniques", Technique)
    table = _schema(TableOptions)["properties"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "shoal policy",
        "type": "object",
        "additionalProperties": False,
        "required": ["attributes", "privacy"],
        "properties": {
            "attributes": {"type": "object", "minProperties": 1, "additionalProperties": attribute},
            "privacy": {"type": "array", "items": one_of("shoal.models", PrivacyModel)},
            "method": one_of("shoal.methods", Method),
            **table,
            "sample": _schema(Sampling),
            "source": _schema(SourceOptions),
        },
    }


def _schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of one model, with definitions where they are used: references would end at its own root."""
    schema = kind.model_json_schema()
    definitions = schema.pop("$defs", {})

    def spelled_out(part: Any) -> Any:
        if isinstance(part, list):
            return [spelled_out(one) for one in part]
        if not isinstance(part, dict):
            return part
        own = {key: spelled_out(value) for key, value in part.items() if key != "$ref"}
        named = part.get("$ref")
        return own if named is None else spelled_out(definitions[named.removeprefix("#/$defs/")]) | own

    spelled: dict[str, Any] = spelled_out(schema)
    return spelled
