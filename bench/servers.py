"""Real servers on loopback, for benchmarks and for the tests of the agency's service.

What is started here is ended by its process id; nothing else is.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("shoal")
_PATIENCE = 60.0


def postgresql_binaries() -> Path | None:
    """Return the folder of the newest PostgreSQL of Debian's packages, if there is one."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    return max(found, key=lambda path: int(path.parent.name), default=None)


@dataclass(slots=True)
class PostgreSQL:
    """A cluster in a temporary folder, with a password, on a loopback port."""

    binaries: Path
    folder: Path
    fsync: bool
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @classmethod
    def create(cls, binaries: Path, *, fsync: bool = True) -> PostgreSQL:
        """Make a cluster; it is not started yet. Without *fsync* it outlives being killed, but no power cut."""
        made = cls(binaries, Path(tempfile.mkdtemp(prefix="shoal-pg-")), fsync)
        word = made.folder / "password"
        word.write_text(made.password)
        if os.geteuid() == 0:
            for path in (made.folder, word):
                shutil.chown(path, "postgres", "postgres")
        options = ["--username=postgres", "--auth=scram-sha-256", f"--pwfile={word}", "--encoding=UTF8", "--locale=C"]
        ended = subprocess.run(
            [binaries / "initdb", "--no-sync", "-D", made.folder / "data", *options],
            capture_output=True,
            check=False,
            **made._user(),
        )
        if ended.returncode:
            raise RuntimeError(f"initdb ended with {ended.returncode}: {ended.stderr.decode()[-500:]}")
        word.unlink()
        return made

    def start(self) -> None:
        """Start it, also after it was killed, and wait until it answers."""
        self.port = self.port or _free_port()
        settings = [f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=60"]
        settings.append(f"fsync={'on' if self.fsync else 'off'}")
        arguments = [part for setting in settings for part in ("-c", setting)]
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            with (self.folder / "log").open("ab") as log:
                self.process = subprocess.Popen(
                    [self.binaries / "postgres", "-D", self.folder / "data", *arguments],
                    stdout=log,
                    stderr=log,
                    **self._user(),
                )
            while self.process.poll() is None and time.monotonic() < until:
                if self._answers():
                    return
                time.sleep(0.05)
            time.sleep(0.2)  # processes of a server that was killed take a moment to end
        raise RuntimeError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()[-1000:]}")

    def kill(self) -> None:
        """End the server and all its processes as a power cut would."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for process in (self.process.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()

    def remove(self) -> None:
        """Stop the server and delete its folder."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
            self.process.wait(_PATIENCE)
        shutil.rmtree(self.folder)

    def url(self, database: str) -> str:
        """Return the URL of one database."""
        return f"postgresql+psycopg://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template1") -> str:
        """Make a database, empty or as a copy of another, and return its name."""
        name = f"agency_{secrets.token_hex(6)}"
        with self._connected() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def _answers(self) -> bool:
        import psycopg

        try:
            with self._connected() as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _connected(self) -> Any:
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=self.password,
            dbname="postgres",
            autocommit=True,
        )

    @staticmethod
    def _user() -> dict[str, Any]:
        return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}


@dataclass(slots=True)
class Service:
    """``shoal agency serve`` as a process of its own, with its log in a file."""

    database: str
    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it said so far, all starts together."""
        return self.folder / "service.log"

    def start(self) -> Service:
        """Start it and wait until it is healthy."""
        stated = self.folder / "port"
        stated.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [COMMAND, "agency", "serve", "--database", self.database, "--port", "0", "--port-file", stated],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.settings},
            )
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"the service ended with {self.process.returncode}: {self.log.read_text()[-2000:]}")
            if stated.exists() and (text := stated.read_text().strip()):
                self.port = int(text)
                with contextlib.suppress(OSError, HTTPException):
                    if self.client().call("GET", "/healthz").status == 200:
                        return self
            time.sleep(0.02)
        raise RuntimeError(f"the service does not start: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End it at once, with no chance to finish anything."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(_PATIENCE)

    def client(self, token: str | None = None) -> Client:
        """Return a connection of a caller; it is opened when it is needed."""
        return Client(self.port, token)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the service answered."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass(slots=True)
class Client:
    """One keep-alive connection of one caller; for one thread."""

    port: int
    token: str | None = None
    timeout: float = 30.0
    _connection: HTTPConnection | None = None
    _used: float = 0.0

    def call(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a request with a JSON body and return the answer, whatever its status."""
        sent = dict(headers or {})
        content: bytes | None = None
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        return self.send(method, path, content, sent)

    def send(self, method: str, path: str, content: Any, headers: Mapping[str, str], **options: bool) -> Answer:
        """Send exactly this content (bytes, or pieces that go chunked), with the caller's token."""
        if self._connection is None or time.monotonic() - self._used > 2:  # the server closes idle connections
            self.close()
            self._connection = HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        own = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        try:
            self._connection.request(method, path, content, {**own, **headers}, **options)
            answered = self._connection.getresponse()
            answer = Answer(answered.status, {k.lower(): v for k, v in answered.getheaders()}, answered.read())
        except BaseException:
            self.close()
            raise
        self._used = time.monotonic()
        return answer

    def __del__(self) -> None:
        """Nobody need remember to close."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def migrate(database: str) -> None:
    """Bring a database to the newest version, by the command."""
    _told("migrate", "--database", database)


def first_token(database: str, role: str = "agency", name: str = "first") -> str:
    """Return a new token, made by the command."""
    stated = _told("token", "--database", database, "--role", role, "--name", name, "--json")
    return str(json.loads(stated)["token"])


@contextlib.contextmanager
def serving(service: Service) -> Iterator[Service]:
    """Run a service as long as the block lasts."""
    try:
        yield service.start()
    finally:
        if service.process is not None and service.process.poll() is None:
            service.kill()


def _told(*arguments: str) -> str:
    ended = subprocess.run(
        [COMMAND, "agency", *arguments], capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"shoal agency {arguments[0]} ended with {ended.returncode}: {ended.stderr[-1000:]}")
    return ended.stdout


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
