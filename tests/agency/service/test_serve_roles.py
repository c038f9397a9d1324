"""Who may call what: every route of the schema with every kind of caller, on both databases."""

from __future__ import annotations

import re
from typing import Any

import pytest

ALL = frozenset({"agency", "owner", "client"})
AGENCY, OWNER, CLIENT = frozenset({"agency"}), frozenset({"owner"}), frozenset({"client"})
OPEN = {("get", "/healthz")}
ALLOWED = {
    ("post", "/v1/tokens"): AGENCY,
    ("get", "/v1/tokens"): AGENCY,
    ("delete", "/v1/tokens/{id}"): AGENCY,
    ("post", "/v1/tokens/{id}/renewal"): AGENCY,
    ("post", "/v1/requests"): CLIENT,
    ("get", "/v1/requests"): ALL,
    ("post", "/v1/requests/{id}/decision"): AGENCY,
    ("post", "/v1/campaigns"): AGENCY,
    ("get", "/v1/campaigns"): ALL,
    ("get", "/v1/campaigns/{id}"): ALL,
    ("put", "/v1/campaigns/{id}/distribution"): AGENCY,
    ("post", "/v1/campaigns/{id}/state"): AGENCY,
    ("put", "/v1/campaigns/{id}/counts"): OWNER,
    ("get", "/v1/campaigns/{id}/counts"): AGENCY,
    ("post", "/v1/campaigns/{id}/plan"): AGENCY,
    ("get", "/v1/campaigns/{id}/plan"): AGENCY | OWNER,
    ("put", "/v1/campaigns/{id}/records"): OWNER,
    ("get", "/v1/campaigns/{id}/records"): AGENCY,
    ("post", "/v1/campaigns/{id}/releases"): OWNER,
    ("get", "/v1/campaigns/{id}/releases"): ALL,
    ("get", "/v1/campaigns/{id}/releases/{id}"): ALL,
    ("get", "/v1/campaigns/{id}/guarantee"): ALL,
    ("post", "/v1/campaigns/{id}/linkage"): ALL,
    ("get", "/v1/audit"): AGENCY,
}
STRANGERS = ("none", "nonsense", "revoked", "empty", "other scheme", "two words", "not ascii")
NO_METHODS = ("patch", "trace", "options", "delete", "put", "post", "get")


@pytest.fixture(scope="session")
def schema(world: Any) -> dict[str, Any]:
    answer = world.service.client().call("GET", "/openapi.json")
    assert answer.status == 200
    return answer.json


@pytest.fixture(scope="session")
def routes(schema: dict[str, Any]) -> list[tuple[str, str]]:
    """Method and path of every route, names of path parameters aside."""
    found = [(method, path) for path, methods in schema["paths"].items() for method in methods]
    return [(method, re.sub(r"\{\w+\}", "{id}", path)) for method, path in found]


@pytest.fixture(scope="session")
def callers(world: Any, states: Any) -> dict[str, Any]:
    client = world.caller("client")
    for campaign in states.values():
        world.approve(client, campaign)
    return {"agency": world.agency, "owner": world.caller("owner"), "client": client}


@pytest.fixture(scope="session")
def strangers(world: Any) -> dict[str, dict[str, str]]:
    """Headers of callers that the service does not know, or not any more."""
    revoked = world.caller("agency")
    assert world.agency.call("DELETE", f"/v1/tokens/{world.identity(revoked)['id']}").status == 204
    good = world.agency.token
    said = (
        "",
        "Bearer nonsense",
        f"Bearer {revoked.token}",
        "Bearer ",
        f"Basic {good}",
        f"Bearer {good} x",
        "Bearer é",
    )
    return {name: {"Authorization": text} if text else {} for name, text in zip(STRANGERS, said, strict=True)}


def filled(path: str, campaign: Any, release: Any = "1") -> str:
    """Put ids into a path: of something that exists, or of nothing."""
    ids = iter((campaign, release))
    return re.sub(r"\{id\}", lambda _: str(next(ids)), path)


def test_every_route_is_in_the_table_and_every_entry_is_a_route(routes: list[tuple[str, str]]) -> None:
    assert {route for route in routes if route[1].startswith("/v1/")} == set(ALLOWED)
    assert {route for route in routes if not route[1].startswith("/v1/")} <= OPEN
    assert len(routes) == len(set(routes))


