"""What callers send and are sent. What they send is strict, so that nothing is taken for what it is not."""

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

LARGEST = 2**53 - 1  # that every reader of JSON keeps exactly

State = Literal["draft", "collecting", "planned", "closed"]
STATES: tuple[State, ...] = ("draft", "collecting", "planned", "closed")
Order = Literal["lexicographic", "hilbert", "taxonomy"]
Arrangement = Literal["contiguous", "gathered", "independent"]
Records = Literal["paper", "tight"]
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
FileName = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]
Number = Annotated[int, Field(ge=0, le=LARGEST)]


def _plain(value: Any) -> Any:
    """Refuse other ways to write a number, such as +1 or 01: the audit log has paths as they were written."""
    if isinstance(value, str) and not re.fullmatch("0|[1-9][0-9]*", value, re.ASCII):
        raise ValueError("digits only, without a leading 0")
    return value


Plain = BeforeValidator(_plain)
Id = Annotated[int, Plain, Path(ge=1, le=LARGEST)]
After = Annotated[int, Plain, Query(ge=0, le=LARGEST, description="Begin after the entry with this number.")]
Limit = Annotated[int, Plain, Query(ge=1, le=1000, description="So many entries at most.")]
Entry = TypeVar("Entry", bound=BaseModel)
_ERRORS = {
    401: "No valid token.",
    403: "A token of another role.",
    404: "No such thing.",
    409: "Not in this state, or a limit is reached.",
    422: "The request is wrong.",
    429: "Too many requests.",
    500: "The service failed.",
    503: "The database does not answer, or the service is busy.",
}
_BODY_ERRORS = {
    400: "The body ended too soon.",
    408: "The body took too long.",
    413: "The body is too large.",
    415: "The body is no JSON.",
}


def _paging(after: After = 0, limit: Limit = 100) -> Paging:
    return Paging(after, limit)


CurrentPage = Annotated[Paging, Depends(_paging)]


class NewToken(Received):
    """Whom a token is for."""

    name: Name
    role: Role

    @field_validator("name")
    @classmethod
    def _legible(cls, name: str) -> str:
        if name != name.strip() or not name.isprintable() or not is_normalized("NFC", name):
            raise ValueError(
                "owners are told apart by it, so no blank at its ends, no invisible character, accents composed (NFC)"
            )
        return name


