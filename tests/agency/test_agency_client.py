"""The client of an agency's service against a small server that answers whatever a test tells it to."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from shoal.agency.client import TOKEN_VARIABLE, AgencyClient, exchange, make_printable, read_address
from shoal.agency.domain import Domain
from shoal.agency.tables import count_by_domain, make_registration, read_campaign, read_counts
from shoal.cli import app
from shoal.core.errors import InputError, PolicyError, ShoalError, UnreachableError, UsageError, VerificationError

TOKEN = "top-secret-token-0123456789"
DOMAIN = Domain.of(
    {
        "quasi": [{"name": "age", "values": ["30", "40"]}, {"name": "sex", "values": ["F", "M"]}],
        "sensitive": {"name": "illness", "values": ["flu", "gout", "cold"]},
    }
)


@dataclass
class Scripted:
    """A server with one answer for everything, and what it was asked."""

    status: int = 200
    content: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    answers: Callable[[str, str], Any] | None = None
    length: int | None = None
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    def refuse(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.content = json.dumps({"error": {"code": code, "message": message}}).encode()


@pytest.fixture
def service() -> Iterator[Scripted]:
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            script.asked.append((self.command, self.path, dict(self.headers), body))
            content = script.content
            if script.answers is not None:
                content = json.dumps(script.answers(self.command, self.path)).encode()
            self.send_response(script.status)
            for name, value in script.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content) if script.length is None else script.length))
            self.end_headers()
            with suppress(BrokenPipeError, ConnectionResetError):  # who was told too much does not read on
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = _answer  # noqa: N815 - the names that the library calls

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield script
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(service: Scripted, **options: Any) -> Any:
    return exchange(read_address(service.url), TOKEN, "GET", "/v1/campaigns", **options)


@pytest.mark.parametrize(
    "url",
    [
        "http://agency.example",
        "http://192.0.2.7:8321",
        "http://127.0.0.1.example",
        "http://localhost.example/",
        "http://[2001:db8::1]:80",
    ],
)
def test_a_token_is_not_sent_in_plain_text_to_another_machine(url: str) -> None:
    with pytest.raises(UsageError, match="--insecure"):
        read_address(url)
    assert read_address(url, insecure=True).scheme == "http"


@pytest.mark.parametrize(
    "url",
    [
        "agency.example",
        "ftp://127.0.0.1",
        "http://",
        "http://me:pw@127.0.0.1",
        "http://127.0.0.1/?t=1",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:x",
        "http://[::1",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/ä",
        "http://127.0.0.1/\r\nX: 1",
    ],
)
def test_other_addresses_are_refused_without_repeating_them(url: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_address(url)
    assert "pw" not in str(refused.value)


def test_the_token_is_sent_as_bearer_and_shown_nowhere(service: Scripted) -> None:
    client = AgencyClient.at(service.url, TOKEN)
    client.ask("GET", "campaigns", "1")
    ((method, path, headers, body),) = service.asked
    assert (method, path, body, headers["Authorization"]) == ("GET", "/v1/campaigns/1", b"", f"Bearer {TOKEN}")
    assert TOKEN not in repr(client)


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (400, "bad", UsageError),
        (401, "token", UsageError),
        (403, "role", UsageError),
        (404, "absent", UsageError),
        (409, "state", UsageError),
        (413, "large", UsageError),
        (422, "invalid", UsageError),
        (422, "unreachable", UnreachableError),
        (429, "rate", UsageError),
        (500, "defect", InputError),
        (503, "database", InputError),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_service(
    service: Scripted, status: int, code: str, error: type[ShoalError]
) -> None:
    service.refuse(status, code, "campaign 3 is not collecting\x1b[2J\x07\nat all.")
    with pytest.raises(error) as refused:
        ask(service)
    said = str(refused.value)
    assert type(refused.value) is error
    assert f"({status}): campaign 3 is not collecting?[2J? at all" in said
    assert TOKEN not in said


def test_a_redirect_is_not_followed(service: Scripted) -> None:
    service.status, service.headers = 307, {"Location": f"{service.url}/elsewhere"}
    with pytest.raises(UsageError, match="307"):
        ask(service)
    assert len(service.asked) == 1


def test_an_answer_that_is_too_long_or_breaks_off_is_refused(service: Scripted) -> None:
    service.content = b"x" * 200_000
    assert ask(service, largest=200_000) == service.content
    with pytest.raises(InputError, match="longer than 199,999 bytes"):
        ask(service, largest=199_999)
    service.length = 300_000
    with pytest.raises(InputError, match="broke"):
        ask(service, patience=2.0)


ENDLESS: dict[str, tuple[bytes, bytes]] = {
    "status": (b"HTTP/1.1 200 ", b"O"),
    "header": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "continuing": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;", b"x"),
    "trailer": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X: x\r\n"),
    "body": (b"HTTP/1.1 200 OK\r\n\r\n", b" "),
}


@pytest.mark.parametrize("where", ENDLESS)
def test_a_service_that_never_ends_is_left(where: str) -> None:
    first, piece = ENDLESS[where]
    left = threading.Event()

    def talk(listening: socket.socket) -> None:
        connected, _ = listening.accept()
        with connected, suppress(OSError):
            connected.recv(2**16)
            connected.sendall(first)
            while not left.wait(0.02):
                connected.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        speaker = threading.Thread(target=talk, args=(listening,))
        speaker.start()
        asker = threading.Thread(target=lambda: answers.append(_heard(listening.getsockname()[1])), daemon=True)
        answers: list[str] = []
        asker.start()
        asker.join(20)
        left.set()
        speaker.join()
    assert len(answers) == 1
    assert "did not answer" in answers[0]


def _heard(port: int) -> str:
    try:
        exchange(read_address(f"http://127.0.0.1:{port}"), TOKEN, "GET", "/v1/campaigns", patience=0.1)
    except InputError as error:
        return str(error)
    return "an answer"


@pytest.mark.parametrize(
    "page",
    [
        {"items": [], "next": 0},
        {"items": [], "next": "1"},
        {"items": {}, "next": None},
        {"items": [1], "next": None},
        {"items": [{"owner": "north"}], "next": None},
        {"items": []},
    ],
)
def test_a_list_that_is_none_or_never_ends_is_refused(service: Scripted, page: Any) -> None:
    service.answers = lambda *_: page
    with pytest.raises(InputError, match="not what an agency"):
        sum(each["records"] for each in AgencyClient.at(service.url, TOKEN).list("campaigns", "4", "counts"))
    assert len(service.asked) == 1


def test_campaigns_are_named_by_what_cannot_be_a_path(service: Scripted) -> None:
    client = AgencyClient.at(service.url, TOKEN)
    for name in ("", "../tokens", "1/plan", "1?x", "1\r\n"):
        with pytest.raises(UsageError, match="by its number"):
            client.ask("GET", "campaigns", name)
    assert service.asked == []


def test_long_and_unprintable_texts_are_tamed() -> None:
    assert make_printable("a\tb\u202ec") == "a b?c"
    assert len(make_printable("x" * 10_000)) < 2100


def test_records_outside_the_domain_are_an_error_by_column() -> None:
    table = pa.table({"age": [30, 50, 60], "sex": ["F", "F", "F"], "illness": ["flu", "Zaphod", "gout"]})
    with pytest.raises(InputError) as refused:
        count_by_domain(table, DOMAIN)
    assert "'age' (2), 'illness' (1)" in str(refused.value)
    assert "Zaphod" not in str(refused.value)
    with pytest.raises(InputError, match="without a value: column 'age' in 1"):
        count_by_domain(pa.table({"age": [30, None], "sex": ["F", "F"], "illness": ["flu", "flu"]}), DOMAIN)
    with pytest.raises(InputError, match="column 'sex' is not in"):
        count_by_domain(pa.table({"age": [30], "sxe": ["F"], "illness": ["flu"]}), DOMAIN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age,sex,illness,count\n30,F,flu,-1\n", "whole numbers of at least 0"),
        ("age,sex,illness,count\n30,F,flu,1.5\n", "whole numbers of at least 0"),
        ("age,sex,illness,count\n30,F,flu,\n", "whole numbers of at least 0"),
        ("age,sex,illness,count\n30,F,flu,1\n30,F,flu,1\n", "repeats combinations"),
        ("age,sex,illness,count\n31,F,flu,1\n", r"'age' \(1\)"),
        ("age,sex,illness,count,name\n30,F,flu,1,x\n", "'name'"),
        ("age,sex,illness\n30,F,flu\n", "--data"),
        ("age,sex,count\n30,F,1\n", "'illness' is not in"),
    ],
)
def test_wrong_counts_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "counts.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_counts(tmp_path / "counts.csv", DOMAIN)


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"quasi": [], "sensitive": {"name": "s", "values": ["a"]}},
        {"quasi": [{"name": "q", "values": [1]}], "sensitive": {"name": "s", "values": ["a"]}},
        [],
    ],
)
def test_a_domain_that_is_none_is_refused(document: Any) -> None:
    with pytest.raises(InputError, match="not the domain"):
        Domain.of(document)


CAMPAIGN = """\
name: hospitals 2026
quasi:
  age: {from: 30, through: 32}
  region: [01, 1, yes]
