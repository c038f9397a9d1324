"""Every promise of a sliced release, judged for all tuples that are asked about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.manifest import Attribute
from shoal.verify.exact import CannotCheckError, Histograms
from shoal.verify.guarantees import Subject, agrees
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Found, Promise, evaluate, find_model, worst_of
from shoal.verify.result import CheckedGuarantee
from shoal.verify.sliced.beliefs import Matches, World, join_beliefs, match_tuples, mix_groups, number_values
from shoal.verify.sliced.reading import SlicedRows
from shoal.verify.tally import Combinations

MOST_FORMABLE = 2_000_000  # tuples that are worth forming without a source
_SHARES = 1 << 22  # of beliefs that are held at a time


@dataclass(frozen=True, slots=True)
class Judged:
    """What tuples reach of one promise about one subject."""

    failing: int
    tuples: int
    achieved: float | None  # None: no bucket matches any tuple


class _Beliefs(NamedTuple):
    """What is believed of some tuples."""

    shares: FloatArray  # (n, n_values) of those that several buckets match
    single: IntArray  # the groups of those that one bucket matches
    owner: IntArray  # (n_matches,) the tuple, among those that several buckets match, of each of its groups
    group: IntArray  # (n_matches,)
    by_groups: bool  # whether what is believed is a mixture of these groups


class Judge:
    """Judges promises by groups, in whole numbers, and by beliefs about tuples."""

    def __init__(self, released: SlicedRows, manifest: Manifest) -> None:
        self._released = released
        self._by_name = {attribute.name: attribute for attribute in manifest.attributes}
        layout = released.layout
        self._world = World(released.lists, len(layout.known), released.sizes, layout.free_factors)

    @property
    def groups_suffice(self) -> bool:
        """Whether what is believed of a tuple is a mixture of its groups."""
        return self._released.joined is None

    def matched(self, tuples: CodeArray) -> BoolArray:
        """Return (n,) whether some bucket matches each tuple."""
        found = match_tuples(self._world.lists, self._world.n_parts, self._numbers(tuples))
        return np.concatenate([np.zeros(0, dtype=np.bool_), *(one.times > 0 for one in found)])

    def groups(self, promise: Promise, subject: Subject) -> Found:
        """Return for each group whether it keeps a promise, exactly, and what it reaches."""
        if subject not in self._released.histograms:
            raise CannotCheckError("the attributes that it is about are in different parts")
        return evaluate(promise, self._released.histograms[subject], self._attribute(subject))

    def tuples(
        self, subject: Subject, promises: Sequence[Promise], groups: Sequence[Found], tuples: CodeArray
    ) -> list[Judged]:
        """Judge promises about a subject, of which all groups are judged, for (n, n_known_parts) tuples.

        Tuples that no bucket matches are left out.
        """
        histograms, attribute = self._released.histograms[subject], self._attribute(subject)
        failing, n = [0] * len(promises), 0
        figures: list[list[float]] = [[] for _ in promises]
        believed = self._mix(subject, tuples) if self._released.joined is None else self._join(tuples)
        for beliefs in believed:
            mixed = _as_classes(beliefs.shares, histograms)
            n += len(mixed.sizes) + len(beliefs.single)
            for place, promise in enumerate(promises):
                worst, (holds, reached) = worst_of(promise), groups[place]
                if len(mixed.sizes):
                    kept, found = evaluate(promise, mixed, attribute)
                    # A mixture of distributions that keep one of these models keeps it too.
                    exact = np.bincount(beliefs.owner, ~holds[beliefs.group], len(mixed.sizes)) == 0
                    failing[place] += int((~(kept | (exact & beliefs.by_groups))).sum())
                    figures[place].append(float(worst(found)))
                if len(beliefs.single):
                    failing[place] += int((~holds[beliefs.single]).sum())
                    figures[place].append(float(worst(reached[beliefs.single])))
        worsts = [worst_of(promise)(found) if n else None for promise, found in zip(promises, figures, strict=True)]
        return [Judged(number, n, worst) for number, worst in zip(failing, worsts, strict=True)]

    def _mix(self, subject: Subject, tuples: CodeArray) -> Iterator[_Beliefs]:
        """Yield what is believed of tuples: mixtures of groups, or one group."""
        histograms, known = self._released.histograms[subject], self._released.layout.known
        part, lists = self._released.layout.part_of(subject), self._world.lists
        most = max(1, _SHARES // histograms.n_values)
        for found in match_tuples(lists, self._world.n_parts, self._numbers(tuples), most):
            group = found.bucket.astype(np.int64)
            if part in known:
                number = known.index(part)
                group = found.entry[:, number].astype(np.int64) - lists.begin(number)
            several = np.repeat(found.times > 1, found.times)
            times = found.times[found.times > 1]
            start = np.append(0, np.cumsum(times))
            mixed = Matches(start, found.bucket[several], found.entry[several])
            shares = mix_groups(self._world, mixed, group[several], histograms)
            single = group[np.repeat(found.times == 1, found.times)]
            yield _Beliefs(shares, single, mixed.owner, group[several], by_groups=True)

    def _join(self, tuples: CodeArray) -> Iterator[_Beliefs]:
        """Yield what is believed where several parts tell of the sensitive value; no group alone tells it."""
        released, layout, joined = self._released, self._released.layout, self._released.joined
        assert joined is not None  # noqa: S101 - the caller asked
        world = World(joined.lists, joined.n_parts, released.sizes, joined.n_parts - len(layout.separators))
        together, none = max(1, _SHARES // joined.n_values), np.zeros(0, dtype=np.int64)
        for first in range(0, len(tuples), together):
            shares = join_beliefs(joined, world, self._columns(tuples[first : first + together]))
            yield _Beliefs(shares[(shares != 0).any(axis=1)], none, none, none, by_groups=False)

    def _columns(self, tuples: CodeArray) -> list[CodeArray]:
        """Return the values of joined parts, then of separators; parts without quasi attributes have one value, 0."""
        layout = self._released.layout
        columns = [
            tuples[:, layout.known.index(place)] if place in layout.known else np.zeros(len(tuples), dtype=np.int32)
            for place in sorted({*layout.known, *layout.informed})
        ]
        for separator, (first, _) in zip(layout.separators, self._released.shared_of, strict=True):
            values = np.zeros(len(tuples), dtype=np.int32)
            if separator.first in layout.known:
                values = tuples[:, layout.known.index(separator.first)]
            columns.append(np.append(first, np.int32(-1))[np.minimum(values, len(first))])
        return columns

    def crowd(self) -> int:
        """Return the fewest records of a bucket, or of quasi values within one part."""
        lists, n_parts = self._released.lists, len(self._released.layout.known)
        return min(int(self._released.sizes.min()), *(int(lists.totals(part).min()) for part in range(n_parts)))

    def _attribute(self, subject: Subject) -> Attribute | None:
        return self._by_name[subject[0]] if len(subject) == 1 else None

    def _numbers(self, tuples: CodeArray) -> CodeArray:
        """Return (n, n_lists) the numbers of the tuples' values in the lists of parts and of separators."""
        separated = self._columns(tuples)[len(tuples.T) :] if self._released.joined is None else []
        return number_values(self._released.lists, np.column_stack([tuples, *separated]))


