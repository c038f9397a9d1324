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
Order = Literal["lexicographic", "hilbert", "taxonomy"]
Arrangement = Literal["contiguous", "gathered", "independent"]
Records = Literal["paper", "tight", "linked"]
Model = Literal["l-delta-diversity", "k-delta-anonymity", "entropy-l-delta-diversity"]
Basis = Literal["checked from counts", "declared by its owner"]  # nothing else is ever said of a release
CHECKED: Basis = "checked from counts"
DECLARED: Basis = "declared by its owner"
Digest = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
FileName = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")]
Number = Annotated[int, Field(ge=0, le=LARGEST)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000, strip_whitespace=True)]
USUAL_DAYS, MOST_DAYS = 90, 3660  # of a token


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
    401: "No valid token, or one that has expired.",
    403: "A token of another role, or a client that was not approved.",
    404: "No such thing.",
    409: "Not in this state, or a limit is reached.",
    422: "The request is wrong.",
    500: "The service failed.",
    503: "The database does not answer, or the service is busy.",
}
_BODY_ERRORS = {
    400: "The body ended too soon.",
    411: "The body has no Content-Length.",
    413: "The body is too large.",
    415: "The body is no JSON.",
}


def _paging(after: After = 0, limit: Limit = 100) -> Paging:
    return Paging(after, limit)


CurrentPage = Annotated[Paging, Depends(_paging)]


class Lifetime(Received):
    """For how many days a token is valid."""

    days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = USUAL_DAYS


class NewToken(Lifetime):
    """Whom a token is for, and for how long."""

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
            raise ValueError("k-delta-anonymity needs k, the other promises l, and none needs both")
        if usual and type(self.least) is float:
            raise ValueError("l of l-delta-diversity must be a whole number")
        if not of_records and self.least > len(self.domain.sensitive.values):
            raise ValueError("l is more than the sensitive column has values")
        if not usual and self.arrangement != "contiguous":
            raise ValueError("the classes of this promise are contiguous; arrangements are for l-delta-diversity")
        if self.records == "linked" and not of_records:
            raise ValueError("records for linked releases are for k-delta-anonymity")
        if self.eta and not (usual or of_records):
            raise ValueError("an eta above 0 cannot be carried through to entropies")
        return self

    @property
    def least(self) -> int | float:
        """The number that is promised: k or l, as a whole number where it is one."""
        number = self.l if self.k is None else self.k
        assert number is not None  # noqa: S101 - the validator saw to it
        return int(number) if float(number).is_integer() else number


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


class Weights(Counts):
    """The same for a distribution: counts, or probabilities as numbers or decimal texts."""

    rows: Annotated[list[Any], Field(min_length=1), WithJsonSchema(_rows("string", "number"))]


class PlanRequest(Received):
    """With which p to plan, or for how many samples, not both; without either, for as many as were counted."""

    p: Annotated[float, Field(gt=0, le=1)] | None = None
    samples: Annotated[int, Field(ge=1, le=LARGEST)] | None = None


class NewRequest(Received):
    """What a client wants: the releases of a campaign, or attributes; how much is to be promised; what it is for."""

    purpose: Text
    campaign: Number | None = None
    attributes: Annotated[list[Name], Field(default_factory=list, max_length=100)]
    l: Annotated[float, Field(ge=1, le=10_000)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _of_something(self) -> NewRequest:
        if self.campaign is None and not self.attributes:
            raise ValueError("name a campaign, or the attributes that are wanted")
        return self


class Decision(Received):
    """What the agency decides about a request."""

    state: Literal["approved", "refused"]
    campaign: Number | None = None
    reason: Annotated[str, StringConstraints(max_length=2000)] = ""


class NewReport(Received):
    """How many records an owner has."""

    records: Number


class _Said(BaseModel):
    """A part of a manifest, as far as the service looks at it."""

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
    """What the manifest of a release by a plan must say."""

    method: Literal["agreed"]
    agreed: _PlanFile
    data: _DataFile
    guarantees: Annotated[list[_Guarantee], Field(min_length=1, max_length=1)]
    rows: Number


class NewRelease(Received):
    """A release as it is registered: what it says of itself, and the SHA-256 of its files. It has no place for rows.

    With its counts, columns class, the sensitive one and count, the promise is checked; without, it is only declared.
    """

    manifest: dict[str, Any]
    counts: Counts | None = None
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
    expires_at: str
    revoked_at: str | None


class CreatedToken(Sent):
    """A token, this once."""

    id: int
    name: str
    role: Role
    expires_at: str
    token: str


class AccessRequest(NewRequest):
    """A client's request and what was decided about it."""

    id: int
    client: str
    state: Literal["open", "approved", "refused"]
    reason: str
    at: str
    decided_at: str | None
    shortfall: list[str]  # l and delta that were asked for and that the campaign does not promise


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
    """The number of a registered release, and what its promise rests on."""

    id: int
    basis: Basis


class ReleaseEntry(Sent):
    """A registered release."""

    id: int
    owner: str
    rows: int
    files: dict[str, str]
    basis: Basis
    achieved: float | None
    at: str


class Release(ReleaseEntry):
    """A registered release with its manifest."""

    manifest: dict[str, Any]


class Guarantee(Sent):
    """What is known of so many releases by the plan together, whichever they are, and what that rests on.

    ``checked_l`` are the values that all releases with counts leave together in the worst class.
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
    """A person of whom the quasi values are known."""

    target: dict[Name, Name]


class Linkage(Sent):
    """What releases with counts leave of a target together: of each value the smallest number of rows."""

    number: int
    checked: int
    declared: int
    l: int
    remaining: dict[str, int]
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
