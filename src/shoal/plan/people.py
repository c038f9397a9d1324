"""People instead of records: how many different people a class has, and how many of them have each value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.kernels import compiled
from shoal.models.base import ClassHistograms, PrivacyModel


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Whose records the cells are, and what a model sees of classes when it counts people (docs/adr/0036-people.md).

    A person counts once in a class, however many records they have there, and once for each value that they have there.
    """

    person: CodeArray  # (n_cells,) codes below n_persons
    n_persons: int
    pair: CodeArray | None = None  # (n_cells,) codes of the different pairs of person and value; None: no values
    value_of: CodeArray | None = None  # (n_pairs,)

    @classmethod
    def of(cls, person: AnyIntArray, values: CodeArray | None) -> People:
        """Number the persons of the cells, and the pairs of person and value."""
        names, inverse = np.unique(person, return_inverse=True)
        code = inverse.reshape(-1).astype(np.int32)
        if values is None:
            return cls(code, len(names))
        key = values.astype(np.int64) * len(names) + code
        _, first, pair = np.unique(key, return_index=True, return_inverse=True)
        return cls(code, len(names), pair.reshape(-1).astype(np.int32), values[first])

    @property
    def some_have_several_values(self) -> bool:
        """Whether a person has records with different values."""
        return self.value_of is not None and len(self.value_of) > self.n_persons

    def histograms(
        self, model: PrivacyModel, class_of: AnyIntArray, cells: AnyIntArray, n_classes: int, n_values: int
    ) -> ClassHistograms:
        """Return what a model sees of classes, given the class of each of some cells.

        >>> from shoal.models.k_anonymity import KAnonymity
        >>> stays = People.of(np.array([7, 7, 7, 9]), None)
        >>> stays.histograms(KAnonymity(k=2), np.array([0, 0, 1, 1]), np.arange(4), 2, 0).sizes.tolist()
        [1, 2]
        """
        first, order = kernels.group_items(np.asarray(class_of, dtype=np.int32), n_classes)
        cells = cells[order]
        one = np.zeros(self.n_persons, dtype=np.int32)
        sizes = _count_once(first, self.person[cells], one, np.zeros((n_classes, 1), dtype=np.int64))[:, 0]
        if self.pair is None or self.value_of is None:
            return ClassHistograms(sizes)
        counts = np.zeros((n_classes, n_values), dtype=np.int64)
        _count_once(first, self.pair[cells], self.value_of, counts)
        return ClassHistograms(sizes, counts if model.knows_values else most_concentrated(counts, sizes))


@compiled
def _count_once(first: IntArray, code: CodeArray, column_of: CodeArray, counts: IntArray) -> IntArray:
    """Add 1 in the row of each class and the column of each code, however often the class has the code."""
    last = np.full(len(column_of), -1, dtype=np.int32)  # class in which each code was met
    for c in range(len(first) - 1):
        for item in range(first[c], first[c + 1]):
            if last[code[item]] != c:
                last[code[item]] = c
                counts[c, column_of[code[item]]] += 1
    return counts


def most_concentrated(counts: IntArray, sizes: IntArray) -> IntArray:
    """Return (n_classes, n_values) counts that add up to the sizes, the most frequent values first.

    Somebody with several values is in several counts. Whichever of their values one picks for everybody, the k most
    frequent together have no more people than here, for every k: so a model that wants values evenly spread, and does
    not care which they are, holds for every choice if it holds for this one.

    >>> most_concentrated(np.array([[1, 4, 3], [1, 1, 0]]), np.array([5, 2])).tolist()
    [[0, 4, 1], [1, 1, 0]]
    """
    if bool((counts.sum(axis=1) == sizes).all()):
        return counts
    order = np.argsort(-counts, axis=1, kind="stable")
    falling = np.take_along_axis(counts, order, axis=1)
    before = np.cumsum(falling, axis=1) - falling
    found = np.empty_like(counts)
    np.put_along_axis(found, order, np.clip(sizes[:, np.newaxis] - before, 0, falling), axis=1)
    return found
