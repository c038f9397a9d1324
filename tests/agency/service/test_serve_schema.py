"""Requests made up from the OpenAPI schema, for every role: no 5xx, and answers are as the schema says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

N_EXAMPLES = 10
NAMES = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


@pytest.fixture(scope="module")
def other_world(new_world) -> Iterator[Any]:
    """A service whose tokens and campaigns nobody else needs."""
    with new_world() as made:
        yield made


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_no_made_up_request_breaks_the_service(mode: GenerationMode, other_world: Any) -> None:
    """Every request is sent by every role and by a stranger; half of them are about campaigns that exist."""
    world = other_world
    document = world.service.client().call("GET", "/openapi.json").json
    ids = itertools.cycle(world.campaign(state).id for state in world.states)
    callers = {"agency": world.agency, "owner": world.caller("owner"), "client": world.caller("client")}
    headers = {role: {"Authorization": f"Bearer {caller.token}"} for role, caller in callers.items()}
    headers["stranger"] = {}
    statuses: dict[str, set[int]] = {role: set() for role in headers}
    address = f"http://127.0.0.1:{world.service.port}"
    load_all_checks()
    chosen = [CHECKS.get_one(name) for name in NAMES]

    def tried(operation: Any, session: requests.Session) -> None:
        real = itertools.cycle((True, False))

        @settings(
            max_examples=N_EXAMPLES,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def run(case: Any) -> None:
            if case.path_parameters and "tokens" not in operation.path and next(real):
                case.path_parameters[next(iter(case.path_parameters))] = next(ids)
            for role, own in headers.items():
                response = case.call(base_url=address, headers=own, timeout=20, session=session)
                case.validate_response(response, checks=chosen)
                statuses[role].add(response.status_code)

        run()

    operations = [result.ok() for result in schemathesis.openapi.from_dict(document).get_all_operations()]
    assert len(operations) >= 19
    operations.sort(key=lambda operation: operation.method == "delete")  # last, for it may revoke these very callers
    with requests.Session() as session:
        for operation in operations:
            if mode is GenerationMode.POSITIVE or operation.body or operation.query or operation.path_parameters:
                tried(operation, session)
    stated = statuses.pop("stranger")
    assert stated == {200, 401} if mode is GenerationMode.POSITIVE else 401 in stated
    for role, seen in statuses.items():
        assert ({200, 404, 409} if mode is GenerationMode.POSITIVE else {422}) <= seen, role
    assert world.service.client().call("GET", "/healthz").status == 200
