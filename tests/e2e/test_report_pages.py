"""Both reports of every kind of release: what they must tell, what the public one must not, and that examples run."""

from __future__ import annotations

import html
import json
import re
import shutil
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from tests import tables

import shoal
from shoal.agency.apply import apply_plan
from shoal.agency.distribution import read_distribution
from shoal.agency.planning import make_plan, write_plan
from shoal.attacks.base import Attack, Question
from shoal.core.errors import InputError, UsageError
from shoal.core.registry import discover
from shoal.models.base import PrivacyModel
from shoal.release.forms.agreed import MODELS
from shoal.reports.internal import Recorder

N = 500
SEED = 918273645
ILLNESS = {"any": {"joints": ["gout", "angina"], "lungs": ["mumps", "flu"]}}
ATTRIBUTES: dict[str, Any] = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 119, "widths": [10, 40]}}},
    "sex": {"role": "quasi", "taxonomy": {"flat": ["f", "m"]}, "description": "as <registered>"},
    "illness": {"role": "sensitive", "taxonomy": {"tree": ILLNESS}},
    "wage": {"role": "insensitive"},
}
K, L = [{"k-anonymity": {"k": 4}}], [{"distinct-l-diversity": {"l": 2}}]
POLICIES: dict[str, dict[str, Any]] = {
    "auto": {"privacy": K + L, "method": "auto"},
    "mondrian": {"privacy": K + L, "method": "mondrian"},
    "incognito": {"privacy": K, "method": "incognito", "max_withheld": 0.1},
    "hilbert": {"privacy": K, "method": "hilbert"},
    "local-suppression": {"privacy": K, "method": {"local-suppression": {"levels": {"age": 1}}}},
    "sweep": {"privacy": [{"tau-l-diversity": {"tau": 0.4, "l": 3}}], "method": "sweep"},
    "slicing": {"privacy": [{"column-frequency": {"k": 4}}, *L], "method": "slicing"},
    "anatomy": {"privacy": L, "method": {"anatomy": {"two_tables": True}}},
    "microaggregation": {"privacy": K, "method": "microaggregation"},
    "plain": {"privacy": [], "method": "plain", "sample": {"share": 0.5}},
    "synthetic": {"privacy": [], "method": {"synthetic": {"epsilon": 2}}},
    "safepub": {"privacy": [], "method": {"safepub": {"epsilon": 2, "share": 0.5, "levels": {"age": 2, "illness": 1}}}},
}
KINDS = (*POLICIES, "agreed")
RISKS = ("unique", "prosecutor", "marketer", "smallest", "achieved", "seed", "risk", "discernibility", "adversary")


def people(seed: int = 4) -> pa.Table:
    return tables.people(N, seed, "name age sex illness wage")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reports")
    pa_csv.write_csv(people(), place / "secret-source.csv")
    pa_csv.write_csv(people(5), place / "aside.csv")
    return place


