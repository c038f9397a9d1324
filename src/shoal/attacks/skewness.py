"""skewness: a value that is much more frequent among those who may be the person than in the whole table."""

from __future__ import annotations

import numpy as np

from shoal.attacks.answers import NO_ANSWER, Answers, SecretAttack, find_share, likeliest
from shoal.attacks.base import People
from shoal.attacks.parts import Secret
from shoal.attacks.view import ReleaseView

LIFT = 2.0


class SkewnessAttack(SecretAttack):
    """Suspects the value whose share has risen by the greatest factor, if that is at least two.

    Li, Li and Venkatasubramanian, "t-Closeness", section 3: where everybody else has one chance in a hundred to be ill,
    fifty in a hundred is a disclosure, although the other half of the class is not ill. Without the release, the same
    suspicions fall on people by chance.
    """

    name = "skewness"
    title = "who is far more likely than others to have a value"

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Suspect somebody of a value only if its share has at least doubled."""
        weights = view.believe(secret, people)
        shares = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        lift = shares / np.maximum(secret.marginal, 1e-300)
        guess = np.where(lift.max(axis=1) >= LIFT, likeliest(lift, rng), NO_ANSWER)
        return Answers(people, guess, rng.permutation(guess), people.secrets[secret.name], find_share(weights, guess))
