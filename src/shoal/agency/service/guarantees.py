"""What registered releases, and releases to come, leave to everybody together: ADR 0018 in numbers and words."""

from __future__ import annotations

from fractions import Fraction

from sqlalchemy import Connection, func, select

from shoal.agency.service import campaigns, schema
from shoal.agency.service.answers import Guarantee


def guarantee(connection: Connection, campaign: int, releases: int | None) -> Guarantee:
    """Say what holds if there are so many releases by the plan; without a number, for all that are registered.

    Each release that was verified shows the same l values in each class, and so do all of them together, for certain.
    Of releases to come each fails with probability delta, so any of t with t delta at most.
    """
    from shoal.agency.samples import composed_delta

    campaigns.demand_state(connection, campaign, "planned", "closed")
    promise = campaigns.promise(connection, campaign)
    of_campaign = schema.releases.c.campaign_id == campaign
    registered = connection.execute(select(func.count()).select_from(schema.releases).where(of_campaign)).scalar_one()
    number = max(registered, 1) if releases is None else releases
    delta = composed_delta(Fraction(repr(promise["delta"])), number)
    there = number <= registered
    return Guarantee(
        releases=number,
        registered=registered,
        l=promise["l"],
        delta=float(delta),
        verified_l=promise["l"] if there else None,
        statement=_verified(number, registered, promise["l"]) if there else _to_come(number, promise["l"], delta),
    )


def _verified(number: int, registered: int, l: int) -> str:
    several = "release" if number == 1 else f"{number:,} releases"
    return (
        f"Whichever {several} of the {registered:,} registered somebody links, at least {l} sensitive values remain "
        "for everybody, for certain: every class of each shows the values that the plan names for it. The owners "
        "verified this when they published; the service has their manifests and not their data."
    )


def _to_come(number: int, l: int, delta: Fraction) -> str:
    several = "one release" if number == 1 else f"{number:,} releases"
    always = (
        "A release that is verified before it is published, as shoal agency apply does, keeps its part for certain."
    )
    if delta == 1:
        return f"Of {several} by this plan nothing is promised beforehand: their deltas sum to 1 or more. {always}"
    return (
        f"If there are {several} by this plan, whichever of them somebody links, at least {l} sensitive values remain "
        f"for everybody, except with probability {float(delta)} at most. This rests on records that are independent "
        f"draws from the distribution that was planned with. {always}"
    )
