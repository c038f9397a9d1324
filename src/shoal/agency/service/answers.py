"""What callers are sent."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from shoal.agency.service.messages import Arrangement, Domain, Order, Records, State
from shoal.agency.service.tokens import Role


class Sent(BaseModel):
    """What is sent."""

    model_config = ConfigDict(extra="forbid")


class ErrorContent(Sent):
    """A code for programs and a message for people."""

    code: str
    message: str


class ErrorMessage(Sent):
    """Every answer that is no success."""

    error: ErrorContent


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


class TokenList(Sent):
    """Some tokens."""

    items: list[TokenEntry]
    next: int | None


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


class CampaignList(Sent):
    """Some campaigns."""

    items: list[CampaignEntry]
    next: int | None


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


class ContributionList(Sent):
    """Some contributions."""

    items: list[ContributionEntry]
    next: int | None


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


class ReportList(Sent):
    """Some reports."""

    items: list[ReportEntry]
    next: int | None


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


class ReleaseList(Sent):
    """Some releases."""

    items: list[ReleaseEntry]
    next: int | None


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


class AuditPage(Sent):
    """Some lines."""

    items: list[AuditLine]
    next: int | None


class Health(Sent):
    """The service answers and reaches its database."""

    status: Literal["ok"]
