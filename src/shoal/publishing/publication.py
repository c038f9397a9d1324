"""What is published of a plan, whatever kind of plan it is: rows, their description and their promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from shoal.arrays import CodeArray, IntArray
from shoal.chance import Chance
from shoal.encoding import Encoding
from shoal.engines.local import CountedCells, LocalEngine
from shoal.guarantees import Guarantee
from shoal.methods.base import AnyPlan
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.sources import Source
from shoal.taxonomies.tree import Cover
from shoal.utility.base import Utility


class LabelledColumn(Protocol):
    """A sensitive attribute of which rows publish labels."""

    @property
    def covers(self) -> Sequence[Cover]:
        """What each label stands for."""

    def describe(self) -> dict[str, Any]:
        """Return the manifest's entry."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRows:
    """The rows of the file, and what only the data holder may know of them.

    ``buckets`` tells for each row of the source, in its order, the number of its bucket, 0 if it is not published;
    it is None where there are no buckets.
    """

    batches: Iterator[pa.RecordBatch]
    buckets: CodeArray | None = None  # (n_source_rows,)


@dataclass(frozen=True, slots=True, eq=False)
class Publication(ABC):
    """A plan and the table that it is for: everything that decides what is published."""

    policy: Policy
    source: Source
    counted: CountedCells
    encoding: Encoding
    plan: AnyPlan

    @property
    def n_rows(self) -> int:
        """Number of published records."""
        return self.encoding.problem.cells.n_records - self.plan.n_withheld

    @property
    def n_dropped(self) -> int:
        """Number of records left out because a value is missing, as far as everybody may know it."""
        return self.encoding.n_dropped

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the data holder should know."""
        return self.plan.warnings

    @property
    @abstractmethod
    def parts(self) -> Sequence[Sequence[str]]:
        """The published attributes in groups whose values in one row belong to the same record."""

    @property
    @abstractmethod
    def own_entries(self) -> Mapping[str, Any]:
        """What only this kind of publication has in its manifest."""

    @property
    def own_evidence(self) -> Mapping[str, Any]:
        """What only this kind of publication tells the data holder."""
        return {}

    @property
    def files(self) -> Mapping[str, bytes]:
        """Public files besides the rows and what describes them, by name."""
        return {}

    @abstractmethod
    def quasi_entry(self, place: int) -> dict[str, Any]:
        """Return the manifest's entry on a quasi attribute."""

    def sensitive_column(self, place: int) -> LabelledColumn | None:  # noqa: ARG002
        """Return the labels of a sensitive attribute; None if it is published as it is."""
        return None

    @abstractmethod
    def published_cells(self) -> IntArray:
        """Return the cells of the problem of which some record is published."""

    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return what is reached for each model of the policy."""

    @abstractmethod
    def utility(self, *, expensive: bool = False) -> Utility:
        """Return every measure of what is left of the table."""

    @abstractmethod
    def risks(self) -> dict[str, Any]:
        """Return how well records hide."""

    def generalized_sensitive(self) -> dict[str, int]:
        """Return how many records publish a generalized value, for each sensitive attribute that has such records."""
        return {}

    @abstractmethod
    def rows(self, engine: LocalEngine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:
        """Return the published rows, about a million in a batch; *folder* is for temporary files."""
