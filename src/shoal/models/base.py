"""What a privacy model is: a statement about the distribution of values within each class."""

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
SHARE_UNITS = 1 << 40  # counts that a distribution given as shares is stated in
SHARE_MARGIN = 1e-9  # far above what rounding does to shares

# Limits that several models have.
SAYS_NOTHING_OF_VALUES = (
    "It says nothing about sensitive values: if all records of a class agree in one, everybody who is known to be "
    "there is known to have it."
)
SKEWNESS = (
    "It does not compare classes with the table: a value that is rare in the table may be frequent in a class, so the "
    "chance of somebody having it can rise a lot."
)
SIMILARITY = "It distinguishes values only by name: different values of a class may mean nearly the same."
RULED_OUT = "Somebody who can rule some values out has fewer left than promised."
PRESENCE = "It does not hide that somebody is in the table."


@dataclass(frozen=True, slots=True)
class ClassHistograms:
    """Counts of classes: all that a model may see of them, so that it serves any grouping of records."""

    sizes: IntArray  # (n_classes,) records
    counts: IntArray | None = None  # (n_classes, n_values) records of each sensitive value
    population: IntArray | None = None  # (n_classes,) records of the population table that the label covers
    unit: int = 1  # parts that a record is cut into; sizes count parts too

    @classmethod
    def of(cls, counts: object, population: object = None) -> ClassHistograms:
        """Build from nested lists, sizes being the row sums (for examples and tests)."""
        table = np.atleast_2d(np.asarray(counts, dtype=np.int64))
        people = None if population is None else np.asarray(population, dtype=np.int64)
        return cls(sizes=table.sum(axis=1), counts=table, population=people)

    @classmethod
    def of_shares(cls, shares: FloatArray) -> ClassHistograms:
        """Build from (n_classes, n_values) shares in floating point; values that occur keep at least one count."""
        counts = np.maximum(np.rint(shares * SHARE_UNITS), shares > 0).astype(np.int64)
        return cls(sizes=counts.sum(axis=1), counts=counts)


@dataclass(frozen=True, slots=True)
class Whole:
    """The published table as one class: what an adversary knows before looking anybody up."""

    size: int
    counts: IntArray | None = None  # (n_values,) the same values as in ClassHistograms.counts
    population: int | None = None
    taxonomy: Taxonomy | None = None  # of the sensitive attribute; leaf i is value i

    @classmethod
    def of(cls, counts: object, population: int | None = None, taxonomy: Taxonomy | None = None) -> Whole:
        """Build from a list of counts (for examples and tests)."""
        row = np.asarray(counts, dtype=np.int64)
        return cls(size=int(row.sum()), counts=row, population=population, taxonomy=taxonomy)

    @property
    def shares(self) -> FloatArray | None:
        """Return (n_values,) the share of each value; None if values were not counted."""
        return None if self.counts is None else self.counts / self.size

    def as_class(self) -> ClassHistograms:
        """Return the whole table as the only class."""
        return ClassHistograms(
            sizes=np.array([self.size], dtype=np.int64),
            counts=None if self.counts is None else self.counts[np.newaxis, :],
            population=None if self.population is None else np.array([self.population], dtype=np.int64),
        )


class Curve(NamedTuple):
    """A requirement in the form that compiled loops can judge.

    The 1, 2, 3, ... most frequent values have at most these shares of a class, so many values occur, and so many
    records. It says the same as ``holds``.

    >>> Curve((Fraction(1, 2),)).judge(ClassHistograms.of([[2, 2], [3, 1]]))
    array([ True, False])
    """

    limits: tuple[Fraction, ...] = ()
    distinct: int = 1
    records: int = 1

    @property
    def smallest_class(self) -> int:
        """A size below which no class holds: all values different is best, and k of n records are k/n of a class."""
        points = enumerate(self.limits, start=1)
        return max(self.records, self.distinct, *(math.ceil(k / limit) for k, limit in points), 1)

    def judge(self, classes: ClassHistograms) -> BoolArray:
        """Return (n_classes,) whether each class stays under the curve, exactly."""
        verdict = np.asarray(classes.sizes >= self.records * classes.unit)
        if not self.limits and self.distinct == 1:
            return verdict
        if classes.counts is None:
            raise TypeError("a limit on values needs counts of sensitive values; only sizes were counted")
        for most, limit in zip(largest_sums(classes.counts, len(self.limits)).T, self.limits, strict=False):
            verdict &= at_most(most, limit, classes.sizes)
        # k values with less than the whole class leave a record to another value.
        if self.distinct > 1 + sum(limit < 1 for limit in self.limits):
            verdict &= distinct_values(classes.counts) >= self.distinct
        return verdict


