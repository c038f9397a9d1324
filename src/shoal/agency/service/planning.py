"""Making the plan of a campaign: computed without any lock, stored only if nothing changed meanwhile."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, insert, select

from shoal.agency.service import campaigns, schema
from shoal.agency.service.counted import CountedTable, from_storage
from shoal.agency.service.messages import Domain, PlanRequest, State
from shoal.agency.service.plan_cache import SentPlan
from shoal.agency.service.pooling import MadePlan, Wanted, plan_of
from shoal.agency.service.refusals import absent, conflict
from shoal.agency.service.tokens import now
from shoal.agency.service.visits import Visit

ATTEMPTS = 5


def make(visit: Visit, campaign: int, asked: PlanRequest) -> MadePlan:
    """Plan by all contributions that were acknowledged, or by the distribution of a draft; once and for all.

    Contributions may come while a plan is computed, or a draft may be opened to owners. Then it is computed anew, a few
    times; who contributes all the time
    keeps the agency from planning, which it is told.
    """
    for _ in range(ATTEMPTS):
        with visit.reading() as connection:
            basis = _basis(connection, campaign, asked)
        made = plan_of(basis.domain, basis.tables, basis.wanted, visit.service.settings.points)
        with suppress(_ChangedError):
            _store(visit, campaign, basis, made)
            return made
    raise conflict("owners contributed while the plan was made; ask again", "changed")


def sent(visit: Visit, campaign: int) -> SentPlan:
    """Return the plan of a campaign as it is sent."""
    cache = visit.service.plans
    plan = cache.get(campaign)
    if plan is None:
        table = schema.plans
        with visit.reading() as connection:
            row = connection.execute(
                select(table.c.digest, table.c.document).where(table.c.campaign_id == campaign)
            ).one_or_none()
            if row is None:
                campaigns.demand_state(connection, campaign, "planned", "closed")
                raise absent("plan")
        plan = SentPlan(row.digest, row.document.encode("ascii"))
        cache.put(campaign, plan)
    return plan


class _ChangedError(Exception):
    """What the plan rests on changed while it was made."""


@dataclass(frozen=True, slots=True)
class _Basis:
    """What a plan rests on, as of a state and a revision of its campaign."""

    state: State
    revision: int
    domain: Domain
    tables: list[CountedTable]
    wanted: Wanted


def _basis(connection: Connection, campaign: int, asked: PlanRequest) -> _Basis:
    """Read state and revision first: whatever is changed after that makes one of them another."""
    row = connection.execute(select(schema.campaigns).where(schema.campaigns.c.id == campaign)).one_or_none()
    if row is None:
        raise absent("campaign")
    state: State = row.state
    if state not in ("draft", "collecting"):
        raise conflict(f"the campaign is {state}; its plan is made")
    table = schema.distributions if state == "draft" else schema.contributions
    stored = connection.execute(select(table.c.data).where(table.c.campaign_id == campaign)).scalars().all()
    if not stored:
        missing = "distribution; give it one" if state == "draft" else "counts of any owner"
        raise conflict(f"the campaign has no {missing}", "nothing_to_plan_by")
    wanted = Wanted(row.l, row.delta, row.eta, row.point_order, row.arrangement, row.records, asked.p, asked.samples)
    domain = Domain.model_validate(json.loads(row.domain))
    return _Basis(state, row.revision, domain, [from_storage(content) for content in stored], wanted)


def _store(visit: Visit, campaign: int, basis: _Basis, made: MadePlan) -> None:
    with visit.writing() as connection:
        if not campaigns.advance(connection, campaign, basis.state, "planned", revision=basis.revision):
            campaigns.demand_state(connection, campaign, "draft", "collecting")
            raise _ChangedError
        connection.execute(insert(schema.plans).values(campaign_id=campaign, at=now(), **asdict(made)))
