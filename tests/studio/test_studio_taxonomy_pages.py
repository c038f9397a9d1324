"""The pages of taxonomies: what they show, what they take, and that a refused edit leaves the policy as it was."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

AGE, TOWN, DISEASE = 1, 3, 4


@pytest.fixture
def project(open_in, tmp_path):
    """A table of 120 people in three towns, opened."""
    path = tmp_path / "people.csv"
    towns, diseases = ("Koeln", "Bonn", "Aachen"), ("flu", "gout", "angina", "cold")
    rows = [f"p{i},{20 + i * 7 % 50},{'FM'[i % 2]},{towns[i % 3]},{diseases[i % 4]},note {i}" for i in range(120)]
    path.write_text("\n".join(["patient,age,sex,town,disease,note", *rows, ""]))
    return open_in(path)


@pytest.fixture
def at(project):
    """Return the path of a column's page."""
    return lambda column: f"/projects/{project.id}/taxonomies/{column}"


@pytest.fixture
def edit(browser, project, at):
    """Send an edit of a column and return the part of the page that answers it."""

    def sent(column, what, swap=True, revision=None, **fields):
        given = {"revision": project.revision if revision is None else revision, "do": what, **fields}
        return browser.post(at(column), given, swap=swap)

    return sent


def taxonomy(project, name):
    return project.document["attributes"][name].get("taxonomy")


def test_the_overview_lists_what_needs_a_taxonomy_and_whether_it_is_complete(browser, project):
    page = browser.get(f"/projects/{project.id}/taxonomies").text
    rows = re.findall(r'<th scope="row"><a [^>]*>(\w+)</a>', page)
    assert rows == ["age", "sex", "town", "disease"]
    assert page.count("badge good") >= 4
    document = project.document
    document["attributes"]["town"]["taxonomy"] = {"flat": ["Bonn"]}
    document["attributes"]["sex"]["taxonomy"] = {"mask": {"length": 0}}
    project.change(project.revision, document)
    page = browser.get(f"/projects/{project.id}/taxonomies").text
    assert "2 values outside" in page
    assert "does not load" in page


@pytest.mark.parametrize("kind", ["intervals", "numbers", "mask", "tree", "groups", "flat", "default"])
def test_every_kind_can_be_started_and_its_page_has_no_styles_or_scripts_of_its_own(edit, project, browser, at, kind):
    answer = edit(AGE, "start", kind=kind)
    assert answer.status_code == 200
    assert taxonomy(project, "age") == (None if kind == "default" else taxonomy(project, "age"))
    assert (next(iter(taxonomy(project, "age"))) if kind != "default" else "default") == kind
    page = browser.get(at(AGE)).text
    assert "style=" not in page
    assert "<script>" not in page
    assert "Every value of the table has its place" in page


def test_what_does_not_load_is_told_at_its_field_and_the_old_one_stays(edit, project):
    before, revision = taxonomy(project, "age"), project.revision
    part = edit(AGE, "form", kind="intervals", min="0", max="119", cut="widths", widths="5, 12").text
    assert re.search(r'id="widths"[^>]*value="5, 12"[^>]*aria-invalid="true"', part)
    assert re.search(r'id="widths-hint">widths 5 and 12 do not nest', part)
    assert 'data-announce="Not changed: widths 5 and 12 do not nest' in part
    assert (taxonomy(project, "age"), project.revision) == (before, revision)


def test_a_tree_is_built_and_undone_step_by_step(edit, project):
    first = taxonomy(project, "town")
    edit(TOWN, "start", kind="tree")
    edit(TOWN, "group", nodes="n2 n3", name="rhine")
    assert taxonomy(project, "town") == {"tree": {"*": {"Aachen": {}, "rhine": ["Bonn", "Koeln"]}}}
    edit(TOWN, "rename", nodes="n2", name="Rhine <b>")
    part = edit(TOWN, "move", nodes="n1", target="n2").text
    assert "Rhine &lt;b&gt;" in part
    assert "<b>" not in part
    assert taxonomy(project, "town") == {"tree": {"*": {"Rhine <b>": ["Bonn", "Koeln", "Aachen"]}}}
    for _ in range(4):
        assert 'value="undo"' in part
        part = edit(TOWN, "undo").text
    assert taxonomy(project, "town") == first
    assert 'value="undo"' not in part
    assert "there is nothing to undo" in edit(TOWN, "undo").text


def bring(browser, project, path, content, name, **query):
    query = "&".join(f"{key}={value}" for key, value in {"revision": project.revision, **query}.items())
    return browser.put(f"{path}?{query}", content, quote(name))


def test_a_file_becomes_a_part_of_the_policy_or_lies_beside_it(browser, project, at):
    content = b"Bonn;Rhine;*\nKoeln;Rhine;*\nAachen;West;*\n"
    assert bring(browser, project, at(TOWN), content, "towns.csv", keep="tree").status_code == 200
    assert taxonomy(project, "town") == {"tree": {"*": {"Rhine": ["Bonn", "Koeln"], "West": ["Aachen"]}}}
    bring(browser, project, at(TOWN), content, "towns.csv", keep="file")
    assert taxonomy(project, "town") == {"file": "towns.csv"}
    assert project.list_attached() == ("towns.csv",)
    assert project.problems() == ()
    bring(browser, project, at(DISEASE), b"flu;*\ngout;*\nangina;*\ncold;*\n", "towns.csv", keep="file")
    assert taxonomy(project, "disease") == {"file": "towns-2.csv"}
    bring(browser, project, at(DISEASE), content, "towns.csv", keep="file")
    assert taxonomy(project, "disease") == {"file": "towns.csv"}
    assert (project.files / "towns.csv").read_bytes() == content
    assert "Every value of the table has its place" in browser.get(at(TOWN)).text


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"Bonn;west;*\nBonn;east;*\n", "towns.csv", "lines 1 and 2"),
        (b"Bonn;*\n", "../towns.csv", "not a valid file name"),
        (b"Bonn;*\n", "towns", "must end in one of"),
    ],
    ids=["broken", "path", "ending"],
)
def test_a_file_that_cannot_be_taken_leaves_nothing(browser, project, at, content, name, message):
    before = project.document
    answer = bring(browser, project, at(TOWN), content, name, keep="file")
    assert answer.status_code == 422
    assert message in answer.text.replace("&#39;", "'")
    assert project.document == before
    assert project.list_attached() == ()
