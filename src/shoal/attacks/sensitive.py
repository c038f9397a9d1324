"""Attacks that infer sensitive values: their answers about people, and how these are judged.

This file has five of them: homogeneity, inference, skewness, similarity and background knowledge.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.attacks.base import N_TARGETS, NOBODYS, Attack, People, Trials
from shoal.attacks.exposure import Outcomes, find_labels, judge
from shoal.attacks.parts import Secret
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray
from shoal.core.errors import InputError, UsageError
from shoal.manifest import Attribute
from shoal.release.sliced.table import number_rows

Beliefs: TypeAlias = Callable[[People], FloatArray]  # people -> (n, n_values) in proportion to the belief
NO_ANSWER = -2  # no person has this value; -1 is an unpublished value


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The adversary's answers about n people, and the truth: values by their codes, or ``NO_ANSWER``."""

    people: People
    guess: AnyIntArray
    blind: AnyIntArray  # the answers without looking at the release's remainder
    truth: AnyIntArray
    belief: FloatArray  # how sure the adversary is; only the order counts

    def count(self, view: ReleaseView) -> Outcomes:
        labels = find_labels(view, self.people)
        return Outcomes(self.guess == self.truth, self.belief, labels, self.blind == self.truth)

    def try_beside(self, others: Answers | None, name: str, view: ReleaseView) -> Trials:
        """Return the trials of an attack with these answers, and with *others* about people who are not in the data."""
        return judge(name, view, self.count(view), None if others is None else others.count(view))


@dataclass(frozen=True, slots=True, eq=False)
class AttackGroups:
    """The people of an attack: members who are its targets, people of the control group, and all of the source."""

    members: People
    others: People | None
    everybody: People


class SensitiveAttack(Attack):
    """Infers the sensitive value of people whose quasi values are known.

    An attack is about one sensitive attribute; ``by_column`` gives a view for each.
    """

    of_records: ClassVar[bool] = False  # whether it uses which published records can be a person's
    of_values: ClassVar[bool] = False  # and the value of each of them
    of_hidden: ClassVar[bool] = False  # whether it infers generalized quasi attributes as well

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: there must be a sensitive attribute and, if the attack needs them, records of people."""
        if self.of_records and view.treatments.nobodys:
            return NOBODYS
        if not view.secrets:
            return "the release has no sensitive attribute"
        return not_their_own(view) if self.of_values else None

    @abstractmethod
    def judge(self, view: ReleaseView, secret: Secret, asked: AttackGroups, rng: np.random.Generator) -> Trials:
        """Count the successes for one sensitive attribute."""

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Attack members drawn from the source, and people of the control group."""
        members = targets.draw(self.n_targets, rng)
        others = None if control is None else control.draw(self.n_targets, rng)
        name, secret = next(iter(view.secrets.items()))
        if name not in members.secrets:
            raise InputError(f"the source has no column {name!r}, a sensitive attribute of the release")
        known = None if others is None or name not in others.secrets else others
        found = self.judge(view, secret, AttackGroups(members, known, targets), rng)
        notes = [*found.notes, *filter(None, [self.note(view, secret, targets)])]
        if secret.moved > 0:
            group = f"records that agree in {', '.join(secret.within)}" if secret.within else "all records"
            notes.append(
                f"a share of {secret.moved:g} of the values of {name!r} was moved among {group}: the attacks weigh the "
                f"value in a person's row by {1 - secret.moved:g}, and the values of these records by the rest"
            )
        if others is not None and known is None:
            notes.append(f"the control table has no column {name!r}, so guesses about its people cannot be judged")
        return replace(found, about=name, notes=tuple(notes))

    def note(self, view: ReleaseView, secret: Secret, targets: People) -> str | None:  # noqa: ARG002
        """Return a note on the guesses, or None."""
        if secret.edges is None:
            return None
        kind = "date" if secret.kind == "date" else "number"
        why = f"was changed as a {kind}" if secret.changed else f"is a {kind} with many values"
        return f"{secret.name!r} {why}: the attacks guess one of {len(secret.edges) + 1} ranges"


