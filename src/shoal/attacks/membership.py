"""membership: an adversary with all quasi values of a person decides whether the person is in the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from shoal.attacks.base import FEWEST, NO_CONTROL, Attack, People, Tally, Trials
from shoal.attacks.exposure import LEAST, OF_SOME, SHARE, Outcomes, find_labels, judge
from shoal.attacks.kernels import score_tuples
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import Pairs, count_pairs, find_rows, group_items, same_rows, sum_groups

BY_BUCKETS = ("matching-buckets", "matching-degree", "expected-copies", "excess")
BY_RECORDS = ("records", "excess", "nearness")
POPULARITY = "popularity"
OF_CONTROL = "others are people of the control table"
FALSE_RATES = (0.01, 0.001)  # false positive rates at which true positives are counted
OTHERS = 10  # non-members for each target, who determine thresholds
STEPS, RIDGE = 20, 1.0  # of fitting the likelihood ratio
MOST_PROPOSALS = 4_000_000  # of fake tuples
MOST_IN_VAIN = 400_000  # proposals without a fake tuple
_AT_ONCE = 20_000


class MembershipAttack(Attack):
    """Distinguishes members from others by how the release matches them.

    Li, Li, Zhang and Molloy, section 5, for sliced releases: the scores are the number of matching buckets, the
    matching degree, the expected copies, and these divided by the number expected from the frequencies of the values
    alone. For other releases they are the number of records that cover a person, that number divided by the number
    expected from the frequencies, and the distance of the nearest record. All scores together make a likelihood ratio,
    by which true positives are counted at low false positive rates; the most exposed are the people with the greatest
    ratio.
    """

    name = "membership"
    title = "who is in the data"
    question = "singling out"
    bears_on = "membership"
    of_insensitive = True

    def refuses(self, view: ReleaseView) -> str | None:  # noqa: ARG002
        """Return None: any release has members."""
        return None

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Attack members drawn from the source and as many others: of the control table, or else fake tuples."""
        if view.sliced is not None and _in_buckets(view):
            parts = [part for part in view.parts if part.known.any()]
            contents = BucketContents(view.sizes.astype(np.int64), tuple(part.pairs for part in parts))
            drawn = [targets] if control is None else self._draw(targets, control, rng)
            people, *others = (np.stack([view.find_classes(part, each) for part in parts]) for each in drawn)
            known = None if control is None else Groups(view, *drawn)
            trials = attack_tuples(contents, people, others[0] if others else None, self.n_targets, rng, known)
        elif control is None:
            raise UsageError(
                "membership can only be tested against people who are not in the data: give a control table"
            )
        else:
            members, strangers = self._draw(targets, control, rng)
            counts = count_values(view)
            inside, outside = (_matches(view, people, counts) for people in (members, strangers))
            trials = decide(inside, outside, BY_RECORDS, rng, Groups(view, members, strangers))
            trials = replace(trials, notes=(OF_CONTROL, *trials.notes))
        notes = list(trials.notes)
        if control is None:
            notes.append(NO_CONTROL)
        if view.manifest.withheld:
            notes.append("members are drawn from all records of the source, including withheld ones")
        return replace(trials, notes=tuple(notes))

    def _draw(self, targets: People, control: People, rng: np.random.Generator) -> list[People]:
        return [targets.draw(self.n_targets, rng), control.draw(OTHERS * self.n_targets, rng)]


class Groups(NamedTuple):
    """The members and the others, whose published labels define subgroups."""

    view: ReleaseView
    members: People
    others: People


