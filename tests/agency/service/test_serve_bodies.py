"""Thousands of bodies that are wrong in random ways: always 4xx, nothing of them is told, and the service lives on."""

from __future__ import annotations

import copy
import gzip
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

import pytest

N_BODIES = 10_000 if os.environ.get("SHOAL_THOROUGH") == "1" else 2_000  # on each of the two databases
N_THREADS = 4
MARK = "Zaphod4711"
LARGEST = 64 * 1024  # bytes of a body
JSON = {"Content-Type": "application/json"}


@dataclass
class Route:
    """A route that takes a body, a body that is right, and the places of it where nothing else is right."""

    method: str
    path: str
    caller: str
    body: dict[str, Any]
    places: list[tuple[Any, ...]]
    may_be_empty: bool = False


@dataclass
class Body:
    """What is sent: bytes, or pieces that go chunked; or only a length that is claimed."""

    content: Any
    headers: dict[str, str] = field(default_factory=lambda: dict(JSON))
    chunked: bool = False


@pytest.fixture(scope="module")
def small_world(new_world) -> Iterator[Any]:
    """A service with one small limit for all bodies, so that too large ones are sent in no time."""
    with new_world(manifest_bytes=LARGEST, table_bytes=LARGEST) as made:
        yield made


def routes(world: Any) -> list[Route]:
    draft, collecting, planned = (world.campaign(state) for state in ("draft", "collecting", "planned"))
    world.callers["fuzz"] = planned.owner
    counts = world.counts(1, ["20", "21"])
    table = [("columns",), ("rows",), ("rows", 3), ("rows", 3, 0), ("rows", 5, 3), ("columns", 1)]
    domain = [("domain", "quasi"), ("domain", "quasi", 0, "values"), ("domain", "sensitive", "name")]
    about = [("name",), ("l",), ("delta",), ("domain",), *domain]
    stated = [("manifest",), ("files",), *(("manifest", key) for key in ("method", "rows", "agreed", "data"))]
    stated += [("manifest", "guarantees"), ("manifest", "agreed", "digest"), ("files", "data.csv")]
    campaign = {"name": "a campaign", "domain": world.domain, "l": 3, "delta": 0.01}
    assert planned.owner.call("POST", f"{planned.path}/releases", planned.release()).status == 201
    client = world.caller("client")
    world.callers["asking"] = client
    wanted = {"purpose": "a study", "campaign": planned.id, "l": 3.0}
    request = client.call("POST", "/v1/requests", wanted).json["id"]
    renewed = f"/v1/tokens/{world.identity(client)['id']}/renewal"
    target = {"target": {"age": "20", "sex": "F"}}
    return [
        Route("POST", "/v1/requests", "asking", wanted, [("purpose",)]),
        Route("POST", f"/v1/requests/{request}/decision", "agency", {"state": "refused"}, [("state",)]),
        Route("POST", renewed, "agency", {"days": 5}, [("days",)], may_be_empty=True),
        Route("POST", f"{planned.path}/linkage", "owner", target, [("target",), ("target", "age")]),
        Route("POST", "/v1/tokens", "agency", {"name": "somebody", "role": "owner"}, [("name",), ("role",)]),
        Route("POST", "/v1/campaigns", "agency", campaign, about),
        Route("PUT", f"{draft.path}/distribution", "agency", counts, table),
        Route("POST", f"{draft.path}/state", "agency", {"state": "collecting"}, [("state",)]),
        Route("PUT", f"{collecting.path}/counts", "owner", counts, table),
        Route("POST", f"{collecting.path}/plan", "agency", {"samples": 2000}, [("samples",)], may_be_empty=True),
        Route("PUT", f"{planned.path}/records", "owner", {"records": 5}, [("records",)]),
        Route("POST", f"{planned.path}/releases", "owner", planned.release(), stated),
    ]


