"""What a careful or a careless caller of HTTP meets: HEAD, ways to write a number, slow connections, odd names."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest


def test_head_is_get_without_its_content(world: Any, states) -> None:
    plan = f"{states['planned'].path}/plan"
    for path in ("/healthz", "/metrics", "/docs", "/openapi.json", "/v1/campaigns", plan):
        whole, head = (world.agency.call(method, path) for method in ("GET", "HEAD"))
        assert (head.status, head.body) == (200, b""), path
        assert head.headers["content-type"] == whole.headers["content-type"]
        assert head.headers.get("etag") == whole.headers.get("etag")
        parsedate_to_datetime(head.headers["date"])
    assert world.agency.call("HEAD", f"{plan}x").status == 404
    assert world.service.client().call("HEAD", plan).status == 401
    refused = world.agency.call("PATCH", "/openapi.json")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")


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


def test_who_asks_too_often_does_not_fill_the_audit_log(new_world) -> None:
    with new_world(rate=1, burst=1, address_rate=1, address_burst=1) as world:
        token = world.agency.token
        began = time.monotonic()
        statuses = [world.service.client(token).call("GET", "/v1/campaigns").status for _ in range(200)]
        assert statuses.count(429) > 150
        time.sleep(2)
        answer = world.agency.call("GET", "/v1/audit?limit=1000")
        lines = [line for line in answer.json["items"] if line["outcome"] == 429]
        assert 1 <= len(lines) <= time.monotonic() - began + 1


@pytest.fixture(scope="module")
def narrow(new_world):
    with new_world(connections=20, idle_seconds=0.5) as made:
        yield made


def opened(world: Any) -> socket.socket:
    return socket.create_connection(("127.0.0.1", world.service.port), timeout=10)


def ended(connection: socket.socket) -> bool:
    """Whether the server ends a connection within the time that it may take."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return True


def test_connections_without_a_request_are_ended(narrow: Any) -> None:
    """A byte now and then is no request."""
    silent, slow = opened(narrow), opened(narrow)
    with silent, slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
        gone = False
        for _ in range(40):
            time.sleep(0.1)
            try:
                slow.sendall(b"A: b\r\n")
            except ConnectionError:
                gone = True
                break
        assert gone
        assert ended(silent)


def test_who_was_refused_and_goes_on_sending_is_cut_off(narrow: Any) -> None:
    with opened(narrow) as connection:
        start = (
            "POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
        )
        connection.sendall(start.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")
        gone = False
        for _ in range(40):
            time.sleep(0.1)
            try:
                connection.sendall(b"x")
            except ConnectionError:
                gone = True
                break
        assert gone


def test_who_takes_nothing_of_an_answer_is_cut_off(narrow: Any) -> None:
    """Who takes it slowly is not: tests/agency/test_service_parts.py asks that without a clock."""
    values = [f"{number:0190}" for number in range(15_000)]
    domain = {"quasi": [{"name": "age", "values": values}], "sensitive": narrow.domain["sensitive"]}
    campaign = narrow.campaign(domain=domain)
    size = len(narrow.agency.call("GET", campaign.path).body)
    stated = f"GET {campaign.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {narrow.agency.token}\r\n\r\n".encode()

    connection, found, until = socket.socket(), 0, time.monotonic() + 300
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", narrow.service.port))
    with connection, contextlib.suppress(ConnectionError):
        connection.sendall(stated * 3)  # of one answer the kernel may keep all for the sender
        while is_served(connection):
            assert time.monotonic() < until
            time.sleep(0.05)
        while content := connection.recv(65_536):
            found += len(content)
    assert found < 3 * size


def is_served(connection: socket.socket) -> bool:
    """Whether the service still has its end open: whoever takes nothing is not told, but the system keeps a table."""
    own, theirs = (f":{port:04X}" for _, port in (connection.getsockname(), connection.getpeername()))
    ends = (line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines())
    return any(end[1].endswith(theirs) and end[2].endswith(own) and end[3] == "01" for end in ends)


def test_connections_are_limited_in_number_and_busy_ones_stay(narrow: Any) -> None:
    """Requests under way keep their connections; who comes too late is cut off. Idle connections make room."""
    narrow.agency.close()
    start = head_of_token(narrow)
    busy = [opened(narrow) for _ in range(20)]
    for connection in busy:
        connection.sendall(start + b'{"name": ')
    time.sleep(0.3)
    with opened(narrow) as late, contextlib.suppress(ConnectionError):
        late.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert late.recv(100) == b""
    for connection in busy:
        connection.close()
    time.sleep(0.3)
    silent = [opened(narrow) for _ in range(20)]
    assert narrow.agency.call("GET", "/v1/campaigns").status == 200
    for connection in silent:
        connection.close()


def head_of_token(world: Any) -> bytes:
    lines = f"Authorization: Bearer {world.agency.token}\r\nContent-Type: application/json\r\nContent-Length: 500"
    return f"POST /v1/tokens HTTP/1.1\r\nHost: x\r\n{lines}\r\n\r\n".encode()


def test_a_long_request_is_not_taken_for_an_idle_connection(narrow: Any) -> None:
    """Its body may take its time, as long as it comes."""
    content = b'{"name": "slow", "role": "owner"}'
    lines = f"Authorization: Bearer {narrow.agency.token}\r\nContent-Type: application/json\r\n"
    with opened(narrow) as connection:
        start = f"POST /v1/tokens HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: {len(content)}\r\n\r\n"
        connection.sendall(start.encode())
        for place in range(len(content)):
            connection.sendall(content[place : place + 1])
            time.sleep(0.06)
        assert connection.recv(65536).startswith(b"HTTP/1.1 201 ")