sensitive:
  illness: [flu, gout]
l: 2
delta: 0.01
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("l: 2\n", "", "lacks 'l'"),
        ("l: 2\n", "l: 2\nrecord: tight\n", "did you mean 'records'"),
        ("[flu, gout]", "flu", "illness must be a list"),
        ("[flu, gout]", "[flu, [gout]]", "illness must be a list"),
        ("{from: 30, through: 32}", "{from: 30, through: 9}", "through a larger one"),
        ("{from: 30, through: 32}", "{from: 0, through: 900000}", "through a larger one"),
        ("  illness: [flu, gout]", "  illness: [flu]\n  cost: [a]", "one column"),
        ("delta: 0.01", "delta: 0.01\ndelta: 0.02", "given twice"),
    ],
)
def test_wrong_campaign_files_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "campaign.yaml"
    assert old in CAMPAIGN
    file.write_text(CAMPAIGN.replace(old, new))
    with pytest.raises(PolicyError, match=message):
        read_campaign(file)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with plan.json, and a release by it in out/."""
    from shoal.agency.apply import apply_plan
    from shoal.agency.distribution import read_distribution
    from shoal.agency.planning import make_plan, write_plan

    folder = tmp_path_factory.mktemp("agreed")
    illness = ["flu", "flu", "gout", "gout"] * 50 + ["gout", "gout", "flu", "flu"] * 50
    people = {"age": [30, 30, 40, 40] * 100, "sex": ["F", "M"] * 200, "illness": illness}
    table = pa.table(people)
    counts = table.group_by(["age", "sex", "illness"]).aggregate([([], "count_all")]).rename_columns([*people, "count"])
    plan = make_plan(read_distribution(counts, "illness"), promise=2, delta=Fraction("0.01"), samples=300)
    write_plan(plan, folder / "plan.json")
    apply_plan(folder / "plan.json", table, folder / "out", format="csv")
    return folder


def test_a_release_is_registered_by_its_manifest_digests_and_counts(release: Path) -> None:
    body = make_registration(release / "out")
    public = release / "out" / "public"
    assert body["manifest"] == json.loads((public / "manifest.json").read_text())
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in public.iterdir()}
    assert body["files"] == digests
    assert set(digests) == {"data.csv", "manifest.json", "plan.json", "README.md", "report.html", "verify.sql"}
    with (public / "data.csv").open(newline="") as file:
        counted = Counter((row["class"], row["illness"]) for row in csv.DictReader(file))
    assert body["counts"]["columns"] == ["class", "illness", "count"]
    assert {(number, value): count for number, value, count in body["counts"]["rows"]} == counted


def test_a_release_that_does_not_hold_is_not_registered(release: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(release / "out", tmp_path / "out")
    with (copy / "public" / "data.csv").open("a") as file:
        file.write("1,30,F,flu\n")
    with pytest.raises(VerificationError, match="breaks its promise"):
        make_registration(copy)


def test_a_release_by_no_plan_is_not_registered(tmp_path: Path) -> None:
    import shoal

    attributes = {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    people = pa.table({"age": [31, 32, 33, 34], "illness": ["flu", "cold", "flu", "cold"]})
    shoal.anonymize(people, {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 2}}]}, out=tmp_path / "out")
    with pytest.raises(UsageError, match="agency apply"):
        make_registration(tmp_path / "out")


def test_a_plan_is_written_only_if_its_digest_is_right(service: Scripted, release: Path, tmp_path: Path) -> None:
    client = AgencyClient.at(service.url, TOKEN)
    service.content = (release / "plan.json").read_bytes()
    fetched = client.fetch("1", tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_bytes() == service.content
    assert fetched.digest == json.loads(service.content)["digest"]
    with pytest.raises(UsageError, match="exists already"):
        client.fetch("1", tmp_path / "plan.json")
    service.content = service.content.replace(b'"records": ', b'"records": 1')
    with pytest.raises(InputError, match="was altered"):
        client.fetch("1", tmp_path / "other.json")
    plan = (release / "plan.json").read_bytes()
    for unreadable in (
        plan.replace(b"{", b'{"format": 2, ', 1),
        b"\xef\xbb\xbf" + plan,
        plan.decode().encode("utf-16"),
    ):
        service.content = unreadable  # a key twice, a byte order mark, another encoding: what apply would not read
        with pytest.raises(InputError, match="not JSON"):
            client.fetch("1", tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


ANSWERS: dict[tuple[str, str], Any] = {
    ("GET", "/v1/campaigns"): {
        "items": [
            {
                "id": 1,
                "name": "[red]odd\x1b[0m",
                "state": "planned",
                "promise": "l-delta-diversity",
                "l": 3,
                "k": None,
                "delta": 0.01,
            }
        ],
        "next": None,
    },
    ("GET", "/v1/campaigns/1"): {
        "id": 1,
        "name": "stays",
        "state": "collecting",
        "domain": {
            "quasi": [{"name": "age", "values": ["30", "40"]}, {"name": "sex", "values": ["F", "M"]}],
            "sensitive": {"name": "illness", "values": ["flu", "gout"]},
        },
    },
    ("POST", "/v1/campaigns"): {"id": 1},
    ("POST", "/v1/campaigns/1/state"): {"id": 1},
    ("PUT", "/v1/campaigns/1/distribution"): {"rows": 1, "records": 1},
    ("PUT", "/v1/campaigns/1/counts"): {"rows": 1, "records": 2},
    ("GET", "/v1/campaigns/1/counts"): {"items": [{"owner": "north", "records": 2500}], "next": None},
    ("POST", "/v1/campaigns/1/plan"): {"classes": 1234, "records": 5000, "digest": "ab" * 32},
    ("PUT", "/v1/campaigns/1/records"): {"records": 2, "needed": 5000, "missing": 4998, "enough": False},
    ("GET", "/v1/campaigns/1/records"): {
        "items": [{"owner": "south", "records": 2, "needed": 5000, "missing": 4998, "enough": False}],
        "next": None,
    },
    ("POST", "/v1/campaigns/1/releases"): {"id": 8, "basis": "checked from counts"},
    ("GET", "/v1/campaigns/1/releases"): {
        "items": [
            {"id": 8, "owner": "north", "rows": 5001, "basis": "declared by its owner", "at": "2026-01-01T00:00:00Z"}
        ],
        "next": None,
    },
    ("GET", "/v1/campaigns/1/guarantee"): {"statement": "Any 2 of them leave 3 values."},
    ("POST", "/v1/campaigns/1/linkage"): {
        "number": 2,
        "checked": 1,
        "declared": 0,
        "l": 2,
        "remaining": {"flu": 3, "gout": 1},
        "statement": "2 values remain.",
    },
    ("POST", "/v1/requests"): {"id": 5, "state": "open"},
    ("GET", "/v1/requests"): {
        "items": [
            {"id": 5, "client": "lab", "campaign": None, "state": "open", "purpose": "a study", "reason": ""},
            {"id": 6, "client": "press", "campaign": 1, "state": "refused", "purpose": "a story", "reason": "no"},
        ],
        "next": None,
    },
    ("POST", "/v1/requests/5/decision"): {"client": "lab", "state": "approved", "shortfall": ["l = 3 is too much"]},
}


@pytest.fixture
def say(service: Scripted, release: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command of ``shoal agency`` at the scripted service, and return what it printed."""
    service.answers = lambda method, path: ANSWERS[method, path.partition("?")[0]]
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    monkeypatch.chdir(release)
    (release / "campaign.yaml").write_text(CAMPAIGN)
    (release / "people.csv").write_text("age,sex,illness\n30,F,flu\n30,F,flu\n")
    (release / "counts.csv").write_text("age,region,illness,count\n30,01,flu,2\n")

    def run(command: str, *arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["agency", command, service.url, *arguments])
        assert result.exit_code == code, result.output
        assert TOKEN not in result.output
        return result.output

    return run


