"""What a method is asked to solve: cells, taxonomies, requirements. No files, no engine."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.models.base import ClassHistograms, PrivacyModel, ValueModel, Whole
from shoal.plan.cells import Cells
from shoal.plan.induced import Induced
from shoal.plan.people import People
from shoal.taxonomies.tree import Taxonomy


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A quasi or sensitive attribute: its name, its taxonomy and how much its detail matters."""

    name: str
    taxonomy: Taxonomy
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Requirement:
    """A privacy model bound to what it looks at.

    ``values`` are the codes of the sensitive attribute (or of a combination of several) cell by cell, and
    ``population`` counts the population's records of each cell; each is there only if the model sees it.
    ``place`` tells which sensitive attribute it is, if it is one; ``weights`` are the adversary's, if given. Where the
    cells are those of a region, ``table`` is the whole table that it is a region of.
    """

    model: PrivacyModel
    number: int  # of the policy's model that it comes from
    values: CodeArray | None = None  # (n_cells,)
    n_values: int = 0
    taxonomy: Taxonomy | None = None
    population: IntArray | None = None  # (n_cells,)
    population_name: str = ""
    place: int | None = None
    weights: tuple[Fraction, ...] | None = None  # (n_leaves,)
    table: Whole | None = None
    counts: str | None = None  # the policy's key of the people that it is about; None: records
    people: People | None = None  # whose records the cells are, if people are counted

    @property
    def merge_monotone(self) -> bool:
        """Whether the union of two classes that hold always holds.

        People of both may be the same: then a union has fewer than the sum, and a value a larger share of them.
        """
        return self.model.merge_monotone and (self.people is None or self.values is None)

    def histograms_of_people(self, class_of: AnyIntArray, cells: AnyIntArray, n_classes: int) -> ClassHistograms:
        """Return what the model sees of classes, given the class of each of some cells."""
        if self.people is None:
            raise TypeError(f"{self.model.subject} counts records")
        return self.people.histograms(self.model, class_of, cells, n_classes, self.n_values)

    def values_at(self, cells: AnyIntArray) -> CodeArray:
        """Return the sensitive values of these cells, which only a requirement on values has."""
        if self.values is None:
            raise TypeError(f"{self.model.subject} is not about the values of an attribute")
        return self.values[cells]

    def induce(self, counts: IntArray) -> Induced:
        """Return how generalized values of its attribute spread in a table of *counts* records of each cell."""
        if self.values is None or self.taxonomy is None:
            raise TypeError(f"{self.model.subject} is not about the values of one attribute")
        whole = self.whole(counts)
        occurs = whole.counts > 0 if whole.counts is not None else np.zeros(self.n_values, dtype=np.bool_)
        given = (Fraction(1),) * self.n_values if self.weights is None else self.weights
        weights = [weight if there else Fraction(0) for weight, there in zip(given, occurs, strict=True)]
        return Induced.of(self.taxonomy, weights, whole.size)

    def whole(self, counts: IntArray) -> Whole:
        """Return the whole table, which has *counts* records of each cell if these are all, as one class."""
        return self.as_one_class(counts) if self.table is None else self.table

    def as_one_class(self, counts: IntArray) -> Whole:
        """Return *counts* records of each cell as one class."""
        if self.people is not None:
            there = np.flatnonzero(counts)
            one = self.histograms_of_people(np.zeros(len(there), dtype=np.int64), there, 1)
            return Whole(int(one.sizes[0]), None if one.counts is None else one.counts[0], taxonomy=self.taxonomy)
        return Whole(
            size=int(counts.sum()),
            counts=None if self.values is None else kernels.sum_groups(self.values, counts, self.n_values),
            population=None if self.population is None else int(self.population.sum()),
            taxonomy=self.taxonomy,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Cells over the quasi attributes, in the order of their importance, and what must hold for their classes.

    A cell with a count of zero is one that only the population has.
    """

    quasi: tuple[Attribute, ...]
    sensitive: tuple[Attribute, ...]
    cells: Cells  # codes: quasi attributes, then sensitive ones
    requirements: tuple[Requirement, ...]
    max_withheld: int = 0
    carried: tuple[str, ...] = ()  # insensitive attributes, which are published as they are
    values: tuple[AnyIntArray, ...] = ()  # codes that tell source values apart, where leaves hold several
    numbers: tuple[FloatArray | None, ...] = ()  # (n_cells,) of each quasi attribute, if the method averages
    max_generalized: tuple[Fraction | None, ...] = ()  # shares of records, by sensitive attributes; None: no limit
    box: tuple[CodeArray, CodeArray] | None = None  # (n_quasi,) lo and hi of the region; None: all leaves there are

    @property
    def bounds(self) -> tuple[CodeArray, CodeArray]:
        """The leaves of each quasi attribute that classes may publish: (n_quasi,) the first, and after the last."""
        if self.box is not None:
            return self.box
        hi = np.array([attribute.taxonomy.n_leaves for attribute in self.quasi], dtype=np.int32)
        return np.zeros(len(hi), dtype=np.int32), hi

    @property
    def quasi_codes(self) -> tuple[AnyIntArray, ...]:
        """The code columns of the quasi attributes."""
        return self.cells.codes[: len(self.quasi)]

    @property
    def value_codes(self) -> tuple[AnyIntArray, ...]:
        """The code columns by which cells with different source values differ; leaves may hold several values."""
        return self.values or self.cells.codes

    def sensitive_places(self, requirement: Requirement) -> frozenset[int]:
        """Return the places of the sensitive attributes that a requirement is on; none for one that sees no values."""
        names = requirement.model.attributes
        return frozenset(place for place, attribute in enumerate(self.sensitive) if attribute.name in names)

    def may_generalize(self, place: int) -> bool:
        """Whether values of a sensitive attribute may be generalized: models ask about it, and all define what then is.

        Of joint values of several attributes none does.
        """
        name = self.sensitive[place].name
        asked = [one for one in self.requirements if one.place == place or name in one.model.attributes]
        return bool(asked) and all(
            one.place == place and isinstance(one.model, ValueModel) and one.model.judges_induced for one in asked
        )

    @property
    def smallest_class(self) -> int:
        """A size below which no class meets all requirements."""
        return max((requirement.model.smallest_class for requirement in self.requirements), default=1)
