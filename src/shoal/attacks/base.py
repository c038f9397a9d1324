"""The interface of an attack, and the only place that turns its counts into rates, a risk and a verdict."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray
from shoal.core.errors import UsageError
from shoal.core.results import CLEAR, LITTLE, SEVERE, Figures, as_json
from shoal.core.wording import percent

if TYPE_CHECKING:
    from shoal.attacks.view import ReleaseView


Question = Literal["singling out", "linkability", "inference"]
CONFIDENCE = 0.95
ALARMS = 0.003  # share of runs in which an interval may lie above 0 although the release discloses nothing
N_TARGETS = 2000
FEWEST = 7  # people that an attack needs
FEW = 100  # people; with fewer, a note warns that the interval is wide
NO_CONTROL = (
    "there is no control group: inferences that hold for people in general cannot be distinguished from disclosures "
    "about the people in the release"
)
RARE = 0.01  # a case about at most this share of the people does not decide the verdict
TREATED = (
    "quasi attributes were changed before classes were formed, so the attacker cannot compute which classes cover a "
    "person"
)
NOBODYS = "the rows were drawn at random, so no row or class of rows belongs to a particular person"


@dataclass(frozen=True, slots=True)
class Estimate(Figures):
    """A figure with its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Tally(Figures):
    """The number of successes of an attack, and the number of its trials."""

    success: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.success <= self.trials or not self.trials:
            raise ValueError(f"{self.success} of {self.trials} trials is not a count of successes")

    @classmethod
    def of(cls, right: BoolArray) -> Tally:
        """Count the right answers."""
        return cls(int(np.count_nonzero(right)), len(right))

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


def compare(one: Tally, other: Tally, alarms: float = ALARMS, *, decides: bool = False) -> Estimate:
    """Return the share of the cases missed by *other* in which *one* succeeds: (a - c) / (1 - c) for rates a and c.

    For an attack that *decides* between two answers it is the difference a - c. The interval combines the ends of two
    Wilson intervals, so it is wider than Newcombe's (1998). It lies above 0 only if Fisher's exact test distinguishes
    the two rates: if they are equal, this happens by chance in at most a share *alarms* of all runs, however few trials
    there are. No value is below -1.

    >>> found = compare(Tally(60, 100), Tally(20, 100))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.5, 0.3, 0.643)
    >>> compare(Tally(9, 20), Tally(1, 20)).low, compare(Tally(100, 100), Tally(100, 100)).value
    (0.0, 0.0)
    """

    def subtract(rate: float, base: float) -> float:
        if decides or rate == base:
            return rate - base
        return max(-1.0, (rate - base) / (1 - base)) if base < 1 else -1.0

    confidence = max(CONFIDENCE, find_confidence(alarms, one.trials, other.trials))
    a, c = one.rate(confidence), other.rate(confidence)
    low = subtract(a.low, c.high)
    if low > 0 and find_chance(one, other) > alarms:
        low = 0.0
    return Estimate(subtract(a.value, c.value), low, subtract(a.high, c.low))


def find_confidence(alarms: float, n: int, m: int) -> float:
    """Return the confidence at which two Wilson intervals, of n and m trials, are disjoint by chance that rarely.

    For equal rates, the sum of two standard errors exceeds the standard error of the difference.

    >>> round(find_confidence(0.003, 20, 20), 3)  # for a single interval it would be 0.994
    0.948
    """
    apart = math.sqrt(1 / n + 1 / m) / (math.sqrt(1 / n) + math.sqrt(1 / m))
    return 2 * NormalDist().cdf(NormalDist().inv_cdf(1 - alarms) * apart) - 1


def find_chance(one: Tally, other: Tally) -> float:
    """Return the probability that *one* has at least its number of successes if all successes fall on trials at random.

    This is Fisher's exact test, one-sided. It holds even if rates differ between people, as long as these are
    exchangeable.

    >>> round(find_chance(Tally(9, 20), Tally(1, 20)), 4)
    0.0042
    """
    n, m, both, number = one.trials, other.trials, one.success + other.success, one.success

    def choose(trials: int, chosen: int) -> float:
        return math.lgamma(trials + 1) - math.lgamma(chosen + 1) - math.lgamma(trials - chosen + 1)

    term = math.exp(choose(n, number) + choose(m, both - number) - choose(n + m, both))
    total = 0.0
    while term > total * 1e-12:
        total += term
        term *= (n - number) * (both - number) / ((number + 1) * (m - both + number + 1))
        number += 1
    return total


