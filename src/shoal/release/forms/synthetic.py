"""Synthetic rows: nobody's records, and a manifest that tells nothing which was looked up without noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.methods.synthetic.synthesis import distances
from shoal.plan.counted import CountedCells
from shoal.plan.synthetic import Domain, SyntheticPlan
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.guarantees import Guarantee
from shoal.release.publication import Engine, PlannedPublication, PublishedRows
from shoal.sources.base import Source
from shoal.taxonomies.tree import Cover
from shoal.utility.base import Utility

_BATCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticColumn:
    """One attribute: its rows, and the labels that they have, which are those of leaves."""

    domain: Domain
    role: str
    codes: CodeArray  # (n_rows,)
    labels: pa.Array  # (n_labels,) distinct, sorted
    covers: tuple[Cover, ...]  # (n_labels,)
    label_of: CodeArray  # (n_leaves,) -1: no row has it

    @classmethod
    def of(cls, domain: Domain, role: str, codes: CodeArray) -> SyntheticColumn:
        """Write down the labels of the leaves that synthetic rows have."""
        tree = domain.taxonomy
        leaves = sorted(kernels.occurring(codes).tolist(), key=tree.leaf_labels.__getitem__)
        label_of = np.full(domain.size, -1, dtype=np.int32)
        label_of[leaves] = np.arange(len(leaves), dtype=np.int32)
        return cls(
            domain=domain,
            role=role,
            codes=codes,
            labels=pa.array([tree.leaf_labels[leaf] for leaf in leaves], pa.string()),
            covers=tuple(tree.cover(leaf, leaf + 1) for leaf in leaves),
            label_of=label_of,
        )

    def values(self, start: int, stop: int) -> pa.DictionaryArray:
        """Return what the rows from *start* on, below *stop*, publish."""
        return pa.DictionaryArray.from_arrays(pa.array(self.label_of[self.codes[start:stop]]), self.labels)

    def describe(self) -> dict[str, Any]:
        """Return the manifest's entry: every label that occurs with the values it stands for."""
        scale = self.domain.taxonomy.scale
        labels = dict(zip(self.labels.to_pylist(), self.covers, strict=True))
        return {"role": self.role, "kind": scale.kind, **scale.reading(), "labels": labels}


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticPublication(PlannedPublication):
    """Rows drawn from noisy counts: whatever is published of them follows from the noisy counts and the policy."""

    plan: SyntheticPlan
    columns: tuple[SyntheticColumn, ...]  # quasi attributes, then sensitive ones

    @classmethod
    def of(
        cls, policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: SyntheticPlan
    ) -> SyntheticPublication:
        """Write down the labels of all columns."""
        columns = tuple(
            SyntheticColumn.of(domain, policy.attributes[domain.name].role, codes)
            for domain, codes in zip(plan.domains, plan.codes, strict=True)
        )
        return cls(policy, source, counted, encoding, plan, columns)

    @property
    def n_rows(self) -> int:
        """Number of synthetic rows, which is not that of the records."""
        return self.plan.n_rows

    @property
    def n_dropped(self) -> int:
        """Nothing: how many records lack a value is not told."""
        return 0

    @property
    def parts(self) -> Sequence[Sequence[str]]:
        """All attributes in the order of the source."""
        known = {column.domain.name for column in self.columns}
        return [[name for name in self.source.schema.names if name in known]]

    @property
    def own_entries(self) -> Mapping[str, Any]:
        """What is claimed, and the account."""
        parameters = {"epsilon": self.plan.epsilon, "delta": self.plan.delta}
        claims = [{"model": "differential-privacy", "parameters": parameters}]
        return {"claims": claims, "synthetic": self.plan.describe()}

    @property
    def own_evidence(self) -> Mapping[str, Any]:
        """How far the rows are from the records: exact figures, which stay internal."""
        return {
            "randomness": "operating system; a seed repeats no differentially private table",
            "synthetic": distances(self.encoding.problem.cells.codes, self.encoding.problem.cells.counts, self.plan),
        }

    def quasi_entry(self, place: int) -> dict[str, Any]:
        """Return the attribute's labels."""
        return self.columns[place].describe()

    def sensitive_column(self, place: int) -> SyntheticColumn:
        """Return the labels of a sensitive attribute."""
        return self.columns[len(self.encoding.problem.quasi) + place]

    def published_cells(self) -> IntArray:
        """Return none: no record is published."""
        return np.empty(0, dtype=np.int64)

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return none: no file can show what is claimed."""
        return ()

    def utility(self, *, expensive: bool = False) -> Utility:  # noqa: ARG002
        """Return nothing: measures look at the records without noise."""
        return {}

    def risks(self) -> dict[str, Any]:
        """Return nothing: no class of rows hides a person."""
        return {}

    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:  # noqa: ARG002
        """Return the rows, which were drawn in random order."""
        return PublishedRows(self._batches(progress))

    def _batches(self, progress: Progress) -> Iterator[pa.RecordBatch]:
        columns = {column.domain.name: column for column in self.columns}
        (names,) = self.parts
        with progress.step("writing", self.n_rows) as step:
            for start in range(0, self.n_rows, _BATCH_ROWS):
                stop = min(start + _BATCH_ROWS, self.n_rows)
                arrays = [columns[name].values(start, stop) for name in names]
                yield pa.RecordBatch.from_arrays(arrays, names=list(names))
                step.advance(stop - start)
