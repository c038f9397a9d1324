"""The transparent reader, exactly, on small tables (docs/adr/0007-transparent-reader.md).

Every table with the same quasi values is anonymized. The tables that give the same public output are the possible
ones, and counting them gives the posterior of the *minimality reader*, who knows the method and asks why no finer
release was made. The *resolving reader* only counts who went where. Both are written here without the product's code
for either, in fractions.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from shoal.core.errors import UnreachableError
from shoal.core.progress import Silent
from shoal.methods.base import AnyPlan, Method, make_plan
from shoal.models.base import ClassHistograms, PrivacyModel, ValueModel, Whole
from shoal.plan.cells import Cells
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.plan.slices import SlicedPlan
from shoal.taxonomies.files import from_nested
from shoal.taxonomies.tree import Taxonomy

Values = tuple[int, ...]  # the sensitive value of each person
TREES: list[dict[str, Any]] = [{"*": {"ab": ["a", "b"], "cd": ["c", "d"]}}, {"*": ["f", "m"]}]
ILLNESSES: dict[str, Any] = {"any": {"mild": ["cold", "flu"], "gout": None}}
REGISTERS: dict[str, tuple[tuple[int, ...], ...]] = {  # the quasi values of everyone in the table
    "pairs": ((0, 0), (0, 0), (1, 0), (1, 0), (2, 1), (2, 1)),
    "crossed": ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (3, 1)),
    "crowd": ((0, 0), (0, 0), (0, 0), (0, 0), (1, 0), (1, 0), (2, 1), (2, 1)),
}


@dataclass(frozen=True, eq=False)
class Oracle:
    """A method and its models on every table with the given quasi values."""

    method: Method
    models: tuple[PrivacyModel, ...]
    register: tuple[tuple[int, ...], ...]
    n_values: int = 3
    seeds: int = 1  # of a method that breaks ties at random
    max_withheld: int = 0
    stride: int = 1  # only every so many-th table: enough for the resolving reader

    @cached_property
    def trees(self) -> tuple[Taxonomy, ...]:
        return tuple(from_nested(tree) for tree in TREES)

    @cached_property
    def illness(self) -> Taxonomy:
        return from_nested(ILLNESSES if self.n_values == 3 else {"any": ["cold", "flu"]})

    def build_problem(self, values: Values) -> Problem:
        """Return the table in which the people have these values."""
        rows = Counter((*quasi, value) for quasi, value in zip(self.register, values, strict=True))
        columns = [np.array(column, dtype=np.int32) for column in zip(*rows, strict=True)]
        quasi = tuple(Attribute(f"q{j}", tree) for j, tree in enumerate(self.trees))
        requirements = []
        for number, model in enumerate(self.models):
            if isinstance(model, ValueModel):
                own = model.model_copy(update={"attribute": "illness"})
                bound = Requirement(own, number, columns[-1], self.illness.n_leaves, self.illness, place=0)
            else:
                bound = Requirement(model, number)
            requirements.append(bound)
        cells = Cells(tuple(columns), np.array(list(rows.values()), dtype=np.int64))
        sensitive = (Attribute("illness", self.illness),)
        return Problem(quasi, sensitive, cells, tuple(requirements), max_withheld=self.max_withheld)

    @cached_property
    def releases(self) -> list[tuple[Values, Problem, AnyPlan, Hashable]]:
        """Every table that can be anonymized, once per seed, with its plan and its public output."""
        found: list[tuple[Values, Problem, AnyPlan, Hashable]] = []
        every = enumerate(itertools.product(range(self.n_values), repeat=len(self.register)))
        for number, values in itertools.islice(every, 0, None, self.stride):
            problem = self.build_problem(values)
            if self.method.refuses(problem) is not None:
                continue
            for seed in range(self.seeds):
                try:
                    plan = make_plan(self.method, problem, np.random.default_rng([number, seed]), Silent())
                except UnreachableError:
                    break
                found.append((values, problem, plan, show(problem, plan)))
        return found

    @cached_property
    def posteriors(self) -> dict[Hashable, list[list[Fraction]]]:
        """For every public output, the share of the possible tables in which each person has each value."""
        tables: dict[Hashable, list[Values]] = defaultdict(list)
        for values, _, _, output in self.releases:
            tables[output].append(values)
        return {
            output: [
                [Fraction(sum(values[i] == v for values in own), len(own)) for v in range(self.n_values)]
                for i in range(len(self.register))
            ]
            for output, own in tables.items()
        }

    @cached_property
    def _judged(self) -> dict[Hashable, bool]:
        return {}

    def judge(self, shares: Sequence[Fraction], values: Values) -> bool:
        """Whether beliefs about a person satisfy the models of values in the table with these values."""
        key = (*shares, *sorted(Counter(values).items()))
        if key not in self._judged:
            self._judged[key] = self._judge(shares, values)
        return self._judged[key]

    def _judge(self, shares: Sequence[Fraction], values: Values) -> bool:
        common = int(np.lcm.reduce([share.denominator for share in shares]))
        counts = [int(share * common) * 1000 for share in shares]  # so many that only shares matter
        whole = Whole.of([values.count(v) for v in range(self.illness.n_leaves)], taxonomy=self.illness)
        classes = ClassHistograms.of([[*counts, *[0] * (self.illness.n_leaves - len(counts))]])
        return all(bool(model.holds_true(classes, whole)[0]) for model in self.models if isinstance(model, ValueModel))

    def find_excess(self) -> Excess:
        """Return how often the minimality reader's posterior breaks the models, and how certain the reader gets."""
        broken, people, most = 0, 0, Fraction(0)
        for values, _, _, output in self.releases:
            for shares in self.posteriors[output]:
                fails = not self.judge(shares, values)
                broken, people = broken + fails, people + 1
                most = max(most, max(shares)) if fails else most
        return Excess(len(self.releases), people, broken, most)

    def find_broken(self) -> list[Values]:
        """Return the tables in which the resolving reader breaks a model of values."""
        return [
            values
            for values, problem, plan, _ in self.releases
            if not all(self.judge(shares, values) for shares in self.resolve(problem, plan))
        ]

    def resolve(self, problem: Problem, plan: AnyPlan) -> Iterator[list[Fraction]]:
        """Yield the shares of true values in every group that the resolving reader forms."""
        if not isinstance(plan, Plan | SlicedPlan):
            raise TypeError("rows that were drawn are no one's")
        quasi = [tuple(int(codes[cell]) for codes in problem.quasi_codes) for cell in range(problem.cells.n_cells)]
        own = [int(code) for code in problem.cells.codes[-1]]
        cell, target, records = (column.tolist() for column in plan.assignment.pieces(problem.cells.counts))
        groups: dict[Hashable, Counter[int]] = defaultdict(Counter)
        for c, t, n in zip(cell, target, records, strict=True):
            if t < 0 or not isinstance(plan, Plan):
                groups["withheld" if t < 0 else t][own[c]] += n
                continue
            o = t if plan.targets is None else int(plan.targets.class_of[t])
            groups[o][own[c]] += n
            specific = find_specific(plan, quasi[c])
            # hilbert deals the records of a cell to classes at random, so none of them was moved for its value
            for left in specific if o not in specific and self.method.name != "hilbert" else ():
                groups[left][own[c]] += n
        for counts in groups.values():
            if counts.total():
                yield [Fraction(counts[v], counts.total()) for v in range(self.n_values)]
        if isinstance(plan, SlicedPlan):
            yield from (believe(plan, own, c, self.n_values) for c in range(problem.cells.n_cells))


