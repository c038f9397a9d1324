"""singling-out: predicates derived from the release that exactly one person of the source satisfies."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from shoal.attacks import kernels
from shoal.attacks.base import ALARMS, Attack, People, Tally, Trials
from shoal.attacks.parts import Labels
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.release.sliced.table import number_rows

NOTHING = -1  # label of an attribute that a predicate does not name
DEPTHS = (100, 500, 1000)  # numbers of the likeliest predicates whose results are reported
OF_DEPTH = ALARMS / 20  # for several depths, and because overlapping predicates are right or wrong together
ROUNDS = 2000
_MOST = 64
_REPEATED = 50  # records per wanted predicate that are searched first


@dataclass(frozen=True, slots=True, eq=False)
class Predicates:
    """Conjunctions over attributes: the label of each, and the largest distance of a number from its label."""

    label: CodeArray  # (n, n_known) or NOTHING
    reach: FloatArray  # (n, n_known) 0: the label's values; else the largest distance of a number from its middle

    def __len__(self) -> int:
        return len(self.label)

    def draw_elsewhere(self, view: ReleaseView, rng: np.random.Generator) -> Predicates:
        """Return predicates of the same form, with every label drawn from all labels of its attribute."""
        label = self.label.copy()
        for a, stated in enumerate(view.labels):
            usable = np.flatnonzero(stated.tells)
            for asked in (self.reach[:, a] == 0, self.reach[:, a] > 0):
                own = np.flatnonzero(asked & (label[:, a] != NOTHING))
                if len(own):
                    label[own, a] = rng.choice(usable, len(own))
                usable = np.flatnonzero(np.isfinite(stated.middles))
        return Predicates(label, self.reach)

    def count(self, view: ReleaseView, people: People, most: int) -> IntArray:
        """Return (n,) how many of the people satisfy each, counted up to *most*.

        Labels are ranges of an attribute's codes; numbers near a label are ranges of places between all ends.
        """
        predicate, attribute = np.nonzero(self.label != NOTHING)  # of each condition
        label, reach = self.label[predicate, attribute], self.reach[predicate, attribute]
        column, gaps = attribute.copy(), np.full(len(attribute), -1, dtype=np.int64)
        low, high, columns = np.zeros_like(gaps), np.zeros_like(gaps), dict(enumerate(people.codes.T))
        for a, stated in enumerate(view.labels):
            within, near = (np.flatnonzero((attribute == a) & asked) for asked in (reach == 0, reach > 0))
            of, middles = label[within], stated.middles[label[near]]
            low[within], high[within], gaps[within] = stated.low[of], stated.high[of], stated.gaps[of]
            begins, ends = middles - reach[near], np.nextafter(middles + reach[near], np.inf)
            edges, numbers = np.unique(np.concatenate([begins, ends])), people.numbers[:, a]
            low[near], high[near] = np.searchsorted(edges, begins) + 1, np.searchsorted(edges, ends) + 1
            column[near] += len(view.labels)
            if len(near):
                place = np.where(np.isfinite(numbers), np.searchsorted(edges, numbers, side="right"), -1)
                columns[a + len(view.labels)] = place.astype(np.int32)
        start = np.searchsorted(predicate, np.arange(len(self) + 1))
        used, column = np.unique(column, return_inverse=True)
        asked = kernels.Conditions(start, column, low, high, gaps)
        return count_fulfilling(np.stack([*(columns[a] for a in used), people.person]), asked, view.space.bits, most)


def count_fulfilling(columns: CodeArray, asked: kernels.Conditions, bits: KeyArray, most: int) -> IntArray:
    """Return (n_predicates,) how many people satisfy each predicate, up to *most*.

    ``columns`` is (n_columns + 1, n_records); the last row is the person of each record. Only records that meet a
    predicate's rarest condition are examined; every predicate has a condition.
    """
    n_predicates, size = len(asked.start) - 1, columns.shape[1]
    order = np.empty(columns.shape, dtype=np.int32)
    begin, end = np.zeros(len(asked.column), dtype=np.int64), np.zeros(len(asked.column), dtype=np.int64)
    for column in np.unique(asked.column):
        order[column] = np.argsort(columns[column], kind="stable")
        ranked, own = columns[column][order[column]], asked.column == column
        begin[own], end[own] = np.searchsorted(ranked, asked.low[own]), np.searchsorted(ranked, asked.high[own])
    predicate = np.repeat(np.arange(n_predicates), np.diff(asked.start))
    rarest = np.lexsort((end - begin, predicate))[asked.start[:-1]]
    leads = np.stack([asked.column[rarest] * size + begin[rarest], asked.column[rarest] * size + end[rarest]], axis=1)
    block = max(1, -(-n_predicates // (4 * (os.cpu_count() or 1))))

    def count(first: int) -> IntArray:
        own = asked._replace(start=asked.start[first : first + block + 1])
        return kernels.count_fulfilling(columns, order.reshape(-1), leads[first : first + block], own, bits, most)

    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        return np.concatenate(list(threads.map(count, range(0, n_predicates, block))))


Count: TypeAlias = Callable[[People, int], IntArray]  # people, most -> how many satisfy each predicate


class PredicateAttack(Attack):
    """Isolates people: counts the predicates that exactly one person of the source satisfies.

    On the control group the attack tries the same predicates. The worst of several depths counts, because an average
    over all predicates would hide the few people who can be isolated.
    """

    question = "singling out"
    bears_on = "identity"
    of_people = False

    @abstractmethod
    def ask(self, view: ReleaseView, everybody: People, rng: np.random.Generator) -> tuple[Count, Count]:
        """Return functions that count people by the predicates, the likeliest first, and by the baseline's."""

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Try predicates on all people of the source and of the control group."""
        count, count_by_chance = self.ask(view, targets, rng)
        share, notes, beside = 1.0, [], None
        if control is not None:
            n_source, n_control = targets.n_people, control.n_people
            share = n_source / n_control
            beside = count(control, max(_MOST, int(_MOST / share)))
            if share > 1:
                notes.append(
                    f"the control group has {n_control:,} people and the source {n_source:,}: the number of predicates "
                    "that would isolate one of as many others was estimated"
                )
        right, blind = (counted == 1 for counted in (count(targets, 2), count_by_chance(targets, 2)))
        found = {}
        for depth in [*(depth for depth in DEPTHS if depth < len(right)), len(right)]:
            success, baseline = (Tally(int(each[:depth].sum()), depth) for each in (right, blind))
            elsewhere = None if beside is None else estimate_isolated(beside[:depth], share)
            name = f"depth {depth}" if depth < len(right) else "all"
            found[depth] = Trials(name, success, elsewhere, baseline, alarms=OF_DEPTH)
        worst = max(found, key=lambda depth: found[depth].risk.low)
        if worst < len(right):
            notes.append(f"of {len(right):,} predicates the {worst:,} likeliest count, which have the largest risk")
        variants = {each.attack: each for each in found.values()}
        return replace(found[worst], attack=self.name, variants=variants, notes=tuple(notes))


def estimate_isolated(counts: IntArray, share: float) -> Tally:
    """Estimate how many predicates isolate one of as many people as the source has, none of whom is in the data.

    *counts* has how many of the control group satisfy each; the source has *share* times as many people.
    """
    if share <= 1:
        # If each of X people is among the first n with probability q, exactly one is with X q (1 - q)^(X - 1).
        chance = float((counts * share * (1 - share) ** np.maximum(counts - 1, 0)).mean())
        return Tally(round(chance * len(counts)), len(counts))
    trials = max(1, round(len(counts) / share**2))  # an estimate from a smaller group is worth fewer trials
    return Tally(round(extrapolate_isolated(counts, share) * trials), trials)


def extrapolate_isolated(counts: IntArray, share: float) -> float:
    """Return the share of predicates that isolate one person among *share* times as many people as were counted.

    The expected numbers behind the counts are modelled as a mixture, fitted by maximum likelihood over a fine grid. In
    simulations its standard error corresponds to (number of predicates) / *share* squared trials.

    >>> counts = np.random.default_rng(1).poisson(0.5, 20000)
    >>> bool(abs(extrapolate_isolated(counts, 2.0) - np.exp(-1)) < 0.02)
    True
    """
    most = int(counts.max(initial=0)) + 1
    seen = np.bincount(counts, minlength=most + 1).astype(np.float64)
    grid = np.concatenate([[0.0], np.geomspace(0.01, most + 1.0, 80)])
    number = np.arange(most + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])
    chance = np.exp(number[:, None] * np.log(np.maximum(grid, 1e-300)) - grid - logs[:, None])  # (n_counts, n_grid)
    weight = np.full(len(grid), 1 / len(grid))
    for _ in range(ROUNDS):
        joint = chance * weight
        joint /= np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        weight = seen @ joint / seen.sum()
    return float(weight @ (share * grid * np.exp(-share * grid)))


REACHES = (0.5, 1.0, 2.0, 4.0)  # distances of a number from the published one, in scales of its noise
MOST_KEPT = 6  # numbers of treated columns that are tried


class SinglingOutAttack(PredicateAttack):
    """Isolates people: "one and only one is aged 34 to 36, widowed, and a teacher".

    A predicate is a published record in the columns that an adversary can know: the quasi-identifying and the
    insensitive ones. Predicates are ordered by the probability, as far as the release shows, that the person's own
    record satisfies them and no other does; of several predicates of a record the likeliest is tried. See ADR 21.

    The baseline has predicates of the same form over the same attributes, with each label drawn from all labels of its
    attribute.
    """

    name = "singling-out"
    title = "who can be isolated"
    of_insensitive = True

    def refuses(self, view: ReleaseView) -> str | None:  # noqa: ARG002
        """Return None: every release has quasi attributes."""
        return None

    def ask(
        self,
        view: ReleaseView,
        everybody: People,  # noqa: ARG002
        rng: np.random.Generator,
    ) -> tuple[Count, Count]:
        found = find_likeliest(view, self.n_targets, rng)
        return partial(found.count, view), partial(found.draw_elsewhere(view, rng).count, view)


def find_likeliest(view: ReleaseView, n: int, rng: np.random.Generator) -> Predicates:
    """Return n different predicates, or all if there are fewer: the one most likely to isolate a person comes first.

    Equally likely ones are ordered by how rare their conditions are together.
    """
    columns = Columns.of(view)
    read = [_choose(columns, ways) for ways in _link_records(view)]
    every = read[0] if len(read) == 1 else PredicateChoice(*(np.concatenate(own) for own in zip(*read, strict=True)))
    asked = np.flatnonzero((every.label != NOTHING).any(axis=1))
    if not len(asked):
        raise UsageError("the release does not distinguish people: every label covers all values")
    order = rng.permutation(asked)
    order = order[np.lexsort((every.rarity[order], -every.score[order]))]
    for some in (order[: _REPEATED * n], order):  # the likeliest are enough unless many are equal
        _, first = number_rows([every.far[some], *(every.label[some].T + 1)], len(some))
        best = some[np.sort(first)[:n]]
        if len(best) == n:
            break
    reach = columns.blurs * np.append(0.0, REACHES)[every.far[best], np.newaxis]
    return Predicates(every.label[best], np.where(every.label[best] != NOTHING, reach, 0.0))


class PredicateChoice(NamedTuple):
    """A predicate for each of n records: the labels that it names, and the probability that it isolates one person."""

    label: CodeArray  # (n, n_known) or NOTHING
    far: CodeArray  # (n,) the reach for blurred numbers, from 1
    score: FloatArray  # (n,) the probability
    rarity: FloatArray  # (n,) logarithm of the product of its conditions' shares


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The frequencies of the labels of each known attribute, and how reliable they are."""

    shares: tuple[tuple[FloatArray, ...], ...]  # for no reach and for each, for each attribute (n_labels,)
    blurs: FloatArray  # (n_known,) scale of the noise of numbers, or 0
    moved: FloatArray  # (n_known,) share of the values that are in other people's rows
    stay: FloatArray  # (n_reaches + 1, n_known) probability that a number is within the reach of the published one
    n_rows: int
    unseen: float  # people without a published record

    @classmethod
    def of(cls, view: ReleaseView) -> Columns:
        records, treatments = view.read_records(), view.treatments
        blurs, counts = np.zeros(len(view.known)), []
        for a, (name, stated) in enumerate(zip(view.known, view.labels, strict=True)):
            own = next(labels[:, a] for labels in records if labels[0, a] >= 0)
            counts.append(np.bincount(own, minlength=len(stated.low)))
            if not view.manifest.attributes[name].boxed and np.isfinite(stated.middles).any():
                spread = np.nanstd(stated.middles[own]) / np.sqrt(len(stated.low))
                blurs[a] = treatments.trace(name).blur or (spread if treatments.centres else 0.0)
        shares = [[_count_within(stated, own) for stated, own in zip(view.labels, counts, strict=True)]]
        for far in REACHES if blurs.any() else ():
            near = zip(view.labels, counts, far * blurs, shares[0], strict=True)
            shares.append([_count_near(stated, own, reach) if reach else exact for stated, own, reach, exact in near])
        stay = np.array([[treatments.stay_near(name, far) for name in view.known] for far in (math.inf, *REACHES)])
        share = 1.0 if view.manifest.sample is None else view.manifest.sample.share or 1.0
        people, shown = view.n_rows / share, not treatments.nobodys and not view.generalized
        return cls(
            tuple(tuple(own / view.n_rows for own in each) for each in shares),
            blurs,
            np.array([treatments.trace(name).moved for name in view.known]),
            np.where(blurs > 0, stay, 1.0),
            view.n_rows,
            people - view.n_rows if shown else people,
        )

    def weigh(self, labels: CodeArray, chance: FloatArray) -> Iterator[PredicateChoice]:
        """Yield predicates of records: with fewer and fewer of the treated columns, and with each of the reaches.

        *chance* is (n,) the probability that a record's labels belong together. The most frequent of the treated labels
        are left out first.
        """
        treated = np.flatnonzero((self.blurs > 0) | (self.moved > 0))
        if not len(treated):
            yield self._score(labels, 0, chance)
            return
        kept = np.unique(np.linspace(0, len(treated), MOST_KEPT + 1).astype(int))
        for far in range(1, len(self.shares)) if len(self.shares) > 1 else (0,):
            shares = [np.where(labels[:, a] != NOTHING, self.shares[far][a][labels[:, a]], 1.0) for a in treated]
            rank = np.argsort(np.argsort(np.array(shares).reshape(-1, len(labels)), axis=0), axis=0).T
            for n_kept in kept[far > 1 :]:
                asked = labels != NOTHING
                asked[:, treated] &= rank < n_kept
                yield self._score(np.where(asked, labels, NOTHING), far, chance)
            for alone in np.flatnonzero(self.moved > 0) if far < 2 else ():  # a moved value is still another person's
                asked = np.arange(labels.shape[1]) == alone
                yield self._score(np.where(asked, labels, NOTHING), far, chance)

    def _score(self, label: CodeArray, far: int, chance: FloatArray) -> PredicateChoice:
        """Return predicates with the probability that each isolates one person."""
        label += 1  # in place, because a copy of millions of rows needs much memory
        group, _ = number_rows(list(label.T[self.blurs <= 0]) if self.blurs.any() else list(label.T), len(label))
        label -= 1
        others = np.bincount(group)[group] - 1
        del group
        several = np.count_nonzero(label != NOTHING, axis=1) > 1
        own, alike, still, rarity = chance.copy(), chance.copy(), np.ones(len(label)), np.zeros(len(label))
        for stated, codes, blur, moved, stay in zip(
            self.shares[far], label.T, self.blurs, self.moved, self.stay[far], strict=True
        ):
            asked = codes != NOTHING
            share = np.where(asked, stated[codes], 1.0)
            rarity += np.log(np.maximum(share, 1e-300))
            if blur > 0:
                own *= np.where(asked, stay, 1.0)
                alike *= share  # the probability that a record with the same labels without noise satisfies it
            if moved > 0:
                stays = 1 - np.where(asked & several, moved, 0.0)
                own *= stays + (1 - stays) * share
                alike *= stays
                still *= stays
        own *= (1 - alike) ** others
        unseen = self.unseen + self.n_rows * (1 - still)  # people whose record shows other values
        own *= np.exp(-unseen * np.exp(rarity))
        return PredicateChoice(label, np.full(len(label), far, dtype=np.int32), own, rarity)


