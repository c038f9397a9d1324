"""Attacks in the studio: chosen, run as the command, recorded with the release, told in words."""

from __future__ import annotations

import json

import pytest

from shoal.studio.pages.run import folder_of


@pytest.fixture(scope="module")
def attacked(solved):
    """The job of two attacks."""
    fields = {"revision": solved.project.revision, "attack": ["homogeneity", "linkability"], "targets": "40"}
    answer = solved.browser.post(solved.at(f"/attacks/{solved.run.id}"), fields)
    assert answer.status_code == 303
    job = solved.project.jobs_of("attack")[0]
    assert job.finished.wait(600)
    assert job.state == "done", job.message
    return job


def test_what_was_found_is_shown_and_recorded(solved, attacked) -> None:
    assert attacked.command == (
        "shoal attack release --source patients.csv -p policy.yaml --attack homogeneity --attack linkability "
        "--targets 40 --record"
    )
    text = solved.browser.get(solved.at(f"/attacks/{solved.run.id}")).text
    tried = {one["name"]: one for one in attacked.answer["attacks"]}
    assert tried
    for name, one in tried.items():
        assert f'<th scope="row">{name}' in text
        assert f"{one['risk']['low']:.3f} to {one['risk']['high']:.3f}" in text
        assert all(part in text for part in one["verdict"].split(": "))
    assert "Meaning of a risk" in text
    assert "plot-figure" in text
    recorded = json.loads((folder_of(solved.run) / "internal" / "attacks.json").read_text())
    assert {one["name"] for one in recorded["attacks"]} == set(tried)
    report = solved.browser.get(solved.at(f"/release/{solved.run.id}/internal/report.html")).text
    assert all(name in report for name in tried)


@pytest.mark.parametrize("fields", [{"targets": "5"}, {"targets": "many"}, {"targets": "40", "control": "../x.csv"}])
def test_what_makes_no_sense_is_refused(solved, fields: dict) -> None:
    before = len(solved.project.jobs_of("attack"))
    answer = solved.browser.post(solved.at(f"/attacks/{solved.run.id}"), {"revision": 1, **fields})
    assert answer.status_code == 422
    assert len(solved.project.jobs_of("attack")) == before
