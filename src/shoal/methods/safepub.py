"""SafePub: differential privacy by a random sample of generalized records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from shoal.core.errors import PolicyError, UnreachableError, did_you_mean
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.methods.base import Method
from shoal.methods.synthetic import find_domains
from shoal.models.base import round_down
from shoal.plan.problem import Problem
from shoal.plan.synthetic import Domain, SyntheticPlan


class SafePub(Method):
    """The release is (epsilon, delta)-differentially private for each record.

    Li, Qardaji and Su, "On sampling, anonymization, and differential privacy", ASIACCS 2012, with the parameters of
    Bild, Kuhn and Prasser, "SafePub: a truthful data anonymization algorithm with strong privacy guarantees", PoPETs
    2018(1). The policy sets the levels, because choosing them by the data would consume privacy budget.
    """

    name: ClassVar[str] = "safepub"
    title: ClassVar[str] = "publish a random sample of generalized records (differential privacy)"
    form: ClassVar[str] = "safepub"
    draws_rows: ClassVar[bool] = True
    usual: ClassVar[Mapping[str, Any]] = {"epsilon": 1}
    models: ClassVar[Literal["required", "optional", "none"]] = "none"

    epsilon: float = Field(
        ge=0.01, le=5, description="the privacy loss: a record makes no result more than e**epsilon times as likely"
    )
    delta: float = Field(
        default=1e-6,
        ge=1e-15,
        lt=0.1,
        description="probability that the loss is larger; should be far below 1 / records",
    )
    share: float | None = Field(
        default=None, gt=0, lt=1, description="probability with which each record is drawn; by default 1 - e**-epsilon"
    )
    levels: dict[str, Annotated[int, Field(ge=0, strict=True)]] = Field(
        default={}, description="the level of the taxonomy at which each attribute is published, by default 0"
    )

    def refuses(self, problem: Problem) -> str | None:
        """Refuse undeclared values, and levels at which a sensitive attribute has a single value."""
        self._generalize(find_domains(problem))
        for attribute in problem.sensitive:
            tree, level = attribute.taxonomy, self.levels.get(attribute.name, 0)
            if 0 < level <= tree.height and len(np.unique(tree.lo[tree.node_at(level)])) == 1:
                return (
                    f"levels: level {level} of the sensitive attribute {attribute.name!r} is a single value for all "
                    "records; choose a lower level, or leave it out with the role drop"
                )
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> SyntheticPlan:  # noqa: ARG002
        """Draw records at random, and keep those whose published values at least k drawn records have."""
        domains = self._generalize(find_domains(problem))
        share, k, chance = self.find_share(), self.find_threshold(), Chance.of(None)
        codes = [domain.generalize(column) for domain, column in zip(domains, problem.cells.codes, strict=True)]
        with progress.step("drawing", problem.cells.n_records, "records"):
            labels, class_of = np.unique(np.stack(codes), axis=1, return_inverse=True)  # (n_attributes, n_classes)
            record = np.repeat(class_of.ravel(), problem.cells.counts)
            drawn = record[chance.fractions(len(record)) < share]
            rows = drawn[np.bincount(drawn)[drawn] >= k]
            rows = rows[chance.order(len(rows))]
        if not len(rows):
            why = f"method safepub: no combination of values has {k} drawn records, as epsilon and delta require"
            raise UnreachableError(f"{why}; choose higher levels, fewer attributes, a smaller share or a larger delta")
        table, spent = tuple(column[rows] for column in labels), {"epsilon": self.epsilon, "delta": self.delta}
        drawn_by = {"share": share, "k": k}
        return SyntheticPlan(domains, table, (), self.epsilon, self.delta, spent, (), drawn_by)

    def find_share(self) -> float:
        """Return the probability with which each record is drawn, rounded down to what random numbers can realize."""
        most = -math.expm1(-self.epsilon) * (1 - 2.0**-50)
        if self.share is not None and self.share > most:
            raise PolicyError(f"method safepub: share: epsilon = {self.epsilon:g} allows at most {round_down(most, 4)}")
        return math.floor((self.share or most) * 2.0**53) / 2.0**53

    def find_threshold(self) -> int:
        """Return the smallest k for which delta suffices.

        Drawing j of n equal records discloses too much about one of them if j > gamma n. If at least k are published,
        this is possible for n >= k / gamma - 1 only. Its probability is below exp(-n (gamma ln(gamma / share) - gamma +
        share)) (Bild, Kuhn and Prasser).

        >>> SafePub(epsilon=1, delta=1e-6).find_threshold()
        74
        """
        from scipy.stats import binom

        share = self.find_share()
        gamma = (math.expm1(self.epsilon) + share) / math.exp(self.epsilon)
        falls = gamma * math.log(gamma / share) - gamma + share
        n = np.arange(1, math.ceil(-math.log(self.delta) / falls) + 2)
        tails = binom.sf(np.floor(gamma * n * (1 - 1e-9)), n, share) * (1 + 1e-6)  # a margin above rounding errors
        above = n[tails > self.delta]
        return math.floor(gamma * (int(above.max(initial=0)) + 1) * (1 + 1e-9)) + 1

    def _generalize(self, domains: Sequence[Domain]) -> tuple[Domain, ...]:
        heights = {domain.name: domain.taxonomy.height for domain in domains}
        for name, level in self.levels.items():
            if name not in heights:
                raise PolicyError(f"method safepub: levels: {name!r} is not published{did_you_mean(name, heights)}")
            if level > heights[name]:
                raise PolicyError(f"method safepub: levels: {name!r} has the levels 0 to {heights[name]}, not {level}")
        return tuple(replace(domain, level=self.levels.get(domain.name, 0)) for domain in domains)
