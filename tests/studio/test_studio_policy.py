"""The policy as YAML in the studio: written, read, edited, wrong, stale; and the files it names."""

from __future__ import annotations

import html
import re
from urllib.parse import unquote

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import UsageError
from shoal.studio.project import outside_names, read_document, write_document

SCALARS = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6) | st.text(max_size=12)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=15,
)


@given(
    st.dictionaries(
        st.sampled_from(["attributes", "privacy", "method", "x y"]) | st.text(max_size=6), VALUES, max_size=4
    )
)
def test_what_is_written_reads_back(document):
    assert read_document(write_document(document)) == document


def text_of(page: str) -> str:
    return html.unescape(re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", page, re.DOTALL)[1])


def path(project, more: str = "") -> str:
    return f"/projects/{project.id}/policy{more}"


def save(browser, project, text, revision=None):
    return browser.post(path(project), {"revision": revision or project.revision, "text": text})


def test_the_draft_is_there_with_its_reasons(browser, project):
    assert text_of(browser.get(path(project)).text) == project.draft.text
    download = browser.get(path(project, "/download"))
    assert download.text == project.draft.text
    assert "attachment" in download.headers["content-disposition"]


def test_text_is_kept_as_typed_until_a_form_changes_the_policy(browser, project):
    text = "# mine\n" + project.policy_text.replace("k: 5", "k:   4")
    assert save(browser, project, text.replace("\n", "\r\n")).status_code == 303
    assert project.policy_text == text
    assert project.document["privacy"][0] == {"k-anonymity": {"k": 4}}
    document = project.document
    document["max_withheld"] = 0.5
    project.change(project.revision, document)
    assert "# mine" not in project.policy_text
    assert yaml.safe_load(project.policy_text)["max_withheld"] == 0.5


@pytest.mark.parametrize(
    ("text", "said"),
    [("attributes: {age: [\n", "line 2"), ("a: 1\na: 2\n", "line 2"), ("[1]\n", "line 1"), ("x: &a [*a]", "itself")],
    ids=["broken", "twice", "list", "endless"],
)
def test_text_that_is_no_policy_stays_in_the_field(browser, project, text, said):
    answer = save(browser, project, text)
    assert answer.status_code == 422
    assert said in answer.text
    assert text_of(answer.text) == text
    assert project.revision == 1


def test_a_policy_with_problems_is_kept_and_each_is_told_with_its_line(browser, project):
    lines = project.policy_text.replace("k: 5", "k: none").replace("role: sensitive", "role: secret").splitlines()
    assert save(browser, project, "\n".join(lines)).status_code == 303
    page = browser.get(path(project)).text
    for problem in project.problems():
        assert problem.line is not None
        assert f"<strong>Line {problem.line}</strong>" in page
    stated = {lines[problem.line - 1].strip() for problem in project.problems()}
    assert any("k: none" in line for line in stated)
    assert any("role: secret" in line for line in stated)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../towns.csv", "a/b.csv", "..", ".lock", "c:\\x.csv", "postgresql://host/db#people"]
)
def test_files_are_named_without_a_folder(browser, project, name):
    document = project.document
    document["attributes"]["town"]["taxonomy"] = {"file": name}
    project.change(project.revision, document)
    (problem,) = project.problems()
    assert "add the file here" in problem.message
    assert problem.line is not None
    with pytest.raises(UsageError):
        project.write_policy()
    for more in ({"file": {"path": name}}, {"pseudonym": {"key": name}}, {"k-map": {"k": 2, "population": name}}):
        assert outside_names(more)


def test_a_file_that_the_policy_names(browser, project):
    document = project.document
    document["attributes"]["town"]["taxonomy"] = {"file": "towns.csv"}
    project.change(project.revision, document)
    document["attributes"]["town"]["description"] = "x"
    answer = browser.put(f"/projects/{project.id}/files", b"Koeln;Rhine;*\nBonn;Rhine;*\nAachen;West;*\n", "towns.csv")
    assert answer.status_code == 200
    assert project.list_attached() == ("towns.csv",)
    assert project.problems() == ()
    assert project.write_policy().parent == project.files
    assert project.list_attached() == ("towns.csv",), "policies of runs are not attached files"
    assert "towns.csv" in browser.get(path(project)).text
    browser.post(f"/projects/{project.id}/files/remove", {"name": "../lock"})
    browser.post(f"/projects/{project.id}/files/remove", {"name": "towns.csv"})
    assert project.list_attached() == ()


@pytest.mark.parametrize("name", ["", "..%2Fx.csv", "%2Fetc%2Fx.csv", ".x.csv", "a%00b.csv"])
def test_files_with_names_like_paths_are_refused(browser, project, name):
    before = sorted(project.folder.rglob("*"))
    assert browser.put(f"/projects/{project.id}/files", b"x", name).status_code == 422
    with pytest.raises(UsageError, match="not a valid file name"):
        project.attach(unquote(name), project.source)
    assert sorted(project.folder.rglob("*")) == before
