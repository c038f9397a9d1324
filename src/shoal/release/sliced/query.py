"""What one may ask a sliced release, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.core.errors import UsageError, did_you_mean


@dataclass(frozen=True, slots=True)
class Query:
    """How many records, or how much of an attribute in all, for those that meet every condition; group by group.

    A condition is one value, a set or list of values of which one must be met, or a pair ``(low, high)``: from *low*
    up to but without *high*, for numbers and dates, None being no end. The value None is a missing one.

    >>> Query(where={"age": (20, 40), "sex": "F"}, by="education")
    Query(where={'age': (20, 40), 'sex': 'F'}, sum=None, by=('education',))
    """

    where: Mapping[str, Any] = field(default_factory=dict)
    sum: str | None = None
    by: Sequence[str] | str = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", (self.by,) if isinstance(self.by, str) else tuple(self.by))
        object.__setattr__(self, "where", dict(self.where))
        if len(set(self.by)) < len(self.by):
            raise UsageError("`by` names an attribute twice; name each once")
        if {"value", "error"} & set(self.by):
            raise UsageError("an attribute called `value` or `error` cannot be in `by`: the answer has these columns")
        for name, condition in self.where.items():
            if isinstance(condition, tuple) and len(condition) != 2:
                raise UsageError(f"{name!r}: a range is a pair (low, high); give several values as a set or list")

    @property
    def attributes(self) -> tuple[str, ...]:
        """All attributes that the query is about, each once."""
        summed = () if self.sum is None else (self.sum,)
        return tuple(dict.fromkeys((*self.where, *summed, *self.by)))

    def check(self, known: Sequence[str]) -> None:
        """Raise if an attribute is not among those of the release."""
        for name in self.attributes:
            if name not in known:
                raise UsageError(f"attribute {name!r} is not in the release{did_you_mean(name, known)}")


@dataclass(frozen=True, slots=True)
class Estimate:
    """An answer: the expected value, and how far it is off in expectation.

    ``error`` is the standard deviation of the answers that tables like the original would give: all that link the
    parts of each bucket in some way, each way being equally likely. It is 0 if one part alone gives the answer.
    """

    value: float
    error: float
