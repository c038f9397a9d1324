"""What the cache of comparisons keeps of a row: figures, and nothing that only the policy or the data know."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from shoal.attacks.base import Refusal, Trials
from shoal.compare.measures.base import Score
from shoal.compare.parts import MEASURES, RISKS
from shoal.compare.result import Row
from shoal.policy.policy import Policy
from shoal.release.guarantees import Guarantee


@dataclass(frozen=True, slots=True)
class Findings:
    """What was measured for one policy, or why no release can meet it.

    Of guarantees only what was achieved is here: parameters, which may name values, stand in the policy.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    reason: str | None
    achieved: tuple[float, ...] = ()
    claims: tuple[dict[str, Any], ...] = ()
    risks: dict[str, Trials | Refusal] = field(default_factory=dict)
    utility: dict[str, Score] = field(default_factory=dict)
    seconds: float | None = None
    records: int | None = None

    @classmethod
    def of(cls, row: Row, policy: Policy) -> Findings | None:
        """Return what can be kept of a row; None if a later run could find something else, or not read it."""
        if row.reason is not None:
            return cls(row.reason) if row.unreachable else None
        found = cls(
            None,
            tuple(entry["achieved"] for entry in row.guarantees),
            tuple(dict(entry) for entry in row.claims),
            dict(row.risks),
            dict(row.utility),
            row.seconds,
            row.records,
        )
        again = found.filled(row, policy)
        return found if again is not None and replace(again, cached=False) == row else None

    def filled(self, row: Row, policy: Policy) -> Row | None:
        """Return a row with these figures; None if they cannot be those of the policy."""
        if self.reason is not None:
            return replace(row, reason=self.reason, unreachable=True, cached=True)
        sound = (
            len(self.achieved) == len(policy.privacy)
            and set(self.risks) == set(RISKS)
            and set(self.utility) == set(MEASURES)
            and all(score.kept is None or math.isfinite(score.kept) for score in self.utility.values())
            and self.seconds is not None
            and self.seconds >= 0
            and self.records is not None
            and self.records >= 0
        )
        if not sound:
            return None
        models = zip(policy.privacy, self.achieved, strict=True)
        return replace(
            row,
            guarantees=tuple(Guarantee(model, achieved).as_dict() for model, achieved in models),
            claims=self.claims,
            risks={name: self.risks[name] for name in RISKS},
            utility={name: self.utility[name] for name in MEASURES},
            seconds=self.seconds,
            records=self.records,
            cached=True,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return asdict(self)

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Findings | None:
        """Return what ``as_dict`` gave; None if it is anything else."""
        try:
            return _adapter().validate_json(json.dumps(content))
        except (ValidationError, TypeError, ValueError, RecursionError):
            return None


@cache
def _adapter() -> TypeAdapter[Findings]:
    return TypeAdapter(Findings)