class PrivacyModel(BaseModel, ABC):
    """A requirement on every class of a release.

    Fields are the model's parameters; their limits and descriptions are declared once, here, and messages,
    help, JSON Schema and forms come from them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: ClassVar[str]
    title: ClassVar[str]  # a plain sentence for people: what every class of a release then has
    weaknesses: ClassVar[str]  # what it does not protect against: a promise without its limits is advertising
    explanation: ClassVar[str] = ""  # what it promises, for people who have never heard of it
    example: ClassVar[str] = ""  # what a usual choice means
    usual: ClassVar[Mapping[str, Any]] = {}  # such a choice, of the parameters that must be given
    sees: ClassVar[Sees]
    achieved_is: ClassVar[Literal["at least", "at most"]]  # which way ``achieved`` is good
    relative_to_whole: ClassVar[bool] = False  # compares classes with the table, which itself holds
    one_value_each: ClassVar[bool] = False  # compares distributions, in which nobody can have several values
    of_parts: ClassVar[bool] = False  # about buckets and parts of a sliced table, not about classes

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a model that does not say what it is, when it is defined rather than when a release is described."""
        super().__pydantic_init_subclass__(**kwargs)
        absent = [word for word in ("name", "title", "weaknesses", "sees", "achieved_is") if not hasattr(cls, word)]
        if cls.holds is PrivacyModel.holds and cls.curve is PrivacyModel.curve:
            absent.append("curve, or when it holds")
        if absent and not inspect.isabstract(cls):
            raise TypeError(f"the privacy model {cls.__name__} does not say its {', '.join(absent)}")

    @property
    def subject(self) -> str:
        """The model's name, and what it holds for where the policy says so; messages begin with it."""
        return self.name

    @property
    def attributes(self) -> tuple[str, ...]:
        """The sensitive attributes that the model names: several mean their joint values, none means each."""
        return ()

    @property
    def merge_monotone(self) -> bool:
        """Whether the union of two classes that hold always holds (with the whole table unchanged)."""
        return True

    @property
    def knows_values(self) -> bool:
        """Whether it tells values apart by more than their frequency in a class, so that none may be renamed."""
        return self.relative_to_whole

    @property
    def curve(self) -> Curve | None:
        """The requirement as a curve, if it is one."""
        return None

    @property
    def smallest_class(self) -> int:
        """A size below which no class can hold; lets methods skip hopeless cuts."""
        curve = self.curve
        return 1 if curve is None else curve.smallest_class

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        """Return (n_classes,) whether each class meets the requirement; exact, or refusing in doubt.

        A class without records never holds: there is nothing in it that could be published. A model that is a curve
        need not say more than its curve.
        """
        curve = self.curve
        if curve is None:
            raise TypeError(f"{self.subject} has no curve to judge classes by")
        return curve.judge(classes)

    @abstractmethod
    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) the strongest main parameter that each class meets, as far as shares go.

        A class without records reaches 0 where more is better, infinity where less is.
        """

    def worst(self, classes: ClassHistograms, whole: Whole) -> float:
        """Return the strongest main parameter that all classes meet."""
        values = self.reach(classes, whole)
        return float(values.min() if self.achieved_is == "at least" else values.max())

    def promises_nothing(self, whole: Whole) -> bool:
        """Whether even the worst class meets the requirement, so that it rules nothing out: a single record."""
        return bool(self.holds(ClassHistograms(np.ones(1, dtype=np.int64)), whole).all())

    def why_unreachable(self, whole: Whole) -> str | None:
        """Say why no release of this table can hold, and what would be reachable; None if one can.

        For models that merging cannot break the table as a single class is the best there is.
        """
        if not self.merge_monotone or bool(self.holds(whole.as_class(), whole)[0]):
            return None
        return f"{self.subject}: {self.explain_shortfall(whole, self.worst(whole.as_class(), whole))}"

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        """Say what was asked for and what would be reachable, of a table that as one class has *reached* only that."""
        return f"even the whole table as one class reaches only {reached:.6g}"


class ValueModel(PrivacyModel):
    """A requirement on the distribution of sensitive values."""

    sees = "values"
    # Whether mixtures of distributions that hold do hold, and rounded distributions can be judged.
    judges_beliefs: ClassVar[bool] = False
    # Whether it has a definition for records that publish a generalized value; without one, none may be generalized.
    judges_induced: ClassVar[bool] = False
    # The parameter from which rounding is taken off, of a model that bounds shares or distances from above.
    bounded_by: ClassVar[str | None] = None

    attribute: str | tuple[str, ...] | None = Field(
        default=None,
        description="the sensitive attribute it holds for; a list means their joint distribution; "
        "without it, it holds for every sensitive attribute",
    )

    @property
    def subject(self) -> str:
        """The model's name and its attribute, if it names one."""
        if self.attribute is None:
            return self.name
        if isinstance(self.attribute, str):
            return f"{self.name} on {self.attribute!r}"
        return f"{self.name} on {', '.join(map(repr, self.attribute))} together"

    @property
    def attributes(self) -> tuple[str, ...]:
        """The sensitive attributes that the model names."""
        if self.attribute is None:
            return ()
        return (self.attribute,) if isinstance(self.attribute, str) else self.attribute

    def values_of(self, histograms: ClassHistograms | Whole) -> IntArray:
        """Return the counts of sensitive values, which whoever calls a value model must have taken."""
        if histograms.counts is None:
            raise TypeError(f"{self.subject} needs counts of sensitive values; only sizes were counted")
        return histograms.counts

    def promises_nothing(self, whole: Whole) -> bool:
        """Whether classes of any single value meet the requirement, the rarest value's first."""
        rarest = np.argsort(self.values_of(whole), kind="stable")
        for some in np.split(rarest, range(1, len(rarest), 64)):
            counts = np.zeros((len(some), len(rarest)), dtype=np.int64)
            counts[np.arange(len(some)), some] = whole.size
            if not self.holds(ClassHistograms(counts.sum(axis=1), counts), whole).all():
                return False
        return True

    def holds_true(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether the true values of groups satisfy the model, whatever is published of them.

        The transparent reader counts people by their true values (docs/adr/0007-transparent-reader.md).
        """
        return self.holds(classes, whole)

    def holds_surely(self, shares: FloatArray, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether distributions given as rounded shares meet the requirement; in doubt they do not.

        A margin goes from the rarest values to the most frequent one. The k most frequent then have at least their true
        share, for every k, which is worse for every model that wants values evenly spread and does not care which they
        are. Models that compare with a bound take the margin from the bound.
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
    """A requirement on the values that may harm people; ``docs/models.md`` defines each with harmless ones."""

    harmless: tuple[str, ...] | None = Field(default=None, description="values that may have any frequency")

    @model_validator(mode="after")
    def _of_one_attribute(self) -> Self:
        if self.harmless and len(self.attributes) > 1:
            raise ValueError("joint values have no names: leave out harmless, or name one attribute")
        return self

    @property
    def knows_values(self) -> bool:
        """Harmless values are given by their names."""
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
        """Return (n_values,) whether each value is harmful; without their names, all are. A missing one always is."""
        if not self.harmless or whole.taxonomy is None:
            return np.ones(len(self.values_of(whole)), dtype=np.bool_)
        return _find_harmful(whole.taxonomy.leaf_labels, whole.taxonomy.missing, self.harmless)

    def harmful_of(self, classes: ClassHistograms, whole: Whole) -> ClassHistograms:
        """Return the classes with the counts of their harmful values only."""
        counts = self.values_of(classes)
        return replace(classes, counts=counts[:, self.find_harmful(whole)]) if self.harmless else classes

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether the harmful values of each class stay under the curve."""
        return (
            super().holds(classes, whole) if self.bounds is None else self.bounds.judge(self.harmful_of(classes, whole))
        )

    def holds_surely(self, shares: FloatArray, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether rounded distributions hold; with harmless values, all shares rise by a margin."""
        if not self.harmless or self.bounded_by is not None:
            return super().holds_surely(shares, whole)
        classes = ClassHistograms.of_shares(shares)
        counts = self.values_of(classes)
        return self.holds(replace(classes, counts=np.where(counts > 0, counts + margin_of(shares), 0)), whole)


def margin_of(shares: FloatArray) -> int:
    """Return the counts by which a distribution given as shares may be off: one for each value, and the rounding."""
    return int(SHARE_MARGIN * SHARE_UNITS + shares.shape[1])


@lru_cache(maxsize=16)
def _find_harmful(labels: tuple[str, ...], missing: int | None, harmless: tuple[str, ...]) -> BoolArray:
    folded = frozenset(map(fold_text, harmless))
    return np.array([value == missing or fold_text(label) not in folded for value, label in enumerate(labels)])


class PopulationModel(PrivacyModel):
    """A requirement on the people of a population table that share a class's label."""

    sees = "population"

    population: str = Field(description="path of the table of all people an adversary may look through")

    def people_of(self, classes: ClassHistograms) -> IntArray:
        """Return (n_classes,) the population under each label, which the caller must have counted."""
        if classes.population is None:
            raise TypeError(f"{self.subject} needs the population under each class; it was not counted")
        return classes.population

    def people_in_all(self, whole: Whole) -> int:
        """Return the size of the whole population."""
        if whole.population is None:
            raise TypeError(f"{self.subject} needs the size of the population; it was not counted")
        return whole.population

    def promises_nothing(self, whole: Whole) -> bool:
        """Whether labels that fit one person, or nearly everybody, meet the requirement."""
        people = np.array([1, 1 << 40], dtype=np.int64)
        return bool(self.holds(ClassHistograms(np.ones(2, dtype=np.int64), population=people), whole).all())


class TableModel(PrivacyModel):
    """A requirement on all classes together: on the sizes that the classes of a release have.

    Judged class by class it asks of each what is asked of all of them, so classes that hold one by one hold together,
    and every method can serve it. Methods that look at all classes need less (docs/adr/0005-models.md).
    """

    sees = "sizes"
    achieved_is = "at most"

    @property
    def enough(self) -> int:
        """Records per class with which any number of classes holds: no record of a class of two is unique."""
        return 2

    @property
    def curve(self) -> Curve:
        """A class by itself holds if it is large enough."""
        return Curve(records=self.enough)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) the share of each class by itself."""
        shares: FloatArray = np.where(classes.sizes == 1, 1.0, np.where(classes.sizes == 0, np.inf, 0.0))
        return shares

    @abstractmethod
    def holds_together(self, sizes: IntArray) -> bool:
        """Whether a table whose classes have these sizes, each at least 1, meets the requirement."""

    @abstractmethod
    def reach_together(self, sizes: IntArray) -> float:
        """Return the share that such a table has."""

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        """A single record is always unique."""
        return "the table has one record only, and it is unique"


def number(value: float) -> str:
    """Return the number as a person would write it.

    >>> number(4.0), number(0.25)
    ('4', '0.25')
    """
    return f"{value:.15g}"


def round_down(value: float, digits: int) -> str:
    """Return the value with at most *digits* decimals, never more than it is.

    >>> round_down(10.579, 2)
    '10.57'
    """
    return _round(value, digits, ROUND_FLOOR)


def round_up(value: float, digits: int) -> str:
    """Return the value with at most *digits* decimals, never less than it is.

    >>> round_up(0.12341, 4), round_up(0.5, 4)
    ('0.1235', '0.5')
    """
    return _round(value, digits, ROUND_CEILING)


def _round(value: float, digits: int, rounding: str) -> str:
    # repr is the shortest text of a floating-point number: 0.3 stays 0.3 and is not rounded up to 0.3001
    rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), rounding=rounding)
    return f"{rounded.normalize():f}"
