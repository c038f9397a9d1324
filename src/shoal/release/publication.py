"""What is published of a plan, whatever its form: rows, their description, their promises, and their files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

import shoal
from shoal.columns.base import describe_changes
from shoal.columns.baskets import describe_items
from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.manifest import FORMAT, About
from shoal.methods.base import AnyPlan
from shoal.models.base import ValueModel
from shoal.plan.counted import CountedCells, LocatedBatch, SeenValues
from shoal.plan.problem import Attribute
from shoal.plan.slices import SlicedPlan
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.columns import describe_values, spell_leaves
from shoal.release.figures import CHANGES, ColumnTally, Findings, Guarantee
from shoal.release.forms.base import Form, find_form
from shoal.release.rows import RowColumns
from shoal.release.sliced.table import name_columns
from shoal.sources.base import Source, read_ahead
from shoal.taxonomies.files import to_nested
from shoal.utility.base import Utility


class Engine(Protocol):
    """What publishing needs of an engine: to read the source once more."""

    def locate(
        self, source: Source, counted: CountedCells, carried: Sequence[str], progress: Progress
    ) -> Iterator[LocatedBatch]:
        """Yield the batches of the source, in their order, with the cell of every row and the *carried* columns."""


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
    slices: SlicedPlan | None = None  # if records were taken apart


@dataclass(frozen=True, slots=True, eq=False)
class Publication(ABC):
    """A table and what is decided about it: everything that tells what is published."""

    policy: Policy
    source: Source
    quasi: tuple[Attribute, ...]  # in the order of their importance
    sensitive: tuple[Attribute, ...]
    seen: SeenValues  # the values that the source has of them
    n_source_rows: int  # that were read
    n_rows: int  # that are published
    n_withheld: int  # records that the plan leaves out
    n_dropped: int  # records left out because a value is missing, as far as everybody may know it
    warnings: tuple[str, ...]  # what the data holder should know
    search: Mapping[str, Any]  # what the method tells of its search
    entries: Mapping[str, Mapping[str, Any]]  # the manifest's, on attributes with labels

    @property
    def form(self) -> type[Form]:
        return find_form(self.policy.method.form)

    @property
    def parts(self) -> Sequence[Sequence[str]]:
        """The published attributes in groups whose values in one row belong to the same record.

        Where nothing is taken apart, that is one: all columns in the order of the source but identifiers.
        """
        published = {name for name, one in self.policy.attributes.items() if one.role != "identifier"}
        return [[name for name in self.source.schema.names if name in published]]

    @property
    def column_names(self) -> list[str]:
        return [name for part in self.parts for name in part]

    @property
    def own_entries(self) -> Mapping[str, Any]:
        return {}

    @property
    def own_evidence(self) -> Mapping[str, Any]:
        """What only this kind of publication tells the data holder."""
        return {}

    @property
    def multiplicity(self) -> int:
        """The number of times that the whole table seems to be given; 1 unless it is looked for."""
        return 1

    @property
    def files(self) -> Mapping[str, bytes]:
        return {}

    def count_guessed(self) -> int:
        """Return 0: why no other parts were published is not asked."""
        return 0

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
        """Return the values that records under labels of sensitive attributes have; internal.

        A row is so many ``records`` of a class: what they publish, and ``value of`` each attribute with labels.
        """
        return None

    def tally_columns(self) -> Mapping[str, ColumnTally]:
        """Return what became of the values of columns that have labels or averages."""
        return {}

    def count_suppressed_rows(self) -> int | None:
        """Return how many rows have every quasi-identifier suppressed; None if rows are not whole records."""
        return None

    def column_shares(self) -> dict[str, dict[str, float]]:
        """Return the shares of records whose value is unchanged, generalized and suppressed, by published columns.

        A column that a technique changed is left out: labels say nothing about its original values.
        """
        tallies, treated = self.tally_columns(), describe_changes(self.source).get("techniques", {})
        unchanged = dict(zip(CHANGES, (1.0, 0.0, 0.0), strict=True))
        return {
            name: tallies[name].shares() if name in tallies else unchanged
            for own, names in zip(self.parts, name_columns(self.parts), strict=True)
            for attribute, name in zip(own, names, strict=True)
            if attribute not in treated
        }

    def sensitive_shares(self) -> dict[str, Any]:
        """Return the share of sensitive values in the whole table and in classes or buckets, by attribute."""
        return {}

    def associations(self, most_work: float) -> list[dict[str, Any]] | None:  # noqa: ARG002
        """Return how strongly pairs of attributes depend on each other, before and after.

        None if it cannot be computed, or takes more than *most_work* steps.
        """
        return None

    @abstractmethod
    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:
        """Return the published rows, about a million in a batch; *folder* is for temporary files."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassPublication(Publication):
    """One part: every row is a record, under what its class publishes."""

    findings: Findings
    columns: RowColumns

    def count_generalized(self) -> dict[str, int]:
        """Return how many records publish a generalized value, for each sensitive attribute that has such records."""
        return dict(self.findings.generalized)

    def count_guessed(self) -> int:
        """Return about how many people a reader breaks a model of values who asks why classes were not divided."""
        return self.findings.guessed

    def tabulate_labels(self) -> pa.Table | None:
        """Return what records publish and have of which some value is generalized."""
        return self.columns.tabulate(self.findings.labelled)

    def tally_columns(self) -> Mapping[str, ColumnTally]:
        """Return what became of the values of each attribute that classes publish labels or averages of."""
        return self.findings.columns

    def count_suppressed_rows(self) -> int:
        return self.findings.n_suppressed

    def sensitive_shares(self) -> dict[str, Any]:
        """Return the share of what is published of each sensitive attribute, in the whole and in classes."""
        return {one.name: self.findings.shares[one.name].as_dict(one.taxonomy) for one in self.sensitive}

    def find_leaves(self, place: int) -> IntArray:
        """Return the leaves of an attribute that some published record has."""
        return self.findings.published[place]

    def guarantees(self) -> tuple[Guarantee, ...]:
        return self.findings.reached

    def publish_heaps(self, heaps: Iterable[pa.Table], progress: Progress) -> Iterator[pa.RecordBatch]:
        """Yield what rows publish that wait in heaps; other than as many rows as there should be are an error."""
        written = 0
        with progress.step("writing", self.n_rows) as step:
            batches = map(self.columns.publish, heaps, repeat(self.column_names))
            for batch in read_ahead(batches, depth=1):
                yield batch
                written += batch.num_rows
                step.advance(batch.num_rows)
        if written != self.n_rows:
            raise InputError(f"{self.source.name} changed while it was being read; nothing was published")


