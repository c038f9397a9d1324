"""A running service on each kind of database, callers of each role, and campaigns in each state."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from bench import servers

KINDS = ("sqlite", "postgresql")
ROLES = ("agency", "owner", "client")
STATES = ("draft", "collecting", "planned", "closed")
AGES = [str(age) for age in range(20, 40)]
ILLNESSES = ["angina", "asthma", "flu", "gout"]
DOMAIN = {
    "quasi": [{"name": "age", "values": AGES}, {"name": "sex", "values": ["F", "M"]}],
    "sensitive": {"name": "illness", "values": ILLNESSES},
}
MANY = dict.fromkeys(("campaigns", "tokens", "releases"), 1_000_000)


# What these look at happens before a database is asked: one kind of it is enough in the usual run.
OF_ANY_DATABASE = ("test_serve_bodies", "test_serve_http", "test_serve_limits", "test_serve_schema", "test_serve_tls")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the second kind of database to the thorough run where it makes no difference."""
    for item in items:
        if item.path.stem in OF_ANY_DATABASE and "[postgresql" in item.name:
            item.add_marker(pytest.mark.thorough)


@dataclass
class World:
    """A service, its database, and one caller of each role."""

    kind: str
    service: servers.Service
    agency: servers.Client
    callers: dict[str, Any] = field(default_factory=dict)
    domain: ClassVar[dict[str, Any]] = DOMAIN
    states: ClassVar[tuple[str, ...]] = STATES

    @staticmethod
    def counts(factor: int = 1, ages: list[str] | None = None) -> dict[str, Any]:
        """Counts of every combination of the domain, or of some ages."""
        rows = [
            [age, sex, illness, factor * (40 - 10 * place)]
            for age in (AGES if ages is None else ages)
            for sex in ("F", "M")
            for place, illness in enumerate(ILLNESSES)
        ]
        return {"columns": ["age", "sex", "illness", "count"], "rows": rows}

    def caller(self, role: str, name: str | None = None) -> Any:
        """A new token of a role; its ``id`` is kept beside it."""
        body = {"name": name or f"{role}-{secrets.token_hex(4)}", "role": role}
        made = self.agency.call("POST", "/v1/tokens", body)
        assert made.status == 201, made.body
        self.callers[made.json["token"]] = made.json
        return self.service.client(made.json["token"])

    def approve(self, client: Any, campaign: Campaign) -> None:
        """Have a client ask for a campaign, and the agency say yes."""
        made = client.call("POST", "/v1/requests", {"purpose": "research", "campaign": campaign.id})
        assert made.status == 201, made.body
        answer = self.agency.call("POST", f"/v1/requests/{made.json['id']}/decision", {"state": "approved"})
        assert answer.status == 200, answer.body

    def restart(self) -> None:
        """Start the service again; it has another port then."""
        self.agency.close()
        self.agency.port = self.service.start().port

    def identity(self, caller: Any) -> dict[str, Any]:
        """What the service said when it made a caller's token."""
        return self.callers[caller.token]

    def name(self, caller: Any) -> str:
        """The name of a caller: what the service calls an owner."""
        return self.identity(caller)["name"]

    def listed(self, path: str) -> list[dict[str, Any]]:
        """A whole list, page by page."""
        found, after = [], 0
        while after is not None:
            answer = self.agency.call("GET", f"{path}?limit=1000&after={after}")
            assert answer.status == 200, answer
            found += answer.json["items"]
            after = answer.json["next"]
        return found

    def audit(self) -> list[dict[str, Any]]:
        """All lines of the audit log so far, page by page."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.agency.call("GET", f"/v1/audit?after={len(found)}&limit=1000").json["items"]
            found += page
            if len(page) < 1000:
                return found

    def campaign(self, state: str = "draft", **changes: Any) -> Campaign:
        """A new campaign, brought to a state by owners who contribute counts."""
        promise = {} if "k" in changes else {"l": 3}
        body = {"name": f"campaign {secrets.token_hex(4)}", "domain": DOMAIN, **promise, "delta": 0.01, **changes}
        made = self.agency.call("POST", "/v1/campaigns", body)
        assert made.status == 201, made.body
        found = Campaign(self, made.json["id"])
        for step in (found.collect, found.plan, found.close)[: STATES.index(state)]:
            step()
        return found


@dataclass
class Campaign:
    """A campaign, and what is done to it by the right callers."""

    world: World
    id: Any
    owner: Any = None
    made: dict[str, Any] | None = None
    fetched: dict[str, Any] | None = None

    @property
    def path(self) -> str:
        return f"/v1/campaigns/{self.id}"

    def state(self) -> str:
        return self.world.agency.call("GET", self.path).json["state"]

    def move(self, state: str) -> Any:
        return self.world.agency.call("POST", f"{self.path}/state", {"state": state})

    def collect(self) -> None:
        assert self.move("collecting").status == 200
        self.owner = self.world.caller("owner")
        answer = self.owner.call("PUT", f"{self.path}/counts", self.world.counts())
        assert answer.status == 200, answer.body

    def plan(self) -> None:
        answer = self.world.agency.call("POST", f"{self.path}/plan", {})
        assert answer.status == 201, answer.body
        self.made = answer.json
        self.document()

    def close(self) -> None:
        assert self.move("closed").status == 200

    def document(self) -> dict[str, Any]:
        """The plan; it is fetched once, so that threads may ask for it."""
        if self.fetched is None:
            answer = self.world.agency.call("GET", f"{self.path}/plan")
            assert answer.status == 200, answer.body
            self.fetched = answer.json
        return self.fetched

    def release(self, **changes: Any) -> dict[str, Any]:
        """What an owner registers: a manifest as ``shoal agency apply`` writes it, of data of their own."""
        assert self.made is not None
        data, plan = (hashlib.sha256(secrets.token_bytes(8)).hexdigest() for _ in range(2))
        manifest = {
            "format": 1,
            "shoal_version": "0.4.0",
            "method": "agreed",
            "method_parameters": {},
            "agreed": {
                "file": "plan.json",
                "sha256": plan,
                "digest": self.made["digest"],
                "classes": self.made["classes"],
            },
            "guarantees": [{"model": "l-delta-diversity", "parameters": {"l": 3, "delta": 0.01}, "achieved": 3}],
            "parts": [["age", "sex", "illness"]],
            "rows": self.made["records"],
            "withheld": 0,
            "missing": {"policy": "category", "tokens": [""], "dropped": 0},
            "attributes": {},
            "utility": {},
            "data": {"file": "data.csv", "format": "csv", "sha256": data},
            **changes,
        }
        body = {"manifest": manifest, "files": {"data.csv": data, "plan.json": plan}}
        return {**body, "counts": self.class_counts(manifest["rows"])}

    def class_counts(self, rows: int) -> dict[str, Any]:
        """Counts of so many rows in which every class shows just the values that the plan names for it."""
        document = self.document()
        values = document["sensitive"]["values"]
        named = document["values"] or [range(len(values))] * document["classes"]
        pairs = [[str(number), values[code]] for number, codes in enumerate(named, 1) for code in codes]
        each, rest = divmod(rows, len(pairs))
        counts = [[*pair, each + (place < rest)] for place, pair in enumerate(pairs)]
        return {"columns": ["class", document["sensitive"]["name"], "count"], "rows": counts}


@pytest.fixture(scope="session")
def shoal_agency() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command of the agency to its end."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [str(servers.COMMAND), "agency", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture(scope="session")
def shoal_serving() -> Callable[..., Any]:
    """Serve with options of the command, as a context manager that yields the address."""

    @contextlib.contextmanager
    def serve(*options: object) -> Iterator[str]:
        command = [str(servers.COMMAND), "agency", "serve", "--port", "0", "--json", *map(str, options)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield str(json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")["url"])
        finally:
            process.terminate()
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()

    return serve


@pytest.fixture(scope="session", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Every test of a service runs on both kinds of database."""
    return request.param


