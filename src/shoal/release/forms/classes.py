"""The forms `classes` and `plain`: every row is a record with the labels of its class, or with its own values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from shoal.core.progress import Progress
from shoal.core.randomness import Chance, Shuffler
from shoal.methods.base import AnyPlan
from shoal.plan.counted import CountedCells
from shoal.plan.plan import Dealer, Plan
from shoal.plan.problem import Problem
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.columns import PublishedColumn
from shoal.release.figures import Findings, estimate_guessed
from shoal.release.forms.base import EXACT, IMPORTS, LABELS, RECORDS, Form, find_form, quote
from shoal.release.publication import ClassPublication, Engine, Hiding, People, PublishedRows, describe_plan
from shoal.release.rows import RowColumns, RowNumbers
from shoal.release.witness import ROW
from shoal.sources.base import Source
from shoal.utility.analyses import compare_pairs, measure_numbers, measure_rows
from shoal.utility.base import Utility, measure
from shoal.utility.rows import view_plan

_RANGES = """
labels = json.loads(Path("manifest.json").read_text(encoding="utf-8"))["attributes"][{name}]["labels"]
edge = {edge}


def surely(cover):  # the whole range is at or above the edge
    return cover.get("from") is not None and cover["from"] >= edge


def possibly(cover):  # part of the range is at or above the edge
    return cover.get("any") or ("from" in cover and (cover["below"] is None or cover["below"] > edge))


counts = data[{name}].value_counts()
least = sum(count for label, count in counts.items() if surely(labels[label]))
most = sum(count for label, count in counts.items() if possibly(labels[label]))
print("from", edge, "on: at least", least, "and at most", most, "records")
"""
_SETS = """
entry = json.loads(Path("manifest.json").read_text(encoding="utf-8"))["attributes"][{name}]
value = {value}


def listed(cover):  # the values, which may be written as runs of places in the column's list
    if isinstance(cover, dict):
        return cover.get("values", [])
    return [one for start, end in zip(cover[::2], cover[1::2]) for one in entry["values"][start:end]]


