"""singling-out: predicates read off the release that exactly one record of the source fulfils, the likeliest first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from shoal.attacks.base import People
from shoal.attacks.parts import Labels
from shoal.attacks.predicates import NOTHING, Count, PredicateAttack, Predicates
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.release.sliced.table import number_rows

REACHES = (0.5, 1.0, 2.0, 4.0)  # how far a number may be from the published one, in scales of its noise
MOST_KEPT = 6  # of the treated columns, as many numbers of them are tried


class SinglingOutAttack(PredicateAttack):
    """Isolates people: "one and only one is aged 34 to 36, widowed, and a teacher".

    A predicate is what one published record shows in the columns that an adversary can know: the quasi-identifying
    ones and those that are not sensitive. They are ordered by the chance that the person's own record meets it and
    nobody else's does, as far as the release tells; of several predicates of a record the likeliest is asked.
    See ADR 42.

    The baseline has predicates over the same attributes and of the same form, for which each label is drawn
    from all labels of its attribute.
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
        """Read predicates off the release."""
        found = find_likeliest(view, self.n_targets, rng)
        return partial(found.count, view), partial(found.draw_elsewhere(view, rng).count, view)


def find_likeliest(view: ReleaseView, n: int, rng: np.random.Generator) -> Predicates:
    """Return n different predicates, or all if there are fewer: the one that isolates somebody most likely comes first.

    Equally likely ones are ordered by how rare their conditions are together.
    """
    columns = Columns.of(view)
    read = [_choose(columns, ways) for ways in _link_records(view)]
    every = Candidates(*(np.concatenate(own) for own in zip(*read, strict=True)))
    asked = np.flatnonzero((every.label != NOTHING).any(axis=1))
    if not len(asked):
        raise UsageError("the release shows nothing to tell people apart by: every label covers everything")
    order = rng.permutation(asked)
    order = order[np.lexsort((every.rarity[order], -every.score[order]))]
    _, first = number_rows([every.far[order], *(every.label[order].T + 1)], len(order))
    best = order[np.sort(first)[:n]]
    reach = columns.blurs * np.append(0.0, REACHES)[every.far[best], np.newaxis]
    return Predicates(every.label[best], np.where(every.label[best] != NOTHING, reach, 0.0))


class Candidates(NamedTuple):
    """Of each of n records a predicate: the labels that it names, and how likely it isolates one person."""

    label: CodeArray  # (n, n_known) or NOTHING
    far: CodeArray  # (n,) which of the reaches blurred numbers are asked within, from 1
    score: FloatArray  # (n,) the chance, as far as the release tells
    rarity: FloatArray  # (n,) logarithm of the product of its conditions' shares


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """What a release tells of each known attribute: how frequent labels are, and how far they can be believed."""

    shares: tuple[tuple[FloatArray, ...], ...]  # of no reach and of each, of each attribute (n_labels,)
    blurs: FloatArray  # (n_known,) scale of the noise of numbers, else 0
    moved: FloatArray  # (n_known,) share of the values that stand in other rows than their own
    stay: FloatArray  # (n_reaches + 1, n_known) how likely a number is at most so far from the published one
    n_rows: int
    unseen: float  # people of whom no published record tells whether they meet a predicate

    @classmethod
    def of(cls, view: ReleaseView) -> Columns:
        """Count a release."""
        records, treatments, entries = view.read_records(), view.treatments, view.manifest["attributes"]
        blurs, counts = np.zeros(len(view.known)), []
        for a, (name, stated) in enumerate(zip(view.known, view.labels, strict=True)):
            own = next(labels[:, a] for labels in records if labels[0, a] >= 0)
            counts.append(np.bincount(own, minlength=len(stated.low)))
            if "labels" not in entries[name] and np.isfinite(stated.middles).any():
                spread = np.nanstd(stated.middles[own]) / np.sqrt(len(stated.low))
                blurs[a] = treatments.trace(name).blur or (spread if treatments.centres else 0.0)
        shares = [[_count_within(stated, own) for stated, own in zip(view.labels, counts, strict=True)]]
        for far in REACHES if blurs.any() else ():
            near = zip(view.labels, counts, far * blurs, shares[0], strict=True)
            shares.append([_count_near(stated, own, reach) if reach else exact for stated, own, reach, exact in near])
        stay = np.array([[treatments.stay_near(name, far) for name in view.known] for far in (math.inf, *REACHES)])
        people = view.n_rows / view.manifest.get("sample", {}).get("share", 1.0)
        shown = not treatments.nobodys and not any("labels" in entries[name] for name in view.known)
        return cls(
            tuple(tuple(own / view.n_rows for own in each) for each in shares),
            blurs,
            np.array([treatments.trace(name).moved for name in view.known]),
            np.where(blurs > 0, stay, 1.0),
            view.n_rows,
            people - view.n_rows if shown else people,
        )

    def weigh(self, labels: CodeArray, chance: FloatArray) -> Iterator[Candidates]:
        """Yield predicates of records: with fewer and fewer of the treated columns, and with each of the reaches.

        *chance* is (n,) how likely a record's labels belong together. The commonest of the treated labels go first.
        """
        treated = np.flatnonzero((self.blurs > 0) | (self.moved > 0))
        kept = np.unique(np.linspace(0, len(treated), MOST_KEPT + 1).astype(int))
        for far in range(1, len(self.shares)) if len(self.shares) > 1 else (0,):
            shares = np.stack([own[label] for own, label in zip(self.shares[far], labels.T, strict=True)], axis=1)
            shares[labels == NOTHING] = 1.0
            rank = np.argsort(np.argsort(shares[:, treated], axis=1), axis=1)
            for n_kept in kept[far > 1 :]:
                asked = labels != NOTHING
                asked[:, treated] &= rank < n_kept
                yield self._score(np.where(asked, labels, NOTHING), shares, far, chance)
            for alone in np.flatnonzero(self.moved > 0) if far < 2 else ():  # whatever it was moved to, somebody has it
                asked = np.arange(labels.shape[1]) == alone
                yield self._score(np.where(asked, labels, NOTHING), shares, far, chance)

    def _score(self, label: CodeArray, shares: FloatArray, far: int, chance: FloatArray) -> Candidates:
        """Return predicates with the chance that each isolates one person, given the shares of all labels."""
        asked = label != NOTHING
        shares = np.where(asked, shares, 1.0)
        blurred = asked & (self.blurs > 0)
        moved = np.where(asked & (asked.sum(axis=1) > 1)[:, np.newaxis], self.moved, 0.0)
        own = chance * np.where(blurred, self.stay[far], 1.0).prod(axis=1) * (1 - moved * (1 - shares)).prod(axis=1)
        # A record that shows the same in all columns without noise meets it, too, with this chance.
        alike = chance * np.where(blurred, shares, 1.0).prod(axis=1) * (1 - moved).prod(axis=1)
        group, _ = number_rows(list(np.where(blurred, 0, label + 1).T), len(label))
        others = np.bincount(group)[group] - 1
        rarity = np.log(np.maximum(shares, 1e-300)).sum(axis=1)
        unseen = self.unseen + self.n_rows * (1 - (1 - moved).prod(axis=1))  # who show something else
        score = own * (1 - alike) ** others * np.exp(-unseen * np.exp(rarity))
        return Candidates(label, np.full(len(label), far, dtype=np.int32), score, rarity)


