"""What people read of releases that were changed, averaged, drawn, or promise nothing."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import tables

import shoal
from shoal.audit import evidence as before
from shoal.audit.audit import audit
from shoal.cli.anonymize import show_release
from shoal.columns.base import Technique, treat
from shoal.columns.keys import new_key
from shoal.core.randomness import Chance
from shoal.core.registry import discover
from shoal.manifest import Sample
from shoal.release.forms.synthetic import explain_claim
from shoal.reports.internal import internal_report
from shoal.reports.pages import describe_sample, explain_change, public_readme
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source

N = 300
AGE = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 119, "widths": [5, 10, 20]}}}
DECLARED = {
    "name": {"role": "identifier"},
    "age": AGE,
    "sex": {"role": "quasi", "taxonomy": {"flat": ["f", "m"]}},
    "illness": {"role": "sensitive", "taxonomy": {"flat": ["angina", "flu", "gout", "mumps"]}},
    "wage": {"role": "identifier"},
}
KINDS = ("plain", "promising", "mondrian", "slicing", "averages", "synthetic")


def people() -> pa.Table:
    return tables.people(N, 4, "name age sex illness wage")


def policies(key: Path) -> dict[str, dict[str, Any]]:
    changed: dict[str, Any] = {
        "name": {"role": "identifier", "technique": {"pseudonym": {"key": str(key)}}},
        "age": AGE | {"technique": {"noise": {"laplace": {"scale": 3}, "edges": "redraw"}}},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive", "technique": {"swapping": {"share": 0.2, "within": ["sex"]}}},
        "wage": {"role": "insensitive", "technique": {"rounding": {"base": 500}}},
    }
    coarse = {"age": {"role": "quasi", "technique": {"rounding": {"base": 200}}}}
    k = [{"k-anonymity": {"k": 3}}]
    return {
        "plain": {"attributes": changed, "privacy": [], "method": "plain", "sample": {"share": 0.5}},
        "promising": {"attributes": changed | coarse, "privacy": k, "method": "plain"},
        "mondrian": {"attributes": changed, "privacy": k, "method": "mondrian", "sample": {"share": 0.5}},
        "slicing": {"attributes": changed, "privacy": [{"column-frequency": {"k": 2}}], "method": "slicing"},
        "averages": {"attributes": changed | {"age": AGE}, "privacy": k, "method": "microaggregation"},
        "synthetic": {"attributes": DECLARED, "privacy": [], "method": {"synthetic": {"epsilon": 2}}},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("changed")


@pytest.fixture(scope="module")
def releases(folder: Path) -> dict[str, Any]:
    key = folder / "secret-place.key"
    new_key(key)
    return {
        name: shoal.anonymize(people(), policy, out=folder / name, format="csv", seed=5)
        for name, policy in policies(key).items()
    }


def technique_entries(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What the manifest says of each technique, with several parameters of each."""
    key = folder / "one.key"
    new_key(key)
    given: dict[str, list[dict[str, Any]]] = {
        "noise": [
            {"laplace": {"scale": 3}, "min": 0, "max": 9000, "edges": "clamp"},
            {"gaussian": {"sd": 2.5}, "decimals": 1},
        ],
        "rounding": [{"base": 500}, {"base": 0.5, "random": True}],
        "coding": [{"bottom": 1500, "top": 8000}, {"shares": {"top": 0.05}}],
        "swapping": [{"share": 0.2, "within": ["sex", "illness"]}, {"share": 0.125}],
        "permutation": [{"within": ["sex"]}, {}],
        "pram": [{"keep": 0.75}, {"keep": 0.75, "invariant": True, "strata": ["sex"]}],
        "rank-swapping": [{"window": 0.05}],
        "correlated-noise": [{"share": 0.25, "columns": ["age"]}],
        "shuffling": [{"given": ["age"]}],
        "microaggregation": [{"k": 3, "columns": ["age"], "strata": ["sex"], "decimals": 1}, {"k": 4}],
        "record-swapping": [{"hierarchy": ["wage"], "share": 0.5}, {"hierarchy": ["wage"], "similar": ["sex"]}],
        "pseudonym": [{"key": str(key), "domain": "people"}, {"key": str(key), "reversible": True}],
        "token": [{}],
        "masking": [{"kind": "email"}, {"kind": "number"}],
        "hash": [{}, {"salt": "none", "accept": "dictionary-attacks"}],
    }
    assert set(given) == set(discover("shoal.columns", Technique))
    known = discover("shoal.columns", Technique)
    source = open_source(people(), SourceOptions())

    def describe(name: str, one: dict[str, Any]) -> Any:
        techniques = {"wage": known[name].model_validate(one)}
        if name == "correlated-noise":
            techniques["age"] = known[name].model_validate(one | {"columns": ["wage"]})
        return treat(techniques, source, Chance.of(1)).describe()["wage"]  # type: ignore[attr-defined]

    return {name: [describe(name, one) for one in parameters] for name, parameters in given.items()}


