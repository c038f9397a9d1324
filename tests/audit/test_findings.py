"""Findings: hand-computed tables, acceptance, strict runs, and the same list wherever rows are made."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
import yaml
from tests import releases
from typer.testing import CliRunner

from shoal import anonymize
from shoal.attacks.running import read_findings
from shoal.audit import counting
from shoal.audit.counting import RowCounts
from shoal.audit.findings import CHECKS
from shoal.cli import app
from shoal.core.errors import FindingsError, PolicyError
from shoal.core.registry import discover
from shoal.core.results import Finding
from shoal.models.base import PrivacyModel, Whole
from shoal.policy.policy import FINDINGS, Policy
from shoal.release.forms.base import read_form

RUNNER = CliRunner(env={"COLUMNS": "200"})


def counted(roles: dict[str, str], rows: pa.Table, method: str = "mondrian") -> RowCounts:
    """Count rows as a release with one part; two rows come in each batch."""
    manifest = {"method": method, "attributes": {name: {"role": role} for name, role in roles.items()}}
    counts = RowCounts.of(read_form(releases.state(manifest)))
    for batch in rows.to_batches(max_chunksize=2):
        counts.add(batch)
    return counts


def policy(attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
    written = {name: {"role": role} if isinstance(role, str) else role for name, role in attributes.items()}
    return {"attributes": written, "privacy": [{"k-anonymity": {"k": 2}}], **more}


def people(n: int = 400, seed: int = 1) -> pa.Table:
    """Two sensitive columns, one of them the same for everybody of an age, and a cost that nobody shares."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 60, n)
    return pa.table(
        {
            "age": age,
            "illness": rng.choice(["flu", "gout", "cold"], n),
            "income": pa.array(np.where(age < 40, "low", "high")),
            "cost": np.arange(n) + 0.5,
            "ward": rng.choice(["a", "b"], n),
        }
    )


ROLES = {"age": "quasi", "illness": "sensitive", "income": "sensitive", "cost": "insensitive", "ward": "insensitive"}
COVERED = [{"k-anonymity": {"k": 5}}, {"distinct-l-diversity": {"l": 2, "attribute": "illness"}}]


def stated(findings: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.id, one.severity, one.about) for one in findings]


# Counting -------------------------------------------------------------------------------------------


def test_policies_know_every_finding() -> None:
    later = ("unlinked", "attack-identity", "attack-attribute", "attack-membership")  # by the ledger and by attacks
    assert tuple(CHECKS) == tuple(name for name in FINDINGS if name not in later)


def test_unique_records_and_one_value_classes_by_hand() -> None:
    rows = pa.table(
        {
            "q": pa.array(["1", "1", "2", "2", None, None]).dictionary_encode(),
            "s": ["x", "x", "x", "y", None, None],  # classes 1 and missing have one value: 4 records
            "f": pa.array([1.5, 1.5, 2.0, None, 0.0, -0.0]),  # 2.0 and missing are alone
            "g": [1, 1, 2, 3, 4, 4],
        }
    )
    found = counted({"q": "quasi", "s": "sensitive", "f": "insensitive", "g": "insensitive"}, rows)
    assert (found.n_rows, found.one_value("s").n) == (6, 4)
    assert (found.unique(("f",)).n, found.unique(("g",)).n, found.unique(("f", "g")).n) == (2, 2, 2)
    assert sorted(found.value_counts("s").tolist()) == [1, 2, 3]