counts = data[{name}].value_counts()
every = [label for label, cover in entry["labels"].items() if cover == {{"any": True}}]
fits = [*every, *(label for label, cover in entry["labels"].items() if value in listed(cover))]
alone = [label for label in fits if listed(entry["labels"][label]) == [value]]
print("at least", counts.reindex(alone).sum(), "and at most", counts.reindex(fits).sum(), "records have", value)
"""
_LABEL_IMPORTS = f"import json\nfrom pathlib import Path\n\n{IMPORTS}"
_OVERLAP = (
    "- Labels of one column may overlap: `[20, 39]` and `[20, 59]` are not separate groups. To compare groups, combine "
    "labels until they do not overlap."
)
_VALUES = "- Values are original, or changed as described above: count and model them like the original table."
_SAME_LEVEL = "- All labels have the same level, so they do not overlap and can be used as groups."


class Classes(Form):
    """Generalized records: all records of a class publish the same labels of their quasi values."""

    name: ClassVar[str] = "classes"
    generalizes: ClassVar[bool] = True
    where_dropped: ClassVar[str] = "generalized"

    @classmethod
    def prepare(
        cls, policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
    ) -> GeneralizedPublication:
        return GeneralizedPublication.of(policy, source, counted, encoding, plan)

    @classmethod
    def column(
        cls, place: int, policy: Policy, counted: CountedCells, encoding: Encoding, plan: Plan
    ) -> PublishedColumn:
        """Return the published values of the classes in one quasi attribute."""
        del policy, counted
        one = encoding.problem.quasi[place]
        return PublishedColumn.of_ranges(one, plan.lo[:, place], plan.hi[:, place], plan.find_level(one.name))

    @classmethod
    def read_classes(cls, policy: Policy, problem: Problem, plan: Plan) -> Plan:
        """Return the plan with the leaf ranges that readers infer from the published values of classes."""
        del policy, problem
        return plan

    def _describe_row(self) -> str:
        if not self.generalizes:
            return super()._describe_row()
        changed = any(name in self.manifest.techniques for name in self.manifest.names("quasi"))
        contained = "original value, or the changed one if values were changed" if changed else "original value"
        return f"{RECORDS}. Values of the generalized columns are ranges or sets that contain the {contained}."

    def advice(self) -> list[str]:
        return [
            LABELS,
            _OVERLAP if self.manifest.levels is None else _SAME_LEVEL,
            EXACT,
            *self.advise_on_withheld(),
        ]

    def examples(self) -> list[tuple[str, str]]:
        """Return an example that bounds a count by the labels of a column."""
        if self.by_plan or not self.generalizes:
            return super().examples()
        labelled = {name: one.covers.values() for name, one in self.manifest.attributes.items() if one.boxed}
        ranged = [name for name, covers in labelled.items() if any("below" in cover for cover in covers)]
        name = next(iter(ranged or labelled), None)
        if name is None:
            return []
        covers = labelled[name]
        starts = [cover["from"] for cover in covers if "below" in cover and cover["from"] is not None]
        if starts:
            lines = _RANGES.format(name=quote(name), edge=quote(median_low(starts)))
        else:
            named = [value for cover in covers for value in cover.get("values", ())]
            lines = _SETS.format(name=quote(name), value=quote(named[0] if named else ""))
        found = [("Python", _LABEL_IMPORTS + self.read_example(texts=True) + lines)]
        if self.manifest.file.endswith(".csv"):
            in_r = (
                f'data <- read.csv("{self.manifest.file}", colClasses = "character", check.names = FALSE)\n'
                f"sort(table(data[[{quote(name)}]]), decreasing = TRUE)\n"
            )
            found.append(("R", in_r))
        return found


class Plain(Classes):
    """Records with their own quasi values; equal records are a class."""

    name: ClassVar[str] = "plain"
    plural: ClassVar[str] = "groups of equal quasi-identifiers"
    groups: ClassVar[str | None] = None
    generalizes: ClassVar[bool] = False
    as_they_are: ClassVar[bool] = True
    where_dropped: ClassVar[str] = "quasi"

    @classmethod
    def column(
        cls, place: int, policy: Policy, counted: CountedCells, encoding: Encoding, plan: Plan
    ) -> PublishedColumn:
        del policy
        of_cells = PublishedColumn.of_cells(counted, encoding.problem.quasi[place].name)
        cells = np.arange(len(plan.assignment.class_of)) if encoding.kept is None else encoding.kept
        index = np.empty(plan.n_classes, dtype=np.int32)
        index[plan.assignment.class_of] = of_cells.index[cells]  # no record is withheld, so every class has a cell
        return PublishedColumn(index, of_cells.values)

    def advice(self) -> list[str]:
        return [_VALUES, *self.advise_on_withheld()]


@dataclass(frozen=True, slots=True, eq=False)
class GeneralizedPublication(ClassPublication):
    """Whole records with the labels, the values or the averages of their class."""

    counted: CountedCells
    encoding: Encoding
    plan: Plan
    numbers: RowNumbers

    @classmethod
    def of(
        cls, policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan, **own: Any
    ) -> Self:
        form, problem = find_form(policy.method.form), encoding.problem
        if not isinstance(plan, Plan) or not issubclass(form, Classes):
            raise TypeError(f"the form {form.name} is made of a plan of classes")
        numbers = RowNumbers.of(counted, problem, plan, [np.arange(plan.n_classes, dtype=np.int32)])
        labelled = numbers.list_labelled(plan, problem.cells.counts, encoding.kept)
        nothing = [np.zeros(0, dtype=np.int64)] * len(problem.quasi)  # the number of a waiting row is its class
        findings = Findings.of(policy, problem, plan, nothing, labelled)
        quasi = {
            one.name: form.column(place, policy, counted, encoding, plan) for place, one in enumerate(problem.quasi)
        }
        carried = policy.names("insensitive")
        columns = RowColumns.of(quasi, problem.sensitive, counted, findings, carried, by_class=True)
        common = describe_plan(policy, source, counted, encoding, plan)
        return cls(**common, entries=columns.entries, findings=findings, columns=columns, numbers=numbers, **own)

    @property
    def own_entries(self) -> Mapping[str, Any]:
        return {"levels": dict(self.plan.levels)} if self.plan.levels else {}

    def count_guessed(self) -> int:
        return estimate_guessed(self.policy, self.encoding.problem, self.plan)

    def utility(self, *, expensive: bool = False) -> Utility:
        found = measure(self.encoding.problem, self.plan, expensive=expensive, detail=True)
        if not expensive or not self.policy.method.averages:
            return found
        problem = self.encoding.problem
        numbers = measure_numbers(problem, self._read()) if "il1s" in found else {}
        return found | measure_rows(problem, view_plan(problem, self._read())) | numbers

    def _read(self) -> Plan:
        form, problem = find_form(self.policy.method.form), self.encoding.problem
        return form.read_classes(self.policy, problem, self.plan) if issubclass(form, Classes) else self.plan

    def hiding(self) -> Hiding:
        for key, name in self.policy.counted_units.items():
            person = self.counted.codes(self.counted.columns.index(name))
            cell, class_of, records, _ = self.plan.pieces(self.encoding.problem.cells.counts)
            shown = class_of >= 0
            cells = cell[shown] if self.encoding.kept is None else self.encoding.kept[cell[shown]]
            return Hiding(self.plan.sizes, people=People(key, class_of[shown], person[cells], records[shown]))
        return Hiding(self.plan.sizes)

    def associations(self, most_work: float) -> list[dict[str, object]] | None:
        problem = self.encoding.problem
        return compare_pairs(problem, lambda: view_plan(problem, self._read()), most_work)

    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:
        return PublishedRows(self.publish_heaps(self._heaps(engine, chance, folder, progress), progress))

    def _heaps(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> Iterator[pa.Table]:
        """Assign the rows of the source to classes, and yield them in random order."""
        dealer = Dealer(self.plan.assignment.relocate(len(self.counted.run.counts), self.encoding.kept), chance)
        first_row = 0
        with Shuffler(self.n_rows, chance, folder) as shuffler:
            for located in engine.locate(self.source, self.counted, self.columns.carried, progress):
                places = first_row + np.arange(len(located.cells))
                first_row += len(located.cells)
                extra = dict(zip(self.columns.carried, located.batch.columns, strict=True)) | {ROW: pa.array(places)}
                shuffler.add(self.numbers.wait(located.cells, dealer.deal(located.cells), extra))
            yield from shuffler.heaps()
