"""What is published of a plan, whatever its form: rows, their description, their promises, and their files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.methods.base import AnyPlan
from shoal.plan.counted import CountedCells, LocatedBatch, SeenValues
from shoal.plan.problem import Attribute, Problem
from shoal.plan.slices import SlicedPlan
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.columns import without_dictionary
from shoal.release.forms.base import Form, find_form
from shoal.release.guarantees import Guarantee
from shoal.sources.base import Source
from shoal.sources.writers import Format, open_writer
from shoal.taxonomies.tree import Cover
from shoal.utility.base import Utility


class Engine(Protocol):
    """What publishing needs of an engine: to read the source once more."""

    def locate(
        self, source: Source, counted: CountedCells, carried: Sequence[str], progress: Progress
    ) -> Iterator[LocatedBatch]:
        """Yield the batches of the source, in their order, with the cell of every row and the *carried* columns."""


class LabelledColumn(Protocol):
    """A sensitive attribute of which rows publish labels."""

    @property
    def covers(self) -> Sequence[Cover]:
        """What each label stands for."""

    def describe(self) -> dict[str, Any]:
        """Return the manifest's entry."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRows:
    """The rows of the file, and which rows of the source they are, which only the data holder may know.

    ``buckets`` tells for each row of the source, in its order, the number of its bucket, 0 if it is not published.
    Without buckets the last column of batches, ROW, has the place of each row in the source; not of rows that are
    ``nobodys``.
    """

    batches: Iterator[pa.RecordBatch]
    buckets: CodeArray | None = None  # (n_source_rows,)
    nobodys: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Which people, under the policy's key of them, have how many records in which class."""

    counts: str
    class_of: CodeArray  # (n_entries,)
    person: AnyIntArray  # (n_entries,) 0 is missing
    records: IntArray  # (n_entries,)


@dataclass(frozen=True, slots=True, eq=False)
class Hiding:
    """The sizes of classes or buckets, of which risk figures are computed."""

    sizes: IntArray  # (n_sizes,)
    times: IntArray | None = None  # (n_sizes,) classes of each size; None: one
    people: People | None = None  # if the policy counts people
    slices: tuple[Problem, SlicedPlan] | None = None  # if records were taken apart


