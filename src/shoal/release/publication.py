"""The publication of a plan: rows, their manifest, their guarantees and their figures, for every form of release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

import shoal
from shoal.columns.base import describe_changes
from shoal.columns.baskets import describe_items
from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.manifest import FORMAT, About
from shoal.methods.base import AnyPlan
from shoal.models.base import ValueModel
from shoal.plan.counted import CountedCells, LocatedBatch, SampledCells, SeenValues
from shoal.plan.problem import Attribute
from shoal.plan.slices import SlicedPlan
from shoal.policy.encoding import Encoding, Tree
from shoal.policy.policy import Policy
from shoal.release.columns import PublishedColumn, describe_values, read_ranges, source_values, spell_leaves
from shoal.release.figures import CHANGES, ColumnTally, Findings, Guarantee
from shoal.release.forms.base import Form, find_form
from shoal.release.rows import RowColumns
from shoal.release.sliced.table import name_columns
from shoal.sources.base import Source, read_ahead
from shoal.taxonomies.files import to_nested
from shoal.utility.base import Total, Utility


class Engine(Protocol):
    """The part of an engine that publishing needs: a second pass over the source."""

    def locate(
        self, source: Source, counted: CountedCells, carried: Sequence[str], progress: Progress
    ) -> Iterator[LocatedBatch]:
        """Yield the batches of the source in order, with the cell of every row and the *carried* columns."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRows:
    """The rows of the file, and the source rows they come from, which only the data holder may know.

    ``buckets`` has the bucket of each source row, 0 if it is not published. Without buckets, the last column of batches
    (ROW) has the place of each row in the source, unless the rows are ``synthetic``.
    """

    batches: Iterator[pa.RecordBatch]
    buckets: CodeArray | None = None  # (n_source_rows,)
    synthetic: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """The numbers of records that people, as identified by the policy's key, have in classes."""

    counts: str
    class_of: CodeArray  # (n_entries,)
    person: AnyIntArray  # (n_entries,) 0 is missing
    records: IntArray  # (n_entries,)


