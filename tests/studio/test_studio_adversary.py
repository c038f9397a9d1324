"""Somebody who wants the data or to do harm: other users of the machine, hostile cookies, policies and names."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import sys

import pytest

from shoal.studio.application import Key, create_app, find_own_peers, owner_in
from shoal.studio.studio import PrivateFolder

HOST = "127.0.0.1:8765"
HERE, THERE = ("127.0.0.1", 8765), ("127.0.0.1", 40000)
LINE = "  {0}: {1} {2} {3} 00000000:00000000 00:00000000 00000000 {4:5d}        0 {5} 1 0000000000000000 20 4 30 10 -1"
ASKING = """
import encodings.idna, os, sys, urllib.error, urllib.request
os.setuid(int(sys.argv[2]))  # when everything is loaded: others may not read where it is installed
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=20).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""
HOLDING = """
import encodings.idna, os, socket, sys, time
os.setuid(int(sys.argv[2]))
held = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(150)]
print("held", flush=True)
time.sleep(60)
"""
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
on_linux = pytest.mark.skipif(find_own_peers() is None, reason="the system does not tell whose a connection is")


def written(address: tuple[str, int]) -> str:
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    return f"{number:08X}:{address[1]:04X}"


def line(there=THERE, here=HERE, user=1000, file=77, before="") -> str:
    return LINE.format(1, before + written(there), before + written(here), "01", user, file)


def test_the_owner_of_the_other_end_is_found_in_the_systems_table():
    own_end = line(HERE, THERE, user=1, file=5)
    others = [own_end, line(("127.0.0.1", 40001), user=2), line(("127.0.0.2", 40000), user=3)]
    assert owner_in([*others, line()], THERE, HERE) == 1000
    assert owner_in([*others, line(before="0000000000000000FFFF0000")], THERE, HERE) == 1000
    assert owner_in(others, THERE, HERE) is None
    assert owner_in([line(user=0, file=0)], THERE, HERE) is None, "nobody holds it, so root does not either"
    assert owner_in([line(before="0000000000000000AAAA0000")], THERE, HERE) is None


@on_linux
def test_own_connections_are_told_from_those_that_nobody_holds():
    own = find_own_peers()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        accepted, there = listening.accept()
        with accepted:
            assert own(there, accepted.getsockname())
            client.close()
            assert not own(there, accepted.getsockname())


def test_connections_of_others_stay_outside_even_with_the_key(browser, studio):
    strangers = []
    key = Key()

    def own(there, here):
        strangers.append((there, here))
        return False

    browser.client.app = create_app(studio, key, HOST, own=own)
    browser.client = type(browser.client)(browser.client.app, base_url=f"http://{HOST}")
    browser.client.cookies.set("shoal-studio-8765", key.cookie)
    assert browser.get("/").status_code == 403
    assert browser.get(f"/?token={key.token}").status_code == 403
    assert key.token is not None, "a stranger does not use it up"
    assert len(strangers) == 2


@pytest.mark.parametrize(
    "cookies",
    [
        "shoal-studio-8765=evil; {own}",
        "{own}; shoal-studio-8765=evil",
        'a b; "x={{}}; $Version=1; [bad]=1; =; ;; {own}',
        'other="2|1:0|10:16"; {own}',
    ],
)
def test_cookies_that_other_ports_set_do_not_lock_the_user_out(browser, cookies):
    own = f"shoal-studio-8765={browser.key.cookie}"
    browser.client.cookies.clear()
    assert browser.get("/", Cookie=cookies.format(own=own)).status_code == 200
    assert browser.get("/", Cookie=cookies.format(own=own[:-1])).status_code == 403


def bomb(n_levels: int) -> str:
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, n_levels)]
    return "\n".join(["a0: &a0 [" + ", ".join("x" * 10) + "]", *levels])


