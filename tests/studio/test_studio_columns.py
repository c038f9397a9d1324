"""Columns in the studio: what is shown of them, and what a change of role does to the policy."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pyarrow as pa
import pytest

from shoal.core.progress import Silent
from shoal.policy.policy import Policy
from shoal.policy.profiling import profile_columns
from shoal.sources.opening import open_source
from shoal.studio.pages.columns import BARS, TYPES, draw_values, with_role


def column(**values):
    """The profile of a column on its own."""
    return profile_columns(open_source(pa.table(values)), Silent())[0]


def counted(plot) -> int:
    return sum(int(row[1].replace(",", "")) for row in plot.rows)


@pytest.mark.parametrize(
    "values",
    [
        list(range(100)) * 3,
        [i / 7 for i in range(90)],
        [str(date(2001, 1, 1) + timedelta(days=11 * i)) for i in range(80)],
        ["a", "b", "b"] * 9,
        [f"town {i * i % 40}" for i in range(200)],
        [True, False, False],
        [3, 1, 2, 2],
        [7] * 5,
        [None, 4, 5, None],
    ],
    ids=["whole", "decimal", "dates", "texts", "many-texts", "truth", "few-numbers", "one", "missing"],
)
def test_every_record_with_a_value_is_in_the_plot(values):
    plot = draw_values(column(x=values))
    assert counted(plot) == sum(value is not None for value in values)
    assert len(plot.rows) <= BARS + 1


def test_nothing_is_drawn_of_names(project):
    plots = {each.name: draw_values(each) for each in project.profile}
    assert plots["patient"] is None
    assert plots["age"] is not None


def test_the_page_shows_each_column_with_its_suggestion_and_reason(browser, project):
    page = browser.get(f"/projects/{project.id}/columns").text
    for drafted in project.draft.columns:
        assert f'<span class="column-name">{drafted.name}</span>' in page
        assert f"Suggested {drafted.role}" in page
        assert f"Type: {TYPES[drafted.type]}" in page
    assert not re.search(r"\sstyle=", page)
    assert "p17" not in page, "names of people are not shown"


def number(project, name: str) -> int:
    return project.columns.index(name)


def set_role(browser, project, name, role, revision=None, **more):
    path = f"/projects/{project.id}/columns/{number(project, name)}"
    fields = {"revision": project.revision if revision is None else revision, "role": role, **more}
    return browser.post(path, fields, swap=True)


def test_a_role_changes_the_policy_at_once(browser, project):
    answer = set_role(browser, project, "town", "insensitive", description="where they live")
    assert answer.status_code == 200
    assert "<html" not in answer.text
    assert answer.headers["shoal-revision"] == "2"
    entry = project.document["attributes"]["town"]
    assert entry == {"role": "insensitive", "description": "where they live"}
    assert "town: {role: insensitive" in project.policy_text
    assert project.problems() == ()
    assert "insensitive" in browser.get(f"/projects/{project.id}/policy/panel").text


def test_every_role_of_every_column_gives_a_policy_that_loads(project):
    for profile in project.profile:
        for role in ("identifier", "quasi", "sensitive", "insensitive", "drop"):
            document, _ = with_role(project.document, profile, role, {})
            document["attributes"].setdefault("age", {})
            if profile.name == "age":
                document["attributes"]["sex"] = {"role": "quasi"}
            policy = Policy.load(document)
            found = "drop" if profile.name in policy.dropped else policy.attributes[profile.name].role
            assert found == role


def test_a_second_tab_is_told_and_nothing_is_lost(browser, project):
    assert set_role(browser, project, "town", "insensitive", revision=1).status_code == 200
    answer = set_role(browser, project, "sex", "sensitive", revision=1)
    assert answer.status_code == 409
    assert "another tab" in answer.text
    assert "<html" not in answer.text
    roles = {name: entry["role"] for name, entry in project.document["attributes"].items()}
    assert (roles["town"], roles["sex"]) == ("insensitive", "quasi")


@pytest.mark.parametrize("revision", ["", "-1", "x", "9" * 50, "٣"])
def test_a_change_that_names_no_revision_is_stale(browser, project, revision):
    assert set_role(browser, project, "sex", "sensitive", revision=revision).status_code == 409
    assert project.revision == 1
