"""Attacks that find out sensitive values: what they answer about people, and how the answers are judged."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np

from shoal.attacks.base import NOBODYS, Attack, People, Trials
from shoal.attacks.exposure import Outcomes, find_labels, judge
from shoal.attacks.parts import Secret
from shoal.attacks.view import Left, ReleaseView
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray
from shoal.core.errors import InputError

Beliefs: TypeAlias = Callable[[People], FloatArray]  # people -> (n, n_values) in proportion to what is believed
NO_ANSWER = -2  # nobody has this value; -1 is one that is not published


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What an adversary says of each of n people, and what is true; values by their codes, or ``NO_ANSWER``."""

    people: People
    guess: AnyIntArray
    blind: AnyIntArray  # said without looking at who is left
    truth: AnyIntArray
    belief: FloatArray  # how much the adversary believes in the guess; only its order counts

    def count(self, view: ReleaseView) -> Outcomes:
        """Return which answers are right."""
        labels = find_labels(view, self.people)
        return Outcomes(self.guess == self.truth, self.belief, labels, self.blind == self.truth)

    def try_beside(self, others: Answers | None, name: str, view: ReleaseView) -> Trials:
        """Return the trials of an attack with these answers, and with those on people who are not in the data."""
        return judge(name, view, self.count(view), None if others is None else others.count(view))


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Whom an attack is about: members who are its targets, people of the control group, and all of the source."""

    members: People
    others: People | None
    everybody: People


class SensitiveAttack(Attack):
    """Finds out the sensitive value of people whose quasi values are known.

    It is about one sensitive attribute: ``by_column`` gives a view for each.
    """

    of_records: ClassVar[bool] = False  # whether it asks which published records can be a person's
    of_values: ClassVar[bool] = False  # and what values these have, one by one

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: there must be a sensitive attribute and, where it asks for them, records of people."""
        if self.of_records and view.treatments.nobodys:
            return NOBODYS
        if not view.secrets:
            return "the release has no sensitive attribute"
        return not_their_own(view) if self.of_values else None

    @abstractmethod
    def judge(self, view: ReleaseView, secret: Secret, asked: Asked, rng: np.random.Generator) -> Trials:
        """Count what is found out about one sensitive attribute."""

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Attack members drawn from the source, and people of the control group."""
        members = targets.draw(self.n_targets, rng)
        others = None if control is None else control.draw(self.n_targets, rng)
        name, secret = next(iter(view.secrets.items()))
        if name not in members.secrets:
            raise InputError(f"the source has no column {name!r}, which the release knows as sensitive")
        known = None if others is None or name not in others.secrets else others
        found = self.judge(view, secret, Asked(members, known, targets), rng)
        notes: list[str | None] = [*found.notes, self.note(view, secret, targets), _note_moved(secret)]
        if others is not None and known is None:
            notes.append(f"the control table has no column {name!r}, so guesses about its people cannot be judged")
        return replace(found, about=name, notes=tuple(note for note in notes if note is not None))

    def note(self, view: ReleaseView, secret: Secret, targets: People) -> str | None:  # noqa: ARG002
        """Return a note on what was guessed, or None."""
        if secret.edges is None:
            return None
        kind = "date" if secret.kind == "date" else "number"
        why = f"was changed as a {kind}" if secret.changed else f"is a {kind} with many values"
        return f"{secret.name!r} {why}: what is guessed is one of {len(secret.edges) + 1} ranges"


class SecretAttack(SensitiveAttack):
    """Says something of each person by itself, from what the release leaves for the person."""

    @abstractmethod
    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Return what is said of each of the people; their own values are for judging it only."""

    def judge(self, view: ReleaseView, secret: Secret, asked: Asked, rng: np.random.Generator) -> Trials:
        """Count the answers about one sensitive attribute."""
        said = self.answers(view, secret, asked.members, rng)
        elsewhere = None if asked.others is None else self.answers(view, secret, asked.others, rng)
        return said.try_beside(elsewhere, self.name, view)