class SecretAttack(SensitiveAttack):
    """Answers about each person separately, from the values that the release leaves for the person."""

    @abstractmethod
    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Return the answers about some people; their own values are used to judge them only."""

    def judge(self, view: ReleaseView, secret: Secret, asked: AttackGroups, rng: np.random.Generator) -> Trials:
        said = self.answers(view, secret, asked.members, rng)
        elsewhere = None if asked.others is None else self.answers(view, secret, asked.others, rng)
        return said.try_beside(elsewhere, self.name, view)


class LearnedAttack(SensitiveAttack):
    """Learns from the whole release, and guesses the value that it then believes likeliest for each person.

    If it learned nothing about a person, it guesses the likeliest of the remaining values. The baseline is that guess
    for all people, which uses only the values that the release leaves for the person, or else the most frequent value.
    """

    beats_reader: ClassVar[bool] = True  # whether the baseline is the guess from the remaining values

    @abstractmethod
    def learn(self, view: ReleaseView, secret: Secret, everybody: People, rng: np.random.Generator) -> Beliefs:
        """Return the beliefs about people; the quasi values of all people of the source may be used."""

    def judge(self, view: ReleaseView, secret: Secret, asked: AttackGroups, rng: np.random.Generator) -> Trials:
        beliefs = self.learn(view, secret, asked.everybody, rng)

        def answer(people: People) -> Answers:
            before, weights = view.believe(secret, people), beliefs(people)
            usual = np.full(len(people), mode(secret))
            reader = guess_likeliest(before, usual, rng)
            guess = guess_likeliest(weights, reader, rng)
            belief = np.where(weights.sum(axis=1) > 0, find_share(weights, guess), find_share(before, guess))
            return Answers(people, guess, reader if self.beats_reader else usual, people.secrets[secret.name], belief)

        stated = answer(asked.members)
        return stated.try_beside(None if asked.others is None else answer(asked.others), self.name, view)


def likeliest(weights: FloatArray, rng: np.random.Generator) -> CodeArray:
    """Return (n,) the value of greatest weight, ties broken at random, or ``NO_ANSWER`` without a weight.

    >>> likeliest(np.array([[1.0, 3.0], [0.0, 0.0]]), np.random.default_rng(1)).tolist()
    [1, -2]
    """
    most = weights.max(axis=1, keepdims=True)
    near = weights >= most * (1 - 1e-9)
    drawn = np.where(near, rng.random(weights.shape), -1.0).argmax(axis=1)
    return np.where(most[:, 0] > 0, drawn, NO_ANSWER).astype(np.int32)


def guess_likeliest(weights: FloatArray, otherwise: AnyIntArray | int, rng: np.random.Generator) -> AnyIntArray:
    """Return (n,) the value of greatest weight, or *otherwise* without a weight."""
    guess = likeliest(weights, rng)
    return np.where(guess == NO_ANSWER, otherwise, guess)


def find_share(weights: FloatArray, guess: AnyIntArray) -> FloatArray:
    """Return (n,) the share of the weights that each guess has, 0 for no guess.

    >>> find_share(np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([1, NO_ANSWER])).tolist()
    [0.75, 0.0]
    """
    own = np.where(guess < 0, 0.0, weights[np.arange(len(guess)), np.maximum(guess, 0)])
    return np.asarray(own / np.maximum(weights.sum(axis=1), 1e-300))


def by_column(attack: Attack, view: ReleaseView) -> list[ReleaseView]:
    """Return the views that an attack is tried on; to infer sensitive values it needs one for each."""
    if not isinstance(attack, SensitiveAttack):
        return [view]
    found = [replace(view, secrets={name: secret}) for name, secret in view.secrets.items()]
    if attack.of_hidden and attack.refuses(view) is None:
        found += hide_quasi(view)
    return found or [view]


def hide_quasi(view: ReleaseView) -> list[ReleaseView]:
    """Return a view for each generalized quasi attribute, in which its values are the secret."""
    found = []
    for name in view.known if len(view.known) > 1 and view.sliced is None else ():
        if not view.manifest.attributes[name].boxed:
            continue
        try:
            hidden = view.change_roles({name: "sensitive"})
        except (InputError, UsageError):  # its labels do not list the values that they cover
            continue
        found.append(replace(hidden, secrets={name: hidden.secrets[name]}))
    return found


def answer_surely(
    view: ReleaseView, secret: Secret, people: People, category: AnyIntArray, rng: np.random.Generator
) -> Answers:
    """Answer with the category of a person's value if all remaining values are of one; *category* is (n_values,).

    Blindly, the answer for the same people is the most frequent category.
    """
    member = np.zeros((len(category), int(category.max()) + 1))
    member[np.arange(len(category)), category] = 1.0
    left = view.find_left(secret, people)
    left = replace(left, weights=left.weights @ member)
    # People whom no box covers are not in the data, unless values were changed.
    sure = (np.count_nonzero(left.weights, axis=1) == 1) & ((left.far == 0) | view.may_miss)
    return Answers(
        people,
        np.where(sure, likeliest(left.weights, rng), NO_ANSWER),
        np.where(sure, int((secret.marginal @ member).argmax()), NO_ANSWER),
        np.append(category, -1)[people.secrets[secret.name]],
        np.where(sure, left.entries, 0.0),  # more records that agree make the answer surer
    )


def not_their_own(view: ReleaseView) -> str | None:
    """Return why no record shows its person's sensitive value (values were permuted), or None."""
    first = next(iter(view.secrets))
    if not view.treatments.is_unlinked(first):
        return None
    return f"the values of {first!r} are in other people's rows, so no row shows its person's own value"