def _count_within(stated: Labels, counts: IntArray) -> FloatArray:
    """Return (n_labels,) how many records each label covers, if those of a label are spread evenly over its codes."""
    density = np.zeros(int(stated.high.max()) + 1)
    each = counts / np.maximum(stated.high - stated.low, 1)
    np.add.at(density, stated.low, each)
    np.add.at(density, stated.high, -each)
    before = np.append(0.0, np.cumsum(np.cumsum(density)))
    return np.asarray(before[stated.high] - before[stated.low])


def _count_near(stated: Labels, counts: IntArray, reach: float) -> FloatArray:
    """Return (n_labels,) how many records have a number that is at most so far from each label's."""
    order = np.argsort(stated.middles)
    before = np.append(0, np.cumsum(counts[order]))
    ranked = stated.middles[order]
    above = np.searchsorted(ranked, stated.middles + reach, "right")
    return np.asarray(before[above] - before[np.searchsorted(ranked, stated.middles - reach)], dtype=np.float64)


def _choose(columns: Columns, ways: Iterable[tuple[CodeArray, FloatArray]]) -> Candidates:
    """Return the likeliest predicate of each record, given ways to put it together, each with its chance."""
    every = (each for labels, chance in ways for each in columns.weigh(labels, chance))
    best = next(every)
    for each in every:
        better = (each.score > best.score) | ((each.score == best.score) & (each.rarity < best.rarity))
        best = Candidates(
            np.where(better[:, np.newaxis], each.label, best.label),
            np.where(better, each.far, best.far),
            np.where(better, each.score, best.score),
            np.where(better, each.rarity, best.rarity),
        )
    return best


def _link_records(view: ReleaseView) -> Iterator[list[tuple[CodeArray, FloatArray]]]:
    """Yield of each part its records, by themselves and with more and more other parts, and how likely those belong.

    Of another part the most frequent of what the bucket has is taken; the part that is least in doubt comes first.
    """
    tells = [stated.tells for stated in view.labels]
    parts = []
    for labels in view.read_records():
        said = np.stack([own[label] for own, label in zip(tells, labels.T, strict=True)], axis=1)
        parts.append(np.where(said, labels, NOTHING))
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

    Where parts have attributes in common, only what agrees in these counts.
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
