"""linkability: two partial views of the same people, brought together by the release.

composition: what other releases about the same people add to what this one leaves, also by tokens of persons.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shoal.attacks.base import FEWEST, NO_CONTROL, Attack, People, Tally, Trials
from shoal.attacks.parts import Secret
from shoal.attacks.sensitive import Answers, Asked, SensitiveAttack, find_share, guess_likeliest, mode
from shoal.attacks.view import UNKNOWN, Left, ReleaseView, match_texts
from shoal.core.arrays import AnyIntArray, BoolArray, FloatArray
from shoal.core.errors import UsageError
from shoal.manifest import describe_plain
from shoal.release.published import PublishedRelease

CANDIDATES = 10
SPLITS = 8
MOST_COPIED = 10**6  # records of the source, beyond which a verbatim copy of it takes too much memory


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
    bears_on = "identity"
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
        copy = _copy_source(view, targets) if self.with_variants and len(targets) <= MOST_COPIED else None
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
    names, own = list(view.known), view.treatments.attributes
    if any(name not in targets.table.column_names for name in names):
        return None
    kept = {"role", "kind", "format"}
    manifest = describe_plain({name: own[name].model_dump(include=kept, exclude_none=True) for name in names})
    return ReleaseView.of(PublishedRelease("the source", manifest, targets.table.select(names)))


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


class CompositionAttack(SensitiveAttack):
    """Guesses the likeliest of the values that all releases together leave for somebody who is in all of them.

    Ganta, Kasiviswanathan and Smith, "Composition attacks and auxiliary information in data privacy" (KDD 2008): what
    is left is what every release leaves. Whoever is guessed right from this release alone is no target, so that
    a success is what the others add. The baseline has what the others say given to people at random. Where
    records of two releases have the same token of a person, what is left is what the records linked by it leave.
    """

    name = "composition"
    title = "what other releases about the same people add"
    question = "linkability"

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: there must be other releases, with the same sensitive attributes."""
        if not self.others:
            return "no other release about the same people was given"
        reason = super().refuses(view)
        if reason is not None or any(in_both(view, other) for other in self.others):
            return reason
        if any(not self._telling(secret) for secret in view.secrets.values()):
            return "the other releases do not publish the sensitive attribute, or not in values that can be compared"
        return None

    def judge(self, view: ReleaseView, secret: Secret, asked: Asked, rng: np.random.Generator) -> Trials:
        """Count those whom this release alone does not give away, and the others together do."""
        linked = [found for other in self.others if (found := Linked.of(view, other)) is not None]
        together, beyond = self._answer(view, secret, linked, asked.members, rng)
        if len(beyond.truth) < FEWEST:
            raise UsageError("this release alone gives away nearly everybody, so others have nothing to add")
        together_there, beyond_there = None, None
        if asked.others is not None:
            together_there, beyond_there = self._answer(view, secret, linked, asked.others, rng)
        notes = [
            f"targets are those of {len(asked.members):,} people who are not guessed right from this release alone"
        ]
        if beyond_there is not None and len(beyond_there.truth) < FEWEST:
            beyond_there = None
            notes.append(f"fewer than {FEWEST} people of the control group are not guessed right from it: {NO_CONTROL}")
        notes += [f"{each.view.n_rows:,} records have the same token in another release" for each in linked]
        everybody = together.try_beside(together_there, "everybody", view)
        trials = beyond.try_beside(beyond_there, self.name, view)
        return replace(trials, variants={"everybody": everybody}, notes=tuple(notes))

    def _telling(self, secret: Secret) -> list[tuple[ReleaseView, Secret]]:
        """Return the other releases that tell of a sensitive attribute, in values that can be compared."""
        found = [(other, other.secrets[secret.name]) for other in self.others if secret.name in other.secrets]
        return [(other, own) for other, own in found if (own.edges is None) == (secret.edges is None)]

    def _answer(
        self, view: ReleaseView, secret: Secret, linked: Sequence[Linked], people: People, rng: np.random.Generator
    ) -> tuple[Answers, Answers]:
        """Answer about everybody, blindly from this release alone; and about those whom it alone gets wrong.

        Blindly, the latter are answered with what the others say given to people at random.
        """
        alone = view.believe(secret, people)
        factors = np.ones_like(alone)
        for other, own in self._telling(secret):
            known = other.people(people.table, "the people attacked", partly=True)
            factors *= _factors(secret, own, other.believe(own, known))
        seed = int(rng.integers(2**63))  # ties are broken alike, so that a guess changes only if there is a reason

        def guess(weights: FloatArray, otherwise: AnyIntArray | int) -> AnyIntArray:
            return guess_likeliest(weights, otherwise, np.random.default_rng(seed))

        first = guess(alone, mode(secret))
        permuted, joint = guess(alone * rng.permutation(factors), first), alone * factors
        for each in linked:
            weights = each.find_left(secret, people).weights
            joint = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, joint)
        together = guess(joint, first)
        truth = people.secrets[secret.name]
        rest, belief = np.flatnonzero(first != truth), find_share(joint, together)
        beyond = Answers(people[rest], together[rest], permuted[rest], truth[rest], belief[rest])
        return Answers(people, together, first, truth, belief), beyond


