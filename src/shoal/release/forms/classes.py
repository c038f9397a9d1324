"""The form `classes`: every row is a record under the labels of its class, rewritten by the plan, in random order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance, Shuffler
from shoal.methods.base import AnyPlan
from shoal.plan.counted import CountedCells
from shoal.plan.plan import KEPT, WITHHELD, Dealer, Plan
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.columns import (
    CellColumn,
    ClassColumn,
    PublishedColumn,
    SensitiveColumn,
    encode_values,
    pair_labels,
    without_dictionary,
)
from shoal.release.forms.base import EXACT, IMPORTS, LABELS, RECORDS, Form, quote
from shoal.release.guarantees import Guarantee, measure_guarantees
from shoal.release.publication import Engine, Hiding, People, PlannedPublication, PublishedRows
from shoal.release.tallies import class_shares, levels_told, plan_levels
from shoal.release.witness import ROW
from shoal.sources.base import Source
from shoal.taxonomies.parse import texts
from shoal.utility.association_kept import compare_pairs
from shoal.utility.base import Utility, measure
from shoal.utility.rows import rows_published

_TARGET = "target"
_RANGES = """
labels = json.loads(Path("manifest.json").read_text(encoding="utf-8"))["attributes"][{name}]["labels"]
edge = {edge}


def surely(cover):  # all of the range is at or above the edge
    return cover.get("from") is not None and cover["from"] >= edge


def possibly(cover):  # some of it is
    return cover.get("any") or ("from" in cover and (cover["below"] is None or cover["below"] > edge))


