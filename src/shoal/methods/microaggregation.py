"""Microaggregation: each record is published with the averages of a group of similar records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from shoal.columns.microaggregation import mdav
from shoal.columns.numbers import FARTHEST
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray
from shoal.core.errors import InputError, UnreachableError, did_you_mean
from shoal.core.kernels import group_items, same_rows
from shoal.core.progress import Progress
from shoal.methods.base import Method, refuse_unreachable
from shoal.plan.judging import judge_plan
from shoal.plan.plan import WITHHELD, Assignment, Plan
from shoal.plan.problem import Problem


class Microaggregation(Method):
    """Every class consists of groups of near records, publishes one centre, and satisfies every requirement.

    MDAV of Domingo-Ferrer and Torra, "Ordinal, continuous and heterogeneous k-anonymity through microaggregation"
    (DMKD 11(2), 2005), with k the smallest size that the models allow. If models of sensitive values require more, a
    group is joined with its nearest until it satisfies them, as in Soria-Comas, Domingo-Ferrer, Sanchez and Martinez,
    "t-closeness through microaggregation" (TKDE 27(11), 2015, Algorithm 1). Records with equal quasi values are
    assigned to groups at random, so groups disclose nothing about sensitive values. A single number is grouped
    optimally (Hansen and Mukherjee, TKDE 15(4), 2003).
    """

    name: ClassVar[str] = "microaggregation"
    title: ClassVar[str] = "publishes each record with the averages of a group of similar people"
    form: ClassVar[str] = "averages"
    averages: ClassVar[bool] = True

    numbers: Literal["mean", "median"] = Field(
        default="mean",
        description="the published centre of numbers and dates: their mean, which preserves the column's total, or "
        "their median; the centre of categories is the most frequent one",
    )
    decimals: int = Field(default=1, ge=0, le=9, description="decimals of published numbers; 0 gives whole numbers")
    strata: tuple[str, ...] = Field(
        default=(),
        description="quasi attributes in which all records of a group agree; these keep their values",
    )

    def refuses(self, problem: Problem) -> str | None:
        """Refuse populations, which averages do not cover, and groups of a single record."""
        if any(requirement.population is not None for requirement in problem.requirements):
            return "averages do not cover people in a population, so models that count one cannot hold; use mondrian"
        if problem.smallest_class < 2:
            return "the models allow groups of one record, which would publish its values unchanged; add k-anonymity"
        quasi = [attribute.name for attribute in problem.quasi]
        for name in self.strata:
            if name not in quasi:
                return f"strata names {name!r}, which is not a quasi attribute{did_you_mean(name, quasi)}"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:
        """Return the groups as a plan; classes with equal published centres are merged."""
        return plan_groups(problem, self, rng, progress)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Records of one stratum that lack the same numbers; only these can have common averages."""

    members: IntArray  # (n_members,) places among the records
    space: mdav.Space

    def grouping(self, owner: CodeArray) -> tuple[CodeArray, mdav.Grouping]:
        """Return the classes of the part, ascending, and the class of each member."""
        classes, group = np.unique(owner[self.members], return_inverse=True)
        return classes, mdav.Grouping(group.reshape(-1).astype(np.int32), len(classes))


def plan_groups(problem: Problem, method: Microaggregation, rng: np.random.Generator, progress: Progress) -> Plan:
    """Return classes of near records that satisfy every requirement, or raise UnreachableError."""
    refuse_unreachable(problem, problem.max_withheld)
    cells = rng.permutation(np.repeat(np.arange(problem.cells.n_cells), problem.cells.counts))
    with progress.step("grouping", len(cells), unit="records") as step:
        parts, n_groups = _parts(problem, method, cells), 0
        owner = np.empty(len(cells), dtype=np.int32)
        for part in parts:  # a part with fewer records than a class needs is one group
            grouping = mdav.microaggregate(part.space, min(problem.smallest_class, len(part.members)), step=step)
            owner[part.members] = grouping.group + n_groups
            n_groups += grouping.n_groups
    owner = _coincident(problem, method, cells, owner)
    while True:
        plan = _plan(problem, cells, owner)
        failing = ~_find_holding(problem, plan)
        if failing.any():
            owner = _join_failing(problem, parts, owner, failing)
            continue
        owner = _coincident(problem, method, cells, owner)
        if owner.max() + 1 == plan.n_classes:
            break
    search = {"groups": n_groups, "variation_lost": _variation_lost(parts, owner)}
    return replace(plan, search=search).warn(*_too_coarse(problem, method))