class LearnedAttack(SensitiveAttack):
    """Learns from the whole release at first, and guesses what it then believes likeliest of each person.

    Of whom it believes nothing, it guesses the likeliest of what is left. The baseline is that guess, for everybody:
    what the release leaves for a person by itself, before anything is learned.
    """

    @abstractmethod
    def learn(self, view: ReleaseView, secret: Secret, everybody: People, rng: np.random.Generator) -> Beliefs:
        """Return what is believed of people; of *everybody* in the source, the quasi values may be known."""

    def judge(self, view: ReleaseView, secret: Secret, asked: Asked, rng: np.random.Generator) -> Trials:
        """Learn once, and count the guesses about one sensitive attribute."""
        beliefs = self.learn(view, secret, asked.everybody, rng)

        def answer(people: People) -> Answers:
            before, weights = view.believe(secret, people), beliefs(people)
            blind = guess_likeliest(before, mode(secret), rng)
            guess = guess_likeliest(weights, blind, rng)
            belief = np.where(weights.sum(axis=1) > 0, find_share(weights, guess), find_share(before, guess))
            return Answers(people, guess, blind, people.secrets[secret.name], belief)

        stated = answer(asked.members)
        return stated.try_beside(None if asked.others is None else answer(asked.others), self.name, view)


def likeliest(weights: FloatArray, rng: np.random.Generator) -> CodeArray:
    """Return (n,) the value of greatest weight, ties drawn by chance, and ``NO_ANSWER`` where there is no weight.

    >>> likeliest(np.array([[1.0, 3.0], [0.0, 0.0]]), np.random.default_rng(1)).tolist()
    [1, -2]
    """
    most = weights.max(axis=1, keepdims=True)
    near = weights >= most * (1 - 1e-9)
    drawn = np.where(near, rng.random(weights.shape), -1.0).argmax(axis=1)
    return np.where(most[:, 0] > 0, drawn, NO_ANSWER).astype(np.int32)


def guess_likeliest(weights: FloatArray, otherwise: AnyIntArray | int, rng: np.random.Generator) -> AnyIntArray:
    """Return (n,) the value of greatest weight or, where there is no weight, what is said *otherwise*."""
    guess = likeliest(weights, rng)
    return np.where(guess == NO_ANSWER, otherwise, guess)


def find_share(weights: FloatArray, guess: AnyIntArray) -> FloatArray:
    """Return (n,) the share that each guess has of the weights, 0 where nothing is guessed.

    >>> find_share(np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([1, NO_ANSWER])).tolist()
    [0.75, 0.0]
    """
    own = np.where(guess < 0, 0.0, weights[np.arange(len(guess)), np.maximum(guess, 0)])
    return np.asarray(own / np.maximum(weights.sum(axis=1), 1e-300))


def by_column(attack: Attack, view: ReleaseView) -> list[ReleaseView]:
    """Return the views that an attack is tried on: of one that finds out sensitive values, each with one of them."""
    if not isinstance(attack, SensitiveAttack) or not view.secrets:
        return [view]
    return [replace(view, secrets={name: secret}) for name, secret in view.secrets.items()]


def certain(view: ReleaseView, left: Left) -> BoolArray:
    """Return (n,) of whom a single value is left; whom no box covers is not in the data, unless values were changed."""
    alone = np.count_nonzero(left.weights, axis=1) == 1
    return np.asarray(alone & ((left.far == 0) | view.may_miss))


def answer_surely(
    view: ReleaseView, secret: Secret, people: People, category: AnyIntArray, rng: np.random.Generator
) -> Answers:
    """Say the category of somebody's value if all that is left is of one; *category* is (n_values,).

    Blindly, the most frequent category is said of the same people.
    """
    member = np.zeros((len(category), int(category.max()) + 1))
    member[np.arange(len(category)), category] = 1.0
    left = view.find_left(secret, people)
    left = replace(left, weights=left.weights @ member)
    sure = certain(view, left)
    return Answers(
        people,
        np.where(sure, likeliest(left.weights, rng), NO_ANSWER),
        np.where(sure, int((secret.marginal @ member).argmax()), NO_ANSWER),
        np.append(category, -1)[people.secrets[secret.name]],
        np.where(sure, left.entries, 0.0),  # the more records agree, the surer it is
    )


def not_their_own(view: ReleaseView) -> str | None:
    """Return why no record shows its person's sensitive value, or None: values were permuted."""
    first = next(iter(view.secrets))
    if not view.treatments.is_unlinked(first):
        return None
    return f"the values of {first!r} stand in rows of other people, so none of them is anybody's own"


def _note_moved(secret: Secret) -> str | None:
    """Return the note on a sensitive attribute whose values were exchanged or permuted, or None."""
    if secret.moved == 0:
        return None
    group = f"records that agree in {', '.join(secret.within)}" if secret.within else "all records"
    return (
        f"a share of {secret.moved:g} of the values of {secret.name!r} was moved among {group}: where values are "
        f"weighed, that of a person's row counts {1 - secret.moved:g}, and the rest is what these records have"
    )


def mode(secret: Secret) -> int:
    """Return the most frequent published value."""
    return int(secret.marginal.argmax())
