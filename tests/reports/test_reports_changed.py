"""What people read of releases that were changed, averaged, drawn, or promise nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests import tables

import shoal
from shoal.columns.base import Technique, treat
from shoal.columns.keys import new_key
from shoal.core.randomness import Chance
from shoal.core.registry import discover
from shoal.reports.internal import internal_report
from shoal.reports.pages import explain_change, public_readme
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
        "coding": [("below 1,500 were set to 1,500", "above 8,000"), ("derived from the data",)],
        "swapping": [("about 20%", "`sex` and `illness`"), ("about 12.5%", "all records")],
        "permutation": [("`sex`",), ("all records",)],
        "pram": [("at least 0.75", "`applied`"), ("each group of records that agree in `sex`", "Expected frequencies")],
        "rank-swapping": [("at most 5%",)],
        "correlated-noise": [("correlated with the noise of `age`", "25% of their variance")],
        "shuffling": [("`age`",)],
        "microaggregation": [
            ("together with `age`", "at least 3 near records that agree in `sex`", "1 decimal"),
            ("replaced by averages of groups of at least 4 near records, as whole numbers",),
        ],
        "record-swapping": [("areas (`wage`)", "% of the records"), ("between records that agree in `sex`",)],
        "pseudonym": [("domain `people`", "find out to whom"), ("decrypt them",)],
        "token": [("the key was discarded",)],
        "masking": [("invented e-mail addresses", "meaningless"), ("invented numbers",)],
        "hash": [("forgotten salt",), ("**Anyone can find the values by trying them out**",)],
    }
    for name, several in wanted.items():
        for sentence, parts in zip(said[name], several, strict=True):
            assert all(part in sentence for part in parts), sentence
            assert sentence.endswith(".")
            assert "None" not in sentence
            assert ".key" not in sentence


def test_noise_is_never_called_differential_privacy(tmp_path: Path) -> None:
    assert all("not differential privacy" in explain_change(entry) for entry in technique_entries(tmp_path)["noise"])


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


def test_names_in_the_report_are_escaped(releases: dict[str, Any]) -> None:
    release = releases["mondrian"]
    entry = {"technique": "permutation", "within": ["<img src=x>"]}
    manifest = release.manifest | {"techniques": {"<b>": entry}}
    evidence = release.evidence | {"techniques": {"<b>": {}}}
    page = internal_report(manifest, evidence)
    assert "<img" not in page
    assert "<b>" not in page


def test_the_guide_to_techniques_names_every_technique_and_parameter() -> None:
    text = (Path(__file__).parents[2] / "docs" / "techniques.md").read_text(encoding="utf-8")
    for name, technique in discover("shoal.columns", Technique).items():
        assert f"| `{name}` |" in text
        for parameter in technique.model_fields:
            assert re.search(rf"[{{ `]{parameter}(: |`)", text), f"{name}: {parameter}"
