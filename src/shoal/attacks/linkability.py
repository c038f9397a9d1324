"""linkability: two partial views of the same people, brought together by the release."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from shoal.attacks.answers import Answers
from shoal.attacks.base import Attack, People, Tally, Trials
from shoal.attacks.composition import in_both, of_one_person
from shoal.attacks.view import UNKNOWN, ReleaseView
from shoal.core.arrays import BoolArray

CANDIDATES = 10
SPLITS = 8
KEPT = ("role", "kind", "format")  # of an attribute's entry, if its values are published as they are


class LinkabilityAttack(Attack):
    """Picks, of ten second halves of what is known about people, the one that belongs to a given first half.

    Somebody has a table with one half of the quasi attributes, somebody else one with the other half; both want to
    know which rows are about the same person. A second half B is the likelier, the greater the share of the published
    records that fit B which fit the first half too; if none fits any, the nearer a record is. Halves are split at
    random. The baseline picks at random. The variant ``verbatim copy`` links the same people by the source itself.

    Records with the same token of a person, in one release or in two, belong together for sure: ``equal tokens`` counts
    them, and stands for the attack where they link more.
    """

    name = "linkability"
    title = "whether two records are about one person"
    question = "linkability"
    of_insensitive = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: there must be two attributes to know one of each."""
        return None if len(view.known) > 1 else "there is one quasi attribute only, which cannot be known in halves"

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Link members drawn from the source, and people of the control group."""
        members = targets.draw(self.n_targets, rng)
        others = None if control is None else control.draw(self.n_targets, rng)
        n_known = len(view.known)  # never all of them, or none, are in the first half
        splits = np.stack([rng.permutation(n_known) < n_known // 2 for _ in range(SPLITS)])
        inside = _link(view, members, splits, rng)
        found = inside.try_beside(None if others is None else _link(view, others, splits, rng), self.name, view)
        notes, variants = [f"one of {CANDIDATES} candidates is right each time"], {"halves": found}
        copy = _copy_source(view, targets) if self.with_variants else None
        if copy is not None:
            success = Tally.of(_link(copy, copy.recode(members), splits, rng).guess == 0)
            most = Trials("verbatim copy", success, found.control, found.baseline)
            variants[most.attack] = most
            if most.risk.low > 0:
                share = found.risk.value / most.risk.value
                notes.append(f"that is {share:.0%} of what a verbatim copy of the source allows")
        repeated, *shared = of_one_person(view), *(in_both(view, other) for other in self.others)
        if repeated:
            notes.append(f"{repeated:,} records share a person's token with another: these belong together, surely")
        notes += [
            f"{n:,} records have the same token in another release: they belong together, surely" for n in shared if n
        ]
        if linked := max(repeated, *shared, 0):
            nobody = Tally(0, view.n_rows)  # strangers share no token
            tokens = Trials("equal tokens", Tally(linked, view.n_rows), nobody, nobody)
            variants[tokens.attack] = tokens
            found = max(found, tokens, key=lambda each: each.worst.low)
        return replace(found, attack=self.name, variants=variants, notes=tuple(notes))


def _copy_source(view: ReleaseView, targets: People) -> ReleaseView | None:
    """Return the source as if its quasi attributes were published as they are; None if it does not have all of them."""
    names, entries = list(view.known), view.treatments.attributes
    if any(name not in targets.table.column_names for name in names):
        return None
    attributes = {name: {key: entries[name][key] for key in KEPT if key in entries[name]} for name in names}
    return ReleaseView.of(targets.table.select(names), {"method": "plain", "parts": [names], "attributes": attributes})


def _link(view: ReleaseView, people: People, splits: BoolArray, rng: np.random.Generator) -> Answers:
    """Return which candidate is picked for each of the people; the first one is right."""
    n = len(people)
    first = splits[rng.integers(len(splits), size=n)]  # (n, n_known)
    other = (np.arange(n)[:, None] + rng.integers(1, n, size=(n, CANDIDATES - 1))) % n  # nobody beside oneself
    candidate = np.concatenate([np.arange(n)[:, None], other], axis=1)  # (n, CANDIDATES)
    owner = np.repeat(np.arange(n), CANDIDATES)
    one, two = first[owner], candidate.reshape(-1)
    second = np.where(one, UNKNOWN, people.codes[two])
    both = np.where(one, people.codes[owner], second)
    numbers = np.where(one, people.numbers[owner], people.numbers[two])
    together, alone = (view.copies(each.astype(np.int32), numbers, near=False)[0] for each in (both, second))
    fits = np.divide(together, alone, out=np.zeros(len(alone)), where=alone > 0)
    score = fits.reshape(n, CANDIDATES)
    belief = score.max(axis=1) / np.maximum(score.sum(axis=1), 1e-300)
    lost = np.flatnonzero(belief == 0)
    if view.sliced is None and len(lost):
        rows = (lost[:, None] * CANDIDATES + np.arange(CANDIDATES)).reshape(-1)
        score[lost] = -view.copies(both[rows].astype(np.int32), numbers[rows])[1].reshape(-1, CANDIDATES)
        belief[lost] = score[lost].max(axis=1)  # below all others, the nearest first
    best = score >= score.max(axis=1, keepdims=True) - 1e-12
    picked = np.where(best, rng.random(best.shape), -1.0).argmax(axis=1)
    return Answers(people, picked, rng.integers(CANDIDATES, size=n), np.zeros(n, dtype=np.int64), belief)
