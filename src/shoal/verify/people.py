"""Promises about people who may have several records: counted with the source and the witness.

The witness says in which class each source row is published. It is believed only where it fits: every row lies under
the labels of its class, and the rows of each class have the exact contents that the class publishes, as often. Then it
explains the release, and people are counted by it: each once in a class, and once for each value that they have there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.verify.coding import CodedSource, ReleaseCoder, SourceCoder, Subject
from shoal.verify.counting import Counting
from shoal.verify.covers import Covers
from shoal.verify.exact import Histograms
from shoal.verify.guarantees import Judged, conclude, judge
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Promise
from shoal.verify.reading import PublishedRows, coded
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.room import Room
from shoal.verify.sums import BoxSums
from shoal.verify.truth import contents_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.sources.base import Source

_NO_SOURCE = "not checked: people are counted with the source, which is not given"
_NO_WITNESS = "not checked: people are counted with internal/witness.parquet, which is not there"
_UNFIT = "not checked: the witness, by which people are counted, does not fit"
_SEVERAL = "cannot check: it compares distributions, and some people have several values"
_TELLS_APART = ("beta-likeness", "delta-disclosure", "t-closeness")  # look at each value by itself


class _UnfitError(Exception):
    """The witness does not explain the release."""


def judge_people(
    rows: PublishedRows,
    manifest: Manifest,
    covers: Mapping[str, Covers],
    source: Source | None,
    witness: IntArray | None,
    by_records: Sequence[CheckedGuarantee],
) -> tuple[list[Check], list[CheckedGuarantee]]:
    """Return checks of the witness, and the promises with those about people judged by people.

    Without source or witness such a promise is not checked, and never true; but a class of fewer than k records has
    fewer than k people.
    """
    checks: list[Check] = []
    found: Judge | str = _NO_SOURCE if source is None else _NO_WITNESS
    if source is not None and witness is not None:
        try:
            found = Judge.of(rows, manifest, covers, source, witness)
            checks = [Check("witness", True, "the witness explains every class of the release")]
        except _UnfitError as misfit:
            found, checks = _UNFIT, [Check("witness", False, str(misfit))]
    guarantees = []
    for promise, before in zip(manifest.promises, by_records, strict=True):
        too_few = promise.model == "k-anonymity" and (before.achieved or 0) < promise.whole("k")
        if promise.counts is None or promise.obstacle or too_few:
            guarantees.append(before)
        else:
            judged = Judged(0, 0, 0.0, found) if isinstance(found, str) else found.judged(promise)
            guarantees.append(conclude(promise, manifest, judged, 0, with_source=True))
    return checks, guarantees


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
    """Judges promises by the people that a fitting witness tells of."""

    manifest: Manifest
    coder: ReleaseCoder
    n_classes: int
    place: IntArray  # (n_source_rows,) the number of the class, from 0; -1 for rows that are not published
    people: Mapping[str, IntArray]  # (n_source_rows,) codes of persons or households, -1 for none
    values: Mapping[Subject, IntArray]  # (n_published_rows,) numbers

    @classmethod
    def of(
        cls,
        rows: PublishedRows,
        manifest: Manifest,
        covers: Mapping[str, Covers],
        source: Source,
        witness: IntArray,
    ) -> Judge:
        """Read the release and the source, or raise _UnfitError if the witness does not explain one by the other."""
        absent = [name for name in manifest.people.values() if name not in source.schema.names]
        if absent:
            raise InputError(f"{source.name} lacks the columns that name people: {', '.join(absent)}")
        contents = contents_for(manifest, rows.schema, source)
        subjects = {subject: None for promise in manifest.promises for subject in promise.subjects}
        coder = ReleaseCoder(rows.schema, manifest, tuple(subjects), contents, source.schema)
        published, told = BoxSums(contents.key), BoxSums(contents.key)
        labels, n_classes = _classes(rows, coder, published)
        boxed = [covers[coder.layout.labelled[a]] for a in coder.layout.boxed]
        own_labels = labels[list(coder.layout.boxed)]
        reader = SourceCoder(manifest, boxed, contents)
        if witness.min(initial=0) < 0 or witness.max(initial=0) > n_classes:
            raise _UnfitError("the witness tells of classes that the release does not have")
        values: dict[Subject, list[CodeArray]] = {subject: [] for subject in subjects}
        people: dict[str, list[pa.Array]] = {key: [] for key in manifest.people}
        start = 0
        columns = list(dict.fromkeys([*reader.columns, *manifest.people.values()]))
        for batch in source.batches(columns, dictionary=reader.dictionaries):
            place = witness[start : start + batch.num_rows] - 1
            start += batch.num_rows
            if len(place) < batch.num_rows:
                break
            for key, name in manifest.people.items():
                people[key].append(batch.column(name))
            inside = place >= 0
            batch, place = batch.filter(pa.array(inside)), place[inside]
            own, facts = reader.code(batch)
            if facts.dropped:
                raise _UnfitError("the witness puts rows that lack a value into classes")
            _check_covered(own, place, own_labels, boxed)
            told.add(place.astype(np.int32), own.hashes, n_classes)
            numbers = coder.number({a.name: coded(batch.column(a.name)) for a in manifest.of_role("sensitive")})
            for subject, number in zip(coder.subjects, numbers, strict=True):
                values[subject].append(number)
        if start != len(witness):
            raise _UnfitError("the witness does not tell of as many rows as the source has")
        if published.differs(told).any():
            raise _UnfitError("the rows that the witness puts into a class are not those that the class publishes")
        who = {key: _codes(parts) for key, parts in people.items()}
        if any((code[witness > 0] < 0).any() for code in who.values()):
            raise _UnfitError("some published rows name nobody, so that people cannot be counted")
        joined = {subject: np.concatenate(parts).astype(np.int64) for subject, parts in values.items()}
        return cls(manifest, coder, n_classes, witness - 1, who, joined)

    def judged(self, promise: Promise) -> Judged:
        """Return what the classes make of a promise, by their people."""
        inside = self.place >= 0
        place, person = self.place[inside], self.people[str(promise.counts)][inside]
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


def _classes(rows: PublishedRows, coder: ReleaseCoder, sums: BoxSums) -> tuple[CodeArray, int]:
    """Number the classes as the rows show them; return (n_labelled, n_classes) their labels, and how many they are."""
    counting, labels, n_classes = Counting(coder.layout, 0, None, Room()), [], 0
    for batch in rows.batches(coder.columns):
        own, values = coder.code(batch)
        coder.number(values)
        owner, _ = counting.owners(own)
        assert owner is not None and own.hashes is not None  # noqa: S101, PT018 - asked for above
        number, first = np.unique(owner, return_index=True)
        new = number >= n_classes
        labels.append(own.labels[:, first[new]])
        n_classes += int(new.sum())
        sums.add(owner, own.hashes, n_classes)
    if not labels:
        raise _UnfitError("the release has no rows")
    return np.concatenate(labels, axis=1), n_classes


def _check_covered(rows: CodedSource, place: IntArray, labels: CodeArray, covers: Sequence[Covers]) -> None:
    """Raise _UnfitError unless every row lies under the labels of its class."""
    for a, cover in enumerate(covers):
        width = np.int64(cover.width)
        # pairs: label * width + code; pieces of labels in ascending order of where they begin
        pairs = np.unique(labels[a][place] * width + rows.points[:, a])
        begins = np.repeat(np.arange(len(cover.labels)), np.diff(cover.start)) * width + cover.low
        piece = np.searchsorted(begins, pairs, side="right") - 1
        label, code = pairs // width, pairs % width
        if (label >= len(cover.labels)).any():
            raise _UnfitError(f"a label of {cover.attribute.name} is not in the manifest")
        inside = (piece >= cover.start[label]) & (code < cover.high[np.maximum(piece, 0)])
        if not inside.all():
            raise _UnfitError(f"the witness puts rows under labels of {cover.attribute.name} that do not cover them")


def _codes(parts: list[pa.Array]) -> IntArray:
    """Return (n_rows,) a code for each different value, -1 for none."""
    plain = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in parts]
    indices = pa.chunked_array(plain).combine_chunks().dictionary_encode().indices
    return np.asarray(indices.fill_null(-1), dtype=np.int64)
