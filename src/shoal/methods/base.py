"""The interface of methods, which turn a problem into a plan without files or engines.

The module also finds requirements that no classes of a table can satisfy, before any work starts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from shoal.core.arrays import FloatArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.progress import Progress
from shoal.models.base import ClassHistograms, TableModel, ValueModel, Whole
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem, Requirement
from shoal.plan.slices import SlicedPlan
from shoal.plan.synthetic import SyntheticPlan

AnyPlan: TypeAlias = Plan | SlicedPlan | SyntheticPlan
SHOWS_VALUES = (
    "records cannot be withheld instead: a reader who sees who is absent would learn the values of the withheld people"
)
Labels = Annotated[
    Literal["levels", "ranges"],
    Field(
        description="levels: every published value is a label of its taxonomy; ranges: from a lowest to a highest "
        "value, with ends that the policy declares"
    ),
]


class Method(BaseModel, ABC):
    """A way to make classes. Its fields are its parameters; messages, help and schema come from them."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: ClassVar[str]
    title: ClassVar[str]  # a plain sentence for people
    usual: ClassVar[Mapping[str, Any]] = {}  # typical values of the required parameters
    form: ClassVar[str] = "classes"  # of its releases: a name in ``shoal.release.forms``
    makes_parts: ClassVar[bool] = False  # whether it divides records into parts, which models then judge
    draws_rows: ClassVar[bool] = False  # whether its rows are drawn from noisy counts and belong to no person
    models: ClassVar[Literal["required", "optional", "none"]] = "required"  # privacy models of the policy
    averages: ClassVar[bool] = False  # whether it needs numbers, not only their leaves
    # Boxes of quasi values, or of taxonomy nodes, that it can plan independently: their labels must be distinct.
    # None: it needs all records together.
    takes_regions: ClassVar[Literal["boxes", "nodes"] | None] = None
    counts_people: ClassVar[bool] = False  # whether it can count people instead of records
    sees_all_classes: ClassVar[bool] = False  # whether it checks models of all classes together itself
    by_hand: ClassVar[bool] = False  # whether it needs an analyst's choices; auto skips it
    # Whether each finer group that satisfies the models becomes a class, or a class is divided if some set of finer
    # groups satisfies them. A reader of the method can ask why it was not (docs/adversaries.md). None: neither.
    divides: ClassVar[Literal["each", "some"] | None] = None
    generalizes_values: ClassVar[bool] = False  # whether it generalizes sensitive values as a last resort

    @property
    def as_two_tables(self) -> bool:
        """Whether the quasi and the sensitive values are also published as separate files."""
        return False

    @property
    def defends_labels(self) -> bool:
        """Whether labels of sensitive values reveal no more about a record than the whole table does."""
        return False

    def refuses(self, problem: Problem) -> str | None:
        """Return why this method cannot serve the problem, or None if it can."""
        for model in (requirement.model for requirement in problem.requirements):
            if model.of_parts and not self.makes_parts:
                return f"{model.name} is about the parts of a sliced table, not about classes; ask for k-anonymity"
        changed = next((one.model for one in problem.requirements if one.of_true_values), None)
        if changed is not None and (self.form not in ("classes", "plain") or self.generalizes_values):
            return (
                f"{changed.subject} must also hold for the values before the technique of the sensitive column, which "
                "this method cannot count; leave out the technique, or use mondrian"
            )
        return None

    @abstractmethod
    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> AnyPlan:
        """Return a plan whose classes or buckets satisfy every requirement, or raise UnreachableError."""


def refuse_method(method: Method, problem: Problem) -> None:
    """Raise if a method cannot serve the models, the roles or its parameters."""
    refusal = method.refuses(problem)
    if refusal is not None:
        raise UnreachableError(f"method {method.name}: {refusal}")


def make_plan(method: Method, problem: Problem, rng: np.random.Generator, progress: Progress) -> AnyPlan:
    """Return a plan that satisfies every requirement, also for the people that it withholds."""
    from shoal.methods.withholding import hide_withheld  # imports the utility measures

    return hide_withheld(lambda asked: _plan_classes(method, asked, rng, progress), problem)


