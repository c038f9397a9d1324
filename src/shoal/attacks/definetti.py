"""definetti: learn from all buckets which quasi values go with which sensitive values, and link their parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.attacks.base import People
from shoal.attacks.exposure import find_narrowest
from shoal.attacks.parts import Secret, rows_of
from shoal.attacks.sensitive import Beliefs, LearnedAttack, not_their_own
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import gather_entries

ROUNDS = 25  # of learning
SCALINGS = 10  # of a bucket's rows and columns, in each round
PRIOR = 10.0  # prior records of each value


class DeFinettiAttack(LearnedAttack):
    """Learns from all buckets together how likely each quasi value is for each sensitive value, then links within them.

    Kifer, "Attacks on privacy and deFinetti's theorem" (SIGMOD 2009): all ways to link a bucket are equally likely only
    for an adversary who does not learn. Links are weighed by the current belief in them, values are assumed independent
    given the sensitive value (naive Bayes), and each bucket's links are scaled to its counts; this is repeated. If no
    bucket matches a person, the learned probabilities alone decide.
    """

    name = "definetti"
    title = "links that buckets hide, learned from all buckets together"
    of_records = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: buckets must separate quasi attributes from the sensitive one."""
        reason = super().refuses(view)
        if reason is None and view.sliced is None:
            return "rows are published whole, not in buckets that separate values"
        if reason is None and not any(_apart(view, secret) for secret in view.secrets.values()):
            return "all quasi attributes are in the sensitive attribute's part, so nothing is separated from it"
        return reason or not_their_own(view)

    def learn(self, view: ReleaseView, secret: Secret, everybody: People, rng: np.random.Generator) -> Beliefs:  # noqa: ARG002
        """Learn each part that is separate from the sensitive attribute; its own part is published."""
        n_values, entries = len(secret.values), secret.entries
        pair = rows_of(entries.start)
        key = view.parts[secret.part].pairs.second[pair].astype(np.int64) * n_values + entries.value
        slots, place = np.unique(key, return_inverse=True)
        buckets = _Buckets(
            np.searchsorted(slots, np.arange(len(view.sizes) + 1) * n_values),
            slots % n_values,
            np.bincount(place.reshape(-1), weights=entries.weight, minlength=len(slots)).astype(np.float64),
            view.sizes,
            n_values,
        )
        links = [_Links.learn(view, part, names, buckets) for part, names in _apart(view, secret)]
        tables = [table for each in links for table in each.tables]
        for attribute in np.flatnonzero(view.parts[secret.part].known).tolist():
            label, n_labels = _labels(view, secret.part, attribute)[pair], len(view.labels[attribute].low)
            tables.append(_Table.of(attribute, n_labels, n_values, label, entries.value, entries.weight))
        prior = np.log(np.maximum(secret.marginal, 1e-300))

        def beliefs(people: People) -> FloatArray:
            found = _link(view, secret, links, people)
            lost = np.flatnonzero(found.sum(axis=1) <= 0)
            scores = np.tile(prior, (len(lost), 1))
            for table in tables:
                label = find_narrowest(view, table.attribute, people.codes[lost, table.attribute])
                scores += table.scores(label[:, None], np.arange(len(prior)))
            found[lost] = np.exp(scores - scores.max(axis=1, keepdims=True))
            return found

        return beliefs


@dataclass(frozen=True, slots=True, eq=False)
class _Buckets:
    """The sensitive values of each bucket: slots ``start[b]:start[b + 1]``, each with a value and its records."""

    start: IntArray  # (n_buckets + 1,)
    value: IntArray  # (n_slots,)
    records: FloatArray  # (n_slots,)
    sizes: FloatArray  # (n_buckets,)
    n_values: int


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """How often each label of an attribute is linked with each sensitive value."""

    attribute: int
    counts: FloatArray  # (n_labels + 1, n_values) links; the last label is an unknown one

    @classmethod
    def of(
        cls, attribute: int, n_labels: int, n_values: int, label: AnyIntArray, value: AnyIntArray, links: FloatArray
    ) -> _Table:
        size = (n_labels + 1) * n_values
        counts = np.bincount(label * n_values + value, links, size).astype(np.float64)
        return cls(attribute, counts.reshape(-1, n_values))

    def scores(self, label: AnyIntArray, value: AnyIntArray, own: FloatArray | float = 0.0) -> FloatArray:
        """Return the logarithm of how much likelier a label is for a value than overall, without *own* links.

        Leaving out a link's own weight avoids confirming the current belief.
        """
        usual = self.counts.sum(axis=1) / self.counts.sum()
        seen, total = self.counts[label, value] - own, self.counts.sum(axis=0)[value] - own
        shares = (np.maximum(seen, 0.0) + PRIOR * usual[label]) / (np.maximum(total, 0.0) + PRIOR)
        return np.asarray(np.log(np.maximum(shares, 1e-300) / np.maximum(usual[label], 1e-300)))