@dataclass(frozen=True, slots=True, eq=False)
class Publication(ABC):
    """A table and what is decided about it: everything that tells what is published."""

    policy: Policy
    source: Source

    @property
    def form(self) -> type[Form]:
        """The form of the release."""
        return find_form(self.policy.method.form)

    @property
    @abstractmethod
    def quasi(self) -> tuple[Attribute, ...]:
        """The quasi attributes, in the order of their importance."""

    @property
    @abstractmethod
    def sensitive(self) -> tuple[Attribute, ...]:
        """The sensitive attributes."""

    @property
    @abstractmethod
    def seen(self) -> SeenValues:
        """The values that the source has of them."""

    @property
    @abstractmethod
    def n_source_rows(self) -> int:
        """Number of rows that were read."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of published records."""

    @property
    @abstractmethod
    def n_withheld(self) -> int:
        """Number of records that the plan leaves out."""

    @property
    @abstractmethod
    def n_dropped(self) -> int:
        """Number of records left out because a value is missing, as far as everybody may know it."""

    @property
    @abstractmethod
    def warnings(self) -> tuple[str, ...]:
        """What the data holder should know."""

    @property
    @abstractmethod
    def search(self) -> Mapping[str, Any]:
        """What the method tells of its search."""

    @property
    def parts(self) -> Sequence[Sequence[str]]:
        """The published attributes in groups whose values in one row belong to the same record.

        Where nothing is taken apart, that is one: all columns in the order of the source but identifiers.
        """
        names = self.source.schema.names
        return [[name for name in names if self.policy.attributes[name].role != "identifier"]]

    @property
    def own_entries(self) -> Mapping[str, Any]:
        """What only this kind of publication has in its manifest."""
        return {}

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
    def find_leaves(self, place: int) -> IntArray:
        """Return the leaves of an attribute that some published record has; places of quasi attributes come first."""

    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return what is reached for each model of the policy."""

    @abstractmethod
    def utility(self, *, expensive: bool = False) -> Utility:
        """Return every measure of what is left of the table."""

    @abstractmethod
    def hiding(self) -> Hiding | None:
        """Return among how many records each record hides; None if no row is a record."""

    def hiding_before(self) -> Hiding | None:
        """Return the sizes of classes by the values in the source, if only sums are left of these; None: ask them."""
        return None

    def count_generalized(self) -> dict[str, int]:
        """Return how many records publish a generalized value, for each sensitive attribute that has such records."""
        return {}

    def tabulate_labels(self) -> pa.Table | None:
        """Return the values that records under labels of sensitive attributes have, if labels are defended; internal.

        A row is so many ``records`` of a class: what they publish, and ``value of`` each attribute with labels.
        """
        return None

    def levels(self) -> dict[str, Any]:
        """Return how far up their taxonomies the published values are, by columns that have labels of ranges."""
        return {}

    def sensitive_shares(self) -> dict[str, Any]:
        """Return the share of sensitive values in the whole table and in classes or buckets, by attribute."""
        return {}

    def associations(self, most_work: float) -> list[dict[str, Any]] | None:  # noqa: ARG002
        """Return how strongly pairs of attributes depend on each other, before and after.

        None if it cannot be told, or takes more than *most_work* steps.
        """
        return None

    @abstractmethod
    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:
        """Return the published rows, about a million in a batch; *folder* is for temporary files."""


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPublication(Publication):
    """What one plan for all cells of a table publishes."""

    counted: CountedCells
    encoding: Encoding
    plan: AnyPlan

    @property
    def quasi(self) -> tuple[Attribute, ...]:
        """The quasi attributes, in the order of their importance."""
        return self.encoding.problem.quasi

    @property
    def sensitive(self) -> tuple[Attribute, ...]:
        """The sensitive attributes."""
        return self.encoding.problem.sensitive

    @property
    def seen(self) -> SeenValues:
        """The values that the source has of them."""
        return self.counted

    @property
    def n_source_rows(self) -> int:
        """Number of rows that were counted."""
        return self.counted.n_rows

    @property
    def n_rows(self) -> int:
        """Number of published records."""
        return self.encoding.problem.cells.n_records - self.plan.n_withheld

    @property
    def n_withheld(self) -> int:
        """Number of records that the plan leaves out."""
        return self.plan.n_withheld

    @property
    def n_dropped(self) -> int:
        """Number of records left out because a value is missing, as far as everybody may know it."""
        return self.encoding.n_dropped

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the data holder should know."""
        return self.plan.warnings

    @property
    def search(self) -> Mapping[str, Any]:
        """What the method tells of its search."""
        return self.plan.search

    def find_leaves(self, place: int) -> IntArray:
        """Return the leaves of an attribute that some published record has."""
        return kernels.occurring(self.encoding.problem.cells.codes[place][self.find_cells()])

    @abstractmethod
    def find_cells(self) -> IntArray:
        """Return the cells of the problem of which some record is published."""


def write_rows(path: Path, batches: Iterator[pa.RecordBatch], format: Format) -> None:  # noqa: A002
    """Write a file batch by batch: each is made while the one before is written."""
    first = next(batches)
    with open_writer(path, first.schema, format) as writer, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writer.write, first)
        for batch in batches:
            writing.result()
            writing = pool.submit(writer.write, batch)
        writing.result()


def plain_table(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return all rows in one table, without dictionaries, so that no entry survives that no row uses."""
    return pa.Table.from_batches([_plain(batch) for batch in batches])


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(map(without_dictionary, batch.columns)), names=batch.schema.names)
