"""Promises about people who may have several records: counted with the source and the witness.

The witness, which was shown to be true, says in which class each source row is published. Each person counts once in a
class, and once for each value that they have there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.verify.coding import ReleaseCoder, Subject
from shoal.verify.contents import Contents
from shoal.verify.exact import Histograms
from shoal.verify.guarantees import Judged, conclude, judge
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Promise
from shoal.verify.reading import coded
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.tally import Interner
from shoal.verify.truth import Witness

if TYPE_CHECKING:
    from shoal.sources.base import Source
    from shoal.verify.passes import Question

_NO_SOURCE = "not checked: people are counted with the source, which is not given"
_NO_WITNESS = "not checked: people are counted with internal/witness.parquet, which is not there or not true"
_NOBODY = "not checked: some published rows name nobody, so that people cannot be counted"
_SPELLED = (
    "not checked: equal values are spelled in several ways, so that nobody can say whose record is in which class"
)
_CHANGED = "not checked: values that classes are judged by do not follow from the source"
_SEVERAL = "cannot check: it compares distributions, and some people have several values"
_TELLS_APART = ("beta-likeness", "delta-disclosure", "t-closeness")  # look at each value by itself


def judge_people(
    coder: ReleaseCoder,
    question: Question,
    source: Source | None,
    witness: Witness | None,
    n_classes: int,
    by_records: Sequence[CheckedGuarantee],
) -> list[CheckedGuarantee]:
    """Return the promises, those about people judged by people; *coder* has read the release and its *n_classes*.

    Without the source, or a witness that is true, such a promise is not checked, and never true; but a class of fewer
    than k records has fewer than k people.
    """
    found: Judge | str = _NO_SOURCE if source is None else _NO_WITNESS
    if source is not None and witness is not None:
        found = read_people(coder, question, source, witness, n_classes)
    guarantees = []
    for promise, before in zip(question.promises, by_records, strict=True):
        too_few = promise.model == "k-anonymity" and (before.achieved or 0) < promise.whole("k")
        if promise.counts is None or promise.obstacle or too_few:
            guarantees.append(before)
        else:
            judged = Judged(0, 0, 0.0, found) if isinstance(found, str) else found.judge(promise)
            guarantees.append(conclude(promise, question.manifest, judged, 0, with_source=True))
    return guarantees


def check_one_each(manifest: Manifest, source: Source) -> Check:
    """Check that as many rows were drawn as the source has people; who was drawn, no file tells."""
    column = manifest.people[str(manifest.one_per)]
    everybody = len(np.unique(_codes([batch.column(0) for batch in source.batches([column])])))
    drawn = manifest.rows + manifest.withheld + manifest.dropped
    verb = "are" if everybody == drawn else "are not"
    detail = f"{drawn} rows {verb} as many as there are values of {column} in the source; whose they are, no file tells"
    return Check("sample", everybody == drawn, detail)


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Judges promises by the people of published rows."""

    manifest: Manifest
    coder: ReleaseCoder
    n_classes: int
    place: IntArray  # (n_rows,) the number of the class, from 0
    people: Mapping[str, IntArray]  # (n_rows,) codes of persons or households
    values: Mapping[Subject, IntArray]  # (n_rows,) numbers

    def judge(self, promise: Promise) -> Judged:
        """Return what the classes make of a promise, by their people."""
        place, person = self.place, self.people[str(promise.counts)]
        n_people = int(person.max()) + 1
        sizes = np.bincount(np.unique(place * n_people + person) // n_people, minlength=self.n_classes)
        histograms = {subject: self._histograms(subject, sizes, place, person) for subject in promise.subjects}
        several = any(found.whole.sum() > found.total for found in histograms.values())
        if promise.model == "t-closeness" and several:
            return Judged(self.n_classes, 0, 0.0, _SEVERAL)
        named = promise.parameters.get("harmless") or promise.parameters.get("separator")
        if promise.model not in _TELLS_APART and not named:
            histograms = {subject: _one_value_each(found) for subject, found in histograms.items()}
        return judge(promise, self.manifest, sizes, histograms, {})

    def _histograms(self, subject: Subject, sizes: IntArray, place: IntArray, person: IntArray) -> Histograms:
        """Return how many people of each class have each value."""
        value, n_values, n_people = self.values[subject], self.coder.n_values(subject), int(person.max()) + 1
        _, pair = np.unique(value * n_people + person, return_inverse=True)  # of person and value, fewer than rows
        n_pairs = int(pair.max()) + 1
        first = np.unique(place * n_pairs + pair.reshape(-1), return_index=True)[1]  # row of each in each class
        entry, count = np.unique(place[first] * n_values + value[first], return_counts=True)
        table = np.bincount(np.unique(value * n_people + person) // n_people, minlength=n_values)
        start = np.searchsorted(entry // n_values, np.arange(self.n_classes + 1))
        return Histograms(
            sizes, start, entry % n_values, count, self.coder.texts(subject), n_values, table=table,
            people=len(np.unique(person)),
        )  # fmt: skip


def _one_value_each(found: Histograms) -> Histograms:
    """Return histograms in which nobody has several values, the commonest values having as many people as they can.

    However one picks a value of each person, values are at least as evenly spread as here.
    """
    order = np.lexsort((found.value, -found.count, found.owner))
    count, owner = found.count[order], found.owner[order]
    before = np.cumsum(count) - count
    left = found.sizes[owner] - (before - before[found.start[:-1]][owner])
    kept = np.clip(left, 0, count)
    some = kept > 0
    start = np.append(0, np.cumsum(np.bincount(owner[some], minlength=len(found.sizes))))
    return replace(found, start=start, value=found.value[order][some], count=kept[some])


def read_people(
    coder: ReleaseCoder, question: Question, source: Source, witness: Witness, n_classes: int
) -> Judge | str:
    """Read the source beside the witness; return what judges by people, or why nothing can."""
    manifest = question.manifest
    absent = [name for name in manifest.people.values() if name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks the columns that name people: {', '.join(absent)}")
    asked = [*(manifest.of_role("quasi") if question.layout.by_values else ()), *manifest.of_role("sensitive")]
    if question.contents is None or not {one.name for one in asked} <= set(question.contents.columns):
        return _CHANGED
    classes = _Classes(question)
    values: dict[Subject, list[CodeArray]] = {subject: [] for subject in question.subjects}
    people: dict[str, list[pa.Array]] = {key: [] for key in manifest.people}
    place: list[CodeArray] = []
    start = 0
    columns = [attribute.name for attribute in manifest.attributes]
    for batch in source.batches(list(dict.fromkeys([*columns, *manifest.people.values()]))):
        numbers = witness.read(start, batch.num_rows)
        start += batch.num_rows
        if isinstance(numbers, str):
            return _NO_WITNESS
        inside = numbers[0] > 0
        batch, numbers = batch.filter(pa.array(inside)), numbers[:, inside]
        place.append(classes.numbers(batch, numbers))
        for key, name in manifest.people.items():
            people[key].append(batch.column(name))
        found = coder.number({a.name: coded(batch.column(a.name)) for a in manifest.of_role("sensitive")})
        for subject, own in zip(coder.subjects, found, strict=True):
            values[subject].append(own)
    who = {key: _codes(parts) for key, parts in people.items()}
    if any((code < 0).any() for code in who.values()):
        return _NOBODY
    if classes.count != n_classes:
        return _SPELLED
    joined = {subject: np.concatenate(parts).astype(np.int64) for subject, parts in values.items()}
    return Judge(manifest, coder, n_classes, np.concatenate(place).astype(np.int64), who, joined)


class _Classes:
    """Numbers the classes of published source rows: by the labels that their class numbers tell, or by their values."""

    def __init__(self, question: Question) -> None:
        manifest, layout = question.manifest, question.layout
        self._of_class, self._quasi = question.numbers, layout.quasi
        self._labels = layout.classes()
        self._contents = None
        if layout.by_values and question.contents is not None:
            names = [attribute.name for attribute in manifest.of_role("quasi")]
            self._contents = Contents(
                names, [question.contents.kind_of(name) for name in names], manifest.missing_tokens
            )
        self._values = Interner()

    @property
    def count(self) -> int:
        return self._labels.count if self._contents is None else self._values.count

    def numbers(self, batch: pa.RecordBatch, numbers: IntArray) -> CodeArray:
        """Return (n_rows,) the classes of rows, from 0."""
        if self._contents is not None:
            return self._values.ids(self._contents.hashes(batch))
        labels = [self._of_class.labels(numbers, place) for place in self._quasi]
        return self._labels.ids(labels, batch.num_rows)


def _codes(parts: list[pa.Array]) -> IntArray:
    """Return (n_rows,) a code for each different value, -1 for none."""
    plain = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in parts]
    indices = pa.chunked_array(plain).combine_chunks().dictionary_encode().indices
    return np.asarray(indices.fill_null(-1), dtype=np.int64)