@dataclass(frozen=True, slots=True, eq=False)
class _Links:
    """How much likelier than by chance each combination of a part goes with each sensitive value of its bucket."""

    part: int
    tables: tuple[_Table, ...]
    start: IntArray  # (n_pairs + 1,) of each pair of a box and a bucket, as the part has them
    value: IntArray  # (n_links,)
    lift: FloatArray  # (n_links,)

    @classmethod
    def learn(cls, view: ReleaseView, part: int, names: Sequence[int], buckets: _Buckets) -> _Links:
        pairs = view.parts[part].pairs
        labels = [_labels(view, part, attribute) for attribute in names]
        size = np.diff(buckets.start)[pairs.second]
        start = np.concatenate([[0], np.cumsum(size)])
        pair = np.repeat(np.arange(len(size)), size)
        slot = np.arange(start[-1]) - start[pair] + buckets.start[pairs.second[pair]]
        value = buckets.value[slot]
        by_chance = pairs.records[pair] * buckets.records[slot] / buckets.sizes[pairs.second[pair]]
        links = by_chance
        for _ in range(ROUNDS):
            tables = [
                _Table.of(attribute, len(view.labels[attribute].low), buckets.n_values, own[pair], value, links)
                for attribute, own in zip(names, labels, strict=True)
            ]
            scores = np.zeros(len(pair))
            for table, own in zip(tables, labels, strict=True):
                scores += table.scores(own[pair], value, links)
            links = by_chance * np.exp(scores - np.maximum.reduceat(scores, start[:-1])[pair])
            for _ in range(SCALINGS):
                links *= (buckets.records / np.maximum(np.bincount(slot, links, len(buckets.value)), 1e-300))[slot]
                links *= (pairs.records / np.maximum(np.bincount(pair, links, len(size)), 1e-300))[pair]
        return cls(part, tuple(tables), start, value, links / by_chance)


def _apart(view: ReleaseView, secret: Secret) -> list[tuple[int, list[int]]]:
    """Return the parts with quasi attributes that are not in the sensitive attribute's part, and these attributes."""
    own = view.parts[secret.part].known
    found = [(place, np.flatnonzero(part.known & ~own).tolist()) for place, part in enumerate(view.parts)]
    return [(place, names) for place, names in found if names]


def _labels(view: ReleaseView, part: int, attribute: int) -> CodeArray:
    """Return (n_pairs,) the label of an attribute in each pair of a box and a bucket."""
    pairs = view.parts[part].pairs
    labels = np.empty(len(pairs.second), dtype=np.int32)
    labels[pairs.pair_of] = view.read_labels(part, attribute)[view.contents[part][1]]
    return labels


def _link(view: ReleaseView, secret: Secret, links: Sequence[_Links], people: People) -> FloatArray:
    """Return (n, n_values) the values that buckets leave for people, weighed by the learned links."""
    hulls, own, held = view.hulls(people.codes), view.parts[secret.part], secret.entries
    n_values, n_buckets = len(secret.values), len(view.sizes)
    weights = np.zeros((len(hulls), n_values))

    def block(rows: slice) -> None:
        asked = hulls[rows], people.numbers[rows]
        factors = view.factors(*asked, without=secret.part)
        factors.sort_indices()
        query = rows_of(factors.indptr)
        matching = query * n_buckets + factors.indices  # ascending
        lifts = np.ones((len(matching), n_values))
        for each in links:
            part = view.parts[each.part]
            covering, _ = view.cover(part, *asked, near=False)
            row, pair = gather_entries(part.pairs.start, covering.boxes)
            key = rows_of(covering.start)[row] * n_buckets + part.pairs.second[pair]
            place = np.minimum(np.searchsorted(matching, key), len(matching) - 1)
            met = np.flatnonzero(matching[place] == key) if len(matching) else np.empty(0, dtype=np.int64)
            place, pair = place[met], pair[met]
            records = part.pairs.records[pair]
            link, value = gather_entries(each.start, pair)
            total = np.bincount(
                place[link] * n_values + each.value[value], records[link] * each.lift[value], lifts.size
            )
            seen = np.bincount(place, records, len(matching))[:, np.newaxis]
            lifts *= np.where(seen > 0, total.reshape(-1, n_values) / np.maximum(seen, 1), 1.0)
        covering, _ = view.cover(own, *asked, near=False)
        entry, pair = view.match_pairs(own, covering, factors)
        spread, value = gather_entries(held.start, pair)
        entry, found = entry[spread], held.value[value]
        weight = factors.data[entry] * lifts[entry, found] * held.weight[value]
        key = query[entry] * n_values + found
        weights[rows] = np.bincount(key, weight, len(asked[0]) * n_values).reshape(-1, n_values)

    view.in_blocks(len(hulls), block)
    return weights