@pytest.mark.parametrize("role", sorted(ALL))
def test_a_role_is_refused_on_every_route_of_another(role, world, states, callers, routes, agreed_error) -> None:
    """The refusal is the same whether the campaign exists or not, and whatever the body is."""
    caller = callers[role]
    absent = "999999999"
    for method, path in routes:
        if (method, path) in OPEN or role in ALLOWED[method, path]:
            continue
        stated = set()
        for campaign in (*(states[state].id for state in world.states), absent, "no-number"):
            for body in (None, {}, b"{", b"[" * 500):
                answer = caller.call(method.upper(), filled(path, campaign), body)
                assert answer.status == 403, (method, path, campaign, answer)
                stated.add((agreed_error(answer)["code"], answer.body))
        assert len(stated) == 1, (method, path)


@pytest.mark.parametrize("role", sorted(ALL))
def test_a_role_is_let_in_on_its_own_routes(role, world, states, callers, routes, agreed_error) -> None:
    """Of what does not exist it is told just that."""
    caller = callers[role]
    for method, path in routes:
        if (method, path) in OPEN or role not in ALLOWED[method, path]:
            continue
        for campaign in (states["draft"].id, states["planned"].id):
            answer = caller.call(method.upper(), filled(path, "999999999" if method == "delete" else campaign), {})
            assert answer.status in (200, 404, 409, 422), (method, path, answer)
            if answer.status != 200:
                agreed_error(answer)
        if method == "get" and "{id}" in path:
            answer = caller.call("GET", filled(path, "999999999"))
            assert answer.status == 404, (method, path, answer)
            agreed_error(answer)


@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_stranger_is_refused_on_every_route(stranger, world, states, strangers, routes, agreed_error) -> None:
    """Nobody learns whether a token was once good, or whether anything exists."""
    caller, headers = world.service.client(), strangers[stranger]
    stated = set()
    for method, path in routes:
        if (method, path) in OPEN:
            continue
        for campaign in (states["planned"].id, "999999999"):
            for body in (None, {}, b"{"):
                answer = caller.call(method.upper(), filled(path, campaign), body, headers)
                assert answer.status == 401, (method, path, answer)
                assert answer.headers["www-authenticate"].startswith("Bearer")
                agreed_error(answer)
                stated.add(answer.body)
    assert len(stated) == 1
    assert world.agency.token.encode() not in stated.pop()


def test_methods_that_a_route_has_not(world, states, routes, agreed_error) -> None:
    known = set(routes)
    for path in sorted({path for _, path in routes}):
        for method in NO_METHODS:
            if (method, path) in known:
                continue
            answer = world.agency.call(method.upper(), filled(path, states["draft"].id))
            assert answer.status == 405, (method, path, answer)
            agreed_error(answer)
            allowed = {name.strip().lower() for name in answer.headers["allow"].split(",")}
            assert allowed - {"head"} <= {other for other, where in known if where == path}, path


def test_a_token_is_shown_once_and_nowhere_else(world: Any) -> None:
    caller = world.caller("owner")
    identity = world.identity(caller)
    assert set(identity) == {"id", "name", "role", "expires_at", "token"}
    assert len(caller.token) >= 43  # 256 bits
    listed = world.agency.call("GET", "/v1/tokens?limit=1000").body.decode()
    assert caller.token not in listed
    assert "digest" not in listed
    for path in ("/v1/campaigns", "/v1/audit"):
        assert caller.token not in world.agency.call("GET", path).body.decode()
    caller.call("GET", f"/v1/campaigns?after={caller.token}")
    caller.call("GET", f"/{caller.token}")
    assert caller.token not in world.service.log.read_text()
    database = world.service.database
    if world.kind == "sqlite":
        from pathlib import Path

        folder = Path(database.removeprefix("sqlite:///")).parent
        assert all(caller.token.encode() not in path.read_bytes() for path in folder.iterdir())
    else:
        assert database.split(":")[2].split("@")[0] not in world.service.log.read_text()


def test_a_token_is_revoked_at_once_and_for_good_but_not_ones_own(world: Any, agreed_error) -> None:
    caller = world.caller("client")
    place = f"/v1/tokens/{world.identity(caller)['id']}"
    assert caller.call("GET", "/v1/campaigns").status == 200
    assert world.agency.call("DELETE", place).status == 204
    assert caller.call("GET", "/v1/campaigns").status == 401
    assert world.agency.call("DELETE", place).status in (204, 404, 409)
    second = world.caller("agency")
    own = second.call("DELETE", f"/v1/tokens/{world.identity(second)['id']}")
    assert own.status in (403, 409, 422)
    agreed_error(own)
    assert second.call("GET", "/v1/tokens").status == 200
