"""The public README, the evidence and the internal page."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.audit.units import class_risks, size_histogram
from shoal.reports.internal import internal_report
from shoal.reports.pages import public_readme

POLICY: dict[str, Any] = {
    "attributes": {
        "age": {"role": "quasi"},
        "a|b": {"role": "quasi", "taxonomy": {"mask": {"length": 3}}},
        "illness": {"role": "sensitive"},
        "<b>cost</b>": {"role": "insensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 3}}, {"t-closeness": {"t": 0.6}}],
}


@pytest.fixture(scope="module")
def release() -> Any:
    rng = np.random.default_rng(1)
    n = 90
    table = pa.table(
        {
            "age": pa.array([None if i % 9 == 0 else int(v) for i, v in enumerate(rng.integers(1, 99, n))]),
            "a|b": [f"{v:03}" for v in rng.integers(0, 400, n)],
            "illness": rng.choice(["ague", "<script>"], n),
            "<b>cost</b>": rng.random(n),
        }
    )
    return shoal.anonymize(table, POLICY, seed=1)


def test_the_readme_tells_every_column_promise_and_label(release: Any) -> None:
    age = release.manifest["attributes"]["age"] | {"description": "years | months"}
    text = public_readme(release.manifest | {"attributes": release.manifest["attributes"] | {"age": age}})
    for name in POLICY["attributes"]:
        shown = name.replace("|", "\\|").replace("<", "&lt;")
        assert f"| {shown} |" in text
    assert "years \\| months" in text
    assert "**k-anonymity** (k = 3)" in text
    assert "**t-closeness**" in text
    assert "90 records" in text
    assert "missing value" in text
    labels = release.manifest["attributes"]["age"]["labels"]
    assert all(f"`{label}`" in text for label in list(labels)[:40])


def test_public_pages_have_the_title_the_owner_and_the_purpose_and_nothing_else_that_is_stated(tmp_path: Path) -> None:
    stated = {"title": "Stays <2024>", "owner": "The [registry](x)", "recipient": "Anna", "purpose": "Research"}
    policy = {
        "attributes": {"age": {"role": "quasi"}},
        "privacy": [{"k-anonymity": {"k": 2}}],
        "release": stated | {"threshold": 0.731},
    }
    made = shoal.anonymize(pa.table({"age": [1, 1, 2, 2]}), policy, out=tmp_path / "out")
    assert made.manifest["about"] == {key: stated[key] for key in ("title", "owner", "purpose")}
    readme, page = ((tmp_path / "out" / "public" / name).read_text() for name in ("README.md", "report.html"))
    assert readme.startswith("# Stays &lt;2024>\n\n- Responsible for the data: The \\[registry\\](x)\n")
    assert "<h1>Stays &lt;2024&gt;</h1>" in page
    assert "Responsible for the data" in page
    for text in (readme, page, json.dumps(made.manifest)):
        assert "Research" in text
        assert not re.search("Anna|0.731|73.1", text)
    assert shoal.verify(tmp_path / "out").verified
    written = tmp_path / "out" / "public" / "manifest.json"
    written.write_text(written.read_text().replace('"title": ', '"threshold": 0.5, "title": '))
    assert not shoal.verify(tmp_path / "out").verified


def test_risks_by_hand() -> None:
    risks = class_risks(np.array([1, 1, 4, 10]))
    assert risks["records"] == 16
    assert risks["classes"] == 4
    assert risks["unique_records"] == 2
    assert risks["smallest_class"] == 1
    assert risks["prosecutor_highest"] == 1
    assert risks["marketer"] == 4 / 16


def test_the_histogram_counts_every_class_and_record_once() -> None:
    sizes = np.random.default_rng(2).integers(1, 300, 500)
    bins = size_histogram(sizes)
    assert sum(part["classes"] for part in bins) == 500
    assert sum(part["records"] for part in bins) == sizes.sum()
    assert [part["from"] for part in bins] == [2**i for i in range(len(bins))]
    assert all(part["to"] == 2 * part["from"] - 1 for part in bins)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole_and_needs_nothing_else(release: Any) -> None:
    page = internal_report(release.manifest, release.evidence)
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.links
    assert all(link.startswith("#") for link in tags.links)
    assert set(re.findall(r"https?:[^\s\"]*", page)) == {"http://www.w3.org/2000/svg"}
    assert "<script" not in page
    assert "k-anonymity" in tags.text
    assert release.evidence["source"]["sha256"] in tags.text
    assert page.count("<table>") == page.count("<caption>") > 4


def test_names_that_look_like_markup_are_escaped(release: Any) -> None:
    source = {**release.evidence["source"], "name": "<img src=x>.csv"}
    evidence = {**release.evidence, "source": source, "generalized_sensitive": {"<img>": 1234}}
    page = internal_report(release.manifest, evidence)
    assert "<img" not in page
    assert "&lt;img src=x&gt;.csv" in page
    assert "<code>&lt;img&gt;</code> is suppressed in 1,234 of " in page


def test_a_failed_check_is_shown_as_such(release: Any) -> None:
    evidence = json.loads(json.dumps(release.evidence))
    evidence["verification"]["guarantees"][0]["ok"] = False
    evidence["verification"]["guarantees"][0]["achieved"] = None
    page = internal_report(release.manifest, evidence)
    assert page.count('class="bad"') == 1
    assert "–" in page


def test_the_first_page_has_what_a_board_signs() -> None:
    table = pa.table({"age": [31, 31, 46, 46], "illness": ["flu", "cold", "flu", "cold"]})
    about = {"title": "Stays <2024>", "owner": "Registry", "recipient": "Universities", "purpose": "Research"}
    roles = {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    made = shoal.anonymize(table, {"attributes": roles, "privacy": [{"k-anonymity": {"k": 2}}], "release": about})
    page = made.report()
    cover = page[page.index('class="cover"') : page.index("<nav")]
    assert "<h1>Stays &lt;2024&gt;</h1>" in page
    assert all(f"<td>{about[key]}</td>" in cover for key in ("owner", "recipient", "purpose"))
    assert f"<td>{made.evidence['date']}</td>" in cover
    assert made.decision.headline in html.unescape(cover)
    assert "unprotected-sensitive" in cover
    assert "Approved by" in cover
    assert "generalized" not in made.report("public").split("How to analyse")[0]  # ages are as they were
