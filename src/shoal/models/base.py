"""The base classes of privacy models: requirements on the sizes and value distributions of classes."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.dictionaries import fold_text
from shoal.models.exact import at_most, distinct_values, largest_sums
from shoal.taxonomies.tree import Taxonomy

Sees = Literal["sizes", "values", "population"]
SHARE_UNITS = 1 << 40  # total count by which a distribution given as shares is represented
SHARE_MARGIN = 1e-9  # far above the rounding errors of shares

# Weaknesses that several models have.
SAYS_NOTHING_OF_VALUES = (
    "It says nothing about sensitive values: if all records of a class share one, anyone known to be in the class is "
    "known to have that value."
)
SKEWNESS = (
    "It does not compare classes with the table: a value that is rare in the table may be frequent in a class, which "
    "can greatly raise the probability that a person has it."
)
SIMILARITY = "It distinguishes values only by name: different values of a class may mean nearly the same thing."
RULED_OUT = "An attacker who can rule out some values is left with fewer than the model guarantees."
PRESENCE = "It does not hide that a person is in the table."


@dataclass(frozen=True, slots=True)
class ClassHistograms:
    """Counts of classes. A model sees nothing else of a class and therefore works for any grouping of records."""

    sizes: IntArray  # (n_classes,) records
    counts: IntArray | None = None  # (n_classes, n_values) records of each sensitive value
    population: IntArray | None = None  # (n_classes,) records of the population table that the label covers
    unit: int = 1  # fractions per record; sizes count fractions

    @classmethod
    def of(cls, counts: object, population: object = None) -> ClassHistograms:
        """Build from nested lists; sizes are the row sums (for examples and tests)."""
        table = np.atleast_2d(np.asarray(counts, dtype=np.int64))
        people = None if population is None else np.asarray(population, dtype=np.int64)
        return cls(sizes=table.sum(axis=1), counts=table, population=people)

    @classmethod
    def of_shares(cls, shares: FloatArray) -> ClassHistograms:
        """Build from (n_classes, n_values) shares in floating point; each positive share gets a count of at least 1."""
        counts = np.maximum(np.rint(shares * SHARE_UNITS), shares > 0).astype(np.int64)
        return cls(sizes=counts.sum(axis=1), counts=counts)


@dataclass(frozen=True, slots=True)
class Whole:
    """The published table as one class: the adversary's knowledge before looking up a person."""

    size: int
    counts: IntArray | None = None  # (n_values,) in the order of ClassHistograms.counts
    population: int | None = None
    taxonomy: Taxonomy | None = None  # of the sensitive attribute; leaf i is value i

    @classmethod
    def of(cls, counts: object, population: int | None = None, taxonomy: Taxonomy | None = None) -> Whole:
        """Build from a list of counts (for examples and tests)."""
        row = np.asarray(counts, dtype=np.int64)
        return cls(size=int(row.sum()), counts=row, population=population, taxonomy=taxonomy)

    @property
    def shares(self) -> FloatArray | None:
        """(n_values,) the share of each value; None if values were not counted."""
        return None if self.counts is None else self.counts / self.size

    def as_class(self) -> ClassHistograms:
        return ClassHistograms(
            sizes=np.array([self.size], dtype=np.int64),
            counts=None if self.counts is None else self.counts[np.newaxis, :],
            population=None if self.population is None else np.array([self.population], dtype=np.int64),
        )


class Curve(NamedTuple):
    """A requirement in a form that compiled loops can evaluate; it is equivalent to ``holds``.

    The 1, 2, 3, ... most frequent values of a class have at most the shares *limits*, and the class has at least
    *distinct* values and *records* records.

    >>> Curve((Fraction(1, 2),)).judge(ClassHistograms.of([[2, 2], [3, 1]]))
    array([ True, False])
    """

    limits: tuple[Fraction, ...] = ()
    distinct: int = 1
    records: int = 1

    @property
    def smallest_class(self) -> int:
        """A size below which no class holds: even if all values differ, k of them have the share k/n."""
        points = enumerate(self.limits, start=1)
        return max(self.records, self.distinct, *(math.ceil(k / limit) for k, limit in points), 1)

    def judge(self, classes: ClassHistograms) -> BoolArray:
        """Return (n_classes,) whether each class satisfies the curve, in exact arithmetic."""
        verdict = np.asarray(classes.sizes >= self.records * classes.unit)
        if not self.limits and self.distinct == 1:
            return verdict
        if classes.counts is None:
            raise TypeError("a limit on values needs counts of sensitive values; only sizes were counted")
        for most, limit in zip(largest_sums(classes.counts, len(self.limits)).T, self.limits, strict=False):
            verdict &= at_most(most, limit, classes.sizes)
        # If k values have less than the whole class, another value occurs.
        if self.distinct > 1 + sum(limit < 1 for limit in self.limits):
            verdict &= distinct_values(classes.counts) >= self.distinct
        return verdict


