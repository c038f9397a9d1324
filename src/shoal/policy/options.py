"""What a policy may say of an attribute and of the table, beside what has packages of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from shoal.findings.base import Acceptance

Role = Literal["identifier", "quasi", "sensitive", "insensitive"]


class AttributeOptions(BaseModel):
    """What a policy may say of one attribute, its taxonomy and its items aside."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: Role = Field(
        description="identifier: never published; quasi: known to others; sensitive: to be protected; "
        "insensitive: published as it is"
    )
    weight: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="how much the detail of a quasi attribute matters; under sweep, also of a sensitive one",
    )
    description: str | None = Field(default=None, description="what the column means, for the data dictionary")


class TableOptions(BaseModel):
    """What a policy says of the table as a whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    missing: Literal["category", "drop"] = Field(
        default="category",
        description="category: a missing value is a value of its own; drop: records with one are left out",
    )
    max_withheld: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="largest share of records that may be withheld for a better table",
    )
    max_generalized: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        default={},
        description="largest share of the published records whose value of a sensitive attribute may be generalized, "
        "by attribute; without it there is no limit. Only sweep does that, for tau-l-diversity",
    )
    unit: str | None = Field(
        default=None, description="the identifier that names the person, if one person may have many records"
    )
    household: str | None = Field(default=None, description="the identifier that names the household")
    accept: tuple[Acceptance, ...] = Field(default=(), description="findings that the data holder accepts, and why")