@dataclass(frozen=True)
class Excess:
    """What the minimality reader finds out beyond the models."""

    releases: int
    people: int
    broken: int  # people about whom the posterior breaks a model
    most: Fraction  # the largest belief among these


def find_specific(plan: Plan, quasi: tuple[int, ...]) -> list[int]:
    """Return the classes that cover quasi values and contain no other such class."""
    boxes = [
        frozenset(itertools.product(*(range(low, high) for low, high in zip(lo, hi, strict=True))))
        for lo, hi in zip(plan.lo.tolist(), plan.hi.tolist(), strict=True)
    ]
    covering = [c for c, box in enumerate(boxes) if quasi in box]
    return [c for c in covering if not any(boxes[other] < boxes[c] for other in covering)]


def believe(plan: SlicedPlan, own: list[int], person: int, n_values: int) -> list[Fraction]:
    """Return p(t,.) of Li, Li, Zhang and Molloy for the quasi values of a cell: Definitions 5 to 7."""
    pieces = [*zip(*(c.tolist() for c in (plan.pieces.cell, plan.pieces.bucket, plan.pieces.records)), strict=True)]
    found = [Fraction(0)] * n_values
    for bucket in range(plan.n_buckets):
        inside = [(c, n) for c, b, n in pieces if b == bucket]
        size, degree, matching = sum(n for _, n in inside), Fraction(1), Counter[int]()
        for part in plan.parts:
            same = [(c, n) for c, n in inside if part.values[c] == part.values[person]]
            degree *= Fraction(sum(n for _, n in same), size)
            for c, n in same if part.sensitive else ():
                matching[own[c]] += n
        for value, n in matching.items():
            found[value] += degree * Fraction(n, matching.total())
    total = sum(found)
    return [share / total for share in found] if total else [Fraction(1, n_values)] * n_values


