"""Hashes: SHA-256 of a value, with a salt that is forgotten."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, Self

import pyarrow as pa
from pydantic import Field, model_validator

from shoal.columns.base import NumberDomain, Technique, Treatment
from shoal.columns.token import TokenTreatment, explain_place, explain_sameness
from shoal.columns.verdicts import HASHING
from shoal.core.randomness import Chance
from shoal.sources.base import Source


class Hash(Technique):
    """The same value gets the same hash; with a random salt nobody can try values out, without one everybody can.

    >>> Hash(salt="none", accept="dictionary-attacks").salt
    'none'
    """

    name = "hash"
    title = "SHA-256 in place of values"
    roles = ("identifier", "quasi", "insensitive")
    verdict = HASHING
    makes_tokens = True

    salt: Literal["random", "none"] = Field(
        default="random", description="random: 32 bytes that nobody knows after the run; none: the bare hash"
    )
    accept: Literal["dictionary-attacks"] | None = Field(
        default=None, description="must be said for hashes without a salt: whoever tries all values finds each of them"
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.salt == "none" and self.accept is None:
            raise ValueError(
                "a hash without a salt is undone by trying values out, which takes seconds for names, numbers and "
                "codes; use salt: random, a pseudonym, or say accept: dictionary-attacks"
            )
        return self

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        """Say what hashes stand for, and whether values can be tried out."""
        if entry["salt"] == "random":
            same = explain_sameness(entry, "hash")
            return f"hashes (SHA-256 with a forgotten salt) {explain_place(entry)}. {same}"
        return (
            f"bare hashes (SHA-256) {explain_place(entry)}. **Whoever tries values out finds which they are**, and all "
            "tables with such hashes can be linked by them."
        )

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        """Draw the salt."""
        salted = hashlib.sha256(b"" if self.salt == "none" else chance.keys(4).tobytes())

        def rewrite(values: list[str]) -> pa.Array:
            return pa.array([_finish_hash(salted, value) for value in values], pa.string())

        return TokenTreatment(column, pa.string(), {"technique": self.name, "salt": self.salt}, rewrite)


def _finish_hash(started: hashlib._Hash, value: str) -> str:
    digest = started.copy()
    digest.update(value.encode())
    return digest.hexdigest()