class PrivacyModel(BaseModel, ABC):
    """A requirement on every class of a release.

    Fields are the model's parameters. Messages, help, JSON Schema and forms are derived from their declared limits and
    descriptions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: ClassVar[str]
    title: ClassVar[str]  # the requirement in one plain sentence
    weaknesses: ClassVar[str]  # attacks that it does not prevent
    explanation: ClassVar[str] = ""  # the guarantee, for readers who do not know the model
    example: ClassVar[str] = ""  # the meaning of typical parameters
    usual: ClassVar[Mapping[str, Any]] = {}  # typical values of the required parameters
    sees: ClassVar[Sees]
    achieved_is: ClassVar[Literal["at least", "at most"]]  # which direction of ``achieved`` is better
    relative_to_whole: ClassVar[bool] = False  # compares classes with the table, which itself holds
    one_value_each: ClassVar[bool] = False  # compares distributions in which each person has a single value
    of_parts: ClassVar[bool] = False  # constrains buckets and parts of a sliced table, not classes

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse an incomplete model when it is defined rather than when a release is described."""
        super().__pydantic_init_subclass__(**kwargs)
        absent = [word for word in ("name", "title", "weaknesses", "sees", "achieved_is") if not hasattr(cls, word)]
        if cls.holds is PrivacyModel.holds and cls.curve is PrivacyModel.curve:
            absent.append("curve or holds")
        if absent and not inspect.isabstract(cls):
            raise TypeError(f"the privacy model {cls.__name__} does not define {', '.join(absent)}")

    @property
    def subject(self) -> str:
        """The model's name, and its attribute if the policy names one; messages begin with it."""
        return self.name

    @property
    def attributes(self) -> tuple[str, ...]:
        """The sensitive attributes that the model names: several are taken jointly; if none is named, all are meant."""
        return ()

    @property
    def merge_monotone(self) -> bool:
        """Whether the union of two classes that satisfy the model always satisfies it (in the same table)."""
        return True

    @property
    def knows_values(self) -> bool:
        """Whether it depends on which values occur and not only on their frequencies in a class."""
        return self.relative_to_whole

    @property
    def curve(self) -> Curve | None:
        """The requirement as a curve, if it is one."""
        return None

    @property
    def smallest_class(self) -> int:
        """A size below which no class holds; methods skip cuts into such classes."""
        curve = self.curve
        return 1 if curve is None else curve.smallest_class

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        """Return (n_classes,) whether each class satisfies the model: exactly, or False if in doubt.

        A class without records never does. Models with a curve inherit this method.
        """
        curve = self.curve
        if curve is None:
            raise TypeError(f"{self.subject} defines neither a curve nor holds")
        return curve.judge(classes)

    @abstractmethod
    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) the strongest value of the main parameter that each class satisfies.

        A class without records reaches 0 if more is better and infinity if less is.
        """

    def worst(self, classes: ClassHistograms, whole: Whole) -> float:
        """Return the strongest value of the main parameter that all classes satisfy."""
        values = self.reach(classes, whole)
        return float(values.min() if self.achieved_is == "at least" else values.max())

    def promises_nothing(self, whole: Whole) -> bool:
        """Whether even the worst possible class, a single record, satisfies the model."""
        return bool(self.holds(ClassHistograms(np.ones(1, dtype=np.int64)), whole).all())

    def why_unreachable(self, whole: Whole) -> str | None:
        """Explain why no release of this table can satisfy the model, and what it can reach; None if one can.

        For merge-monotone models the table as a single class is the best case.
        """
        if not self.merge_monotone or bool(self.holds(whole.as_class(), whole)[0]):
            return None
        return f"{self.subject}: {self.explain_shortfall(whole, self.worst(whole.as_class(), whole))}"

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        """Compare the required parameter with the parameter that the table *reached* as a single class."""
        return f"even the whole table as one class reaches only {reached:.6g}"


class ValueModel(PrivacyModel):
    """A requirement on the distribution of sensitive values."""

    sees = "values"
    # Whether mixtures of satisfying distributions satisfy it, and rounded distributions can be judged.
    judges_beliefs: ClassVar[bool] = False
    # Whether it is defined for generalized sensitive values; otherwise none may be generalized.
    judges_induced: ClassVar[bool] = False
    # The parameter that bounds shares or distances from above, from which a margin for rounding is subtracted.
    bounded_by: ClassVar[str | None] = None

    attribute: str | tuple[str, ...] | None = Field(
        default=None,
        description="the sensitive attribute it holds for; a list means their joint distribution; "
        "if omitted, it holds for every sensitive attribute",
    )

    @property
    def subject(self) -> str:
        if self.attribute is None:
            return self.name
        if isinstance(self.attribute, str):
            return f"{self.name} on {self.attribute!r}"
        return f"{self.name} on {', '.join(map(repr, self.attribute))} together"

    @property
    def attributes(self) -> tuple[str, ...]:
        if self.attribute is None:
            return ()
        return (self.attribute,) if isinstance(self.attribute, str) else self.attribute

    def values_of(self, histograms: ClassHistograms | Whole) -> IntArray:
        """Return the counts of sensitive values, which callers of a value model must provide."""
        if histograms.counts is None:
            raise TypeError(f"{self.subject} needs counts of sensitive values; only sizes were counted")
        return histograms.counts

    def promises_nothing(self, whole: Whole) -> bool:
        """Whether classes with any single value satisfy the model; tests the rarest value first."""
        rarest = np.argsort(self.values_of(whole), kind="stable")
        for some in np.split(rarest, range(1, len(rarest), 64)):
            counts = np.zeros((len(some), len(rarest)), dtype=np.int64)
            counts[np.arange(len(some)), some] = whole.size
            if not self.holds(ClassHistograms(counts.sum(axis=1), counts), whole).all():
                return False
        return True

    def holds_true(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether the true values of groups satisfy the model, however they are published.

        The transparent reader counts people by their true values (docs/adr/0007-transparent-reader.md).
        """
        return self.holds(classes, whole)

    def holds_surely(self, shares: FloatArray, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether distributions given as rounded shares surely satisfy the model.

        A margin is moved from the rarest values to the most frequent one. For every k, the k most frequent values then
        have at least their true share, which is worse under every model that requires evenly spread values and ignores
        which values they are. Models with an upper bound subtract the margin from the bound.
        """
        if self.bounded_by is not None:
            bound = getattr(self, self.bounded_by) - (SHARE_MARGIN + shares.shape[1] / SHARE_UNITS)
            if bound <= 0:
                return np.zeros(len(shares), dtype=np.bool_)
            return self.model_copy(update={self.bounded_by: bound}).holds(ClassHistograms.of_shares(shares), whole)
        counts = self.values_of(ClassHistograms.of_shares(shares))
        margin = margin_of(shares)
        rising = np.sort(counts, axis=1)
        rarer = np.cumsum(rising, axis=1) - rising
        given = np.clip(margin - rarer, 0, rising)
        given[:, -1] = 0
        rising -= given
        rising[:, -1] += given.sum(axis=1)
        return self.holds(ClassHistograms(rising.sum(axis=1), rising), whole)


class DisclosureModel(ValueModel):
    """A requirement on harmful values; ``docs/models.md`` defines each model for tables with harmless ones."""

    harmless: tuple[str, ...] | None = Field(default=None, description="values that may have any frequency")

    @model_validator(mode="after")
    def _of_one_attribute(self) -> Self:
        if self.harmless and len(self.attributes) > 1:
            raise ValueError("harmless cannot name joint values: leave it out, or name one attribute")
        return self

    @property
    def knows_values(self) -> bool:
        return bool(self.harmless) or self.relative_to_whole

    @property
    def bounds(self) -> Curve | None:
        """The requirement on harmful values as a curve, if it is one."""
        return None

    @property
    def curve(self) -> Curve | None:
        """The requirement as a curve, if all values are harmful."""
        return None if self.knows_values else self.bounds

    def find_harmful(self, whole: Whole) -> BoolArray:
        """Return (n_values,) whether each value is harmful: missing ones always, and all if their names are unknown."""
        if not self.harmless or whole.taxonomy is None:
            return np.ones(len(self.values_of(whole)), dtype=np.bool_)
        return _find_harmful(whole.taxonomy.leaf_labels, whole.taxonomy.missing, self.harmless)

    def harmful_of(self, classes: ClassHistograms, whole: Whole) -> ClassHistograms:
        """Return the classes with the counts of their harmful values only."""
        counts = self.values_of(classes)
        return replace(classes, counts=counts[:, self.find_harmful(whole)]) if self.harmless else classes

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether the harmful values of each class satisfy the curve."""
        bounds = self.bounds
        return super().holds(classes, whole) if bounds is None else bounds.judge(self.harmful_of(classes, whole))

    def holds_surely(self, shares: FloatArray, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether rounded distributions surely hold; harmful shares are raised by a margin."""
        if not self.harmless or self.bounded_by is not None:
            return super().holds_surely(shares, whole)
        classes = ClassHistograms.of_shares(shares)
        counts = self.values_of(classes)
        return self.holds(replace(classes, counts=np.where(counts > 0, counts + margin_of(shares), 0)), whole)


def margin_of(shares: FloatArray) -> int:
    """Return the largest error of the counts that represent shares: one per value, plus the rounding of the shares."""
    return int(SHARE_MARGIN * SHARE_UNITS + shares.shape[1])


@lru_cache(maxsize=16)
def _find_harmful(labels: tuple[str, ...], missing: int | None, harmless: tuple[str, ...]) -> BoolArray:
    folded = frozenset(map(fold_text, harmless))
    return np.array([value == missing or fold_text(label) not in folded for value, label in enumerate(labels)])


class PopulationModel(PrivacyModel):
    """A requirement on the people of a population table that share a class's label."""

    sees = "population"

    population: str = Field(description="path of the table of all people whom an adversary may consider")

    def people_of(self, classes: ClassHistograms) -> IntArray:
        """Return (n_classes,) the population under each label, which the caller must provide."""
        if classes.population is None:
            raise TypeError(f"{self.subject} needs the population under each class; it was not counted")
        return classes.population

    def people_in_all(self, whole: Whole) -> int:
        if whole.population is None:
            raise TypeError(f"{self.subject} needs the size of the population; it was not counted")
        return whole.population

    def promises_nothing(self, whole: Whole) -> bool:
        """Whether labels that fit one person, or an enormous number of people, satisfy the model."""
        people = np.array([1, 1 << 40], dtype=np.int64)
        return bool(self.holds(ClassHistograms(np.ones(2, dtype=np.int64), population=people), whole).all())


class TableModel(PrivacyModel):
    """A requirement on the sizes of all classes of a release together.

    Every method can serve it, because it holds for all classes together if it holds for each of them. Methods that see
    all classes together can satisfy it with less (docs/adr/0005-models.md).
    """

    sees = "sizes"
    achieved_is = "at most"

    @property
    def enough(self) -> int:
        """A class size that is always sufficient: no record of a class of two is unique."""
        return 2

    @property
    def curve(self) -> Curve:
        return Curve(records=self.enough)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) the share of unique records in each class by itself."""
        shares: FloatArray = np.where(classes.sizes == 1, 1.0, np.where(classes.sizes == 0, np.inf, 0.0))
        return shares

    @abstractmethod
    def holds_together(self, sizes: IntArray) -> bool:
        """Whether a table whose classes have these sizes, each at least 1, satisfies the model."""

    @abstractmethod
    def reach_together(self, sizes: IntArray) -> float:
        """Return the share that the table with these class sizes reaches."""

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        return "the table has only one record, which is unique"


def number(value: float) -> str:
    """Write a number without trailing zeros.

    >>> number(4.0), number(0.25)
    ('4', '0.25')
    """
    return f"{value:.15g}"


def round_down(value: float, digits: int) -> str:
    """Round down to at most *digits* decimals.

    >>> round_down(10.579, 2)
    '10.57'
    """
    return _round(value, digits, ROUND_FLOOR)


def round_up(value: float, digits: int) -> str:
    """Round up to at most *digits* decimals.

    >>> round_up(0.12341, 4), round_up(0.5, 4)
    ('0.1235', '0.5')
    """
    return _round(value, digits, ROUND_CEILING)


def _round(value: float, digits: int, rounding: str) -> str:
    # repr is the shortest text of a floating-point number: 0.3 stays 0.3 and is not rounded up to 0.3001
    rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), rounding=rounding)
    return f"{rounded.normalize():f}"
