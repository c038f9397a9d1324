"""inference: the sensitive value of somebody whose quasi values are known, guessed from what the release leaves."""

from __future__ import annotations

import numpy as np

from shoal.attacks.answers import Answers, SecretAttack, find_share, guess_likeliest, mode
from shoal.attacks.base import People
from shoal.attacks.parts import Secret
from shoal.attacks.view import ReleaseView


class InferenceAttack(SecretAttack):
    """Guesses the likeliest of the values that are left for the person.

    Without looking at the person's quasi values, the guess is the most frequent published value. A release that is
    l-diverse in the sense of simple l-diversity, classes or slices, leaves no value a share of more than 1/l.
    """

    name = "inference"
    title = "the sensitive value of a known person"
    of_insensitive = True

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Guess for everybody; of whom nothing is left, the most frequent value."""
        blind = np.full(len(people), mode(secret))
        weights = view.believe(secret, people)
        guess = guess_likeliest(weights, blind, rng)
        return Answers(people, guess, blind, people.secrets[secret.name], find_share(weights, guess))