def _as_classes(shares: FloatArray, histograms: Histograms) -> Histograms:
    """Return what is believed of tuples as classes of shares; *histograms* are those of all groups."""
    owner, value = np.nonzero(shares)
    return replace(
        histograms,
        sizes=np.ones(len(shares)),
        start=np.searchsorted(owner, np.arange(len(shares) + 1)).astype(np.int64),
        value=value.astype(np.int64),
        count=shares[owner, value],
        table=histograms.whole,
    )


def form_tuples(released: SlicedRows) -> CodeArray | None:
    """Return (n, n_known_parts) the distinct tuples that some bucket matches, or None if they are too many.

    Tuples have values of all parts with quasi attributes, and agree where parts overlap.
    """
    lists, n_parts = released.lists, len(released.layout.known)
    values, starts = [], []
    for part in range(n_parts):
        keys = lists.keys_of(part)
        bucket = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
        order = np.argsort(bucket, kind="stable")
        values.append((keys[order] >> np.uint64(32)).astype(np.int32))
        starts.append(np.searchsorted(bucket[order], np.arange(len(released.sizes) + 1)))
    widths = np.diff(starts, axis=1)
    if widths.astype(np.float64).prod(axis=0).sum() > MOST_FORMABLE:
        return None
    rows, owner = np.empty((len(released.sizes), 0), dtype=np.int32), np.arange(len(released.sizes))
    for part in range(n_parts):
        # every row once for each value that its bucket has in this part
        times = widths[part][owner]
        place = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        owner = np.repeat(owner, times)
        rows = np.column_stack([np.repeat(rows, times, axis=0), values[part][starts[part][owner] + place]])
    rows = rows[_find_agreeing(released, rows)]
    numbers = Combinations(np.diff(lists.first)[:n_parts].tolist())
    numbers.ids(list(rows.T), len(rows))
    return numbers.tuples()


def _find_agreeing(released: SlicedRows, rows: CodeArray) -> BoolArray:
    """Return (n,) whether the values of overlapping parts agree in what they share."""
    agree = np.ones(len(rows), dtype=np.bool_)
    known = released.layout.known
    for separator, (first, second) in zip(released.layout.separators, released.shared_of, strict=True):
        if separator.first not in known or separator.second not in known:
            continue  # only the sensitive attribute is shared
        one, other = rows[:, known.index(separator.first)], rows[:, known.index(separator.second)]
        agree &= first[one] == second[other]
    return agree