@pytest.fixture(scope="module")
def releases(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, policy in POLICIES.items():
        attributes = ATTRIBUTES
        if name in ("synthetic", "safepub"):
            attributes = {**ATTRIBUTES, "wage": {"role": "identifier"}}
        asked = {"attributes": attributes, **policy}
        found[name] = shoal.anonymize(folder / "secret-source.csv", asked, out=folder / name, seed=SEED)
    counts = {"age": [], "illness": [], "count": []}
    for age in range(20, 40):
        for illness in ("flu", "gout", "asthma", "angina"):
            for key, value in (("age", age), ("illness", illness), ("count", 25)):
                counts[key].append(value)
    known = read_distribution(pa.table(counts), "illness")
    write_plan(make_plan(known, promise=3, delta=Fraction("0.01"), samples=500), folder / "plan.json")
    table = pa.table(counts).drop_columns(["count"])
    everybody = pa.concat_tables([table] * 40)
    found["agreed"] = apply_plan(folder / "plan.json", everybody, folder / "agreed", format="csv")
    return found


class Page(HTMLParser):
    """What a reader and a screen reader get: texts, headings, captions, landmarks."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.headings = "", []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "pre"} & set(self.open):
            self.text += data + " "


def both(folder: Path, name: str) -> list[str]:
    return [(folder / name / which / "report.html").read_text() for which in ("internal", "public")]


@pytest.mark.parametrize("name", KINDS)
def test_pages_are_whole_and_readable_by_everybody(folder: Path, releases: dict[str, Any], name: str) -> None:
    assert name in releases
    for text in both(folder, name):
        page = Page(text)
        assert page.open == []
        tags = [tag for tag, _ in page.tags]
        assert text.startswith('<!doctype html>\n<html lang="en">')
        assert (tags.count("h1"), tags.count("main"), tags.count("nav")) == (1, 1, 1)
        assert all(after - before <= 1 for before, after in zip(page.headings, page.headings[1:], strict=False))
        assert tags.count("table") == tags.count("caption") > 0
        assert all(attrs.get("scope") in ("row", "col") for tag, attrs in page.tags if tag == "th")
        drawings = [attrs for tag, attrs in page.tags if tag == "svg"]
        names = {attrs.get("id") for _, attrs in page.tags}
        assert all(attrs["role"] == "img" for attrs in drawings)
        assert all(set((attrs["aria-labelledby"] or "").split()) <= names for attrs in drawings)
        assert tags.count("figure") == len(drawings)
        links = [attrs["href"] or "" for tag, attrs in page.tags if tag == "a"]
        assert links[0] == "#report"  # the skip link
        assert {link[1:] for link in links} <= names
        assert not {"script", "img", "link", "iframe", "object", "form"} & set(tags)
        assert not any(key.startswith("on") or key in ("src", "style") for _, attrs in page.tags for key in attrs)
        assert re.findall(r"url\(|@import|https?:(?!//www.w3.org/2000/svg)", text) == []
        assert not re.search(r"\bNone\b|\bnan\b|[*`{}]{2}", page.text)


@pytest.mark.parametrize("name", KINDS)
def test_public_pages_tell_no_risk_no_seed_and_no_source(folder: Path, releases: dict[str, Any], name: str) -> None:
    evidence = releases[name].evidence
    texts = [Page((folder / name / "public" / "report.html").read_text()).text]
    texts.append((folder / name / "public" / "README.md").read_text())
    secrets = (str(SEED), evidence["source"]["sha256"], "secret-source", "patient-0")
    for text in texts:
        assert [word for word in RISKS if re.search(rf"\b{word}", text, re.IGNORECASE)] == []
        assert [secret for secret in secrets if secret in text] == []


@pytest.mark.parametrize("name", KINDS)
def test_examples_run_where_the_data_are(
    folder: Path,
    releases: dict[str, Any],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (folder / name / "public" / "report.html").read_text()
    blocks = re.findall(r'aria-label="An example in Python"><code>(.*?)</code>', page, re.DOTALL)
    assert len(blocks) == 1
    code = html.unescape(blocks[0])
    assert code.rstrip() in (folder / name / "public" / "README.md").read_text()
    monkeypatch.chdir(folder / name / "public")
    exec(compile(code, "example", "exec"), {})
    said = capsys.readouterr().out
    assert said.strip()
    if name == "mondrian":
        edge, least, most = map(int, re.findall(r"\d+", said))
        truth = sum(age >= edge for age in people()["age"].to_pylist())
        assert least <= truth <= most <= releases[name].manifest["rows"]
    if name == "slicing":
        assert 0 < int(re.findall(r"\d+", said)[0]) < N


def test_every_model_has_its_limits_and_every_attack_its_question() -> None:
    assert all(model.weaknesses for model in (*discover("shoal.models", PrivacyModel).values(), *MODELS.values()))
    assert {attack.question for attack in discover("shoal.attacks", Attack).values()} == set(get_args(Question))


@pytest.mark.parametrize("broken", ["attacks.json", "report.html"])
def test_what_cannot_be_recorded_leaves_what_was_there(
    folder: Path, releases: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    assert releases
    copy = shutil.copytree(folder / "mondrian", tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (copy / "internal").iterdir()}

    def full(path: Path, text: str) -> None:
        path.write_text(text[:10])
        if broken in path.name:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("shoal.reports.internal._write", full)
    recorder = Recorder.of(copy)
    with pytest.raises(UsageError, match="No space left on device; no file was recorded"):
        recorder.write({"attacks": [], "refused": [], "notes": []}, {"name": "x", "sha256": "0" * 64}, None)
    assert {path.name: path.read_bytes() for path in (copy / "internal").iterdir()} == before


def test_links_in_the_internal_folder_are_replaced_and_never_written_through(
    folder: Path, releases: dict[str, Any], tmp_path: Path
) -> None:
    assert releases
    copy = shutil.copytree(folder / "mondrian", tmp_path / "out")
    kept = tmp_path / "kept.txt"
    kept.write_text("kept")
    (copy / "internal" / "report.html").unlink()
    for name in ("attacks.json", "report.html"):
        (copy / "internal" / name).symlink_to(kept)
    findings = {"attacks": [], "refused": [], "notes": []}, {"name": "x", "sha256": "0" * 64}, None
    Recorder.of(copy).write(*findings)
    assert kept.read_text() == "kept"
    assert not any((copy / "internal" / name).is_symlink() for name in ("attacks.json", "report.html"))
    (copy / "internal" / "report.html").unlink()
    (copy / "internal" / "report.html").mkdir()
    with pytest.raises(UsageError, match=r"only the files up to decision\.json were recorded"):
        Recorder.of(copy).write(*findings)
    assert not list((copy / "internal").glob(".*"))


def test_findings_about_another_release_are_refused(folder: Path, releases: dict[str, Any], tmp_path: Path) -> None:
    release = releases["mondrian"]
    copy = shutil.copytree(folder / "mondrian", tmp_path / "out")
    found = {"attacks": [], "refused": [], "notes": [], "release": "0" * 64, "source": {"name": "x", "sha256": ""}}
    (copy / "internal" / "attacks.json").write_text(json.dumps(found))
    moved = replace(release, folder=copy)
    with pytest.raises(InputError, match="attacks on another release"):
        moved.report()
    (copy / "internal" / "attacks.json").write_text("[")
    with pytest.raises(InputError, match="cannot be read as JSON"):
        moved.report()


def test_names_and_values_cannot_become_markup(tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script>"
    rng = np.random.default_rng(2)
    table = pa.table({nasty: rng.choice([nasty, "b", "</style>"], 80), '"><b>': rng.choice(["x", "'y'"], 80)})
    attributes = {nasty: {"role": "quasi", "description": nasty}, '"><b>': {"role": "sensitive"}}
    release = shoal.anonymize(table, {"attributes": attributes, "privacy": K, "method": "mondrian"}, out=tmp_path / "o")
    for audience in ("internal", "public"):
        page = release.report(audience)
        assert "<script" not in page
        assert "<b>" not in page
        assert page.count("</style>") == 1
        assert Page(page).open == []
