"""What a paper found, statement by statement, and what became of it here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "holds in part", "does not hold", "not tested"]


@dataclass(frozen=True, slots=True)
class Statement:
    """One finding of a paper on one table, and what became of it."""

    figure: int
    claim: str
    verdict: Verdict
    measured: str


def verdict_of(wins: int, trials: int, needed: float = 1.0) -> Verdict:
    """Return whether a claim holds that is borne out in so many trials; it must be in the *needed* share of them.

    >>> verdict_of(3, 4), verdict_of(3, 4, needed=0.5), verdict_of(0, 0)
    ('holds in part', 'holds', 'not tested')
    """
    if not trials:
        return "not tested"
    if wins >= needed * trials:
        return "holds"
    return "holds in part" if wins else "does not hold"
