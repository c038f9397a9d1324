"""What a careful or a careless caller of HTTP meets: HEAD, ways to write a number, slow connections, odd names."""

from __future__ import annotations

import re
import socket
import time
from email.utils import parsedate_to_datetime
from typing import Any

import pytest


def test_head_is_get_without_its_content(world: Any, states) -> None:
    plan = f"{states['planned'].path}/plan"
    for path in ("/healthz", "/docs", "/openapi.json", "/v1/campaigns", plan):
        whole, head = (world.agency.call(method, path) for method in ("GET", "HEAD"))
        assert (head.status, head.body) == (200, b""), path
        assert head.headers["content-type"] == whole.headers["content-type"]
        parsedate_to_datetime(head.headers["date"])
    assert world.agency.call("HEAD", f"{plan}x").status == 404
    assert world.service.client().call("HEAD", plan).status == 401
    assert world.agency.call("PATCH", "/openapi.json").status == 405


def test_a_number_is_written_in_one_way_so_that_the_audit_log_names_what_was_done(world: Any, agreed_error) -> None:
    caller = world.caller("client")
    number = world.identity(caller)["id"]
    for written in (f"+{number}", f"0{number}", f"%20{number}", f"{number}.0", f"{number}_0", f"{number}e0"):
        answer = world.agency.call("DELETE", f"/v1/tokens/{written}")
        assert answer.status == 422, written
        agreed_error(answer)
        assert world.agency.call("GET", f"/v1/audit?after={written}").status == 422
    assert caller.call("GET", "/v1/campaigns").status == 200
    assert world.agency.call("DELETE", f"/v1/tokens/{number}").status == 204
    done = [line for line in world.audit() if (line["action"], line["outcome"]) == ("revoke_token", 204)]
    assert done[-1]["subject"] == f"/v1/tokens/{number}"


@pytest.mark.parametrize(
    "name", [" clinic", "clinic ", "clinic\u200b", "clinic\u00a0a", "clinic\u2028", "cli\u0301nic", "\u202eclinic", " "]
)
def test_names_of_owners_that_look_like_others_are_refused(name: str, world: Any, agreed_error) -> None:
    answer = world.agency.call("POST", "/v1/tokens", {"name": name, "role": "owner"})
    assert answer.status == 422
    assert "told apart" in agreed_error(answer)["message"]
    for good in ("clinic", "Klinik Süd", "clinic of St. Mary (2)", "病院"):
        assert world.agency.call("POST", "/v1/tokens", {"name": good, "role": "owner"}).status == 201


def test_a_value_of_blanks_is_no_value(world: Any, agreed_error) -> None:
    domain = {**world.domain, "quasi": [{"name": "age", "values": ["20", "  "]}]}
    body = {"name": "a", "domain": domain, "l": 3, "delta": 0.01}
    answer = world.agency.call("POST", "/v1/campaigns", body)
    assert answer.status == 422
    assert "blanks" in agreed_error(answer)["message"]


@pytest.mark.parametrize("cell", ["1e-999999999", "1e-99999", "5e-324", "nan", "0x1", "Zaphod", "١"])
def test_texts_that_are_no_probabilities_are_refused_and_break_nothing(cell: str, world: Any, agreed_error) -> None:
    campaign = world.campaign()
    rows = [["20", "F", "flu", cell], ["20", "F", "gout", "0.5"], ["20", "M", "gout", "0.5"]]
    body = {"columns": ["age", "sex", "illness", "probability"], "rows": rows}
    answer = world.agency.call("PUT", f"{campaign.path}/distribution", body)
    assert answer.status == 422
    assert re.match(r"column 'probability' (has 1 texts|of the table)", agreed_error(answer)["message"])
    assert world.service.client().call("GET", "/healthz").status == 200


def test_a_plan_for_more_records_than_can_be_counted_is_unreachable(world: Any, agreed_error) -> None:
    campaign = world.campaign("collecting")
    for p in (5e-324, 1e-300, 1e-20, 1e-16):
        answer = world.agency.call("POST", f"{campaign.path}/plan", {"p": p})
        assert (answer.status, agreed_error(answer)["code"]) == (422, "unreachable"), p
    assert campaign.state() == "collecting"


def test_what_is_said_of_releases_is_what_is_known_of_them(world: Any) -> None:
    campaign = world.campaign("planned", delta=0.125)
    place, releases = f"{campaign.path}/guarantee", f"{campaign.path}/releases"

    def stated(query: str = "") -> tuple[Any, ...]:
        answer = world.agency.call("GET", place + query).json
        assert "for certain" not in answer["statement"]
        return tuple(answer[name] for name in ("registered", "checked", "delta", "checked_l", "basis", "statement"))

    *numbers, words = stated()
    assert numbers == [0, 0, 0.125, None, None]
    assert "except with probability 0.125 at most" in words
    declared, checked = campaign.release(), campaign.release()
    for body in (declared, checked):
        body["manifest"]["guarantees"][0]["parameters"]["delta"] = 0.125
    del declared["counts"]
    declared["manifest"]["data"]["sha256"] = declared["files"]["data.csv"] = "0" * 64
    answer = campaign.owner.call("POST", releases, declared)
    assert (answer.status, answer.json["basis"]) == (201, "declared by its owner")
    *numbers, words = stated()
    assert numbers == [1, 0, 0.125, None, "declared by its owner"]
    assert "checked nothing" in words
    answer = campaign.owner.call("POST", releases, checked)
    assert (answer.status, answer.json["basis"]) == (201, "checked from counts")
    *numbers, words = stated()
    assert numbers == [2, 1, 0.25, 3, "declared by its owner"]
    assert "whichever of the 1 releases with counts somebody links, at least 3 sensitive values remain" in words
    assert "nothing was checked" in words
    assert {entry["basis"] for entry in world.agency.call("GET", releases).json["items"]} == {
        "checked from counts",
        "declared by its owner",
    }
    *_, words = stated("?releases=3")
    assert "except with probability 0.375 at most" in words
    *numbers, words = stated("?releases=8")
    assert numbers[2] == 1
    assert "nothing is promised beforehand" in words


def test_a_long_request_is_not_taken_for_an_idle_connection(world: Any) -> None:
    """Its body may take its time, as long as it comes."""
    content = b'{"name": "slow", "role": "owner"}'
    lines = f"Authorization: Bearer {world.agency.token}\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", world.service.port), timeout=10) as connection:
        start = f"POST /v1/tokens HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: {len(content)}\r\n\r\n"
        connection.sendall(start.encode())
        for place in range(len(content)):
            connection.sendall(content[place : place + 1])
            time.sleep(0.06)
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
