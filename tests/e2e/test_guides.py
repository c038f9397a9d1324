"""The examples of the README and of the guides run as they are printed."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal import Release

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = sorted(path for path in DOCS.glob("*.md") if ">>>" in path.read_text(encoding="utf-8"))


def blocks(path: Path, language: str) -> list[str]:
    """The blocks of one language on a page."""
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_library_example_of_the_readme_runs() -> None:
    (block,) = blocks(ROOT / "README.md", "python")
    assert block.count("\n") <= 20
    said = io.StringIO()
    names: dict[str, object] = {}
    with contextlib.redirect_stdout(said):
        exec(compile(block, "README.md", "exec"), names)
    release = names["release"]
    assert [entry["model"] for entry in release.guarantees] == ["k-anonymity", "distinct-l-diversity"]
    assert release.guarantees[0]["achieved"] >= 5
    assert "name" not in release.data.columns
    assert "illness" in said.getvalue()


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_examples_of_the_guides_run(guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(str(guide), module_relative=False, optionflags=flags)
    assert tried > 0
    assert failed == 0


def test_the_overview_has_every_command() -> None:
    from shoal.cli import app

    text = (DOCS / "overview.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^shoal (\w+).*\s{3,}", text, flags=re.MULTILINE))
    known = {command.name for command in app.registered_commands} | {group.name for group in app.registered_groups}
    assert named == known


def test_the_policy_of_the_guide_is_valid_and_shows_every_key(tmp_path: Path) -> None:
    from shoal import Policy
    from shoal.policy.policy import policy_schema

    (block,) = blocks(DOCS / "policy.md", "yaml")
    (tmp_path / "policy.yaml").write_text(block)
    policy = Policy.load(tmp_path / "policy.yaml")
    assert policy.names("quasi") == ("age", "zip", "sex", "bought")
    assert [model.name for model in policy.privacy][1:3] == ["entropy-l-diversity", "t-closeness"]
    schema = policy_schema()["properties"]
    assert set(policy.document) == set(schema)
    stated = {key for entry in policy.document["attributes"].values() for key in entry}
    assert stated == set(schema["attributes"]["additionalProperties"]["properties"])


VALUES = {
    "dates": ["31.12.2022", "01.06.2024"],
    "file": ["asthma", "flu"],
    "flat": ["small", "large"],
    "groups": ["noon", "midnight"],
    "intervals": [0, 119, 130],
    "mask": ["47110", "01067"],
    "numbers": [17, 90],
    "tree": ["asthma", "flu"],
}


def test_the_guide_to_taxonomies_shows_every_builder_and_each_builds(tmp_path: Path) -> None:
    from shoal import Policy
    from shoal.core.registry import discover
    from shoal.taxonomies.builders import TaxonomyBuilder

    (tmp_path / "taxonomies").mkdir()
    (tmp_path / "taxonomies" / "diagnosis.csv").write_text("asthma;lungs;*\nflu;*\n")
    shown = set()
    for block in blocks(DOCS / "taxonomies.md", "yaml"):
        policy = f"attributes: {{a: {{role: quasi, {block.strip()}}}}}\nprivacy: [{{k-anonymity: {{k: 2}}}}]\n"
        (tmp_path / "policy.yaml").write_text(policy)
        builder = Policy.load(tmp_path / "policy.yaml").attributes["a"].taxonomy
        values = pa.array(VALUES[builder.name])
        assert builder.build(values).encode(values).min() >= 0, block
        shown.add(builder.name)
    assert shown == set(discover("shoal.taxonomies.builders", TaxonomyBuilder))


def test_the_guide_to_the_output_names_every_file_and_key(tmp_path: Path) -> None:
    import shoal

    people = pa.table({"age": [31, 32, 33, 34], "illness": ["flu", "cold", "flu", "cold"]})
    attributes = {"age": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    pq.write_table(people, tmp_path / "people.parquet")
    privacy = [{"k-anonymity": {"k": 2}}, {"k-map": {"k": 2, "population": str(tmp_path / "people.parquet")}}]
    policy = {"attributes": attributes, "privacy": privacy, "method": {"incognito": {}}}  # the one that has levels
    policy |= {"release": {"title": "Ages and illnesses"}}
    release = shoal.anonymize(people, policy, out=tmp_path / "out")
    policy |= {"privacy": [{"simple-l-diversity": {"l": 2}}], "method": {"anatomy": {"two_tables": True}}}
    sliced = shoal.anonymize(people, policy, out=tmp_path / "sliced", format="csv")
    people = pa.table({"basket": ["a;b", "a;c", "b;d", "c;d"]})
    items = {"columns": 2, "sensitive": ["d"]}
    policy = {"attributes": {"basket": {"role": "quasi", "items": items}}, "method": {"slicing": {"columns": "each"}}}
    baskets = shoal.anonymize(people, policy | {"privacy": [{"distinct-l-diversity": {"l": 1}}]})
    agreed = _agreed_release(tmp_path)
    attributes = {"age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "step": 50}}}}
    people = pa.table({"age": list(range(100))})
    policy = {"attributes": attributes, "privacy": [], "method": {"synthetic": {"epsilon": 1}}}
    synthetic = shoal.anonymize(people, policy)
    attributes["age"]["technique"] = {"rounding": {"base": 5}}
    changed = shoal.anonymize(people, policy | {"method": "plain", "sample": {"share": 0.5}})
    attributes = {"who": {"role": "identifier"}, "age": {"role": "quasi"}}
    policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 2}}], "unit": "who", "method": "auto"}
    policy |= {"source": {"missing_in": {"age": ["0"]}}}
    counted = shoal.anonymize(people.append_column("who", people["age"]), policy, out=tmp_path / "counted")
    text = (DOCS / "output.md").read_text(encoding="utf-8")
    for path in (path for folder in ("out", "sliced", "agreed", "counted") for path in (tmp_path / folder).rglob("*")):
        assert path.stem in text, path.name
    documents = {
        "manifest.json": {
            key for one in (release, sliced, baskets, agreed, synthetic, changed, counted) for key in one.manifest
        },
        "evidence.json": {
            key for one in (release, sliced, agreed, synthetic, changed, counted) for key in one.evidence
        },
    }
    for heading, keys in documents.items():
        (table,) = re.findall(rf"## {heading}\n\n\| key \| what \|\n\|---\|---\|\n((?:\|.*\n)+)", text)
        first = [row.split("|")[1] for row in table.splitlines()]
        assert {key for cell in first for key in re.findall(r"`(\w+)`", cell)} == keys


def _agreed_release(folder: Path) -> Release:
    from fractions import Fraction

    from shoal.agency.apply import apply_plan
    from shoal.agency.distribution import read_distribution
    from shoal.agency.planning import make_plan, write_plan

    known = pa.table({"age": [31, 31], "illness": ["flu", "cold"], "count": [5, 5]})
    plan = make_plan(read_distribution(known, "illness"), promise=1, delta=Fraction("0.5"), samples=4)
    write_plan(plan, folder / "plan.json")
    return apply_plan(
        folder / "plan.json", pa.table({"age": [31] * 4, "illness": ["flu", "cold"] * 2}), folder / "agreed"
    )


def methods() -> dict[str, type]:
    from shoal.core.registry import discover
    from shoal.methods.base import Method

    return dict(discover("shoal.methods", Method))


@pytest.mark.parametrize("name", sorted(methods()))
def test_every_method_has_a_guide_that_names_its_parameters_and_what_it_tells_of_its_search(name: str) -> None:
    import shoal

    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    method = methods()[name]
    parameters = text[text.index("## Parameters") :]
    tables = re.findall(r"\| parameter \| default \| meaning \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", parameters)
    stated = [row.split("`")[1] for row in tables[0].splitlines()] if method.model_fields else []
    assert stated == list(method.model_fields)
    if name == "safepub":  # which has no search, and publishes nothing of a dozen people
        return
    illness = ["flu", "cold", "gout"] * 4
    people = pa.table({"age": list(range(31, 43)), "illness": illness})
    attributes = {
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99}}},
        "illness": {"role": "sensitive", "taxonomy": {"flat": ["flu", "cold", "gout"]}},
    }
    sizes = "column-frequency" if name == "slicing" else "k-anonymity"
    asked = [[{sizes: {"k": 3}}], [{"distinct-l-diversity": {"l": 2}}]]
    for privacy in asked if method.models == "required" else [[]]:
        if name == "anatomy" and "k-anonymity" in privacy[0]:  # which it refuses: it generalizes nothing
            continue
        if name == "local-suppression" and "k-anonymity" not in privacy[0]:  # suppressed groups would show their values
            continue
        needed = {"epsilon": 1} if name == "synthetic" else {}
        policy = {"attributes": attributes, "privacy": privacy, "method": {name: needed}}
        release = shoal.anonymize(people, policy)
        for key in release.evidence["search"] if release.manifest["method"] == name else ():
            assert f"`{key}`" in text, key


def test_the_guide_to_models_names_every_model_and_parameter() -> None:
    from shoal.core.registry import discover
    from shoal.models.base import DisclosureModel, PrivacyModel

    sections = re.split(r"^## ", (DOCS / "models.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    stated = {section.split("\n")[0]: section for section in sections[1:]}
    models = discover("shoal.models", PrivacyModel)
    assert set(stated) == set(models)
    for name, model in models.items():
        for parameter in set(model.model_fields) - {"attribute", "harmless"}:
            assert re.search(rf"[{{ `]{parameter}: ", stated[name]), f"{name}: {parameter}"
        of_harmless = [line for line in sections[0].split("\n") if line.startswith("| `") and f"`{name}`" in line]
        assert len(of_harmless) == (issubclass(model, DisclosureModel) or name == "t-closeness"), name


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