def test_every_technique_is_told_in_words_with_its_parameters(tmp_path: Path) -> None:
    said = {name: [explain_change(entry) for entry in each] for name, each in technique_entries(tmp_path).items()}
    wanted = {
        "noise": [
            ("Laplace", "scale 3", "at least 0 and at most 9,000", "at the edge"),
            ("2.5", "1 decimal", "normal"),
        ],
        "rounding": [("nearest multiple of 500",), ("multiple of 0.5 at random",)],
        "coding": [("below 1,500 were set to 1,500", "above 8,000"), ("looked up in the data",)],
        "swapping": [("about 20%", "`sex` and `illness`"), ("about 12.5%", "all records")],
        "permutation": [("`sex`",), ("all records",)],
        "pram": [("at least 0.75", "`applied`"), ("each group of records that agree in `sex`", "Expected frequencies")],
        "rank-swapping": [("at most 5%",)],
        "correlated-noise": [("correlations with that of `age`", "25% of their variance")],
        "shuffling": [("`age`",)],
        "microaggregation": [
            ("together with `age`", "at least 3 near records that agree in `sex`", "1 decimal"),
            ("replaced by averages of groups of at least 4 near records, as whole numbers",),
        ],
        "record-swapping": [("areas (`wage`)", "% of the records"), ("between records that agree in `sex`",)],
        "pseudonym": [("domain `people`", "find out whose"), ("take them back",)],
        "token": [("nothing was kept",)],
        "masking": [("made-up e-mail addresses", "mean nothing"), ("made-up numbers",)],
        "hash": [("forgotten salt",), ("**Whoever tries values out finds which they are**",)],
    }
    for name, several in wanted.items():
        for sentence, parts in zip(said[name], several, strict=True):
            assert all(part in sentence for part in parts), sentence
            assert sentence.endswith(".")
            assert "None" not in sentence
            assert ".key" not in sentence


def test_noise_is_never_called_differential_privacy(tmp_path: Path) -> None:
    assert all("no differential privacy" in explain_change(entry) for entry in technique_entries(tmp_path)["noise"])


def test_tokens_of_identifiers_are_told_as_such() -> None:
    entry = {"technique": "token", "length": 26, "of": "identifier"}
    assert "in place of an identifier" in explain_change(entry)
    assert "same identifier" in explain_change(entry)
    del entry["of"]
    assert "in place of the values" in explain_change(entry)


def test_shares_of_samples_are_told_as_they_are() -> None:
    assert "12.5%" in describe_sample(Sample(share=0.125))
    assert describe_sample(None) == ""


@pytest.mark.parametrize("name", KINDS)
def test_the_readme_lists_what_was_changed_and_no_more(releases: dict[str, Any], name: str) -> None:
    manifest = releases[name].manifest
    text = public_readme(manifest)
    changed = manifest.get("techniques", {})
    assert ("## What was changed" in text) == bool(changed)
    assert re.findall(r"^- `(\w+)`: ", text, flags=re.MULTILINE) == list(changed)
    rows = {row.split("|")[1].strip(): row for row in text.splitlines() if row.startswith("| ") and row.count("|") == 5}
    for column in manifest["attributes"]:
        assert ("changed: see above" in rows[column]) == (column in changed)
        assert not (column in changed and "original" in rows[column])


def test_a_release_that_promises_nothing_says_so_loudly(releases: dict[str, Any]) -> None:
    loud = "**This release promises nothing about people.**"
    assert [name for name in KINDS if loud in public_readme(releases[name].manifest)] == ["plain"]
    assert "random sample: each record had a chance of 50%" in public_readme(releases["plain"].manifest)
    promising = public_readme(releases["promising"].manifest)
    assert "**k-anonymity** (k = 3)" in promising
    assert "A class is all rows that are equal in every quasi column." in promising


def test_promises_about_changed_values_say_that_these_are_not_the_original_ones(releases: dict[str, Any]) -> None:
    stated = {
        name: re.findall(r"Those of (.*) are not the original ones", public_readme(releases[name].manifest))
        for name in KINDS
    }
    assert stated["mondrian"] == ["`age` and `illness`"]
    assert stated["averages"] == ["`illness`"]
    assert stated["plain"] == stated["synthetic"] == []
    assert "the changed one where values were changed" in public_readme(releases["mondrian"].manifest)


