"""What a technique is: a declared way to rewrite one column, row by row, whatever happens to the other columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from shoal.columns.domains import NumberDomain
from shoal.columns.verdicts import Verdict
from shoal.core.randomness import Chance
from shoal.sources.base import Source

Role = Literal["identifier", "quasi", "sensitive", "insensitive"]


@dataclass(frozen=True, slots=True, eq=False)
class Treatment(ABC):
    """One column's rewriting in one run.

    What a row becomes follows from the run's secret, the row's number and its value alone, so that a source can be
    read any number of times, in batches of any size, and always shows the same rows. Missing stays missing.
    """

    column: str
    kind: pa.DataType  # of the treated column
    said: Mapping[str, Any]  # the parameters, without keys, salts and paths

    @abstractmethod
    def apply(self, column: pa.Array, first_row: int) -> pa.Array:
        """Return the treated rows, given those from number *first_row* on, text dictionary-coded or not."""

    def describe(self) -> dict[str, Any]:
        """Return what everybody may know of it."""
        return dict(self.said)

    def findings(self) -> dict[str, int]:
        """Return counts that only the data holder may know, for the evidence."""
        return {}

    def warnings(self) -> tuple[str, ...]:
        """Return what the data holder should know before publishing: where it did less than was asked for."""
        return ()


class Technique(BaseModel, ABC):
    """A way to treat a column. Fields are its parameters, declared once for messages, help and schema."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ClassVar[str]
    title: ClassVar[str]  # a plain sentence for people
    roles: ClassVar[tuple[Role, ...]]  # of attributes that it may treat
    verdict: ClassVar[Verdict | None] = None  # the opinion's, where it is one of its techniques
    makes_tokens: ClassVar[bool] = False  # whether texts that mean nothing take the place of values

    @property
    def needs(self) -> tuple[str, ...]:
        """Other columns that it looks at."""
        return ()

    def resolve(self, base: Path) -> Self:  # noqa: ARG002
        """Return the technique with its relative paths taken from the folder *base*."""
        return self

    @abstractmethod
    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:
        """Bind the technique to a column whose numbers the policy says lie in *domain*.

        What cannot be done is refused here or at the first batch that shows it, never worked around.
        """

    def public(self, **others: object) -> dict[str, Any]:
        """Return the technique's name and parameters as they stand, without those that are not given."""
        given: Mapping[str, Any] = self.model_dump(mode="json", exclude_none=True)
        return {"technique": self.name, **given, **others}