def _factors(secret: Secret, own: Secret, weights: FloatArray) -> FloatArray:
    """Return (n, n_values) the share that another release leaves for each value of this one; 1 if it says nothing.

    A guess from the product changes only where the other release says something else: one that says the same again,
    being made of the same classes, changes none.
    """
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, _align(secret, own, weights) / np.maximum(total, 1e-300), 1.0))


def _align(secret: Secret, own: Secret, weights: FloatArray) -> FloatArray:
    """Return weights of another release's values as weights of this one's; 0 for values that it does not have."""
    number = {value: place for place, value in enumerate(own.values)}
    place = np.array([number.get(value, -1) for value in secret.values])
    return np.append(weights, np.zeros((len(weights), 1)), axis=1)[:, place]


def token_columns(view: ReleaseView) -> list[str]:
    return [name for name, stated in view.manifest.techniques.items() if stated.get("of") == "identifier"]


def of_one_person(view: ReleaseView) -> int:
    """Return how many published records share a person's token with another record, so that they belong together."""
    columns = [view.rows.column(name).drop_null() for name in token_columns(view)]
    counts = [column.value_counts().field("counts").to_numpy() for column in columns]
    return max([0, *(int(each[each > 1].sum()) for each in counts)])


@dataclass(frozen=True, slots=True, eq=False)
class Linked:
    """Records of two releases that have the same token, side by side: one view of all that both say of a person."""

    view: ReleaseView
    names: tuple[tuple[str, str], ...]  # of each attribute of the other release, what it is called here

    @classmethod
    def of(cls, view: ReleaseView, other: ReleaseView) -> Linked | None:
        """Link two releases that are rows, or return None if they have no tokens in common.

        A token that several records of the other release have is left out.
        """
        if any(one.sliced is not None or one.form.by_plan for one in (view, other)):
            return None
        rows, beside = _match_tokens(view, other)
        if not len(rows):
            return None
        names = tuple((name, _free_name(f"{name}, too", view)) for name in other.known)
        table, found = view.rows.take(pa.array(rows)), other.rows.take(pa.array(beside))
        attributes, techniques = dict(view.manifest.attributes), dict(view.manifest.techniques)
        for name, own in names:
            table = table.append_column(own, found.column(name))
            attributes[own] = other.manifest.attributes[name].model_copy(update={"name": own})
            if name in other.manifest.techniques:
                techniques[own] = other.manifest.techniques[name]
        manifest = view.manifest.model_copy(update={"attributes": attributes, "techniques": techniques})
        joined = replace(view.release, manifest=manifest, data=table, folder=None)
        return cls(ReleaseView.of(joined, view.policy, like=view), names)

    def find_left(self, secret: Secret, people: People) -> Left:
        """Return what the linked records leave for people; nothing for those whom none of them covers."""
        table = people.table
        for name, here in self.names:
            if name in table.column_names:
                table = table.append_column(here, table.column(name))
        known = self.view.people(table, "the people attacked", partly=True)
        linked = self.view.secrets[secret.name]
        left = self.view.find_left(linked, known)
        found = (left.far == 0) | self.view.may_miss
        return replace(left, weights=np.where(found[:, None], _align(secret, linked, left.weights), 0.0))


def in_both(view: ReleaseView, other: ReleaseView) -> int:
    """Return how many records of a release have a token that stands once in another."""
    return len(_match_tokens(view, other)[0])


def _match_tokens(view: ReleaseView, other: ReleaseView) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of two releases that have the same token, by the pair of columns that has most of them."""
    best = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for one in token_columns(view):
        for two in token_columns(other):
            found = match_texts([view.rows.column(one)], [other.rows.column(two)], alone=False)
            best = found if len(found[0]) > len(best[0]) else best
    return best


def _free_name(name: str, view: ReleaseView) -> str:
    while name in view.manifest.attributes:
        name += "'"
    return name