def test_the_readme_of_averages_tells_which(releases: dict[str, Any]) -> None:
    manifest = releases["averages"].manifest
    text = public_readme(manifest)
    assert "quasi columns hold averages" in text
    assert "| age | quasi | number | the mean of a group |" in text
    assert "| sex | quasi | category | the most frequent value of a group |" in text
    dates = manifest["attributes"] | {"age": {"role": "quasi", "kind": "date"}}
    medians = manifest | {"attributes": dates, "method_parameters": {"numbers": "median", "decimals": 1}}
    assert "the median of a group, as year-month-day" in public_readme(medians)


def test_the_readme_of_synthetic_rows_says_that_they_are_nobodys(releases: dict[str, Any]) -> None:
    manifest = releases["synthetic"].manifest
    account = manifest["synthetic"]
    text = public_readme(manifest | {"synthetic": account | {"marginals": [["age", "a|b"], ["sex", "illness", "age"]]}})
    assert "**No row is a person.**" in text
    assert "**differential-privacy** (epsilon = 2, delta = 0)" in text
    assert "- `age` and `a|b`\n- `sex` and `illness` and `age`" in text
    assert "This is a claim" in text
    assert "record of the original table" not in text
    alone = public_readme(manifest | {"synthetic": account | {"marginals": []}})
    assert "no columns were counted together" in alone


@pytest.mark.parametrize(
    ("epsilon", "delta", "factor", "but"),
    [
        (1.0, 0.0, "e^1 (about 2.7) times", ""),
        (3.0, 1e-6, "e^3 (about 20) times", "probability of 1e-06"),
        (900.0, 0.0, "e^900 times", ""),
    ],
)
def test_claims_are_told_as_factors(epsilon: float, delta: float, factor: str, but: str) -> None:
    said = explain_claim({"epsilon": epsilon, "delta": delta})
    assert factor in said
    assert but in said
    assert ("probability" in said) == bool(but)


def test_keys_and_their_paths_are_nowhere_in_a_release(releases: dict[str, Any], folder: Path) -> None:
    key = (folder / "secret-place.key").read_bytes()
    for name in KINDS:
        for path in (path for path in (folder / name).rglob("*") if path.is_file()):
            content = path.read_bytes()
            assert b"secret-place" not in content, path
            assert key not in content
            assert key.hex().encode() not in content
    stated = releases["mondrian"].evidence["policy"]["attributes"]["name"]["technique"]
    assert stated == {"pseudonym": {"key": "(not stated)"}}


def test_risks_before_are_those_of_the_table_as_it_was_given(releases: dict[str, Any]) -> None:
    table = people()
    sizes = table.group_by(["age", "sex"]).aggregate([([], "count_all")])["count_all"].to_pylist()
    for name in KINDS:
        before, source = releases[name].evidence["risk_before"], releases[name].evidence["source"]
        assert (before["records"], source["rows"]) == (N, N), name
        assert before["classes"] == len(sizes)
        assert before["unique_records"] == sizes.count(1)
    after = releases["plain"].evidence["risk_after"]
    assert after["records"] == releases["plain"].manifest["rows"] < N


def test_baskets_of_a_sample_are_counted_as_they_were_given() -> None:
    rng = np.random.default_rng(2)
    baskets = [";".join(sorted(set(rng.choice(list("abcdef"), 3)))) for _ in range(200)]
    table = pa.table({"basket": baskets, "age": [20, 21] * 100})
    attributes = {"basket": {"role": "quasi", "items": {"columns": 2}}, "age": {"role": "quasi"}}
    policy = {"attributes": attributes, "privacy": [], "method": "plain", "sample": {"share": 0.05}}
    before = shoal.anonymize(table, policy, seed=1).evidence["risk_before"]
    assert before["records"] == 200
    assert before["classes"] == len(set(zip(baskets, [20, 21] * 100, strict=True)))


def test_the_evidence_counts_what_techniques_and_the_sample_did(releases: dict[str, Any]) -> None:
    evidence = releases["plain"].evidence
    assert evidence["sample"] == {"source_rows": N, "sampled_rows": releases["plain"].manifest["rows"]}
    assert evidence["techniques"].keys() == releases["plain"].manifest["techniques"].keys()
    moved = evidence["techniques"]["illness"]
    assert moved["groups"] == 2
    assert 0 < moved["rows_with_their_own_value"] < evidence["sample"]["sampled_rows"]
    assert "techniques" not in releases["synthetic"].evidence
    for release in releases.values():
        assert json.loads(json.dumps(release.evidence, allow_nan=False)) == release.evidence


