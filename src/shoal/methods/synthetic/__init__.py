"""Synthetic: a differentially private table of artificial rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from shoal.core.errors import PolicyError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.methods.base import Method
from shoal.plan.problem import Problem
from shoal.plan.synthetic import Domain, SyntheticPlan


class Synthetic(Method):
    """The release is (epsilon, delta)-differentially private for each record.

    Dwork, McSherry, Nissim and Smith, "Calibrating noise to sensitivity in private data analysis", TCC 2006. Rows are
    drawn from noisy counts of single attributes, pairs and triples.
    """

    name: ClassVar[str] = "synthetic"
    title: ClassVar[str] = "draw artificial rows from noisy counts (differential privacy)"
    form: ClassVar[str] = "synthetic"
    draws_rows: ClassVar[bool] = True
    usual: ClassVar[Mapping[str, Any]] = {"epsilon": 1}
    models: ClassVar[Literal["required", "optional", "none"]] = "none"

    epsilon: float = Field(
        gt=0,
        allow_inf_nan=False,
        description="the privacy loss: a record makes no result more than e**epsilon times as likely",
    )
    delta: float = Field(
        default=0.0,
        ge=0,
        lt=0.1,
        description="probability that the loss is larger, far below 1 / records; 0 selects Laplace noise, otherwise "
        "noise is Gaussian, which is less for many attributes",
    )
    rows: int | None = Field(
        default=None,
        ge=1,
        le=100_000_000,
        description="rows of the synthetic table; by default the noisy number of records",
    )
    tree: tuple[tuple[str, str], ...] | None = Field(
        default=None,
        description="the pairs of attributes to count, without cycles; by default, part of the budget is used to "
        "select the counts",
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
                raise ValueError(f"tree: the pair {first!r}, {second!r} closes a cycle")
            roots[root(first)] = root(second)
        return self

    def refuses(self, problem: Problem) -> str | None:
        """Refuse attributes without declared values."""
        find_domains(problem)
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> SyntheticPlan:  # noqa: ARG002
        """Draw the table, with randomness of the operating system only.

        A seeded *rng* depends on the source: an attacker who guesses the seed could test tables by the order of rows.
        """
        from shoal.methods.synthetic.synthesis import synthesize

        domains = find_domains(problem)
        with progress.step("adding noise", len(domains), "attributes") as step:
            plan = synthesize(problem.cells.codes, domains, self, Chance.of(None), problem.cells.counts)
            step.advance(len(domains))
        return plan


def find_domains(problem: Problem) -> tuple[Domain, ...]:
    """Return the declared domains of all attributes; refuse attributes without one."""
    if problem.carried:
        raise PolicyError(
            f"{_name_columns(problem.carried)} insensitive, but a differentially private table has no such columns; "
            "give columns to be published the role quasi or sensitive and a taxonomy, and others the role drop"
        )
    attributes = (*problem.quasi, *problem.sensitive)
    undeclared = [attribute.name for attribute in attributes if not attribute.taxonomy.declared]
    if undeclared:
        raise PolicyError(
            f"{_name_columns(undeclared)} without declared values, but the values of a differentially private table "
            "must be declared, not taken from the data; give each column a taxonomy that lists all its values: "
            "intervals, dates with min and max, groups, a tree, a file, or flat with values"
        )
    domains = tuple(Domain(attribute.name, attribute.taxonomy, attribute.weight) for attribute in attributes)
    if len({domain.taxonomy.missing is None for domain in domains}) > 1:
        raise PolicyError(
            "some attributes have a category for missing values and others do not, which would disclose data"
        )
    return domains


def _name_columns(names: Sequence[str]) -> str:
    """Return the beginning of a sentence about columns.

    >>> _name_columns(["age"]), _name_columns(["age", "sex"])
    ("column 'age' is", "columns 'age', 'sex' are")
    """
    listed = ", ".join(map(repr, names))
    return f"column {listed} is" if len(names) == 1 else f"columns {listed} are"