def test_the_smallest_isolating_set_is_found_and_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 64
    i = np.arange(n)
    rows = pa.table({"q": np.zeros(n, int), "a": i % 8, "b": np.zeros(n, int), "c": i // 8, "d": i % 2})
    found = counted(
        {"q": "quasi", "a": "insensitive", "b": "insensitive", "c": "insensitive", "d": "insensitive"}, rows
    )
    names, count, proven = found.smallest_set(("a", "b", "c", "d"), 0.01 * n)
    assert (names, count.n, proven) == (("a", "c"), n, True)
    monkeypatch.setattr(counting, "_MOST_SETS", 1)  # too many sets: columns are left out one by one
    names, count, proven = found.smallest_set(("a", "b", "c", "d"), 0.01 * n)
    assert (set(names), count.n, proven) == ({"a", "c"}, n, False)


# What is found --------------------------------------------------------------------------------------


def test_every_finding_of_a_release() -> None:
    release = anonymize(people(), policy(ROLES, privacy=COVERED))
    assert stated(release.findings) == [
        ("isolating-columns", "high", ("cost",)),
        ("one-value-classes", "high", ("income",)),
        ("unprotected-sensitive", "high", ("income",)),
    ]
    cost, classes, _ = release.findings
    assert "400 of 400 records (100%) are unique" in cost.text
    by_class: dict[str, list[str]] = {}
    for label, income in zip(*(release.data.column(name).to_pylist() for name in ("age", "income")), strict=True):
        by_class.setdefault(label, []).append(income)
    certain = sum(len(each) for each in by_class.values() if len(set(each)) == 1)
    assert f"{certain} of 400 records" in classes.text
    assert release.evidence["findings"] == [one.as_dict() for one in release.findings]
    assert "findings" not in release.manifest


def test_people_alone_in_a_class_under_a_label_are_a_finding_and_k_anonymity_removes_it() -> None:
    ages = np.r_[np.arange(20, 28), np.full(8, 30)]
    rows = pa.table({"age": ages, "illness": ["gout"] * 8 + ["flu", "gout"] * 4})
    asked: list[dict[str, Any]] = [{"tau-l-diversity": {"tau": 0.5, "l": 2}}]
    roles, paper = {"age": "quasi", "illness": "sensitive"}, {"sweep": {"defend": False}}
    release = anonymize(rows, policy(roles, privacy=asked, method=paper), seed=1)
    published = Counter(release.data["age"].to_pylist())
    alone = sum(n == 1 for n in published.values())
    (found,) = (one for one in release.findings if one.id == "lone-records")
    assert (found.severity, found.about) == ("high", ("illness",))  # more than 1 % of the people
    assert alone > 0
    assert found.text.startswith(f"{alone} of 16 records")
    for more, method in (([{"k-anonymity": {"k": 2}}], paper), ([], {"sweep": {}})):
        other = anonymize(rows, policy(roles, privacy=[*asked, *more], method=method), seed=1)
        assert "lone-records" not in {one.id for one in other.findings}


def test_a_sensitive_number_that_nobody_shares_isolates_and_rounding_repairs_it() -> None:
    roles = {"age": "quasi", "cost": "sensitive"}
    models = [{"k-anonymity": {"k": 2}}, {"distinct-l-diversity": {"l": 2}}]
    rows = people().select(["age", "cost"])
    assert stated(anonymize(rows, policy(roles, privacy=models)).findings) == [("isolating-columns", "high", ("cost",))]
    roles["cost"] = {"role": "sensitive", "technique": {"rounding": {"base": 50}}}
    assert anonymize(rows, policy(roles, privacy=models)).findings == ()


@pytest.mark.parametrize(("times", "severity", "share"), [(2, "medium", "1%"), (10, "high", "5%")])
def test_spellings_of_a_sensitive_value_are_a_finding(times: int, severity: str, share: str) -> None:
    rows = people().select(["age", "illness"])
    illness = [*rows["illness"].to_pylist()[2 * times :], *["Mumps "] * times, *["mumps"] * times]
    asked = policy({"age": "quasi", "illness": "sensitive"}, privacy=COVERED)
    found = anonymize(rows.set_column(1, "illness", pa.array(illness)), asked, seed=1).findings
    (variants,) = (one for one in found if one.id == "spelling-variants")
    assert (variants.severity, variants.about) == (severity, ("illness",))
    assert "2 values of illness are 1 in several spellings" in variants.text
    assert f"{2 * times} of 400 records ({share})" in variants.text
    assert "umps" not in variants.text + variants.fix
    assert "spelling-variants" not in [one.id for one in anonymize(rows, asked, seed=1).findings]


def test_tokens_isolate_nobody_and_hashes_without_salt_do() -> None:
    rows = people().select(["age"]).append_column("name", pa.array([f"n{i}" for i in range(400)]))
    token = {"role": "identifier", "technique": {"token": {}}}
    assert anonymize(rows, policy({"age": "quasi", "name": token})).findings == ()
    bare = {"role": "identifier", "technique": {"hash": {"salt": "none", "accept": "dictionary-attacks"}}}
    found = anonymize(rows, policy({"age": "quasi", "name": bare})).findings
    assert stated(found) == [("isolating-columns", "high", ("name",))]


def test_nothing_promised_is_a_finding_but_not_of_synthetic_rows() -> None:
    rows, roles = people().select(["age", "ward"]), {"age": "quasi", "ward": "insensitive"}
    plain = anonymize(rows, policy(roles, privacy=[], method={"plain": {}}))
    assert stated(plain.findings)[0] == ("no-promise", "high", ())
    domain = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [10]}}}
    ward = {"role": "sensitive", "taxonomy": {"tree": {"*": ["a", "b"]}}}
    synthetic = policy({"age": domain, "ward": ward}, privacy=[], method={"synthetic": {"epsilon": 1}})
    assert "no-promise" not in {one.id for one in anonymize(rows, synthetic).findings}