def _parts(problem: Problem, method: Microaggregation, cells: IntArray) -> list[_Part]:
    """Split the records into parts, and place each part in a metric space."""
    columns = [None if column is None else column[cells] for column in problem.numbers]
    common: list[AnyIntArray] = [np.isnan(column).astype(np.int32) for column in columns if column is not None]
    common += [
        np.unique(problem.quasi_codes[place] if column is None else column, return_inverse=True)[1].reshape(-1)[cells]
        for place, (attribute, column) in enumerate(zip(problem.quasi, problem.numbers, strict=True))
        if attribute.name in method.strata
    ]
    first, pattern = same_rows(common) if common else (np.zeros(1, dtype=np.int64), np.zeros(len(cells), np.int32))
    start, order = group_items(pattern.astype(np.int32), len(first))
    parts = []
    for number in range(len(first)):
        members = order[start[number] : start[number + 1]]
        numbers, categories, weights, other_weights = [], [], [], []
        for attribute, column, codes in zip(problem.quasi, columns, problem.quasi_codes, strict=True):
            if column is None:
                dense = np.unique(codes[cells[members]], return_inverse=True)[1]
                categories.append(dense.reshape(-1).astype(np.int32))
                other_weights.append(attribute.weight)
            elif not np.isnan(column[members[0]]):
                numbers.append(column[members])
                weights.append(attribute.weight)
        if not numbers and not categories:  # all attributes are missing, so all records are alike
            categories, other_weights = [np.zeros(len(members), dtype=np.int32)], [1.0]
        parts.append(_Part(members, mdav.Space.of(numbers, categories, [*weights, *other_weights])))
    return parts


def _coincident(problem: Problem, method: Microaggregation, cells: IntArray, owner: CodeArray) -> CodeArray:
    """Merge classes with equal published centres.

    The rounded centre of merged classes may equal the centre of a third class, so this is repeated until nothing
    changes.
    """
    shown = np.flatnonzero(owner != WITHHELD)
    owner = owner.copy()
    owner[shown] = np.unique(owner[shown], return_inverse=True)[1].reshape(-1)
    while True:
        grouping = mdav.Grouping(owner[shown], int(owner.max()) + 1)
        places = range(len(problem.quasi))
        found = [centres(problem, place, cells[shown], grouping, method).codes() for place in places]
        first, same = same_rows(found)
        if len(first) == grouping.n_groups:
            return owner
        owner[shown] = same[owner[shown]]


def _plan(problem: Problem, cells: IntArray, owner: CodeArray) -> Plan:
    n_classes = int(owner.max()) + 1
    start, order = group_items(owner, n_classes)  # without withheld records
    placed = cells[order]
    columns = [codes[placed].astype(np.int32) for codes in problem.quasi_codes]
    lo = np.stack([np.minimum.reduceat(column, start[:-1]) for column in columns], axis=1)
    hi = np.stack([np.maximum.reduceat(column, start[:-1]) for column in columns], axis=1)
    pieces = Assignment.of_pieces(problem.cells.n_cells, cells, owner, np.ones(len(cells), dtype=np.int64))
    return Plan(lo, hi + 1, np.diff(start), pieces, len(cells) - len(order))


def _find_holding(problem: Problem, plan: Plan) -> BoolArray:
    """Return (n_classes,) whether each satisfies every requirement."""
    held = np.ones(plan.n_classes, dtype=np.bool_)
    begin = 0
    for requirement, classes, whole in judge_plan(problem, plan):
        end = begin + len(classes.sizes)
        held[begin:end] &= requirement.model.holds(classes, whole)
        begin = end % plan.n_classes
    return held


def _join_failing(problem: Problem, parts: list[_Part], owner: CodeArray, failing: BoolArray) -> CodeArray:
    """Join failing classes with their nearest; withhold classes that are alone in their part, or raise."""
    joined = np.full(len(owner), WITHHELD, dtype=np.int32)
    alone, n_classes, several = [], 0, False
    for part in parts:
        if owner[part.members[0]] == WITHHELD:
            continue
        classes, grouping = part.grouping(owner)
        if len(classes) == 1 and failing[classes[0]]:
            alone.append(part)
            continue
        several = several or bool(failing[classes].any())
        grouping = mdav.join_groups(part.space, grouping, failing[classes])
        joined[part.members] = grouping.group + n_classes
        n_classes += grouping.n_groups
    if several:  # whether single classes hold may depend on the others: retry them later
        for part in alone:
            joined[part.members] = n_classes
            n_classes += 1
        return joined
    withheld = int((joined == WITHHELD).sum())
    if n_classes == 0 or withheld > problem.max_withheld:
        raise UnreachableError(_unmet(problem, len(parts), withheld))
    return joined


