"""Limits, what the open pages hold, and an end that finishes what was begun."""

from __future__ import annotations

import json
import re
import socket
import time
from http.client import HTTPException
from typing import Any

import pytest

KIB = 1024


def raw(port: int, text: bytes, *, patience: float = 20) -> bytes:
    """Send bytes and return everything that comes back until the server closes or says no more."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        connection.sendall(text)
        said = b""
        while b"\r\n\r\n" not in said and (piece := connection.recv(65536)):
            said += piece
        head, _, body = said.partition(b"\r\n\r\n")
        if found := re.search(rb"content-length: (\d+)", head, re.IGNORECASE):
            while len(body) < int(found[1]) and (piece := connection.recv(65536)):
                body += piece
        return head + b"\r\n\r\n" + body


def head(world: Any, *lines: str, path: str = "/v1/tokens", method: str = "POST") -> bytes:
    stated = (f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {world.agency.token}", *lines)
    return ("\r\n".join(stated) + "\r\n\r\n").encode()


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("size", [65 * KIB, 32 * KIB * KIB], ids=["little", "much"])
def test_a_body_beyond_the_limit_is_refused_while_it_is_sent(
    declared: bool, size: int, world: Any, agreed_error
) -> None:
    body = {"name": "x" * size, "role": "owner"}
    content = json.dumps(body).encode()
    pieces = [content[at : at + 64 * KIB] for at in range(0, len(content), 64 * KIB)]
    kind = {"Content-Type": "application/json"}
    caller = world.service.client(world.agency.token)
    try:
        answer = caller.send("POST", "/v1/tokens", content if declared else pieces, kind, encode_chunked=not declared)
    except OSError:  # the service closes the connection after its answer, without reading on
        assert size > 65 * KIB
        return
    assert answer.status == (413 if declared else 411)
    agreed_error(answer)


def test_a_body_that_says_two_things_is_refused(world: Any, agreed_error) -> None:
    caller = world.service.client(world.agency.token)
    body = b'{"name": "x", "role": "owner", "role": "agency"}'
    answer = caller.send("POST", "/v1/tokens", body, {"Content-Type": "application/json"})
    assert answer.status == 422
    assert "the same key twice" in agreed_error(answer)["message"]


def test_a_body_in_chunks_is_refused_before_it_is_read(world: Any) -> None:
    start = head(world, "Content-Type: application/json", "Transfer-Encoding: chunked")
    said = raw(world.service.port, start + (b"1000\r\n" + b"[" * 4096 + b"\r\n"))
    assert said.startswith(b"HTTP/1.1 411 ")


def test_a_claimed_length_is_refused_before_anything_is_sent(world: Any) -> None:
    for path, largest in (("/v1/tokens", 64 * KIB), ("/v1/campaigns/1/distribution", 32 * KIB * KIB)):
        method = "POST" if path.endswith("tokens") else "PUT"
        lines = ("Content-Type: application/json", f"Content-Length: {largest + 1}")
        said = raw(world.service.port, head(world, *lines, path=path, method=method))
        assert said.startswith(b"HTTP/1.1 413 "), path
        assert re.search(rb"\r\nconnection: close\r\n", said, re.IGNORECASE), (
            "or the next request is taken for the body"
        )


def test_a_body_without_a_length_is_no_body(world: Any) -> None:
    said = raw(world.service.port, head(world, "Content-Type: application/json", "Connection: close"))
    assert re.match(rb"HTTP/1.1 4(00|11|22) ", said)


@pytest.mark.parametrize(
    "text",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\0" * 100 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 50_000 + b"\r\n",
        b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(text: bytes, world: Any) -> None:
    """And it is no fault of the service: anybody could fill its log."""
    faults = world.service.log.read_text().count("ERROR")
    try:
        said = raw(world.service.port, text)
    except ConnectionError:  # closed before all of it was sent
        said = b""
    assert said in (b"", b"\r\n\r\n") or re.match(rb"HTTP/1.1 4\d\d ", said), said[:100]
    assert world.service.client().call("GET", "/healthz").status == 200
    assert world.service.log.read_text().count("ERROR") == faults


def test_callers_who_hang_up_or_say_nothing_do_not_keep_others_waiting(world: Any) -> None:
    faults = world.service.log.read_text().count("ERROR")
    lines = ("Content-Type: application/json", "Content-Length: 1000")
    silent = []
    for _ in range(60):
        connection = socket.create_connection(("127.0.0.1", world.service.port), timeout=5)
        connection.sendall(head(world, *lines) + b'{"name": ')
        silent.append(connection)
    assert world.agency.call("GET", "/v1/tokens").status == 200
    for connection in silent:
        connection.close()
    assert world.agency.call("GET", "/v1/tokens").status == 200
    assert world.service.log.read_text().count("ERROR") == faults


def test_numbers_of_things_are_limited(new_world, agreed_error) -> None:
    with new_world(campaigns=2, tokens=4, releases=1, values=5, attributes=2, rows=10) as world:
        refused = []
        too_many = {**world.domain, "sensitive": {"name": "illness", "values": list("abcdef")}}
        body = {"name": "a", "domain": too_many, "l": 3, "delta": 0.01}
        refused.append((world.agency.call("POST", "/v1/campaigns", body), 422))
        ages = {"name": "age", "values": ["20", "21"]}
        third = {"name": "town", "values": ["Bonn"]}
        sexes, illnesses = world.domain["quasi"][1], world.domain["sensitive"]
        body["domain"] = {"quasi": [ages, sexes, third], "sensitive": illnesses}
        refused.append((world.agency.call("POST", "/v1/campaigns", body), 422))
        body["domain"] = {"quasi": [ages], "sensitive": illnesses}
        made = [world.agency.call("POST", "/v1/campaigns", body) for _ in range(3)]
        assert [answer.status for answer in made[:2]] == [201, 201]
        refused.append((made[2], 409))
        place = f"/v1/campaigns/{made[0].json['id']}"
        assert world.agency.call("POST", f"{place}/state", {"state": "collecting"}).status == 200
        owner = world.caller("owner")
        table = {"columns": ["age", "illness", "count"]}
        rows = [[age, illness, 100] for age in ages["values"] for illness in illnesses["values"]]
        refused.append((owner.call("PUT", f"{place}/counts", {**table, "rows": rows * 2}), 422))
        assert owner.call("PUT", f"{place}/counts", {**table, "rows": rows}).status == 200
        for _ in range(2):
            world.caller("client")
        refused.append((world.agency.call("POST", "/v1/tokens", {"name": "a", "role": "client"}), 409))
        for answer, status in refused:
            assert answer.status == status, answer
            agreed_error(answer)


def test_a_slow_request_is_finished_before_the_end(new_world) -> None:
    """The body comes a byte at a time, the order to stop in its middle; the answer comes, then the end."""
    with new_world() as world:
        content = json.dumps({"name": "late", "role": "owner"}).encode()
        lines = ("Content-Type: application/json", f"Content-Length: {len(content)}")
        with socket.create_connection(("127.0.0.1", world.service.port), timeout=20) as connection:
            connection.sendall(head(world, *lines) + content[:5])
            time.sleep(0.3)
            world.service.process.terminate()
            time.sleep(0.5)
            assert world.service.process.poll() is None
            with pytest.raises((OSError, HTTPException)):  # nobody new is taken
                world.service.client().call("GET", "/healthz")
            connection.sendall(content[5:])
            said = b""
            while piece := connection.recv(65536):
                said += piece
        assert said.startswith(b"HTTP/1.1 201 ")
        assert world.service.process.wait(20) == 0
        assert "ERROR" not in world.service.log.read_text()
        made = json.loads(said.partition(b"\r\n\r\n")[2])
        world.service.start()
        assert world.service.client(made["token"]).call("GET", "/v1/campaigns").status == 200
