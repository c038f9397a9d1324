"""Models of requests and answers. Requests are validated strictly, without conversions."""

from __future__ import annotations

import re
from typing import Annotated, Any, Generic, Literal, TypeVar
from unicodedata import is_normalized

from fastapi import Depends, Path, Query
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from shoal.agency.domain import Domain, Name, Received
from shoal.agency.service.database import Paging
from shoal.agency.service.tokens import Role

LARGEST = 2**53 - 1  # the largest integer that every JSON reader keeps exactly

State = Literal["draft", "collecting", "planned", "closed"]
Order = Literal["lexicographic", "hilbert", "taxonomy"]
Arrangement = Literal["contiguous", "gathered", "independent"]
Records = Literal["paper", "tight", "linked"]
Model = Literal["l-delta-diversity", "k-delta-anonymity", "entropy-l-delta-diversity"]
Basis = Literal["checked from counts", "declared by its owner"]
CHECKED: Basis = "checked from counts"
DECLARED: Basis = "declared by its owner"
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
FileName = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]
Number = Annotated[int, Field(ge=0, le=LARGEST)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000, strip_whitespace=True)]
USUAL_DAYS, MOST_DAYS = 90, 3660  # of a token


def _plain(value: Any) -> Any:
    """Refuse variants of a number such as +1 or 01, because the audit log keeps paths as they were written."""
    if isinstance(value, str) and not re.fullmatch("0|[1-9][0-9]*", value, re.ASCII):
        raise ValueError("digits only, without a leading 0")
    return value


Plain = BeforeValidator(_plain)
Id = Annotated[int, Plain, Path(ge=1, le=LARGEST)]
After = Annotated[int, Plain, Query(ge=0, le=LARGEST, description="Begin after the entry with this number.")]
Limit = Annotated[int, Plain, Query(ge=1, le=1000, description="The largest number of entries.")]
Entry = TypeVar("Entry", bound=BaseModel)
_ERRORS = {
    401: "No valid token, or an expired token.",
    403: "A token of another role, or a client that was not approved.",
    404: "It does not exist.",
    409: "The state does not permit it, or a limit is reached.",
    422: "The request is wrong.",
    500: "The service failed.",
    503: "The database does not respond, or the service is busy.",
}
_BODY_ERRORS = {
    400: "The body ended too soon.",
    411: "The body has no Content-Length.",
    413: "The body is too large.",
    415: "The body is not JSON.",
}


def _paging(after: After = 0, limit: Limit = 100) -> Paging:
    return Paging(after, limit)


CurrentPage = Annotated[Paging, Depends(_paging)]


class Lifetime(Received):
    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = USUAL_DAYS


class NewToken(Lifetime):
    name: Name
    role: Role

    @field_validator("name")
    @classmethod
    def _legible(cls, name: str) -> str:
        if name != name.strip() or not name.isprintable() or not is_normalized("NFC", name):
            raise ValueError(
                "names identify owners: no blanks at the ends, no invisible characters, accents composed (NFC)"
            )
        return name


class NewCampaign(Received):
    """The subject and the promise of a campaign."""

    name: Name
    domain: Domain
    promise: Model = "l-delta-diversity"
    l: Annotated[float, Field(ge=1, le=10_000)] | None = None
    k: Annotated[int, Field(ge=1, le=LARGEST)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)]
    eta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    order: Order = "lexicographic"
    arrangement: Arrangement = "contiguous"
    records: Records = "paper"

    @model_validator(mode="after")
    def _reachable(self) -> NewCampaign:
        of_records, usual = self.promise == "k-delta-anonymity", self.promise == "l-delta-diversity"
        if (self.k is None) == of_records or (self.l is None) != of_records:
            raise ValueError("give k for k-delta-anonymity and l for the other promises, never both")
        if usual and type(self.least) is float:
            raise ValueError("l of l-delta-diversity must be a whole number")
        if not of_records and self.least > len(self.domain.sensitive.values):
            raise ValueError("l exceeds the number of values of the sensitive column")
        if not usual and self.arrangement != "contiguous":
            raise ValueError("only l-delta-diversity has other arrangements than contiguous")
        if self.records == "linked" and not of_records:
            raise ValueError("only k-delta-anonymity has records for linked releases")
        if self.eta and not (usual or of_records):
            raise ValueError("entropies require eta = 0")
        return self

    @property
    def least(self) -> int | float:
        """The promised k or l, an integer if it is whole."""
        number = self.l if self.k is None else self.k
        assert number is not None  # noqa: S101 - checked by the validator
        return int(number) if float(number).is_integer() else number


class NewState(Received):
    state: Literal["collecting", "closed"]


def _rows(*kinds: str) -> dict[str, Any]:
    """Describe rows for the schema only: with up to a million rows, they are checked by column, not by cell."""
    cells = {"type": "array", "minItems": 3, "items": {"anyOf": [{"type": kind} for kind in kinds]}}
    return {"type": "array", "minItems": 1, "items": cells}


class Counts(Received):
    """Rows of the quasi columns, the sensitive column, and the number of records of each combination."""

    columns: Annotated[list[Name], Field(min_length=3)]
    rows: Annotated[list[Any], Field(min_length=1), WithJsonSchema(_rows("string", "integer"))]


class Weights(Counts):
    """Like Counts, but the last column may have probabilities: numbers or decimal strings."""

    rows: Annotated[list[Any], Field(min_length=1), WithJsonSchema(_rows("string", "number"))]