def replaced(body: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(body)
    inner: Any = changed
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return changed


def at(body: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        body = body[step]
    return body


def spliced(route: Route, chance: random.Random, raw: str) -> bytes:
    """A body with raw text, JSON or not, at one of the places."""
    place = chance.choice(route.places)
    return json.dumps(replaced(route.body, place, "@here@")).replace('"@here@"', raw).encode("utf-8", "surrogatepass")


def truncated(route: Route, chance: random.Random) -> Body:
    whole = json.dumps(route.body).encode()
    return Body(whole[: chance.randrange(1, len(whole))])


def trailing(route: Route, chance: random.Random) -> Body:
    return Body(json.dumps(route.body).encode() + chance.choice([b"x", b"{}", b"]", b"\0", b",", MARK.encode()]))


def other_top(route: Route, chance: random.Random) -> Body:
    return Body(json.dumps(chance.choice([None, True, 5, 1.5, MARK, [], [MARK], [route.body]])).encode())


def wrong_type(route: Route, chance: random.Random) -> Body:
    place = chance.choice(route.places)
    known = at(route.body, place)
    numbers = (int, float)
    others = [True, MARK, [], [MARK], {}, {MARK: MARK}, [[1, 2]], 2.5, 7, "", *([] if route.may_be_empty else [None])]
    fitting = [
        value
        for value in others
        if type(value) is not type(known) and not (type(value) in numbers and type(known) in numbers)
    ]
    return Body(json.dumps(replaced(route.body, place, chance.choice(fitting))).encode())


def unknown_key(route: Route, chance: random.Random) -> Body:
    return Body(json.dumps({**route.body, chance.choice(["extra", "Name", "id", "__class__"]): MARK}).encode())


def missing_key(route: Route, chance: random.Random) -> Body:
    key = chance.choice(sorted({str(place[0]) for place in route.places}))
    rest = {name: value for name, value in route.body.items() if name != key}
    return Body(json.dumps({**rest, "extra": 1} if route.may_be_empty else rest).encode())


def strange_number(route: Route, chance: random.Random) -> Body:
    digits = "9" * chance.choice([25, 400, 5000])
    strange = [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "-1e999",
        digits,
        f"-{digits}",
        f"{digits}.5",
        "1e-99999x",
        "0x10",
    ]
    return Body(
        spliced(route, chance, chance.choice([*strange, "01", "1.", "+1", ".5", "undefined", "True", "'a'", "--1"]))
    )


def strange_text(route: Route, chance: random.Random) -> Body:
    strange = [r"\u0000", r"\ud800", r"\udfff\ud800", "\0", "\n", "\x1b", r"\x41", r"\u12", "\ud800", r"\u0000" * 50]
    return Body(spliced(route, chance, f'"{MARK}{chance.choice(strange)}"'))


def nested(route: Route, chance: random.Random) -> Body:
    depth = chance.choice([60, 900, 1100, 9000, 20_000])
    opening, closing = chance.choice([("[", "]"), ('{"a":', "}")])
    deep = opening * min(depth, 10_000) + "1" + closing * min(depth, 10_000)
    return Body(deep.encode() if chance.random() < 0.5 else spliced(route, chance, deep))


def other_type(route: Route, chance: random.Random) -> Body:
    kinds = ["text/plain", "application/xml", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]
    kind = chance.choice([*kinds, "", "application/jsonx", "application/octet-stream", "application", "*/*", None])
    return Body(json.dumps(route.body).encode(), {} if kind is None else {"Content-Type": kind})


def other_encoding(route: Route, chance: random.Random) -> Body:
    whole = json.dumps(route.body)
    wrong = [whole.encode(name) for name in ("utf-16", "utf-16-le", "utf-32", "utf-7")[:3]]
    text = spliced(route, chance, f'"{MARK}@"')
    wrong += [text.replace(b"@", raw) for raw in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xfc", b"\xf5\x80\x80\x80")]
    compressed = {**JSON, "Content-Encoding": "gzip"}
    return chance.choice([*map(Body, wrong), Body(gzip.compress(whole.encode()), compressed)])


def oversized(route: Route, chance: random.Random) -> Body:
    """More than the limit; rarely it is only claimed, for then the service waits a moment for it."""
    if chance.random() < 0.02:
        return Body(b"", {**JSON, "Content-Length": str(LARGEST + chance.choice([1, 1000, 10**12]))})
    whole = json.dumps(route.body).encode()
    padded = whole + b" " * (LARGEST + chance.choice([1, 1000]) - len(whole))
    return Body(padded) if chance.random() < 0.5 else Body([padded[:1000], padded[1000:]], chunked=True)


def bad_length(route: Route, chance: random.Random) -> Body:
    return Body(b"", {**JSON, "Content-Length": chance.choice(["-1", "x", "1.5", "", "0x10", "1, 2"])})


def no_body(route: Route, chance: random.Random) -> Body:
    """A length of 0."""
    return truncated(route, chance) if route.may_be_empty else Body(None)


def in_pieces(route: Route, chance: random.Random) -> Body:
    whole = truncated(route, chance).content
    cut = chance.randrange(len(whole))
    return Body([piece for piece in (whole[:cut], whole[cut:]) if piece], chunked=True)


def random_bytes(route: Route, chance: random.Random) -> Body:
    return Body(b"\xfe" + chance.randbytes(chance.randrange(1, 200)))


KINDS: list[Callable[[Route, random.Random], Body]] = [
    truncated, trailing, other_top, wrong_type, unknown_key, missing_key, strange_number, strange_text, nested,
    other_type, other_encoding, oversized, bad_length, no_body, in_pieces, random_bytes,
]  # fmt: skip


def test_the_routes_that_are_tried_are_all_that_take_a_body(small_world: Any) -> None:
    world = small_world
    schema = world.service.client().call("GET", "/openapi.json").json
    taking = {
        (method.upper(), path.rpartition("/")[2])
        for path, ways in schema["paths"].items()
        for method, way in ways.items()
        if "requestBody" in way
    }
    assert taking == {(route.method, route.path.rpartition("/")[2]) for route in routes(world)}


def test_bodies_that_are_right_are_taken(small_world: Any) -> None:
    world = small_world
    """Otherwise the wrong ones would be refused for another reason than theirs."""
    for route in routes(world):
        caller = {"agency": world.agency, "owner": world.callers["fuzz"], "asking": world.callers["asking"]}[
            route.caller
        ]
        assert caller.call(route.method, route.path, route.body).status in (200, 201), route.path


def test_thousands_of_bad_bodies(small_world: Any, agreed_error) -> None:
    world = small_world
    known = routes(world)
    before = world.service.log.stat().st_size
    token = {"agency": world.agency.token, "owner": world.callers["fuzz"].token}
    token["asking"] = world.callers["asking"].token

    def work(seed: int) -> Counter[int]:
        chance = random.Random(seed)
        callers = {name: world.service.client(text) for name, text in token.items()}
        statuses: Counter[int] = Counter()
        for number in range(N_BODIES // N_THREADS):
            route, kind = chance.choice(known), KINDS[number % len(KINDS)]
            body = kind(route, chance)
            answer = sent(callers[route.caller], route, body)
            assert 400 <= answer.status < 500, (kind.__name__, route.method, route.path, body, answer)
            assert answer.status not in (401, 403, 404, 429), (kind.__name__, route.path, answer)
            assert MARK.encode() not in answer.body, (kind.__name__, route.path, answer)
            if answer.headers["content-type"].startswith("application/json"):
                agreed_error(answer)
            else:  # refused by the server before any of our code: no request at all
                assert kind is bad_length, (kind.__name__, route.path, answer)
            statuses[answer.status] += 1
        return statuses

    with ThreadPoolExecutor(N_THREADS) as pool:
        statuses = sum(pool.map(work, range(N_THREADS)), Counter())
    assert statuses.total() == N_BODIES
    assert {413, 415, 422} <= set(statuses)
    assert world.service.process.poll() is None
    assert world.service.client().call("GET", "/healthz").status == 200
    with world.service.log.open("rb") as log:
        log.seek(before)
        said = log.read()
    assert MARK.encode() not in said
    assert b"ERROR" not in said
    assert not any(text.encode() in said for text in token.values())


def sent(caller: Any, route: Route, body: Body) -> Any:
    """Send it; a connection that the server closed after the answer before is opened anew, once."""
    for last in (False, True):
        try:
            answer = caller.send(route.method, route.path, body.content, body.headers, encode_chunked=body.chunked)
            if "Content-Length" in body.headers:  # who claims a body and sends none cannot go on with this connection
                caller.close()
            return answer
        except (OSError, HTTPException):
            if last:
                raise
    raise AssertionError