def _count_within(stated: Labels, counts: IntArray) -> FloatArray:
    """Return (n_labels,) how many records each label covers if those under a label are spread evenly over its codes."""
    density = np.zeros(int(stated.high.max()) + 1)
    each = counts / np.maximum(stated.high - stated.low, 1)
    np.add.at(density, stated.low, each)
    np.add.at(density, stated.high, -each)
    before = np.append(0.0, np.cumsum(np.cumsum(density)))
    return np.asarray(before[stated.high] - before[stated.low])


def _count_near(stated: Labels, counts: IntArray, reach: float) -> FloatArray:
    """Return (n_labels,) how many records have a number within *reach* of each label's."""
    order = np.argsort(stated.middles)
    before = np.append(0, np.cumsum(counts[order]))
    ranked = stated.middles[order]
    above = np.searchsorted(ranked, stated.middles + reach, "right")
    return np.asarray(before[above] - before[np.searchsorted(ranked, stated.middles - reach)], dtype=np.float64)


def _choose(columns: Columns, ways: Iterable[tuple[CodeArray, FloatArray]]) -> PredicateChoice:
    """Return the likeliest predicate of each record, given ways to combine its parts, each with its probability."""
    every = (each for labels, chance in ways for each in columns.weigh(labels, chance))
    best = next(every)
    for each in every:
        better = (each.score > best.score) | ((each.score == best.score) & (each.rarity < best.rarity))
        best = PredicateChoice(
            np.where(better[:, np.newaxis], each.label, best.label),
            np.where(better, each.far, best.far),
            np.where(better, each.score, best.score),
            np.where(better, each.rarity, best.rarity),
        )
    return best