@dataclass(frozen=True, slots=True, eq=False)
class BucketContents:
    """A sliced table, for an adversary who counts the buckets that match a tuple; parts are not linked.

    Li, Li, Zhang and Molloy, Definition 5: a bucket matches a tuple iff it shows the tuple's value of every part.

    >>> contents = BucketContents.of(np.array([0, 0, 1]), [np.array([0, 1, 1]), np.array([0, 1, 0])])
    >>> contents.sizes.tolist(), [np.diff(part.start).tolist() for part in contents.parts]
    ([2, 1], [[1, 2], [2, 1]])
    """

    sizes: IntArray  # (n_buckets,) records
    parts: tuple[Pairs, ...]  # of each part, its values and their buckets

    @property
    def n_buckets(self) -> int:
        return len(self.sizes)

    @property
    def n_records(self) -> int:
        return int(self.sizes.sum())

    @classmethod
    def of(
        cls, bucket: AnyIntArray, values: Sequence[AnyIntArray], records: AnyIntArray | None = None
    ) -> BucketContents:
        """Build from rows: the bucket of each, its value of each part and, if rows are many records, how many.

        Each part's values may be in a different order within a bucket.
        """
        weights = np.ones(len(bucket), dtype=np.int64) if records is None else np.asarray(records, dtype=np.int64)
        buckets, n_buckets = bucket.astype(np.int32), int(bucket.max(initial=-1)) + 1
        columns = [(part.astype(np.int32), int(part.max(initial=-1)) + 1) for part in values]
        parts = tuple(count_pairs(*column, buckets, n_buckets, weights) for column in columns)
        return cls(sum_groups(buckets, weights, n_buckets), parts)

    def score(self, codes: CodeArray) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return for each tuple its number of matching buckets, its matching degree and its expected copies."""
        # Values of all parts are numbered consecutively: the j-th part begins at value_first[j].
        value_first = np.cumsum([0, *(len(part.start) - 1 for part in self.parts)])[:-1].astype(np.int64)
        first = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(part.start) for part in self.parts]))])
        bucket, count = (np.concatenate([part[column] for part in self.parts]) for column in (1, 2))
        return score_tuples(codes, value_first, first.astype(np.int64), bucket, count, self.sizes)

    def mark_unknown(self, tuples: AnyIntArray) -> CodeArray:
        """Return (n_parts, n_tuples) the same values, but -1 for values that no bucket can show."""
        n_values = np.array([len(part.start) - 1 for part in self.parts])[:, np.newaxis]
        return np.where((tuples >= 0) & (tuples < n_values), tuples, -1).astype(np.int32)

    def n_shown(self) -> IntArray:
        """(n_parts, n_buckets) how many distinct values each bucket shows of each part."""
        shown = [np.bincount(part.second, minlength=self.n_buckets) for part in self.parts]
        return np.array(shown, dtype=np.int64).reshape(len(self.parts), self.n_buckets)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """How strongly the table suggests each tuple.

    The matching degree is the sum over buckets of f(t,B), the product of the shares of the tuple's values in the bucket
    (Li et al., section 4.1). Over all ways to link the parts, a bucket has f(t,B) |B| copies of the tuple on average.
    The popularity is the number of copies if all buckets were one, which any grouping of the published values reveals.
    """

    matching_buckets: IntArray  # (n_tuples,)
    matching_degree: FloatArray
    expected_copies: FloatArray
    popularity: FloatArray

    @property
    def excess(self) -> FloatArray:
        """Expected copies divided by popularity: the effect of the grouping; 0 for a tuple that matches nowhere."""
        known = self.popularity > 0
        return np.divide(self.expected_copies, self.popularity, out=np.zeros(len(known)), where=known)

    @classmethod
    def of(cls, contents: BucketContents, tuples: AnyIntArray) -> Scores:
        """Score ``tuples``, (n_parts, n_tuples) values; -1 is a value that the table does not show.

        >>> contents = BucketContents.of(np.array([0, 0, 1, 1]), [np.array([0, 1, 1, 1]), np.array([0, 1, 1, 1])])
        >>> scores = Scores.of(contents, np.array([[0, 1, 0], [0, 1, -1]]))
        >>> scores.matching_buckets.tolist(), scores.expected_copies.tolist(), scores.popularity.tolist()
        ([1, 2, 0], [0.5, 2.5, 0.0], [0.25, 2.25, 0.0])
        """
        codes = contents.mark_unknown(tuples)
        found = contents.score(codes)
        popularity = np.full(codes.shape[1], float(contents.n_records))
        for part, values in zip(contents.parts, codes, strict=True):
            records = np.diff(np.append(0, np.cumsum(part.records))[part.start])  # of each value
            popularity *= np.append(records, 0)[values] / contents.n_records
        return cls(*found, popularity)


def draw_fakes(contents: BucketContents, originals: CodeArray, n: int, rng: np.random.Generator) -> CodeArray:
    """Return (n_parts, at most n) fake tuples, independent of each other and uniform over all distinct ones.

    ``originals`` is (n_parts, n_tuples). A bucket is drawn in proportion to the tuples that it forms, and one of these
    uniformly; a tuple that m buckets form is drawn m times as often, so it is kept with probability 1/m. There are
    fewer than n, or none, if fakes are too rare to be found in time.
    """
    shown = np.log(contents.n_shown()).sum(axis=0)
    chance = np.exp(shown - shown.max())
    chance /= chance.sum()
    entries = []  # of each part, bucket b shows the values at first[b]:first[b + 1]
    for part in contents.parts:
        first, order = group_items(part.second, contents.n_buckets)
        entries.append((first, np.repeat(np.arange(len(part.start) - 1), np.diff(part.start))[order]))
    known = originals[:, same_rows(list(originals))[0]] if originals.size else originals
    kept: list[CodeArray] = []
    n_kept = proposed = 0
    while n_kept < n and proposed < (MOST_PROPOSALS if n_kept else MOST_IN_VAIN):
        bucket = rng.choice(contents.n_buckets, size=_AT_ONCE, p=chance)
        proposals = np.empty((len(contents.parts), _AT_ONCE), dtype=np.int32)
        for row, (first, values) in zip(proposals, entries, strict=True):
            row[:] = values[first[bucket] + rng.integers(np.diff(first)[bucket])]
        accepted = rng.random(_AT_ONCE) * contents.score(proposals)[0] < 1
        fakes = proposals[:, accepted]
        fakes = fakes[:, find_rows(list(known), list(fakes)) < 0]
        kept.append(fakes)
        n_kept += fakes.shape[1]
        proposed += _AT_ONCE
    return np.concatenate(kept, axis=1)[:, :n]


def attack_tuples(
    contents: BucketContents,
    people: CodeArray,
    others: CodeArray | None,
    n_targets: int,
    rng: np.random.Generator,
    known: Groups | None = None,
) -> Trials:
    """Attack, given the values in each part of people, (n_parts, n_people), and of others who are not in the data.

    By default, the others are fake tuples, all equally likely. The *known* people, if given, were drawn before.
    """
    members = people if known is not None else people[:, rng.permutation(people.shape[1])[:n_targets]]
    if others is None:
        whole = people[:, (people >= 0).all(axis=0)]
        strangers = draw_fakes(contents, whole, n_targets, rng)
        note = f"others are {strangers.shape[1]:,} fake tuples, drawn evenly from all distinct ones"
        if strangers.shape[1] < FEWEST:
            raise UsageError(
                "there are almost no fake tuples, so any person who matches a bucket is in the data; give a control "
                "table to measure how often other people match none"
            )
    else:
        strangers, note = others, OF_CONTROL
    if min(members.shape[1], strangers.shape[1]) < FEWEST:
        raise UsageError(f"fewer than {FEWEST} people are too few for an attack; give larger tables")
    inside, outside = (
        {name: getattr(scores, name.replace("-", "_")).astype(np.float64) for name in (*BY_BUCKETS, POPULARITY)}
        for scores in (Scores.of(contents, members), Scores.of(contents, strangers))
    )
    trials = decide(inside, outside, BY_BUCKETS, rng, known)
    return replace(trials, notes=(note, *trials.notes))


def decide(
    inside: Mapping[str, FloatArray],
    outside: Mapping[str, FloatArray],
    counting: Sequence[str],
    rng: np.random.Generator,
    known: Groups | None = None,
) -> Trials:
    """Distinguish members from others by their scores.

    Each score's rule is chosen on one half of the targets and counted on the other half; so is the score that counts,
    which is one of *counting*.
    """
    n_inside, n_outside = (len(next(iter(scores.values()))) for scores in (inside, outside))
    learned_in, tested_in = _halves(n_inside, rng)
    learned_out, tested_out = _halves(n_outside, rng)
    variants, calls = {}, {}
    best, chosen = -1.0, counting[0]
    for name in inside:
        rule, advantage = Rule.learn(inside[name][learned_in], outside[name][learned_out])
        calls[name] = called = rule.apply(inside[name][tested_in]), rule.apply(outside[name][tested_out])
        variants[name] = Trials(name, Tally.of(called[0]), Tally.of(called[1]), decides=True)
        if name in counting and advantage > best:
            best, chosen = advantage, name
    yes, no = fit_ratios(inside, outside, learned_in, learned_out)
    true = {f"{rate:g}": count_true(yes[tested_in], no[learned_out], no[tested_out], rate) for rate in FALSE_RATES}
    notes = [f"decided by {chosen}"]
    notes += [
        f"a false positive rate of {rate} needs {1 / float(rate):,.0f} others, so true positives are not stated for it"
        for rate, trials in true.items()
        if trials is None
    ]
    subgroup = None
    if known is not None:
        tested = (known.members[tested_in], yes[tested_in]), (known.others[tested_out], no[tested_out])
        said = [
            Outcomes(called, belief, find_labels(known.view, people))
            for called, (people, belief) in zip(calls[chosen], tested, strict=True)
        ]
        subgroup = judge(MembershipAttack.name, known.view, said[0], said[1], decides=True).subgroup
    return replace(
        variants[chosen],
        attack=MembershipAttack.name,
        variants=variants,
        notes=tuple(notes),
        true_positives=true,
        exposed=find_most_exposed(yes[tested_in], no[tested_out], rng),
        subgroup=subgroup,
    )


def fit_ratios(
    inside: Mapping[str, FloatArray], outside: Mapping[str, FloatArray], learned_in: IntArray, learned_out: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the logarithms of the likelihood ratios of each member, and of each other, given their scores.

    A logistic regression on the logarithms of all scores, and on which of them are 0, is fitted on some of both.
    """
    scores = [np.concatenate([inside[name], outside[name]]) for name in inside]
    read = [column for own in scores for column in (np.sign(own) * np.log1p(np.abs(own)), own == 0)]
    columns = np.nan_to_num(np.stack(read, axis=1).astype(np.float64), posinf=50.0, neginf=-50.0)
    n = len(next(iter(inside.values())))
    rows = np.concatenate([learned_in, n + learned_out])
    columns = (columns - columns[rows].mean(axis=0)) / np.maximum(columns[rows].std(axis=0), 1e-9)
    columns = np.append(columns, np.ones((len(columns), 1)), axis=1)
    own, member = columns[rows], (rows < n).astype(np.float64)
    weight = np.where(rows < n, 0.5 / max(1, len(learned_in)), 0.5 / max(1, len(learned_out))) * len(rows)
    found = np.zeros(columns.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(own @ found, -30, 30)))
        curved = (own * (weight * chance * (1 - chance))[:, np.newaxis]).T @ own + RIDGE * np.eye(len(found))
        found += np.linalg.solve(curved, own.T @ (weight * (member - chance)) - RIDGE * found)
    ratios = columns @ found
    return ratios[:n], ratios[n:]