def test_what_carries_the_risk_is_found_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """One record is unique by its age alone; rounding hides it."""
    table = pa.table({"age": [30, 30, 31, 31, 70], "sex": ["f", "m", "f", "m", "f"]})
    attributes: dict[str, Any] = {"age": {"role": "quasi"}, "sex": {"role": "quasi"}}
    policy = {"attributes": attributes, "privacy": [], "method": "plain"}
    found = shoal.anonymize(table, policy).evidence["risk_carriers"]
    assert found["before"] == found["after"]
    assert found["before"]["unique_records"] == 5
    assert found["before"]["records_by_smallest_set"] == {"1": 1, "2": 4}
    assert {key: found["before"]["sets"][1][key] for key in ("attributes", "records")} == {
        "attributes": ["age"],
        "records": 1,
    }
    attributes["age"]["technique"] = {"rounding": {"base": 200}}
    found = shoal.anonymize(table, policy).evidence["risk_carriers"]
    assert found["before"]["unique_records"] == 5
    assert (found["after"]["unique_records"], found["after"]["sets"]) == (0, [])
    monkeypatch.setattr(before, "_MOST_WORK", 5 * 2)
    assert shoal.anonymize(table, policy).evidence["risk_carriers"]["before"]["largest_set"] == 1
    monkeypatch.setattr(before, "_MOST_WORK", 5 * 2 - 1)
    release = shoal.anonymize(table, policy)
    assert release.evidence["risk_carriers"]["before"] is None
    assert "What carries the risk" not in internal_report(release.manifest, release.evidence)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", KINDS)
def test_the_report_of_every_kind_is_whole(releases: dict[str, Any], name: str) -> None:
    release = releases[name]
    tags = Tags()
    tags.feed(internal_report(release.manifest, release.evidence))
    assert tags.open == []
    assert ("promises nothing about people" in tags.text) == (name == "plain")
    assert ("Claimed, and not to be checked by files" in tags.text) == (name == "synthetic")
    assert ("do not hold the values of the source" in tags.text) == ("techniques" in release.manifest)
    assert ("records were drawn" in tags.text) == ("sample" in release.manifest)
    assert ("No class of rows hides a person" in tags.text) == (name == "synthetic")
    assert "*" not in tags.text
    assert "`" not in tags.text


def test_names_in_the_report_are_escaped(releases: dict[str, Any]) -> None:
    release = releases["mondrian"]
    entry = {"technique": "permutation", "within": ["<img src=x>"]}
    manifest = release.manifest | {"techniques": {"<b>": entry}}
    evidence = release.evidence | {"techniques": {"<b>": {}}}
    page = internal_report(manifest, evidence)
    assert "<img" not in page
    assert "<b>" not in page


def test_the_command_says_what_each_kind_is(releases: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for name in KINDS:
        show_release(releases[name])
        said[name] = " ".join(capsys.readouterr().out.split())
    nothing = "It promises nothing about people."
    assert [name for name in KINDS if nothing in said[name]] == ["plain"]
    assert [name for name in KINDS if "high no-promise:" in said[name]] == ["plain"]
    assert all("The folder to share is" in text for text in said.values())
    assert "Changed: name (pseudonym), age (noise), illness (swapping), wage (rounding)." in said["mondrian"]
    drawn = releases["plain"].manifest["rows"]
    assert f"Drawn at random: {drawn} of {N} records." in said["plain"]
    assert all("; columns shuffled independently would keep" in t for t in said.values())
    assert "The release claims differential-privacy (epsilon = 2, delta = 0)" in said["synthetic"]
    assert "No row is a person." in said["synthetic"]
    assert "classes" not in said["synthetic"]
    assert "Counted together:" in said["synthetic"]


def test_the_audit_says_what_it_does_not_apply(folder: Path, releases: dict[str, Any]) -> None:
    assert releases
    policy = policies(folder / "secret-place.key")["plain"]
    said = "changes the table first (name, age, illness, wage, sample)"
    assert any(said in warning for warning in audit(people(), policy).warnings)
    unchanged = {**policy, "attributes": DECLARED, "sample": None}
    assert not any("changes the table first" in warning for warning in audit(people(), unchanged).warnings)


def test_the_guide_to_techniques_names_every_technique_and_parameter() -> None:
    text = (Path(__file__).parents[2] / "docs" / "techniques.md").read_text(encoding="utf-8")
    for name, technique in discover("shoal.columns", Technique).items():
        assert f"| `{name}` |" in text
        for parameter in technique.model_fields:
            assert re.search(rf"[{{ `]{parameter}(: |`)", text), f"{name}: {parameter}"
