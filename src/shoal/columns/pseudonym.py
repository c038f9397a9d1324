"""Pseudonyms: keyed tokens that are the same wherever the same key is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pydantic import Field, model_validator

from shoal.columns.base import NumberDomain, Technique, Treatment
from shoal.columns.keys import read_key, seal_tokens
from shoal.columns.token import LONGEST, SHORTEST, USUAL, TokenTreatment, explain_place, explain_sameness, make_tokens
from shoal.columns.verdicts import PSEUDONYMISATION
from shoal.core.randomness import Chance
from shoal.sources.base import Source


class Pseudonym(Technique):
    """The same value gets the same token wherever the key and the domain are the same, and no other value does.

    Whoever has the key can find out whose token it is, by trying values or, if reversible, by taking it back. The
    tokens say who is the same person, in this table and in all others of this key: records can still be singled out
    and linked.
    """

    name = "pseudonym"
    title = "tokens in place of values, the same in all tables of one key"
    roles = ("identifier", "quasi", "insensitive")
    verdict = PSEUDONYMISATION
    makes_tokens = True

    key: str = Field(min_length=1, description="path of the key file, which `shoal key new` makes; never published")
    reversible: bool = Field(default=False, description="whether the key takes tokens back to values (AES-SIV)")
    length: int | None = Field(
        default=None,
        ge=SHORTEST,
        le=LONGEST,
        description=f"characters of a token, {USUAL} by default; a reversible one is as long as its value needs",
    )
    domain: str | None = Field(
        default=None,
        min_length=1,
        description="columns of the same domain get the same tokens; by default that is the column's name",
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.reversible and self.length is not None:
            raise ValueError("a reversible pseudonym has no length of its own: it must hold the value; leave it out")
        return self

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        """Say where tokens are the same, and what the key can do."""
        key = "take them back to the values" if entry["reversible"] else "find out whose they are"
        return (
            f"tokens {explain_place(entry)}, the same in all tables of the same key and the domain "
            f"`{entry['domain']}`: these can be linked by them. {explain_sameness(entry, 'token')} Whoever has the key "
            f"can {key}."
        )

    def resolve(self, base: Path) -> Self:
        """Take the key's path from the policy's folder."""
        return self.model_copy(update={"key": str(base / self.key)})

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        """Read the key."""
        key, where = read_key(Path(self.key)), self.domain or column
        said = {"technique": self.name, "reversible": self.reversible, "domain": where}
        if self.reversible:
            return TokenTreatment(column, pa.string(), said, seal_tokens(key, where))
        length = self.length or USUAL
        return TokenTreatment(column, pa.string(), said | {"length": length}, make_tokens(key, where, length))
