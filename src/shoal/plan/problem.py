"""The input of a method: cells, taxonomies and requirements, without files or engines.

Requirements may count people instead of records, and judge generalized sensitive values by induced frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import PolicyError
from shoal.core.kernels import kernel
from shoal.models.base import ClassHistograms, PrivacyModel, ValueModel, Whole
from shoal.plan.cells import Cells
from shoal.taxonomies.tree import Taxonomy


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """A quasi-identifier or sensitive attribute: its name, taxonomy and weight."""

    name: str
    taxonomy: Taxonomy
    weight: float = 1.0
    has_variants: bool = False  # whether a leaf has several spellings of a sensitive value
    value_weights: Mapping[str, float] | None = None  # of labels, in the order of the sweep


@dataclass(frozen=True, slots=True, eq=False)
class Requirement:
    """A privacy model bound to the columns that it is about.

    ``values`` are the codes of the sensitive attribute, or of a combination of several, for each cell; ``population``
    counts the population's records of each cell. Each is set only if the model needs it. ``place`` is the position of
    the sensitive attribute if there is only one, and ``weights`` are the adversary's, if the policy has them. If the
    cells belong to a region, ``table`` is the whole table.
    """

    model: PrivacyModel
    number: int  # position of the model in the policy
    values: CodeArray | None = None  # (n_cells,)
    n_values: int = 0
    taxonomy: Taxonomy | None = None
    population: IntArray | None = None  # (n_cells,)
    population_name: str = ""
    place: int | None = None
    weights: tuple[Fraction, ...] | None = None  # (n_leaves,)
    table: Whole | None = None
    counts: str | None = None  # the policy key of the people that it counts; None: records
    people: People | None = None  # the people of the cells, if people are counted
    of_true_values: bool = False  # whether it is about unpublished values, before a technique

    @property
    def merge_monotone(self) -> bool:
        """Whether the union of two classes that satisfy the requirement always satisfies it.

        If people are counted, a person may be in both classes: then the union has fewer people than the sum, and a
        value may have a larger share of them.
        """
        return self.model.merge_monotone and (self.people is None or self.values is None)

    def histograms_of_people(self, class_of: AnyIntArray, cells: AnyIntArray, n_classes: int) -> ClassHistograms:
        """Return the histograms of people in classes, given the class of each of some cells."""
        if self.people is None:
            raise TypeError(f"{self.model.subject} counts records")
        return self.people.histograms(self.model, class_of, cells, n_classes, self.n_values)

    def values_at(self, cells: AnyIntArray) -> CodeArray:
        """Return the sensitive values of these cells; the requirement must be about values."""
        if self.values is None:
            raise TypeError(f"{self.model.subject} is not about the values of an attribute")
        return self.values[cells]

    def induce(self, counts: IntArray) -> InducedFrequency:
        """Return how generalized values of the attribute spread in a table of *counts* records of each cell."""
        if self.values is None or self.taxonomy is None:
            raise TypeError(f"{self.model.subject} is not about the values of one attribute")
        whole = self.whole(counts)
        occurs = whole.counts > 0 if whole.counts is not None else np.zeros(self.n_values, dtype=np.bool_)
        given = (Fraction(1),) * self.n_values if self.weights is None else self.weights
        weights = [weight if there else Fraction(0) for weight, there in zip(given, occurs, strict=True)]
        return InducedFrequency.of(self.taxonomy, weights, whole.size)

    def whole(self, counts: IntArray) -> Whole:
        """Return the whole table as one class; *counts* are the records of each cell, unless the cells are a region."""
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
    """Cells over the quasi-identifiers, in descending order of importance, and the requirements on their classes.

    Cells with a count of zero occur in a population only.
    """

    quasi: tuple[Attribute, ...]
    sensitive: tuple[Attribute, ...]
    cells: Cells  # codes: quasi-identifiers, then sensitive attributes
    requirements: tuple[Requirement, ...]
    max_withheld: int = 0
    carried: tuple[str, ...] = ()  # insensitive attributes, published unchanged
    values: tuple[AnyIntArray, ...] = ()  # codes of source values, if leaves have several
    numbers: tuple[FloatArray | None, ...] = ()  # (n_cells,) for each quasi-identifier, if the method averages
    max_generalized: tuple[Fraction | None, ...] = ()  # share of records for each sensitive attribute; None: no limit
    box: tuple[CodeArray, CodeArray] | None = None  # (n_quasi,) lo and hi of the region; None: all leaves

    @property
    def bounds(self) -> tuple[CodeArray, CodeArray]:
        """The leaf ranges that classes may publish: (n_quasi,) lo and (n_quasi,) hi."""
        if self.box is not None:
            return self.box
        hi = np.array([attribute.taxonomy.n_leaves for attribute in self.quasi], dtype=np.int32)
        return np.zeros(len(hi), dtype=np.int32), hi

    @property
    def quasi_codes(self) -> tuple[AnyIntArray, ...]:
        return self.cells.codes[: len(self.quasi)]

    @property
    def value_codes(self) -> tuple[AnyIntArray, ...]:
        """The code columns that separate cells with different source values; a leaf may have several."""
        return self.values or self.cells.codes

    def sensitive_places(self, requirement: Requirement) -> frozenset[int]:
        """Return the positions of the sensitive attributes that a requirement is about."""
        names = requirement.model.attributes
        return frozenset(place for place, attribute in enumerate(self.sensitive) if attribute.name in names)

    def may_generalize(self, place: int) -> bool:
        """Whether values of a sensitive attribute may be generalized.

        All models about it must define the frequency of generalized values, and there must be such a model. No model
        defines it for joint values of several attributes. If a value has several spellings, a label would have to list
        them all.
        """
        name = self.sensitive[place].name
        if self.sensitive[place].has_variants:
            return False
        asked = [one for one in self.requirements if one.place == place or name in one.model.attributes]
        if any(one.model.knows_values for one in asked):
            return False
        return bool(asked) and all(
            one.place == place and isinstance(one.model, ValueModel) and one.model.judges_induced for one in asked
        )

    @property
    def smallest_class(self) -> int:
        return max((requirement.model.smallest_class for requirement in self.requirements), default=1)


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """The people of the cells, for models that count people (docs/adr/0006-people.md).

    A person counts once in a class, and once for each of their values there, however many records they have.
    """

    person: CodeArray  # (n_cells,) codes below n_persons
    n_persons: int
    pair: CodeArray | None = None  # (n_cells,) codes of distinct pairs of person and value; None: no values
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
        return self.value_of is not None and len(self.value_of) > self.n_persons

    def histograms(
        self, model: PrivacyModel, class_of: AnyIntArray, cells: AnyIntArray, n_classes: int, n_values: int
    ) -> ClassHistograms:
        """Return the histograms of classes for a model, given the class of each of some cells.

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