def _unmet(problem: Problem, n_parts: int, records: int) -> str:
    models = ", ".join(requirement.model.subject for requirement in problem.requirements)
    if n_parts == 1:
        return f"microaggregation: even all records as one group do not satisfy {models}; use slicing, or ask for less"
    return (
        f"microaggregation: {records} records lack numbers that too few others lack, or are in strata of too few "
        f"records; no group of them satisfies {models}, and max_withheld allows withholding {problem.max_withheld}. "
        "Allow more, name fewer strata, use missing: drop, or give columns with missing numbers a taxonomy of "
        "categories"
    )


def _variation_lost(parts: list[_Part], owner: CodeArray) -> float:
    """Return the share of the variation of the published records that averages remove (SSE / SST)."""
    lost = total = 0.0
    for part in parts:
        if owner[part.members[0]] != WITHHELD:
            within, around = mdav.sum_squares(part.space, part.grouping(owner)[1])
            lost, total = lost + within, total + around
    return lost / total if total else 0.0


def _too_coarse(problem: Problem, method: Microaggregation) -> list[str]:
    """Return warnings about columns whose variation rounding removes."""
    warnings = []
    for attribute, column in zip(problem.quasi, problem.numbers, strict=True):
        if column is None or attribute.taxonomy.scale.kind != "number":
            continue
        known = column[~np.isnan(column)]
        if 0.0 < float(np.std(known)) < 10.0**-method.decimals:
            warnings.append(
                f"column {attribute.name!r}: its numbers vary by less than {method.decimals} decimals show; use "
                "more decimals"
            )
    return warnings


@dataclass(frozen=True, slots=True, eq=False)
class Centres:
    """The published centres of one attribute as integers, which are equal if and only if the published values are."""

    steps: IntArray  # (n_groups,) multiples of 10**-decimals, days since 1970, or leaves
    missing: BoolArray  # (n_groups,) whether the published value is missing

    def codes(self) -> CodeArray:
        """Return (n_groups,) codes from 0 on that differ if and only if the published values differ."""
        known = np.where(self.missing, 0, self.steps - self.steps.min() + 1)
        return np.unique(known, return_inverse=True)[1].reshape(-1).astype(np.int32)


def place_centres(problem: Problem, plan: Plan, method: Microaggregation) -> Plan:
    """Return the plan with every class at the leaves nearest to its centres, as readers interpret averages."""
    cells, grouping = group_records(problem, plan)
    lo = np.empty_like(plan.lo)
    for place, attribute in enumerate(problem.quasi):
        taxonomy, found = attribute.taxonomy, centres(problem, place, cells, grouping, method)
        leaves, places = found.steps, taxonomy.scale.positions()
        if problem.numbers[place] is not None and places is not None:
            decimals = method.decimals if taxonomy.scale.kind == "number" else 0
            leaves = np.searchsorted((places[1:] + places[:-1]) / 2, found.steps / 10.0**decimals)
        lo[:, place] = leaves if taxonomy.missing is None else np.where(found.missing, taxonomy.missing, leaves)
    return replace(plan, lo=lo, hi=lo + np.int32(1))


def group_records(problem: Problem, plan: Plan) -> tuple[IntArray, mdav.Grouping]:
    """Return (n_records,) the cells of the published records, and their classes."""
    cell, class_of, records, _ = plan.pieces(problem.cells.counts)
    shown = class_of >= 0
    owner = np.repeat(class_of[shown], records[shown])
    return np.repeat(cell[shown], records[shown]), mdav.Grouping(owner, plan.n_classes)


def centres(
    problem: Problem, place: int, cells: AnyIntArray, grouping: mdav.Grouping, method: Microaggregation
) -> Centres:
    """Return the centre of each group of records, given their *cells*, for the quasi attribute at *place*.

    A centre depends only on the group's records and, if several values of a category are equally frequent, on their
    frequencies among all given records. A number must be missing in all records of a group or in none.
    """
    attribute, column = problem.quasi[place], problem.numbers[place]
    if column is None:
        leaves = mdav.group_modes(problem.quasi_codes[place][cells].astype(np.int32), grouping)
        missing = np.zeros(grouping.n_groups, dtype=np.bool_)
        if attribute.taxonomy.missing is not None:
            missing = leaves == attribute.taxonomy.missing
        return Centres(leaves.astype(np.int64), missing)
    average = mdav.group_means if method.numbers == "mean" else mdav.group_medians
    found = average(column[cells], grouping)
    missing = np.isnan(found)
    decimals = method.decimals if attribute.taxonomy.scale.kind == "number" else 0
    steps = np.rint(np.where(missing, 0.0, found) * 10.0**decimals)
    if (np.abs(steps) > FARTHEST).any():
        raise InputError(f"column {attribute.name!r} has numbers too large for {decimals} decimals; ask for fewer")
    return Centres(steps.astype(np.int64), missing)
