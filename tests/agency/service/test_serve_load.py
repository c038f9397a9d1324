"""Plan fetches at a steady pace, briefly; ``python -m bench service`` measures what matters."""

from __future__ import annotations

from typing import Any

from bench.service import N_POINTS, fetch, planned_campaign


def test_plans_of_realistic_size_are_fetched_at_a_steady_pace(world: Any) -> None:
    token = world.agency.token
    path = planned_campaign(world.service, token)
    fetched = fetch(world.service, token, path, per_second=100, seconds=1)
    assert fetched.errors == 0
    assert len(fetched.seconds) == 100
    plan = world.agency.call("GET", path).json
    assert len(plan["points"][0]) == N_POINTS
    assert plan["classes"] > 50
    lines = [line for line in world.audit() if line["subject"] == path]
    assert len([line for line in lines if line["outcome"] == 200]) >= 101