def test_classes_too_small_for_the_stated_threshold_are_a_finding() -> None:
    table = pa.table({"sex": ["f", "m"] * 4, "illness": ["a", "a", "b", "b"] * 2})
    roles = policy({"sex": "quasi", "illness": "sensitive"})
    for threshold, expected in ((0.24, [4]), (0.25, []), (None, [])):
        made = anonymize(table, roles | {"release": {"threshold": threshold}}, seed=1)
        found = [one for one in made.findings if one.id == "above-threshold"]
        assert len(found) == len(expected)
        if found:
            assert "smallest class has 4 members" in found[0].text
            assert "k = 5" in found[0].fix
            assert "and the policy&#39;s threshold is 24%" in made.report()
            assert "24%" in made.report()


def test_a_release_below_shuffled_columns_says_so_and_one_above_does_not() -> None:
    """Eight towns of very different size: one class of all spreads records evenly over them."""
    rng = np.random.default_rng(4)
    town = rng.choice(8, 400, p=[0.86, *[0.02] * 7])
    rows = pa.table({"town": [f"t{code}" for code in town], "ward": np.where(town > 0, "a", "b")})
    roles = {"town": {"role": "quasi", "taxonomy": {"flat": {}}}, "ward": "sensitive"}
    coarse = anonymize(rows, policy(roles, privacy=[{"k-anonymity": {"k": 300}}]))
    (found,) = (one for one in coarse.findings if one.id == "below-shuffled")
    assert found.severity == "medium"
    assert "would be if every column were shuffled" in found.text
    assert coarse.evidence["marginals"][-1]["below_shuffled"]
    assert "marginals" not in coarse.manifest
    fine = anonymize(rows, policy(roles, privacy=[{"k-anonymity": {"k": 2}}]))
    assert "below-shuffled" not in {one.id for one in fine.findings}
    assert fine.evidence["marginals"][-1]["release"] == pytest.approx(1000)


EMPTY = [
    {"column-frequency": {"k": 1}},
    {"k-anonymity": {"k": 1}},
    {"profitability": {"gain": 1, "cost": 1}},
    {"average-risk": {"risk": 1}},
    {"distinct-l-diversity": {"l": 1}},
    {"simple-l-diversity": {"l": 1}},
    {"entropy-l-diversity": {"l": 1}},
    {"recursive-cl-diversity": {"c": 2, "l": 1}},
    {"tau-l-diversity": {"tau": 1, "l": 2}},
    {"t-closeness": {"t": 1}},
    {"t-closeness": {"t": 0.75}},  # no class is farther from four equally frequent values
    {"t-closeness": {"t": 1, "distance": "ordered"}},
    {"alpha-k-anonymity": {"alpha": 1, "k": 5}},
    {"confidence-bounding": {"most": 1}},
    {"beta-likeness": {"beta": 3}},
    {"k-map": {"k": 1, "population": "x"}},
    {"delta-presence": {"min": 0, "max": 1, "population": "x"}},
    {"average-risk": {"risk": 1}},
]
MEANT = [
    {"column-frequency": {"k": 2}},
    {"k-anonymity": {"k": 2}},
    {"profitability": {"gain": 1.001, "cost": 1}},
    {"average-risk": {"risk": 0.99}},
    {"sample-uniqueness": {"fraction": 0.9}},
    {"distinct-l-diversity": {"l": 2}},
    {"entropy-l-diversity": {"l": 1.01}},
    {"recursive-cl-diversity": {"c": 2, "l": 2}},
    {"tau-l-diversity": {"tau": 0.9, "l": 2}},
    {"t-closeness": {"t": 0.74}},
    {"t-closeness": {"t": 0.99, "distance": "ordered"}},
    {"alpha-k-anonymity": {"alpha": 0.99, "k": 1}},
    {"confidence-bounding": {"most": 0.99}},
    {"beta-likeness": {"beta": 2.9}},
    {"delta-disclosure": {"delta": 100}},
    {"k-map": {"k": 2, "population": "x"}},
    {"delta-presence": {"min": 0, "max": 0.9, "population": "x"}},
    {"delta-presence": {"min": 0.1, "max": 1, "population": "x"}},
    {"average-risk": {"risk": 0.9}},
    {"sample-uniqueness": {"fraction": 0.5}},
]


