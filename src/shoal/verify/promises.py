"""A guarantee of the manifest, and the privacy model that it names, as the verifier has it: parameters and a statement.

Another package that adds a privacy model registers a ``Model`` with its statement in SQL, under the model's name, in
the entry point group ``shoal.promises``. A model without a statement is never confirmed, so its releases are not
published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

from shoal.manifest import Attribute

Subject: TypeAlias = tuple[str, ...]  # a sensitive attribute, or several whose joint values are judged


@dataclass(frozen=True, slots=True)
class Promise:
    """One guarantee of the manifest; ``obstacle`` says why it cannot be checked at all."""

    model: str
    parameters: Mapping[str, Any]
    claimed: float | None
    subjects: tuple[Subject, ...] = ()
    obstacle: str | None = None
    counts: str | None = None  # the people that it is about: a unit or a household; None: records

    def fraction(self, name: str) -> Fraction:
        """Return a parameter as the decimal number that is written in the manifest."""
        return Fraction(str(self.parameters[name]))

    def whole(self, name: str) -> int:
        """Return a parameter that is a whole number."""
        return int(self.parameters[name])


class Counts(NamedTuple):
    """A table with a row for each class and value: columns class, n (its records), value, c (those with the value).

    For a model of sizes the table has class and n only; for a model of populations it has class, n and covered.
    """

    table: str
    attribute: Attribute | None = None  # None for joint values of several attributes
    total: str = "(SELECT sum(n) FROM classes)"  # records of the release
    whole: str | None = None  # a relation of value, whole and total: its records in the release; None: from the table
    shares: bool = False  # whether c are shares in floating point and n is 1
    several: bool = False  # whether people are counted, who may have several values


class Answer(NamedTuple):
    """How classes do by a model: in SQL, over a relation with the column class and one or more rows for each class."""

    achieved: str  # an aggregate over the relation: the figure that the worst class reaches
    each: str  # a condition on a row; NULL if SQL does not decide it
    relation: str
    exact: str | None = None  # a query of the classes with their counts, by which undecided ones are settled


Statement: TypeAlias = Callable[[Promise, Counts], Answer]
Settle: TypeAlias = Callable[[Promise, Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Model:
    """A privacy model as the verifier has it.

    *parameters* are types, as pydantic has them, and defaults; ``...``: must be given.
    """

    parameters: Mapping[str, tuple[Any, Any]]
    statement: Statement | None = None
    about: Literal["values", "sizes", "table", "population", "parts", "plan"] = "values"  # table: all classes together
    worst: Callable[..., float] = max  # of the figures of several classes
    mixes: bool = True  # whether a mixture of classes that satisfy it does too, so that sliced releases can promise it
    labels: bool = False  # whether it may be about labels, by the frequencies that they induce
    demands: tuple[tuple[Callable[[Mapping[str, Any]], bool], str], ...] = field(default=())  # of all parameters
    settle: Settle | None = None  # decides a row of the relation on which the condition is NULL, exactly
