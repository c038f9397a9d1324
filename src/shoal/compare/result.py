"""The result of a comparison: a row for each technique or policy, and their ranking.

Rows are ranked by a weighted score; the frontier shows risk against utility.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from shoal.attacks.base import Estimate, Refusal, Trials
from shoal.audit.decision import Decision
from shoal.columns.base import Verdict
from shoal.core.errors import UsageError, did_you_mean
from shoal.core.results import SEVERE
from shoal.core.wording import parameters_text, percent
from shoal.policy.policy import Policy
from shoal.reports.frontier import Point, frontier
from shoal.reports.plots import Plot
from shoal.utility.marginals import Marginals

RISKS = ("singling-out", "linkability", "inference")
HEADS = {risk: risk.replace("-", " ") for risk in RISKS}  # of tables and pictures
KEPT = "marginals"
SCORES = {KEPT: "release", "shuffled": "shuffled", "fresh": "fresh"}  # heads of tables, and fields of Marginals
PARTS = ("risk", KEPT)
DEFAULT_WEIGHTS: Mapping[str, float] = dict.fromkeys(PARTS, 1.0)
MOST_WEIGHT = 1_000_000
AnyWeights: TypeAlias = str | Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Standing:
    """The rank of a row, and the rows that dominate it.

    ``risk`` is the larger of the identity and attribute risks of the decision record, ``kept`` a thousandth of the
    score of marginals; ``score`` is the weighted mean of 1 minus the risk and of ``kept``, so a row never has a better
    score than the rows that dominate it.
    """

    rank: int  # 1 is best, equal scores share it, and a row with a bar is never first
    score: float
    risk: Estimate
    kept: float
    dominated_by: tuple[str, ...]  # rows with no more risk that keep no less, promise no less, and are not equal
    clearly: bool  # whether one of those has all of its risk's interval below this row's
    bar: str | None = None  # why the row is never first

    def as_dict(self) -> dict[str, object]:
        return {
            "rank": self.rank,
            "score": self.score,
            "risk": self.risk.value,
            "risk_low": self.risk.low,
            "risk_high": self.risk.high,
            "kept": self.kept,
            "dominated_by": list(self.dominated_by),
            "clearly_dominated": self.clearly,
            "bar": self.bar,
        }


NO_STANDING: Mapping[str, Any] = {
    **dict.fromkeys(("rank", "score", "risk", "risk_low", "risk_high", "kept")),
    "dominated_by": [],
    "clearly_dominated": False,
    "bar": None,
}


def read_weights(weights: AnyWeights | None) -> dict[str, float]:
    """Read weights from text or a mapping; other parts keep the default weight.

    >>> read_weights("risk=2")
    {'risk': 2.0, 'marginals': 1.0}
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
    found = dict(DEFAULT_WEIGHTS)
    for name, number in given.items():
        if name not in found:
            raise UsageError(
                f"{name!r} has no weight{did_you_mean(name, PARTS) or '; these have one: ' + ', '.join(PARTS)}"
            )
        try:
            found[name] = float(number)
        except (TypeError, ValueError):
            found[name] = math.nan
        if not 0 <= found[name] <= MOST_WEIGHT:
            raise UsageError(f"the weight of {name} must be a number from 0 to {MOST_WEIGHT:,}; write --weights risk=2")
        if not found[name]:
            raise UsageError(f"the weight of {name} is 0, but the ranking needs risk and utility; give it more")
    return found


