"""Somebody who wants the data or to do harm: other users of the machine, hostile cookies, policies and names."""

from __future__ import annotations

import fcntl
import os

import pytest

from shoal.studio.studio import PrivateFolder

HOST = "127.0.0.1:8765"
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")


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
    assert "add the file here" in project.problems()[0].message
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
