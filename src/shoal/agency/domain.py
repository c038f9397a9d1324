"""The agreed domain of a campaign: its columns and their possible values."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from shoal.core.errors import InputError

RESERVED = ("count", "probability", "class")  # columns of tables and releases
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern="^[^\\x00-\\x1f\\x7f]+$")]


class Received(BaseModel):
    """Strict input: no unknown keys, no strings in place of numbers."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Attribute(Received):
    name: Name
    values: Annotated[list[Name], Field(min_length=1)]

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: list[str]) -> list[str]:
        if len(set(values)) != len(values):
            raise ValueError("a value is listed twice")
        if not all(map(str.strip, values)):
            raise ValueError("a blank value would be read as missing")
        return values


class Domain(Received):
    """The quasi columns and the sensitive column, each with its possible values."""

    quasi: Annotated[list[Attribute], Field(min_length=1)]
    sensitive: Attribute

    @model_validator(mode="after")
    def _names(self) -> Domain:
        if len(set(names := self.names)) != len(names):
            raise ValueError("two columns have the same name")
        if any(name in RESERVED for name in names):
            raise ValueError(f"no column can be called {', '.join(RESERVED)}")
        return self

    @property
    def names(self) -> list[str]:
        return [*(attribute.name for attribute in self.quasi), self.sensitive.name]

    @property
    def values(self) -> list[list[str]]:
        return [*(attribute.values for attribute in self.quasi), self.sensitive.values]

    @property
    def sizes(self) -> list[int]:
        return [len(values) for values in self.values]

    @classmethod
    def of_classes(cls, n_classes: int, sensitive: str, values: list[str]) -> Domain:
        """Return the domain of counts by class; no campaign can have a column of this name."""
        numbers = Attribute.model_construct(name="class", values=list(map(str, range(1, n_classes + 1))))
        return cls.model_construct(quasi=[numbers], sensitive=Attribute.model_construct(name=sensitive, values=values))

    @classmethod
    def of(cls, document: Any) -> Domain:
        """Read a campaign's domain from its service or file."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise InputError(f"this is not the domain of a campaign: {error.errors()[0]['msg']}") from None
