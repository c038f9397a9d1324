"""Attacks that find out sensitive values: what they answer about people, and how the answers are judged.

Six of them are here: homogeneity, inference, skewness, similarity, background knowledge, and a register of names.
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
from shoal.attacks.view import UNKNOWN, Left, ReleaseView, match_texts
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import InputError, UsageError
from shoal.manifest import Attribute
from shoal.release.sliced.table import number_rows

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

    def select(self, rows: IntArray) -> Answers:
        """Return the answers about some of the people."""
        own = self.guess[rows], self.blind[rows], self.truth[rows], self.belief[rows]
        return Answers(self.people[rows], *own)

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
    of_hidden: ClassVar[bool] = False  # whether generalized quasi attributes are found out, too

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
    if not isinstance(attack, SensitiveAttack):
        return [view]
    found = [replace(view, secrets={name: secret}) for name, secret in view.secrets.items()]
    if attack.of_hidden and attack.refuses(view) is None:
        found += hide_quasi(view)
    return found or [view]


def hide_quasi(view: ReleaseView) -> list[ReleaseView]:
    """Return a view for each generalized quasi attribute, in which its values are to be found out by the others."""
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
    return int(secret.marginal.argmax())


BLOCK = 2**14  # people about whom beliefs are held at a time
LIFT = 2.0  # of a value's share, from which on skewness suspects somebody of it


class HomogeneityAttack(SecretAttack):
    """Says the value of somebody only if it is the only one left: everybody who may be the person has it.

    Machanavajjhala et al., "l-Diversity", section 2.1. Without the release, the most frequent value is said of the
    same people.
    """

    name = "homogeneity"
    title = "whose sensitive value is the only one left"
    of_records = of_values = True

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        return answer_surely(view, secret, people, np.arange(len(secret.values)), rng)


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


class SimilarityAttack(SecretAttack):
    """Says the category of somebody's value if everything that is left is of this category.

    Li, Li and Venkatasubramanian, "t-Closeness", section 3: gastric ulcer, gastritis and stomach cancer are three
    values and one stomach. Categories are the nodes below the root of the sensitive attribute's taxonomy, by the
    policy or else by the manifest. Without the release, the most frequent category is said of the same people.
    """

    name = "similarity"
    title = "whose possible sensitive values are all of one kind"
    of_records = of_values = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: it must be known which values are alike."""
        reason = super().refuses(view)
        if reason is None and any(categories(view, secret) is None for secret in view.secrets.values()):
            return "no taxonomy shows which sensitive values are similar; give the policy"
        return reason

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Answer where one category is left."""
        category = categories(view, secret)
        if category is None:
            raise TypeError("an attack that refuses is not run")
        return answer_surely(view, secret, people, category, rng)


def categories(view: ReleaseView, secret: Secret) -> CodeArray | None:
    """Return (n_values,) the category of each value, or None if nothing tells; a missing value is one of its own."""
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
    """Return the category of each value by the manifest's tree or, of generalized values, by its widest labels."""
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
        share = np.zeros(len(first))
        for begin in range(0, len(first), BLOCK):
            own = targets[first[begin : begin + BLOCK]]
            true = own.secrets[secret.name]
            weights = rule_out(view.believe(secret, own), true, self.exclusions)
            share[begin : begin + BLOCK] = find_share(weights, true)
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


class ExternalAttack(SecretAttack):
    """Names the sensitive value of a person of a register if just one published entry can be the person's.

    Sweeney's voter list. A *register* has names and quasi attributes; columns that it shares with the source and that
    are not published tell who is who there. Without a register, everybody of the source is in one that has all
    quasi attributes. Without the release, the most frequent value is said of the same people.
    """

    name = "external"
    title = "whose record can be found with a register of names"
    question = "singling out"
    bears_on = "identity"
    of_records = of_values = True

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Look up the people of the register who are in the source."""
        if self.register is None:
            return super().run(view, targets, control, rng)
        people = find_registered(view, targets, self.register)
        if control is not None:  # only the attributes of the register are known of its people, too
            known = np.isin(view.known, self.register.column_names)
            control = replace(control, codes=np.where(known, control.codes, UNKNOWN).astype(np.int32))
        return super().run(view, people, control, rng)

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Answer where one entry is left."""
        left = view.find_left(secret, people)
        found = (left.entries == 1) & ((left.far == 0) | view.may_miss)
        return Answers(
            people,
            np.where(found, likeliest(left.weights, rng), NO_ANSWER),
            np.where(found, mode(secret), NO_ANSWER),
            people.secrets[secret.name],
            found.astype(np.float64),
        )

    def note(self, view: ReleaseView, secret: Secret, targets: People) -> str | None:
        """Say who the register is."""
        if self.register is None:
            return "no register was given: everybody in the source is assumed to be in one with all quasi attributes"
        ranges = super().note(view, secret, targets)
        found = f"{len(targets):,} people of the source are in the register"
        return found if ranges is None else f"{found}; {ranges}"


def find_registered(view: ReleaseView, targets: People, register: pa.Table) -> People:
    """Return the people of the source who are in the register, with what the register knows of them.

    A quasi attribute that the register does not have stays unknown; names that several people share tell nobody.
    """
    published = view.treatments.shown
    names = [name for name in register.column_names if name in targets.table.column_names and name not in published]
    if not names:
        raise UsageError("the register shares no name with the source: give one with a column of identifiers")
    if not any(name in register.column_names for name in view.known):
        raise UsageError("the register has none of the release's quasi attributes")
    ours, theirs = ([table.column(name) for name in names] for table in (targets.table, register))
    rows, places = match_texts(ours, theirs, alone=True)
    found, stated = targets[rows], view.people(register, "the register", partly=True)[places]
    return replace(stated, secrets=found.secrets, table=found.table)
