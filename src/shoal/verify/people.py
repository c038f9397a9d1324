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

from shoal.core.arrays import IntArray, KeyArray
from shoal.core.errors import InputError
from shoal.verify.cells import Texts
from shoal.verify.coding import ReleaseCoder
from shoal.verify.contents import Contents
from shoal.verify.exact import Histograms
from shoal.verify.guarantees import Judged, Subject, conclude, judge
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import number_rows
from shoal.verify.promises import Promise
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.truth import Witness

if TYPE_CHECKING:
    from shoal.sources.base import Source

_NO_SOURCE = "not checked: people are counted with the source, which is not given"
_NO_WITNESS = "not checked: people are counted with internal/witness.parquet, which is not there or not true"
_NOBODY = "not checked: some published rows name nobody, so that people cannot be counted"
_SPELLED = (
    "not checked: equal values are spelled in several ways, so that nobody can say whose record is in which class"
)
_SEVERAL = "cannot check: it compares distributions, and some people have several values"
_TELLS_APART = ("beta-likeness", "delta-disclosure", "t-closeness")  # look at each value by itself


def judge_people(
    promises: Sequence[Promise], manifest: Manifest, found: Records | str, by_records: Sequence[CheckedGuarantee]
) -> list[CheckedGuarantee]:
    """Return the promises, those about people judged by what was *found* of people, or refused for why nothing was.

    But a class of fewer than k records has fewer than k people.
    """
    guarantees = []
    for promise, before in zip(promises, by_records, strict=True):
        too_few = promise.model == "k-anonymity" and (before.achieved or 0) < promise.whole("k")
        if promise.counts is None or promise.obstacle or too_few:
            guarantees.append(before)
        else:
            judged = Judged(0, 0, 0.0, found) if isinstance(found, str) else found.judge(promise, manifest)
            guarantees.append(conclude(promise, manifest, judged, 0, with_source=True))
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
class Records:
    """The published rows of the source: in which class each is, whose it is, and what it says."""

    owner: IntArray  # (n_rows,) the number of the class, from 0
    people: Mapping[str, IntArray]  # (n_rows,) codes of persons or households
    words: Mapping[str, KeyArray]  # (n_rows,) of the values of each sensitive attribute
    texts: Mapping[str, Texts]

    def judge(self, promise: Promise, manifest: Manifest) -> Judged:
        """Return what the classes make of a promise, by their people."""
        person = self.people[str(promise.counts)]
        (owner, _), _ = number_rows(np.stack([self.owner, person]))
        sizes = np.bincount(owner)
        histograms = {subject: self._histograms(subject, sizes, person) for subject in promise.subjects}
        several = any(found.whole.sum() > found.total for found in histograms.values())
        if promise.model == "t-closeness" and several:
            return Judged(len(sizes), 0, 0.0, _SEVERAL)
        named = promise.parameters.get("harmless") or promise.parameters.get("separator")
        if promise.model not in _TELLS_APART and not named:
            histograms = {subject: _one_value_each(found) for subject, found in histograms.items()}
        return judge(promise, manifest, sizes, histograms, {})

    def _histograms(self, subject: Subject, sizes: IntArray, person: IntArray) -> Histograms:
        """Return how many people of each class have each value."""
        values, value = number_rows(np.stack([self.words[name] for name in subject]))
        (owner, own, _), _ = number_rows(np.stack([self.owner, value, person]))
        entry, count = np.unique(owner * values.shape[1] + own, return_counts=True)
        (whole, _), _ = number_rows(np.stack([value, person]))
        return Histograms(
            sizes=sizes,
            start=np.searchsorted(entry // values.shape[1], np.arange(len(sizes) + 1)),
            value=entry % values.shape[1],
            count=count,
            values=tuple(self.texts[subject[0]][word] for word in values[0].tolist()) if len(subject) == 1 else (),
            n_values=values.shape[1],
            table=np.bincount(whole),
            people=int(person.max()) + 1,
        )


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
    coder: ReleaseCoder,
    manifest: Manifest,
    published: pa.Schema,
    source: Source | None,
    witness: Witness | None,
    n_classes: int,
) -> Records | str:
    """Read the source beside the witness; return its published rows, or why people cannot be counted by them.

    Without the source, or a witness that is true, a promise about people is not checked, and never true.
    """
    if source is None:
        return _NO_SOURCE
    if witness is None:
        return _NO_WITNESS
    absent = [name for name in manifest.people.values() if name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks the columns that name people: {', '.join(absent)}")
    plain = [attribute.name for attribute in manifest.of_role("quasi") if not attribute.boxed]
    kinds = [manifest.kind_of(name, published.field(name).type, source.schema.field(name).type) for name in plain]
    hasher = Contents(plain, kinds, manifest.missing_tokens)
    people: dict[str, list[pa.Array]] = {key: [] for key in manifest.people}
    classes, words, texts = [], [], []
    start = 0
    columns = [attribute.name for attribute in manifest.attributes]
    for batch in source.batches(list(dict.fromkeys([*columns, *manifest.people.values()]))):
        numbers = witness.read(start, batch.num_rows)
        start += batch.num_rows
        if isinstance(numbers, str):
            return _NO_WITNESS
        inside = numbers[0] > 0
        batch, numbers = batch.filter(pa.array(inside)), numbers[:, inside]
        classes.append(hasher.hashes(batch).view(np.int64)[np.newaxis] if plain else coder.project(numbers))
        for key, name in manifest.people.items():
            people[key].append(batch.column(name))
        own, spelled = coder.read_values(batch)
        words.append(own)
        texts.append(spelled)
    who = {key: _codes(parts) for key, parts in people.items()}
    if any((code < 0).any() for code in who.values()):
        return _NOBODY
    distinct, owner = number_rows(np.concatenate(classes, axis=1))
    if distinct.shape[1] != n_classes:
        return _SPELLED
    return Records(
        owner=owner.astype(np.int64),
        people=who,
        words={name: np.concatenate([own[name] for own in words]) for name in words[0]},
        texts={name: {key: text for own in texts for key, text in own[name].items()} for name in words[0]},
    )


def _codes(parts: list[pa.Array]) -> IntArray:
    """Return (n_rows,) a code for each different value, -1 for none."""
    plain = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in parts]
    indices = pa.chunked_array(plain).combine_chunks().dictionary_encode().indices
    return np.asarray(indices.fill_null(-1), dtype=np.int64)