def _link_records(view: ReleaseView) -> Iterator[list[tuple[CodeArray, FloatArray]]]:
    """Yield for each part its records, alone and with more and more other parts, and how likely these belong together.

    The other parts contribute their most frequent labels in the bucket; the most certain part comes first.
    """
    tells = [stated.tells for stated in view.labels]
    parts = []
    for labels in view.read_records():
        for own, label in zip(tells, labels.T, strict=True):
            label[~own[label]] = NOTHING
        parts.append(labels)
    for place, labels in enumerate(parts):
        chance = np.ones(len(labels))
        ways = [(labels, chance)]
        others = [_add_part(view.bucket, labels, other) for at, other in enumerate(parts) if at != place]
        for added, share in sorted(others, key=lambda other: -float(other[1].sum())):
            labels, chance = np.where(labels == NOTHING, added, labels), chance * share
            ways.append((labels, chance))
        yield ways


def _add_part(bucket: CodeArray, labels: CodeArray, other: CodeArray) -> tuple[CodeArray, FloatArray]:
    """Return (n, n_known) the most frequent labels that another part has in each record's bucket, and their share.

    If parts have attributes in common, only rows that agree in them count.
    """
    n = len(bucket)
    shared = (labels != NOTHING).any(axis=0) & (other != NOTHING).any(axis=0)
    both = np.concatenate([labels, other])[:, shared] + 1
    group, first = number_rows([np.tile(bucket, 2), *both.T], 2 * n)
    pair, record = number_rows([group[n:], *(other.T + 1)], n)
    counts = np.bincount(pair)
    frequent = record[np.argsort(counts, kind="stable")]
    chosen = np.full(len(first), -1)
    chosen[group[n:][frequent]] = frequent  # the last of a group is its most frequent
    sizes = np.bincount(group[n:], minlength=len(first))
    share = np.where(chosen >= 0, counts[pair[chosen]] / np.maximum(sizes, 1), 0.0)
    return other[chosen[group[:n]]], share[group[:n]]