@pytest.mark.parametrize("entry", [*EMPTY, *MEANT], ids=str)
def test_models_know_when_they_promise_nothing(entry: dict[str, Any]) -> None:
    ((name, parameters),) = entry.items()
    model = discover("shoal.models", PrivacyModel)[name].model_validate(parameters)
    assert model.promises_nothing(Whole.of([25, 25, 25, 25])) == (entry in EMPTY)


def test_every_model_is_asked() -> None:
    assert {name for entry in MEANT for name in entry} >= set(discover("shoal.models", PrivacyModel)) - {
        "simple-l-diversity"
    }


def test_an_empty_promise_is_a_finding_for_each_column() -> None:
    models = [{"k-anonymity": {"k": 1}}, {"distinct-l-diversity": {"l": 1}}]
    found = anonymize(
        people().select(["age", "illness", "income"]), policy(dict(list(ROLES.items())[:3]), privacy=models)
    )
    empty = [one.about for one in found.findings if one.id == "empty-promise"]
    assert empty == [(), ("illness",), ("income",)]


# Truth values ---------------------------------------------------------------------------------------


def test_yes_is_no_k_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("attributes:\n  age: {role: quasi}\nprivacy:\n  - k-anonymity: {k: yes}\n")
    with pytest.raises(PolicyError, match=r"line 4.*must be a number; received a truth value"):
        Policy.load(tmp_path / "p.yaml")
    random = {"role": "quasi", "technique": {"rounding": {"base": 5, "random": True}}}
    assert Policy.load(policy({"age": random})).techniques  # where a truth value is meant, it is one


# Acceptance and strict runs -------------------------------------------------------------------------


def accepted(*about: str, finding: str = "isolating-columns", reason: str = "nobody knows bills") -> dict[str, Any]:
    return {"finding": finding, "about": list(about), "reason": reason}


def test_what_is_accepted_must_cover_what_the_finding_is_about() -> None:
    rows = pa.table({"age": np.arange(400) % 4, "a": np.arange(400) % 20, "b": np.arange(400) // 20})
    roles = {"age": "quasi", "a": "insensitive", "b": "insensitive"}
    part = anonymize(rows, policy(roles, accept=[accepted("a")])).findings
    assert [one.accepted for one in part] == [None, None, None]
    assert part[-1].id == "unused-acceptance"
    assert part[-1].severity == "info"
    whole = anonymize(rows, policy(roles, accept=[accepted("b", "age", "a")]), strict=True).findings
    assert {one.accepted for one in whole} == {"nobody knows bills"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            accepted("cost", finding="isolating-column"),
            "'isolating-column' is not a known finding; did you mean 'isolating-columns'?",
        ),
        (accepted("csot"), "'csot' is not a known column; did you mean 'cost'?"),
        (accepted("cost", reason="  "), "must say why"),
        ({"finding": "isolating-columns", "about": ["cost"]}, "is required"),
    ],
)
def test_a_policy_accepts_only_what_exists_and_with_a_reason(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as error:
        Policy.load(policy({"age": "quasi", "cost": "insensitive"}, accept=[entry]))
    assert message in str(error.value)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    csv.write_csv(people(), tmp_path / "people.csv")
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(policy(ROLES, privacy=COVERED)))
    reasons = [
        accepted("cost"),
        accepted("income", finding="one-value-classes", reason="income is public"),
        accepted("income", finding="unprotected-sensitive", reason="income is public"),
    ]
    (tmp_path / "accepted.yaml").write_text(yaml.safe_dump(policy(ROLES, privacy=COVERED, accept=reasons)))
    return tmp_path


