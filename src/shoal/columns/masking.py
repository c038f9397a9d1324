"""Masking: invented values of a familiar form replace identifiers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from shoal.columns.base import NumberDomain, Technique, Treatment
from shoal.columns.row_random import RowRandom, uniform
from shoal.core.fictional import FAMILY_NAMES, GIVEN_NAMES
from shoal.core.randomness import Chance
from shoal.sources.base import Source

_DIGITS = tuple("0123456789")
Choices = Sequence[Sequence[str]]  # the possible texts of each part of a value


class Masking(Technique):
    """Every value is replaced by a random value of a public form, independent of the original.

    Equal values get different replacements. To keep the rows of a person together, use a pseudonym or a token.

    >>> Masking(kind="phone").choices[-1]
    ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
    """

    name = "masking"
    title = "identifiers replaced by invented names, addresses or numbers"
    roles = ("identifier",)
    makes_tokens = True
    consistent = False

    kind: Literal["name", "email", "phone", "number"] = Field(description="the form of the invented values")
    length: int = Field(default=8, ge=1, le=12, description="digits of numbers")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.kind != "number" and "length" in self.model_fields_set:
            raise ValueError("length applies to the kind number only")
        return self

    @property
    def choices(self) -> Choices:
        """The parts of a value; the choices for each part are equally likely."""
        if self.kind == "number":
            return [_DIGITS[1:], *[_DIGITS] * (self.length - 1)]
        if self.kind == "phone":  # numbers from 555-0100 to 555-0199 are reserved for fiction
            return [("+1 ",), _DIGITS[2:], _DIGITS[:9], _DIGITS, ("-555-01",), _DIGITS, _DIGITS]
        if self.kind == "email":  # RFC 2606 reserves the domain for examples
            given, family = ([name.lower() for name in names] for names in (GIVEN_NAMES, FAMILY_NAMES))
            return [given, (".",), family, _DIGITS, _DIGITS, ("@example.org",)]
        return [GIVEN_NAMES, (" ",), FAMILY_NAMES]

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        what = {"name": "names", "email": "e-mail addresses", "phone": "telephone numbers"}
        return (
            f"invented {what.get(entry['kind'], 'numbers')} replace an identifier. They were drawn at random and are "
            "meaningless: equal ones may belong to different persons, and different ones to the same person."
        )

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        said = self.public() if self.kind == "number" else {"technique": self.name, "kind": self.kind}
        return MaskedTreatment(column, pa.string(), said, self.choices, RowRandom.of(chance))


@dataclass(frozen=True, slots=True, eq=False)
class MaskedTreatment(Treatment):
    """Draws a value for each row whose identifier is not missing."""

    choices: Choices
    random: RowRandom

    def apply(self, column: pa.Array, first_row: int) -> pa.Array:
        """Return invented values, which keep missing values missing."""
        sizes = [len(texts) for texts in self.choices]
        drawn = self.random.draw(first_row, len(column), lambda words: uniform(words[:, 0]))  # in (0, 1]
        rest = np.ceil(drawn * math.prod(sizes)).astype(np.int64) - 1
        parts = []
        for texts, size in zip(self.choices, sizes, strict=True):
            rest, place = np.divmod(rest, size)
            parts.append(pa.array(texts, pa.string()).take(pa.array(place)))
        return pc.if_else(pc.is_valid(column), pc.binary_join_element_wise(*parts, ""), pa.scalar(None, pa.string()))
