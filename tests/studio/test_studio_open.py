"""Opening tables in the studio: uploads, broken ones included, the demo data, and closing."""

from __future__ import annotations


def test_pages_of_a_project_answer(browser, project):
    for path in ("/", *(f"/projects/{project.id}{path}" for path in ("/columns", "/policy", "/policy/panel"))):
        answer = browser.get(path)
        assert answer.status_code == 200, path
    assert "patients.csv" in browser.get("/").text