def describe_plan(
    policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
) -> dict[str, Any]:
    """Return what every publication of a plan for all cells of a table tells, by the names of its fields."""
    problem = encoding.problem
    return {
        "policy": policy,
        "source": source,
        "quasi": problem.quasi,
        "sensitive": problem.sensitive,
        "seen": counted,
        "n_source_rows": counted.n_rows,
        "n_rows": problem.cells.n_records - plan.n_withheld,
        "n_withheld": plan.n_withheld,
        "n_dropped": encoding.n_dropped,
        "warnings": plan.warnings,
        "search": plan.search,
        "counted": counted,
        "encoding": encoding,
        "plan": plan,
    }


@dataclass(frozen=True, slots=True, eq=False)
class PlannedPublication(Publication):
    """What a plan for all cells of a table publishes that makes no classes."""

    counted: CountedCells
    encoding: Encoding
    plan: AnyPlan

    def find_leaves(self, place: int) -> IntArray:
        """Return the leaves of an attribute that some published record has."""
        return kernels.occurring(self.encoding.problem.cells.codes[place][self.find_cells()])

    @abstractmethod
    def find_cells(self) -> IntArray:
        """Return the cells of the problem of which some record is published."""


# The manifest: what a release says of itself to whoever receives it.


def build_manifest(publication: Publication, population_digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of a release, all but the entries on its files."""
    policy = publication.policy
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "shoal_version": shoal.__version__,
        "method": policy.method.name,
        "form": publication.form.name,
        "method_parameters": policy.method.model_dump(mode="json", exclude_none=True),
        "guarantees": [guarantee.as_dict() for guarantee in publication.guarantees()],
        "parts": [list(part) for part in publication.parts],
        "rows": publication.n_rows,
        "withheld": publication.n_withheld,
        "missing": {
            "policy": policy.missing,
            "tokens": list(policy.source.missing),
            "dropped": publication.n_dropped,
        },
        "attributes": _attributes(publication),
        **publication.own_entries,
        **describe_changes(publication.source),
    }
    if reading := policy.source.reading:
        manifest["reading"] = reading
    if about := policy.release.model_dump(include=set(About.model_fields), exclude_none=True):
        manifest["about"] = about
    if policy.units:
        manifest["people"] = policy.units
    taxonomies = {one.name: one.taxonomy for one in (*publication.quasi, *publication.sensitive)}
    items = describe_items(publication.source, taxonomies, len(publication.quasi), publication.find_leaves)
    if items:
        manifest["items"] = items
    if population_digests:
        manifest["populations"] = {path: {"sha256": digest} for path, digest in population_digests.items()}
    return manifest


def _attributes(publication: Publication) -> dict[str, Any]:
    policy = publication.policy
    quasi = {attribute.name: attribute for attribute in publication.quasi}
    sensitive = {attribute.name: place for place, attribute in enumerate(publication.sensitive)}
    entries: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in publication.parts for name in part):
        if name in quasi:
            entry = dict(publication.entries.get(name) or describe_values(quasi[name], "quasi"))
        elif name in sensitive:
            entry = _sensitive(publication, sensitive[name])
        else:
            entry = {"role": "insensitive", "kind": _kind(publication.source.schema.field(name).type)}
        description = policy.attributes[name].description
        entries[name] = entry if description is None else {**entry, "description": description}
    return entries


def _sensitive(publication: Publication, place: int) -> dict[str, Any]:
    """Say of a sensitive attribute what its models need: the order of its values, or its tree."""
    attribute = publication.sensitive[place]
    entry = dict(publication.entries.get(attribute.name) or describe_values(attribute, "sensitive"))
    if "labels" in entry and publication.policy.method.defends_labels:
        entry["defended"] = True
    distances = {
        getattr(model, "distance", None)
        for model in publication.policy.privacy
        if isinstance(model, ValueModel) and (not model.attributes or attribute.name in model.attributes)
    }
    if "ordered" in distances:
        entry["order"] = list(_list_texts(publication, place).values())
    if "hierarchical" in distances:
        entry["taxonomy"] = to_nested(attribute.taxonomy, _list_texts(publication, place))
    return entry


def _list_texts(publication: Publication, place: int) -> dict[int, str]:
    """Return the values that are published, or lie under a published label, by their leaves, in order."""
    attribute = publication.sensitive[place]
    text_of = spell_leaves(attribute, publication.seen)
    if attribute.name in publication.entries:
        covers = publication.entries[attribute.name]["labels"].values()
        shown = {text for cover in covers for text in cover["values"]}
        return {leaf: text for leaf, text in sorted(text_of.items()) if text in shown}
    published = publication.find_leaves(len(publication.quasi) + place).tolist()
    return {leaf: text_of[leaf] for leaf in published if leaf in text_of}


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return "date" if pa.types.is_temporal(kind) else "category"
