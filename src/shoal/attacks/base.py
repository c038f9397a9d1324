"""What every attack is, and how its counts become rates, a risk and a verdict: here and nowhere else."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray
from shoal.core.errors import InputError, UsageError

if TYPE_CHECKING:
    from shoal.attacks.parts import Secret
    from shoal.attacks.view import Left, ReleaseView


Question = Literal["singling out", "linkability", "inference"]
CONFIDENCE = 0.95
N_TARGETS = 2000
FEWEST = 20
NO_CONTROL = (
    "there is no control group: what anybody could infer about people in general cannot be distinguished from what "
    "the release discloses about the people in it"
)
CLEAR, GRAVE = 0.1, 0.5  # risks from which a finding is called so
LITTLE = 0.05  # a risk that is surely below this is called none
Beliefs: TypeAlias = "Callable[[People], FloatArray]"  # people -> (n, n_values) in proportion to what is believed
NO_ANSWER = -2  # nobody has this value; -1 is one that is not published
TREATED = "quasi attributes were changed before classes were made of them, so who can be in which class is not known"
NOBODYS = "the rows are synthetic and nobody's, so that none of them, and no class of them, can be a person's"


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with the interval that holds the true one, at the stated confidence."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """Return value, low and high."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Tally:
    """How often an attack answered as counted here, and how often it was tried."""

    success: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.success <= self.trials or not self.trials:
            raise ValueError(f"{self.success} of {self.trials} trials is not a count of successes")

    def rate(self, confidence: float = CONFIDENCE) -> Estimate:
        """Return the rate with the interval of Wilson (1927), which is sound for few trials and for rates near 0 or 1.

        >>> rate = Tally(0, 10).rate()
        >>> rate.value, rate.low, round(rate.high, 4)
        (0.0, 0.0, 0.2775)
        """
        z2 = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
        n, p = self.trials, self.success / self.trials
        centre = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = math.sqrt(z2) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        low = 0.0 if self.success == 0 else centre - half
        return Estimate(p, low, 1.0 if self.success == n else centre + half)

    @property
    def failures(self) -> Tally:
        """The same trials, with what did not succeed counted."""
        return Tally(self.trials - self.success, self.trials)

    def as_dict(self) -> dict[str, int]:
        """Return the two counts."""
        return {"success": self.success, "trials": self.trials}


def advantage(one: Tally, other: Tally, confidence: float = CONFIDENCE) -> Estimate:
    """Return the rate of *one* less that of *other*, with every difference that both Wilson intervals allow.

    Newcombe (1998), his method 10, joins the two intervals closer, so that in 5 of 100 cases the truth is outside; here
    it is in less than 1 of 100 if both have as many trials, and never in many more than 5.

    >>> gap = advantage(Tally(56, 70), Tally(48, 80))
    >>> round(gap.value, 4), round(gap.low, 4), round(gap.high, 4)
    (0.2, -0.0085, 0.3865)
    """
    p, q = one.rate(confidence), other.rate(confidence)
    return Estimate(p.value - q.value, p.low - q.high, p.high - q.low)


def residual(attack: Tally, beside: Tally, confidence: float = CONFIDENCE) -> Estimate:
    """Return (a - c) / (1 - c): of what would stay hidden without the release, the share that the attack finds.

    The interval has every risk that both Wilson intervals allow. Nothing is stated below -1; where *beside* never
    fails, nothing stays hidden, and the risk is 0.

    >>> found = residual(Tally(60, 100), Tally(20, 100))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.5, 0.3, 0.643)
    >>> residual(Tally(100, 100), Tally(100, 100)).value
    0.0
    """
    a, c = attack.rate(confidence), beside.rate(confidence)
    return Estimate(_residual(a.value, c.value), _residual(a.low, c.high), _residual(a.high, c.low))


def _residual(attack: float, beside: float) -> float:
    if attack == beside:
        return 0.0
    return max(-1.0, (attack - beside) / (1 - beside)) if beside < 1 else -1.0


@dataclass(frozen=True, slots=True)
class Trials:
    """What an attack did: counts on its targets and, where it has them, on people who are not in the data.

    ``baseline`` is the same without looking at the release. ``variants`` are ways to attack that were tried beside
    the one that counts. An attack that decides between two answers is judged by its advantage, the difference of the
    two rates: to call everybody a member is no achievement, however few others are left who are not called so.
    """

    attack: str
    success: Tally
    control: Tally | None = None
    baseline: Tally | None = None
    variants: Mapping[str, Trials] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    decides: bool = False
    about: str | None = None  # the sensitive column, if one is to be found out

    @property
    def risk(self) -> Estimate:
        """How much more is found than on the control group or, without one, than by the baseline guess."""
        beside = self.control or self.baseline
        if beside is None:
            return self.success.rate()
        return advantage(self.success, beside) if self.decides else residual(self.success, beside)

    def as_dict(self) -> dict[str, Any]:
        """Return all counts, None where there are none, and the risk; without a control group a note says so."""
        stated: dict[str, Any] = {"name": self.attack, "about": self.about, "attack": self.success.as_dict()}
        for name, tally in (("baseline", self.baseline), ("control", self.control)):
            stated[name] = None if tally is None else tally.as_dict()
        stated["risk"] = self.risk.as_dict()
        if self.variants:
            stated["variants"] = {
                name: {key: entry for key, entry in trials.as_dict().items() if key != "notes"}
                for name, trials in self.variants.items()
            }
        notes = [*self.notes]
        if self.control is None and not any(NO_CONTROL in note for note in notes):
            notes.append(NO_CONTROL)
        if notes:
            stated["notes"] = notes
        return stated


