"""What a finding is, how it is looked for, and how a policy accepts it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from shoal.core.registry import discover

if TYPE_CHECKING:
    from shoal.audit.findings.counting import RowCounts
    from shoal.methods.base import Publishes
    from shoal.models.base import PrivacyModel
    from shoal.policy.policy import Policy
    from shoal.release.publication import Publication
    from shoal.sources.base import Source

Severity = Literal["high", "medium", "info"]
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "info")
UNUSED = "unused-acceptance"


@dataclass(frozen=True, slots=True)
class Finding:
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

    @property
    def open(self) -> bool:
        """Whether nobody accepted it."""
        return self.accepted is None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {**asdict(self), "about": list(self.about)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Finding:
        """Read what ``as_dict`` wrote."""
        return cls(**{**entry, "about": tuple(entry["about"])})


class Acceptance(BaseModel):
    """A finding that the data holder accepts, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    finding: str = Field(description="the finding's id, like isolating-columns")
    about: tuple[str, ...] = Field(default=(), description="the columns that it may be about")
    reason: str = Field(description="why it is accepted; the report for the review board shows it")

    @field_validator("reason")
    @classmethod
    def _given(cls, reason: str) -> str:
        if not reason.strip():
            raise ValueError("must say why the finding is accepted")
        return reason.strip()

    def covers(self, finding: Finding) -> bool:
        """Whether it accepts a finding: everything that this is about is named."""
        return finding.id == self.finding and set(finding.about) <= set(self.about)


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTable:
    """What checks see of a published table."""

    form: Publishes  # what its rows are
    roles: Mapping[str, str]  # of the published columns, in their order
    models: tuple[PrivacyModel, ...]  # that are promised
    rows: RowCounts  # what was counted over the published rows
    publication: Publication | None = None  # with its policy and source; None: no run is under way
    given: tuple[Policy, Source] | None = None  # whose table it is of; None: not known

    @classmethod
    def of(
        cls,
        manifest: Mapping[str, Any],
        rows: RowCounts,
        models: tuple[PrivacyModel, ...],
        publication: Publication | None = None,
        given: tuple[Policy, Source] | None = None,
    ) -> PublishedTable:
        """Put together what is known of a release, or of a table that has a manifest's entries on its columns."""
        from shoal.release.forms.kinds import form_of

        roles = {name: str(entry["role"]) for name, entry in manifest["attributes"].items()}
        if publication is not None:
            given = publication.policy, publication.source
        return cls(form_of(manifest), roles, models, rows, publication, given)

    def names(self, role: str) -> tuple[str, ...]:
        """Return the published columns of one role."""
        return tuple(name for name, own in self.roles.items() if own == role)


class Check(ABC):
    """Looks for one kind of finding. A new one is a file in ``shoal.audit.findings`` with a subclass."""

    name: ClassVar[str]  # the id of its findings
    severity: ClassVar[Severity]

    @abstractmethod
    def look(self, table: PublishedTable) -> Iterable[Finding]:
        """Yield what is found."""

    def found(self, about: Iterable[str], text: str, fix: str, severity: Severity | None = None) -> Finding:
        """Return a finding of this check."""
        return Finding(self.name, severity or self.severity, tuple(about), text, fix)


def checks() -> dict[str, type[Check]]:
    """Return every check by the id of its findings."""
    return discover("shoal.audit.findings", Check)


def find_all(table: PublishedTable, accepted: Sequence[Acceptance] = ()) -> tuple[Finding, ...]:
    """Run every check; those that are accepted carry the reason. High findings come first, open before accepted."""
    found = [finding for kind in checks().values() for finding in kind().look(table)]
    reasons = [next((one.reason for one in accepted if one.covers(finding)), None) for finding in found]
    told = [replace(finding, accepted=reason) for finding, reason in zip(found, reasons, strict=True)]
    told += [_unused(one) for one in accepted if not any(map(one.covers, found))]
    return tuple(sorted(told, key=lambda one: (not one.open, SEVERITIES.index(one.severity), one.id, one.about)))


def _unused(acceptance: Acceptance) -> Finding:
    columns = f" about {', '.join(acceptance.about)}" if acceptance.about else ""
    return Finding(
        UNUSED,
        "info",
        acceptance.about,
        f"The policy accepts {acceptance.finding}{columns}, but there is no such finding.",
        "Remove it from accept, or correct its columns: about must name every column that the finding is about.",
    )
