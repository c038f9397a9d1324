"""Local suppression: recoding by hand, then as few suppressed values as possible, as in statistical offices.

A *base* is a distinct combination of recoded quasi values. A base that satisfies every requirement becomes a class
unchanged. The others, the *needy* bases, are grouped pattern by pattern with bases that agree outside the pattern.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.errors import PolicyError, UnreachableError, did_you_mean
from shoal.core.progress import Progress, Step
from shoal.methods.base import Method, refuse_unreachable
from shoal.models.base import ClassHistograms, ValueModel
from shoal.plan.cells import Cells, KeyLayout
from shoal.plan.judging import Judge, people_of_classes
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.builders.listed import FlatTaxonomy

Level = Annotated[int, Field(ge=0, strict=True)]
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class LocalSuppression(Method):
    """Every value is published at the level chosen for its attribute, or suppressed as ``*`` if a class requires it.

    Hundepool et al., "Statistical Disclosure Control" (2012), sections 3.4.2 and 3.4.3. All records of a class
    suppress the same attributes, so equal labels form the classes. Models of sensitive values are refused, because
    suppression must depend on quasi values only.
    """

    name: ClassVar[str] = "local-suppression"
    title: ClassVar[str] = "generalizes every attribute to a chosen level, then suppresses single values"
    counts_people = True
    by_hand = True

    levels: dict[str, Level] = Field(
        default={},
        description="the level of the taxonomy at which each attribute is published; 0, the default, keeps the "
        "original values",
    )
    importance: tuple[str, ...] | dict[str, Weight] | None = Field(
        default=None,
        description="which attributes to preserve: a list, the most important first, or the cost of a suppressed "
        "value of each, by default 1; if omitted, the weights of the attributes",
    )

    def refuses(self, problem: Problem) -> str | None:
        """Refuse models of values and smallest shares of a population; unknown names and levels are errors."""
        self._find_levels(problem)
        self._weigh(problem)
        if names := [one.model.name for one in problem.requirements if isinstance(one.model, ValueModel)]:
            return (
                f"it serves models of class sizes, and {names[0]} constrains sensitive values: suppressing a frequent "
                "combination would disclose that its people share a value; use mondrian or sweep"
            )
        if any(not requirement.model.merge_monotone for requirement in problem.requirements):
            return "its labels overlap, so a share of the population has no lower bound; use mondrian, or a min of 0"
        return super().refuses(problem)

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:  # noqa: ARG002
        with progress.step("suppressing", unit="patterns") as step:
            return Planner(problem, self._find_levels(problem), self._weigh(problem), step).plan()

    def _find_levels(self, problem: Problem) -> list[int]:
        _check_names("levels", self.levels, problem)
        for attribute in problem.quasi:
            height, level = attribute.taxonomy.height, self.levels.get(attribute.name, 0)
            if level > height:
                raise PolicyError(
                    f"method {self.name}: levels: the taxonomy of {attribute.name!r} has the levels 0 to {height}, "
                    f"not {level}"
                )
        return [self.levels.get(attribute.name, 0) for attribute in problem.quasi]

    def _weigh(self, problem: Problem) -> FloatArray:
        """Return (n_quasi,) the cost of a suppressed value of each attribute."""
        names = [attribute.name for attribute in problem.quasi]
        if self.importance is None:
            return np.array([attribute.weight for attribute in problem.quasi])
        _check_names("importance", self.importance, problem)
        if isinstance(self.importance, dict):
            return np.array([self.importance.get(name, 1.0) for name in names])
        if len(set(self.importance)) < len(self.importance):
            raise PolicyError(f"method {self.name}: importance names an attribute twice")
        places = {name: place for place, name in enumerate(reversed(self.importance), start=2)}
        return np.array([float(places.get(name, 1)) for name in names])


def _check_names(parameter: str, given: Iterable[str], problem: Problem) -> None:
    names = [attribute.name for attribute in problem.quasi]
    for name in given:
        if name not in names:
            raise PolicyError(
                f"method {LocalSuppression.name}: {parameter}: {name!r} is not a quasi attribute of the policy"
                f"{did_you_mean(name, names)}"
            )


_MOST_ATTRIBUTES = 10  # up to this number all patterns are tried
_MOST_PATTERNS = 256  # of more attributes; Mondrian cuts the remaining bases
_RUNS = 30  # passes through the patterns, each in a different order
_RUN_WORK = 1 << 18  # needy bases times patterns of all runs but the first
_SPREAD = 0.15  # standard deviation of the logarithms of the factors that randomize the order
_MOST_SINGLE = 32  # needy bases that are assigned to classes one by one


@dataclass(frozen=True, slots=True, eq=False)
class Recoded:
    """A table after recoding, and its models' verdicts on groups of bases."""

    problem: Problem
    lo: CodeArray  # (n_bases, d) first leaf of each recoded value
    hi: CodeArray  # (n_bases, d) leaf after the last
    keys: KeyArray  # (n_words, n_bases) packed codes, ascending
    fields: KeyArray  # (d, n_words) mask of an attribute's code in a key
    base_of: CodeArray  # (n_cells,)
    records: IntArray  # (n_bases,) 0 for a base that only a population has
    varies: BoolArray  # (d,) whether suppressing an attribute changes the classes
    judges: tuple[Judge, ...]

    @classmethod
    def of(cls, problem: Problem, levels: Sequence[int]) -> Recoded:
        trees = [attribute.taxonomy for attribute in problem.quasi]
        columns = zip(trees, problem.quasi_codes, levels, strict=True)
        nodes = [tree.node_at(level)[codes] for tree, codes, level in columns]
        starts = [tree.lo[node] for tree, node in zip(trees, nodes, strict=True)]
        layout = KeyLayout.of_bits([max(int(column.max()).bit_length(), 1) for column in starts])
        keys = np.zeros((layout.n_words, problem.cells.n_cells), dtype=np.uint64)
        fields = np.zeros((len(starts), layout.n_words), dtype=np.uint64)
        for j, (word, shift, bits) in enumerate(zip(layout.word, layout.shift, layout.bits, strict=True)):
            keys[word] |= starts[j].astype(np.uint64) << np.uint64(shift)
            fields[j, word] = np.uint64(((1 << bits) - 1) << shift)
        order = np.lexsort(keys)
        first = kernels.find_starts(keys[:, order])
        base_of = np.empty(len(order), dtype=np.int32)
        base_of[order] = np.repeat(np.arange(len(first), dtype=np.int32), np.diff(first, append=len(order)))
        one = order[first]
        lo, hi = (
            np.stack([getattr(tree, end)[node[one]] for tree, node in zip(trees, nodes, strict=True)], axis=1)
            for end in ("lo", "hi")
        )
        counts = problem.cells.counts
        return cls(
            problem=problem,
            lo=lo,
            hi=hi,
            keys=np.ascontiguousarray(keys[:, one]),
            fields=fields,
            base_of=base_of,
            records=kernels.sum_groups(base_of, counts, len(first)),
            varies=(lo != lo[0]).any(axis=0),
            judges=tuple(Judge.of(requirement, counts) for requirement in problem.requirements),
        )

    @property
    def by_size(self) -> bool:
        """Whether all requirements depend on the records of a class only."""
        return all(r.model.sees == "sizes" and r.people is None for r in self.problem.requirements)

    def group(self, bases: IntArray, pattern: BoolArray) -> tuple[IntArray, CodeArray]:
        """Group bases that agree outside the pattern; return the first base of each group, and every base's group."""
        mask = np.bitwise_or.reduce(self.fields[~pattern], axis=0, initial=np.uint64(0))
        return kernels.number_rows(self.keys[:, bases].T & mask)

    def hold(self, bases: IntArray, group: CodeArray, first: IntArray, pattern: BoolArray) -> BoolArray:
        """Return (n_groups,) whether groups of bases satisfy every requirement, with the labels of their first base."""
        sizes = kernels.sum_groups(group, self.records[bases], len(first))
        if self.by_size:
            asked = [judge.requirement.model.holds(ClassHistograms(sizes), judge.whole) for judge in self.judges]
            return np.asarray(np.logical_and.reduce(asked))
        verdict = sizes >= max(self.problem.smallest_class, 1)
        place = np.where(verdict, np.cumsum(verdict) - 1, -1).astype(np.int32)  # the others are too small
        of_base = np.full(len(self.records), -1, dtype=np.int32)
        of_base[bases] = place[group]
        people = self.people_under(bases[first[verdict]], pattern)
        starts, cells = kernels.group_items(
            np.where(self.problem.cells.counts > 0, of_base[self.base_of], np.int32(-1)), int(verdict.sum())
        )
        holds = np.ones(len(starts) - 1, dtype=np.bool_)
        for judge in self.judges if len(holds) else ():
            blocks = self._histograms(judge, starts, cells, people.get(judge.requirement.population_name))
            holds &= np.concatenate([judge.requirement.model.holds(classes, judge.whole) for classes in blocks])
        verdict[verdict] = holds
        return verdict

    def _histograms(
        self, judge: Judge, starts: IntArray, cells: IntArray, people: IntArray | None
    ) -> Iterator[ClassHistograms]:
        requirement = judge.requirement
        if requirement.people is not None:
            return people_of_classes(requirement, starts, cells)
        return judge.histograms(starts, None, self.problem.cells.counts[cells], people)

    def people_under(self, bases: IntArray, pattern: BoolArray) -> dict[str, IntArray]:
        """Return (n,) the people of each population under the labels that bases have with a pattern."""
        counted = {r.population_name: r.population for r in self.problem.requirements if r.population is not None}
        if not counted:
            return {}
        first, group = self.group(np.arange(len(self.records)), pattern)
        own = group[self.base_of]
        return {name: kernels.sum_groups(own, people, len(first))[group[bases]] for name, people in counted.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The classes of bases: each with its suppressed attributes, and a base that has its other labels."""

    patterns: BoolArray  # (n_classes, d)
    base: IntArray  # (n_classes,)
    class_of: CodeArray  # (n_bases,) or WITHHELD

    def cost(self, recoded: Recoded, weights: FloatArray) -> float:
        """Return the weighted number of suppressed values; a withheld record loses all of its values."""
        each = np.append(self.patterns @ weights, weights.sum())
        return float(recoded.records @ each[self.class_of])


class Planner:
    """Chooses the classes of a recoded table, given the cost of a suppressed value of each attribute."""

    def __init__(self, problem: Problem, levels: Sequence[int], weights: FloatArray, step: Step) -> None:
        refuse_unreachable(problem, 0)
        self._problem, self._levels, self._weights, self._step = problem, levels, weights, step
        self._recoded = Recoded.of(problem, levels)
        varies = self._recoded.varies
        self._wide = int(varies.sum()) > _MOST_ATTRIBUTES
        most = _MOST_PATTERNS if self._wide else 1 << _MOST_ATTRIBUTES
        self._patterns = list(cheapest_patterns(weights, varies, most))
        self._there = np.flatnonzero(self._recoded.records)
        own = np.arange(len(self._there))
        nothing = np.zeros(len(weights), dtype=np.bool_)
        self._safe = self._recoded.hold(self._there, own.astype(np.int32), own, nothing)

    def plan(self) -> Plan:
        recoded, weights = self._recoded, self._weights
        work = int(np.count_nonzero(~self._safe)) * len(self._patterns)
        rng = np.random.default_rng(0)  # for the order of patterns only, which protects no one
        choices = [self._run(rng, 0.0)]
        choices += [self._run(rng, _SPREAD) for _ in range(min(_RUNS, _RUN_WORK // work) if work else 0)]
        best = min(choices, key=lambda choice: choice.cost(recoded, weights))
        used, number = np.unique(best.class_of, return_inverse=True)
        used, shift = used[used != WITHHELD], int(used[0] == WITHHELD)
        best = Choice(best.patterns[used], best.base[used], (number.reshape(-1) - shift).astype(np.int32))
        full = np.array([attribute.taxonomy.n_leaves for attribute in self._problem.quasi], dtype=np.int32)
        lo = np.where(best.patterns, np.int32(0), recoded.lo[best.base])
        hi = np.where(best.patterns, full, recoded.hi[best.base])
        counts, people = self._problem.cells.counts, self._count_people(best)
        plan = Plan.of_cells(lo, hi, best.class_of[recoded.base_of], counts, people)
        names = [attribute.name for attribute in self._problem.quasi]
        figures = {
            "runs": len(choices),
            "suppressed": dict(zip(names, (plan.sizes @ best.patterns).tolist(), strict=True)),
            "weights": dict(zip(names, weights.tolist(), strict=True)),
            "cost": best.cost(recoded, weights),
            "bound": self._bound(),
        }
        return replace(plan, recoded=dict(zip(names, self._levels, strict=True)), search=figures)

    def _run(self, rng: np.random.Generator, spread: float) -> Choice:
        """Form classes pattern by pattern, in an order randomized by *spread*, then assign the remaining bases."""
        recoded, there = self._recoded, self._there
        n, d = int(self._safe.sum()), len(self._weights)
        class_of = np.full(len(recoded.records), WITHHELD, dtype=np.int32)
        class_of[there[self._safe]] = np.arange(n)
        patterns, bases, needy = [np.zeros((n, d), dtype=np.bool_)], [there[self._safe]], there[~self._safe]
        noise = np.exp(spread * rng.standard_normal(len(self._patterns)))
        order = np.argsort([cost * factor for (cost, _), factor in zip(self._patterns, noise, strict=True)])
        steps = [self._patterns[number][1] for number in order]
        for pattern in [*steps, None]:
            if not len(needy):
                break
            if pattern is None:
                shapes, first, group = self._cut(needy)
            else:
                first, group = recoded.group(needy, pattern)
                chosen = recoded.hold(needy, group, first, pattern)
                group = np.where(chosen, np.cumsum(chosen) - 1, WITHHELD)[group]
                shapes, first = np.broadcast_to(pattern, (int(chosen.sum()), d)), first[chosen]
            class_of[needy] = np.where(group == WITHHELD, WITHHELD, group + n)
            patterns.append(shapes)
            bases.append(needy[first])
            needy, n = needy[group == WITHHELD], n + len(first)
            self._step.advance(1)
        choice = Choice(np.concatenate(patterns), np.concatenate(bases), class_of)
        return self._absorb(choice, needy) if len(needy) else choice

    def _cut(self, needy: IntArray) -> tuple[BoolArray, IntArray, CodeArray]:
        """Group needy bases by Mondrian, with flat taxonomies of each attribute's values and ``*``.

        With many attributes only few patterns can be tried, and the remaining bases differ in most attributes.
        """
        from shoal.methods.mondrian.tree import MondrianTree

        recoded, counts = self._recoded, self._problem.cells.counts
        one = np.zeros(len(needy), dtype=np.int32)
        if not self._wide or not recoded.hold(needy, one, one[:1].astype(np.int64), recoded.varies)[0]:
            return np.zeros((0, len(self._weights)), dtype=np.bool_), one[:0].astype(np.int64), one + WITHHELD
        place = np.full(len(recoded.records), -1, dtype=np.int64)
        place[needy] = np.arange(len(needy))
        cells = np.flatnonzero((place[recoded.base_of] >= 0) & (counts > 0))
        owner = place[recoded.base_of[cells]]
        quasi, codes = [], []
        for attribute, column, weight in zip(self._problem.quasi, recoded.lo[needy].T, self._weights, strict=True):
            values, code = np.unique(column, return_inverse=True)
            flat = FlatTaxonomy(values=tuple(range(len(values)))).build(pa.array([], pa.int64()))
            quasi.append(Attribute(attribute.name, flat, float(weight)))
            codes.append(code.reshape(-1).astype(np.int32)[owner])
        asked = tuple(_restrict(requirement, cells, counts) for requirement in self._problem.requirements)
        problem = Problem(tuple(quasi), (), Cells(tuple(codes), counts[cells]), asked)
        with MondrianTree(problem, ranges=False) as tree:
            tree.grow(self._step)
            plan = tree.plan()
        group = np.empty(len(needy), dtype=np.int32)
        group[owner] = plan.assignment.class_of
        return plan.hi - plan.lo > 1, np.unique(group, return_index=True)[1], group

    def _absorb(self, choice: Choice, needy: IntArray) -> Choice:
        """Merge needy bases with the classes whose cost rises least, and more classes, until all hold.

        They are withheld instead if the policy allows it and it costs less.
        """
        recoded, weights, n = self._recoded, self._weights, len(choice.base)
        single = len(needy) <= _MOST_SINGLE
        shape = (recoded.lo[needy] != recoded.lo[needy[0]]).any(axis=0)
        patterns = np.concatenate(
            [choice.patterns, np.zeros((len(needy), len(shape)), dtype=np.bool_) if single else shape[None]]
        )
        base = np.concatenate([choice.base, needy if single else needy[:1]])
        class_of = choice.class_of.copy()
        class_of[needy] = n + (np.arange(len(needy)) if single else 0)
        sizes = kernels.sum_groups(class_of, recoded.records, len(base))
        for one in range(n, len(base)):
            while sizes[one]:  # 0 if it was merged into another needy base
                merged = patterns | patterns[one] | (recoded.lo[base] != recoded.lo[base[one]])
                extra = (sizes + sizes[one]) * (merged @ weights) - sizes * (patterns @ weights)
                extra[(sizes == 0) | (np.arange(len(base)) == one)] = np.inf
                other = int(extra.argmin())
                same = extra[other] < np.inf and bool((patterns[[one, other]] == merged[other]).all())
                own = np.flatnonzero(class_of == one)
                zero = np.zeros(len(own), dtype=np.int32)
                if not same and recoded.hold(own, zero, zero[:1].astype(np.int64), patterns[one])[0]:
                    break  # and no other class has its label
                if extra[other] == np.inf:
                    raise UnreachableError(
                        "neither several classes nor a single class of the table satisfies the requirements"
                    )
                class_of[class_of == other] = one
                patterns[one] = merged[other]
                sizes[one], sizes[other] = sizes[one] + sizes[other], 0
        made = Choice(patterns, base, class_of)
        if recoded.records[needy].sum() > self._problem.max_withheld:
            return made
        return min(made, choice, key=lambda found: found.cost(recoded, weights)) if n else made

    def _count_people(self, choice: Choice) -> dict[str, IntArray]:
        """Return (n_classes,) the people of every population under the labels of classes."""
        found: dict[str, IntArray] = {}
        shapes, shape = np.unique(choice.patterns, axis=0, return_inverse=True)
        for number, pattern in enumerate(shapes):
            own = np.flatnonzero(shape.reshape(-1) == number)
            for name, people in self._recoded.people_under(choice.base[own], pattern).items():
                found.setdefault(name, np.zeros(len(choice.base), dtype=np.int64))[own] = people
        return found

    def _bound(self) -> float:
        """Return a lower bound of the weighted number of suppressed values.

        Records of a base that is too small share their class with records that agree outside its pattern. They suppress
        at least the cheapest pattern outside which enough records of the table agree.
        """
        recoded, there, smallest = self._recoded, self._there, self._problem.smallest_class
        records, total, cost = recoded.records[there], 0.0, 0.0
        small = np.flatnonzero(records < smallest)
        for cost, pattern in self._patterns:
            if not len(small):
                break
            first, group = recoded.group(there, pattern)
            enough = (kernels.sum_groups(group, records, len(first)) >= smallest)[group[small]]
            total += cost * float(records[small[enough]].sum())
            small = small[~enough]
        return total + cost * float(records[small].sum())


def _restrict(requirement: Requirement, cells: IntArray, counts: IntArray) -> Requirement:
    """Return a requirement restricted to some cells, which form a region of the table."""
    people = requirement.people
    if people is not None:
        people = replace(people, person=people.person[cells])
    return replace(requirement, people=people, table=requirement.whole(counts))


def cheapest_patterns(weights: FloatArray, varies: BoolArray, most: int) -> Iterator[tuple[float, BoolArray]]:
    """Yield at most *most* non-empty sets of varying attributes, by ascending sums of their weights.

    >>> found = cheapest_patterns(np.array([2.0, 1.0]), np.array([True, True]), 4)
    >>> [(cost, pattern.tolist()) for cost, pattern in found]
    [(1.0, [False, True]), (2.0, [True, False]), (3.0, [True, True])]
    """
    order = np.flatnonzero(varies)
    order = order[np.argsort(weights[order], kind="stable")]
    waiting: list[tuple[float, int, tuple[int, ...]]] = [(float(weights[order[0]]), 0, (0,))] if len(order) else []
    while waiting and most:
        cost, last, chosen = heapq.heappop(waiting)
        most -= 1
        pattern = np.zeros(len(weights), dtype=np.bool_)
        pattern[order[list(chosen)]] = True
        yield cost, pattern
        if last + 1 < len(order):  # add the next attribute, or replace the last by it
            more, now = float(weights[order[last + 1]]), float(weights[order[last]])
            heapq.heappush(waiting, (cost + more, last + 1, (*chosen, last + 1)))
            heapq.heappush(waiting, (cost + more - now, last + 1, (*chosen[:-1], last + 1)))