@dataclass(frozen=True, slots=True)
class Refusal:
    """An attack that was not tried, and why it has no meaning here."""

    attack: str
    reason: str
    about: str | None = None  # the sensitive column, if one was to be found out

    def as_dict(self) -> dict[str, str | None]:
        """Return all of it, for JSON."""
        return {"name": self.attack, "about": self.about, "refused": self.reason}


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Rows of a table about people: what is known of them, and what is to be found out."""

    codes: CodeArray  # (n, n_known) of the quasi attributes, in the view's codes, or UNKNOWN
    numbers: FloatArray  # (n, n_known) as numbers, days since 1970 for dates; NaN for categories and missing ones
    secrets: Mapping[str, CodeArray]  # sensitive attribute -> (n,) place among the view's values; -1: not published
    table: pa.Table  # the rows as they are
    person: CodeArray  # (n,) whose row it is; those of a person are side by side, unless rows were drawn

    @property
    def n_people(self) -> int:
        """Number of different people."""
        return len(np.unique(self.person))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: AnyIntArray) -> People:
        return People(
            self.codes[rows],
            self.numbers[rows],
            {name: values[rows] for name, values in self.secrets.items()},
            self.table.take(pa.array(rows)),
            self.person[rows],
        )

    def draw(self, n: int, rng: np.random.Generator) -> People:
        """Return a record of n of them, or of all if there are fewer; nobody twice."""
        order = rng.permutation(len(self))
        _, first = np.unique(self.person[order], return_index=True)
        if len(first) < FEWEST:
            raise UsageError(f"fewer than {FEWEST} people tell nothing; give larger tables")
        return self[order[np.sort(first)][:n]]


class Attack(ABC):
    """An adversary with the published rows and their manifest, tried on people of the source.

    Beside the release an adversary may have a register of names, and other releases about the same people. An attack
    asks the view and the people that it is given, never the source's rows; what it needs to know of its targets beyond
    what an adversary knows, it needs for judging its answers only.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[Question] = "inference"  # of opinion 05/2014 of the Article 29 Working Party that it asks
    of_people: ClassVar[bool] = True  # whether each trial is about one person, and not about what the release shows

    def __init__(
        self, n_targets: int = N_TARGETS, *, register: pa.Table | None = None, others: tuple[ReleaseView, ...] = ()
    ) -> None:
        if n_targets < FEWEST:
            raise UsageError(f"{n_targets} targets tell nothing; ask for at least {FEWEST}")
        self.n_targets, self.register, self.others = n_targets, register, others

    @abstractmethod
    def refuses(self, view: ReleaseView) -> str | None:
        """Return why this attack has no meaning for such a release, or None."""

    @abstractmethod
    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Attack people drawn from *targets*, all people of the source, and from a control group that is not in it."""


def verdict(trials: Trials) -> str:
    """Say what the risk that an attack found means.

    >>> from shoal.attacks.base import Tally
    >>> verdict(Trials("x", Tally(400, 1000), Tally(200, 1000))), verdict(Trials("x", Tally(0, 1000)))
    ('clear: 25% of what would stay hidden is found', 'nothing found')
    """
    risk = trials.risk
    if risk.low <= 0:
        return "nothing found" if risk.high <= LITTLE else f"nothing sure, at most {risk.high:.0%}"
    size = "grave" if risk.value >= GRAVE else "clear" if risk.value >= CLEAR else "slight"
    if trials.decides:
        return f"{size}: members are told from others, {risk.value:.0%} better than by chance"
    return f"{size}: {risk.value:.0%} of what would stay hidden is found"


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What an adversary says of each of n people, and what is true; values by their codes, or ``NO_ANSWER``."""

    guess: AnyIntArray
    blind: AnyIntArray  # said without looking at who is left
    truth: AnyIntArray

    @property
    def right(self) -> Tally:
        """How many guesses are right."""
        return Tally(int((self.guess == self.truth).sum()), len(self.truth))

    def try_beside(self, others: Answers | None, name: str) -> Trials:
        """Return the trials of an attack with these answers, and with those on people who are not in the data."""
        blindly = Tally(int((self.blind == self.truth).sum()), len(self.truth))
        return Trials(name, self.right, None if others is None else others.right, blindly)


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
        return said.try_beside(elsewhere, self.name)


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
            blind = guess_likeliest(view.believe(secret, people), mode(secret), rng)
            return Answers(guess_likeliest(beliefs(people), blind, rng), blind, people.secrets[secret.name])

        stated = answer(asked.members)
        return stated.try_beside(None if asked.others is None else answer(asked.others), self.name)


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


def by_column(attack: Attack, view: ReleaseView) -> list[ReleaseView]:
    """Return the views that an attack is tried on: of one that finds out sensitive values, each with one of them."""
    if not isinstance(attack, SensitiveAttack) or not view.secrets:
        return [view]
    return [replace(view, secrets={name: secret}) for name, secret in view.secrets.items()]


def certain(view: ReleaseView, left: Left) -> BoolArray:
    """Return (n,) of whom a single value is left; whom no box covers is not in the data, unless values were changed."""
    alone = np.count_nonzero(left.weights, axis=1) == 1
    return np.asarray(alone & ((left.far == 0) | view.may_miss))


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
