"""Which rows of a comparison are better: a score by stated weights, and the frontier of risk and what is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from shoal.attacks.base import Estimate
from shoal.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from shoal.compare.result import Row


RISKS = ("singling-out", "linkability", "inference")
HEADS = {risk: risk.replace("-", " ") for risk in RISKS}  # of tables and pictures
MEASURES = ("counts", "association", "learning")
PARTS = (*RISKS, *MEASURES)
EQUAL_WEIGHTS: Mapping[str, float] = dict.fromkeys(PARTS, 1.0)
MOST_WEIGHT = 1_000_000
AnyWeights: TypeAlias = str | Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a row stands among the others.

    ``risk`` and ``kept`` are weighted means of measured values, each put between 0 and 1; ``score`` is the weighted
    mean of 1 less the risk and of what is kept, so a dominated row never has a better score than one that dominates it.
    """

    rank: int  # 1 is best; equal scores share it
    score: float
    risk: Estimate
    kept: float
    dominated_by: tuple[str, ...]  # rows with at most this risk that keep at least as much, and are not equal
    clearly: bool  # whether one of those has all of its risk's interval below this row's

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {
            "rank": self.rank,
            "score": self.score,
            "risk": self.risk.value,
            "risk_low": self.risk.low,
            "risk_high": self.risk.high,
            "kept": self.kept,
            "dominated_by": list(self.dominated_by),
            "clearly_dominated": self.clearly,
        }


NO_STANDING: Mapping[str, Any] = {
    **dict.fromkeys(("rank", "score", "risk", "risk_low", "risk_high", "kept")),
    "dominated_by": [],
    "clearly_dominated": False,
}


def read_weights(weights: AnyWeights | None) -> dict[str, float]:
    """Read weights as they are typed, or a mapping; parts that are not named keep the weight 1.

    >>> read_weights("inference=2,counts=0")["inference"], read_weights(None)["linkability"]
    (2.0, 1.0)
    """
    if isinstance(weights, str):
        given: dict[str, Any] = {}
        for part in filter(None, map(str.strip, weights.split(","))):
            name, _, number = map(str.strip, part.partition("="))
            if name in given:
                raise UsageError(f"the weight of {name} is given twice")
            given[name] = number
    else:
        given = dict(weights or {})
    found = dict(EQUAL_WEIGHTS)
    for name, number in given.items():
        if name not in found:
            raise UsageError(
                f"there is no weight {name!r}{did_you_mean(name, PARTS) or '; known: ' + ', '.join(PARTS)}"
            )
        found[name] = _weight(name, number)
    for side, what in ((RISKS, "risks"), (MEASURES, "measures of what is kept")):
        if not any(found[name] for name in side):
            raise UsageError(f"all {what} have the weight 0; {', '.join(side)}: one needs more")
    return found


def used_weights(rows: Sequence[Row], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weights above 0 of what was measured in some row; nothing if no risk or nothing kept was."""
    used = {
        part: weights[part] for part in PARTS if weights[part] and any(_value(row, part) is not None for row in rows)
    }
    return used if any(part in used for part in RISKS) and any(part in used for part in MEASURES) else {}


def standings(rows: Sequence[Row], labels: Sequence[str], weights: Mapping[str, float]) -> dict[int, Standing]:
    """Return where each row stands, by its place; rows that cannot be ranked have none.

    A part that was measured in no row has no weight. A row in which something was not measured that others are ranked
    by is left out: what was not seen is not judged.
    """
    used = used_weights(rows, weights)
    if not used:
        return {}
    measured = {place: pair for place, row in enumerate(rows) if (pair := _weigh(row, used)) is not None}
    scores = {place: _score(risk.value, kept, used) for place, (risk, kept) in measured.items()}
    found = {}
    for place, (risk, kept) in measured.items():
        above = [
            other
            for other, (less, more) in measured.items()
            if less.value <= risk.value and more >= kept and (less.value, more) != (risk.value, kept)
        ]
        found[place] = Standing(
            rank=1 + sum(score > scores[place] for score in scores.values()),
            score=scores[place],
            risk=risk,
            kept=kept,
            dominated_by=tuple(labels[other] for other in above),
            clearly=any(measured[other][0].high < risk.low for other in above),
        )
    return found


def _value(row: Row, part: str) -> Estimate | None:
    """Return a part's measured value, a risk with its interval, between 0 and 1."""
    if part in RISKS:
        trials = row.trials(part)
        found = None if trials is None else trials.risk
    else:
        kept = row.kept(part)
        found = None if kept is None else Estimate(kept, kept, kept)
    return None if found is None else Estimate(*(min(max(each, 0.0), 1.0) for each in found.as_dict().values()))


def _weigh(row: Row, used: Mapping[str, float]) -> tuple[Estimate, float] | None:
    """Return the weighted means of a row's risks and of what it keeps; None if something was not measured."""
    values = {part: _value(row, part) for part in used}
    if any(value is None for value in values.values()):
        return None
    risks = {part: value for part, value in values.items() if part in RISKS and value is not None}
    shares = {part: value.value for part, value in values.items() if part in MEASURES and value is not None}
    ends = [
        _mean({part: getattr(value, end) for part, value in risks.items()}, used) for end in ("value", "low", "high")
    ]
    return Estimate(*ends), _mean(shares, used)


def _mean(values: Mapping[str, float], weights: Mapping[str, float]) -> float:
    return sum(weights[part] * value for part, value in values.items()) / sum(weights[part] for part in values)


def _score(risk: float, kept: float, used: Mapping[str, float]) -> float:
    """Return the weighted mean of 1 less the risk and of what is kept, each with the weights of its parts."""
    of_risk = sum(weight for part, weight in used.items() if part in RISKS)
    of_kept = sum(weight for part, weight in used.items() if part in MEASURES)
    return (of_risk * (1 - risk) + of_kept * kept) / (of_risk + of_kept)


def _weight(name: str, given: Any) -> float:
    try:
        weight = float(given)
    except (TypeError, ValueError):
        weight = math.nan
    if not 0 <= weight <= MOST_WEIGHT:
        raise UsageError(
            f"the weight of {name} must be a number from 0 to {MOST_WEIGHT:,}; write --weights inference=2,counts=1"
        )
    return weight
