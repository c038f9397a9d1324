"""Synthetic: a differentially private table, whose rows are nobody's."""

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
    """No result is more than e**epsilon times as likely with a record as without it, but for a probability of delta.

    Dwork, McSherry, Nissim and Smith, "Calibrating noise to sensitivity in private data analysis", TCC 2006. Rows are
    drawn from noisy counts of attributes, of pairs and of triples of them.

    >>> Synthetic(epsilon=1).delta
    0.0
    """

    name: ClassVar[str] = "synthetic"
    title: ClassVar[str] = "draw rows that are nobody's from counts with noise (differential privacy)"
    form: ClassVar[str] = "synthetic"
    draws_rows: ClassVar[bool] = True
    usual: ClassVar[Mapping[str, Any]] = {"epsilon": 1}
    models: ClassVar[Literal["required", "optional", "none"]] = "none"

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
        description="pairs of attributes that are counted together, without circles, and nothing else; without it, "
        "part of the budget finds what to count",
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

    def refuses(self, problem: Problem) -> str | None:
        """Refuse attributes whose values are not declared."""
        find_domains(problem)
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> SyntheticPlan:  # noqa: ARG002
        """Draw the table, or refuse attributes whose values are not declared.

        Everything is drawn from the operating system. A seeded *rng* follows from the source as well as from the seed:
        whoever guesses the seed could try tables out on the order of the rows.
        """
        from shoal.methods.synthetic.synthesis import synthesize

        domains = find_domains(problem)
        with progress.step("adding noise", len(domains), "attributes") as step:
            plan = synthesize(problem.cells.codes, domains, self, Chance.of(None), problem.cells.counts)
            step.advance(len(domains))
        return plan


def find_domains(problem: Problem) -> tuple[Domain, ...]:
    """Return the domains of all attributes, none of which comes from the data; refuse what has none."""
    if problem.carried:
        raise PolicyError(
            f"{_name_columns(problem.carried)} insensitive, and a differentially private table has no column as it is; "
            "declare what shall be in it quasi or sensitive with a taxonomy, and leave the rest out with the role drop"
        )
    attributes = (*problem.quasi, *problem.sensitive)
    undeclared = [attribute.name for attribute in attributes if not attribute.taxonomy.declared]
    if undeclared:
        raise PolicyError(
            f"{_name_columns(undeclared)} without declared values, and a differentially private table needs values "
            "that are declared, not taken from the data; give each column a taxonomy that lists all its values: "
            "intervals, dates with min and max, groups, a tree, a file, or flat with values"
        )
    domains = tuple(Domain(attribute.name, attribute.taxonomy, attribute.weight) for attribute in attributes)
    if len({domain.taxonomy.missing is None for domain in domains}) > 1:
        raise PolicyError(
            "some attributes have a value for missing ones and others have not, which would disclose data"
        )
    return domains


def _name_columns(names: Sequence[str]) -> str:
    """Return the columns as the beginning of a sentence.

    >>> _name_columns(["age"]), _name_columns(["age", "sex"])
    ("column 'age' is", "columns 'age', 'sex' are")
    """
    listed = ", ".join(map(repr, names))
    return f"column {listed} is" if len(names) == 1 else f"columns {listed} are"
