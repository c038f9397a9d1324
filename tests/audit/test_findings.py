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
from typer.testing import CliRunner

from shoal import anonymize, draft_policy
from shoal.anonymize import Run
from shoal.anonymize.run import Options
from shoal.attacks.running import attack, read_findings
from shoal.audit import counting
from shoal.audit.counting import KeyCounts, RowCounts, hash_column
from shoal.audit.findings import CHECKS
from shoal.cli import app
from shoal.cli.publishing import show_findings
from shoal.core.errors import FindingsError, PolicyError
from shoal.core.progress import Silent
from shoal.core.registry import discover
from shoal.core.results import Finding
from shoal.engines.regions.budget import Budget
from shoal.models.base import PrivacyModel, Whole
from shoal.policy.policy import FINDINGS, Policy

RUNNER = CliRunner(env={"COLUMNS": "200"})


def counted(roles: dict[str, str], rows: pa.Table, method: str = "mondrian") -> RowCounts:
    """Count rows as a release with one part; two rows come in each batch."""
    manifest = {"method": method, "attributes": {name: {"role": role} for name, role in roles.items()}}
    counts = RowCounts.of(manifest | {"parts": [list(roles)]})
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
    assert tuple(CHECKS) == tuple(name for name in FINDINGS if name != "unlinked")  # which the ledger finds


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


def test_labels_that_stand_for_several_values_are_no_value() -> None:
    covers = {"x": {"values": ["x"]}, "*": {"values": ["x", "y"]}}
    attributes = {"q": {"role": "quasi"}, "s": {"role": "sensitive", "labels": covers}}
    found = RowCounts.of({"method": "sweep", "attributes": attributes, "parts": [["q", "s"]]})
    found.add(pa.RecordBatch.from_pydict({"q": [1, 1, 2, 2, 3], "s": ["*", "*", "x", "*", "x"]}))
    assert found.one_value("s").n == 1
    assert found.alone_under_label("s").n == 0  # 3 is alone, but shows its value
    found.add(pa.RecordBatch.from_pydict({"q": [4, 5], "s": ["*", "x"]}))
    assert (found.one_value("s").n, found.alone_under_label("s").n) == (2, 1)


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


