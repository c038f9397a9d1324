"""singling-out: predicates read off the release that exactly one record of the source fulfils."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.attacks.base import Attack, Trials
from shoal.attacks.predicates import (
    Predicates,
    Sketch,
    count_isolated,
    estimate_isolated,
    limit_counting,
    middles_of,
    smaller_control,
    telling,
)
from shoal.attacks.view import People, ReleaseView
from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.errors import UsageError
from shoal.release.sliced.table import number_rows

SETS = 24  # of attributes that predicates are about


class SinglingOutAttack(Attack):
    """Isolates people: "one and only one is aged 34 to 36, widowed, and a teacher".

    A predicate names values of quasi attributes as the release shows them. The multivariate ones, which count, are
    each read off one published record: two or more attributes, each within the record's label or, of numbers, from the
    record's own on, away from the median; where there are such, those that no other published record fulfils. In a
    sliced release they are of one part, if parts have two. The univariate ones name values that were published once,
    and the ends of numbers.

    The baseline has predicates over the same attributes and of the same form, for which each label is drawn
    from all labels of its attribute. On the control group the attack's own predicates are tried.
    """

    name = "singling-out"
    title = "who can be isolated"
    question = "singling out"
    of_people = False

    def refuses(self, view: ReleaseView) -> str | None:  # noqa: ARG002
        """Return None: every release has quasi attributes."""
        return None

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Try predicates on all people of the source and of the control group."""
        labels = view.link_records(rng)
        sketches = {"multivariate": _multivariate(view, labels, self.n_targets, rng)}
        alone = Sketch.univariate(view, labels).some(self.n_targets, rng)
        notes = []
        if len(alone):
            sketches["univariate"] = alone
        else:
            notes.append("no value was published once, so there are no univariate predicates")
        n_control, n_source = 0 if control is None else control.n_people, targets.n_people
        if control is not None and n_control < n_source:
            notes.append(smaller_control(n_control, n_source))
        most = 0 if control is None else limit_counting(n_control, n_source)
        found = {}
        for name, sketch in sketches.items():
            attack = Predicates.of(view, sketch)
            found[name] = Trials(
                name,
                count_isolated(attack.count(targets, 2)),
                None if control is None else estimate_isolated(attack.count(control, most), n_control, n_source),
                count_isolated(Predicates.of(view, sketch.elsewhere(view, rng)).count(targets, 2)),
            )
        counted = found["multivariate"]
        return Trials(self.name, counted.success, counted.control, counted.baseline, found, tuple(notes))


def _multivariate(view: ReleaseView, labels: CodeArray, n: int, rng: np.random.Generator) -> Sketch:
    """Read different predicates off n records, no record twice: those that fewest published records fulfil come first.

    Of equals, those come first that ask no number to be just what was published, for it may have been changed, and none
    that surely was.
    """
    tells = telling(view, labels)
    if not tells.any():
        raise UsageError("the release shows nothing to tell people apart by: every label covers everything")
    sets = _attribute_sets(view, rng)
    within = [_alone(labels, tells, attributes, n, rng) for attributes in sets]
    read = _Read.join([*within, _ask_sides(view, labels, tells, sets)])
    numbers = np.array([np.isfinite(told.spans).all(axis=1).any() for told in view.asked])
    blurred = np.array([told.by_number for told in view.asked])
    exact = ((read.used & numbers).any(axis=1) & ~read.sided) | (read.used & blurred).any(axis=1)
    read = replace(read, shown=2 * np.minimum(read.shown, 2) + exact).once(labels, rng).best(n, rng)
    return Sketch.multivariate(view, labels, read.rows, read.used, read.sided)


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """Predicates that were read off published records."""

    rows: IntArray  # (n,) the record
    used: BoolArray  # (n, n_known) attributes
    sided: BoolArray  # (n,) whether numbers are only on the record's side of the median
    shown: IntArray  # (n,) how many published records fulfil it

    def __getitem__(self, places: IntArray | BoolArray) -> _Read:
        return _Read(self.rows[places], self.used[places], self.sided[places], self.shown[places])

    @classmethod
    def of(cls, rows: IntArray, used: BoolArray, *, sided: bool) -> _Read:
        """Return predicates of which it is not known yet how many records fulfil them."""
        return cls(rows, used, np.full(len(rows), sided), np.zeros(len(rows), dtype=np.int64))

    @classmethod
    def join(cls, reads: Sequence[_Read]) -> _Read:
        """Return all of several."""
        return cls(
            np.concatenate([each.rows for each in reads]),
            np.concatenate([each.used for each in reads]),
            np.concatenate([each.sided for each in reads]),
            np.concatenate([each.shown for each in reads]),
        )

    def once(self, labels: CodeArray, rng: np.random.Generator) -> _Read:
        """Return each predicate once, for one of the records that it can be read off: asked again it tells no more."""
        mixed = self[rng.permutation(len(self.rows))]
        asked = np.where(mixed.used, labels[mixed.rows] + 1, 0)
        _, first = number_rows([mixed.sided.astype(np.int32), *asked.T], len(mixed.rows))
        return mixed[first]

    def best(self, n: int, rng: np.random.Generator) -> _Read:
        """Return n of them, none of the same record: those that fewest records fulfil, drawn where they are equal."""
        order = rng.permutation(len(self.rows))
        order = order[np.argsort(self.shown[order], kind="stable")]
        _, earliest = np.unique(self.rows[order], return_index=True)
        return self[order[np.sort(earliest)][:n]]


def _alone(labels: CodeArray, tells: BoolArray, attributes: BoolArray, n: int, rng: np.random.Generator) -> _Read:
    """Ask for the labels of one set of attributes, as they stand in the n records that share them with fewest."""
    asked = np.flatnonzero(tells[:, attributes].any(axis=1))
    group, first = number_rows([labels[asked, a] for a in np.flatnonzero(attributes)], len(asked))
    many = np.bincount(group, minlength=len(first))[group]
    every = np.broadcast_to(attributes, (len(asked), len(attributes))) & tells[asked]
    return replace(_Read.of(asked, every, sided=False), shown=many).best(n, rng)


def _ask_sides(view: ReleaseView, labels: CodeArray, tells: BoolArray, sets: BoolArray) -> _Read:
    """Ask for numbers beyond those of a record that has the first or the last of all with its other labels.

    If no other record has the same number there, no other published record fulfils the predicate.
    """
    middles = [middles_of(told)[own] for told, own in zip(view.asked, labels.T, strict=True)]
    numbers = np.array([bool(np.isfinite(own).any()) for own in middles])
    read = [_Read.of(np.empty(0, dtype=np.int64), np.empty((0, len(view.known)), dtype=np.bool_), sided=True)]
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
            read.append(replace(_Read.of(rows, used, sided=True), shown=np.ones(len(rows), dtype=np.int64)))
    return _Read.join(read)


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