counts = data[{name}].value_counts()
least = sum(count for label, count in counts.items() if surely(labels[label]))
most = sum(count for label, count in counts.items() if possibly(labels[label]))
print("from", edge, "on: at least", least, "and at most", most, "records")
"""
_SETS = """
labels = json.loads(Path("manifest.json").read_text(encoding="utf-8"))["attributes"][{name}]["labels"]
value = {value}
counts = data[{name}].value_counts()
fits = [label for label, cover in labels.items() if cover.get("any") or value in cover.get("values", [])]
alone = [label for label in fits if labels[label].get("values") == [value]]
print("at least", counts.reindex(alone).sum(), "and at most", counts.reindex(fits).sum(), "records have", value)
"""
_LABEL_IMPORTS = f"import json\nfrom pathlib import Path\n\n{IMPORTS}"
_OVERLAP = (
    "- Labels of one column may overlap: `[20, 39]` and `[20, 59]` are not separate groups. To compare groups, combine "
    "labels until they do not overlap."
)
_SAME_LEVEL = "- All records have labels of the same level, so labels do not overlap and can be used as groups."


class Classes(Form):
    """Generalized records: all records of a class publish the same labels of their quasi values."""

    name: ClassVar[str] = "classes"
    generalizes: ClassVar[bool] = True
    where_dropped: ClassVar[str] = "generalized"

    @classmethod
    def prepare(
        cls, policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
    ) -> GeneralizedPublication:
        """Write down what all classes publish."""
        if not isinstance(plan, Plan):
            raise TypeError(f"the form {cls.name} is made of a plan of classes")
        quasi, sensitive = encoding.problem.quasi, encoding.problem.sensitive
        columns = tuple(cls.column(place, policy, counted, encoding, plan) for place in range(len(quasi)))
        generalized = tuple(SensitiveColumn.of(place, counted, encoding, plan) for place in range(len(sensitive)))
        return GeneralizedPublication(policy, source, counted, encoding, plan, columns, generalized)

    @classmethod
    def column(cls, place: int, policy: Policy, counted: CountedCells, encoding: Encoding, plan: Plan) -> ClassColumn:
        """Return what the classes publish of one quasi attribute."""
        del policy, counted
        cells = encoding.problem.cells
        cell, class_of, _, _ = plan.pieces(cells.counts)
        known = np.concatenate([cell[class_of >= 0], np.flatnonzero(cells.counts == 0)])  # the last: populations'
        shown = kernels.occurring(cells.codes[place][known])
        return PublishedColumn.of(encoding.problem.quasi[place], plan.lo[:, place], plan.hi[:, place], shown)

    def _describe_row(self) -> str:
        attributes = self.manifest["attributes"]
        changed = any(attributes[name]["role"] == "quasi" for name in self.manifest.get("techniques", {}))
        contained = "original value, or the changed one where values were changed" if changed else "original value"
        return f"{RECORDS}. Values of the generalized columns stand for a range or a set that contains the {contained}."

    def advice(self) -> list[str]:
        """Return how to count by labels."""
        return [
            LABELS,
            _SAME_LEVEL if "levels" in self.manifest else _OVERLAP,
            EXACT,
            *self.advise_on_withheld(),
        ]

    def examples(self) -> list[tuple[str, str]]:
        """Return how to bound a count by the labels of a column."""
        labelled = {name: entry for name, entry in self.manifest["attributes"].items() if "labels" in entry}
        ranged = [name for name, entry in labelled.items() if any("below" in one for one in entry["labels"].values())]
        name = next(iter(ranged or labelled), None)
        if name is None:
            return []
        covers = labelled[name]["labels"].values()
        starts = [cover["from"] for cover in covers if "below" in cover and cover["from"] is not None]
        if starts:
            lines = _RANGES.format(name=quote(name), edge=quote(median_low(starts)))
        else:
            named = [value for cover in covers for value in cover.get("values", ())]
            lines = _SETS.format(name=quote(name), value=quote(named[0] if named else ""))
        found = [("Python", _LABEL_IMPORTS + self.read_example(texts=True) + lines)]
        return [*found, ("R", self._example_in_r(name))] if self.file.endswith(".csv") else found

    def _example_in_r(self, name: str) -> str:
        return (
            f'data <- read.csv("{self.file}", colClasses = "character", check.names = FALSE)\n'
            f"sort(table(data[[{quote(name)}]]), decreasing = TRUE)\n"
        )


@dataclass(frozen=True, slots=True, eq=False)
class GeneralizedPublication(PlannedPublication):
    """One part: every row is a record, under the labels, the values or the averages of its class."""

    plan: Plan
    columns: tuple[ClassColumn, ...]
    sensitive_columns: tuple[SensitiveColumn | None, ...]  # None: published as it is

    @property
    def own_entries(self) -> Mapping[str, Any]:
        """The levels of a full-domain generalization."""
        return {"levels": dict(self.plan.levels)} if self.plan.levels else {}

    def quasi_entry(self, place: int) -> dict[str, Any]:
        """Return the attribute's labels, if it has some, or how its values are read."""
        return self.columns[place].describe()

    def sensitive_column(self, place: int) -> SensitiveColumn | None:
        """Return the texts of a generalized sensitive attribute; None if it is published as it is."""
        return self.sensitive_columns[place]

    def find_cells(self) -> IntArray:
        """Return the cells of the problem of which some record is in a class."""
        cell, class_of, _, _ = self.plan.pieces(self.encoding.problem.cells.counts)
        return cell[class_of >= 0]

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return what the classes reach."""
        return measure_guarantees(self.encoding.problem, self.plan, self.policy)

    def utility(self, *, expensive: bool = False) -> Utility:
        """Return every measure, in detail."""
        return measure(self.encoding.problem, self.plan, expensive=expensive, detail=True)

    def hiding(self) -> Hiding:
        """Return the sizes of classes, and whose records they have if people are counted."""
        for key, name in self.policy.counted_units.items():
            person = self.counted.codes(self.counted.columns.index(name))
            cell, class_of, records, _ = self.plan.pieces(self.encoding.problem.cells.counts)
            shown = class_of >= 0
            cells = cell[shown] if self.encoding.kept is None else self.encoding.kept[cell[shown]]
            return Hiding(self.plan.sizes, people=People(key, class_of[shown], person[cells], records[shown]))
        return Hiding(self.plan.sizes)

    def count_generalized(self) -> dict[str, int]:
        """Return how many records publish a generalized value, for each sensitive attribute that has such records."""
        return self.plan.count_generalized(self.encoding.problem)

    def tabulate_labels(self) -> pa.Table | None:
        """Return what records publish and have of which some value is generalized, if labels are defended."""
        plan, problem = self.plan, self.encoding.problem
        if plan.targets is None or not self.policy.method.defends_labels:
            return None
        cell, class_of, records, target = plan.pieces(problem.cells.counts)
        some = np.flatnonzero((class_of >= 0) & (records > 0) & (plan.targets.lo[target] != KEPT).any(axis=1))
        place = cell[some] if self.encoding.kept is None else self.encoding.kept[cell[some]]
        sensitive = [CellColumn.of(self.counted, attribute.name) for attribute in problem.sensitive]
        indices = [column.index[place] for column in sensitive]
        waiting = pa.table(_spill(target[some], indices, pa.record_batch({})))
        values = {
            attribute.name: encode_values(index, texts(column.values))
            for attribute, column, index, labels in zip(
                problem.sensitive, sensitive, indices, self.sensitive_columns, strict=True
            )
            if labels is not None
        }
        return pair_labels(self._publish(waiting, sensitive, ()), values, records[some])

    def levels(self) -> dict[str, Any]:
        """Return how many records publish a value of which level, for each attribute with labels."""
        if not self.form.generalizes:
            return {}
        return levels_told(
            plan_levels(self.encoding.problem, self.plan), self.count_generalized(), self.policy.names("sensitive")
        )

    def sensitive_shares(self) -> dict[str, Any]:
        """Return the share of what is published of each sensitive attribute, in the whole and in classes."""
        problem = self.encoding.problem
        return {
            one.name: class_shares(problem, self.plan, place).as_dict(one.taxonomy)
            for place, one in enumerate(problem.sensitive)
        }

    def associations(self, most_work: float) -> list[dict[str, Any]] | None:
        """Return how strongly pairs of attributes depend on each other, before and after."""
        problem = self.encoding.problem
        return compare_pairs(problem, lambda: rows_published(problem, self.plan), most_work)

    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:
        """Return the rows in random order."""
        return PublishedRows(self._batches(engine, chance, folder, progress))

    def _batches(
        self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress
    ) -> Iterator[pa.RecordBatch]:
        dealer = Dealer(self.plan.assignment.relocate(len(self.counted.run.counts), self.encoding.kept), chance)
        carried = self.policy.names("insensitive")
        sensitive = [CellColumn.of(self.counted, attribute.name) for attribute in self.encoding.problem.sensitive]
        read = written = 0
        with Shuffler(self.n_rows, chance, folder) as shuffler:
            for located in engine.locate(self.source, self.counted, carried, progress):
                targets = dealer.deal(located.cells)
                kept = np.flatnonzero(targets != WITHHELD)
                cells = located.cells
                batch = located.batch
                first_row, read = read, read + len(targets)
                if len(kept) < len(targets):
                    targets, cells, batch = targets[kept], cells[kept], batch.take(pa.array(kept))
                indices = [column.index[cells] for column in sensitive]
                shuffler.add(_spill(targets, indices, batch).append_column(ROW, pa.array(first_row + kept)))
            with progress.step("writing", self.n_rows) as step:
                for heap in shuffler.heaps():
                    yield self._publish(heap, sensitive, carried)
                    written += heap.num_rows
                    step.advance(heap.num_rows)
        if written != self.n_rows:
            raise InputError(f"{self.source.name} changed while it was being read; nothing was published")

    def _classes(self, targets: CodeArray) -> CodeArray:
        """Return the classes of targets; -1 for those of rows that are not published."""
        if self.plan.targets is None:
            return targets
        return np.append(self.plan.targets.class_of, np.int32(WITHHELD))[targets]

    def _publish(self, heap: pa.Table, sensitive: Sequence[CellColumn], carried: Sequence[str]) -> pa.RecordBatch:
        targets = heap.column(0).combine_chunks().to_numpy()
        classes = self._classes(targets)
        arrays: dict[str, pa.Array] = {column.attribute.name: column.values(classes) for column in self.columns}
        for number, (attribute, column) in enumerate(zip(self.encoding.problem.sensitive, sensitive, strict=True)):
            index = heap.column(1 + number).combine_chunks().to_numpy()
            generalized = self.sensitive_columns[number]
            own = encode_values(index, column.values) if generalized is None else generalized.values(targets, index)
            arrays[attribute.name] = own
        for number, name in enumerate(carried):
            arrays[name] = heap.column(1 + len(sensitive) + number).combine_chunks()
        names = [name for name in self.parts[0] if name in arrays]
        if heap.column_names[-1] == ROW:
            names.append(ROW)
            arrays[ROW] = heap.column(ROW).combine_chunks()
        return pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names))


def _spill(targets: CodeArray, sensitive: Sequence[CodeArray], carried: pa.RecordBatch) -> pa.RecordBatch:
    """Return what is kept of some rows until all are shuffled: their targets, sensitive codes, insensitive values."""
    arrays = [pa.array(targets), *map(pa.array, sensitive), *map(without_dictionary, carried.columns)]
    own = [_TARGET, *(f"sensitive {number}" for number in range(len(sensitive)))]
    return pa.RecordBatch.from_arrays(arrays, names=[*own, *(f"carried {name}" for name in carried.schema.names)])
