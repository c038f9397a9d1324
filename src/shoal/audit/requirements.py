"""The policy's models, and the usual measures of diversity, on the classes of the unchanged table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from shoal.audit.raw import RawTable
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import count_pairs, gather_entries
from shoal.core.results import Figures
from shoal.models.base import ClassHistograms, PrivacyModel, TableModel, Whole
from shoal.models.delta_presence import DeltaPresence
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.recursive_cl_diversity import RecursiveCLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.models.t_closeness import TCloseness
from shoal.plan.judging import people_of_classes
from shoal.plan.problem import Requirement
from shoal.taxonomies.parse import decimal_numbers

_HISTOGRAM_ENTRIES = 1 << 22
_ROUNDING = 1e-9  # tolerance for rounding errors of bounds


@dataclass(frozen=True, slots=True)
class ModelVerdict(Figures):
    """Whether the unchanged table satisfies one model of the policy."""

    model: PrivacyModel
    holds: bool
    achieved: float
    records_missed: int  # records of classes that violate it
    by_records: bool = False  # whether it counts records although the policy names people

    def as_dict(self) -> dict[str, object]:
        """Return it for JSON; an infinite parameter is null."""
        return {
            "model": self.model.name,
            "parameters": self.model.model_dump(mode="json", exclude_none=True),
            "holds": self.holds,
            "achieved": finite(self.achieved),
            "records_missed": self.records_missed,
        }


@dataclass(frozen=True, slots=True)
class SensitiveRisk(Figures):
    """How much the classes of the unchanged table reveal about one sensitive attribute.

    ``certain_records`` are in classes with a single value. A recursive c is infinite if a class has fewer than l
    values.
    """

    attribute: str
    values: int
    certain_records: int
    distinct_l: int
    simple_l: float
    entropy_l: float
    recursive_c_l2: float
    recursive_c_l3: float
    t_equal: float
    t_ordered: float | None  # for numbers and dates only

    def as_dict(self) -> dict[str, object]:
        """Return it for JSON; an infinite parameter is null."""
        return {
            "attribute": self.attribute,
            "values": self.values,
            "certain_records": self.certain_records,
            "distinct_l": self.distinct_l,
            "simple_l": self.simple_l,
            "entropy_l": self.entropy_l,
            "recursive_c": {"2": finite(self.recursive_c_l2), "3": finite(self.recursive_c_l3)},
            "t": {"equal": self.t_equal, "ordered": self.t_ordered},
        }


def finite(number: float) -> float | None:
    """Return the number, or None if it is infinite, because JSON has no infinity."""
    return number if np.isfinite(number) else None


def verdicts(
    raw: RawTable,
    models: Sequence[PrivacyModel],
    people: IntArray,
    by_people: Mapping[int, list[Requirement]],
    class_of: AnyIntArray | None,
) -> tuple[ModelVerdict, ...]:
    """Judge the policy's models; a model that holds for several attributes is judged by the worst of them.

    Models of sizes and of populations count the *people* of each class. Models of values count people by the
    requirements *by_people*, whose cells have the classes *class_of*; without a requirement there, they count records.
    """
    found: list[list[ModelVerdict]] = [[] for _ in models]
    for requirement in raw.encoding.problem.requirements:
        if requirement.number < len(models) and requirement.number not in by_people:
            by_records = class_of is not None and requirement.values is not None
            found[requirement.number].append(replace(_verdict(raw, requirement, people), by_records=by_records))
    if class_of is not None:
        for number, requirements in by_people.items():
            found[number] += [_verdict_of_people(raw, requirement, class_of) for requirement in requirements]
    return tuple(_together(model, parts) for model, parts in zip(models, found, strict=True))


def _verdict(raw: RawTable, requirement: Requirement, people: IntArray) -> ModelVerdict:
    model = requirement.model
    whole = requirement.whole(raw.encoding.problem.cells.counts)
    uncovered = 0
    if requirement.values is not None:
        values = ValueClasses.of(raw, requirement.values[: len(raw.records)], requirement.n_values)
        achieved, n_missed = measure(model, whole, values.wide() if model.knows_values else values.narrow())
    else:
        candidates = None
        if requirement.population is not None:
            candidates, uncovered = raw.people(requirement)
        classes_of_people = ClassHistograms(people, population=candidates)
        achieved = model.worst(classes_of_people, whole)
        n_missed = int(raw.sizes[~model.holds(classes_of_people, whole)].sum())
        if isinstance(model, TableModel):
            holds = model.holds_together(people)
            return ModelVerdict(model, holds, model.reach_together(people), 0 if holds else n_missed)
    # People whom no class covers cannot be in the table.
    absent = isinstance(model, DeltaPresence) and model.min > 0 and uncovered > 0
    return ModelVerdict(model, n_missed == 0 and not absent, achieved, n_missed)


def _verdict_of_people(raw: RawTable, requirement: Requirement, class_of: AnyIntArray) -> ModelVerdict:
    model, first = requirement.model, np.searchsorted(class_of, np.arange(raw.n_classes + 1))
    whole = requirement.whole(np.ones(len(class_of), dtype=np.int64))
    blocks = list(people_of_classes(requirement, first, np.arange(len(class_of))))
    holds = np.concatenate([model.holds(block, whole) for block in blocks])
    reached = _find_worst(model, [model.worst(block, whole) for block in blocks])
    return ModelVerdict(model, bool(holds.all()), reached, int(raw.sizes[~holds].sum()))


def _find_worst(model: PrivacyModel, reached: Iterable[float]) -> float:
    return min(reached) if model.achieved_is == "at least" else max(reached)


def _together(model: PrivacyModel, parts: Sequence[ModelVerdict]) -> ModelVerdict:
    return ModelVerdict(
        model=model,
        holds=all(part.holds for part in parts),
        achieved=_find_worst(model, [part.achieved for part in parts]),
        records_missed=max(part.records_missed for part in parts),
        by_records=any(part.by_records for part in parts),
    )


def sensitive_risks(raw: RawTable) -> tuple[SensitiveRisk, ...]:
    return tuple(_sensitive_risk(raw, number) for number in range(len(raw.encoding.problem.sensitive)))


def _sensitive_risk(raw: RawTable, number: int) -> SensitiveRisk:
    attribute = raw.encoding.problem.sensitive[number]
    leaves = raw.encoding.problem.cells.codes[raw.n_quasi + number][: len(raw.records)]
    occurring, codes = np.unique(leaves, return_inverse=True)
    n_values = len(occurring)
    values = ValueClasses.of(raw, codes.reshape(-1).astype(np.int32), n_values)
    whole = Whole(raw.n_records, values.whole())
    (distinct_l, n_certain), (simple_l, _), (entropy_l, _), (recursive_2, _), (recursive_3, _) = (
        measure(model, whole, values.narrow())
        for model in (
            DistinctLDiversity(l=2),
            SimpleLDiversity(l=1),
            EntropyLDiversity(l=1),
            RecursiveCLDiversity(c=1, l=2),
            RecursiveCLDiversity(c=1, l=3),
        )
    )
    ordered = TCloseness(t=1, distance="ordered")
    return SensitiveRisk(
        attribute=attribute.name,
        values=n_values,
        certain_records=n_certain,  # a class violates distinct 2-diversity if it has one value
        distinct_l=int(distinct_l),
        simple_l=simple_l,
        entropy_l=entropy_l,
        recursive_c_l2=recursive_2,
        recursive_c_l3=recursive_3,
        t_equal=largest_distance(TCloseness(t=1), values, whole),
        t_ordered=largest_distance(ordered, values, whole) if _is_ordered(raw, number) else None,
    )


def _is_ordered(raw: RawTable, number: int) -> bool:
    """Whether the values of a sensitive attribute are ordered: numbers or dates, none missing."""
    taxonomy = raw.encoding.problem.sensitive[number].taxonomy
    if taxonomy.missing is not None:
        return False
    if taxonomy.scale.kind in ("number", "date"):
        return True
    # A flat taxonomy sorts numbers as such.
    return taxonomy.height == 1 and bool(
        decimal_numbers(raw.counted.dictionaries[raw.n_quasi + number].values)[1].all()
    )


@dataclass(frozen=True, slots=True, eq=False)
class ValueClasses:
    """The values of every class, ascending, with the records of each."""

    first: IntArray  # (n_classes + 1,) where each class starts among the items
    values: CodeArray  # (n_items,)
    records: IntArray  # (n_items,)
    n_values: int

    @classmethod
    def of(cls, raw: RawTable, values: CodeArray, n_values: int) -> Self:
        pairs = count_pairs(raw.class_of, raw.n_classes, values, n_values, raw.records)
        return cls(pairs.start, pairs.second, pairs.records, n_values)

    @property
    def sizes(self) -> IntArray:
        """(n_classes,) records of each class."""
        return np.add.reduceat(self.records, self.first[:-1])

    def whole(self) -> IntArray:
        """Return (n_values,) the records of each value in all classes."""
        return np.bincount(self.values, weights=self.records, minlength=self.n_values).astype(np.int64)

    def narrow(self) -> Iterator[ClassHistograms]:
        """Yield blocks of classes with the counts of their own values only, without the values' identity."""
        widths = np.diff(self.first)
        for width in np.unique(widths).tolist():
            for which in _cut(np.flatnonzero(widths == width), width):
                counts = self.records[self.first[which][:, np.newaxis] + np.arange(width)]
                yield ClassHistograms(counts.sum(axis=1), counts)

    def wide(self, order: IntArray | None = None) -> Iterator[ClassHistograms]:
        """Yield blocks of classes, all or the ones in *order*, with the counts of all values."""
        for which in _cut(np.arange(len(self.first) - 1) if order is None else order, self.n_values):
            row, item = gather_entries(self.first, which)
            counts = np.zeros((len(which), self.n_values), dtype=np.int64)
            counts[row, self.values[item]] = self.records[item]
            yield ClassHistograms(counts.sum(axis=1), counts)


