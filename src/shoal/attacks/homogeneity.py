"""homogeneity: people of whom the release leaves one sensitive value only."""

from __future__ import annotations

import numpy as np

from shoal.attacks.answers import Answers, SecretAttack, answer_surely
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
        return answer_surely(view, secret, people, np.arange(len(secret.values)), rng)
