"""What the regions of a table larger than memory publish together, whose rows wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.plan.counted import SampledCells
from shoal.policy.encoding import Tree
from shoal.policy.policy import Policy
from shoal.release.columns import PublishedColumn, read_ranges, source_values
from shoal.release.figures import Findings
from shoal.release.forms.base import find_form
from shoal.release.publication import ClassPublication, Engine, Hiding, PublishedRows
from shoal.release.rows import RowColumns
from shoal.sources.base import Source
from shoal.utility.base import Total, Utility

_NOT_ASKED = (
    "the table is larger than the memory allowed, so it was planned region by region, and measures of utility that "
    "look at all of it at once were left out"
)


def column_regions(policy: Policy, trees: Sequence[Tree], looked: SampledCells, findings: Findings) -> RowColumns:
    """Return what the numbers mean under which rows of all regions wait, given what these found together."""
    attributes, n_quasi = [tree.attribute for tree in trees], len(policy.names("quasi"))
    quasi: dict[str, PublishedColumn] = {}
    for one, keys in zip(attributes[:n_quasi], findings.ranges, strict=False):
        if find_form(policy.method.form).as_they_are:
            quasi[one.name] = PublishedColumn.of_values(source_values(looked, one.name))
        else:
            labels = PublishedColumn.of_ranges(one, *read_ranges(one.taxonomy, keys))
            quasi[one.name] = replace(labels, keys=keys)
    return RowColumns.of(quasi, attributes[n_quasi:], looked, findings, policy.names("insensitive"), by_class=False)


def hide_among(classes: Counter[int]) -> Hiding:
    """Return the sizes of classes, ascending, and how many classes have each."""
    sizes = np.array(sorted(classes), dtype=np.int64)
    return Hiding(sizes, np.array([classes[size] for size in sizes.tolist()], dtype=np.int64))


class Heaps(Protocol):
    """Rows of all regions that wait to be published."""

    def heaps(self) -> Iterator[pa.Table]:
        """Yield all rows, in random order, under numbers; they can be had once."""


@dataclass(frozen=True, slots=True, eq=False)
class RegionalPublication(ClassPublication):
    """One part: every row is a record, under the labels or the values of its class in its region."""

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
        """Write down what all regions publish, whose rows wait."""
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
            warnings=(*findings.warnings, _NOT_ASKED),
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
        """Return the measures that can be added up over regions."""
        total = Total(self.quasi, self.sensitive, self.findings.n_records, self.n_withheld)
        return self.findings.utility.measure(total)

    def hiding(self) -> Hiding:
        return hide_among(self.findings.sizes)

    def hiding_before(self) -> Hiding:
        """Return the sizes of classes by the values in the source."""
        return hide_among(self.findings.sizes_before)

    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:  # noqa: ARG002
        """Return the rows in random order; they can be had once."""
        return PublishedRows(self.publish_heaps(self.waiting.heaps(), progress))