def count_true(members: FloatArray, learned: FloatArray, others: FloatArray, rate: float) -> Trials | None:
    """Count members and others above the threshold that a share of the *learned* exceeds; None for too few of these."""
    n = int(rate * len(learned) + 1e-9)
    if n < 1:
        return None
    threshold = np.sort(learned)[len(learned) - n - 1]
    inside, outside = (Tally.of(each > threshold) for each in (members, others))
    return Trials(MembershipAttack.name, inside, outside, decides=True)


def find_most_exposed(members: FloatArray, others: FloatArray, rng: np.random.Generator) -> Trials | None:
    """Count the members among people with the greatest ratios, of equally many members and others."""
    n = min(len(members), len(others))
    most = max(LEAST, round(SHARE * 2 * n))
    if 2 * n <= most:
        return None
    order = rng.permutation(2 * n)  # breaks ties at random
    ratio = np.concatenate([members[:n], others[:n]])[order]
    surest = order[np.argsort(-ratio, kind="stable")[:most]]
    return Trials(MembershipAttack.name, Tally.of(surest < n), baseline=Tally(n, 2 * n), alarms=OF_SOME)


def count_values(view: ReleaseView) -> list[FloatArray]:
    """Return for each known attribute how many records may have each code; the last, for ``UNKNOWN``, is all."""
    records, found = view.read_records(), []
    for a, (stated, together) in enumerate(zip(view.labels, view.together, strict=True)):
        rows = np.bincount(next(own[:, a] for own in records if own[0, a] >= 0), minlength=len(stated.low))
        even = np.where(stated.gaps < 0, rows, 0)
        begun, ended = (np.bincount(side, even, stated.width + 1) for side in (stated.low, stated.high))
        counts = np.cumsum(begun - ended)[:-1]
        for label in np.flatnonzero(stated.gaps >= 0):
            covered = np.unpackbits(view.space.bits[stated.gaps[label]].view(np.uint8), bitorder="little")
            counts += rows[label] * covered[: stated.width]
        found.append(np.where(together, np.append(counts, view.n_rows), view.n_rows))
    return found