@dataclass(frozen=True, slots=True)
class Row:
    """One technique or policy: the opinion's verdict, measured risks, promises, utility, and the running time.

    A row with a ``reason`` has no release and no measurements.
    """

    name: str
    title: str
    parameters: str
    verdict: Verdict | None = None
    reason: str | None = None
    guarantees: tuple[Mapping[str, Any], ...] = ()
    claims: tuple[Mapping[str, Any], ...] = ()
    risks: Mapping[str, Trials | Refusal] = field(default_factory=dict)
    decision: Decision | None = None  # it includes the results of these attacks
    marginals: tuple[Marginals, ...] = ()  # by sizes of sets of columns; empty if no column can be compared
    seconds: float | None = None
    records: int | None = None
    policy: str | None = None  # the name of the policy; None for a technique
    changes: Mapping[str, Any] = field(default_factory=dict)  # entries that replace parts of the policy's document
    settings: Mapping[str, Any] = field(default_factory=dict)  # the method and the values of swept parameters

    @property
    def promise(self) -> str:
        """The guarantees with the achieved parameter and the claims, or "none"."""
        kept = [f"{entry['model']} {entry['achieved']:.4g}" for entry in self.guarantees]
        claimed = [f"{entry['model']} {parameters_text(entry['parameters'])} (a claim)" for entry in self.claims]
        return "; ".join([*kept, *claimed]) or "none"

    def opinion(self, risk: str) -> str | None:
        """Return whether the opinion says that a risk remains; None if it does not rate the technique."""
        return None if self.verdict is None else str(getattr(self.verdict, risk.replace("-", "_")))

    def trials(self, risk: str) -> Trials | None:
        found = self.risks.get(risk)
        return found if isinstance(found, Trials) else None

    @property
    def kept(self) -> Marginals | None:
        return self.marginals[-1] if self.marginals else None

    @property
    def risk(self) -> Estimate | None:
        """The larger of the identity and attribute risks; an inconclusive attack counts if it is the only measure."""
        if self.decision is None:
            return None
        attacks = self.decision.attacks or {}
        found = []
        for one in self.decision.risk:
            attack = None if one.kind == "membership" else attacks.get(one.kind)
            if attack is not None and (one.value is None or one.measures[0].source == attack["name"]):
                found.append(Estimate(*(max(attack["worst"][end], 0.0) for end in ("value", "low", "high"))))
            elif one.value is not None and one.kind != "membership":
                found.append(Estimate(one.value, one.value, one.value))
        return max(found, key=lambda each: each.value, default=None)

    @property
    def bar(self) -> str | None:
        """Why the row is never ranked first: it is above the threshold, or keeps less than shuffled columns."""
        limit = SEVERE if self.decision is None or self.decision.threshold is None else self.decision.threshold
        if self.risk is not None and self.risk.value > limit:
            return f"its risk of {percent(self.risk.value)} is above {percent(limit)}"
        return "it keeps less than shuffled columns" if self.kept is not None and self.kept.below_shuffled else None

    def estimate(self, part: str) -> Estimate | None:
        """Return the risk with its interval, or the utility, between 0 and 1; None if it was not measured."""
        if part == KEPT:
            return None if self.kept is None else Estimate(*[self.kept.release / 1000] * 3)
        return self.risk

    def as_dict(self) -> dict[str, object]:
        entry: dict[str, Any] = {"name": self.name, "title": self.title, "parameters": self.parameters}
        entry["opinion"] = {
            "technique": None if self.verdict is None else self.verdict.technique,
            **{risk: self.opinion(risk) for risk in RISKS},
        }
        if self.policy is not None:
            entry |= {"policy": self.policy, "changes": dict(self.changes), "settings": dict(self.settings)}
        if self.reason is not None:
            return entry | {"reason": self.reason}
        return entry | {
            "guarantees": [dict(entry) for entry in self.guarantees],
            "claims": [dict(entry) for entry in self.claims],
            "risks": {
                name: {key: value for key, value in each.as_dict().items() if key != "name"}
                for name, each in self.risks.items()
            },
            "decision": None if self.decision is None else self.decision.as_dict(),
            "marginals": [each.as_dict() for each in self.marginals],
            "records": self.records,
            "seconds": self.seconds,
        }

    def flat(self, stand: Standing | None = None) -> dict[str, object]:
        """Return one line of a table; the columns are the same for every row."""
        line: dict[str, Any] = {"name": self.name, "parameters": self.parameters}
        standing = dict(NO_STANDING) if stand is None else stand.as_dict()
        line |= standing | {"dominated_by": "; ".join(() if stand is None else stand.dominated_by)}
        for risk in RISKS:
            trials = self.trials(risk)
            column = risk.replace("-", "_")
            line[f"opinion_{column}"] = self.opinion(risk)
            for part in ("value", "low", "high"):
                line[f"{column}_{part}"] = None if trials is None else getattr(trials.risk, part)
        line |= {"promise": None if self.reason else self.promise}
        line |= {head: getattr(self.kept, name, None) for head, name in SCORES.items()}
        return line | {"records": self.records, "seconds": self.seconds, "reason": self.reason}


