"""People counted instead of records: what is refused, what the verifier needs, and one record of each person."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal import anonymize
from shoal.attacks.running import attack
from shoal.audit.audit import audit
from shoal.core.errors import InputError, PolicyError, UnreachableError
from shoal.policy.policy import Policy
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify

STAYS = pa.table(
    {
        "patient": [f"p{i % 12}" for i in range(48)],
        "home": [f"h{i % 6}" for i in range(48)],
        "age": [30 + 10 * (i % 2) for i in range(48)],
        "illness": [("flu", "gout", "pox")[i // 5 % 3] for i in range(48)],
    }
)
ROLES = {"patient": "identifier", "home": "identifier", "age": "quasi", "illness": "sensitive"}


def policy(**more: object) -> dict:
    return {
        "attributes": {name: {"role": role} for name, role in ROLES.items()},
        "privacy": [{"k-anonymity": {"k": 6}}],
        "method": "plain",
        "unit": "patient",
    } | more


def test_a_guarantee_says_whom_it_counts():
    release = anonymize(STAYS, policy(household="home", privacy=[{"k-anonymity": {"k": 3}}]))
    promised = [(one["counts"], one["achieved"]) for one in release.manifest["guarantees"]]
    assert promised == [("unit", 6.0), ("household", 3.0)]
    assert release.manifest["people"] == {"unit": "patient", "household": "home"}
    assert all(one.ok for one in release.verification.guarantees)
    with pytest.raises(UnreachableError):  # 24 records, 6 people, 3 households of a class
        anonymize(STAYS, policy(household="home"))


@pytest.mark.parametrize("method", ["sweep", "hilbert", "anatomy", "slicing", "microaggregation"])
def test_methods_that_add_up_records_refuse(method):
    with pytest.raises(PolicyError, match=f"unit: method {method} adds up records"):
        anonymize(STAYS, policy(method=method))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"sample": {"share": 0.5}}, "not a share of the people"),
        ({"privacy": [{"k-map": {"k": 2, "population": "everybody.csv"}}]}, "k-map compares with a table of records"),
        ({"privacy": [{"t-closeness": {"t": 0.9}}]}, "distributions in which everybody has one value"),
    ],
)
def test_what_cannot_be_said_of_people_is_refused(more, reason):
    with pytest.raises(PolicyError, match=reason):
        anonymize(STAYS, policy(**more))


@pytest.mark.parametrize(
    ("column", "technique", "reason"),
    [("patient", {"token": {}}, "a token of 'patient'"), ("illness", {"permutation": {}}, "permutation of 'illness'")],
)
def test_techniques_that_show_or_hide_whose_a_record_is_are_refused(column, technique, reason):
    document = policy()
    document["attributes"][column] |= {"technique": technique}
    with pytest.raises(PolicyError, match=reason):
        anonymize(STAYS, document)


def test_t_closeness_counts_people_who_have_one_value_each():
    illness = pa.array([("flu", "gout", "pox")[i % 12 % 3] for i in range(48)])
    table = STAYS.set_column(3, "illness", illness)
    release = anonymize(table, policy(privacy=[{"t-closeness": {"t": 0.5}}]))
    assert [one.ok for one in release.verification.guarantees] == [True]


@pytest.mark.parametrize("more", [{}, {"sample": {"one_per": "unit"}}])
def test_records_that_name_nobody_are_refused(more):
    table = STAYS.set_column(0, "patient", pa.array([None, *STAYS["patient"].to_pylist()[1:]]))
    with pytest.raises(InputError, match=r"'patient'.* has no value in 1 record"):
        anonymize(table, policy(**more))


def test_one_record_of_each_person_serves_every_method(tmp_path):
    drawn = Counter()
    for seed in range(12):
        release = anonymize(STAYS, policy(method="hilbert", sample={"one_per": "unit"}), seed=seed)
        assert release.data.num_rows == 12
        assert release.manifest["sample"] == {"one_per": "unit"}
        assert "counts" not in release.manifest["guarantees"][0]  # a record is a person
        drawn.update(release.data["illness"].to_pylist())
    assert len(drawn) == 3  # which of a person's records is left to chance
    asked = policy(method="anatomy", sample={"one_per": "unit"}, privacy=[{"simple-l-diversity": {"l": 2}}])
    sliced = anonymize(STAYS, asked, seed=1)  # by chance one illness may have more than half of the twelve
    assert sliced.data.num_rows == 12
    averaged = anonymize(STAYS, policy(method="microaggregation", sample={"one_per": "unit"}))
    assert averaged.verification.verified
    anonymize(STAYS, policy(method="sweep", sample={"one_per": "unit"}), out=tmp_path / "out")
    assert verify(tmp_path / "out", source=open_source(STAYS, SourceOptions())).verified
    others = STAYS.set_column(0, "patient", pa.array([f"p{i % 13}" for i in range(48)]))
    found = verify(tmp_path / "out", source=open_source(others, SourceOptions()))
    assert [check.name for check in found.checks if not check.ok] == ["sample"]


def test_a_sample_names_somebody_that_the_policy_names():
    with pytest.raises(PolicyError, match="does not say which column is the household"):
        Policy.load(policy(sample={"one_per": "household"}))
    with pytest.raises(PolicyError, match="either share or one_per"):
        Policy.load(policy(sample={}))


def test_repeated_identifiers_are_a_finding_unless_people_are_counted():
    table = STAYS.append_column("hospital", pa.array(["north"] * 47 + ["south"]))
    table = pa.concat_tables([table] * 3).append_column("stay", pa.array(range(144)))
    document = policy(privacy=[{"k-anonymity": {"k": 2}}])
    document["attributes"] |= {"hospital": {"role": "identifier"}, "stay": {"role": "identifier"}}

    def found(document: dict) -> dict:
        findings = anonymize(table, document).findings
        return {one.about[0]: (one.severity, one.text) for one in findings if one.id == "repeated-people"}

    assert found(document) == {}
    by_records = found({key: value for key, value in document.items() if key != "unit"})
    assert {name: severity for name, (severity, _) in by_records.items()} == {
        "patient": "high",
        "home": "high",
        "hospital": "info",  # 72 records of each
    }
    assert "has 12 different values in 144 records" in by_records["patient"][1]
    by_audit = audit(table, {key: value for key, value in document.items() if key != "unit"}).findings
    assert {one.about[0] for one in by_audit if one.id == "repeated-people"} == set(by_records)


def test_figures_and_words_are_about_people(tmp_path):
    release = anonymize(STAYS, policy(max_withheld=0.5), out=tmp_path / "out")
    before, after = release.evidence["risk_before"], release.evidence["risk_after"]
    assert before["counts"] == after["counts"] == "unit"
    assert (before["records"], before["smallest_class"], before["unique_records"]) == (12, 6, 0)
    assert after["prosecutor_highest"] == 1 / 6
    assert "counting people (by unit)" in (tmp_path / "out" / "public" / "README.md").read_text()
    report = (tmp_path / "out" / "internal" / "report.html").read_text()
    assert "k-anonymity (people, by unit)" in report
    assert "People unique by their quasi-identifiers: 0 before, 0 after" in report
    lone = STAYS.set_column(0, "patient", pa.array(["p1"] * 24 + [f"q{i}" for i in range(24)]))
    ages = pa.array([90] * 20 + [91] * 4 + [30] * 24)
    release = anonymize(lone.set_column(2, "age", ages), policy(method="incognito"))
    assert release.evidence["risk_before"]["unique_records"] == 1  # in two classes, and the same person


def test_attacks_take_every_person_once_and_isolate_people():
    many = pa.concat_tables([STAYS] * 2)
    many = many.set_column(0, "patient", pa.array([f"p{i // 4}" for i in range(96)]))
    many = many.set_column(2, "age", pa.array([30 + i // 4 for i in range(96)]))  # of each age one person, four times
    release = anonymize(many, policy(privacy=[]) | {"unit": None})
    counted = replace(release, manifest=release.manifest | {"people": {"unit": "patient"}})
    (by_records,) = attack(release, many, attacks=["singling-out"], seed=1)
    (by_people,) = attack(counted, many, attacks=["singling-out"], seed=1)
    assert by_records.success.success == 0
    assert by_people.success.success > 0
    (linked,) = attack(counted, many, attacks=["homogeneity"], seed=1)
    assert linked.success.trials == 24


class TestVerifier:
    @pytest.fixture
    def folder(self, tmp_path):
        anonymize(STAYS, policy(method="mondrian"), out=tmp_path / "out")
        return tmp_path / "out"

    def verified(self, folder, *, source: pa.Table | None = STAYS):
        return verify(folder, source=None if source is None else open_source(source, SourceOptions()))

    def test_an_honest_release_is_verified_with_its_source(self, folder):
        assert self.verified(folder).verified

    def test_without_the_source_only_records_are_checked(self, folder):
        found = self.verified(folder, source=None)
        assert [(one.ok, one.partly, one.achieved) for one in found.guarantees] == [(True, True, None)]
        assert "the data holder vouches for people" in found.unshown[0]

    def test_without_the_witness_people_are_not_checked(self, folder):
        (folder / "internal" / "witness.parquet").unlink()
        found = self.verified(folder)
        assert found.verdict == "incomplete"
        assert "not checked" in found.guarantees[0].detail

    def test_records_of_other_people_break_the_promise(self, folder):
        fewer = STAYS.set_column(0, "patient", pa.array([f"p{i % 10}" for i in range(48)]))
        found = self.verified(folder, source=fewer)
        assert [(one.ok, one.achieved) for one in found.guarantees] == [(False, 5.0)]

    @pytest.mark.parametrize("spoil", ["swap", "other class", "withhold", "shorter", "negative"])
    def test_a_witness_that_does_not_fit_is_rejected(self, folder, spoil):
        path = folder / "internal" / "witness.parquet"
        place = np.asarray(pq.read_table(path).column("class")).copy()
        if spoil == "swap":
            place[[0, 1]] = place[[1, 0]]  # of different ages
        elif spoil == "shorter":
            place = place[:-1]
        else:
            place[3] = {"other class": place.max() + 99, "withhold": 0, "negative": -1}[spoil]
        pq.write_table(pa.table({"class": place}), path)
        found = self.verified(folder)
        assert found.verdict == "failed"
        failed = {check.name for check in found.checks if not check.ok}
        assert failed == ({"truth"} if spoil in ("swap", "withhold") else {"witness", "truth"})
        assert "not checked" in found.guarantees[0].detail

    def test_values_as_they_are_have_no_classes_to_be_swapped(self, tmp_path):
        anonymize(STAYS, policy(), out=tmp_path / "out")
        assert set(pq.read_table(tmp_path / "out" / "internal" / "witness.parquet")["class"].to_pylist()) == {1}
        assert self.verified(tmp_path / "out").verified

    def test_a_manifest_cannot_count_whom_it_does_not_name(self, folder):
        path = folder / "public" / "manifest.json"
        manifest = json.loads(path.read_text())
        manifest["guarantees"][0]["counts"] = "household"
        path.write_text(json.dumps(manifest))
        assert "does not name the column" in self.verified(folder).failures[0]
