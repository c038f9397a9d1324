"""Records, releases, the guarantee for clients, and the audit log."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

Change = Callable[[dict[str, Any]], object]


def test_an_owner_is_told_how_many_records_are_missing(world: Any) -> None:
    campaign = world.campaign("planned")
    place, needed = f"{campaign.path}/records", campaign.made["records"]
    for records in (0, needed - 1, needed, needed + 5, 1):  # a report replaces the one before
        answer = campaign.owner.call("PUT", place, {"records": records})
        assert answer.status == 200, answer
        missing = max(0, needed - records)
        assert answer.json == {"records": records, "needed": needed, "missing": missing, "enough": not missing}
    second = world.caller("owner")
    assert second.call("PUT", place, {"records": needed}).status == 200
    stated = {entry.pop("owner"): entry for entry in world.agency.call("GET", place).json["items"]}
    assert set(stated) == {world.name(campaign.owner), world.name(second)}
    first = stated[world.name(campaign.owner)]
    assert (first["records"], first["missing"], first["enough"]) == (1, needed - 1, False)
    assert stated[world.name(second)]["enough"] is True


@pytest.mark.parametrize("wrong", [-1, 1.5, "5", True, None, 2**63, 10**500, [], {}])
def test_numbers_of_records_that_are_refused(wrong: object, states, world: Any, agreed_error) -> None:
    owner = world.caller("owner")
    answer = owner.call("PUT", f"{states['planned'].path}/records", {"records": wrong})
    assert answer.status in (400, 422), answer
    agreed_error(answer)


def test_a_release_is_registered_once_however_often_it_is_sent(world: Any) -> None:
    campaign = world.campaign("planned")
    place, body = f"{campaign.path}/releases", campaign.release()
    first = campaign.owner.call("POST", place, body)
    assert first.status == 201, first
    again = campaign.owner.call("POST", place, body)
    assert (again.status, again.json["id"]) == (201, first.json["id"])
    other = campaign.owner.call("POST", place, campaign.release())
    assert other.status == 201
    assert other.json["id"] != first.json["id"]
    readme = {**body, "files": {**body["files"], "README.md": "0" * 64}}
    for theirs in (body, readme):  # the data of one owner is not another's, whatever files are added to it
        refused = world.caller("owner").call("POST", place, theirs)
        assert (refused.status, refused.json["error"]["code"]) == (409, "not_yours"), refused
    client = world.caller("client")
    other_campaign = world.campaign("planned")
    for each in (campaign, other_campaign):
        world.approve(client, each)
    listed = client.call("GET", place).json["items"]
    assert {first.json["id"], other.json["id"]} <= {entry["id"] for entry in listed}
    seen = client.call("GET", f"{place}/{first.json['id']}").json
    assert seen["manifest"] == body["manifest"]
    assert seen["files"] == body["files"]
    assert client.call("GET", f"{other_campaign.path}/releases/{first.json['id']}").status == 404


def move_counts(rows: list[list[Any]]) -> None:
    """Give all records of one value in a class to another value there: the sum stays, and the value shows no more."""
    rows[1][2] += rows[0][2]
    rows[0][2] = 0


SPOILED: dict[str, Change] = {
    "another method": lambda body: body["manifest"].update(method="mondrian"),
    "no method": lambda body: body["manifest"].pop("method"),
    "another plan": lambda body: body["manifest"]["agreed"].update(digest="0" * 64),
    "no plan": lambda body: body["manifest"].pop("agreed"),
    "a plan that is no object": lambda body: body["manifest"].update(agreed=[1]),
    "fewer classes": lambda body: body["manifest"]["agreed"].update(classes=1),
    "lower l": lambda body: body["manifest"]["guarantees"][0]["parameters"].update(l=2),
    "larger delta": lambda body: body["manifest"]["guarantees"][0]["parameters"].update(delta=0.5),
    "l as text": lambda body: body["manifest"]["guarantees"][0]["parameters"].update(l="3"),
    "another promise": lambda body: body["manifest"]["guarantees"][0].update(model="k-anonymity"),
    "achieved less": lambda body: body["manifest"]["guarantees"][0].update(achieved=2),
    "no guarantee": lambda body: body["manifest"].update(guarantees=[]),
    "guarantees that are no list": lambda body: body["manifest"].update(guarantees={"l": 3}),
    "a guarantee that is a list": lambda body: body["manifest"].update(guarantees=[[1]]),
    "a guarantee that is a text": lambda body: body["manifest"].update(guarantees=["l"]),
    "a guarantee that is nothing": lambda body: body["manifest"].update(guarantees=[None]),
    "parameters that are a list": lambda body: body["manifest"]["guarantees"][0].update(parameters=["l", "delta"]),
    "two guarantees": lambda body: body["manifest"].update(guarantees=body["manifest"]["guarantees"] * 2),
    "a file that is a list": lambda body: body["manifest"]["data"].update(file=["data.csv"]),
    "too few rows": lambda body: body["manifest"].update(rows=body["manifest"]["rows"] - 1),
    "rows as text": lambda body: body["manifest"].update(rows=str(body["manifest"]["rows"])),
    "rows true": lambda body: body["manifest"].update(rows=True),
    "endless rows": lambda body: body["manifest"].update(rows=10**400),
    "data left out": lambda body: body["files"].pop("data.csv"),
    "plan left out": lambda body: body["files"].pop("plan.json"),
    "other data": lambda body: body["files"].update({"data.csv": "0" * 64}),
    "other plan": lambda body: body["files"].update({"plan.json": "0" * 64}),
    "no digest": lambda body: body["files"].update({"data.csv": "zaphod"}),
    "digest in capitals": lambda body: body["files"].update({"README.md": "A" * 64}),
    "digest is a number": lambda body: body["files"].update({"README.md": 5}),
    "a path": lambda body: body["files"].update({"../data.csv": "0" * 64}),
    "a name with NUL": lambda body: body["files"].update({"a\0": "0" * 64}),
    "no data": lambda body: body["manifest"].pop("data"),
    "data that is no object": lambda body: body["manifest"].update(data="data.csv"),
    "rows of people": lambda body: body.update(rows=[["20", "F", "flu"]]),
    "counts of fewer rows": lambda body: body["counts"]["rows"][0].__setitem__(2, 0),
    "counts without a value that the plan names": lambda body: move_counts(body["counts"]["rows"]),
    "counts of no class": lambda body: body["counts"]["rows"][0].__setitem__(0, "0"),
    "counts of a class as a number": lambda body: body["counts"]["rows"][0].__setitem__(0, 1),
    "counts of an unknown value": lambda body: body["counts"]["rows"][0].__setitem__(1, "zaphod"),
    "counts twice": lambda body: body["counts"]["rows"].append(body["counts"]["rows"][0]),
    "counts that are negative": lambda body: body["counts"]["rows"][0].__setitem__(2, -1),
    "counts of another column": lambda body: body["counts"]["columns"].__setitem__(0, "age"),
    "achieved more than the counts reach": lambda body: body["manifest"]["guarantees"][0].update(achieved=4),
    "no files": lambda body: body.update(files={}),
    "no manifest": lambda body: body.update(manifest=None),
    "NUL in the manifest": lambda body: body["manifest"].update(note="a\0b"),
    "NUL in a key of the manifest": lambda body: body["manifest"].update({"a\0b": 1}),
    "surrogate in the manifest": lambda body: body["manifest"].update(note="\ud83d"),
}


@pytest.mark.parametrize("why", SPOILED)
def test_releases_that_are_refused(why: str, states, world: Any, agreed_error) -> None:
    campaign = states["planned"]
    body = copy.deepcopy(campaign.release())
    SPOILED[why](body)
    answer = campaign.owner.call("POST", f"{campaign.path}/releases", body)
    assert answer.status in (400, 422), (why, answer)
    assert "zaphod" not in agreed_error(answer)["message"]


def test_the_guarantee_for_any_number_of_releases(world: Any, agreed_error) -> None:
    campaign = world.campaign("planned")
    client, place = world.caller("client"), f"{campaign.path}/guarantee"
    world.approve(client, campaign)
    for _ in range(2):
        assert campaign.owner.call("POST", f"{campaign.path}/releases", campaign.release()).status == 201
    stated = client.call("GET", place).json
    assert (stated["releases"], stated["registered"], stated["l"]) == (2, 2, 3)
    assert stated["delta"] == pytest.approx(0.02, rel=1e-12)
    for releases, delta in ((1, 0.01), (3, 0.03), (100, 1), (100_000, 1)):
        stated = client.call("GET", f"{place}?releases={releases}").json
        assert stated["releases"] == releases
        assert stated["delta"] == pytest.approx(delta, rel=1e-12)
        assert stated["delta"] <= 1
    for wrong in ("0", "-1", "x", "1.5", "", "9" * 400, "NaN"):
        answer = client.call("GET", f"{place}?releases={wrong}")
        assert answer.status == 422, wrong
        agreed_error(answer)


def test_what_remains_of_a_target_is_linked_from_counts(world: Any, agreed_error) -> None:
    campaign = world.campaign("planned")
    place, target = f"{campaign.path}/linkage", {"target": {"age": "20", "sex": "F"}}
    nothing = world.agency.call("POST", place, target)
    assert (nothing.status, agreed_error(nothing)["code"]) == (409, "nothing_to_link")
    first, second, declared = (campaign.release() for _ in range(3))
    own = [row for row in second["counts"]["rows"] if row[0] == "1"]
    other = next(value for value in campaign.document()["sensitive"]["values"] if value not in {row[1] for row in own})
    own[0][2] -= 1
    second["counts"]["rows"].append(["1", other, 1])  # which the first release does not show
    del declared["counts"]
    for body in (first, second, declared):
        assert campaign.owner.call("POST", f"{campaign.path}/releases", body).status == 201
    found = world.agency.call("POST", place, target).json
    counted = {row[1]: row[2] for row in first["counts"]["rows"] if row[0] == "1"}
    assert (found["number"], found["checked"], found["declared"], found["l"]) == (1, 2, 1, 3)
    assert found["remaining"] == {**counted, own[0][1]: own[0][2]}
    assert "1 release, declared by the owners, could not be linked" in found["statement"]
    for wrong in ({"age": "20"}, {"age": "20", "sex": "zaphod"}, {"age": "20", "sex": "F", "illness": "flu"}, {}):
        answer = world.agency.call("POST", place, {"target": wrong})
        assert answer.status == 422, wrong
        assert "zaphod" not in agreed_error(answer)["message"]


def test_records_for_linked_releases_are_promised_to_remain(world: Any) -> None:
    statements, needed = [], []
    for records in ("paper", "linked"):
        campaign = world.campaign("planned", promise="k-delta-anonymity", k=20, records=records)
        needed.append(campaign.document()["records"])
        statements.append(world.agency.call("GET", f"{campaign.path}/guarantee?releases=3").json["statement"])
    remain = "has at least 20 records, and keeps as many whichever of them an attacker links"
    assert [remain in statement for statement in statements] == [False, True]
    assert "keep their part" not in statements[1]
    assert "except with probability 0.03" in statements[1]
    assert needed[0] != needed[1]


def test_every_action_is_a_line_of_the_audit_log(world: Any) -> None:
    campaign = world.campaign("planned")
    client = world.caller("client")
    identity = world.identity(client)
    assert client.call("GET", campaign.path).status == 200
    assert client.call("GET", "/v1/audit").status == 403
    assert client.call("GET", "/v1/campaigns/999999999").status == 404
    assert client.call("GET", "/v1/campaigns?limit=0").status == 422
    lines = world.audit()
    numbers = [line["number"] for line in lines]
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(set(line) == {"number", "at", "token", "role", "action", "subject", "outcome"} for line in lines)
    own = [line for line in lines if line["token"] == identity["id"]]
    assert [str(line["outcome"]) for line in own] == ["200", "403", "404", "422"]
    assert {line["role"] for line in own} == {"client"}
    assert own[0]["subject"] == campaign.path
    assert client.token not in str(lines)
    for wrong in ("after=-1", "after=x", "limit=0", "limit=1000000000", "after=" + "9" * 30):
        assert world.agency.call("GET", f"/v1/audit?{wrong}").status == 422, wrong