def body_of(service: Scripted, place: int = -1) -> Any:
    return json.loads(service.asked[place][3])


def test_commands_of_owners(service: Scripted, say: Callable[..., str]) -> None:
    said = say("campaigns")
    assert "[red]odd?[0m" in said
    assert "l-delta-diversity (l = 3, delta = 0.01)" in said
    assert "has received counts of 2 records in 1 combination." in say("contribute", "1", "--data", "people.csv")
    assert body_of(service) == {"columns": ["age", "sex", "illness", "count"], "rows": [["30", "F", "flu", 2]]}
    assert "2 records of 5,000 needed: wait for 4,998 more" in say("report", "1", "--data", "people.csv")
    assert body_of(service) == {"records": 2}
    assert "registered as release 8" in say("register", "1", "out")
    assert set(body_of(service)) == {"manifest", "files", "counts"}
    said = say("releases", "1", "--together", "2")
    assert "5,001  declared by its owner  2026-01-01 00:00:00" in said
    assert "Any 2 of them leave 3 values." in said
    assert service.asked[-1][1].endswith("guarantee?releases=2")
    assert "2 values remain. They are flu (3), gout (1)." in say("releases", "1", "--target", "age=30,sex=F")
    assert body_of(service) == {"target": {"age": "30", "sex": "F"}}
    (Path("twice.csv")).write_text("id,age\na,30\na,30\nb,30\n")
    say("report", "1", "--data", "twice.csv", "--unit", "id")
    assert body_of(service) == {"records": 2}
    for command, *rest in (["contribute"], ["report"], ["contribute", "counts.csv", "--data", "people.csv"]):
        assert "give either" in say(command, "1", *rest, code=2)