def run(folder: Path, *arguments: str) -> Any:
    return RUNNER.invoke(app, [one.replace("@", f"{folder}/") for one in arguments])


def test_a_strict_run_leaves_nothing_while_high_findings_are_open(files: Path) -> None:
    before = sorted(files.iterdir())
    asked = ("anonymize", "@people.csv", "-p", "@policy.yaml", "-o", "@out", "--ledger", "@book", "--strict")
    result = run(files, *asked, "--json")
    assert result.exit_code == 5
    assert json.loads(result.stdout)["findings"][0]["id"] == "isolating-columns"
    assert sorted(path for path in files.iterdir() if path.name != "book") == before
    said = run(files, *asked)
    assert (said.exit_code, said.stdout) == (5, "")
    assert "nothing was published: 3 high findings are open" in said.stderr
    with pytest.raises(FindingsError):
        anonymize(people(), policy(ROLES, privacy=COVERED), strict=True)


def test_audit_and_attack_have_the_findings_too(files: Path) -> None:
    found = json.loads(run(files, "audit", "@people.csv", "-p", "@policy.yaml", "--json").stdout)["findings"]
    assert {(one["id"], *one["about"]) for one in found} >= {
        ("isolating-columns", "cost"),
        ("one-value-classes", "income"),
    }
    run(files, "anonymize", "@people.csv", "-p", "@accepted.yaml", "-o", "@out")
    asked = ("attack", "@out", "--source", "@people.csv", "--attack", "homogeneity", "--targets", "50")
    assert "accepted: nobody knows bills" in run(files, *asked).stdout.splitlines()[-3]
    (files / "out" / "internal" / "evidence.json").unlink()  # from the public files alone: the same, and all open
    assert stated(read_findings(files / "out")) == [
        ("isolating-columns", "high", ("cost",)),
        ("one-value-classes", "high", ("income",)),
        ("unprotected-sensitive", "high", ("income",)),
    ]


def test_the_demo_ends_without_high_findings_and_says_what_is_left(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["demo", "-o", str(tmp_path / "demo"), "--rows", "3000", "--seed", "1"])
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "The decision. Ready to decide. No high finding is open." in said
    assert "The policy accepts this: rounded costs are not known outside the hospital." in said
    assert "cost alone would make 2,9" in said
    release = tmp_path / "demo" / "release"
    assert {(one.id, one.open) for one in read_findings(release)} == {("isolating-columns", False)}
    as_it_is = yaml.safe_load((tmp_path / "demo" / "policy.yaml").read_text())
    del as_it_is["attributes"]["cost"]["technique"], as_it_is["accept"]
    found = anonymize(tmp_path / "demo" / "stays.csv", as_it_is).findings
    assert stated(found) == [("isolating-columns", "high", ("cost",))]


# Severity and order --------------------------------------------------------------------------------


def test_severity_follows_the_share_of_people_and_the_policy_sets_it() -> None:
    """Two of 400 people have their own ward, 0.5 %, and two share one: 1 % in all is not above 1 %."""
    rows = people().select(["age"]).append_column("ward", pa.array(["x", "y", "z", "z"] + ["a", "b"] * 198))
    roles = {"age": "quasi", "ward": "insensitive"}
    for stated_share, expected in ((None, "medium"), (0.005, "high"), (0, "high"), (0.02, "medium")):
        options = {} if stated_share is None else {"release": {"high_above": stated_share}}
        found = next(one for one in anonymize(rows, policy(roles, **options)).findings if "published value" in one.text)
        assert (found.severity, found.share) == (expected, 0.01)
        assert found.text.startswith("2 of 400 records (0.5%) are unique by their published value of ward, and 2 share")
    with pytest.raises(PolicyError, match="high_above"):
        Policy.load(policy(roles, release={"high_above": 1}))