@dataclass(frozen=True, slots=True)
class Trials:
    """The result of an attack: counts for its targets and, with a control group, for people who are not in the data.

    ``baseline`` counts the same guesses made without the release. ``variants`` are other ways to attack, which do not
    count. An attack that decides between two answers is judged by its advantage, the difference of the two rates,
    because calling every person a member is no achievement. ``exposed`` and ``subgroup`` are the same attack on some of
    the people: the people whose answers the attacker is surest of, and the people with the published label of greatest
    risk.
    """

    attack: str
    success: Tally
    control: Tally | None = None
    baseline: Tally | None = None
    variants: Mapping[str, Trials] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    decides: bool = False
    about: str | None = None  # the sensitive column that the attack infers, if any
    alarms: float = ALARMS  # share of runs in which the risk's interval may lie above 0 by chance
    exposed: Trials | None = None
    subgroup: Subgroup | None = None
    true_positives: Mapping[str, Trials | None] = field(default_factory=dict)  # by the false positive rate
    conclusion: str | None = None  # replaces the usual verdict

    @property
    def risk(self) -> Estimate:
        """The advantage over the control group or, without one, over the baseline guess."""
        base = self.control or self.baseline
        if base is None:
            return self.success.rate()
        return compare(self.success, base, self.alarms, decides=self.decides)

    @property
    def cases(self) -> list[tuple[str, Trials]]:
        """The average, the most exposed and the worst subgroup, as far as they were measured, each with its name."""
        found = [("", self)]
        if self.exposed is not None:
            found.append((f"for the {self.exposed.success.trials:,} most exposed, ", self.exposed))
        if self.subgroup is not None:
            found.append((f"for people with {self.subgroup}, ", self.subgroup.trials))
        return found

    @property
    def worst_case(self) -> tuple[str, Trials]:
        """The case with the largest lower bound; a case about at most 1% of the people only if no other succeeds."""
        return max(self.cases, key=lambda case: (case[1].risk.low > 0, not self.is_rare(case[1]), case[1].risk.low))

    def is_rare(self, case: Trials) -> bool:
        return case.success.trials <= RARE * self.success.trials

    @property
    def worst(self) -> Estimate:
        return self.worst_case[1].risk

    def counts(self) -> dict[str, object]:
        """Return the tallies (None if missing) and the risk."""
        tallies = {"attack": self.success, "baseline": self.baseline, "control": self.control}
        stated: dict[str, object] = as_json({**tallies, "risk": self.risk})
        return stated

    def as_dict(self) -> dict[str, object]:
        """Return all counts and risks; without a control group, a note mentions it."""
        stated: dict[str, object] = {"name": self.attack, "about": self.about, **self.counts()}
        stated["worst"] = self.worst.as_dict() | {"rare": self.is_rare(self.worst_case[1])}
        stated["most_exposed"] = self.exposed and self.exposed.counts()
        stated["worst_subgroup"] = self.subgroup and self.subgroup.as_dict()
        if self.true_positives:
            stated["true_positives"] = {
                rate: trials and trials.counts() for rate, trials in self.true_positives.items()
            }
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
class Subgroup:
    """The people who share a published label of a quasi attribute; of all groups, the one with the largest risk."""

    attribute: str
    label: str | None  # None: the value is missing
    trials: Trials
    among: int

    def __str__(self) -> str:
        return f"{self.attribute} = {'(missing)' if self.label is None else self.label}"

    def as_dict(self) -> dict[str, object]:
        return {"attribute": self.attribute, "label": self.label, "among": self.among, **self.trials.counts()}