def mode(secret: Secret) -> int:
    return int(secret.marginal.argmax())


BLOCK = 2**14  # people whose beliefs are computed at a time
LIFT = 2.0  # minimum factor by which a value's share must rise for a suspicion


class HomogeneityAttack(SecretAttack):
    """States a person's value only if it is the only one left: every record that may be the person's has it.

    Machanavajjhala et al., "l-Diversity", section 2.1. The baseline states the most frequent value of the same people.
    """

    name = "homogeneity"
    title = "whose sensitive value is the only one left"
    of_records = of_values = True

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        return answer_surely(view, secret, people, np.arange(len(secret.values)), rng)


class InferenceAttack(SecretAttack):
    """Guesses the likeliest of the values that are left for the person.

    The baseline guesses the most frequent published value. A release that satisfies simple l-diversity, in classes or
    slices, leaves no value a share of more than 1/l.
    """

    name = "inference"
    title = "the sensitive value of a known person"
    of_insensitive = True

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Guess for all people, by default the most frequent value."""
        blind = np.full(len(people), mode(secret))
        weights = view.believe(secret, people)
        guess = guess_likeliest(weights, blind, rng)
        return Answers(people, guess, blind, people.secrets[secret.name], find_share(weights, guess))


class SkewnessAttack(SecretAttack):
    """Suspects the value whose share has risen by the greatest factor, if that is at least two.

    Li, Li and Venkatasubramanian, "t-Closeness", section 3: if one person in a hundred is ill, a class in which half of
    the people are ill is a disclosure. The baseline assigns the same suspicions to people at random.
    """

    name = "skewness"
    title = "who is far more likely than others to have a value"

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Suspect a value only if its share has at least doubled."""
        weights = view.believe(secret, people)
        shares = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
        lift = shares / np.maximum(secret.marginal, 1e-300)
        guess = np.where(lift.max(axis=1) >= LIFT, likeliest(lift, rng), NO_ANSWER)
        return Answers(people, guess, rng.permutation(guess), people.secrets[secret.name], find_share(weights, guess))


class SimilarityAttack(SecretAttack):
    """States the category of a person's value if all remaining values are of this category.

    Li, Li and Venkatasubramanian, "t-Closeness", section 3: gastric ulcer, gastritis and stomach cancer are three
    values and one organ. Categories are the nodes below the root of the sensitive attribute's taxonomy, from the policy
    or else the manifest. The baseline states the most frequent category for the same people.
    """

    name = "similarity"
    title = "whose possible sensitive values are all of one kind"
    of_records = of_values = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: the similar values must be known."""
        reason = super().refuses(view)
        if reason is None and any(categories(view, secret) is None for secret in view.secrets.values()):
            return "no taxonomy shows which sensitive values are similar; give the policy"
        return reason

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        category = categories(view, secret)
        if category is None:
            raise TypeError("an attack that refuses is not run")
        return answer_surely(view, secret, people, category, rng)


def categories(view: ReleaseView, secret: Secret) -> CodeArray | None:
    """Return (n_values,) the category of each value, or None if none are known; a missing value is its own category."""
    found = _by_policy(view, secret)
    if found is None:
        found = _by_manifest(view.manifest.attributes[secret.name])
    if secret.edges is not None or found is None or len(set(found.values())) in (1, len(found)):
        return None
    number = {name: place for place, name in enumerate(dict.fromkeys(found.values()))}
    extra = len(number)
    return np.array(
        [number[found[value]] if value in found else extra + place for place, value in enumerate(secret.values)],
        dtype=np.int32,
    )


def _by_policy(view: ReleaseView, secret: Secret) -> dict[str | None, str] | None:
    """Return the category of each published value by the policy's taxonomy."""
    attribute = None if view.policy is None else view.policy.attributes.get(secret.name)
    if attribute is None or attribute.taxonomy is None:
        return None
    values = [value for value in secret.values if value is not None]
    tree = attribute.taxonomy.build(pa.array(values, pa.string()))
    leaves = tree.encode(pa.array(values, pa.string()))
    top: dict[str | None, str] = {}
    for value, leaf in zip(values, leaves.tolist(), strict=True):
        node = leaf
        while tree.parent[node] >= 0 and tree.parent[node] != tree.root:
            node = int(tree.parent[node])
        top[value] = tree.labels[node]
    return top