@dataclass(frozen=True, slots=True, eq=False)
class Hiding:
    """The sizes of classes or buckets, from which risk figures are computed."""

    sizes: IntArray  # (n_sizes,)
    times: IntArray | None = None  # (n_sizes,) classes of each size; None: one
    people: People | None = None  # if the policy counts people
    slices: SlicedPlan | None = None  # if records are split into parts

    @classmethod
    def of_classes(cls, classes: Counter[int]) -> Hiding:
        """Return the sizes in ascending order, given the number of classes of each size."""
        sizes = np.array(sorted(classes), dtype=np.int64)
        return cls(sizes, np.array([classes[size] for size in sizes.tolist()], dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Publication(ABC):
    """A table, and every decision about its publication."""

    policy: Policy
    source: Source
    quasi: tuple[Attribute, ...]  # in the order of their importance
    sensitive: tuple[Attribute, ...]
    seen: SeenValues  # the source's values of these attributes
    n_source_rows: int
    n_rows: int  # published
    n_withheld: int  # records that the plan leaves out
    n_dropped: int  # records left out for missing values, as stated in the manifest
    warnings: tuple[str, ...]  # for the data holder
    search: Mapping[str, Any]  # the method's report on its search
    entries: Mapping[str, Mapping[str, Any]]  # of the manifest, for attributes with labels

    @property
    def form(self) -> type[Form]:
        return find_form(self.policy.method.form)

    @property
    def parts(self) -> Sequence[Sequence[str]]:
        """Groups of published attributes; the values of a group in one row belong to the same record.

        Unless records are split, one group has all columns but the identifiers, in the order of the source.
        """
        published = {name for name, one in self.policy.attributes.items() if one.role != "identifier"}
        return [[name for name in self.source.schema.names if name in published]]

    @property
    def column_names(self) -> list[str]:
        return [name for part in self.parts for name in part]

    @property
    def own_entries(self) -> Mapping[str, Any]:
        """The manifest's entries for this form only."""
        return {}

    @property
    def own_evidence(self) -> Mapping[str, Any]:
        """The evidence for this form only."""
        return {}

    @property
    def multiplicity(self) -> int:
        """The number of times that the whole table seems to be repeated, if the form checks that."""
        return 1

    @property
    def files(self) -> Mapping[str, bytes]:
        """Further public files by name."""
        return {}

    def count_guessed(self) -> int:
        """Estimate for how many people a reader who reasons about undivided classes breaks a model of values."""
        return 0

    @abstractmethod
    def find_leaves(self, place: int) -> IntArray:
        """Return the published leaves of an attribute; quasi attributes have the first places."""

    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the achieved parameter of each model of the policy."""

    @abstractmethod
    def utility(self, *, expensive: bool = False) -> Utility:
        """Return every measure of utility."""

    @abstractmethod
    def hiding(self) -> Hiding | None:
        """Return the sizes of the classes or buckets in which records hide; None if rows are not records."""

    def hiding_before(self) -> Hiding | None:
        """Return the sizes of classes of original values, if the regions of a table counted them."""
        return None

    def count_generalized(self) -> dict[str, int]:
        """Return the number of records with a generalized value, for each sensitive attribute that has some."""
        return {}

    def tabulate_labels(self) -> pa.Table | None:
        """Return the original values of records with labels of sensitive attributes; internal.

        Each row has a number of ``records``, their published values, and the ``value of`` each labelled attribute.
        """
        return None

    def tally_columns(self) -> Mapping[str, ColumnTally]:
        """Return the changes of the columns that have labels or averages."""
        return {}

    def count_suppressed_rows(self) -> int | None:
        """Return how many rows have every quasi-identifier suppressed; None if rows are not whole records."""
        return None

    def column_shares(self) -> dict[str, dict[str, float]]:
        """Return the shares of records with an unchanged, generalized and suppressed value, by published columns.

        Columns changed by a technique are left out, because labels do not refer to their original values.
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
        """Return the association of each pair of attributes before and after.

        None if it cannot be computed, or takes more than *most_work* steps.
        """
        return None

    @abstractmethod
    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:
        """Return the published rows in batches of about a million; *folder* is for temporary files."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassPublication(Publication):
    """Whole records, each with the published values of its class."""

    findings: Findings
    columns: RowColumns

    def count_generalized(self) -> dict[str, int]:
        return dict(self.findings.generalized)

    def count_guessed(self) -> int:
        return self.findings.guessed

    def tabulate_labels(self) -> pa.Table | None:
        return self.columns.tabulate(self.findings.labelled)

    def tally_columns(self) -> Mapping[str, ColumnTally]:
        return self.findings.columns

    def count_suppressed_rows(self) -> int:
        return self.findings.n_suppressed

    def sensitive_shares(self) -> dict[str, Any]:
        return {one.name: self.findings.shares[one.name].as_dict(one.taxonomy) for one in self.sensitive}

    def find_leaves(self, place: int) -> IntArray:
        return self.findings.published[place]

    def guarantees(self) -> tuple[Guarantee, ...]:
        return self.findings.reached

    def publish_heaps(self, heaps: Iterable[pa.Table], progress: Progress) -> Iterator[pa.RecordBatch]:
        """Yield the published rows of shuffled heaps; refuse an unexpected number of rows."""
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
    """Return the fields that every publication of a plan for a whole table has."""
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


# Tables larger than memory: the regions are planned one after another, and their rows wait in heaps.


class Heaps(Protocol):
    """The rows of all regions, waiting to be published."""

    def heaps(self) -> Iterator[pa.Table]:
        """Yield all rows once, as numbers, in random order."""


def column_regions(policy: Policy, trees: Sequence[Tree], looked: SampledCells, findings: Findings) -> RowColumns:
    """Return the published values of all regions, by the numbers of waiting rows."""
    attributes, n_quasi = [tree.attribute for tree in trees], len(policy.names("quasi"))
    quasi: dict[str, PublishedColumn] = {}
    for one, keys in zip(attributes[:n_quasi], findings.ranges, strict=False):
        if find_form(policy.method.form).as_they_are:
            quasi[one.name] = PublishedColumn.of_values(source_values(looked, one.name))
        else:
            labels = PublishedColumn.of_ranges(one, *read_ranges(one.taxonomy, keys))
            quasi[one.name] = replace(labels, keys=keys)
    return RowColumns.of(quasi, attributes[n_quasi:], looked, findings, policy.names("insensitive"), by_class=False)


_PARTIAL_UTILITY = (
    "the table is larger than the memory allowed, so it was planned region by region, and measures of utility that "
    "need the whole table were left out"
)


@dataclass(frozen=True, slots=True, eq=False)
class RegionalPublication(ClassPublication):
    """Whole records with the published values of their class in their region."""

    waiting: Heaps

    @classmethod
    def of(
        cls,
        policy: Policy,
        source: Source,
        looked: SampledCells,
        trees: Sequence[Tree],
        findings: Findings,
        n_dropped: int,
        waiting: Heaps,
    ) -> RegionalPublication:
        attributes, n_quasi = tuple(tree.attribute for tree in trees), len(policy.names("quasi"))
        columns = column_regions(policy, trees, looked, findings)
        return cls(
            policy=policy,
            source=source,
            quasi=attributes[:n_quasi],
            sensitive=attributes[n_quasi:],
            seen=looked,
            n_source_rows=looked.n_rows,
            n_rows=findings.n_records - findings.n_withheld,
            n_withheld=findings.n_withheld,
            n_dropped=n_dropped,
            warnings=(*findings.warnings, _PARTIAL_UTILITY),
            search={
                "regions": findings.n_regions,
                "sampled_share": looked.share,
                "people_revealed": findings.revealed,
            },
            entries=columns.entries,
            findings=findings,
            columns=columns,
            waiting=waiting,
        )

    def utility(self, *, expensive: bool = False) -> Utility:  # noqa: ARG002
        total = Total(self.quasi, self.sensitive, self.findings.n_records, self.n_withheld)
        return self.findings.utility.measure(total)

    def hiding(self) -> Hiding:
        return Hiding.of_classes(self.findings.sizes)

    def hiding_before(self) -> Hiding:
        return Hiding.of_classes(self.findings.sizes_before)

    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:  # noqa: ARG002
        return PublishedRows(self.publish_heaps(self.waiting.heaps(), progress))


def build_manifest(publication: Publication, population_digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the manifest of a release without the entries about its files."""
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
            kind = publication.source.schema.field(name).type
            is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
            word = "number" if is_number else "date" if pa.types.is_temporal(kind) else "category"
            entry = {"role": "insensitive", "kind": word}
        description = policy.attributes[name].description
        entries[name] = entry if description is None else {**entry, "description": description}
    return entries


def _sensitive(publication: Publication, place: int) -> dict[str, Any]:
    """Return the entry of a sensitive attribute, with the order or tree of its values if a model needs it."""
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
    """Return the values that are published, or covered by a published label, by their leaves in order."""
    attribute = publication.sensitive[place]
    text_of = spell_leaves(attribute, publication.seen)
    if attribute.name in publication.entries:
        covers = publication.entries[attribute.name]["labels"].values()
        shown = {text for cover in covers for text in cover["values"]}
        return {leaf: text for leaf, text in sorted(text_of.items()) if text in shown}
    published = publication.find_leaves(len(publication.quasi) + place).tolist()
    return {leaf: text_of[leaf] for leaf in published if leaf in text_of}