Outcome = tuple[float | None, bool, str]  # what is reached, whether that confirms the promise, and a sentence


def check_promises(
    judge: Judge, manifest: Manifest, tuples: CodeArray | None, *, with_source: bool
) -> list[CheckedGuarantee]:
    """Return every promise beside what the tuples reach; None: they are too many to be formed."""
    groups: dict[tuple[int, Subject], Found] = {}
    settled: dict[int, Outcome] = {}
    for place, promise in enumerate(manifest.promises):
        outcome = _without_beliefs(promise, judge)
        if outcome is None:
            try:
                groups |= {(place, subject): judge.groups(promise, subject) for subject in promise.subjects}
                continue
            except CannotCheckError as obstacle:
                outcome = None, False, f"cannot check: {obstacle}"
        settled[place] = outcome
    judged: dict[int, list[Judged]] = {}
    if tuples is not None:
        for subject in dict.fromkeys(subject for _, subject in groups):
            places = [place for place, about in groups if about == subject]
            promises = [manifest.promises[place] for place in places]
            found = judge.tuples(subject, promises, [groups[place, subject] for place in places], tuples)
            for place, one in zip(places, found, strict=True):
                judged.setdefault(place, []).append(one)
    answers = []
    for place, promise in enumerate(manifest.promises):
        if place not in settled:
            worst = _worst(promise, judged[place]) if place in judged else None
            if with_source and worst is not None:
                settled[place] = _of_source(promise, worst)
            else:
                own = [found for (number, _), found in groups.items() if number == place]
                settled[place] = _alone(promise, own, worst, certain=judge.groups_suffice)
        achieved, ok, detail = settled[place]
        answers.append(CheckedGuarantee(promise.model, promise.parameters, promise.claimed, achieved, ok, detail))
    return answers


def _without_beliefs(promise: Promise, judge: Judge) -> Outcome | None:
    """Return the answer to a promise that is not about what is believed of tuples."""
    if promise.obstacle:
        return None, False, promise.obstacle
    if promise.model == "column-frequency":
        crowd = float(judge.crowd())
        if crowd < promise.whole("k"):
            return crowd, False, "a bucket, or quasi values within one part, have fewer records"
        if not agrees(promise.claimed, crowd):
            return crowd, False, "the manifest's 'achieved' is not what the rows reach"
        return crowd, True, "every bucket, and all quasi values within one part, have as many records"
    model = find_model(promise.model)
    if model is None or model.about != "values" or not model.mixes:
        return None, False, "cannot check: no sliced release can promise this model"
    return None


def _worst(promise: Promise, found: Sequence[Judged]) -> Judged:
    figures = [one.achieved for one in found if one.achieved is not None]
    worst = worst_of(promise)(figures) if figures else None
    return Judged(max(one.failing for one in found), found[0].tuples, worst)


def _of_source(promise: Promise, found: Judged) -> Outcome:
    if found.achieved is None:
        return None, False, "no tuple of the source matches a bucket"
    if found.failing:
        return found.achieved, False, f"{found.failing} of {found.tuples} different tuples of the source do not keep it"
    if not agrees(promise.claimed, found.achieved):
        return found.achieved, False, "the manifest's 'achieved' is not what the tuples of the source reach"
    return found.achieved, True, f"all {found.tuples} different tuples of the source keep it"


def _alone(promise: Promise, groups: Sequence[Found], found: Judged | None, *, certain: bool) -> Outcome:
    """Judge without a source: whoever is in the table is one of the tuples that the buckets could form.

    *certain*: tuples keep what all their groups keep.
    """
    worst = worst_of(promise)
    # No mixture is worse than the worst of its members.
    achieved = worst(float(worst(reached)) for _, reached in groups)
    if found is not None and found.achieved is not None:
        achieved = found.achieved
        if found.failing:
            detail = f"{found.failing} of {found.tuples} tuples that the buckets could form do not keep it; only the "
            return achieved, False, detail + "source can tell whether they are in the table"
    elif not certain or not all(bool(holds.all()) for holds, _ in groups):
        return None, False, "the buckets could form too many tuples to be judged; only the source can tell who is there"
    kept = "every tuple that the buckets could form keeps it, whoever is in the table"
    if agrees(promise.claimed, achieved):
        return achieved, True, kept
    if promise.claimed is None or worst(promise.claimed, achieved) == promise.claimed:
        return achieved, False, "the manifest's 'achieved' is worse than what any tuple could reach"
    return achieved, True, f"{kept}; whether the 'achieved' of the manifest is reached, only the source can tell"