def _cut(which: IntArray, width: int) -> list[IntArray]:
    """Cut a list of classes into blocks of bounded memory."""
    step = max(_HISTOGRAM_ENTRIES // max(width, 1), 1)
    return np.split(which, range(step, len(which), step))


def measure(model: PrivacyModel, whole: Whole, classes: Iterable[ClassHistograms]) -> tuple[float, int]:
    """Return the strongest main parameter that all classes satisfy, and the records of classes that violate it."""
    reached, missed = [], 0
    for block in classes:
        reached.append(model.worst(block, whole))
        missed += int(block.sizes[~model.holds(block, whole)].sum())
    return _find_worst(model, reached), missed


def largest_distance(model: TCloseness, values: ValueClasses, whole: Whole) -> float:
    """Return the t that all classes satisfy, without examining classes that cannot be the worst.

    The earth mover's distance to a given table is convex: a class's distance is at most the mean distance of its
    records alone. Classes are examined in descending order of this bound until none can exceed the maximum found.
    """
    alone = _distance_of_one(model, values.whole())
    bound = np.add.reduceat(values.records * alone[values.values], values.first[:-1]) / values.sizes
    order = np.argsort(-bound, kind="stable")
    found, n_seen = 0.0, 0
    for block in values.wide(order):
        if n_seen and found >= bound[order[n_seen]] - _ROUNDING:
            break
        found = max(found, model.worst(block, whole))
        n_seen += len(block.sizes)
    return found


def _distance_of_one(model: TCloseness, counts: IntArray) -> FloatArray:
    """Return (n_values,) the distance between the table and a class of one record; all values occur."""
    shares = counts / counts.sum()
    if model.distance == "equal":
        return np.asarray(1.0 - shares)
    below = np.cumsum(shares)  # (n_values,) share of records up to each value
    passed_up = np.concatenate([[0.0], np.cumsum(below)])[:-1]
    passed_down = (1.0 - below)[::-1].cumsum()[::-1]
    return np.asarray((passed_up + passed_down) / max(len(counts) - 1, 1))
