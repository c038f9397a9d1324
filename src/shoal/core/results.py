"""Results as JSON, and findings: risks of a release that its guarantees do not exclude."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

Severity = Literal["high", "medium", "info"]
UNLINKED = "unlinked"  # the finding of the ledger: a release could not be linked with earlier ones
CLEAR, SEVERE = 0.1, 0.5  # from these results of attacks on, findings are medium or high
LITTLE = 0.05  # a risk whose interval ends below this is negligible
# findings of recorded attacks by kind of risk
ATTACK_FINDINGS = {
    "identity": "attack-identity",
    "attribute": "attack-attribute",
    "membership": "attack-membership",
}
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "info")


class Figures:
    """A dataclass whose fields are the keys of its JSON.

    >>> Finding("no-promise", "high", ("age",), "Nothing is promised.", "Add a model.").as_dict()["about"]
    ['age']
    """

    __slots__ = ()

    def as_dict(self) -> dict[str, object]:
        return {one.name: as_json(getattr(self, one.name)) for one in fields(self)}  # type: ignore[arg-type]


def as_json(value: Any) -> Any:
    """Convert a value to types of JSON: results to objects, tuples to lists."""
    if isinstance(value, Figures):
        return value.as_dict()
    if isinstance(value, tuple | list):
        return [as_json(one) for one in value]
    return {key: as_json(one) for key, one in value.items()} if isinstance(value, Mapping) else value


@dataclass(frozen=True, slots=True)
class Finding(Figures):
    """A risk that no guarantee covers, described by columns and counts, never by a record's value.

    >>> Finding("no-promise", "high", (), "Nothing is promised.", "Add a model.").open
    True
    """

    id: str
    severity: Severity
    about: tuple[str, ...]  # columns; empty: the whole table
    text: str
    fix: str
    accepted: str | None = None  # the policy's reason for accepting it
    share: float = 1.0  # of the people affected

    @property
    def open(self) -> bool:
        return self.accepted is None

    @property
    def rank(self) -> tuple[Any, ...]:
        """The sort key: open findings first, then the most severe, then those about most people."""
        return not self.open, SEVERITIES.index(self.severity), -self.share, self.id, self.about

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Finding:
        return cls(**{**entry, "about": tuple(entry["about"])})
