"""composition: what other releases about the same people add to what this one leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.attacks.base import FEWEST, NO_CONTROL, AttackBesideOthers, Trials
from shoal.attacks.guessing import NO_ANSWER, Answers, Asked, SensitiveAttack, likeliest, mode
from shoal.attacks.people import People
from shoal.attacks.secrets import Secret
from shoal.attacks.tokens import Linked, in_both
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, FloatArray
from shoal.core.errors import UsageError


class CompositionAttack(AttackBesideOthers, SensitiveAttack):
    """Guesses the likeliest of the values that all releases together leave for somebody who is in all of them.

    Ganta, Kasiviswanathan and Smith, "Composition attacks and auxiliary information in data privacy" (KDD 2008): what
    is left is what every release leaves. Whoever is guessed right from this release alone is no target, so that
    a success is what the others add. The baseline has what the others say dealt to people at random. Where
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

    def judged(self, view: ReleaseView, secret: Secret, asked: Asked, rng: np.random.Generator) -> Trials:
        """Count those whom this release alone does not give away, and the others together do."""
        linked = [found for other in self.others if (found := Linked.of(view, other)) is not None]
        said = self._said(view, secret, linked, asked.members, rng)
        if len(said.beyond.truth) < FEWEST:
            raise UsageError("this release alone gives away nearly everybody, so others have nothing to add")
        elsewhere = None if asked.others is None else self._said(view, secret, linked, asked.others, rng)
        others = None if elsewhere is None else elsewhere.together.right
        everybody = Trials("everybody", said.together.right, others, said.together.blindly_right)
        notes = [
            f"targets are those of {len(asked.members):,} people who are not guessed right from this release alone"
        ]
        few = elsewhere is not None and len(elsewhere.beyond.truth) < FEWEST
        if few:
            notes.append(f"fewer than {FEWEST} people of the control group are not guessed right from it: {NO_CONTROL}")
        notes += [f"{each.view.n_rows:,} records have the same token in another release" for each in linked]
        return Trials(
            self.name,
            said.beyond.right,
            None if elsewhere is None or few else elsewhere.beyond.right,
            said.beyond.blindly_right,
            {"everybody": everybody},
            tuple(notes),
        )

    def _telling(self, secret: Secret) -> list[tuple[ReleaseView, Secret]]:
        """Return the other releases that tell of a sensitive attribute, in values that can be compared."""
        found = [(other, other.secrets[secret.name]) for other in self.others if secret.name in other.secrets]
        return [(other, own) for other, own in found if (own.edges is None) == (secret.edges is None)]

    def _said(
        self, view: ReleaseView, secret: Secret, linked: Sequence[Linked], people: People, rng: np.random.Generator
    ) -> _Said:
        alone = view.believed(secret, people)
        factors = np.ones_like(alone)
        for other, own in self._telling(secret):
            known = other.people(people.table, "the people attacked", partly=True)
            factors *= _factors(secret, own, other.believed(own, known))
        seed = int(rng.integers(2**63))  # ties are broken alike, so that a guess changes only if there is a reason

        def guess(weights: FloatArray, otherwise: AnyIntArray) -> AnyIntArray:
            found = likeliest(weights, np.random.default_rng(seed))
            return np.where(found == NO_ANSWER, otherwise, found)

        first = guess(alone, np.full(len(people), mode(secret)))
        dealt, joint = guess(alone * rng.permutation(factors), first), alone * factors
        for each in linked:
            weights = each.left(secret, people).weights
            joint = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, joint)
        together = guess(joint, first)
        truth = people.secrets[secret.name]
        rest = np.flatnonzero(first != truth)
        return _Said(
            Answers(together, first, truth),
            Answers(together[rest], dealt[rest], truth[rest]),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Said:
    together: Answers  # of everybody; blindly means from this release alone
    beyond: Answers  # of those who are not guessed right from this release alone; blindly, with the others' dealt out


def _factors(secret: Secret, own: Secret, weights: FloatArray) -> FloatArray:
    """Return (n, n_values) the share that another release leaves for each value of this one; 1 if it says nothing.

    A guess from the product changes only where the other release says something else: one that says the same again,
    being made of the same classes, changes none.
    """
    number = {value: place for place, value in enumerate(own.values)}
    place = np.array([number.get(value, -1) for value in secret.values])
    shares = np.append(weights, np.zeros((len(weights), 1)), axis=1)[:, place]
    total = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, shares / np.maximum(total, 1e-300), 1.0))
