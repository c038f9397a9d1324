"""What rows publish, from the few numbers that are sent of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray
from shoal.publishing import GeneralizedPublication
from shoal.publishing.columns import coded, without_dictionary
from shoal.sensitive_labels import SensitiveColumn


@dataclass(frozen=True, slots=True, eq=False)
class SensitiveRows:
    """What rows publish of one sensitive attribute."""

    own: pa.Array
    generalized: SensitiveColumn | None

    def values(self, targets: CodeArray, index: CodeArray) -> pa.Array:
        """Return the values of rows, given their targets and the places of their own values."""
        return coded(index, self.own) if self.generalized is None else self.generalized.values(targets, index)


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """All published columns. A row waits as its target, the places of its sensitive values, and what is carried."""

    class_of_target: CodeArray | None
    quasi: Mapping[str, pa.Array]  # what each class publishes
    sensitive: Mapping[str, SensitiveRows]
    carried: pa.Schema
    names: tuple[str, ...]

    @classmethod
    def of(cls, publication: GeneralizedPublication) -> RowColumns:
        """Write down what all classes publish."""
        problem, plan, counted = publication.encoding.problem, publication.plan, publication.counted
        everything = np.arange(plan.n_classes, dtype=np.int32)
        columns = zip(problem.sensitive, publication.sensitive_columns, strict=True)
        carried = publication.policy.names("insensitive")
        return cls(
            class_of_target=None if plan.targets is None else plan.targets.class_of,
            quasi={column.attribute.name: column.values(everything) for column in publication.columns},
            sensitive={
                one.name: SensitiveRows(counted.dictionaries[counted.columns.index(one.name)].values, labels)
                for one, labels in columns
            },
            carried=pa.schema([publication.source.schema.field(name) for name in carried]),
            names=tuple(publication.parts[0]),
        )

    @staticmethod
    def waiting(targets: CodeArray, sensitive: Sequence[CodeArray], carried: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return rows as they wait."""
        arrays = [pa.array(targets), *map(pa.array, sensitive), *map(without_dictionary, carried)]
        return pa.RecordBatch.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])

    def published(self, waiting: pa.RecordBatch) -> pa.RecordBatch:
        """Return what rows that wait publish; texts by dictionaries."""
        targets, *sensitive = (column.to_numpy() for column in waiting.columns[: 1 + len(self.sensitive)])
        classes = pa.array(targets if self.class_of_target is None else self.class_of_target[targets])
        arrays = {name: values.take(classes) for name, values in self.quasi.items()}
        for (name, column), index in zip(self.sensitive.items(), sensitive, strict=True):
            arrays[name] = column.values(targets, index)
        arrays |= dict(zip(self.carried.names, waiting.columns[1 + len(self.sensitive) :], strict=True))
        return pa.RecordBatch.from_arrays([arrays[name] for name in self.names], names=list(self.names))

    def plain(self, waiting: pa.RecordBatch) -> pa.RecordBatch:
        """Return the same spelled out, columns named by their places."""
        arrays = [without_dictionary(column) for column in self.published(waiting).columns]
        return pa.RecordBatch.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])

    def schema(self) -> pa.Schema:
        """Return the types of what is published, columns named by their places."""
        nothing = np.zeros(0, dtype=np.int32)
        carried = [pa.array([], field.type) for field in self.carried]
        return self.plain(self.waiting(nothing, [nothing] * len(self.sensitive), carried)).schema
