"""Withheld people must satisfy the models of values as a group; otherwise no record is withheld.

A reader with a register sees who is absent (docs/adr/0007-transparent-reader.md). If a plan withholds records because
of their values, whole classes are withheld with them until the withheld people satisfy the models.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.kernels import sum_groups
from shoal.methods.base import SHOWS_VALUES, AnyPlan
from shoal.models.base import TableModel, ValueModel
from shoal.plan.judging import judge_plan
from shoal.plan.plan import SPLIT, WITHHELD, Plan
from shoal.plan.problem import Problem
from shoal.plan.reader import satisfy, withheld_satisfy
from shoal.plan.synthetic import SyntheticPlan
from shoal.utility.information import NormalizedCertaintyPenalty


def hide_withheld(make: Callable[[Problem], AnyPlan], problem: Problem) -> AnyPlan:
    """Return a plan of a problem whose withheld people satisfy the models of values, or raise UnreachableError.

    Further classes are withheld if that loses less information than withholding no record.
    """
    plan = make(problem)
    if isinstance(plan, SyntheticPlan) or withheld_satisfy(problem, plan):
        return plan
    wider = withhold_more(problem, plan) if isinstance(plan, Plan) and plan.targets is None else None
    try:
        complete = make(replace(problem, max_withheld=0))
    except UnreachableError as error:
        if wider is None:
            raise UnreachableError(f"{error}; {SHOWS_VALUES}") from None
        return wider
    if wider is None or not isinstance(complete, Plan):
        return complete
    return min(complete, wider, key=lambda one: NormalizedCertaintyPenalty().of(problem, one))


def withhold_more(problem: Problem, plan: Plan) -> Plan | None:
    """Return the plan without some more classes, such that all withheld people together satisfy the models of values.

    Return None if *max_withheld* does not allow it or the other classes then fail.
    """
    gone = choose_company(problem, *plan.assignment.pieces(problem.cells.counts), plan.n_classes)
    if gone is None:
        return None
    found = _leave_out(plan, gone)
    return found if _holds(problem, found) else None


def choose_company(
    problem: Problem, cell: AnyIntArray, owner: CodeArray, records: IntArray, n_groups: int
) -> BoolArray | None:
    """Return (n_groups,) which groups to withhold with the WITHHELD records; None if *max_withheld* does not allow it.

    Two orders are tried: the smallest groups first, and groups with the smallest share of the most frequent withheld
    value first. The choice with fewer records wins. At least one group stays.
    """
    values = next(one for one in problem.requirements if isinstance(one.model, ValueModel)).values_at(cell)
    absent, sizes = owner == WITHHELD, sum_groups(owner, records, n_groups)
    own = ~absent & (values == np.bincount(values[absent], records[absent]).argmax())
    share = np.bincount(owner[own], records[own], minlength=n_groups) / np.maximum(sizes, 1)
    choices: list[IntArray] = []
    for order in (np.argsort(sizes, kind="stable"), np.lexsort((sizes, share))):
        total = np.cumsum(sizes[order]) + records[absent].sum()
        fitting = order[: min(int(np.searchsorted(total, problem.max_withheld, side="right")), n_groups - 1)]

        def is_enough(n_more: int, fitting: IntArray = fitting) -> bool:
            chosen = np.append(np.isin(np.arange(n_groups), fitting[:n_more]), True)[owner]  # last: WITHHELD
            return bool(satisfy(problem, np.zeros(chosen.sum(), np.int32), cell[chosen], records[chosen], 1)[0])

        # Each group satisfies the models, and unions do not break them, so more groups never fail after fewer hold.
        least = bisect_left(range(1, len(fitting) + 1), True, key=is_enough) + 1
        if least <= len(fitting):
            choices.append(fitting[:least])
    if not choices:
        return None
    return np.isin(np.arange(n_groups), min(choices, key=lambda some: int(sizes[some].sum())))


def _leave_out(plan: Plan, gone: BoolArray) -> Plan:
    """Return the plan with some classes withheld."""
    number = np.append(np.where(gone, WITHHELD, np.cumsum(~gone) - 1), [SPLIT, WITHHELD]).astype(np.int32)
    assignment = replace(
        plan.assignment, class_of=number[plan.assignment.class_of], target=number[plan.assignment.target]
    )
    return replace(
        plan,
        lo=plan.lo[~gone],
        hi=plan.hi[~gone],
        sizes=plan.sizes[~gone],
        assignment=assignment,
        n_withheld=plan.n_withheld + int(plan.sizes[gone].sum()),
        population={name: people[~gone] for name, people in plan.population.items()},
    )


def _holds(problem: Problem, plan: Plan) -> bool:
    """Whether the remaining classes satisfy every requirement, including those on the table or on all classes."""
    of_all = [one.model for one in problem.requirements if isinstance(one.model, TableModel)]
    return all(model.holds_together(plan.sizes) for model in of_all) and all(
        bool(requirement.model.holds(classes, whole).all())
        for requirement, classes, whole in judge_plan(problem, plan)
        if not isinstance(requirement.model, TableModel)
    )