def test_of_large_tables_all_columns_together_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "_MOST_HASHES", 100)
    rows = pa.table({"age": np.arange(400) % 4, "a": np.arange(400) % 20, "b": np.arange(400) // 20})
    found, _ = anonymize(rows, policy({"age": "quasi", "a": "insensitive", "b": "insensitive"})).findings
    assert found.about == ("a", "b")
    assert "fewer of them may suffice" in found.text


def test_many_values_are_estimated_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of 80,000 records are unique; 0.05 is more than ten standard deviations of a sample of 4,096 values."""
    monkeypatch.setattr(counting, "_MOST", 1 << 13)
    found = KeyCounts()
    for start in range(0, 40_000, 10_000):
        keys = hash_column(
            pa.array(np.r_[np.arange(start, start + 10_000), np.arange(start // 2, start // 2 + 5_000) * -1 - 1])
        )
        found.add(keys, keys)
        twice = hash_column(pa.array(np.arange(start // 2, start // 2 + 5_000) * -1 - 1))
        found.add(twice, twice)
    unique = found.unique()
    assert not unique.exact
    assert str(unique).startswith("about ")
    assert abs(unique.n / 40_000 - 1) < 0.05
    assert abs(found.one_value().n / 80_000 - 1) < 0.05


def test_texts_numbers_and_dictionaries_have_the_hashes_of_their_values() -> None:
    texts = pa.array(["", "a", "ab", "12345678", "123456789", None])
    assert len(set(hash_column(texts).tolist())) == 6
    assert (hash_column(texts) == hash_column(texts.dictionary_encode())).all()
    assert (hash_column(texts.slice(2, 3)) == hash_column(texts)[2:5]).all()
    days = pa.array([0, 1, None], pa.int32())
    assert (hash_column(days.cast(pa.date32())) == hash_column(days)).all()


# What is found --------------------------------------------------------------------------------------


def test_every_finding_of_a_release() -> None:
    release = anonymize(people(), policy(ROLES, privacy=COVERED))
    assert stated(release.findings) == [
        ("isolating-columns", "high", ("cost",)),
        ("one-value-classes", "high", ("income",)),
        ("unprotected-sensitive", "high", ("income",)),
    ]
    cost, classes, _ = release.findings
    assert "400 of 400 records (100.0%) are unique" in cost.text
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
    assert (found.severity, found.about) == ("medium", ("illness",))
    assert alone > 0
    assert found.text.startswith(f"{alone} of 16 records")
    for more, method in (([{"k-anonymity": {"k": 2}}], paper), ([], {"sweep": {}})):
        other = anonymize(rows, policy(roles, privacy=[*asked, *more], method=method), seed=1)
        assert "lone-records" not in {one.id for one in other.findings}


def test_columns_that_isolate_only_together_and_with_classes() -> None:
    n = 400
    rows = pa.table({"age": np.arange(n) % 4, "a": np.arange(n) % 20, "b": np.arange(n) // 20})
    roles = {"age": "quasi", "a": "insensitive", "b": "insensitive"}
    high, medium = anonymize(rows, policy(roles)).findings
    assert (high.severity, high.about) == ("high", ("a", "b"))
    assert "no smaller set" in high.text
    assert medium.severity == "medium"
    assert "class together with" in medium.text
    rows = pa.table({"age": np.arange(n) % 4, "a": np.arange(n) % 133})  # three records of each a, none of one age
    (alone,) = anonymize(rows, policy({"age": "quasi", "a": "insensitive"})).findings
    assert (alone.severity, alone.about) == ("medium", ("a",))
    assert "400 of 400 records" in alone.text


def test_a_sensitive_number_that_nobody_shares_isolates_and_rounding_repairs_it() -> None:
    roles = {"age": "quasi", "cost": "sensitive"}
    models = [{"k-anonymity": {"k": 2}}, {"distinct-l-diversity": {"l": 2}}]
    rows = people().select(["age", "cost"])
    assert stated(anonymize(rows, policy(roles, privacy=models)).findings) == [("isolating-columns", "high", ("cost",))]
    roles["cost"] = {"role": "sensitive", "technique": {"rounding": {"base": 50}}}
    assert anonymize(rows, policy(roles, privacy=models)).findings == ()


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
            assert "above it" in made.report()
            assert "24.0%" in made.report()


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
    {"population-uniqueness": {"fraction": 0.9, "sample_fraction": 0.5}},
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
    {"population-uniqueness": {"fraction": 0.5, "sample_fraction": 0.1}},
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


@pytest.mark.parametrize("n_rows", [1, 2, 3, 100])
def test_a_draft_never_asks_for_an_empty_promise(n_rows: int) -> None:
    draft = draft_policy(
        pa.table({"age": np.arange(n_rows) % 50 + 20, "sex": ["f", "m"] * (n_rows // 2) + ["f"] * (n_rows % 2)})
    )
    whole = Whole.of([1] * 100)
    assert not any(model.promises_nothing(whole) for model in Policy.load(draft.policy).privacy)


# Truth values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"privacy": [{"k-anonymity": {"k": True}}]}, "privacy[0].k-anonymity.k"),
        ({"max_withheld": False}, "max_withheld"),
        ({"sample": {"share": True}}, "sample.share"),
        ({"method": {"slicing": {"columns": True}}}, "method.slicing.columns"),
        ({"attributes": {"age": {"role": "quasi", "weight": True}}}, "attributes.age.weight"),
        ({"attributes": {"age": {"role": "quasi", "items": {"columns": True}}}}, "attributes.age.items.columns"),
        (
            {
                "attributes": {
                    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 9, "widths": [True]}}}
                }
            },
            "attributes.age.taxonomy.intervals.widths[0]",
        ),
        (
            {"attributes": {"age": {"role": "quasi", "technique": {"noise": {"laplace": {"scale": True}}}}}},
            "attributes.age.technique.noise.laplace.scale",
        ),
    ],
)
def test_truth_values_are_no_numbers_anywhere(change: dict[str, Any], where: str) -> None:
    with pytest.raises(PolicyError) as error:
        Policy.load(policy({"age": "quasi"}) | change)
    assert where in str(error.value)


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


def test_findings_are_printed_last_and_accepted_ones_with_their_reason(files: Path) -> None:
    said = run(files, "anonymize", "@people.csv", "-p", "@policy.yaml", "-o", "@out").stdout
    assert said.splitlines()[-4].startswith("3 open findings, 3 high")
    assert said.splitlines()[-1].startswith("high unprotected-sensitive (income):")
    said = run(files, "anonymize", "@people.csv", "-p", "@accepted.yaml", "-o", "@fine", "--strict").stdout
    assert "No open findings." in said
    assert "high isolating-columns (cost): accepted: nobody knows bills" in said
    page = (files / "fine" / "internal" / "report.html").read_text()
    assert "0 findings open, 0 high; 3 accepted" in page
    assert "nobody knows bills" in page
    assert "nobody knows bills" not in (files / "fine" / "public" / "report.html").read_text()
    assert "3 high findings are open" in (files / "out" / "internal" / "report.html").read_text()


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


def test_attacks_are_about_every_sensitive_column() -> None:
    source = people()
    release = anonymize(source, policy(ROLES, privacy=COVERED))
    found = attack(release, source, attacks=["homogeneity", "membership", "similarity"], targets=100, seed=1)
    assert [(each.attack, each.about) for each in found] == [
        ("homogeneity", "illness"),
        ("homogeneity", "income"),
        ("membership", None),
        ("similarity", None),  # refused for each column for the same reason
    ]
    illness, income = found[:2]
    assert illness.success.success == 0
    assert income.success.success > 90


def test_the_demo_ends_without_high_findings_and_says_what_is_left(tmp_path: Path) -> None:
    result = RUNNER.invoke(app, ["demo", "-o", str(tmp_path / "demo"), "--rows", "3000", "--seed", "1"])
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "With rounding, no high finding is open. For you to decide:" in said
    assert "cost alone would make 2,9" in said
    release = tmp_path / "demo" / "release"
    assert {one.severity for one in read_findings(release)} == {"medium"}
    as_it_is = yaml.safe_load((tmp_path / "demo" / "policy.yaml").read_text())
    del as_it_is["attributes"]["cost"]["technique"]
    found = anonymize(tmp_path / "demo" / "stays.csv", as_it_is).findings
    assert stated(found) == [("isolating-columns", "high", ("cost",))]


# Wherever rows are made -----------------------------------------------------------------------------


def test_larger_than_memory_gives_the_same_list() -> None:
    rows, asked = people(3000, 5), policy(ROLES, privacy=COVERED)
    rows = rows.set_column(0, "age", pa.array(np.random.default_rng(2).integers(0, 5000, 3000)))
    small = Budget(limit=1 << 30, cells=700, sample=500, region_rows=350, heap_rows=256, threads=1)
    begun = Run.start(rows, asked, Options(seed=1, budget=small), Silent())
    release = begun.finish(rows)
    assert release.evidence["search"]["regions"] > 1
    assert stated(release.findings) == stated(anonymize(rows, asked, seed=1).findings)
    assert release.findings[0] == anonymize(rows, asked, seed=1).findings[0]  # what no plan changes, to the last figure


def test_many_findings_of_one_kind_are_shown_as_one(capsys) -> None:
    def found(column: str) -> Finding:
        return Finding("one-value-classes", "high", (column,), f"All records have one {column}.", "Use a model.")

    show_findings([found(f"drug {number}") for number in range(5)])
    said = " ".join(capsys.readouterr().out.split())
    assert "5 open findings, 5 high" in said
    assert said.count("Use a model.") == 1
    assert "The same applies to 4 more (figures in --json): drug 1; drug 2; drug 3; drug 4." in said
    show_findings([found("drug 1"), found("drug 2")])
    assert capsys.readouterr().out.count("Use a model.") == 2


def test_a_weight_that_is_not_published_is_not_taken_for_a_name_of_people() -> None:
    table = people().append_column("weight", pa.array(np.arange(400) % 200 + 0.5))
    roles = {
        "age": "quasi",
        "illness": "insensitive",
        "income": "insensitive",
        "cost": "identifier",
        "ward": "insensitive",
    }
    for role, found in (("weight", []), ("identifier", [("weight",)])):
        findings = anonymize(table, policy({**roles, "weight": role})).findings
        assert [one.about for one in findings if one.id == "repeated-people"] == found