@dataclass(frozen=True, slots=True)
class Refusal:
    """An attack that does not apply to a release, and the reason."""

    attack: str
    reason: str
    about: str | None = None  # the sensitive column that the attack would have inferred

    def as_dict(self) -> dict[str, str | None]:
        return {"name": self.attack, "about": self.about, "refused": self.reason}


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Rows of a table about people: the attacker's knowledge, and the values to be inferred."""

    codes: CodeArray  # (n, n_known) of the quasi attributes, in the view's codes, or UNKNOWN
    numbers: FloatArray  # (n, n_known) as numbers, days since 1970 for dates; NaN for categories and missing ones
    secrets: Mapping[str, CodeArray]  # sensitive attribute -> (n,) place among the view's values; -1: not published
    table: pa.Table  # the rows as they are
    person: CodeArray  # (n,) the person of each row; a person's rows are adjacent unless rows were drawn

    @property
    def n_people(self) -> int:
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
        """Return one record of each of n people, or of all people if there are fewer."""
        order = rng.permutation(len(self))
        _, first = np.unique(self.person[order], return_index=True)
        if len(first) < FEWEST:
            raise UsageError(f"fewer than {FEWEST} people are too few for an attack; give larger tables")
        return self[order[np.sort(first)][:n]]


class Attack(ABC):
    """An adversary who has the published rows and their manifest, tried on people of the source.

    The adversary may also have a register of names, and other releases about the same people. An attack reads the view
    and the people that it is given, never the source's rows. It uses the targets' true values only to judge its
    answers.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[Question] = "inference"  # the criterion of Article 29 Working Party opinion 05/2014
    bears_on: ClassVar[Literal["identity", "attribute", "membership"]] = "attribute"  # risk of the decision record
    of_people: ClassVar[bool] = True  # whether each trial is about one person, rather than about a predicate
    of_insensitive: ClassVar[bool] = False  # whether the attacker has insensitive columns as well

    def __init__(
        self, n_targets: int = N_TARGETS, *, register: pa.Table | None = None, others: tuple[ReleaseView, ...] = ()
    ) -> None:
        if n_targets < FEWEST:
            raise UsageError(f"the number of targets, {n_targets}, is too small; give at least {FEWEST}")
        self.n_targets, self.register, self.others = n_targets, register, others

    @abstractmethod
    def refuses(self, view: ReleaseView) -> str | None:
        """Return why the attack does not apply to such a release, or None."""

    @abstractmethod
    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Attack people drawn from *targets*, all people of the source, and from a control group outside the data."""


def name_size(risk: Estimate) -> str:
    return "severe" if risk.value >= SEVERE else "clear" if risk.value >= CLEAR else "slight"


def verdict(trials: Trials) -> str:
    """Describe the largest of the risks that an attack measured, and the people concerned.

    >>> from shoal.attacks.base import Tally
    >>> verdict(Trials("x", Tally(400, 1000), Tally(200, 1000))), verdict(Trials("x", Tally(0, 1000)))
    ('clear: 25% of the guesses that chance would miss are right', 'nothing found')
    >>> verdict(Trials("x", Tally(10, 1000), Tally(9, 1000), exposed=Trials("x", Tally(20, 20), Tally(4, 20))))
    'severe: for the 20 most exposed, 100% of the guesses that chance would miss are right (0.1% on average)'
    """
    if trials.conclusion is not None:
        return trials.conclusion
    whose, worst = trials.worst_case
    average, risk = trials.risk, worst.risk
    if risk.low <= 0:
        return "nothing found" if average.high <= LITTLE else f"inconclusive, at most {percent(average.high)}"
    what = (
        f"members are recognized, {percent(risk.value)} better than by chance"
        if trials.decides
        else f"{percent(risk.value)} of the guesses that chance would miss are right"
    )
    beside = f" ({percent(max(average.value, 0))} on average)" if whose else ""
    if not whose and trials.exposed is not None and trials.exposed.risk.low > risk.high:
        exposed = trials.exposed
        beside = f" ({percent(exposed.risk.value)} for the {exposed.success.trials:,} most exposed)"
    size = "slight" if trials.is_rare(worst) else name_size(risk)
    return f"{size}: {whose}{what}{beside}"
