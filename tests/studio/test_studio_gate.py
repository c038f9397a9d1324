"""The gate: who comes in, from where, with how much; and strict headers on whatever is answered."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import Response

from shoal.studio.application import HEADERS, MOST_FORM, MOST_HEADERS, Gate, Key

HOST = "127.0.0.1:8765"
OWN = f"http://{HOST}"


@pytest.fixture
def stranger(browser):
    """A browser without the cookie."""
    browser.client.cookies.clear()
    return browser


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 200), ("/static/studio.css", 200), ("/static/plots.css", 200), ("/static/none.css", 404), ("/no/such", 404)],
)
def test_every_answer_has_strict_headers(browser, path, status):
    answer = browser.get(path)
    assert answer.status_code == status
    for name, value in HEADERS.items():
        assert answer.headers[name] == value
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in answer.headers


def test_refusals_have_strict_headers_too(stranger):
    answer = stranger.get("/")
    assert answer.status_code == 403
    assert set(HEADERS) <= set(answer.headers)
    assert "set-cookie" not in answer.headers


def test_the_token_works_once_and_becomes_a_cookie(stranger):
    token = stranger.key.renew()
    assert stranger.get("/?token=wrong").status_code == 403
    answer = stranger.get(f"/?token={token}")
    assert answer.status_code == 200
    (cookie,) = answer.headers.get_list("set-cookie")
    assert cookie.startswith("shoal-studio-8765=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert token not in cookie
    stranger.client.cookies.clear()
    assert stranger.get(f"/?token={token}").status_code == 403


def test_a_new_token_ends_the_one_before(stranger):
    first, second = stranger.key.renew(), stranger.key.renew()
    assert stranger.get(f"/?token={first}").status_code == 403
    assert stranger.get(f"/?token={second}").status_code == 200


def test_the_token_is_for_the_front_door_only(stranger):
    token = stranger.key.renew()
    assert stranger.get(f"/static/studio.css?token={token}").status_code == 403
    assert stranger.client.head(f"/?token={token}").status_code == 403
    assert stranger.get(f"/?token={token}").status_code == 200


def test_without_the_cookie_nothing_is_told(stranger, project):
    for path in (f"/projects/{project.id}/columns", "/static/studio.js", "/no/such"):
        answer = stranger.get(path)
        assert answer.status_code == 403
        assert project.name not in answer.text
    assert stranger.post("/demo").status_code == 403
    assert len(stranger.studio.projects) == 1


@pytest.mark.parametrize("host", ["localhost:8765", "127.0.0.1", "127.0.0.1:8766", "evil.example:8765", ""])
def test_another_host_is_refused(browser, host):
    assert browser.get("/", Host=host).status_code == 421


@pytest.mark.parametrize("origin", ["null", "http://localhost:8765", "http://127.0.0.1:8766", "https://127.0.0.1:8765"])
def test_a_change_from_another_origin_is_refused(browser, project, origin):
    assert browser.post(f"/projects/{project.id}/close", origin=origin).status_code == 403
    assert project.id in browser.studio.projects


def test_a_change_without_an_origin_or_with_two_is_refused(browser, project):
    assert browser.client.post(f"/projects/{project.id}/close").status_code == 403
    two = [("Origin", OWN), ("Origin", "http://evil.example")]
    assert browser.client.post(f"/projects/{project.id}/close", headers=two).status_code == 403
    assert project.id in browser.studio.projects


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_requests_that_other_sites_began_are_refused(browser, site, status):
    assert browser.get("/", **{"Sec-Fetch-Site": site}).status_code == status


def test_odd_methods_and_many_headers_are_refused(browser):
    for method in ("DELETE", "OPTIONS", "PATCH", "TRACE"):
        assert browser.client.request(method, "/", headers={"Origin": OWN}).status_code == 405
    assert browser.get("/", **{f"x-{number}": "1" for number in range(MOST_HEADERS)}).status_code == 431


def test_a_form_that_is_too_large_is_refused(browser, project):
    answer = browser.post(f"/projects/{project.id}/policy", {"text": "x" * MOST_FORM})
    assert answer.status_code == 413
    assert project.revision == 1


def test_a_length_that_is_no_number_or_too_much_is_refused_before_anything_is_read(browser):
    for length in ("-1", "9" * 5000, "1e3", str(MOST_FORM + 1)):
        assert browser.client.post("/demo", headers={"Origin": OWN, "Content-Length": length}).status_code == 413


def ask(app, body: list[bytes], **headers: str) -> list[dict]:
    """Send a request to a bare gate in parts; return what it sent."""
    key = Key()
    gate = Gate(app, key, HOST, lambda _: lambda status, message: Response(message, status))
    cookie = f"shoal-studio-8765={key.cookie}"
    given = {"host": HOST, "origin": OWN, "cookie": cookie, **headers}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }
    waiting = [{"type": "http.request", "body": part, "more_body": True} for part in body]
    sent: list[dict] = []

    async def receive():
        return waiting.pop(0) if waiting else {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    asyncio.run(gate(scope, receive, send))
    return sent


async def _reads_all(scope, receive, send):
    while (await receive())["more_body"]:
        pass
    await Response("read")(scope, receive, send)


def test_a_body_that_says_nothing_of_its_length_is_refused():
    assert ask(_reads_all, [b"x" * 1000], **{"content-length": "1000"})[0]["status"] == 200
    assert ask(_reads_all, [b"x" * 1000], **{"transfer-encoding": "chunked"})[0]["status"] == 411


def test_an_unexpected_error_is_shown_and_logged_without_its_message(caplog):
    async def broken(scope, receive, send):
        raise ValueError("Zaphod-4711 has gout")

    sent = ask(broken, [])
    assert sent[0]["status"] == 500
    assert b"Zaphod" not in sent[1]["body"]
    assert b"try again" in sent[1]["body"]
    assert "a request failed: ValueError at test_studio_gate.py:" in caplog.text
    assert "Zaphod" not in caplog.text


def test_two_studios_have_cookies_of_their_own():
    assert Key().cookie != Key().cookie
    gates = [Gate(_reads_all, Key(), f"127.0.0.1:{port}", lambda _: None) for port in (1, 2)]
    assert gates[0].cookie_name != gates[1].cookie_name