@kernel
def _count_once(first: IntArray, code: CodeArray, column_of: CodeArray, counts: IntArray) -> IntArray:
    """Add 1 for each class and column of its codes, however often a code occurs in the class."""
    last = np.full(len(column_of), -1, dtype=np.int32)  # the last class in which each code occurred
    for c in range(len(first) - 1):
        for item in range(first[c], first[c + 1]):
            if last[code[item]] != c:
                last[code[item]] = c
                counts[c, column_of[code[item]]] += 1
    return counts


def most_concentrated(counts: IntArray, sizes: IntArray) -> IntArray:
    """Return (n_classes, n_values) counts that add up to the sizes, with the most frequent values first.

    A person with several values is in several counts. Whichever value each person is assigned, the k most frequent
    values together never have more people than in this result, for any k. So if a model depends only on how even the
    values are, it holds for every assignment if it holds for this one.

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


_WIDEST = 1 << 61


@dataclass(frozen=True, slots=True, eq=False)
class InducedFrequency:
    """The frequencies that an adversary induces: a label counts for each leaf below it, in proportion to the weights.

    Tian and Zhang, Definition 2. To stay exact, a record consists of ``factor`` units, enough to make every share a
    whole number; a record that publishes its own value gives all units to that value. Nodes that would need more units
    than 64-bit sums can hold are not ``allowed``; the root always is.

    >>> from shoal.taxonomies.files import from_nested
    >>> disease = from_nested({"any": {"hemal": ["hepatitis", "anemia"], "other": ["phthisis", "flu"]}})
    >>> induced = InducedFrequency.of(disease, [Fraction(1)] * 4, 12)
    >>> induced.factor, induced.counts(np.array([[2, 0, 1, 0, 1, 0, 0]])).tolist()
    (4, [[10, 2, 4, 0]])
    """

    taxonomy: Taxonomy
    weights: IntArray  # (n_leaves,) whole numbers
    totals: IntArray  # (n_nodes,) weight below each node
    allowed: BoolArray  # (n_nodes,) whether a record may be published as this node
    factor: int

    @classmethod
    def of(cls, taxonomy: Taxonomy, weights: Sequence[Fraction], n_records: int) -> InducedFrequency:
        """Choose the units for a table of *n_records* records."""
        scale = math.lcm(*(weight.denominator for weight in weights))
        whole = [int(weight * scale) for weight in weights]
        common = math.gcd(*whole) or 1
        if sum(whole) // common * max(n_records, 1) >= _WIDEST:
            raise PolicyError("the weights are too fine to be added exactly; give them with fewer digits")
        exact = np.array(whole, dtype=np.int64) // common
        running = np.concatenate([[0], np.cumsum(exact)])
        totals = running[taxonomy.hi] - running[taxonomy.lo]
        allowed = np.zeros(taxonomy.n_nodes, dtype=np.bool_)
        allowed[: taxonomy.n_leaves] = True
        factor = 1
        inner = range(taxonomy.n_leaves, taxonomy.n_nodes)
        for node in sorted(inner, key=lambda node: (int(taxonomy.level[node]), node)):
            below = exact[taxonomy.lo[node] : taxonomy.hi[node]]
            if not totals[node]:
                continue
            needed = math.lcm(factor, int(totals[node]) // int(np.gcd.reduce(below)))
            if needed * max(n_records, 1) < _WIDEST:
                factor = needed
                allowed[node] = True
        return cls(taxonomy, exact, totals, allowed, factor)

    def units(self, node: int) -> IntArray:
        """Return the units that a record published as *node* gives to each leaf below it."""
        if node < self.taxonomy.n_leaves:
            return np.array([self.factor], dtype=np.int64)
        below = self.weights[self.taxonomy.lo[node] : self.taxonomy.hi[node]]
        share = int(self.totals[node]) // int(np.gcd.reduce(below))
        result: IntArray = below // int(np.gcd.reduce(below)) * (self.factor // share)
        return result

    def counts(self, by_node: IntArray) -> IntArray:
        """Return (n_classes, n_leaves) units of each leaf, given (n_classes, n_nodes) records of each node."""
        n_leaves = self.taxonomy.n_leaves
        result = by_node[:, :n_leaves] * self.factor
        for node in (np.flatnonzero(by_node[:, n_leaves:].any(axis=0)) + n_leaves).tolist():
            below = slice(self.taxonomy.lo[node], self.taxonomy.hi[node])
            result[:, below] += by_node[:, node, np.newaxis] * self.units(node)
        return result

    def steps(self, allowed: BoolArray) -> CodeArray:
        """Return (n_nodes,) the next *allowed* node above each with more weighted leaves; the root is its own."""
        parent = self.taxonomy.parent
        spread = np.concatenate([[0], np.cumsum(self.weights > 0)])
        wide = spread[self.taxonomy.hi] - spread[self.taxonomy.lo]
        following = np.empty(self.taxonomy.n_nodes, dtype=np.int32)
        for node in range(self.taxonomy.n_nodes):
            up = node
            while up != self.taxonomy.root and (up == node or not allowed[up] or wide[up] <= wide[node]):
                up = int(parent[up])
            following[node] = up
        return following
