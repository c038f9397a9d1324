"""definetti: buckets teach which quasi values go with which sensitive values, and that links what they keep apart."""

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
from shoal.release.published import encode_column

ROUNDS = 25  # of learning
SCALINGS = 10  # of a bucket's rows and columns, in each of them
PRIOR = 10.0  # records that a value is taken to have had before any was seen


class DeFinettiAttack(LearnedAttack):
    """Learns from all buckets together how likely each quasi value is for each sensitive value, then links within them.

    Kifer, "Attacks on privacy and deFinetti's theorem" (SIGMOD 2009): that all ways to link a bucket are equally
    likely is only true of an adversary who does not learn. Links are counted by what is believed of them, values given
    a sensitive value are taken to be independent (naive Bayes), and each bucket's links are scaled to its own
    counts, again and again. Of whom no bucket is left, what was learned is believed by itself.
    """

    name = "definetti"
    title = "links that buckets hide, learned from all buckets together"
    of_records = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: quasi attributes must stand apart from the sensitive one, in buckets."""
        reason = super().refuses(view)
        if reason is None and view.sliced is None:
            return "rows are published whole: there are no buckets that separate values"
        if reason is None and not any(_apart(view, secret) for secret in view.secrets.values()):
            return "all quasi attributes stand in one part with the sensitive attribute: nothing is kept apart from it"
        return reason or not_their_own(view)

    def learn(self, view: ReleaseView, secret: Secret, everybody: People, rng: np.random.Generator) -> Beliefs:  # noqa: ARG002
        """Learn each part that stands apart from the sensitive attribute."""
        buckets = _Buckets.of(view, secret)
        links = [_Links.learn(view, part, names, buckets) for part, names in _apart(view, secret)]
        tables = [table for each in links for table in each.tables]
        tables += _in_own_part(view, secret)
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

    @classmethod
    def of(cls, view: ReleaseView, secret: Secret) -> _Buckets:
        n_values = len(secret.values)
        pair = rows_of(secret.entries.start)
        key = view.parts[secret.part].pairs.second[pair].astype(np.int64) * n_values + secret.entries.value
        slot, place = np.unique(key, return_inverse=True)
        start = np.searchsorted(slot, np.arange(len(view.sizes) + 1) * n_values)
        records = np.bincount(place.reshape(-1), weights=secret.entries.weight, minlength=len(slot))
        return cls(start, slot % n_values, np.asarray(records, dtype=np.float64), view.sizes, n_values)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """How often the labels of an attribute go with each sensitive value."""

    attribute: int
    counts: FloatArray  # (n_labels + 1, n_values) links; the last label stands for those that nobody has

    @classmethod
    def of(
        cls, attribute: int, n_labels: int, n_values: int, label: AnyIntArray, value: AnyIntArray, links: FloatArray
    ) -> _Table:
        size = (n_labels + 1) * n_values
        counts = np.bincount(label * n_values + value, links, size).astype(np.float64)
        return cls(attribute, counts.reshape(-1, n_values))

    def scores(self, label: AnyIntArray, value: AnyIntArray, own: FloatArray | float = 0.0) -> FloatArray:
        """Return the logarithm of how much likelier a label is for a value than for all, without one's *own* links.

        Who counts oneself finds what was believed before.
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
    """Return the parts that have quasi attributes which the sensitive one's part does not have, and these."""
    own = view.parts[secret.part].known
    found = [(place, np.flatnonzero(part.known & ~own).tolist()) for place, part in enumerate(view.parts)]
    return [(place, names) for place, names in found if names]


def _labels(view: ReleaseView, part: int, attribute: int) -> CodeArray:
    """Return (n_pairs,) the label of an attribute in each pair of a box and a bucket."""
    if view.sliced is None:
        raise TypeError("an attack that refuses is not run")
    published, pairs = view.sliced.parts[part], view.parts[part].pairs
    codes, texts = encode_column(published.distinct.column(view.known[attribute]))
    number = view.labels[attribute].number
    labels = np.empty(len(pairs.second), dtype=np.int32)
    labels[pairs.pair_of] = np.array([number[text] for text in texts], dtype=np.int32)[codes][published.codes]
    return labels


def _in_own_part(view: ReleaseView, secret: Secret) -> list[_Table]:
    """Return what the sensitive attribute's part shows of its own quasi attributes, where nothing is to be learned."""
    pair = rows_of(secret.entries.start)
    n_values = len(secret.values)
    return [
        _Table.of(
            attribute,
            len(view.labels[attribute].low),
            n_values,
            _labels(view, secret.part, attribute)[pair],
            secret.entries.value,
            secret.entries.weight,
        )
        for attribute in np.flatnonzero(view.parts[secret.part].known).tolist()
    ]


def _link(view: ReleaseView, secret: Secret, links: Sequence[_Links], people: People) -> FloatArray:
    """Return (n, n_values) what buckets leave for people, with what was learned of their links."""
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
