"""Results as JSON has them, and findings: what a steward should know of a table beside what is promised about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

Severity = Literal["high", "medium", "info"]
UNLINKED = "unlinked"  # the finding that the ledger alone makes: a release could not be linked with earlier ones
CLEAR, SEVERE = 0.1, 0.5  # results of attacks from which they are called so, and are medium or high findings
LITTLE = 0.05  # a risk whose interval ends below this is none
# the findings that only recorded attacks make, by the risk that they show
ATTACK_FINDINGS = {
    "identity": "attack-identity",
    "attribute": "attack-attribute",
    "membership": "attack-membership",
}
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "info")


class Figures:
    """A dataclass whose fields are its JSON, key by key.

    >>> Finding("no-promise", "high", ("age",), "Nothing is promised.", "Add a model.").as_dict()["about"]
    ['age']
    """

    __slots__ = ()

    def as_dict(self) -> dict[str, object]:
        return {one.name: as_json(getattr(self, one.name)) for one in fields(self)}  # type: ignore[arg-type]


def as_json(value: Any) -> Any:
    """Return a value as JSON can hold it: results as objects, tuples as lists."""
    if isinstance(value, Figures):
        return value.as_dict()
    if isinstance(value, tuple | list):
        return [as_json(one) for one in value]
    return {key: as_json(one) for key, one in value.items()} if isinstance(value, Mapping) else value


@dataclass(frozen=True, slots=True)
class Finding(Figures):
    """Something that no promise covers: names of columns and counts, never a record's value.

    >>> Finding("no-promise", "high", (), "Nothing is promised.", "Add a model.").open
    True
    """

    id: str
    severity: Severity
    about: tuple[str, ...]  # columns; none: the table as a whole
    text: str
    fix: str
    accepted: str | None = None  # the reason that the policy gives
    share: float = 1.0  # of the people, whom it concerns

    @property
    def open(self) -> bool:
        return self.accepted is None

    @property
    def rank(self) -> tuple[Any, ...]:
        """The key that sorts findings: open ones first, then the most severe, then by the share of people."""
        return not self.open, SEVERITIES.index(self.severity), -self.share, self.id, self.about

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Finding:
        return cls(**{**entry, "about": tuple(entry["about"])})