def test_commands_of_the_staff(service: Scripted, say: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Campaign 1 is open. Owners may contribute" in say("open", "campaign.yaml")
    assert [path for _, path, _, _ in service.asked] == ["/v1/campaigns", "/v1/campaigns/1/state"]
    assert body_of(service) == {"state": "collecting"}
    assert "Its distribution is known" in say("open", "campaign.yaml", "--distribution", "counts.csv")
    assert body_of(service)["rows"] == [["30", "01", "flu", 2]]
    assert "north contributed 2,500 records" in say("status", "1")
    assert not any("/records" in path for _, path, _, _ in service.asked)
    planned = {**ANSWERS["GET", "/v1/campaigns/1"], "state": "planned"}
    monkeypatch.setitem(ANSWERS, ("GET", "/v1/campaigns/1"), planned)
    said = say("status", "1")
    assert "south has 2 of 5,000 records" in said
    assert "north registered release 8, declared by its owner" in said
    assert "lab asks for releases (request 5)" in said
    assert "press" not in said
    said = say("requests", "5", "--approve")
    assert "Request 5 of lab is approved." in said
    assert "Not promised: l = 3 is too much." in said
    assert body_of(service) == {"state": "approved", "campaign": None, "reason": ""}
    assert "a study" in say("requests")
    assert "give a request's number with --approve or --refuse" in say("requests", "5", code=2)
    assert "1,234 classes; owners publish with 5,000 records or more" in say("settle", "1", "--samples", "6000")
    assert body_of(service) == {"p": None, "samples": 6000}
    assert "closed" in say("close", "1")
    assert body_of(service) == {"state": "closed"}
