"""Clients ask, the agency decides, and nothing is read before; tokens that expire and are renewed."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

GUARDED = (("GET", "releases"), ("GET", "guarantee"), ("GET", "releases/1"), ("POST", "linkage"))


def statuses(client: Any, campaign: Any) -> set[int]:
    """What a client is answered on the routes that need an approval."""
    body = {"target": {"age": "20", "sex": "F"}}
    return {
        client.call(method, f"{campaign.path}/{what}", body if method == "POST" else None).status
        for method, what in GUARDED
    }


def test_a_client_reads_what_was_approved_and_nothing_else(world: Any, agreed_error) -> None:
    campaign, other = world.campaign("planned"), world.campaign("planned")
    registered = campaign.owner.call("POST", f"{campaign.path}/releases", campaign.release())
    client = world.caller("client")
    assert client.call("GET", campaign.path).status == 200  # so that it knows what to ask for
    assert statuses(client, campaign) == {403}
    asked = {"purpose": "a study of asthma", "campaign": campaign.id, "l": 3, "delta": 0.01}
    made = client.call("POST", "/v1/requests", asked)
    assert (made.status, made.json["state"]) == (201, "open")
    refusal = client.call("GET", f"{campaign.path}/releases")
    assert (refusal.status, agreed_error(refusal)["code"]) == (403, "not_approved")
    place = f"/v1/requests/{made.json['id']}/decision"
    for decided, status in (("refused", 403), ("approved", 200), ("refused", 403), ("approved", 200)):
        answer = world.agency.call("POST", place, {"state": decided, "reason": "by the board"})
        assert (answer.status, answer.json["state"]) == (200, decided), answer
        assert answer.json["decided_at"] is not None
        assert client.call("GET", f"{campaign.path}/releases").status == status
    assert client.call("GET", f"{campaign.path}/releases/{registered.json['id']}").status == 200
    assert client.call("POST", f"{campaign.path}/linkage", {"target": {"age": "20", "sex": "F"}}).status == 200
    assert statuses(client, other) == {403}
    assert statuses(world.caller("client"), campaign) == {403}
    again = world.caller("client", world.name(client))  # a token may be replaced
    assert again.call("GET", f"{campaign.path}/guarantee").status == 200


@pytest.mark.parametrize(
    ("asked", "short"),
    [
        ({"l": 2, "delta": 0.1}, []),
        ({"l": 1.5, "delta": 0.5}, []),
        ({}, []),
        ({"l": 3}, ["l = 3 was requested; the campaign promises l-delta-diversity with 2"]),
        ({"delta": 0.05}, ["delta = 0.05 was requested; the campaign promises 0.1"]),
    ],
)
def test_what_a_client_asks_for_is_compared_with_the_campaign(world: Any, asked: Any, short: list[str]) -> None:
    campaign, client = world.campaign(l=2, delta=0.1), world.caller("client")
    made = client.call("POST", "/v1/requests", {"purpose": "x", "campaign": campaign.id, **asked})
    assert (made.status, made.json["shortfall"]) == (201, short)
    free = client.call("POST", "/v1/requests", {"purpose": "x", "attributes": ["age"], **asked})
    assert free.json["shortfall"] == []
    decision = {"state": "approved", "campaign": campaign.id}
    decided = world.agency.call("POST", f"/v1/requests/{free.json['id']}/decision", decision)
    assert decided.json["shortfall"] == short
    assert [entry["shortfall"] for entry in client.call("GET", "/v1/requests").json["items"]] == [short, short]


def test_a_number_of_records_promises_no_values(world: Any) -> None:
    campaign, client = world.campaign(promise="k-delta-anonymity", k=5), world.caller("client")
    made = client.call("POST", "/v1/requests", {"purpose": "x", "campaign": campaign.id, "l": 2})
    assert made.json["shortfall"] == ["l = 2 was requested; the campaign promises k-delta-anonymity with 5"]


def test_owners_and_the_agency_see_all_requests_and_clients_their_own(world: Any) -> None:
    campaign, clients = world.campaign("planned"), [world.caller("client") for _ in range(2)]
    for client in clients:
        assert client.call("POST", "/v1/requests", {"purpose": "x", "campaign": campaign.id}).status == 201
    names = {world.name(client) for client in clients}
    assert names <= {entry["client"] for entry in world.listed("/v1/requests")}
    page = world.caller("owner").call("GET", "/v1/requests?limit=1000")
    assert page.status == 200
    own = clients[0].call("GET", "/v1/requests").json["items"]
    assert [entry["client"] for entry in own] == [world.name(clients[0])]
    assert "token_id" not in own[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"purpose": "x"},
        {"campaign": 1},
        {"purpose": " ", "campaign": 1},
        {"purpose": "x" * 2001, "campaign": 1},
        {"purpose": "x", "campaign": "1"},
        {"purpose": "x", "attributes": ["age"], "delta": 1},
        {"purpose": "x", "attributes": ["age"], "l": 0},
        {"purpose": "x", "attributes": ["age"] * 101},
        {"purpose": "x", "attributes": [5]},
        {"purpose": "x", "campaign": 1, "client": "somebody else"},
    ],
)
def test_requests_that_are_refused(wrong: dict[str, Any], world: Any, agreed_error) -> None:
    answer = world.caller("client").call("POST", "/v1/requests", wrong)
    assert answer.status == 422, answer
    agreed_error(answer)


def test_requests_of_one_client_are_limited(new_world, agreed_error) -> None:
    with new_world(requests=2) as world:
        campaign, client = world.campaign(), world.caller("client")
        answers = [client.call("POST", "/v1/requests", {"purpose": "x", "campaign": campaign.id}) for _ in range(3)]
        assert [answer.status for answer in answers] == [201, 201, 409]
        assert agreed_error(answers[2])["code"] == "limit_reached"
        missing = world.caller("client").call("POST", "/v1/requests", {"purpose": "x", "campaign": 999_999_999})
        assert missing.status == 404


def end_token(world: Any, number: int) -> None:
    engine = sa.create_engine(world.service.database)
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE tokens SET expires_at = :at WHERE id = :id"),
            {"at": "2001-01-01T00:00:00.000000+00:00", "id": number},
        )
    engine.dispose()


def test_an_expired_token_is_refused_with_a_sentence_and_can_be_renewed(world: Any, agreed_error) -> None:
    caller = world.caller("owner")
    identity = world.identity(caller)
    place = f"/v1/tokens/{identity['id']}/renewal"
    assert caller.call("GET", "/v1/campaigns").status == 200
    end_token(world, identity["id"])
    refused = caller.call("GET", "/v1/campaigns")
    assert refused.status == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    error = agreed_error(refused)
    assert error["code"] == "expired"
    assert "renew" in error["message"]
    answer = world.agency.call("POST", place, {"days": 7})
    assert answer.status == 200, answer
    assert answer.json["expires_at"] > answer.json["created_at"]
    assert caller.call("GET", "/v1/campaigns").status == 200
    for wrong in ({"days": 0}, {"days": 100_000}, {"days": "7"}):
        assert world.agency.call("POST", place, wrong).status == 422, wrong
    assert world.agency.call("DELETE", f"/v1/tokens/{identity['id']}").status == 204
    assert world.agency.call("POST", place, {"days": 7}).status == 404  # revoked for good
    assert caller.call("GET", "/v1/campaigns").status == 401


def test_the_agency_renews_its_own_token_beside_the_service(new_world, shoal_agency) -> None:
    with new_world() as world:
        end_token(world, 1)
        assert world.agency.call("GET", "/v1/tokens").status == 401
        ended = shoal_agency("renew", "1", "--expires", "30", "--database", world.service.database)
        assert ended.returncode == 0, ended.stderr
        assert "is valid until" in ended.stdout
        assert world.agency.call("GET", "/v1/tokens").status == 200
        assert shoal_agency("renew", "999", "--database", world.service.database).returncode == 2
