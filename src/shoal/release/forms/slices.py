"""The form `slices`: records in buckets; within each bucket, the parts of records are shuffled independently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError, PolicyError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.core.wording import code, count_noun
from shoal.methods.base import AnyPlan
from shoal.methods.slicing.beliefs import Beliefs
from shoal.plan.counted import CountedCells
from shoal.plan.plan import SPLIT, WITHHELD, Assignment
from shoal.plan.problem import Problem
from shoal.plan.slices import Part, SlicedPlan
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.columns import PublishedColumn
from shoal.release.figures import ColumnTally, Guarantee, bucket_shares
from shoal.release.forms.base import Form, OwnColumn, Section, quote
from shoal.release.publication import Engine, Hiding, Publication, PublishedRows, describe_plan
from shoal.release.sliced.table import BUCKET, SlicedTable, name_columns, sample_linking
from shoal.sources.base import Source
from shoal.utility import information
from shoal.utility.analyses import compare_pairs, measure_rows
from shoal.utility.base import Total, Utility
from shoal.utility.rows import SlicedRows, sum_weights

_BATCH_ROWS = 1 << 20
_NOTHING_SENSITIVE = (
    "no attribute is sensitive, so the release does not protect sensitive values, and it does not hide who is in the "
    "table: shoal attack measures that"
)


_MEANING = (
    "Rows with the same number in the column `bucket` make up a bucket. Within each bucket the parts were shuffled "
    "independently: the values in one part of a row belong to one person, and the values in another part of that row "
    "to the same or another person of the bucket. Buckets are numbered at random."
)
_BELIEFS = (
    "A reader with all quasi values of a person can compute from the whole table how likely each sensitive value "
    "is for that person, if all ways to link the parts within a bucket are equally likely. In the promises below, a "
    "*class* is this distribution of sensitive values."
)
_NOT_PROMISED = (
    "The release does not hide who is in the table: the combination of all quasi values of a person may fit only one "
    "record."
)
_ONE_PART = "- A question about columns of one part: use these columns directly."
_SEVERAL_PARTS = (
    "- A question about columns of several parts: do not count rows, since each combines several people. In Python, "
    "`shoal.read_sliced` opens this folder, and its `estimate` answers counts and sums bucket by bucket. The error "
    "that it reports assumes random linking within buckets; where parts are associated there, the estimate is biased."
)
_LINKED = (
    "- Software that needs one record per row: `sample_table` links the parts within each bucket at random. Every call "
    "returns another, equally likely table; use several, as with multiple imputation."
)
_LINKED_ROWS = """
first = data[{first}] == data[{first}].mode()[0]  # a condition on one part
second = data[{second}] == data[{second}].mode()[0]  # and one on another
bucket = data["bucket"]
expected = first.groupby(bucket).sum() * second.groupby(bucket).sum() / bucket.groupby(bucket).size()
print("about", round(expected.sum()), "records meet both")
"""


class Slices(Form):
    """Parts of records: values in different parts of a row need not belong to one person.

    The two tables of anatomy are another way to write the same release.
    """

    name: ClassVar[str] = "slices"
    group: ClassVar[str] = "bucket"
    plural: ClassVar[str] = "buckets"
    groups: ClassVar[str | None] = "buckets"
    whole_records: ClassVar[bool] = False
    where_missing: ClassVar[str] = "generalized"

    @classmethod
    def prepare(
        cls, policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
    ) -> SlicedPublication:
        if not isinstance(plan, SlicedPlan):
            raise TypeError(f"the form {cls.name} is made of a plan of buckets")
        problem, quasi_columns, entries = encoding.problem, *label_regions(counted, encoding, plan)
        columns = tuple(
            (
                *(
                    quasi_columns.get((place, number)) or PublishedColumn.of_cells(counted, problem.quasi[place].name)
                    for place in part.quasi
                ),
                *(PublishedColumn.of_cells(counted, problem.sensitive[place].name) for place in part.sensitive),
            )
            for number, part in enumerate(plan.parts)
        )
        warnings = plan.warnings if problem.sensitive else (_NOTHING_SENSITIVE, *plan.warnings)
        stated = describe_plan(policy, source, counted, encoding, plan) | {"warnings": warnings, "entries": entries}
        publication = SlicedPublication(**stated, columns=columns)
        seen: set[str] = set()
        for name in publication.column_names:
            if name in seen:
                why = "holds the number of a row's bucket" if name == BUCKET else "holds an attribute's further copy"
                raise PolicyError(
                    f"a sliced release has a column {name!r} that {why}; rename the attribute {name!r} in the data and "
                    "in the policy"
                )
            seen.add(name)
        return publication

    @property
    def class_columns(self) -> tuple[str, ...]:
        return (BUCKET,)

    @property
    def part_columns(self) -> list[list[str]]:
        return name_columns(self.manifest.parts)

    def complete_rows(self, rows: pa.Table, rng: np.random.Generator) -> pa.Table:
        """Return a random linking: one of the possible original tables, or of its records in some buckets."""
        number = np.unique(rows.column(BUCKET), return_inverse=True)[1] + 1
        return sample_linking(SlicedTable.of(rows.set_column(0, BUCKET, pa.array(number)), self.manifest.parts), rng)

    def promises(self) -> list[str]:
        """Return the promises, which assume an adversary with all quasi values of a person and the whole table."""
        believed = any(self.find_model(one.model).sees == "values" for one in self.manifest.guarantees)
        return [*([_BELIEFS, ""] if believed else ()), *self.promise_lines(), "", _NOT_PROMISED]

    def describe_rows(self) -> str:
        return (
            f"They are in {count_noun(self.manifest.buckets or 0, 'bucket')}, and their columns in "
            f"{len(self.manifest.parts)} parts. **Values in one row that are in different parts need "
            "not belong to the same person.**"
        )

    def own_section(self) -> Section:
        lines, tables = [_MEANING], self.manifest.tables
        names = [name for part in self.manifest.parts for name in part]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            listed = ", ".join(code(f"{name} (2)") for name in twice)
            lines += ["", f"Some parts share attributes: {listed} is the same attribute, repeated in a later part."]
        if tables is not None:
            both = (
                f"Two further files contain the same data: `{tables.quasi.file}` has all parts except the one with "
                f"sensitive values, `{tables.sensitive.file}` the number of records of each bucket and sensitive value."
            )
            lines += ["", both]
        return Section("parts", "Parts and buckets", lines, self.part_columns)

    def own_columns(self) -> list[OwnColumn]:
        return [OwnColumn(BUCKET, "bucket", "number", "rows with the same number share a bucket")]

    def advice(self) -> list[str]:
        return [_ONE_PART, _SEVERAL_PARTS, _LINKED, *self.advise_on_withheld()]

    def _count_example(self) -> str:
        first, second = (quote(part[0]) for part in self.part_columns[:2])
        return _LINKED_ROWS.format(first=first, second=second)

    def summary(self, evidence: Mapping[str, Any]) -> list[str]:
        risks = evidence["risk_after"]
        return [
            *(f"Part {number}: {', '.join(columns)}" for number, columns in enumerate(self.part_columns, start=1)),
            (
                "Within each bucket the parts are shuffled independently of each other. Records per bucket: at least "
                f"{risks['smallest_bucket']:,}, {risks['mean_bucket']:,.1f} on average."
            ),
            *(f"The {name} values are also in public/{entry.file}." for name, entry in self.manifest.tables or ()),
        ]


@dataclass(frozen=True, slots=True, eq=False)
class SlicedPublication(Publication):
    """Several parts; ``columns`` has their quasi and sensitive columns, numbered by counted cells."""

    counted: CountedCells
    encoding: Encoding
    plan: SlicedPlan
    columns: tuple[tuple[PublishedColumn, ...], ...]

    @property
    def parts(self) -> Sequence[Sequence[str]]:
        """The attributes of each part: quasi-identifiers, sensitive ones, insensitive ones."""
        problem = self.encoding.problem
        return [
            [
                *(problem.quasi[place].name for place in part.quasi),
                *(problem.sensitive[place].name for place in part.sensitive),
                *part.carried,
            ]
            for part in self.plan.parts
        ]

    @property
    def column_names(self) -> list[str]:
        return [BUCKET, *(name for part in name_columns(self.parts) for name in part)]

    @property
    def own_entries(self) -> Mapping[str, Any]:
        return {"buckets": self.plan.n_buckets}

    def find_leaves(self, place: int) -> IntArray:
        return kernels.occurring(self.encoding.problem.cells.codes[place][self.plan.pieces.cell])

    def guarantees(self) -> tuple[Guarantee, ...]:
        """Return the parameters that the beliefs about every record satisfy."""
        plan, problem = self.plan, self.encoding.problem
        beliefs = Beliefs(problem, plan.parts, plan.pieces, plan.n_buckets)
        cell, records = plan.pieces.cell, plan.pieces.records
        totals = [kernels.sum_groups(part.values[cell], records, part.n_values) for part in plan.parts]
        # the smallest number of records that share a bucket, or the quasi values of one part
        smallest = min(int(plan.sizes.min()), *(int(each[each > 0].min()) for each in totals))
        reached: dict[int, Guarantee] = {}
        for place, requirement in enumerate(problem.requirements):
            worst = float(smallest) if requirement.values is None else beliefs.worst(place)
            found = Guarantee(self.policy.privacy[requirement.number], worst)
            reached[requirement.number] = found.weaken(reached.get(requirement.number, found))
        return tuple(reached[number] for number in sorted(reached))

    def utility(self, *, expensive: bool = False) -> Utility:
        return measure_slices(self.encoding.problem, self.plan, expensive=expensive)

    def hiding(self) -> Hiding:
        return Hiding(self.plan.sizes, slices=self.plan)

    def tally_columns(self) -> Mapping[str, ColumnTally]:
        pieces = self.plan.pieces
        found: dict[str, ColumnTally] = {}
        for part, names in zip(self.plan.parts, name_columns(self.parts), strict=True):
            if part.lo is None or part.hi is None:
                continue
            records = kernels.sum_groups(part.values[pieces.cell], pieces.records, part.n_values)
            for column, (place, name) in enumerate(zip(part.quasi, names, strict=False)):
                taxonomy = self.encoding.problem.quasi[place].taxonomy
                found[name] = ColumnTally.of(taxonomy, part.lo[:, column], part.hi[:, column], records)
        return found

    def sensitive_shares(self) -> dict[str, object]:
        problem = self.encoding.problem
        return {
            one.name: bucket_shares(problem, self.plan, place).as_dict(one.taxonomy)
            for place, one in enumerate(problem.sensitive)
        }

    def associations(self, most_work: float) -> list[dict[str, object]] | None:
        problem = self.encoding.problem
        return compare_pairs(problem, lambda: SlicedRows.of(problem, self.plan), most_work)

    def rows(self, engine: Engine, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:  # noqa: ARG002
        """Return the rows in the order of their buckets, which are numbered at random."""
        names = [name for part in self.plan.parts for name in part.carried]
        batches = list(engine.locate(self.source, self.counted, names, progress))
        cells = np.concatenate([batch.cells.astype(np.int32) for batch in batches])
        assignment = self.plan.assignment.relocate(len(self.counted.run.counts), self.encoding.kept)
        bucket = assign_buckets(assignment, cells, chance)
        sizes = np.bincount(bucket[bucket != WITHHELD], minlength=self.plan.n_buckets)
        if len(bucket) != self.counted.n_rows or not np.array_equal(sizes, self.plan.sizes):
            raise InputError(f"{self.source.name} changed while it was being read; nothing was published")
        carried = pa.Table.from_batches([batch.batch for batch in batches])
        number = chance.order(self.plan.n_buckets).astype(np.int32) + np.int32(1)
        buckets = np.append(number, np.int32(0))[bucket]  # the last entry is for WITHHELD
        return PublishedRows(self._batches(cells, carried, buckets, chance, progress), buckets)

    def _batches(
        self, cells: CodeArray, carried: pa.Table, buckets: CodeArray, chance: Chance, progress: Progress
    ) -> Iterator[pa.RecordBatch]:
        """Yield all parts of rows, given (n_source_rows,) their cells, carried columns and bucket numbers."""
        rows = np.flatnonzero(buckets)
        of_row = buckets[rows] - np.int32(1)
        orders = [rows[chance.order_within(of_row, self.plan.n_buckets)] for _ in self.plan.parts]
        numbers = np.arange(1, self.plan.n_buckets + 1, dtype=np.int32)
        leading = np.repeat(numbers, np.bincount(of_row, minlength=self.plan.n_buckets))
        names = self.column_names
        with progress.step("writing", len(rows)) as step:
            for start in range(0, len(rows), _BATCH_ROWS):
                stop = min(start + _BATCH_ROWS, len(rows))
                arrays = [pa.array(leading[start:stop])]
                for part, columns, order in zip(self.plan.parts, self.columns, orders, strict=True):
                    here = order[start:stop]
                    own = cells[here]
                    arrays += [column.take(own) for column in columns]
                    if part.carried:
                        taken = carried.select(list(part.carried)).take(pa.array(here))
                        arrays += [column.combine_chunks() for column in taken.columns]
                yield pa.RecordBatch.from_arrays(arrays, names=names)
                step.advance(stop - start)


def label_regions(
    counted: CountedCells, encoding: Encoding, plan: SlicedPlan
) -> tuple[dict[tuple[int, int], PublishedColumn], dict[str, Mapping[str, Any]]]:
    """Return the labels of generalized quasi attributes, by attribute and part, and the manifest's entries.

    Only regions with a published record have labels.
    """
    shown = plan.pieces.cell
    counted_cells = shown if encoding.kept is None else encoding.kept[shown]
    columns: dict[tuple[int, int], PublishedColumn] = {}
    entries: dict[str, Mapping[str, Any]] = {}
    for place in sorted({place for part in plan.parts if part.lo is not None for place in part.quasi}):
        holders = [number for number, part in enumerate(plan.parts) if place in part.quasi]
        lo, hi = np.concatenate([_ranges(plan.parts[number], place, shown) for number in holders], axis=1)
        attribute = encoding.problem.quasi[place]
        labels = PublishedColumn.of_ranges(attribute, lo, hi)
        entries[attribute.name] = labels.entry or {}
        for number, index in zip(holders, np.split(labels.index, len(holders)), strict=True):
            of_cell = np.full(len(counted.run.counts), -1, dtype=np.int32)
            of_cell[counted_cells] = index
            columns[place, number] = PublishedColumn(of_cell, labels.values)
    return columns, entries


def _ranges(part: Part, place: int, cells: IntArray) -> CodeArray:
    """Return (2, n_cells) the first leaf of an attribute in the regions of cells, and the leaf after the last."""
    if part.lo is None or part.hi is None:
        raise PolicyError(
            "slicing: an attribute is in a generalized part and in another that is not; generalize all parts that "
            "share attributes, or none"
        )
    column, regions = part.quasi.index(place), part.values[cells]
    return np.stack([part.lo[regions, column], part.hi[regions, column]])


def assign_buckets(assignment: Assignment, cells: CodeArray, chance: Chance) -> CodeArray:
    """Return (n_rows,) the bucket of each row, or WITHHELD; all arrangements that the quotas allow are equally likely.

    The buckets of each split cell are listed as often as their quotas say, shuffled, and assigned to its rows in order.

    >>> assignment = Assignment.of_pieces(2, np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([1, 1, 2]))
    >>> buckets = assign_buckets(assignment, np.array([1, 0, 1, 1], dtype=np.int32), Chance.of(1)).tolist()
    >>> buckets[1], sorted(buckets)
    (0, [0, 0, 1, 1])
    """
    buckets: CodeArray = assignment.class_of[cells]
    rows = np.flatnonzero(buckets == SPLIT)
    n_split = len(assignment.split_cells)
    if not n_split:
        return buckets
    number = np.zeros(len(assignment.class_of), dtype=np.int32)  # among the split cells
    number[assignment.split_cells] = np.arange(n_split, dtype=np.int32)
    first, by_cell = kernels.group_items(number[cells[rows]], n_split)
    of_quota = np.repeat(np.arange(n_split, dtype=np.int32), np.diff(assignment.first))
    of_place = np.repeat(of_quota, assignment.quota)
    if not np.array_equal(np.diff(first), np.bincount(of_place, minlength=n_split)):
        raise InputError("the source changed while it was being read; nothing was published")
    places = np.repeat(assignment.target, assignment.quota)
    buckets[rows[by_cell]] = places[chance.order_within(of_place, n_split)]
    return buckets


def measure_slices(problem: Problem, plan: SlicedPlan, *, expensive: bool) -> Utility:
    """Return the measures of a sliced plan, by the names that they have for generalized tables.

    ``um``, ``ncp``, ``loss`` and ``attribute-loss`` measure the loss by generalizing the values of parts and by
    withholding records; unchanged values lose nothing. The expensive measures show the loss by separating the parts:
    they use expected tables if all linkings within buckets are equally likely. Measures of equivalence classes do not
    apply.
    """
    rows, total = SlicedRows.of(problem, plan), Total.of(problem, plan.n_withheld)
    records = [sum_weights(column.item, rows.records, len(column.lo)) for column in rows.columns]  # of each item
    widths = [(column.hi - column.lo).astype(np.float64) for column in rows.columns]
    kept = sum(float(np.dot(own, 1.0 / width)) for own, width in zip(records, widths, strict=True))
    spanned = sum(
        float(np.dot(own, information.relative_widths(attribute.taxonomy, column.lo, column.hi)))
        for attribute, column, own in zip(problem.quasi, rows.columns, records, strict=False)
    )
    summed = np.array([float(np.dot(own, width)) for own, width in zip(records, widths, strict=True)])
    found: Utility = {
        information.AttributeLoss.name: information.AttributeLoss().detail_of_sums(total, summed),
        information.GeneralizedLoss.name: information.GeneralizedLoss().of_sums(total, summed[: len(problem.quasi)]),
        information.NormalizedCertaintyPenalty.name: (
            information.NormalizedCertaintyPenalty().of_sums(total, np.array([spanned]))
        ),
        information.Um.name: information.Um().of_sums(total, np.array([kept])),
    }
    return found | measure_rows(problem, rows) if expensive else found