class PlanRequest(Received):
    """The p to plan with or the number of samples, not both; by default, the number of counted records."""

    p: Annotated[float, Field(gt=0, le=1)] | None = None
    samples: Annotated[int, Field(ge=1, le=LARGEST)] | None = None


class NewRequest(Received):
    """A client's request: a campaign's releases or attributes, the wanted guarantee, and the purpose."""

    purpose: Text
    campaign: Number | None = None
    attributes: Annotated[list[Name], Field(default_factory=list, max_length=100)]
    l: Annotated[float, Field(ge=1, le=10_000)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _of_something(self) -> NewRequest:
        if self.campaign is None and not self.attributes:
            raise ValueError("name a campaign or the wanted attributes")
        return self


class Decision(Received):
    state: Literal["approved", "refused"]
    campaign: Number | None = None
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""


class NewReport(Received):
    records: Number


class _Said(BaseModel):
    """A part of a manifest; keys that the service does not use are ignored."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Guarantee(_Said):
    model: Model
    parameters: dict[str, int | float]
    achieved: Annotated[float, Field(le=LARGEST)]


class _PlanFile(_Said):
    file: Literal["plan.json"]
    sha256: str
    digest: str
    classes: int


class _DataFile(_Said):
    file: Literal["data.csv", "data.parquet"]
    sha256: str


class ReleaseManifest(_Said):
    """The required content of the manifest of a release by a plan."""

    method: Literal["agreed"]
    agreed: _PlanFile
    data: _DataFile
    guarantees: Annotated[list[_Guarantee], Field(min_length=1, max_length=1)]
    rows: Number


class NewRelease(Received):
    """A release to register: its manifest and the SHA-256 of its files, never rows.

    With counts (columns class, the sensitive one and count), the service checks the promise; without, it is declared.
    """

    manifest: dict[str, Any]
    counts: Counts | None = None
    files: Annotated[dict[FileName, Digest], Field(min_length=2, max_length=20)]


class Sent(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Page(Sent, Generic[Entry]):
    """Some entries of a list; the next page begins after the entry with the number `next`, null at the end."""

    items: list[Entry]
    next: int | None


class ErrorContent(Sent):
    """A code for programs and a message for people."""

    code: str
    message: str


class ErrorMessage(Sent):
    """The form of every refusal."""

    error: ErrorContent


def describe_errors(*, body: bool = False) -> dict[int | str, dict[str, Any]]:
    described = {**_ERRORS, **(_BODY_ERRORS if body else {})}
    return {status: {"model": ErrorMessage, "description": text} for status, text in sorted(described.items())}


class TokenEntry(Sent):
    """A token without its secret."""

    id: int
    name: str
    role: Role
    created_at: str
    expires_at: str
    revoked_at: str | None


class CreatedToken(Sent):
    """A new token with its secret, which is shown only once."""

    id: int
    name: str
    role: Role
    expires_at: str
    token: str


class AccessRequest(NewRequest):
    """A client's request and the decision about it."""

    id: int
    client: str
    state: Literal["open", "approved", "refused"]
    reason: str
    at: str
    decided_at: str | None
    shortfall: list[str]  # requested l and delta that the campaign does not promise


class PlanSummary(Sent):
    """The numbers of a plan; `records` is the number that owners must have."""

    n: int
    n_tight: int
    records: int
    m: float
    p: float
    classes: int
    digest: str


class CampaignEntry(Sent):
    """A campaign without its domain."""

    id: int
    name: str
    state: State
    promise: Model
    l: int | float | None
    k: int | None
    delta: float
    eta: float
    order: Order
    arrangement: Arrangement
    records: Records
    created_at: str
    plan: PlanSummary | None


class Campaign(CampaignEntry):
    domain: Domain


class Stored(Sent):
    rows: int
    records: int | None


class ContributionEntry(Sent):
    owner: str
    rows: int
    records: int
    at: str


class Report(Sent):
    """The numbers of records that an owner has, needs and lacks."""

    records: int
    needed: int
    missing: int
    enough: bool


class ReportEntry(Report):
    owner: str
    at: str


class CreatedRelease(Sent):
    id: int
    basis: Basis


class ReleaseEntry(Sent):
    id: int
    owner: str
    rows: int
    files: dict[str, str]
    basis: Basis
    achieved: float | None
    at: str


class Release(ReleaseEntry):
    manifest: dict[str, Any]


class Guarantee(Sent):
    """The guarantee for a number of releases by the plan together, whichever are linked, and its basis.

    ``checked_l`` is the number of values that remain in the worst class if all releases with counts are linked.
    """

    releases: int
    registered: int
    checked: int
    promise: Model
    l: int | float | None
    k: int | None
    delta: float
    checked_l: int | None
    basis: Basis | None
    statement: str


class Target(Received):
    """The quasi values of a person."""

    target: dict[Name, Name]


class Linkage(Sent):
    """The smallest number of rows per value of a target over all releases with counts."""

    number: int
    checked: int
    declared: int
    l: int
    remaining: dict[str, int]
    statement: str


class AuditLine(Sent):
    """One request and its HTTP status."""

    number: int
    at: str
    token: int
    role: Role
    action: str
    subject: str
    outcome: int


class Health(Sent):
    status: Literal["ok"]
