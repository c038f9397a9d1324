"""What notebooks show: complete, escaped, and with a stylesheet that touches nothing else."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import shoal
from shoal.core.progress import Silent, in_notebook, show_progress
from shoal.taxonomies.builders.listed import GroupsTaxonomy

EVIL = "<script>alert(1)</script>"
PEOPLE = pa.table(
    {
        "age": [30 + n % 20 for n in range(200)],
        "town": [("Ulm", "Bonn", EVIL)[n % 3] for n in range(200)],
        "illness": [("flu", "cold", "gout", EVIL)[n % 4] for n in range(200)],
    }
)
ROLES = {"age": {"role": "quasi"}, "town": {"role": "quasi"}, "illness": {"role": "sensitive"}}


def policy(method: Mapping[str, Any], privacy: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {"attributes": ROLES, "privacy": privacy, "method": method}


def parsed(html: str) -> ElementTree.Element:
    """Return the page; of HTML that is no XML there is only the attribute ``open``."""
    assert "<script" not in html
    return ElementTree.fromstring(html.replace("<details open>", "<details>"))


def words(html: str) -> str:
    page = parsed(html)
    for style in list(page.iter("style")):
        style.text = ""
    return " ".join(" ".join(page.itertext()).split())


@pytest.fixture(scope="module")
def release() -> shoal.Release:
    return shoal.anonymize(PEOPLE, policy({"mondrian": {}}, [{"k-anonymity": {"k": 5}}]), seed=1)


def test_a_release_shows_promises_plots_and_utility(release: shoal.Release) -> None:
    stated = words(release._repr_html_())
    reached = release.guarantees[0]["achieved"]
    assert "Release, verified 200 of 200 records" in stated
    assert f"k-anonymity k = 5 {reached:g} holds" in stated
    assert "Risk of being found" in stated
    assert "What became of each column" in stated
    assert f"{release.utility['um']:,.6g}" in stated
    assert "for the data holder" in stated
    assert repr(release) == "Release(mondrian, 200 rows, verified=True, folder=None)"


@pytest.mark.parametrize(
    ("method", "privacy", "expected"),
    [
        ({"slicing": {"bucket_size": 10}}, [{"simple-l-diversity": {"l": 2}}], "Bucket sizes"),
        ({"plain": {}}, [], "This release promises nothing about people"),
        ({"microaggregation": {}}, [{"k-anonymity": {"k": 5}}], "Class sizes"),
    ],
    ids=["slicing", "plain", "microaggregation"],
)
def test_releases_of_other_kinds(method: dict[str, Any], privacy: list[Mapping[str, Any]], expected: str) -> None:
    assert expected in words(shoal.anonymize(PEOPLE, policy(method, privacy), seed=1)._repr_html_())


def test_an_audit_shows_itself() -> None:
    found = shoal.audit(PEOPLE, policy({"mondrian": {}}, [{"k-anonymity": {"k": 50}}]))
    stated = words(found._repr_html_())
    assert found.headline in stated
    assert f"k that the table reaches {found.k}" in stated
    assert re.search(r"k-anonymity k = 50 \d+ missed by 200 records", stated)
    assert "age, town" in stated


def test_a_taxonomy_is_a_tree_to_unfold() -> None:
    tree = GroupsTaxonomy(groups={"north": ["Kiel", EVIL], "south": ["Ulm"]}).build(pa.array([]))
    page = parsed(tree._repr_html_())
    assert [summary.text for summary in page.iter("summary")] == ["* ", "north ", "south "]
    assert [item.text for item in page.iter("li") if item.text] == ["Kiel", EVIL, "Ulm"]


def test_a_comparison_shows_its_ranking() -> None:
    asked = policy({"mondrian": {}}, [{"k-anonymity": {"k": 5}}])
    found = shoal.compare(PEOPLE, asked, sweep={"k-anonymity.k": [5, 500]}, targets=20, seed=1)
    stated = words(found._repr_html_())
    assert "Comparison of 2 releases" in stated
    assert "What could not be made" in stated
    assert "k-anonymity" in stated


def test_silence_outside_of_notebooks_and_what_is_asked_for_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Silent()
    with show_progress(asked) as progress:
        assert progress is asked
    assert not in_notebook()
    with show_progress(None) as progress:
        assert isinstance(progress, Silent)
    terminal = ModuleType("IPython")
    terminal.get_ipython = lambda: object()  # type: ignore[attr-defined]  # a shell without a kernel
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    assert not in_notebook()
