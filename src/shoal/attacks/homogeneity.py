"""homogeneity: people of whom the release leaves one sensitive value only."""

from __future__ import annotations

import numpy as np

from shoal.attacks.answers import NO_ANSWER, Answers, SecretAttack, certain, likeliest, mode
from shoal.attacks.base import People
from shoal.attacks.parts import Secret
from shoal.attacks.view import ReleaseView


class HomogeneityAttack(SecretAttack):
    """Says the value of somebody only if it is the only one left: everybody who may be the person has it.

    Machanavajjhala et al., "l-Diversity", section 2.1. Without the release, the most frequent value is said of the
    same people.
    """

    name = "homogeneity"
    title = "whose sensitive value is the only one left"
    of_records = of_values = True

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Answer where one value is left."""
        left = view.find_left(secret, people)
        sure = certain(view, left)
        return Answers(
            people,
            np.where(sure, likeliest(left.weights, rng), NO_ANSWER),
            np.where(sure, mode(secret), NO_ANSWER),
            people.secrets[secret.name],
            np.where(sure, left.entries, 0.0),  # the more records agree, the surer it is
        )
