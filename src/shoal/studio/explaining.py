"""Privacy models in plain words: what each promises, and what it leaves open."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from shoal.core.registry import discover
from shoal.models.base import PrivacyModel
from shoal.reports.limits import LIMITS
from shoal.studio.parameters import Parameter


@dataclass(frozen=True, slots=True)
class Explanation:
    """A model for people who have never heard of it."""

    name: str
    promise: str
    open: str  # what it does not protect against
    example: str  # what a usual choice means


# A usual choice of what must be given, to begin with.
_STARTS: dict[str, dict[str, Any]] = {
    "k-anonymity": {"k": 5},
    "column-frequency": {"k": 5},
    "k-map": {"k": 5, "population": ""},
    "delta-presence": {"min": 0, "max": 0.5, "population": ""},
    "distinct-l-diversity": {"l": 3},
    "simple-l-diversity": {"l": 2},
    "entropy-l-diversity": {"l": 2},
    "recursive-cl-diversity": {"c": 2, "l": 2},
    "tau-l-diversity": {"tau": 0.5, "l": 3},
    "t-closeness": {"t": 0.3},
    "alpha-k-anonymity": {"alpha": 0.5, "k": 5},
    "beta-likeness": {"beta": 2},
    "delta-disclosure": {"delta": 2},
    "confidence-bounding": {"most": 0.5},
    "synthetic": {"epsilon": 1},
}


_TEXTS: dict[str, tuple[str, str]] = {
    "k-anonymity": (
        "Nobody can be told apart from at least k - 1 others by the columns that others may know.",
        "With k = 10 whoever knows somebody's quasi values finds ten records that fit, or more.",
    ),
    "column-frequency": (
        "For slicing: every bucket has at least k records, and no combination of a part's quasi values is rarer.",
        "With k = 10 ten records or more share the bucket, and ten the age and sex, if these two are one part.",
    ),
    "k-map": (
        "Every published combination fits at least k people of a population table that you add.",
        "With k = 10 a combination may be of one record, as long as ten people of the population share it.",
    ),
    "delta-presence": (
        "Nobody can be sure that a person of the population is in the table, or that they are not.",
        "With min = 0 and max = 0.5 at most every second person who fits a combination is in the table.",
    ),
    "distinct-l-diversity": (
        "Every class has at least l different sensitive values, so that none is given away outright.",
        "With l = 3 three diagnoses are possible for everybody, however unlikely two of them are.",
    ),
    "simple-l-diversity": (
        "Whoever guesses somebody's sensitive value is right with a probability of 1/l at most.",
        "With l = 4 no diagnosis has more than a quarter of a class.",
    ),
    "entropy-l-diversity": (
        "The sensitive values of a class are, taken together, as uncertain as l equally frequent ones.",
        "With l = 3 the class tells no more than if three diagnoses were equally likely.",
    ),
    "recursive-cl-diversity": (
        "The most frequent value is not too frequent beside the rare ones, also once somebody ruled a few out.",
        "With c = 2 and l = 3 the most frequent value has less than twice the records of the third and rarer ones.",
    ),
    "tau-l-diversity": (
        "However many values somebody guesses, one or several, the chance to be right stays under a curve.",
        "With tau = 0.5 and l = 3 one value has at most half of a class, and two have at most three quarters.",
    ),
    "t-closeness": (
        "Looking somebody up teaches little beyond what the table as a whole tells.",
        "With t = 0.2 at most a fifth of a class would have to change its value to look like the whole table.",
    ),
    "alpha-k-anonymity": (
        "k-anonymity, and no sensitive value has more than the share alpha of a class.",
        "With alpha = 0.5 and k = 10 ten records fit everybody, and at most half of them share a diagnosis.",
    ),
    "beta-likeness": (
        "No value becomes more than 1 + beta times as likely by looking somebody up, rare values included.",
        "With beta = 1 a disease that one in a hundred has is believed of nobody with more than two in a hundred.",
    ),
    "delta-disclosure": (
        "By looking somebody up, values become neither much more nor much less likely.",
        "With delta = 1 a value is at most 2.7 times as frequent in a class as in the table, and not rarer than that.",
    ),
    "confidence-bounding": (
        "Nobody is believed to have a value that could harm them with more than a given confidence.",
        "With most = 0.2 and 'none' harmless, at most a fifth of a class has any one disease.",
    ),
}


def explanations() -> tuple[Explanation, ...]:
    """Return every model that a policy may name, those that are simplest to explain first."""
    known = discover("shoal.models", PrivacyModel)
    order = [*(name for name in _TEXTS if name in known), *(name for name in known if name not in _TEXTS)]
    return tuple(_explained(name, known[name].title) for name in order)


def _explained(name: str, title: str) -> Explanation:
    promise, example = _TEXTS.get(name, (f"{title[:1].upper()}{title[1:]}.", ""))
    return Explanation(name, promise, LIMITS.get(name, ""), example)


def start_of(name: str, fields: Iterable[Parameter]) -> dict[str, Any]:
    """Return parameters for a model or method that was just chosen: what must be given, with a usual value."""
    usual = _STARTS.get(name, {})
    return {field.name: usual.get(field.name, field.least or 1) for field in fields if field.required}
