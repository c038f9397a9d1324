"""What a comparison found: a row for each technique or policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.attacks.base import Refusal, Trials
from shoal.columns.verdicts import Verdict
from shoal.compare.measures import Score
from shoal.compare.ranking import EQUAL_WEIGHTS, MEASURES, NO_STANDING, RISKS, Standing, standings, used_weights
from shoal.core.wording import parameters_text
from shoal.policy.policy import Policy
from shoal.reports.frontier import Point, frontier
from shoal.reports.plots import Plot


@dataclass(frozen=True, slots=True)
class Row:
    """One technique or policy: the opinion's verdict, measured risks, promises, what is kept, and the time it took.

    With a ``reason`` there is no release, and nothing was measured.
    """

    name: str
    title: str
    parameters: str
    verdict: Verdict | None = None
    reason: str | None = None
    unreachable: bool = False  # whether the reason is that no release of this table can meet what is asked for
    guarantees: tuple[Mapping[str, Any], ...] = ()
    claims: tuple[Mapping[str, Any], ...] = ()
    risks: Mapping[str, Trials | Refusal] = field(default_factory=dict)
    utility: Mapping[str, Score] = field(default_factory=dict)
    seconds: float | None = None
    records: int | None = None
    policy: str | None = None  # the name of the policy that it starts from; None: of a technique
    changes: Mapping[str, Any] = field(default_factory=dict)  # keys of the policy's document that the row has anew
    settings: Mapping[str, Any] = field(default_factory=dict)  # what was swept: method, or parameter by parameter
    cached: bool = False  # whether it was measured by an earlier comparison

    def rename(self, name: str) -> Row:
        """Return the row under another name."""
        return replace(self, name=name)

    def without(self, reason: str) -> Row:
        """Return the row of a release that could not be made."""
        return replace(self, reason=reason)

    @property
    def promise(self) -> str:
        """What is guaranteed with what was reached, what is claimed, or "none"."""
        kept = [f"{entry['model']} {_achieved_text(entry['achieved'])}" for entry in self.guarantees]
        claimed = [f"{entry['model']} {parameters_text(entry['parameters'])} (a claim)" for entry in self.claims]
        return "; ".join([*kept, *claimed]) or "none"

    def opinion(self, risk: str) -> str | None:
        """Return whether the opinion says that a risk remains; None if it does not rate the technique."""
        return None if self.verdict is None else str(getattr(self.verdict, risk.replace("-", "_")))

    def trials(self, risk: str) -> Trials | None:
        """Return what an attack counted, None if it was not tried."""
        found = self.risks.get(risk)
        return found if isinstance(found, Trials) else None

    def kept(self, measure: str) -> float | None:
        """Return the share that is kept, None if it was not measured."""
        found = self.utility.get(measure)
        return None if found is None else found.kept

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        entry: dict[str, Any] = {"name": self.name, "title": self.title, "parameters": self.parameters}
        entry["opinion"] = {
            "technique": None if self.verdict is None else self.verdict.technique,
            **{risk: self.opinion(risk) for risk in RISKS},
        }
        if self.policy is not None:
            entry |= {"policy": self.policy, "changes": dict(self.changes), "settings": dict(self.settings)}
        entry["cached"] = self.cached
        if self.reason is not None:
            return entry | {"reason": self.reason}
        return entry | {
            "guarantees": [dict(entry) for entry in self.guarantees],
            "claims": [dict(entry) for entry in self.claims],
            "risks": {name: _without_name(each.as_dict()) for name, each in self.risks.items()},
            "utility": {name: score.as_dict() for name, score in self.utility.items()},
            "records": self.records,
            "seconds": self.seconds,
        }

    def flat(self, stand: Standing | None = None) -> dict[str, Any]:
        """Return one line of a table, the same columns for every row."""
        line: dict[str, Any] = {"name": self.name, "parameters": self.parameters}
        standing = dict(NO_STANDING) if stand is None else stand.as_dict()
        line |= standing | {"dominated_by": "; ".join(standing["dominated_by"])}
        for risk in RISKS:
            trials = self.trials(risk)
            column = risk.replace("-", "_")
            line[f"opinion_{column}"] = self.opinion(risk)
            for part in ("value", "low", "high"):
                line[f"{column}_{part}"] = None if trials is None else getattr(trials.risk, part)
        line |= {"promise": None if self.reason else self.promise}
        line |= {measure: self.kept(measure) for measure in MEASURES}
        return line | {"records": self.records, "seconds": self.seconds, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Asked:
    """A row that says what is to be tried, and the policy to try it by; none if there is a reason against it."""

    row: Row
    policy: Policy | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows, and whom they are about."""

    rows: tuple[Row, ...]
    records: int  # people whom releases are about
    control: int  # people of the control group, 0 if there is none
    held_out: float | None  # the share of the source that the control group is; None: it was given
    predicted: str | None
    targets: int
    seed: int | None
    notes: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=lambda: dict(EQUAL_WEIGHTS))

    @property
    def of_policies(self) -> bool:
        """Whether rows are policies, which the opinion does not rate, and not techniques."""
        return all(row.policy is not None for row in self.rows)

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each row, with its parameters where another row has the same."""
        names = [row.name for row in self.rows]
        return tuple(row.name if names.count(row.name) == 1 else f"{row.name}, {row.parameters}" for row in self.rows)

    def standings(self) -> dict[int, Standing]:
        """Return rank, score and place on the frontier of each row that has them, by the row's place."""
        return standings(self.rows, self.labels, self.weights)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the ranking with its frontier."""
        from shoal.compare.writing import notebook_output

        return notebook_output(self)

    def frontier(self) -> Plot:
        """Draw risk against what is kept, a point for each row that is ranked."""
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

    def used_weights(self) -> dict[str, float]:
        """Return the weights of what was measured, which scores are made of."""
        return used_weights(self.rows, self.weights)

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        found = self.standings()
        stands = [found[place].as_dict() if place in found else dict(NO_STANDING) for place in range(len(self.rows))]
        rows = zip(self.rows, self.labels, stands, strict=True)
        return {
            "records": self.records,
            "control": {"records": self.control, "held_out": self.held_out},
            "predicted": self.predicted,
            "targets": self.targets,
            "seed": self.seed,
            "weights": dict(self.weights),
            "rows": [{**row.as_dict(), "label": label, **stand} for row, label, stand in rows],
            "notes": list(self.notes),
        }


def share_text(share: float) -> str:
    """Write a share with two decimals, and never as -0.00.

    >>> share_text(-0.001), share_text(0.5)
    ('0.00', '0.50')
    """
    return f"{round(share, 2) + 0.0:.2f}"


def _achieved_text(achieved: Any) -> str:
    return f"{achieved:.4g}" if isinstance(achieved, int | float) else str(achieved)


def _without_name(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "name"}
