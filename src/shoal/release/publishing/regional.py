"""Generalization region by region: what the regions of a table larger than memory publish together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from shoal.core.arrays import IntArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.engines.local import LocalEngine, SampledCells
from shoal.plan.counted import SeenValues
from shoal.plan.problem import Attribute
from shoal.release.guarantees import Guarantee
from shoal.release.publishing.columns import coded
from shoal.release.publishing.levels import levels_told
from shoal.release.publishing.publication import Publication, PublishedRows
from shoal.release.publishing.regional_numbers import RegionalColumns
from shoal.release.publishing.regional_sums import Pooled
from shoal.release.sensitive_labels import SensitiveColumn, labelled_table
from shoal.taxonomies.parse import texts
from shoal.utility.base import Total, Utility

_NOT_ASKED = (
    "the table is larger than the memory allowed, so it was planned region by region, and measures of utility that "
    "look at all of it at once were left out"
)


class Heaps(Protocol):
    """Rows of all regions that wait to be published."""

    def heaps(self) -> Iterator[pa.Table]:
        """Yield all rows, in random order, under numbers; they can be had once."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionalPublication(Publication):
    """One part: every row is a record, under the labels or the values of its class in its region.

    The rows wait: the number of what they publish of each quasi attribute, the indices of their sensitive values, and
    what is carried.
    """

    looked: SampledCells
    pooled: Pooled
    columns: RegionalColumns
    waiting: Heaps
    n_left_out: int  # records without some value

    @property
    def quasi(self) -> tuple[Attribute, ...]:
        """The quasi attributes, in the order of their importance."""
        return tuple(tree.attribute for tree in self.pooled.trees[: self.pooled.n_quasi])

    @property
    def sensitive(self) -> tuple[Attribute, ...]:
        """The sensitive attributes."""
        return tuple(tree.attribute for tree in self.pooled.trees[self.pooled.n_quasi :])

    @property
    def seen(self) -> SeenValues:
        """The values that the source has of them."""
        return self.looked

    @property
    def n_source_rows(self) -> int:
        """Number of rows that were read."""
        return self.looked.n_rows

    @property
    def n_rows(self) -> int:
        """Number of published records."""
        return self.pooled.n_records - self.pooled.n_withheld

    @property
    def n_withheld(self) -> int:
        """Number of records that the plans leave out."""
        return self.pooled.n_withheld

    @property
    def n_dropped(self) -> int:
        """Number of records left out because a value is missing."""
        return self.n_left_out

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the data holder should know."""
        return (*self.pooled.warnings, _NOT_ASKED)

    @property
    def search(self) -> Mapping[str, Any]:
        """How many regions there were, and on what share of the records they were cut."""
        return {"regions": self.pooled.n_regions, "sampled_share": self.looked.share}

    def quasi_entry(self, place: int) -> dict[str, Any]:
        """Return the attribute's labels, if it has some, or how its values are read."""
        return self.columns.quasi[place].describe()

    def sensitive_column(self, place: int) -> SensitiveColumn | None:
        """Return the texts of a generalized sensitive attribute; None if it is published as it is."""
        return self.columns.sensitive[place]

    def generalized_sensitive(self) -> dict[str, int]:
        """Return how many records publish a generalized value, for each sensitive attribute that has such records."""
        return dict(self.pooled.generalized)

    def labelled_values(self) -> pa.Table | None:
        """Return what records publish and have of which some value is generalized, if labels are defended."""
        if not self.pooled.labelled:
            return None
        waiting = pa.Table.from_batches(self.pooled.labelled).combine_chunks()
        names, n_numbers = [one.name for one in (*self.quasi, *self.sensitive)], len(self.quasi) + len(self.sensitive)
        published = replace(self.columns, carried=()).published(waiting.select(range(n_numbers)), names)
        values = {
            one.name: coded(waiting.column(n_numbers + place).combine_chunks().to_numpy(), texts(own))
            for place, (one, own) in enumerate(zip(self.sensitive, self.columns.values, strict=True))
            if self.columns.sensitive[place] is not None
        }
        return labelled_table(published, values, waiting.column("records").to_numpy())

    def levels(self) -> dict[str, Any]:
        """Return how many records publish a value of which level, for each attribute with labels."""
        return levels_told(self.pooled.levels, self.pooled.generalized, self.policy.names("sensitive"))

    def sensitive_shares(self) -> dict[str, Any]:
        """Return the share of what is published of each sensitive attribute, in the whole and in classes."""
        return {one.name: self.pooled.shares[one.name].as_dict(one.taxonomy) for one in self.sensitive}

    def published_leaves(self, place: int) -> IntArray:
        """Return the leaves of an attribute that some published record has."""
        return np.flatnonzero(self.pooled.published[place])

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the worst that some region reaches."""
        return self.pooled.reached

    def utility(self, *, expensive: bool = False) -> Utility:  # noqa: ARG002
        """Return the measures that can be added up over regions."""
        total = Total(self.quasi, self.sensitive, self.pooled.n_records, self.pooled.n_withheld)
        return self.pooled.utility.measured(total)

    def risks(self) -> dict[str, Any]:
        """Return how easily records are found by their class."""
        return self.pooled.sizes.risks()

    def risks_before(self) -> dict[str, Any]:
        """Return how easily records are found by their values in the source."""
        return self.pooled.sizes_before.risks()

    def rows(self, engine: LocalEngine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:  # noqa: ARG002
        """Return the rows in random order; they can be had once."""
        return PublishedRows(self._batches(progress))

    def _batches(self, progress: Progress) -> Iterator[pa.RecordBatch]:
        (names,), written = self.parts, 0
        with progress.step("writing", self.n_rows) as step:
            for heap in self.waiting.heaps():
                yield self.columns.published(heap, names)
                written += heap.num_rows
                step.advance(heap.num_rows)
        if written != self.n_rows:
            raise InputError(f"{self.source.name} changed while it was being read; nothing was published")
