"""linkability: the release brings together two partial views of the same people.

composition: other releases about the same people, also linked by tokens of persons, leave fewer values.

external: a register of names identifies people in the release, and thereby their sensitive values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shoal.attacks.base import FEWEST, NO_CONTROL, Attack, People, Tally, Trials
from shoal.attacks.parts import Secret, match_texts
from shoal.attacks.sensitive import (
    NO_ANSWER,
    Answers,
    AttackGroups,
    SecretAttack,
    SensitiveAttack,
    find_share,
    guess_likeliest,
    likeliest,
    mode,
)
from shoal.attacks.view import UNKNOWN, ReleaseView, Remainder
from shoal.core.arrays import AnyIntArray, BoolArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.taxonomies.tree import free_label

CANDIDATES = 10
SPLITS = 8


class LinkabilityAttack(Attack):
    """Matches a first half of a person's known values with one of ten second halves.

    Two adversaries have tables with different halves of the quasi attributes, and want to know which rows are about the
    same person. A second half B is the likelier, the larger the share of the published records matching B that also
    match the first half; if no record matches any, the nearest record decides. Halves are split at random. The baseline
    picks at random.

    Records with the same token of a person, in one release or in two, certainly belong together: ``equal tokens``
    counts them, and replaces the attack if it links more.
    """

    name = "linkability"
    title = "whether two records are about one person"
    question = "linkability"
    bears_on = "identity"
    of_insensitive = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: there must be at least two quasi attributes."""
        return None if len(view.known) > 1 else "there is only one quasi attribute, which cannot be split into halves"

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        members = targets.draw(self.n_targets, rng)
        others = None if control is None else control.draw(self.n_targets, rng)
        n_known = len(view.known)  # the first half is never empty, and never has all of them
        splits = np.stack([rng.permutation(n_known) < n_known // 2 for _ in range(SPLITS)])
        inside = _link(view, members, splits, rng)
        found = inside.try_beside(None if others is None else _link(view, others, splits, rng), self.name, view)
        notes, variants = [f"one of {CANDIDATES} candidates is right each time"], {"halves": found}
        repeated, *shared = of_one_person(view), *(in_both(view, other) for other in self.others)
        if repeated:
            notes.append(f"{repeated:,} records share a person's token with another, so they certainly belong together")
        notes += [
            f"{n:,} records have the same token in another release, so they certainly belong together"
            for n in shared
            if n
        ]
        if linked := max(repeated, *shared, 0):
            none = Tally(0, view.n_rows)  # different people share no token
            tokens = Trials("equal tokens", Tally(linked, view.n_rows), none, none)
            variants[tokens.attack] = tokens
            found = max(found, tokens, key=lambda each: each.worst.low)
        return replace(found, attack=self.name, variants=variants, notes=tuple(notes))


def _link(view: ReleaseView, people: People, splits: BoolArray, rng: np.random.Generator) -> Answers:
    """Return which candidate is picked for each of the people; the first one is right."""
    n = len(people)
    first = splits[rng.integers(len(splits), size=n)]  # (n, n_known)
    other = (np.arange(n)[:, None] + rng.integers(1, n, size=(n, CANDIDATES - 1))) % n  # never the person
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
        belief[lost] = score[lost].max(axis=1)  # after all others, the nearest first
    best = score >= score.max(axis=1, keepdims=True) - 1e-12
    picked = np.where(best, rng.random(best.shape), -1.0).argmax(axis=1)
    return Answers(people, picked, rng.integers(CANDIDATES, size=n), np.zeros(n, dtype=np.int64), belief)


class CompositionAttack(SensitiveAttack):
    """Guesses the likeliest of the values that all releases together leave for a person who is in all of them.

    Ganta, Kasiviswanathan and Smith, "Composition attacks and auxiliary information in data privacy" (KDD 2008): the
    values that every release leaves. People for whom this release alone gives the right guess are not targets, so a
    success is due to the others. The baseline assigns the information of the others to people at random. If records of
    two releases have the same token of a person, the records linked by it decide.
    """

    name = "composition"
    title = "what other releases about the same people add"
    question = "linkability"

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: there must be other releases with the same sensitive attributes."""
        if not self.others:
            return "no other release about the same people was given"
        reason = super().refuses(view)
        if reason is not None or any(in_both(view, other) for other in self.others):
            return reason
        if any(not self._list_comparable(secret) for secret in view.secrets.values()):
            return "the other releases do not publish the sensitive attribute, or not in values that can be compared"
        return None

    def judge(self, view: ReleaseView, secret: Secret, asked: AttackGroups, rng: np.random.Generator) -> Trials:
        """Count people for whom all releases together, but not this release alone, give the right guess."""
        linked = [found for other in self.others if (found := LinkedRecords.of(view, other)) is not None]
        together, beyond = self._answer(view, secret, linked, asked.members, rng)
        if len(beyond.truth) < FEWEST:
            raise UsageError("this release alone reveals the values of nearly all people, so others can add nothing")
        together_there, beyond_there = None, None
        if asked.others is not None:
            together_there, beyond_there = self._answer(view, secret, linked, asked.others, rng)
        notes = [f"targets are, of {len(asked.members):,} people, those whom this release alone does not give away"]
        if beyond_there is not None and len(beyond_there.truth) < FEWEST:
            beyond_there = None
            notes.append(f"this release alone gives away all but a few people of the control group: {NO_CONTROL}")
        notes += [f"{each.view.n_rows:,} records have the same token in another release" for each in linked]
        everybody = together.try_beside(together_there, "everybody", view)
        trials = beyond.try_beside(beyond_there, self.name, view)
        return replace(trials, variants={"everybody": everybody}, notes=tuple(notes))

    def _list_comparable(self, secret: Secret) -> list[tuple[ReleaseView, Secret]]:
        """Return the other releases with the sensitive attribute, in values that can be compared."""
        found = [(other, other.secrets[secret.name]) for other in self.others if secret.name in other.secrets]
        return [(other, own) for other, own in found if (own.edges is None) == (secret.edges is None)]

    def _answer(
        self,
        view: ReleaseView,
        secret: Secret,
        linked: Sequence[LinkedRecords],
        people: People,
        rng: np.random.Generator,
    ) -> tuple[Answers, Answers]:
        """Answer about all people, blindly from this release alone; and about those whom it alone gets wrong.

        The blind answers about the latter use the information of the others about random people.
        """
        alone = view.believe(secret, people)
        factors = np.ones_like(alone)
        for other, own in self._list_comparable(secret):
            # The product changes a guess only if the other release differs: one with the same classes changes none.
            weights = other.believe(own, other.people(people.table, "the people attacked", partly=True))
            total = weights.sum(axis=1, keepdims=True)
            factors *= np.where(total > 0, _align(secret, own, weights) / np.maximum(total, 1e-300), 1.0)
        seed = int(rng.integers(2**63))  # ties are broken equally, so a guess changes only for a reason

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


def _align(secret: Secret, own: Secret, weights: FloatArray) -> FloatArray:
    """Return weights of another release's values as weights of this one's; 0 for values that it does not have."""
    number = {value: place for place, value in enumerate(own.values)}
    place = np.array([number.get(value, -1) for value in secret.values])
    return np.append(weights, np.zeros((len(weights), 1)), axis=1)[:, place]


class ExternalAttack(SecretAttack):
    """States the sensitive value of a person of a register if exactly one published entry can be the person's.

    This is Sweeney's voter list. A *register* has names and quasi attributes; the unpublished columns that it shares
    with the source identify its people there. Without a register, the attack assumes one with all people and all quasi
    attributes. The baseline states the most frequent value for the same people.
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
        if control is not None:  # the control group, too, is known only by the attributes of the register
            known = np.isin(view.known, self.register.column_names)
            control = replace(control, codes=np.where(known, control.codes, UNKNOWN).astype(np.int32))
        return super().run(view, people, control, rng)

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
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
        """Describe the register."""
        if self.register is None:
            return "no register was given: the attack assumes one with all people and all quasi attributes"
        ranges = super().note(view, secret, targets)
        found = f"{len(targets):,} people of the source are in the register"
        return found if ranges is None else f"{found}; {ranges}"


def find_registered(view: ReleaseView, targets: People, register: pa.Table) -> People:
    """Return the people of the source who are in the register, with the values that the register has.

    A quasi attribute that the register does not have stays unknown; ambiguous names match no one.
    """
    published = view.treatments.shown
    names = [name for name in register.column_names if name in targets.table.column_names and name not in published]
    if not names:
        raise UsageError("the register shares no name with the source: give one with a column of identifiers")
    if not any(name in register.column_names for name in view.known):
        raise UsageError("the register lacks all of the release's quasi attributes")
    ours, theirs = ([table.column(name) for name in names] for table in (targets.table, register))
    rows, places = match_texts(ours, theirs, alone=True)
    found, stated = targets[rows], view.people(register, "the register", partly=True)[places]
    return replace(stated, secrets=found.secrets, table=found.table)


def token_columns(view: ReleaseView) -> list[str]:
    return [name for name, stated in view.manifest.techniques.items() if stated.get("of") == "identifier"]


def of_one_person(view: ReleaseView) -> int:
    """Return how many published records share a person's token with another record."""
    columns = [view.rows.column(name).drop_null() for name in token_columns(view)]
    counts = [column.value_counts().field("counts").to_numpy() for column in columns]
    return max([0, *(int(each[each > 1].sum()) for each in counts)])


@dataclass(frozen=True, slots=True, eq=False)
class LinkedRecords:
    """Records of two releases with the same token, side by side: one view of the values of both."""

    view: ReleaseView
    names: tuple[tuple[str, str], ...]  # each attribute of the other release, and its name here

    @classmethod
    def of(cls, view: ReleaseView, other: ReleaseView) -> LinkedRecords | None:
        """Link two releases that consist of rows, or return None if they have no tokens in common.

        A token that several records of the other release have is left out.
        """
        if any(one.sliced is not None or one.form.by_plan for one in (view, other)):
            return None
        rows, beside = _match_tokens(view, other)
        if not len(rows):
            return None
        names = tuple((name, free_label(f"{name} (other)", view.manifest.attributes)) for name in other.known)
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

    def find_left(self, secret: Secret, people: People) -> Remainder:
        """Return the values that the linked records leave for people; none if no record covers a person."""
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
    """Return how many records of a release have a token that occurs once in another."""
    return len(_match_tokens(view, other)[0])


def _match_tokens(view: ReleaseView, other: ReleaseView) -> tuple[IntArray, IntArray]:
    """Return the rows of two releases that have the same token, by the pair of columns with the most matches."""
    best = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    for one in token_columns(view):
        for two in token_columns(other):
            found = match_texts([view.rows.column(one)], [other.rows.column(two)], alone=False)
            best = found if len(found[0]) > len(best[0]) else best
    return best