def _in_buckets(view: ReleaseView) -> bool:
    """Whether buckets show the source's values, each attribute in one part."""
    if view.treatments.of_quasi:
        return False
    names = [name for part in view.manifest.parts for name in part]
    return len(set(names)) == len(names) and not view.generalized


def _matches(view: ReleaseView, people: People, counts: Sequence[FloatArray]) -> dict[str, FloatArray]:
    """Return how strongly a release suggests each person, and how strongly the frequencies of values alone do."""
    copies, far = view.copies(people.codes, people.numbers)
    popularity = np.full(len(people), float(view.n_rows))
    for own, codes in zip(counts, people.codes.T, strict=True):
        popularity *= own[codes] / view.n_rows
    excess = np.divide(copies, popularity, out=np.zeros(len(people)), where=popularity > 0)
    return {"records": copies, "excess": excess, "nearness": -far, POPULARITY: popularity}


@dataclass(frozen=True, slots=True)
class Rule:
    """Calls a person a member if the score is at least, or at most, a threshold."""

    threshold: float
    above: bool

    def apply(self, scores: FloatArray) -> BoolArray:
        return np.asarray(scores >= self.threshold if self.above else scores <= self.threshold)

    @classmethod
    def learn(cls, members: FloatArray, others: FloatArray) -> tuple[Rule, float]:
        """Return the rule that best distinguishes these members from these others, and its advantage on them.

        >>> Rule.learn(np.array([3.0, 4.0, 5.0, 1.0]), np.array([0.0, 1.0, 1.0]))
        (Rule(threshold=3.0, above=True), 0.75)
        """
        levels = np.unique(np.concatenate([members, others]))
        inside, outside = np.sort(members), np.sort(others)
        best: tuple[Rule, float] = (cls(float(levels[0]), True), 0.0)
        for above in (True, False):
            side = "left" if above else "right"
            below_in = np.searchsorted(inside, levels, side=side) / len(inside)  # type: ignore[call-overload]
            below_out = np.searchsorted(outside, levels, side=side) / len(outside)  # type: ignore[call-overload]
            advantage = below_out - below_in if above else below_in - below_out
            place = int(np.argmax(advantage))
            if advantage[place] > best[1]:
                best = (cls(float(levels[place]), above), float(advantage[place]))
        return best


def _halves(n: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    order = rng.permutation(n)
    return order[: n // 2], order[n // 2 :]
