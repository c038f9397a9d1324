"""People instead of records: how many different people a class has, and how many of them have each value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.arrays import AnyIntArray, CodeArray, IntArray
from shoal.models.base import ClassHistograms, PrivacyModel


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Whose records the cells are, and what a model sees of classes when it counts people (docs/adr/0036-people.md).

    A person counts once in a class, however many records they have there, and once for each value that they have there.
    """

    person: IntArray  # (n_cells,) codes below n_persons
    n_persons: int
    pair: IntArray | None = None  # (n_cells,) codes of the different pairs of person and value; None: no values
    value_of: CodeArray | None = None  # (n_pairs,)

    @classmethod
    def of(cls, person: AnyIntArray, values: CodeArray | None) -> People:
        """Number the persons of the cells, and the pairs of person and value."""
        names, code = np.unique(person, return_inverse=True)
        code = code.reshape(-1).astype(np.int64)
        if values is None:
            return cls(code, len(names))
        pairs, pair = np.unique(values.astype(np.int64) * len(names) + code, return_inverse=True)
        value_of = (pairs // len(names)).astype(np.int32)
        return cls(code, len(names), pair.reshape(-1).astype(np.int64), value_of)

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
        classes = np.asarray(class_of, dtype=np.int64)
        found = np.unique(classes * self.n_persons + self.person[cells])
        sizes = np.bincount(found // max(self.n_persons, 1), minlength=n_classes)
        if self.pair is None or self.value_of is None:
            return ClassHistograms(sizes)
        n_pairs = len(self.value_of)
        owner, pair = np.divmod(np.unique(classes * n_pairs + self.pair[cells]), max(n_pairs, 1))
        counts = np.bincount(owner * n_values + self.value_of[pair], minlength=n_classes * n_values)
        counts = counts.reshape(n_classes, n_values)
        return ClassHistograms(sizes, counts if model.knows_values else most_concentrated(counts, sizes))


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
