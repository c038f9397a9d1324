"""People counted instead of records: what is refused, what the verifier needs, and one record of each person."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from shoal import anonymize
from shoal.attacks.running import attack
from shoal.audit.audit import audit
from shoal.core.errors import InputError, PolicyError, UnreachableError
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
        ({"privacy": [{"t-closeness": {"t": 0.9}}]}, "distributions in which everyone has one value"),
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
