"""What somebody who has not read anything is told: where to fix a failure, and what a kind of release is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from shoal.studio.studio import suggest_fix

COMMAND = "shoal anonymize stays.csv -p policy.yaml -o release"
METHODS = {
    "slicing": ({"slicing": {}}, [{"distinct-l-diversity": {"l": 2}}]),
    "synthetic": ({"synthetic": {"epsilon": 1.0}}, []),
}


def failed(exit_code: int, message: str, **others: str) -> SimpleNamespace:
    given = {"state": "failed", "command": COMMAND, "project": SimpleNamespace(id="7"), **others}
    return SimpleNamespace(exit_code=exit_code, message=message, **given)


@pytest.mark.parametrize(
    ("exit_code", "message", "page"),
    [
        (3, "k-anonymity: k = 1000000 but the table has only 20,000 records", "guarantees"),
        (2, "column 'cost' is insensitive; declare it quasi or sensitive with a taxonomy", "columns"),
        (2, "column 'age' is not in stays.csv", "columns"),
        (2, "max_withheld: must be a number", "policy"),
        (-9, "the command ended without saying why", "policy"),
    ],
    ids=["unreachable", "role", "column", "policy", "killed"],
)
def test_a_failure_leads_to_the_page_that_mends_it(exit_code: int, message: str, page: str) -> None:
    words, path = suggest_fix(failed(exit_code, message))
    assert path == f"/projects/7/{page}"
    assert words


def test_nothing_is_mended_where_nothing_failed_or_no_release_was_asked_for() -> None:
    assert suggest_fix(failed(0, "", state="done")) is None
    assert suggest_fix(failed(130, "", state="cancelled")) is None
    assert suggest_fix(failed(2, "column 'age' is absent", command="shoal attack release --source a.csv")) is None


@pytest.fixture
def changed(project):
    """The project with another method and what goes with it."""

    def change(name: str) -> None:
        document = project.document
        document["method"], document["privacy"] = METHODS[name]
        lists = {"sex": ["F", "M"], "town": ["Aachen", "Bonn", "Koeln"], "disease": ["angina", "cold", "flu", "gout"]}
        for column, values in lists.items():
            document["attributes"][column]["taxonomy"] = {"flat": {"values": values}}
        document["attributes"]["note"] = {"role": "identifier"}
        project.change(project.revision, document)
        assert project.problems() == ()

    return change


def released(browser, studio, project, at: str) -> str:
    answer = browser.post(f"{at}/run", {"revision": project.revision, "utility": "quick"})
    assert answer.status_code == 303
    job = project.jobs_of()[0]
    assert job.finished.wait(600)
    assert (job.state, job.message) == ("done", "")
    return browser.get(f"{at}/results/{job.id}").text


def test_rows_of_buckets_are_not_taken_for_people(browser, studio, project, changed) -> None:
    changed("slicing")
    text = released(browser, studio, project, f"/projects/{project.id}")
    assert "a published row is no person" in text
    assert "Every guarantee was recomputed" in text


def test_synthetic_rows_are_not_called_records(browser, studio, project, changed) -> None:
    at = f"/projects/{project.id}"
    asked = browser.get(f"{at}/guarantees").text
    assert "makes its own promise" not in asked
    changed("synthetic")
    asked = browser.get(f"{at}/guarantees").text
    assert "synthetic makes its own promise, set by the method's parameters below" in asked
    assert "Nothing is promised yet" not in asked
    text = released(browser, studio, project, at)
    assert "rows were drawn from noisy counts of 120 records; no row is a record" in text
    assert "records are published" not in text
    assert "Every guarantee was recomputed" not in text


def test_a_method_with_a_promise_of_its_own_says_that_others_must_go(browser, project) -> None:
    document = project.document
    document["method"] = {"synthetic": {"epsilon": 1.0}}
    project.change(project.revision, document)
    text = browser.get(f"/projects/{project.id}/guarantees").text
    assert "Remove those above, or choose another method" in text


def test_what_will_be_run_is_told_before_it_is(browser, project) -> None:
    text = browser.get(f"/projects/{project.id}/run").text
    assert "<strong>The policy now:</strong> auto, with k-anonymity (k = 5)" in text
    document = project.document
    document.pop("privacy")
    project.change(project.revision, document)
    assert "The policy now" not in browser.get(f"/projects/{project.id}/run").text


def test_a_file_that_is_not_utf_8_is_told_where_to_say_so(browser) -> None:
    answer = browser.put("/upload?delimiter=&encoding=utf-8", "Ort;Alter\nKöln;3\n".encode("cp1252"), "orte.csv")
    assert answer.status_code == 422
    assert "set its character encoding under More about text files" in answer.text
    assert "`encoding`" not in answer.text
