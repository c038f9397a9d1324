"""singling-out: predicates read off the release that exactly one record of the source fulfils."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from shoal.attacks.base import People
from shoal.attacks.predicates import Count, PredicateAttack, Predicates, middles_of, telling
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.errors import UsageError
from shoal.release.sliced.table import number_rows

SETS = 24  # of attributes that predicates are about


class SinglingOutAttack(PredicateAttack):
    """Isolates people: "one and only one is aged 34 to 36, widowed, and a teacher".

    A predicate names values of quasi attributes as the release shows them. The multivariate ones, which count, are
    each read off one published record: two or more attributes, each within the record's label or, of numbers, from the
    record's own on, away from the median; where there are such, those that no other published record fulfils. In a
    sliced release they are of one part, if parts have two. The univariate ones name values that were published once,
    and the ends of numbers.

    The baseline has predicates over the same attributes and of the same form, for which each label is drawn
    from all labels of its attribute.
    """

    name = "singling-out"
    title = "who can be isolated"

    def refuses(self, view: ReleaseView) -> str | None:  # noqa: ARG002
        """Return None: every release has quasi attributes."""
        return None

    def ask(
        self,
        view: ReleaseView,
        everybody: People,  # noqa: ARG002
        rng: np.random.Generator,
    ) -> tuple[dict[str, tuple[Count, Count]], list[str]]:
        """Read predicates off the release."""
        labels = view.link_records(rng)
        found = {"multivariate": _multivariate(view, labels, self.n_targets, rng)}
        alone = Predicates.univariate(view, labels).some(self.n_targets, rng)
        notes = [] if len(alone) else ["no value was published once, so there are no univariate predicates"]
        if len(alone):
            found["univariate"] = alone
        asked: dict[str, tuple[Count, Count]] = {
            name: (partial(each.count, view), partial(each.elsewhere(view, rng).count, view))
            for name, each in found.items()
        }
        return asked, notes


def _multivariate(view: ReleaseView, labels: CodeArray, n: int, rng: np.random.Generator) -> Predicates:
    """Read different predicates off n records, no record twice: those that fewest published records fulfil come first.

    Of equals, those come first that ask no number to be just what was published, for it may have been changed, and none
    that surely was.
    """
    tells = telling(view, labels)
    if not tells.any():
        raise UsageError("the release shows nothing to tell people apart by: every label covers everything")
    sets = _attribute_sets(view, rng)
    within = [_alone(labels, tells, attributes, n, rng) for attributes in sets]
    read = _Read(*map(np.concatenate, zip(*within, *_ask_sides(view, labels, tells, sets), strict=True)))
    numbers = np.array([np.isfinite(stated.spans).all(axis=1).any() for stated in view.asked])
    blurred = np.array([stated.by_number for stated in view.asked])
    exact = ((read.used & numbers).any(axis=1) & ~read.sided) | (read.used & blurred).any(axis=1)
    read = read._replace(shown=2 * np.minimum(read.shown, 2) + exact).once(labels, rng).best(n, rng)
    return Predicates.multivariate(view, labels, read.rows, read.used, read.sided)


class _Read(NamedTuple):
    """Predicates that were read off published records."""

    rows: IntArray  # (n,) the record
    used: BoolArray  # (n, n_known) attributes
    sided: BoolArray  # (n,) whether numbers are only on the record's side of the median
    shown: IntArray  # (n,) how many published records fulfil it

    def take(self, places: IntArray) -> _Read:
        """Return those at the places."""
        return _Read(self.rows[places], self.used[places], self.sided[places], self.shown[places])

    def once(self, labels: CodeArray, rng: np.random.Generator) -> _Read:
        """Return each predicate once, for one of the records that it can be read off: asked again it tells no more."""
        mixed = self.take(rng.permutation(len(self.rows)))
        asked = np.where(mixed.used, labels[mixed.rows] + 1, 0)
        _, first = number_rows([mixed.sided.astype(np.int32), *asked.T], len(mixed.rows))
        return mixed.take(first)

    def best(self, n: int, rng: np.random.Generator) -> _Read:
        """Return n of them, none of the same record: those that fewest records fulfil, drawn where they are equal."""
        order = rng.permutation(len(self.rows))
        order = order[np.argsort(self.shown[order], kind="stable")]
        _, earliest = np.unique(self.rows[order], return_index=True)
        return self.take(order[np.sort(earliest)][:n])


def _alone(labels: CodeArray, tells: BoolArray, attributes: BoolArray, n: int, rng: np.random.Generator) -> _Read:
    """Ask for the labels of one set of attributes, as they stand in the n records that share them with fewest."""
    asked = np.flatnonzero(tells[:, attributes].any(axis=1))
    group, first = number_rows([labels[asked, a] for a in np.flatnonzero(attributes)], len(asked))
    many = np.bincount(group, minlength=len(first))[group]
    every = np.broadcast_to(attributes, (len(asked), len(attributes))) & tells[asked]
    return _Read(asked, every, np.zeros(len(asked), dtype=np.bool_), many).best(n, rng)


def _ask_sides(view: ReleaseView, labels: CodeArray, tells: BoolArray, sets: BoolArray) -> Iterator[_Read]:
    """Ask for numbers beyond those of a record that has the first or the last of all with its other labels.

    If no other record has the same number there, no other published record fulfils the predicate.
    """
    middles = [middles_of(stated)[own] for stated, own in zip(view.asked, labels.T, strict=True)]
    numbers = np.array([bool(np.isfinite(own).any()) for own in middles])
    for attributes in sets:
        group, _ = number_rows([labels[:, a] for a in np.flatnonzero(attributes & ~numbers)], len(labels))
        for a in np.flatnonzero(attributes & numbers):
            asked = np.flatnonzero(np.isfinite(middles[a]))
            order = asked[np.lexsort((middles[a][asked], group[asked]))]
            own, beside = middles[a][order], group[order]
            new = np.append(True, beside[1:] != beside[:-1])
            after = np.append(True, new[1:] | (own[1:] != own[:-1]))  # apart from the record before
            last, before = np.append(new[1:], True), np.append(after[1:], True)
            late = own >= np.median(own)
            rows = order[(last & after & late) | (new & before & ~late)]
            used = np.broadcast_to(attributes, (len(rows), len(attributes))) & tells[rows]
            yield _Read(rows, used, np.ones(len(rows), dtype=np.bool_), np.ones(len(rows), dtype=np.int64))


def _attribute_sets(view: ReleaseView, rng: np.random.Generator) -> BoolArray:
    """Return (n_sets, n_known) sets of attributes: all that stand in one part, and others of at least two of them.

    What stands in one part belongs together; what stands in two, or was permuted, is linked by chance.
    """
    linked = [part.known & view.together for part in view.parts]
    parts = [np.flatnonzero(known) for known in linked if known.sum() > 1]
    sets = []
    for place in range(SETS):
        among = parts[place % len(parts)] if parts else np.arange(len(view.known))
        size = len(among) if place < len(parts) or len(among) < 2 else rng.integers(2, len(among) + 1)
        sets.append(np.isin(np.arange(len(view.known)), rng.permutation(among)[:size]))
    return np.unique(sets, axis=0)
