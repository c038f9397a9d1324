"""What a policy says of a synthetic table."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SyntheticOptions(BaseModel):
    """How much of the privacy budget there is, and what is drawn from it.

    >>> SyntheticOptions(epsilon=1).delta
    0.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: float = Field(
        gt=0,
        allow_inf_nan=False,
        description="the privacy loss: no result is more than e**epsilon times as likely with a record as without it",
    )
    delta: float = Field(
        default=0.0,
        ge=0,
        lt=0.1,
        description="probability that the loss may be larger; 0 takes Laplace noise, above 0 Gaussian noise, which is "
        "less for many attributes; far below 1 / records",
    )
    rows: int | None = Field(
        default=None,
        ge=1,
        le=100_000_000,
        description="rows of the synthetic table; without it, the noisy number of records",
    )
    tree: tuple[tuple[str, str], ...] | None = Field(
        default=None,
        description="pairs of attributes whose joint counts are kept, without circles; without it, part of the budget "
        "finds them",
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.tree is None:
            return self
        roots: dict[str, str] = {}

        def root(name: str) -> str:
            while roots.get(name, name) != name:
                name = roots[name]
            return name

        for first, second in self.tree:
            if root(first) == root(second):
                raise ValueError(f"tree: the pair {first!r}, {second!r} closes a circle")
            roots[root(first)] = root(second)
        return self
