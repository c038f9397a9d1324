"""The level explorer: its figures are those of a run by the same levels, and its page chooses levels for a run."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests import tables

import shoal
from shoal.core.errors import UnreachableError, UsageError
from shoal.policy.policy import Policy
from shoal.studio.feasibility import CountedTable
from shoal.studio.levels import Explorer, ask_lattice, full_domain

COLUMNS = "age sex zip illness"
ATTRIBUTES = tables.attributes(COLUMNS)
POLICIES: dict[str, dict[str, Any]] = {
    "k": {"privacy": [{"k-anonymity": {"k": 4}}], "max_withheld": 0.05},
    "values": {"privacy": [{"k-anonymity": {"k": 3}}, {"distinct-l-diversity": {"l": 3}}], "max_withheld": 0.1},
    "relative": {
        "privacy": [{"t-closeness": {"t": 0.35}}],
        "max_withheld": 0.2,
        "method": {"incognito": {"measure": "um"}},
    },
    "people": {
        "attributes": {"name": {"role": "identifier"}, **ATTRIBUTES},
        "privacy": [{"k-anonymity": {"k": 3}}],
        "max_withheld": 0.1,
        "unit": "name",
    },
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 records, two of each person."""
    path = tmp_path_factory.mktemp("levels") / "people.parquet"
    pq.write_table(tables.people(300, columns=COLUMNS, name=[f"person {row // 2}" for row in range(300)]), path)
    return path


def document_of(name: str) -> dict[str, Any]:
    attributes = {"name": {"role": "insensitive"}, **ATTRIBUTES}
    return {"attributes": attributes, "method": {"incognito": {}}, **POLICIES[name]}


def explore(table: Path, document: dict[str, Any]) -> Explorer:
    policy = Policy.load(full_domain(document))
    return Explorer(CountedTable.read(table, policy).problem(policy), policy.method.measure)


@pytest.mark.parametrize("name", POLICIES)
def test_figures_are_those_of_a_run_by_the_same_levels(table: Path, name: str) -> None:
    document = document_of(name)
    explorer = explore(table, document)
    every = list(itertools.product(*map(range, explorer.ladders.shape)))
    nodes = {levels: explorer.look(levels) for levels in every}
    holding = [levels for levels in every if nodes[levels].holds]
    failing = [levels for levels in every if not nodes[levels].holds]
    assert holding
    assert failing
    for levels in (*holding[:: max(len(holding) // 4, 1)], failing[0], failing[-1]):
        node, chosen = nodes[levels], dict(zip(explorer.names, levels, strict=True))
        asked = full_domain(document, chosen)
        if not node.holds:
            assert node.suppressed is None or node.suppressed > explorer.judge.budget
            with pytest.raises(UnreachableError, match="the levels of the policy do not satisfy"):
                shoal.anonymize(table, asked)
            continue
        release = shoal.anonymize(table, asked)
        assert release.manifest["levels"] == chosen
        if release.manifest["withheld"] != node.suppressed:  # others are withheld too, whose values differ
            assert name in ("values", "relative")
            assert node.suppressed < release.manifest["withheld"] <= explorer.judge.budget
            continue
        assert release.manifest["withheld"] == node.suppressed
        assert release.evidence["search"]["chosen"] == node.published["loss"]
        risks = release.evidence["risk_after"]
        figures = ("classes", "smallest_class", "prosecutor_highest")
        assert {key: node.published[key] for key in figures} == {key: risks[key] for key in figures}


@pytest.mark.parametrize("name", ["values", "relative"])
def test_the_survey_has_every_node_and_the_optimum_that_incognito_finds(table: Path, name: str) -> None:
    document = document_of(name)
    explorer = explore(table, document)
    explorer.search(lambda: True)
    survey, found = explorer.survey, shoal.anonymize(table, document).evidence["search"]
    assert survey.ended
    assert dict(zip(explorer.names, survey.optimum, strict=True)) == found["levels"]
    assert survey.figures["optimum"] == found["optimum"]
    assert len(survey.points) == explorer.n_nodes == found["lattice"]
    for levels, point in survey.points.items():
        node = explorer.look(levels)
        side = node.published if node.holds else node.everything
        assert (point.holds, point.loss) == (node.holds, side["loss"])
        assert point.suppressed == (node.suppressed if node.holds else 0)


def test_a_search_ends_when_nobody_waits_for_it(table: Path) -> None:
    explorer = explore(table, document_of("k"))
    explorer.search(lambda: False)
    assert explorer.searched.is_set()
    assert not explorer.survey.points


@pytest.mark.parametrize("given", [["0"], ["0", "0", "9"], ["0", "0", "-1"], ["0", "0", "x"], []])
def test_levels_that_there_are_not_are_refused(table: Path, given: list[str]) -> None:
    with pytest.raises(UsageError, match="no longer exist"):
        explore(table, document_of("k")).read_levels(given)


@pytest.fixture
def people(open_in, table: Path):
    """The project of the table, with a policy of k-anonymity."""
    project = open_in(table)
    project.change(project.revision, document_of("k"))
    return project


def fields(project, levels: tuple[int, ...]) -> list[tuple[str, object]]:
    return [("revision", project.revision), *(("level", level) for level in levels)]


def test_the_page_goes_from_sliders_to_the_run(browser, people) -> None:
    project = people
    path = f"/projects/{project.id}/levels"
    explorer = ask_lattice(project, 60)
    assert explorer.searched.wait(60)
    text = browser.get(path).text
    assert [int(level) for level in re.findall(r'name="level" min="0" max="(\d+)"', text)] == list(explorer.ladders.top)
    best = explorer.survey.optimum
    assert f'data-levels="{",".join(map(str, best))}"' in text
    assert "There are no results yet" in text
    node = browser.post(f"{path}/node", fields(project, (0, 0, 0)), swap=True).text
    assert 'data-holds="no"' in node
    assert re.search(r"run\"[^>]* disabled", node)
    refused = browser.post(f"{path}/run", fields(project, (0, 0, 0)))
    assert (refused.status_code, "break a guarantee" in refused.text) == (422, True)
    assert browser.post(f"{path}/run", fields(project, best)).headers["location"].endswith("/run")
    assert project.document["method"] == {"incognito": {"levels": dict(zip(explorer.names, best, strict=True))}}
    assert not project.problems()
    assert ask_lattice(project, 0) is explorer  # levels of the policy change nothing in the lattice


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"privacy": [], "method": {"plain": {}}}, "add a guarantee first"),
        ({"privacy": [{"column-frequency": {"k": 2}}], "method": {"slicing": {}}}, "parts of a sliced table"),
    ],
)
def test_the_page_says_why_there_are_no_levels(browser, people, changed: dict[str, Any], said: str) -> None:
    people.change(people.revision, {**people.document, **changed})
    assert not people.problems()
    for _ in range(60):
        text = browser.get(f"/projects/{people.id}/levels").text
        if "Counting the table" not in text:
            break
    assert "Levels cannot be explored" in text
    assert said in text
