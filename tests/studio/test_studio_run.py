"""Runs in the studio: the command and its options, refusals, failures with what to do next, solutions that are kept."""

from __future__ import annotations

import pytest

from shoal.studio.pages.run import folder_of


@pytest.fixture
def at(project):
    return f"/projects/{project.id}/run"


def test_the_release_is_the_commands(solved) -> None:
    assert solved.run.command == "shoal anonymize patients.csv -p policy.yaml -o release --utility full"
    assert {path.name for path in folder_of(solved.run).iterdir()} == {"public", "internal"}
    text = solved.browser.get(solved.at("/run")).text
    assert "First try" in text
    assert "verified" in text
    assert f"/results/{solved.run.id}" in text
    assert "kept" in text  # a measure of what is left
    assert "Solution 2" in text  # the next one's name


def test_a_policy_with_problems_is_not_run(browser, studio, project, at: str) -> None:
    document = project.document
    document["privacy"] = []
    project.change(project.revision, document)
    answer = browser.post(at, {"revision": project.revision})
    assert answer.status_code == 422
    assert "must list at least one model" in answer.text
    assert "must list at least one model" in browser.get(at).text
    assert project.jobs_of() == []


@pytest.mark.parametrize("fields", [{"seed": "-1"}, {"seed": "one"}, {"format": "xls"}])
def test_options_that_make_no_sense_are_refused(browser, studio, project, at: str, fields: dict) -> None:
    answer = browser.post(at, {"revision": project.revision, **fields})
    assert answer.status_code == 422
    assert project.jobs_of() == []
    assert not [each for each in project.folder.iterdir() if each.name.startswith("run-")]


def test_a_run_from_a_page_that_is_old_is_refused(browser, studio, project, at: str) -> None:
    assert browser.post(at, {"revision": project.revision + 1}).status_code == 422
    assert project.jobs_of() == []


def test_a_run_that_fails_says_why_and_where_to_mend_it_and_leaves_nothing(browser, studio, project, at: str) -> None:
    document = project.document
    document["privacy"] = [{"k-anonymity": {"k": 500}}]
    project.change(project.revision, document)
    fields = {"revision": project.revision, "name": "  Too   much ", "seed": "7", "format": "parquet"}
    assert browser.post(at, fields).status_code == 303
    (job,) = project.jobs_of("run")
    assert job.finished.wait(600)
    assert (job.state, job.exit_code) == ("failed", 3)
    assert job.command.endswith("-o release --format parquet --seed 7")
    assert not job.folder.exists()
    text = browser.get(at).text
    assert "Too much" in text
    assert "k = 500 but the table has only 120 records" in text
    assert f'href="/projects/{project.id}/guarantees"' in text
    assert "No release has been made yet" in browser.get(f"/projects/{project.id}/results").text
    project.change(project.revision, {**document, "privacy": [{"k-anonymity": {"k": 2}}]})
    assert browser.post(f"{at}/{job.id}/policy", {"revision": project.revision}).status_code == 303
    assert project.document["privacy"] == [{"k-anonymity": {"k": 500}}]
    assert browser.post(f"{at}/{job.id}/forget", {"revision": project.revision}).status_code == 303
    assert project.jobs_of() == []
    assert "Too much" not in browser.get(at).text