def test_nearly_unique_with_the_unchanged_columns_stops_a_strict_run() -> None:
    rng = np.random.default_rng(3)
    rows = pa.table({"age": rng.integers(20, 60, 400), "a": rng.integers(0, 60, 400)})
    with pytest.raises(FindingsError):
        anonymize(rows, policy({"age": "quasi", "a": "insensitive"}), strict=True)


def test_classes_with_nearly_one_value_are_a_finding_from_95_percent() -> None:
    """Class 0: 149 of 150 (0.993); class 1: 19 of 20; class 2: 18 of 20; class 3: one value, another finding."""
    classes = np.repeat([0, 1, 2, 3], [150, 20, 20, 10])
    ill = np.r_[["flu"] * 149, ["cold"], ["gout"] * 19, ["flu"], ["gout"] * 18, ["cold"] * 2, ["burn"] * 10]
    found = counted({"q": "quasi", "s": "sensitive"}, pa.table({"q": classes, "s": ill}))
    count, largest = found.nearly_one_value("s")
    assert (count.n, largest) == (170, 149 / 150)
    rows = pa.table({"q": np.repeat([0, 1], [150, 150]), "s": np.r_[ill[:150], ["cold", "gout", "flu"] * 50]})
    models = [{"k-anonymity": {"k": 2}}, {"distinct-l-diversity": {"l": 2}}]
    release = anonymize(rows, policy({"q": "quasi", "s": "sensitive"}, privacy=models, method={"incognito": {}}))
    (near,) = release.findings
    assert (near.id, near.severity, near.about, near.share) == ("near-one-value-classes", "high", ("s",), 0.5)
    assert "150 of 300 records (50%)" in near.text
    assert "99.3%" in near.text


# A published column that determines a quasi column ----------------------------------------------------


def towns(n: int = 4000, seed: int = 2) -> pa.Table:
    """A density for each of 40 areas, a code of the region that areas are in, and columns that determine nothing."""
    rng = np.random.default_rng(seed)
    area = rng.integers(0, 40, n)
    return pa.table(
        {
            "area": [f"{100 + one}" for one in area],
            "age": rng.integers(20, 60, n),
            "illness": rng.choice(["flu", "gout", "cold"], n),
            "density": rng.permutation(np.arange(40) * 3.7)[area],
            "region": area % 5,
            "cost": rng.integers(0, 2000, n) * 1.5,
            "ward": rng.choice(["a", "b"], n),
        }
    )


def ask(shown: dict[str, str], **more: Any) -> dict[str, Any]:
    roles = {"area": "quasi", "age": "quasi", "illness": "sensitive", **shown}
    models = [{"k-anonymity": {"k": 10}}, {"distinct-l-diversity": {"l": 2}}]
    return policy(roles, privacy=models, **more)


def determined(findings: Any) -> list[Finding]:
    return [one for one in findings if one.id == "determined-quasi"]


@pytest.mark.parametrize("method", ["mondrian", "incognito", "microaggregation"])
def test_a_column_that_determines_a_quasi_column_is_a_finding_with_the_k_that_is_left(method: str) -> None:
    rows = towns().select(["area", "age", "illness", "density", "ward"])
    release = anonymize(rows, ask({"density": "insensitive", "ward": "insensitive"}, method={method: {}}), seed=1)
    (found,) = determined(release.findings)
    assert (found.severity, found.about) == ("high", ("density", "area"))
    groups: Counter[Any] = Counter(
        zip(*(release.data[one].to_pylist() for one in ("area", "age", "density")), strict=True)
    )
    below = sum(n for n in groups.values() if n < 10)
    alone = sum(n for n in groups.values() if n == 1)
    assert f"{below:,} of 4,000 records" in found.text
    assert f"down to {min(groups.values())}, and {alone:,} are alone" in found.text
    assert "density reveals area for 100% of the records" in found.text
    assert found.share == below / 4000


# Slices, anatomy, averages ------------------------------------------------------------------------------


def unique_by(rows: pa.Table, *names: str) -> int:
    groups = Counter(zip(*(rows[name].to_pylist() for name in names), strict=True))
    return sum(n == 1 for n in groups.values())


