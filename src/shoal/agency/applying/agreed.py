"""Classes that were agreed upon, as a method, and what a plan promises, as models.

Neither can be named in a policy: they need the plan of an agency, and ``shoal.agency.applying`` brings it.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import ConfigDict, Field

from shoal.agency.applying.domain import hulls
from shoal.agency.plan_file import AgreedPlan
from shoal.agency.promise import ENTROPY, K_ANONYMITY, L_DIVERSITY
from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.errors import InputError, UnreachableError
from shoal.core.progress import Progress
from shoal.core.wording import counted_text
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.k_anonymity import KAnonymity
from shoal.plan.judging import judged
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem

_DELTA = "how probably an owner with enough records has to wait for more"


class LDeltaDiversity(DistinctLDiversity):
    """Every class shows the l values that the plan names for it. Rameshwar and Tandon, Definition 4.1."""

    name = L_DIVERSITY
    title = "every class of the plan shows the l sensitive values that the plan names for it"

    delta: float = Field(gt=0, lt=1, description=_DELTA)


class KDeltaAnonymity(KAnonymity):
    """Every class of the plan has at least k records."""

    name = K_ANONYMITY
    title = "every class of the plan has at least k records"

    delta: float = Field(gt=0, lt=1, description=_DELTA)


class EntropyLDeltaDiversity(EntropyLDiversity):
    """Every class of the plan is as uncertain as l equally frequent values."""

    name = ENTROPY
    title = "the sensitive values of every class of the plan are as uncertain as l equally frequent ones"

    delta: float = Field(gt=0, lt=1, description=_DELTA)


def promised(agreed: AgreedPlan) -> PrivacyModel:
    """Return what the plan promises, as a model."""
    kinds: dict[str, type[PrivacyModel]] = {
        kind.name: kind for kind in (LDeltaDiversity, KDeltaAnonymity, EntropyLDeltaDiversity)
    }
    parameters = {agreed.promise.parameter: agreed.promise.least, "delta": agreed.delta}
    return kinds[agreed.promise.model].model_validate(parameters)


class AgreedClasses(Method):
    """Every record goes to the class that the plan has for its quasi values, or nothing is published."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: ClassVar[str] = "agreed"
    title: ClassVar[str] = "the classes of an agency's plan"

    agreed: AgreedPlan = Field(exclude=True, description="the plan")

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:  # noqa: ARG002
        """Find the class of each cell; too few records, or a class that breaks the promise, are an error."""
        agreed, counts = self.agreed, problem.cells.counts
        class_of = agreed.located([codes.astype(np.int64) for codes in problem.quasi_codes])
        self._refuse_outside(problem, class_of)
        records = int(counts.sum())
        missing = agreed.records - records
        if missing > 0:
            raise UnreachableError(
                f"there {'is 1 record' if records == 1 else f'are {records:,} records'}, and the plan asks for "
                f"{agreed.records:,}: {missing:,} {'is' if missing == 1 else 'are'} missing. Nothing was published; "
                "wait until there are enough"
            )
        sizes = kernels.summed(class_of, counts, agreed.classes)
        if agreed.promise.model == L_DIVERSITY:
            self._refuse_hidden(class_of, np.asarray(problem.cells.codes[-1]))
        elif agreed.promise.model == K_ANONYMITY:
            self._refuse_small(sizes)
        lo, hi = hulls(agreed)
        plan = Plan.of_cells(lo, hi, class_of, counts)
        if agreed.promise.model == ENTROPY:
            self._refuse_certain(problem, plan)
        return plan

    def _refuse_outside(self, problem: Problem, class_of: CodeArray) -> None:
        outside = np.flatnonzero(class_of < 0)
        if len(outside):
            combined = np.unique(np.stack([codes[outside] for codes in problem.quasi_codes]), axis=1).shape[1]
            records = int(problem.cells.counts[outside].sum())
            raise InputError(
                f"{counted_text(records, 'record')} outside the domain that was agreed upon: "
                f"{counted_text(combined, 'combination')} of the values of {', '.join(map(repr, self.agreed.quasi))} "
                "that the plan does not have. Correct them, or ask the agency for a plan whose domain has them; "
                "nothing was published"
            )

    def _refuse_hidden(self, class_of: CodeArray, values: IntArray) -> None:
        """Raise unless every class shows all values that the plan names for it."""
        agreed = self.agreed
        n_values = len(agreed.sensitive_values)
        shown = np.unique(class_of.astype(np.int64) * n_values + values)
        wanted = np.arange(agreed.classes, dtype=np.int64)[:, np.newaxis] * n_values + agreed.values
        hidden = ~np.isin(wanted, shown)
        self._refuse(
            np.logical_or.reduce(hidden, axis=1),
            f"the plan names values that do not show, {int(hidden.sum()):,} in all",
        )

    def _refuse_small(self, sizes: IntArray) -> None:
        missing = np.maximum(self.agreed.promise.least - sizes, 0)
        least = f"{self.agreed.promise.least:,}"
        self._refuse(missing > 0, f"there are fewer than {least} records; {int(missing.sum()):,} are missing in all")

    def _refuse_certain(self, problem: Problem, plan: Plan) -> None:
        what = f"values are less uncertain than {self.agreed.promise.least:g} equally frequent ones"
        self._refuse(plan.sizes == 0, what)
        holding = [requirement.model.holds(classes, whole) for requirement, classes, whole in judged(problem, plan)]
        self._refuse(~np.concatenate(holding), what)

    def _refuse(self, failing: BoolArray, what: str) -> None:
        """Raise if a class fails; that this may happen is what delta is for."""
        if failing.any():
            raise UnreachableError(
                f"in {int(failing.sum()):,} of {self.agreed.classes:,} classes {what}. This had a "
                f"probability of at most delta = {self.agreed.delta:g} if the records are independent and the agency's "
                "distribution is right. Nothing was published; wait for more records"
            )
