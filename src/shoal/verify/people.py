"""Promises about people who may have several records, or other values than they publish: counted with the source.

The witness, which was shown to be true, says in which class each source row is published. Each person counts once in a
class, and once for each value that they have there. If chance or another record decided the published values of an
attribute, promises about it must hold for the source's values as well.

Withheld people have the number 0 in the witness. Together they satisfy every promised model of values, because a
register shows who is absent. Rows that were dropped for a missing value are declared as such and do not count; in a
sample no one is known to be absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import IntArray, KeyArray
from shoal.core.errors import InputError
from shoal.core.wording import count_noun
from shoal.verify.cells import Texts
from shoal.verify.coding import PointReader, ReleaseCoder
from shoal.verify.contents import MISSING, TEXT, Contents
from shoal.verify.exact import CannotCheckError, Histograms
from shoal.verify.guarantees import Judged, Subject, conclude, judge
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import number_rows
from shoal.verify.promises import Promise, evaluate, find_model, worst_of
from shoal.verify.reading import encode
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.truth import Witness

if TYPE_CHECKING:
    from shoal.sources.base import Source

_Words = tuple[int, ...]  # of the values of a subject

_NO_WITNESS = "not checked: people are counted with internal/witness.parquet, which is not there or not true"
_NOBODY = "not checked: some published rows name nobody, so that people cannot be counted"
_SPELLED = (
    "not checked: equal values are spelled in several ways, so that nobody can say whose record is in which class"
)
_SEVERAL = "cannot check: it compares distributions, and some people have several values"
_DIVERSE = ("distinct-l-diversity", "simple-l-diversity", "entropy-l-diversity", "recursive-cl-diversity")
_WEAKER = {  # what a promise about people implies of records: as many of them, and as many different values
    **dict.fromkeys(_DIVERSE, "distinct-l-diversity"),
    "k-anonymity": "k-anonymity",
    "alpha-k-anonymity": "k-anonymity",
    "profitability": "profitability",
}
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


def weaken(promise: Promise) -> Promise | None:
    """Return the promise about records that one about people implies, if there is one."""
    model = None if promise.parameters.get("harmless") else _WEAKER.get(promise.model)
    return None if model is None else replace(promise, model=model)


def judge_records(promise: Promise, judged: Judged | None) -> CheckedGuarantee:
    """Return a promise about people as far as records show it: *judged* is the weaker one about these."""
    fault = promise.obstacle or (judged.obstacle if judged else "there are no rows")
    shown, weaker = "records cannot show it", weaken(promise)
    if judged is not None and weaker is not None and not fault:
        shown = f"all {judged.classes} classes have enough records for it"
        worst = worst_of(promise)(promise.claimed or 0, judged.achieved)
        if judged.failing:
            fault = f"{judged.failing} of {judged.classes} classes have too few records or values for it"
        elif weaker.model == promise.model and worst != promise.claimed:
            fault = "the manifest's 'achieved' is better than the records allow"
    vouching = f"the data holder vouches for people, counted by {promise.counts}, with the source and internal/"
    own = promise.model, promise.parameters, promise.claimed, None, not fault, fault or f"{shown}; {vouching}"
    return CheckedGuarantee(*own, promise.counts, partly=True)


def check_one_each(manifest: Manifest, source: Source, witness: Witness | None) -> Check:
    """Check that as many rows were drawn as the source has people and, by the witness, that none has two of them."""
    column = manifest.people[str(manifest.one_per)]
    person = _codes([batch.column(0) for batch in source.batches([column])])
    everybody, drawn = len(np.unique(person)), manifest.rows + manifest.withheld + manifest.dropped
    if everybody != drawn:
        return Check("sample", False, f"{drawn} rows were drawn, and the source has {everybody} values of {column}")
    numbers = None if witness is None else witness.read(0, len(person))
    if numbers is None or isinstance(numbers, str):  # a witness that does not fit fails another check
        detail = (
            f"as many rows as the source has values of {column}; whether they differ is not shown without a witness"
        )
        return Check("sample", True, detail)
    shown = person[numbers[0] > 0]
    twice = len(shown) - len(np.unique(shown))
    fault = twice and f"{count_noun(twice, 'published row')} too many for one row of each {column}"
    return Check.of("sample", fault, f"one row for each value of {column} in the source")


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
    source: Source,
    witness: Witness | None,
    n_classes: int,
) -> Records | str:
    """Read the source beside the witness; return its published rows, or why people cannot be counted by them.

    Without a witness that is true, a promise about people is not checked, and never true.
    """
    if witness is None:
        return _NO_WITNESS
    absent = [name for name in manifest.people.values() if name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks the columns that name people: {', '.join(absent)}")
    people: dict[str, list[pa.Array]] = {key: [] for key in manifest.people}
    classes, words, texts = [], [], []
    for batch, numbers in read_published(coder, manifest, published, source, witness):
        classes.append(numbers)
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


def read_published(
    coder: ReleaseCoder, manifest: Manifest, published: pa.Schema, source: Source, witness: Witness
) -> Iterator[tuple[pa.RecordBatch, IntArray]]:
    """Yield the source rows that are published, and (n_columns, n_rows) the numbers of their classes."""
    plain = [attribute.name for attribute in manifest.of_role("quasi") if not attribute.boxed]
    kinds = [manifest.kind_of(name, published.field(name).type, source.schema.field(name).type) for name in plain]
    hasher = Contents(plain, kinds, manifest.missing_tokens)
    columns = [*(attribute.name for attribute in manifest.attributes), *manifest.people.values()]
    start = 0
    for batch in source.batches(list(dict.fromkeys(columns))):
        numbers = witness.read(start, batch.num_rows)
        start += batch.num_rows
        if isinstance(numbers, str):
            raise InputError(numbers)
        inside = numbers[0] > 0
        batch, numbers = batch.filter(pa.array(inside)), numbers[:, inside]
        yield batch, hasher.hashes(batch).view(np.int64)[np.newaxis] if plain else coder.project(numbers)


def find_changed(manifest: Manifest) -> list[Promise]:
    """Return promises about values, with the subjects of which some published values do not follow from the source."""
    changed = {attribute.name for attribute in manifest.of_role("sensitive") if not manifest.is_traced(attribute)}
    found = []
    for promise in manifest.promises:
        subjects = tuple(subject for subject in promise.subjects if not changed.isdisjoint(subject))
        found += [replace(promise, subjects=subjects)] if subjects else []
    return found


def _codes(parts: list[pa.Array]) -> IntArray:
    """Return (n_rows,) a code for each different value, -1 for none."""
    plain = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in parts]
    indices = pa.chunked_array(plain).combine_chunks().dictionary_encode().indices
    return np.asarray(indices.fill_null(-1), dtype=np.int64)


def check_withheld(manifest: Manifest, published: pa.Schema, source: Source, witness: Witness) -> list[Check]:
    """Judge the true values of the withheld rows, by a witness that was shown to be true.

    Changed columns have no true values here, and promises that count people are not judged.
    """
    traced = {one.name for one in manifest.of_role("sensitive") if manifest.is_traced(one)}
    promises = [one for one in manifest.promises if not one.obstacle and one.counts is None and one.subjects]
    subjects = {subject: None for one in promises for subject in one.subjects if traced.issuperset(subject)}
    moved = manifest.missing_policy == "drop" and manifest.moved_complete
    if not manifest.withheld or not subjects or moved or manifest.sample or manifest.one_per:
        return []
    found = _count_values(manifest, published, source, witness, list(subjects))
    failing = [
        one.model
        for one in promises
        for subject in one.subjects
        if subject in found and not _keeps(one, found[subject], manifest, subject)
    ]
    fault = failing and f"the {manifest.withheld} withheld people fail {', '.join(dict.fromkeys(failing))} together"
    return [Check.of("withheld", fault, "the withheld people satisfy the models of values together")]


def _keeps(promise: Promise, classes: Histograms, manifest: Manifest, subject: Subject) -> bool:
    """Whether the first of two classes keeps a promise; under labels, values may be as frequent as in the table."""
    model = find_model(promise.model)
    if model is not None and model.labels:
        own = slice(0, int(classes.start[1]))
        tau, size, total = promise.fraction("tau"), int(classes.sizes[0]), int(classes.sizes.sum())
        pairs = zip(classes.count[own].tolist(), classes.whole[classes.value[own]].tolist(), strict=True)
        return all(count <= tau * size or count * total <= usual * size for count, usual in pairs)
    attribute = next((one for one in manifest.attributes if subject == (one.name,)), None)
    try:
        return bool(evaluate(promise, classes, attribute)[0][0])
    except CannotCheckError:
        return False


def _count_values(
    manifest: Manifest, published: pa.Schema, source: Source, witness: Witness, subjects: list[Subject]
) -> dict[Subject, Histograms]:
    """Return the true values of two classes, the withheld and the published rows, for each subject."""
    hashers, columns = {}, list(dict.fromkeys(name for subject in subjects for name in subject))
    for one in manifest.of_role("sensitive"):
        types = published.field(one.name).type, source.schema.field(one.name).type
        kind = TEXT if one.boxed else manifest.kind_of(one.name, *types)
        hashers[one.name] = Contents([one.name], [kind], manifest.missing_tokens)
    dropping = list(manifest.complete) if manifest.missing_policy == "drop" else []
    missing, begin = PointReader([], manifest.missing_tokens), 0
    texts: dict[str, dict[int, str | None]] = {name: {int(MISSING): None} for name in columns}
    counts: dict[Subject, tuple[Counter[_Words], Counter[_Words]]] = {one: (Counter(), Counter()) for one in subjects}
    for batch in source.batches(list(dict.fromkeys([*columns, *dropping]))):
        numbers = witness.read(begin, batch.num_rows)
        begin += batch.num_rows
        if isinstance(numbers, str):
            raise InputError(f"{source.name} changed while it was being read")
        stays = ~missing.any_missing(batch, dropping)
        words = {}
        for name in columns:
            values, places = encode(batch.column(name))
            own = hashers[name].words(name, values)
            texts[name] |= dict(zip(own[:-1].tolist(), values.cast(pa.string()).to_pylist(), strict=True))
            texts[name][int(MISSING)] = None
            words[name] = own.take(places)
        for subject, (absent, present) in counts.items():
            columns_of = [words[name] for name in subject]
            for group, rows in ((absent, stays & (numbers[0] == 0)), (present, numbers[0] > 0)):
                distinct, times = np.unique(np.stack([one[rows] for one in columns_of]), axis=1, return_counts=True)
                group.update(dict(zip(map(tuple, distinct.T.tolist()), times.tolist(), strict=True)))
    return {
        subject: _arrange(*both, texts[subject[0]] if len(subject) == 1 else {}) for subject, both in counts.items()
    }


def _arrange(absent: Counter[_Words], present: Counter[_Words], texts: dict[int, str | None]) -> Histograms:
    places = {words: place for place, words in enumerate({**absent, **present})}
    pairs = ([(places[words], count) for words, count in group.items()] for group in (absent, present))
    entries = [pair for group in pairs for pair in sorted(group)]
    value, count = np.array(entries, dtype=np.int64).reshape(-1, 2).T
    return Histograms(
        sizes=np.array([absent.total(), present.total()]),
        start=np.array([0, len(absent), len(entries)]),
        value=value,
        count=count,
        values=tuple(texts[words[0]] for words in places) if texts else (),
        n_values=len(places),
    )