def test_sliced_releases_say_who_can_be_singled_out() -> None:
    rng = np.random.default_rng(9)
    rows = people().append_column("zip", pa.array(rng.integers(0, 30, 400)))
    roles = {"age": "quasi", "zip": "quasi", "illness": "sensitive"}
    models = [{"distinct-l-diversity": {"l": 2}}]
    method = {"slicing": {"parts": [["age", "zip"], ["illness"]]}}
    release = anonymize(rows.select(list(roles)), policy(roles, privacy=models, method=method), seed=1)
    unique = unique_by(rows, "age", "zip")
    (found,) = (one for one in release.findings if one.id == "singled-out")
    assert (found.severity, found.about) == ("high", ("age", "zip"))
    assert found.text.startswith(f"{unique} of 400 records")
    assert found.share == unique / 400
    apart = {"slicing": {"parts": [["age"], ["zip", "illness"]]}}
    release = anonymize(rows.select(list(roles)), policy(roles, privacy=models, method=apart), seed=1)
    assert "singled-out" not in {one.id for one in release.findings}  # each value alone has several records
    anatomy = anonymize(rows.select(list(roles)), policy(roles, privacy=models, method={"anatomy": {}}), seed=1)
    assert f"{unique} of 400 records" in next(one for one in anatomy.findings if one.id == "singled-out").text


@pytest.mark.parametrize(
    ("method", "options", "known"),
    [
        ("anatomy", {}, ("age", "zip", "ward")),  # nothing else shows the bucket
        ("slicing", {"parts": [["age", "zip", "ward"], ["illness"]]}, ("age", "zip", "ward")),
        ("slicing", {"parts": [["age", "ward"], ["zip", "illness"]]}, ("bucket", "age", "ward")),  # zip does
        ("microaggregation", {}, ("age", "zip", "ward")),
    ],
)
def test_class_and_insensitive_columns_are_measured_in_every_form(
    method: str, options: dict[str, Any], known: tuple[str, ...]
) -> None:
    rng = np.random.default_rng(1)
    rows = pa.table(
        {
            "age": rng.integers(20, 30, 400),
            "zip": rng.integers(0, 5, 400),
            "illness": rng.choice(["flu", "gout", "cold"], 400),
            "ward": rng.choice(list("abcdefghij"), 400),
        }
    )
    roles = {"age": "quasi", "zip": "quasi", "ward": "insensitive", "illness": "sensitive"}
    models = [{"k-anonymity": {"k": 4}}] if method == "microaggregation" else []
    models = [*models, {"distinct-l-diversity": {"l": 2}}]
    release = anonymize(rows, policy(roles, privacy=models, method={method: options}), seed=1)
    (found,) = (one for one in release.findings if one.id == "isolating-columns")
    assert (found.severity, found.about) == ("high", ("ward",))
    assert found.text.startswith(f"{unique_by(release.data, *known)} of 400 records")


# Wherever rows are made -----------------------------------------------------------------------------


@pytest.mark.parametrize("values", [("none", "flu", "gout"), (0, 1, 2), (0.5, 1.5, 2.5)], ids=str)
def test_harmless_values_stop_no_strict_run(values: tuple[Any, Any, Any]) -> None:
    """All of one class, or nearly all of another, have the value that the policy calls harmless."""
    none, flu, gout = values
    ages = [20] * 40 + [30] * 40 + [40] * 40
    illness = [none] * 40 + [none] * 39 + [flu] + [flu, gout] * 20
    rows = pa.table({"age": [str(age) for age in ages], "illness": illness})
    bounded = {"confidence-bounding": {"most": 0.7, "harmless": [str(none)], "attribute": "illness"}}
    asked = policy({"age": "quasi", "illness": "sensitive"}, privacy=[{"k-anonymity": {"k": 10}}, bounded])
    release = anonymize(rows, asked, strict=True)
    assert set(release.data["age"].to_pylist()) == {"20", "30", "40"}
    about_values = {"one-value-classes", "near-one-value-classes"}
    assert not about_values & {one.id for one in release.findings}
    harmful = policy({"age": "quasi", "illness": "sensitive"}, privacy=[{"k-anonymity": {"k": 10}}])
    assert about_values <= {one.id for one in anonymize(rows, harmful).findings}