@pytest.fixture(scope="session")
def empty_database(kind: str, request: pytest.FixtureRequest, tmp_path_factory) -> Callable[[], str]:
    """Make databases without any table."""

    def make() -> str:
        if kind == "sqlite":
            return f"sqlite:///{tmp_path_factory.mktemp('database')}/agency.db"
        cluster = request.getfixturevalue("cluster")
        return cluster.url(cluster.new_database())

    return make


@pytest.fixture(scope="session")
def new_database(kind: str, empty_database, request, tmp_path_factory) -> Callable[[], tuple[str, str]]:
    """Make databases at head with one token of the agency: copies of one that the commands made."""
    seed = empty_database()
    servers.migrate(seed)
    token = servers.first_token(seed)

    def copy() -> tuple[str, str]:
        if kind == "sqlite":
            folder = tmp_path_factory.mktemp("database")
            shutil.copytree(Path(seed.removeprefix("sqlite:///")).parent, folder, dirs_exist_ok=True)
            return f"sqlite:///{folder}/agency.db", token
        cluster = request.getfixturevalue("cluster")
        return cluster.url(cluster.new_database(seed.rpartition("/")[2])), token

    return copy


@pytest.fixture(scope="session")
def new_world(kind: str, new_database, tmp_path_factory) -> Callable[..., Any]:
    """Start services with settings, each on a database of its own, as context managers."""

    @contextlib.contextmanager
    def start(**settings: object) -> Iterator[World]:
        database, token = new_database()
        with started(kind, database, token, tmp_path_factory.mktemp("service"), settings) as made:
            yield made

    return start


@contextlib.contextmanager
def started(kind: str, database: str, token: str, folder: Path, settings: Mapping[str, object]) -> Iterator[World]:
    named = {f"SHOAL_AGENCY_{name.upper()}": str(value) for name, value in settings.items()}
    with servers.serving(servers.Service(database, folder, named)) as service:
        yield World(kind, service, service.client(token))


@pytest.fixture
def fragile(new_cluster, tmp_path) -> Iterator[tuple[Any, World]]:
    """A PostgreSQL that may be killed, and a service on it."""
    cluster = new_cluster()
    try:
        cluster.start()
        database = cluster.url(cluster.new_database())
        servers.migrate(database)
        with started("postgresql", database, servers.first_token(database), tmp_path, MANY) as made:
            yield cluster, made
    finally:
        cluster.remove()


@pytest.fixture(scope="session")
def world(new_world) -> Iterator[World]:
    """The service that most tests share; whoever changes limits or kills starts another."""
    with new_world() as made:
        yield made


@pytest.fixture(scope="session")
def states(world: World) -> dict[str, Campaign]:
    """A campaign in each state, that tests leave as it is."""
    return {state: world.campaign(state) for state in STATES}


@pytest.fixture(scope="session")
def agreed_error() -> Callable[[Any], dict[str, str]]:
    """Read an error of the one form that all have."""

    def read(answer: Any) -> dict[str, str]:
        assert answer.headers["content-type"].split(";")[0] == "application/json", answer
        document = json.loads(answer.body)
        assert set(document) == {"error"}
        assert set(document["error"]) == {"code", "message"}
        assert all(type(text) is str and text for text in document["error"].values())
        return document["error"]

    return read
