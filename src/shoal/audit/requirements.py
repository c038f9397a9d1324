"""The policy's models, and the usual measures of diversity, on the table as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shoal.audit.classes import ValueClasses
from shoal.audit.measuring import Measured, largest_distance, measure
from shoal.audit.raw import RawTable
from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.models.base import ClassHistograms, PrivacyModel, Whole
from shoal.models.delta_presence import DeltaPresence
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.recursive_cl_diversity import RecursiveCLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.models.t_closeness import TCloseness
from shoal.plan.judging import people_of_classes
from shoal.plan.problem import Requirement
from shoal.taxonomies.parse import decimal_numbers


@dataclass(frozen=True, slots=True)
class ModelVerdict:
    """Whether the table as it is meets one model of the policy."""

    model: PrivacyModel
    holds: bool
    achieved: float
    records_missed: int  # records of classes that miss it
    by_records: bool = False  # whether it counts records although the policy names people

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it; an infinite parameter is null."""
        return {
            "model": self.model.name,
            "parameters": self.model.model_dump(mode="json", exclude_none=True),
            "holds": self.holds,
            "achieved": finite(self.achieved),
            "records_missed": self.records_missed,
        }


@dataclass(frozen=True, slots=True)
class SensitiveRisk:
    """How much the classes of the table as it is tell of one sensitive attribute.

    ``certain_records`` are those whose class has one value only: whoever finds the class knows the value. A
    recursive c is infinite where a class has fewer than l values.
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

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it; an infinite parameter is null."""
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
    """Return the number, or None if it is infinite: JSON knows no infinity."""
    return number if np.isfinite(number) else None


def verdicts(
    raw: RawTable,
    models: Sequence[PrivacyModel],
    people: IntArray,
    by_people: Mapping[int, list[Requirement]],
    class_of: AnyIntArray | None,
) -> tuple[ModelVerdict, ...]:
    """Judge the policy's models; one that holds for several attributes is judged by the worst of them.

    Models of sizes and of populations see the *people* of each class. Of those of values the requirements *by_people*
    do, whose cells have the classes *class_of*; the others see records.
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
        classes = values if model.knows_values else values.ranked()
        (result,) = measure((model,), whole, classes.alike())
    else:
        candidates = None
        if requirement.population is not None:
            candidates, uncovered = raw.people(requirement)
        classes_of_people = ClassHistograms(people, population=candidates)
        missed = ~model.holds(classes_of_people, whole)
        result = Measured(model.worst(classes_of_people, whole), int(raw.sizes[missed].sum()))
    # People whom no class covers are surely not in the table.
    absent = isinstance(model, DeltaPresence) and model.min > 0 and uncovered > 0
    return ModelVerdict(model, result.n_missed == 0 and not absent, result.achieved, result.n_missed)


def _verdict_of_people(raw: RawTable, requirement: Requirement, class_of: AnyIntArray) -> ModelVerdict:
    model, first = requirement.model, np.searchsorted(class_of, np.arange(raw.n_classes + 1))
    whole = requirement.whole(np.ones(len(class_of), dtype=np.int64))
    blocks = list(people_of_classes(requirement, first, np.arange(len(class_of))))
    holds = np.concatenate([model.holds(block, whole) for block in blocks])
    worst = min if model.achieved_is == "at least" else max
    reached = worst(model.worst(block, whole) for block in blocks)
    return ModelVerdict(model, bool(holds.all()), reached, int(raw.sizes[~holds].sum()))


def _together(model: PrivacyModel, parts: Sequence[ModelVerdict]) -> ModelVerdict:
    worst = min if model.achieved_is == "at least" else max
    return ModelVerdict(
        model=model,
        holds=all(part.holds for part in parts),
        achieved=worst(part.achieved for part in parts),
        records_missed=max(part.records_missed for part in parts),
        by_records=any(part.by_records for part in parts),
    )


def sensitive_risks(raw: RawTable) -> tuple[SensitiveRisk, ...]:
    """Measure every sensitive attribute."""
    return tuple(_sensitive_risk(raw, number) for number in range(len(raw.encoding.problem.sensitive)))


def _sensitive_risk(raw: RawTable, number: int) -> SensitiveRisk:
    attribute = raw.encoding.problem.sensitive[number]
    leaves = raw.encoding.problem.cells.codes[raw.n_quasi + number][: len(raw.records)]
    codes, n_values = _occurring(np.asarray(leaves, dtype=np.int32))
    values = ValueClasses.of(raw, codes, n_values)
    whole = Whole(raw.n_records, values.whole())
    models = (
        DistinctLDiversity(l=2),
        SimpleLDiversity(l=1),
        EntropyLDiversity(l=1),
        RecursiveCLDiversity(c=1, l=2),
        RecursiveCLDiversity(c=1, l=3),
    )
    distinct, simple, entropy, recursive_2, recursive_3 = measure(models, whole, values.ranked().alike())
    ordered = TCloseness(t=1, distance="ordered")
    return SensitiveRisk(
        attribute=attribute.name,
        values=n_values,
        certain_records=distinct.n_missed,  # a class misses distinct 2-diversity if it has one value
        distinct_l=int(distinct.achieved),
        simple_l=simple.achieved,
        entropy_l=entropy.achieved,
        recursive_c_l2=recursive_2.achieved,
        recursive_c_l3=recursive_3.achieved,
        t_equal=largest_distance(TCloseness(t=1), values, whole),
        t_ordered=largest_distance(ordered, values, whole) if _is_ordered(raw, number) else None,
    )


def _occurring(leaves: CodeArray) -> tuple[CodeArray, int]:
    """Return codes that leave out the values that do not occur, in the same order, and how many do."""
    there = np.bincount(leaves) > 0
    rank = (np.cumsum(there) - 1).astype(np.int32)
    return rank[leaves], int(there.sum())


def _is_ordered(raw: RawTable, number: int) -> bool:
    """Whether the values of a sensitive attribute have an order: numbers and dates, none missing."""
    taxonomy = raw.encoding.problem.sensitive[number].taxonomy
    if taxonomy.missing is not None:
        return False
    if taxonomy.scale.kind in ("number", "date"):
        return True
    # A flat taxonomy sorts numbers as such.
    return taxonomy.height == 1 and bool(
        decimal_numbers(raw.counted.dictionaries[raw.n_quasi + number].values)[1].all()
    )
