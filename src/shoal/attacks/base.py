"""What every attack is, and how its counts become rates and a risk with an interval: here and nowhere else."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa

from shoal.core.errors import UsageError

if TYPE_CHECKING:
    from shoal.attacks.people import People
    from shoal.attacks.view import ReleaseView

Question = Literal["singling out", "linkability", "inference"]
CONFIDENCE = 0.95
N_TARGETS = 2000
FEWEST = 20
NO_CONTROL = (
    "there is no control group: what anybody could infer about people in general cannot be told from what the release "
    "discloses about the people in it"
)


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

    The interval has every risk that both Wilson intervals allow. Nothing is told below -1; where *beside* never
    fails, nothing stays hidden, and the risk is 0.

    >>> found = residual(Tally(60, 100), Tally(20, 100))
    >>> round(found.value, 3), round(found.low, 3), round(found.high, 3)
    (0.5, 0.3, 0.643)
    >>> residual(Tally(100, 100), Tally(100, 100)).value
    0.0
    """
    a, c = attack.rate(confidence), beside.rate(confidence)
    return Estimate(_found(a.value, c.value), _found(a.low, c.high), _found(a.high, c.low))


def _found(attack: float, beside: float) -> float:
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
        told: dict[str, Any] = {"name": self.attack, "about": self.about, "attack": self.success.as_dict()}
        for name, tally in (("baseline", self.baseline), ("control", self.control)):
            told[name] = None if tally is None else tally.as_dict()
        told["risk"] = self.risk.as_dict()
        if self.variants:
            told["variants"] = {
                name: {key: entry for key, entry in trials.as_dict().items() if key != "notes"}
                for name, trials in self.variants.items()
            }
        notes = [*self.notes]
        if self.control is None and not any(NO_CONTROL in note for note in notes):
            notes.append(NO_CONTROL)
        if notes:
            told["notes"] = notes
        return told


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
class Beside:
    """What an adversary may have beside the release: a register of names, and other releases about the same people."""

    register: pa.Table | None = None
    others: tuple[ReleaseView, ...] = ()


class Attack(ABC):
    """An adversary with the published rows and their manifest, tried on people of the source.

    An attack asks the view and the people that it is given, never the source's rows; what it needs to know of its
    targets beyond what an adversary knows, it needs for judging its answers only.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[Question] = "inference"  # of opinion 05/2014 of the Article 29 Working Party that it asks
    of_people: ClassVar[bool] = True  # whether each trial is about one person, and not about what the release shows

    def __init__(self, n_targets: int = N_TARGETS) -> None:
        if n_targets < FEWEST:
            raise UsageError(f"{n_targets} targets tell nothing; ask for at least {FEWEST}")
        self.n_targets = n_targets

    @classmethod
    def equipped(cls, n_targets: int, beside: Beside) -> Self:  # noqa: ARG003
        """Return the attack with what it can use of what an adversary has beside the release."""
        return cls(n_targets)

    @abstractmethod
    def refuses(self, view: ReleaseView) -> str | None:
        """Return why this attack has no meaning for such a release, or None."""

    @abstractmethod
    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Attack people drawn from *targets*, all people of the source, and from a control group that is not in it."""


class AttackBesideOthers(Attack):
    """An attack that also looks at other releases about the same people, if there are some."""

    def __init__(self, n_targets: int = N_TARGETS, others: tuple[ReleaseView, ...] = ()) -> None:
        super().__init__(n_targets)
        self.others = others

    @classmethod
    def equipped(cls, n_targets: int, beside: Beside) -> Self:
        """Return the attack with the other releases."""
        return cls(n_targets, beside.others)