def _plan_classes(method: Method, problem: Problem, rng: np.random.Generator, progress: Progress) -> AnyPlan:
    """Plan such that each class satisfies its requirements, and all classes those on the whole plan.

    Large classes satisfy any model of all classes together. If a method judges classes one by one, it gets a minimum
    class size instead: the smallest one, by bisection, with which the plan as a whole holds.
    """
    asked = [one.model for one in problem.requirements if isinstance(one.model, TableModel)]
    if not asked or method.sees_all_classes or method.models != "required":
        return method.plan(problem, rng, progress)
    from shoal.models.k_anonymity import KAnonymity  # models load if a policy names them

    def plan_from(size: int) -> AnyPlan:
        replaced = tuple(
            replace(one, model=KAnonymity(k=min(size, one.model.enough))) if isinstance(one.model, TableModel) else one
            for one in problem.requirements
        )
        return method.plan(replace(problem, requirements=replaced), rng, progress)

    def holds(plan: AnyPlan) -> bool:
        return isinstance(plan, Plan) and all(model.holds_together(plan.sizes) for model in asked)

    refuse_unreachable(problem, problem.max_withheld)
    most = max(model.enough for model in asked)
    low = min(2 if method.averages else 1, most)  # an average of one record would be the record
    best = plan_from(low)
    if low < most and not holds(best):
        best = plan_from(most)
        while most - low > 1:
            middle = (low + most) // 2
            plan = plan_from(middle)
            if holds(plan):
                most, best = middle, plan
            else:
                low = middle
    return best


def refuse_unreachable(problem: Problem, n_withheld: int) -> None:
    """Raise if some requirement fails for the whole table as one class, even after withholding *n_withheld* records.

    If unions cannot break a model, classes that satisfy it also do so together. Withheld people must satisfy models of
    values as well, so withholding never makes such a model reachable.
    """
    for requirement, whole, reason in failing_as_one_class(problem):
        if not n_withheld:
            raise UnreachableError(reason)
        if isinstance(requirement.model, ValueModel):
            raise UnreachableError(f"{reason}; {SHOWS_VALUES}")
        if not _holds_without(requirement, whole, n_withheld):
            raise UnreachableError(reason)


def failing_as_one_class(problem: Problem) -> Iterator[tuple[Requirement, Whole, str]]:
    """Yield the requirements that the whole table as one class fails, with the whole and a reason for people."""
    for requirement in problem.requirements:
        model, whole = requirement.model, requirement.whole(problem.cells.counts)
        reason = model.why_unreachable(whole)
        if reason is None and not bool(model.holds(whole.as_class(), whole)[0]):
            reached = model.worst(whole.as_class(), whole)
            reason = f"{model.subject}: the whole table as one class has {reached:.6g}"
        if reason is not None and model.merge_monotone and not requirement.merge_monotone:
            reason += (
                f". Counted by {requirement.counts}, smaller classes may reach more, because people may have several "
                "values in the table and one in a class: use incognito, which looks for such classes"
            )
        if reason is not None:
            yield requirement, whole, reason


def _holds_without(requirement: Requirement, whole: Whole, n_withheld: int) -> bool:
    """Whether the table can hold as one class without *n_withheld* records, and keep the minimum size."""
    size = max(whole.size - n_withheld, min(requirement.model.smallest_class, whole.size))
    people = None if whole.population is None else np.array([whole.population], dtype=np.int64)
    return bool(requirement.model.holds(ClassHistograms(np.array([size]), None, people), whole)[0])


def find_blocking(failures: Iterable[Sequence[tuple[Requirement, float]]]) -> tuple[int, float] | None:
    """Return the number of the only model that keeps a table from having several classes, with its figure, or None.

    *failures* are the requirements that some divided tables fail, with their figures. The function considers tables
    that fail only one model, which compares with the whole, and returns the model with the smallest figure.
    """
    offers: dict[int, float] = {}
    for failing in failures:
        numbers = {requirement.number for requirement, _ in failing}
        if len(numbers) == 1 and all(requirement.model.relative_to_whole for requirement, _ in failing):
            number, reached = min(numbers), max(reached for _, reached in failing)
            offers[number] = min(reached, offers.get(number, np.inf))
    return min(offers.items(), key=lambda offer: (offer[1], offer[0]), default=None)


def name_together(requirements: Sequence[Requirement]) -> str:
    """Return the name of a policy's model for messages; it may be about several attributes."""
    return requirements[0].model.subject if len(requirements) == 1 else requirements[0].model.name


def afford(gain: FloatArray, records: IntArray, most: int) -> tuple[IntArray, bool]:
    """Return which steps of withholding to take, the largest gain first, and whether all worthwhile steps fit.

    The order does not depend on *most*, and the first step that does not fit ends the selection. So a larger budget
    never gives a wider table.
    """
    worth = np.flatnonzero(gain)
    worth = worth[np.lexsort((worth, -gain[worth]))]
    fitting = np.cumsum(records[worth]) <= most
    return worth[fitting], bool(fitting.all())