class NewCampaign(Received):
    """What a campaign is about and what it promises."""

    name: Name
    domain: Domain
    l: Annotated[int, Field(ge=1, le=10_000)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    eta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    order: Order = "lexicographic"
    arrangement: Arrangement = "contiguous"
    records: Records = "paper"

    @model_validator(mode="after")
    def _reachable(self) -> NewCampaign:
        if self.l > len(self.domain.sensitive.values):
            raise ValueError("l is more than the sensitive column has values")
        return self


class NewState(Received):
    """Where a campaign goes."""

    state: Literal["collecting", "closed"]


def _rows(*kinds: str) -> dict[str, Any]:
    """Describe rows; they are checked column by column, not cell by cell: there may be a million."""
    cells = {"type": "array", "minItems": 3, "items": {"anyOf": [{"type": kind} for kind in kinds]}}
    return {"type": "array", "minItems": 1, "items": cells}


class Counts(Received):
    """Rows of the quasi columns, the sensitive column and how many records there are of each combination."""

    columns: Annotated[list[Name], Field(min_length=3)]
    rows: Annotated[list[Any], Field(min_length=1), WithJsonSchema(_rows("string", "integer"))]


class Weights(Received):
    """The same for a distribution: counts, or probabilities as numbers or decimal texts."""

    columns: Annotated[list[Name], Field(min_length=3)]
    rows: Annotated[list[Any], Field(min_length=1), WithJsonSchema(_rows("string", "number"))]


class PlanRequest(Received):
    """With which p to plan, or for how many samples; without both, for as many as were counted."""

    p: Annotated[float, Field(gt=0, le=1)] | None = None
    samples: Annotated[int, Field(ge=1, le=LARGEST)] | None = None

    @model_validator(mode="after")
    def _one(self) -> PlanRequest:
        if self.p is not None and self.samples is not None:
            raise ValueError("give p or the number of samples, not both")
        return self


class NewReport(Received):
    """How many records an owner has."""

    records: Number


class _Said(BaseModel):
    """A part of a manifest, as far as the service looks at it."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class _Parameters(Received):
    l: int
    delta: float


class _Guarantee(_Said):
    model: Literal["l-delta-diversity"]
    parameters: _Parameters
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
    """What the manifest of a release by a plan must say."""

    method: Literal["agreed"]
    agreed: _PlanFile
    data: _DataFile
    guarantees: Annotated[list[_Guarantee], Field(min_length=1, max_length=1)]
    rows: Number


class NewRelease(Received):
    """A release as it is registered: what it says of itself, and the SHA-256 of its files. It has no place for rows."""

    manifest: dict[str, Any]
    files: Annotated[dict[FileName, Digest], Field(min_length=2, max_length=20)]


class Sent(BaseModel):
    """What is sent."""

    model_config = ConfigDict(extra="forbid")


class Page(Sent, Generic[Entry]):
    """Some entries of a list, and after which number the next page begins; null at the end."""

    items: list[Entry]
    next: int | None


class ErrorContent(Sent):
    """A code for programs and a message for people."""

    code: str
    message: str


class ErrorMessage(Sent):
    """Every answer that is no success."""

    error: ErrorContent


def describe_errors(*, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """Describe the refusals of a route for the schema."""
    described = {**_ERRORS, **(_BODY_ERRORS if body else {})}
    return {status: {"model": ErrorMessage, "description": text} for status, text in sorted(described.items())}


class TokenEntry(Sent):
    """A token as the agency sees it later."""

    id: int
    name: str
    role: Role
    created_at: str
    revoked_at: str | None


class CreatedToken(Sent):
    """A token, this once."""

    id: int
    name: str
    role: Role
    token: str


class PlanSummary(Sent):
    """The numbers of a plan: owners must have so many records."""

    n: int
    n_tight: int
    records: int
    m: float
    p: float
    classes: int
    digest: str


class CampaignEntry(Sent):
    """A campaign, without its domain."""

    id: int
    name: str
    state: State
    l: int
    delta: float
    eta: float
    order: Order
    arrangement: Arrangement
    records: Records
    created_at: str
    plan: PlanSummary | None


class Campaign(CampaignEntry):
    """A campaign with its domain."""

    domain: Domain


class Stored(Sent):
    """What was stored of a table."""

    rows: int
    records: int | None


class ContributionEntry(Sent):
    """Who contributed how much."""

    owner: str
    rows: int
    records: int
    at: str


class Report(Sent):
    """How many it has, needs and lacks."""

    records: int
    needed: int
    missing: int
    enough: bool


class ReportEntry(Report):
    """The same of one owner."""

    owner: str
    at: str


class CreatedRelease(Sent):
    """The number of a registered release."""

    id: int


class ReleaseEntry(Sent):
    """A registered release."""

    id: int
    owner: str
    rows: int
    files: dict[str, str]
    at: str


class Release(ReleaseEntry):
    """A registered release with its manifest."""

    manifest: dict[str, Any]


class Guarantee(Sent):
    """What holds for so many releases by the plan together, whichever they are."""

    releases: int
    registered: int
    l: int
    delta: float
    verified_l: int | None
    statement: str


class AuditLine(Sent):
    """Who did what, and how it ended (a status of HTTP)."""

    number: int
    at: str
    token: int
    role: Role
    action: str
    subject: str
    outcome: int


class Health(Sent):
    """The service answers and reaches its database."""

    status: Literal["ok"]