class Candidate(NamedTuple):
    """A row to be filled, and its policy; the policy is None if the row has a reason."""

    row: Row
    policy: Policy | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows, and the people they are about."""

    rows: tuple[Row, ...]
    records: int  # in every release
    control: int  # in the control group
    held_out: float | None  # the control group as a share of the source; None if a table was given
    targets: int
    seed: int | None
    notes: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_WEIGHTS))

    @property
    def of_policies(self) -> bool:
        """Whether rows are policies, which the opinion does not rate, rather than techniques."""
        return all(row.policy is not None for row in self.rows)

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each row, with its parameters if another row has the same name."""
        names = [row.name for row in self.rows]
        return tuple(row.name if names.count(row.name) == 1 else f"{row.name}, {row.parameters}" for row in self.rows)

    def list_weights(self) -> dict[str, float]:
        """Return the weights; an empty dictionary if no row has both a risk and a utility."""
        both = any(all(row.estimate(part) is not None for part in PARTS) for row in self.rows)
        return dict(self.weights) if both else {}

    def standings(self) -> dict[int, Standing]:
        """Return the standing of each row by its place; rows without a risk or a utility have none.

        Attacks bound a risk only from below, so a row with promises can be dominated only by others with promises.
        """
        labels, used = self.labels, self.weights
        pairs = {place: (row.risk, row.estimate(KEPT)) for place, row in enumerate(self.rows)}
        measured = {place: (risk, kept.value) for place, (risk, kept) in pairs.items() if risk and kept}
        scores = {
            place: (used["risk"] * (1 - risk.value) + used[KEPT] * kept) / sum(used.values())
            for place, (risk, kept) in measured.items()
        }
        bars = {place: self.rows[place].bar for place in measured}
        free = sum(bar is None for bar in bars.values())
        promises = [bool(row.guarantees or row.claims) for row in self.rows]
        found = {}
        for place, (risk, kept) in measured.items():
            above = [
                other
                for other, (less, more) in measured.items()
                if less.value <= risk.value
                and more >= kept
                and (less.value, more) != (risk.value, kept)
                and (promises[other] or not promises[place])
            ]
            alike = [other for other in measured if (bars[other] is None) == (bars[place] is None)]
            behind = 0 if bars[place] is None else max(free, 1)
            found[place] = Standing(
                rank=1 + behind + sum(scores[other] > scores[place] for other in alike),
                score=scores[place],
                risk=risk,
                kept=kept,
                dominated_by=tuple(labels[other] for other in above),
                clearly=any(measured[other][0].high < risk.low for other in above),
                bar=bars[place],
            )
        return found

    def __repr__(self) -> str:
        return f"Comparison({len(self.rows)} releases of {self.records:,} records)"

    def _repr_html_(self) -> str:
        from shoal.compare.writing import notebook_output

        return notebook_output(self)

    def frontier(self) -> Plot:
        """Draw risk against utility, a point for each ranked row."""
        labels = self.labels
        return frontier(
            [
                Point(
                    labels[place],
                    stand.risk.value,
                    stand.kept,
                    bool(stand.dominated_by),
                    stand.rank,
                    risk_low=stand.risk.low,
                    risk_high=stand.risk.high,
                )
                for place, stand in self.standings().items()
            ]
        )

    def as_dict(self) -> dict[str, object]:
        found = self.standings()
        stands = [found[place].as_dict() if place in found else dict(NO_STANDING) for place in range(len(self.rows))]
        rows = zip(self.rows, self.labels, stands, strict=True)
        return {
            "records": self.records,
            "control": {"records": self.control, "held_out": self.held_out},
            "targets": self.targets,
            "seed": self.seed,
            "weights": dict(self.weights),
            "rows": [{**row.as_dict(), "label": label, **stand} for row, label, stand in rows],
            "notes": list(self.notes),
        }


def share_text(share: float) -> str:
    """Write a share with two decimals; negative risks are written as 0.

    >>> share_text(-0.5), share_text(0.5)
    ('0.00', '0.50')
    """
    return f"{max(share, 0.0):.2f}"
