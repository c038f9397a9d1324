"""An adversary's beliefs about tuples, and every promise of a sliced release, judged by them.

The belief about a tuple is a mixture of the buckets that match it, which are found in inverted lists:

p(t,s) = sum over buckets B of p(t,B) D(t,B)[s], Li, Li, Zhang and Molloy, Equations (2) to (4). p(t,B) is in proportion
to f(t,B), the product of the shares that the values of t have in the parts of B, over the shares of what overlapping
parts have in common. D(t,B) is how the sensitive values of the group are distributed: the rows of B that have the
tuple's quasi values in the part of the sensitive attribute.

Where several parts have the sensitive attribute an adversary joins them through it, and D(t,B)[s] is the product of the
shares of s in the tuple's groups of these parts, over its shares in what such parts have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import kernel
from shoal.manifest import Attribute
from shoal.verify.exact import CannotCheckError, Histograms, divide
from shoal.verify.guarantees import Subject, agrees
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import Tally, histograms_of, number_rows, pair
from shoal.verify.promises import Found, Promise, evaluate, find_model, worst_of
from shoal.verify.result import CheckedGuarantee
from shoal.verify.sliced.reading import Release

MOST_FORMABLE = 2_000_000  # tuples that are worth forming without a source
_CANDIDATES = 1 << 20  # buckets that may match tuples and are looked at together
_SHARES = 1 << 22  # of beliefs that are held at a time
_TINY = 1e-250  # below it, products of many shares have lost digits
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)

Outcome = tuple[float | None, bool, str]  # what is reached, whether that confirms the promise, and a sentence


class Matches(NamedTuple):
    """The buckets that match some tuples: tuple i those of ``start[i]:start[i + 1]``, and its entries in all lists."""

    start: IntArray  # (n + 1,)
    bucket: CodeArray  # (n_matches,)
    entry: IntArray  # (n_lists, n_matches)

    @property
    def times(self) -> IntArray:
        """(n,) how many buckets match each tuple."""
        return np.diff(self.start)

    @property
    def owner(self) -> IntArray:
        """(n_matches,) the tuple of each match."""
        return np.repeat(np.arange(len(self.start) - 1), self.times)

    def select(self, chosen: BoolArray) -> Matches:
        """Return the matches of some of the tuples."""
        rows = np.repeat(chosen, self.times)
        return Matches(np.append(0, np.cumsum(self.times[chosen])), self.bucket[rows], self.entry[:, rows])


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """Inverted lists: in which buckets the values of columns occur; value v of column i is number ``first[i] + v``."""

    first: IntArray  # (n_columns + 1,)
    start: IntArray  # (n_values + 1,) of all columns together
    bucket: CodeArray  # (n_entries,)
    times: IntArray  # (n_entries,)

    @classmethod
    def of(cls, columns: Sequence[CodeArray], buckets: CodeArray) -> Lists:
        """Count the values of rows, column by column, in each bucket.

        >>> lists = Lists.of([np.array([0, 1, 1, 1], dtype=np.int32)], np.array([1, 0, 0, 1], dtype=np.int32))
        >>> lists.start.tolist(), lists.bucket.tolist(), lists.times.tolist()
        ([0, 1, 3], [1, 0, 1], [1, 2, 1])
        """
        first = np.cumsum([0, *(int(column.max()) + 1 for column in columns)], dtype=np.int64)
        pairs = [np.unique(pair(column, buckets), return_counts=True) for column in columns]
        values = [
            (keys >> _HALF).astype(np.int64) + offset for (keys, _), offset in zip(pairs, first[:-1], strict=True)
        ]
        return cls(
            first=first,
            start=np.searchsorted(np.concatenate(values), np.arange(first[-1] + 1)),
            bucket=np.concatenate([(keys & _LOW).astype(np.int32) for keys, _ in pairs]),
            times=np.concatenate([counts for _, counts in pairs]),
        )

    def entries(self, column: int) -> slice:
        """Return the entries of a column."""
        return slice(int(self.start[self.first[column]]), int(self.start[self.first[column + 1]]))

    def values(self, column: int) -> IntArray:
        """Return the value that each entry of a column is of."""
        lengths = np.diff(self.start[self.first[column] : self.first[column + 1] + 1])
        return np.repeat(np.arange(len(lengths)), lengths)

    def totals(self, column: int) -> IntArray:
        """Return (n_values,) how often each value of a column occurs in the table."""
        return np.bincount(self.values(column), self.times[self.entries(column)]).astype(np.int64)

    def match(self, tuples: CodeArray, most: int = _CANDIDATES) -> Iterator[Matches]:
        """Yield the buckets that have all values of (n, n_columns) tuples, those of some tuples after the other.

        Only the buckets of a tuple's rarest value are looked at, about *most* of them at a time. A value that its
        column does not have is in no bucket.
        """
        columns = np.ascontiguousarray(tuples.T)  # (n_columns, n): few columns, many tuples
        first, n_values = self.first[:-1, np.newaxis], np.diff(self.first)[:, np.newaxis]
        known = ((columns >= 0) & (columns < n_values)).all(axis=0)
        numbers = np.where(known, columns, 0) + first
        lengths = np.diff(self.start)[numbers] * known
        rarest = np.take_along_axis(numbers, lengths.argmin(axis=0)[np.newaxis], axis=0)[0]
        looked_at = np.append(0, np.cumsum(lengths.min(axis=0)))
        done = 0
        while done < len(tuples):
            after = max(done + 1, int(np.searchsorted(looked_at, looked_at[done] + most, side="right")) - 1)
            times = np.diff(looked_at[done : after + 1])
            owner = np.repeat(np.arange(len(times)), times)
            begin = self.start[rarest[done:after]] - looked_at[done:after] + looked_at[done]
            place = begin[owner] + np.arange(len(owner))
            bucket = self.bucket[place]
            entry = _find_entries(self.start, self.bucket, numbers, owner + done, bucket, place)
            inside = entry[-1] >= 0
            start = np.append(0, np.cumsum(np.bincount(owner[inside], minlength=len(times))))
            yield Matches(start, bucket[inside], entry[:, inside])
            done = after

    def find_entries(self, column: int, values: CodeArray, buckets: CodeArray) -> IntArray:
        """Return (n,) the entries of values of a column in buckets, which have them."""
        numbers = (values + self.first[column])[np.newaxis]
        owner = np.arange(len(values))
        return _find_entries(self.start, self.bucket, numbers, owner, buckets, np.full_like(owner, -1)).ravel()


@kernel
def _find_entries(
    start: IntArray, buckets: CodeArray, numbers: IntArray, owner: IntArray, wanted: CodeArray, known: IntArray
) -> IntArray:
    """Return (n_columns, n) where the lists of an owner's values have a bucket; -1 from the first on that has not.

    *known* is where one of the lists has it, or -1.
    """
    found = np.full((numbers.shape[0], owner.shape[0]), -1, dtype=np.int64)
    for i in range(owner.shape[0]):
        for column in range(numbers.shape[0]):
            number = numbers[column, owner[i]]
            low, high = start[number], start[number + 1]
            everywhere = low + wanted[i]  # where it is if the value is in all buckets
            if low <= known[i] < high:
                low = high = known[i]
            elif everywhere < high and buckets[everywhere] == wanted[i]:
                low = high = everywhere
            while low < high:  # the buckets of a list ascend
                middle = (low + high) // 2
                if buckets[middle] < wanted[i]:
                    low = middle + 1
                else:
                    high = middle
            if low == start[number + 1] or buckets[low] != wanted[i]:
                break
            found[column, i] = low
    return found


class Factor(NamedTuple):
    """How sensitive values are distributed in the groups of a part, or of what two parts have in common."""

    column: int | None  # of the lists whose entries are the groups; None: groups are whole buckets
    groups: Histograms
    shares: FloatArray  # of each value in its group or, of what parts have in common, 1 over that


@dataclass(frozen=True, slots=True, eq=False)
class Beliefs:
    """What is believed of those of some tuples that some bucket matches."""

    matched: BoolArray  # (n,) which tuples some bucket matches, of all that were asked about
    single: IntArray  # the groups of tuples that one bucket matches: whole numbers tell all
    mixed: Histograms  # what is believed of the other tuples
    start: IntArray  # (n_mixed + 1,) the groups of each
    group: IntArray  # none if beliefs are no mixtures of groups

    def keep_exactly(self, holds: BoolArray) -> BoolArray:
        """Return (n_mixed,) whether all groups of a tuple keep a promise: then their mixture does, too."""
        if not len(self.group):
            return np.zeros(len(self.mixed.sizes), dtype=np.bool_)
        return np.logical_and.reduceat(holds[self.group], self.start[:-1])


class Adversary:
    """Knows the quasi values of a tuple, and all buckets."""

    def __init__(self, release: Release) -> None:
        self.release = release
        self.known = release.layout.known
        self._columns = [*(release.values[place] for place in self.known), *(one.numbers for one in release.shared)]
        self.lists = Lists.of(self._columns, release.buckets)
        self._factors: dict[Subject, list[Factor]] = {}
        # log f(t,B) is a sum over the parts, less what they have in common, each as a share of the bucket.
        self._logs = np.log(self.lists.times)
        self._logs[self.lists.entries(len(self.known) - 1).stop :] *= -1
        self._log_sizes = (len(self.known) - len(release.shared)) * np.log(release.sizes)

    def crowd(self) -> int:
        """Return the fewest records of a bucket, or of quasi values within one part."""
        totals = [self.lists.totals(column) for column in range(len(self.known))]
        return min(int(counts.min()) for counts in (self.release.sizes, *totals))

    def match(self, tuples: CodeArray, most: int = _CANDIDATES) -> Iterator[Matches]:
        """Yield the buckets that match (n, n_known_parts) tuples, those of some tuples after the other."""
        columns = list(tuples.T)
        for separator, shared in zip(self.release.layout.separators, self.release.shared, strict=True):
            values = np.zeros(len(tuples), dtype=np.int32)
            if separator.first in self.known:
                values = columns[self.known.index(separator.first)]
            columns.append(np.append(shared.of_first, -1)[np.minimum(values, len(shared.of_first))])
        return self.lists.match(np.column_stack(columns), most)

    def are_matched(self, tuples: CodeArray) -> BoolArray:
        """Return (n,) whether some bucket matches each tuple."""
        return np.concatenate([np.zeros(0, dtype=np.bool_), *(found.times > 0 for found in self.match(tuples))])

    def factors(self, subject: Subject) -> list[Factor]:
        """Return what D(t,B) is a product of; first come the groups of a part that has the sensitive attributes."""
        if subject in self._factors:
            return self._factors[subject]
        layout = self.release.layout
        places = [place for place, part in enumerate(layout.parts) if set(subject) <= set(part.rest)]
        if not places:
            raise CannotCheckError("the attributes that it is about are in different parts")
        found = []
        for place in places:
            column = self.known.index(place) if place in self.known else None
            found.append(self._count(subject, place, column, 1))
        for column, separator in enumerate(layout.separators, len(self.known)):
            if layout.shared in separator.names:
                found.append(self._count(subject, separator.first, column, -1))
        self._factors[subject] = found
        return found

    def _count(self, subject: Subject, place: int, column: int | None, power: int) -> Factor:
        """Count the sensitive values that a part has in every group."""
        release, (first, *others) = self.release, subject
        group: AnyIntArray = release.buckets
        n_groups = len(release.sizes)
        if column is not None:
            own = self.lists.entries(column)
            group = self.lists.find_entries(column, self._columns[column], release.buckets) - own.start
            n_groups = own.stop - own.start
        codes, texts = release.codes[release.layout.parts[place].column_of[first]], release.texts[first]
        for name in others:
            joint, numbers = np.unique(pair(codes, release.codes[name]), return_inverse=True)
            codes, texts = numbers.astype(np.int32), ()
        tally = Tally()
        tally.add(pair(group.astype(np.int32), codes))
        n_values = len(joint) if others else len(texts)
        groups = histograms_of(tally, np.bincount(group, minlength=n_groups), texts, n_values)
        return Factor(column, groups, divide(groups.count, groups.sizes[groups.owner]) ** power)

    def believe(self, subject: Subject, tuples: CodeArray) -> Iterator[Beliefs]:
        """Yield what is believed of (n, n_known_parts) tuples; those that no bucket matches are left out.

        It is not a number where so many shares are multiplied that digits are lost; then no promise is believed.
        """
        factors = self.factors(subject)
        column, groups, _ = factors[0]
        for found in self.match(tuples, min(_CANDIDATES, max(1, _SHARES // groups.n_values))):
            alone = (found.times == 1) & (len(factors) == 1)
            several = found.select((found.times > 0) & ~alone)
            shares = self._mix(several, factors)
            mixed = replace(
                groups,
                sizes=np.ones(shares.shape[0]),
                start=shares.indptr.astype(np.int64),
                value=shares.indices.astype(np.int64),
                count=shares.data,
                table=groups.whole,
            )
            single = self._group(found.select(alone), column)
            members = self._group(several, column) if len(factors) == 1 else np.zeros(0, dtype=np.int64)
            yield Beliefs(found.times > 0, single, mixed, several.start, members)

    def _group(self, found: Matches, column: int | None) -> IntArray:
        """Return (n_matches,) the group of each tuple in a bucket."""
        if column is None:
            return found.bucket.astype(np.int64)
        return np.asarray(found.entry[column] - self.lists.entries(column).start)

    def _mix(self, found: Matches, factors: Sequence[Factor]) -> Any:
        """Return p(t,s) as a sparse matrix, tuples by values; a tuple is left out if no value is possible."""
        from scipy.sparse import csr_array

        n, n_matches = len(found.start) - 1, len(found.bucket)
        logs = self._logs[found.entry].sum(axis=0) - self._log_sizes[found.bucket]
        # Very many parts make very small products: they are compared with the largest of their tuple.
        weights = np.exp(logs - np.maximum.reduceat(logs, found.start[:-1])[found.owner]) if n else logs
        product: Any = None
        for column, groups, shares in factors:
            matrix = csr_array((shares, groups.value, groups.start), shape=(len(groups.sizes), groups.n_values))
            rows = matrix[self._group(found, column)]
            product = rows if product is None else product.multiply(rows)
            product.data[(product.data < _TINY) | (product.data > 1 / _TINY)] = np.nan
        mixed = csr_array((weights, np.arange(n_matches), found.start), shape=(n, n_matches)) @ product
        mixed.eliminate_zeros()  # of weights that are nothing beside the largest
        mixed = mixed[np.diff(mixed.indptr) > 0]
        mixed.sort_indices()
        mixed.data /= np.repeat(mixed.sum(axis=1), np.diff(mixed.indptr))
        return mixed

    def form_tuples(self) -> CodeArray | None:
        """Return (n, n_known_parts) the distinct tuples that some bucket matches, or None if they are too many.

        Tuples have values of all parts with quasi attributes, and agree where parts overlap.
        """
        buckets = [self.lists.bucket[self.lists.entries(column)] for column in range(len(self.known))]
        widths = [np.bincount(own, minlength=len(self.release.sizes)) for own in buckets]
        if np.prod(widths, axis=0, dtype=np.float64).sum() > MOST_FORMABLE:
            return None
        names = [f"value {column}" for column in range(len(self.known))]
        formed = pa.table({"bucket": np.arange(len(self.release.sizes), dtype=np.int32)})
        for column, (place, name) in enumerate(zip(self.known, names, strict=True)):
            values = self.lists.values(column)
            part = {"bucket": buckets[column], name: values}
            for number, separator in enumerate(self.release.layout.separators):
                if place in (separator.first, separator.second):
                    shared = self.release.shared[number]
                    of_value = shared.of_first if place == separator.first else shared.of_second
                    part[f"shared {number}"] = of_value[values]
            formed = formed.join(pa.table(part), [key for key in formed.column_names if key in part], join_type="inner")
        distinct, _ = number_rows(np.stack([np.asarray(formed[name], dtype=np.int32) for name in names]))
        return distinct.T


@dataclass(slots=True, eq=False)
class _Case:
    """A promise about beliefs, and what tuples reach of it."""

    promise: Promise
    groups: dict[Subject, Found]  # what every group reaches, in whole numbers
    failing: Counter[Subject] = field(default_factory=Counter)
    tuples: Counter[Subject] = field(default_factory=Counter)  # that some bucket matches
    figures: list[float] = field(default_factory=list)

    def add(self, subject: Subject, beliefs: Beliefs, attribute: Attribute | None) -> None:
        """Judge what is believed of some more tuples."""
        worst, (holds, reached) = worst_of(self.promise), self.groups[subject]
        self.tuples[subject] += len(beliefs.single) + len(beliefs.mixed.sizes)
        if len(beliefs.single):
            self.failing[subject] += int((~holds[beliefs.single]).sum())
            own = reached[beliefs.single]
            self.figures.append(float(worst(own.min(), own.max())))
        if len(beliefs.mixed.sizes):
            kept, found = evaluate(self.promise, beliefs.mixed, attribute)
            self.failing[subject] += int((~(kept | beliefs.keep_exactly(holds))).sum())
            self.figures.append(float(worst(found.min(), found.max())))

    @property
    def achieved(self) -> float | None:
        """The worst that is believed of a tuple; None: no bucket matches any."""
        return worst_of(self.promise)(self.figures) if self.figures else None

    @property
    def shortfall(self) -> str | None:
        """How many of all tuples do not keep it, if some do not."""
        failing = max(self.failing.values(), default=0)
        return f"{failing} of {self.n_tuples}" if failing else None

    @property
    def n_tuples(self) -> int:
        """How many different tuples were judged."""
        return max(self.tuples.values(), default=0)


def check_promises(
    adversary: Adversary, manifest: Manifest, tuples: CodeArray | None, *, with_source: bool
) -> tuple[list[CheckedGuarantee], BoolArray | None]:
    """Return every promise beside what the tuples reach; None: they are too many to be formed.

    Also return which tuples some bucket matches, unless no promise made anybody look for that.
    """
    by_name = {attribute.name: attribute for attribute in manifest.attributes}

    def attribute_of(subject: Subject) -> Attribute | None:
        return by_name[subject[0]] if len(subject) == 1 else None

    cases: dict[int, _Case] = {}
    outcomes: dict[int, Outcome] = {}
    for place, promise in enumerate(manifest.promises):
        outcome = _judge_without_beliefs(promise, adversary)
        if outcome is not None:
            outcomes[place] = outcome
            continue
        try:
            groups = {one: adversary.factors(one)[0].groups for one in promise.subjects}
            found = {one: evaluate(promise, own, attribute_of(one)) for one, own in groups.items()}
            cases[place] = _Case(promise, found)
        except CannotCheckError as obstacle:
            outcomes[place] = None, False, f"cannot check: {obstacle}"
    matched: list[BoolArray] = []
    for subject in dict.fromkeys(subject for case in cases.values() for subject in case.groups):
        matched = []
        for beliefs in adversary.believe(subject, tuples) if tuples is not None else ():
            matched.append(beliefs.matched)
            for case in cases.values():
                if subject in case.groups:
                    case.add(subject, beliefs, attribute_of(subject))
    for place, case in cases.items():
        judged = tuples is not None and with_source
        outcomes[place] = _judge_by_source(case) if judged else _judge_alone(case, adversary)
    checked = [
        CheckedGuarantee(promise.model, promise.parameters, promise.claimed, *outcomes[place])
        for place, promise in enumerate(manifest.promises)
    ]
    return checked, np.concatenate(matched) if matched else None


def _judge_without_beliefs(promise: Promise, adversary: Adversary) -> Outcome | None:
    """Return the answer to a promise that is not about what is believed of tuples."""
    if promise.obstacle:
        return None, False, promise.obstacle
    if promise.model == "column-frequency":
        crowd = float(adversary.crowd())
        if crowd < promise.whole("k"):
            return crowd, False, "a bucket, or quasi values within one part, have fewer records"
        if not agrees(promise.claimed, crowd):
            return crowd, False, "the manifest's 'achieved' is not what the rows reach"
        return crowd, True, "every bucket, and all quasi values within one part, have as many records"
    model = find_model(promise.model)
    if model is None or model.about != "values" or not model.mixes:
        return None, False, "cannot check: no sliced release can promise this model"
    return None


def _judge_by_source(case: _Case) -> Outcome:
    achieved = case.achieved
    if achieved is None:
        return None, False, "no tuple of the source matches a bucket"
    if case.shortfall:
        return achieved, False, f"{case.shortfall} different tuples of the source do not keep it"
    if not agrees(case.promise.claimed, achieved):
        return achieved, False, "the manifest's 'achieved' is not what the tuples of the source reach"
    return achieved, True, f"all {case.n_tuples} different tuples of the source keep it"


def _judge_alone(case: _Case, adversary: Adversary) -> Outcome:
    """Judge without a source: whoever is in the table is one of the tuples that the buckets could form."""
    worst, claimed, achieved = worst_of(case.promise), case.promise.claimed, case.achieved
    if case.shortfall:
        detail = f"{case.shortfall} tuples that the buckets could form do not keep it; only the "
        return achieved, False, detail + "source can tell whether they are in the table"
    if achieved is None:
        # Where D(t,B) is that of one group, tuples keep what all groups keep, and none is worse than the worst group.
        mixtures = all(len(adversary.factors(subject)) == 1 for subject in case.groups)
        if not mixtures or not all(bool(holds.all()) for holds, _ in case.groups.values()):
            detail = "the buckets could form too many tuples to be judged; only the source can tell who is there"
            return None, False, detail
        achieved = worst(float(worst(reached.min(), reached.max())) for _, reached in case.groups.values())
    kept = "every tuple that the buckets could form keeps it, whoever is in the table"
    if agrees(claimed, achieved):
        return achieved, True, kept
    if claimed is None or worst(claimed, achieved) == claimed:
        return achieved, False, "the manifest's 'achieved' is worse than what any tuple could reach"
    return achieved, True, f"{kept}; whether the 'achieved' of the manifest is reached, only the source can tell"