def _by_manifest(attribute: Attribute) -> dict[str | None, str] | None:
    """Return the category of each value by the manifest's tree or, if values are generalized, by its widest labels."""
    if attribute.taxonomy is not None:
        tree: Mapping[str, Any] = next(iter(attribute.taxonomy.values()))
        return {leaf: label for label, below in tree.items() for leaf in _leaves(label, below)}
    if not attribute.boxed:
        return None
    covers = attribute.covers
    every = {value for cover in covers.values() for value in cover.get("values", ())}
    wide = {label: cover["values"] for label, cover in covers.items() if len(cover.get("values", ())) < len(every)}
    ordered = sorted(wide, key=lambda label: len(wide[label]))
    return {value: label for label in ordered for value in wide[label]}  # the widest comes last


def _leaves(label: str, below: Mapping[str, Any]) -> list[str]:
    if not below:
        return [label]
    return [leaf for child, rest in below.items() for leaf in _leaves(child, rest)]


class BackgroundKnowledgeAttack(SecretAttack):
    """Excludes the m values whose absence helps most, then guesses the likeliest of the remaining values.

    These are the m most frequent values that are not the person's own: any other choice leaves more other values. The
    baseline uses the same knowledge without the release.
    """

    name = "background-knowledge"
    title = "the sensitive value, once some others are ruled out"
    of_records = True

    def __init__(self, n_targets: int = N_TARGETS, exclusions: int = 2, **beside: Any) -> None:
        super().__init__(n_targets, **beside)
        if exclusions < 1:
            raise UsageError(f"background knowledge excludes at least 1 value; received {exclusions}")
        self.exclusions = exclusions

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        truth = people.secrets[secret.name]
        weights = rule_out(view.believe(secret, people), truth, self.exclusions)
        known = rule_out(np.tile(secret.marginal, (len(people), 1)), truth, self.exclusions)
        guess, blind = likeliest(weights, rng), likeliest(known, rng)
        return Answers(people, np.where(guess == NO_ANSWER, blind, guess), blind, truth, find_share(weights, guess))

    def note(self, view: ReleaseView, secret: Secret, targets: People) -> str | None:
        """Report how many people of the source are left with their own value, which is exact."""
        truth = targets.secrets[secret.name]
        person, first = number_rows([*targets.codes.T, truth + 1], len(targets))
        share = np.zeros(len(first))
        for begin in range(0, len(first), BLOCK):
            own = targets[first[begin : begin + BLOCK]]
            true = own.secrets[secret.name]
            weights = rule_out(view.believe(secret, own), true, self.exclusions)
            share[begin : begin + BLOCK] = find_share(weights, true)
        alone = int(np.bincount(person)[share > 1 - 1e-9].sum())
        worst = (
            f"with the best {self.exclusions} ruled out, {alone:,} of {len(targets):,} people of the source are left "
            f"with their own value alone; the greatest belief in a person's own value is {share.max():.3f}"
        )
        ranges = super().note(view, secret, targets)
        return worst if ranges is None else f"{worst}; {ranges}"


def rule_out(weights: FloatArray, truth: AnyIntArray, exclusions: int) -> FloatArray:
    """Return the weights without the greatest ones of wrong values.

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
