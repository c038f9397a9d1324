"""background-knowledge: an adversary who can rule out some values that the person does not have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from shoal.attacks.answers import NO_ANSWER, Answers, Asked, SecretAttack, find_share, likeliest
from shoal.attacks.base import N_TARGETS, People, Trials
from shoal.attacks.parts import Secret
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, FloatArray
from shoal.core.errors import UsageError
from shoal.release.sliced.table import number_rows


class BackgroundKnowledgeAttack(SecretAttack):
    """Rules out the m values whose absence helps most, then guesses the likeliest of those that are left.

    The best to rule out are the m most frequent values that are not the person's: every other choice leaves more
    beside the person's own. The same knowledge, used without the release, is the baseline.
    """

    name = "background-knowledge"
    title = "the sensitive value, once some others are ruled out"
    of_records = True

    def __init__(self, n_targets: int = N_TARGETS, exclusions: int = 2, **beside: Any) -> None:
        super().__init__(n_targets, **beside)
        if exclusions < 1:
            raise UsageError(f"{exclusions} values ruled out is no background knowledge; rule out at least 1")
        self.exclusions = exclusions

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Guess for everybody of whom something is left."""
        truth = people.secrets[secret.name]
        weights = rule_out(view.believe(secret, people), truth, self.exclusions)
        known = rule_out(np.tile(secret.marginal, (len(people), 1)), truth, self.exclusions)
        guess, blind = likeliest(weights, rng), likeliest(known, rng)
        return Answers(people, np.where(guess == NO_ANSWER, blind, guess), blind, truth, find_share(weights, guess))

    def judge(self, view: ReleaseView, secret: Secret, asked: Asked, rng: np.random.Generator) -> Trials:
        """Count the answers for this and every smaller number of exclusions."""
        variants = {}
        for number in range(1, self.exclusions):
            fewer = BackgroundKnowledgeAttack(self.n_targets, number)
            variants[f"{number} ruled out"] = SecretAttack.judge(fewer, view, secret, asked, rng)
        return replace(super().judge(view, secret, asked, rng), variants=variants)

    def note(self, view: ReleaseView, secret: Secret, targets: People) -> str | None:
        """Say how many of all people of the source are left with their own value, which is exact."""
        truth = targets.secrets[secret.name]
        person, first = number_rows([*targets.codes.T, truth + 1], len(targets))
        weights = rule_out(view.believe(secret, targets[first]), truth[first], self.exclusions)
        own = weights[np.arange(len(first)), truth[first]] * (truth[first] >= 0)
        share = own / np.maximum(weights.sum(axis=1), 1e-300)
        alone = int(np.bincount(person)[share > 1 - 1e-9].sum())
        worst = (
            f"with the best {self.exclusions} ruled out, {alone:,} of {len(targets):,} people of the source are left "
            f"with their own value alone; the greatest belief in anybody's own value is {share.max():.3f}"
        )
        ranges = super().note(view, secret, targets)
        return worst if ranges is None else f"{worst}; {ranges}"


def rule_out(weights: FloatArray, truth: AnyIntArray, exclusions: int) -> FloatArray:
    """Return the weights without the greatest ones of values that are not true.

    >>> rule_out(np.array([[4.0, 3.0, 2.0, 1.0]]), np.array([1]), 2).tolist()
    [[0.0, 3.0, 0.0, 1.0]]
    """
    others = weights.copy()
    known = np.flatnonzero(truth >= 0)
    others[known, truth[known]] = -1.0
    best = np.argsort(-others, axis=1, kind="stable")[:, :exclusions]
    kept = weights.copy()
    np.put_along_axis(kept, best, 0.0, axis=1)
    kept[known, truth[known]] = weights[known, truth[known]]
    return kept