@pytest.mark.parametrize(
    "text",
    [
        bomb(30),
        "a: &a [*a]",
        "a: &a " + "x" * 100_000 + "\nb: [" + ", ".join(["*a"] * 10_000) + "]",
        "a: " + "9" * 5000,
        "a: 0x" + "f" * 5000,
        "a: !!timestamp never",
        "a: !!bool perhaps",
        'attributes: {age: {role: quasi, description: "\\ud800"}}',
        "[" * 5000,
    ],
    ids=["aliases", "itself", "long", "digits", "hex", "timestamp", "bool", "surrogate", "deep"],
)
def test_hostile_texts_are_refused_and_change_nothing(browser, project, text):
    answer = browser.post(f"/projects/{project.id}/policy", {"revision": 1, "text": text})
    assert answer.status_code == 422
    assert "Nothing was changed yet" in answer.text
    assert project.revision == 1


@pytest.mark.parametrize("place", ["9" * 5000, "²", "-1", "1" * 9])
def test_a_place_that_there_is_not_is_refused_with_words(browser, project, place):
    answer = browser.post(f"/projects/{project.id}/guarantees/remove", {"revision": 1, "place": place})
    assert answer.status_code == 422
    assert project.revision == 1


def test_names_of_files_that_no_system_takes_are_refused(browser, project):
    for name in ("%E6%BC%A2" * 90 + ".csv", "a%00b.csv", "..", "%2e%2e%2fx.csv", "a%2fb.csv", "%ED%A0%80%0A.csv"):
        assert browser.put(f"/projects/{project.id}/files", b"a\n1\n", name).status_code == 422
    assert project.list_attached() == ()


@pytest.mark.parametrize(
    "part",
    [
        "privacy: [{k-map: {k: 2, population: /etc/passwd}}]",
        "privacy: [{k-map: {k: 2, population: 'postgresql://host/people'}}]",
        "privacy: [{k-map: {k: 2, population: 'sqlite:people.db'}}]",
        "x: &p ../secret.csv\nprivacy: [{k-map: {k: 2, population: *p}}]",
        "x: &p {population: ../secret.csv}\nprivacy: [{k-map: {<<: *p, k: 2}}]",
        "attributes: {age: {role: quasi, taxonomy: {file: /etc/passwd}}}",
        "attributes: {age: {role: quasi, taxonomy: {file: {path: ../../x.csv}}}}",
        "attributes: {age: {role: quasi, technique: {pseudonym: {key: /root/.ssh/id_rsa}}}}",
    ],
)
def test_a_policy_names_no_file_outside(browser, project, part):
    assert browser.post(f"/projects/{project.id}/policy", {"revision": 1, "text": part}).status_code == 303
    assert "only files that were added here" in project.problems()[0].message
    assert browser.post(f"/projects/{project.id}/run", {"revision": 2}).status_code == 422
    assert not project.jobs_of()


def test_the_lock_of_a_room_has_its_name_only_once_it_is_held(tmp_path, monkeypatch):
    """Else somebody who looks for rooms of the dead in that moment finds it free, and removes the room."""
    real, seen = fcntl.flock, []

    def watched(lock, how):
        seen.append([path.name for path in tmp_path.glob("*/lock")])
        real(lock, how)

    monkeypatch.setattr(fcntl, "flock", watched)
    with PrivateFolder(tmp_path) as private:
        assert seen == [[]]
        assert (private.path / "lock").exists()


@pytest.fixture
def served(tmp_path):
    """A studio of its own with few files to open; its address."""
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "shoal.cli.watched", "studio", "--no-browser", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (140, 140)),
    )
    said = ""
    while "}" not in said:
        said += process.stdout.readline()
    yield said.split('"')[3]
    _, complaints = process.communicate()
    assert complaints == ""


def asked(url: str, user: int) -> str:
    command = [sys.executable, "-I", "-c", ASKING, url, str(user)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@as_root
@on_linux
def test_another_user_with_the_link_gets_nothing_and_cannot_take_all_connections(served):
    assert asked(served, NOBODY) == "403\n"
    port = served.split(":")[2].split("/")[0]
    command = [sys.executable, "-I", "-c", HOLDING, port, str(NOBODY)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holding:
        try:
            assert holding.stdout.readline() == "held\n"
            assert asked(served, os.getuid()) == "200\n", "the link is still good, and there is room for its user"
        finally:
            holding.kill()