def show(problem: Problem, plan: AnyPlan) -> Hashable:
    """Return the public output: labels and published values of classes, or the parts of buckets, in no order."""
    own = problem.cells.codes[-1]
    if isinstance(plan, SlicedPlan):
        buckets: dict[int, list[Counter[Hashable]]] = {}
        pieces = zip(
            *(column.tolist() for column in (plan.pieces.cell, plan.pieces.bucket, plan.pieces.records)), strict=True
        )
        for cell, bucket, n in pieces:
            parts = buckets.setdefault(bucket, [Counter() for _ in plan.parts])
            for counter, part in zip(parts, plan.parts, strict=True):
                shown = tuple(int(problem.quasi_codes[a][cell]) for a in part.quasi)
                if part.lo is not None and part.hi is not None:
                    region = int(part.values[cell])
                    shown = (*part.lo[region].tolist(), *part.hi[region].tolist())
                counter[(shown, int(own[cell]) if part.sensitive else None)] += n
        return tuple(sorted(tuple(tuple(sorted(c.items(), key=repr)) for c in parts) for parts in buckets.values()))
    if not isinstance(plan, Plan):
        raise TypeError("only classes and buckets are shown")
    rows: Counter[Hashable] = Counter()
    for cell, owner, n, target in zip(*(column.tolist() for column in plan.pieces(problem.cells.counts)), strict=True):
        if owner >= 0:
            value: Hashable = int(own[cell])
            if plan.targets is not None and plan.targets.lo[target, 0] != KEPT:
                value = (int(plan.targets.lo[target, 0]), int(plan.targets.hi[target, 0]))
            rows[(*plan.lo[owner].tolist(), *plan.hi[owner].tolist(), value)] += n
    return tuple(sorted(rows.items(), key=repr))


BEGIN, END = "<!-- oracle: made by python -m experiments.adversaries -->", "<!-- oracle ends -->"


def list_cases() -> Iterator[tuple[str, Method, int]]:
    """Yield the methods that promise something about values, with the number of seeds for their random choices."""
    from shoal.methods.anatomy import Anatomy
    from shoal.methods.hilbert import Hilbert
    from shoal.methods.incognito import Incognito
    from shoal.methods.mondrian import Mondrian
    from shoal.methods.slicing import Slicing
    from shoal.methods.sweep import SequentialSweep

    yield "mondrian", Mondrian(), 1
    yield "mondrian, ranges", Mondrian(labels="ranges"), 1
    yield "incognito", Incognito(), 1
    yield "sweep", SequentialSweep(), 2
    yield "sweep, `defend: false`", SequentialSweep(defend=False), 3
    yield "hilbert", Hilbert(), 20
    yield "anatomy", Anatomy(), 60
    yield "slicing", Slicing(columns=2), 1


def list_models() -> Iterator[tuple[str, tuple[PrivacyModel, ...]]]:
    """Yield the models of values that small tables of two values can satisfy."""
    from shoal.models.alpha_k_anonymity import AlphaKAnonymity
    from shoal.models.distinct_l_diversity import DistinctLDiversity
    from shoal.models.entropy_l_diversity import EntropyLDiversity
    from shoal.models.recursive_cl_diversity import RecursiveCLDiversity
    from shoal.models.simple_l_diversity import SimpleLDiversity
    from shoal.models.t_closeness import TCloseness
    from shoal.models.tau_l_diversity import TauLDiversity

    yield "distinct 2", (DistinctLDiversity(l=2),)
    yield "simple 1.5", (SimpleLDiversity(l=1.5),)
    yield "entropy 1.7", (EntropyLDiversity(l=1.7),)
    yield "recursive (3,2)", (RecursiveCLDiversity(c=3, l=2),)
    yield "(tau,l) = (0.7,2)", (TauLDiversity(tau=0.7, l=2),)
    yield "t 0.3", (TCloseness(t=0.3),)
    yield "(alpha,k) = (0.7,2)", (AlphaKAnonymity(alpha=0.7, k=2),)


def tabulate() -> str:
    """Return the table of the minimality reader's excess, method by method and model by model."""
    lines = ["| method | " + " | ".join(name for name, _ in list_models()) + " |"]
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    for title, method, seeds in list_cases():
        entries = []
        for _, models in list_models():
            oracles = [Oracle(method, models, register, 2, seeds) for register in REGISTERS.values()]
            found = [oracle.find_excess() for oracle in oracles]
            people, broken = sum(one.people for one in found), sum(one.broken for one in found)
            exiled = sum(len(oracle.find_broken()) for oracle in oracles)
            most = max(one.most for one in found)
            text = "-" if not people else f"{broken / people:.1%}" + (f", up to {float(most):.2f}" if broken else "")
            entries.append(text + (f"; resolving: {exiled}" if exiled else ""))
        lines.append(f"| {title} | " + " | ".join(entries) + " |")
    return "\n".join(lines)


def main(docs: str) -> None:
    """Write the table into docs/adversaries.md."""
    page = Path(docs) / "adversaries.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(f"{text.split(BEGIN)[0]}{BEGIN}\n\n{tabulate()}\n\n{END}{text.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
