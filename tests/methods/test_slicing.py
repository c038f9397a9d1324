"""What slicing refuses, what it says, and what its parameters do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.core.errors import PolicyError, UnreachableError
from shoal.verify.verifier import verify_table


def people(n: int = 400, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 70, n)
    return pa.table(
        {
            "age": age,
            "sex": np.where(rng.random(n) < 0.5, "f", "m"),
            "town": rng.choice(["Ulm", "Bonn", "Celle", "Trier"], n),
            "job": rng.choice(["clerk", "cook", "smith", "nurse", "baker", "guard"], n),
            "income": age * 100 + rng.integers(0, 3000, n),
            "note": [f"n{i}" for i in range(n)],
        }
    )


ROLES: dict[str, dict[str, Any]] = {
    "age": {"role": "quasi"},
    "sex": {"role": "quasi"},
    "town": {"role": "quasi"},
    "job": {"role": "sensitive"},
    "income": {"role": "insensitive"},
    "note": {"role": "identifier"},
}


def sliced(
    method: dict[str, Any] | None = None, privacy: Any = None, data: pa.Table | None = None, **policy: Any
) -> shoal.Release:
    wanted = [{"simple-l-diversity": {"l": 2}}] if privacy is None else privacy
    document = {"attributes": ROLES, "privacy": wanted, "method": {"slicing": method or {}}, **policy}
    return shoal.anonymize(people() if data is None else data, document)


def with_a_blocking_record() -> pa.Table:
    """Each person has another age; only the first one has sex x, so that the job is known with it.

    Four people of sex y have four jobs: those with whom the first one can be withheld.
    """
    data = people().set_column(0, "age", pa.array([900, *range(1, 400)]))
    jobs = [data["job"][0].as_py(), "clerk", "cook", "smith", "nurse", *data["job"].to_pylist()[5:]]
    data = data.set_column(3, "job", pa.array(jobs))
    return data.set_column(1, "sex", pa.array(["x", *"yyyy", *data["sex"].to_pylist()[5:]]))


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ({"parts": [["age", "sex"], ["town"]]}, "job in no part"),
        ({"parts": [["age", "sex", "town", "job"]]}, "one part hides nothing"),
        ({"parts": [["age", "sex"], ["sex", "town", "job"]]}, "sex in several parts; set overlapping: true"),
        ({"parts": [["age", "sx"], ["town", "job"]]}, "did you mean 'sex'"),
        ({"parts": [["age", "note"], ["sex", "town", "job"]]}, "'note' is not a published attribute"),
        ({"parts": [["age", "age"], ["sex", "town", "job"]]}, "same attribute twice"),
        ({"parts": [["age", "sex", "town", "job"], []]}, "has no attributes"),
        ({"parts": [["age"], ["sex", "town", "job"]], "alpha": 2}, "columns and alpha have no effect on parts by hand"),
        ({"overlapping": True}, "must be given by hand"),
        ({"parts": [["age", "income"], ["sex", "town", "job", "income"]], "overlapping": True}, "is insensitive"),
        ({"parts": [["age", "sex"], ["sex", "town"], ["town", "age", "job"]], "overlapping": True}, "in a circle"),
        ({"columns": 9}, "at most 4 columns"),
        ({"columns": 1}, "at least 2"),
        ({"columns": 0}, "columns is 0"),
        ({"columns": "each", "alpha": 2}, "alpha has no effect if every attribute is a part"),
        ({"grouping": "gathered"}, "'mondrian' or 'random'"),
        *(({name: 3}, f"unknown key '{name}'") for name in ("cuts", "cut_by", "intervals", "correlation")),
        ({"parts": [["age", "sex", "town", "job"], ["income"]]}, "all quasi and sensitive attributes"),
        ({"alpha": 4}, "leaves 0 of 4 attributes"),
    ],
    ids=str,
)
def test_parts_that_make_no_sense_are_refused(method: dict[str, Any], words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        sliced(method)


@pytest.mark.parametrize("model", ["alpha-k-anonymity", "beta-likeness", "delta-disclosure"])
def test_models_that_say_nothing_of_beliefs_are_refused(model: str) -> None:
    parameters = {"alpha-k-anonymity": {"alpha": 0.5, "k": 3}, "beta-likeness": {"beta": 1}}
    with pytest.raises(UnreachableError, match=f"{model} says nothing about a sliced table"):
        sliced(privacy=[{model: parameters.get(model, {"delta": 2})}])


@pytest.mark.parametrize("method", ["slicing", "anatomy"])
def test_k_anonymity_is_refused_with_what_is_meant(method: str) -> None:
    policy = {"attributes": ROLES, "privacy": [{"k-anonymity": {"k": 5}}], "method": method}
    with pytest.raises(UnreachableError, match="column-frequency"):
        shoal.anonymize(people(), policy)


@pytest.mark.parametrize("method", ["mondrian", "sweep", "incognito", "hilbert", "microaggregation", "plain"])
def test_column_frequency_is_refused_where_there_are_no_parts(method: str) -> None:
    policy = {"attributes": ROLES, "privacy": [{"column-frequency": {"k": 2}}], "method": method}
    with pytest.raises(UnreachableError, match="not about classes; ask for k-anonymity"):
        shoal.anonymize(people(), policy)


def test_classes_cannot_promise_column_frequency() -> None:
    policy = {"attributes": ROLES, "privacy": [{"k-anonymity": {"k": 2}}], "method": "mondrian"}
    release = shoal.anonymize(people(), policy)
    promised = {**release.guarantees[0], "model": "column-frequency"}
    found = verify_table(release.data, {**release.manifest, "guarantees": [promised]})
    assert found.verdict == "failed"
    assert "only a sliced release" in " ".join(found.failures)


def test_no_bucket_links_the_parts_of_its_records() -> None:
    release = sliced({"parts": [["age", "town"], ["sex", "job"]]}, [{"column-frequency": {"k": 3}}])
    values: dict[int, tuple[set[Any], set[Any]]] = {}
    for row in release.data.to_pylist():
        one, other = values.setdefault(row["bucket"], (set(), set()))
        one.add((row["age"], row["town"]))
        other.add(row["sex"])
    assert len(values) > 5
    assert not [bucket for bucket, (one, other) in values.items() if (len(one) == 1) != (len(other) == 1)]


def test_a_blocking_group_of_many_records_is_named_with_what_is_reachable() -> None:
    data = people(2000)
    job = np.where((np.array(data["sex"]) == "f") & (np.arange(2000) % 2 == 0), "nurse", np.array(data["job"]))
    data = data.set_column(3, "job", pa.array(job))
    with pytest.raises(UnreachableError) as refusal:
        sliced({"parts": [["age", "town"], ["sex", "job"]]}, [{"simple-l-diversity": {"l": 3}}], data)
    text = str(refusal.value)
    women = int((np.array(data["sex"]) == "f").sum())
    assert f"the {women:,} records with sex = f can reach only 1." in text
    assert "The largest l of one bucket is simple 1." in text
    assert "entropy " in text
    assert "distinct 6" in text


def test_blocking_groups_are_withheld_if_the_policy_allows() -> None:
    data = people(300).set_column(2, "town", pa.array(["Ulm"] * 298 + ["Trier", "Bonn"]))
    release = sliced({"parts": [["age", "sex"], ["town", "job"]]}, data=data, max_withheld=0.01)
    assert release.manifest["withheld"] == 2
    assert set(release.data["town"].to_pylist()) == {"Ulm"}


def with_telling_towns() -> pa.Table:
    data = people(400)
    towns = {"clerk": "Ulm", "cook": "Bonn", "smith": "Celle"}
    return data.set_column(2, "town", pa.array([towns.get(job, "Trier") for job in data["job"].to_pylist()]))


def test_the_default_never_puts_all_quasi_attributes_into_one_part() -> None:
    release = sliced(data=with_telling_towns())
    assert sum(bool({"age", "sex", "town"} & set(part)) for part in release.manifest["parts"]) > 1
    tried = release.evidence["search"]["tried"]
    assert release.evidence["search"]["parts"] == max(tried, key=lambda way: way["marginals"])["parts"]
    assert tried[0]["parts"][-1] == ["job"]


def test_without_a_sensitive_attribute_not_even_membership_is_promised() -> None:
    roles = {name: {"role": "quasi"} for name in ("age", "sex", "town", "job")}
    policy = {
        "attributes": roles | {name: ROLES[name] for name in ("income", "note")},
        "privacy": [{"column-frequency": {"k": 5}}],
        "method": {"slicing": {"columns": 3}},
    }
    release = shoal.anonymize(people(), policy)
    assert release.guarantees[0]["achieved"] >= 5
    assert any("does not hide who is in the table" in warning for warning in release.evidence["warnings"])


@pytest.mark.parametrize("grouping", ["mondrian", "random"])
def test_withheld_records_are_in_no_region(grouping: str) -> None:
    method = {"parts": [["age"], ["town"], ["sex", "job"]], "grouping": grouping}
    privacy = [{"simple-l-diversity": {"l": 2}}, {"column-frequency": {"k": 6}}]
    first, company = with_a_blocking_record().slice(0, 1), with_a_blocking_record().slice(1, 4)
    data = pa.concat_tables([first] * 6 + [company] * 6 + [people().slice(1)])
    release = sliced(method, privacy, data, max_withheld=0.1)
    assert release.manifest["withheld"] == 30
    assert not {"x", "y"} & set(release.data["sex"].to_pylist())
    assert all("900" not in label for label in release.manifest["attributes"]["age"]["labels"])


def test_columns_are_generalized_to_the_frequency_asked_for() -> None:
    release = sliced({"alpha": 1}, [{"simple-l-diversity": {"l": 2}}, {"column-frequency": {"k": 12}}])
    rows = release.data.select(["age", "sex", "town"]).to_pylist()
    counts = {tuple(row.values()): 0 for row in rows}
    for row in rows:
        counts[tuple(row.values())] += 1
    assert min(counts.values()) >= 12
    assert "labels" in release.manifest["attributes"]["age"]


def test_sharing_the_sensitive_attribute_is_checked_by_joining() -> None:
    method = {"parts": [["sex", "job"], ["age", "town", "job"]], "overlapping": True}
    with pytest.raises(UnreachableError, match="an adversary who joins the overlapping parts"):
        sliced(method)
    data = people(3000)
    coarse = data.set_column(0, "age", pa.array(np.array(data["age"]) // 30 * 30))
    release = sliced(method, [{"simple-l-diversity": {"l": 2}}], coarse)
    assert release.data.column_names == ["bucket", "sex", "job", "age", "town", "job (2)", "income"] or (
        release.data.column_names == ["bucket", "sex", "job", "income", "age", "town", "job (2)"]
    )
    gained = release.evidence["search"]["overlapping"]
    assert gained["pairs_gained"]
    assert gained["phi2_within_parts"] > gained["phi2_without_overlap"]


def test_several_sensitive_attributes_are_protected_each() -> None:
    data = people(600).append_column(
        "illness", pa.array(np.random.default_rng(3).choice(["flu", "gout", "mumps"], 600))
    )
    roles = ROLES | {"illness": {"role": "sensitive"}}
    for parts in ([["age", "sex"], ["town", "job", "illness"]], [["age", "job"], ["sex", "town", "illness"]]):
        release = shoal.anonymize(
            data,
            {
                "attributes": roles,
                "privacy": [{"simple-l-diversity": {"l": 1.4}}],
                "method": {"slicing": {"parts": parts}},
                "max_withheld": 0.3,
            },
        )
        assert release.verification.verified
    joint = [{"distinct-l-diversity": {"l": 2, "attribute": ["job", "illness"]}}]
    with pytest.raises(PolicyError, match="must be in one part"):
        shoal.anonymize(
            data,
            {
                "attributes": roles,
                "privacy": joint,
                "method": {"slicing": {"parts": [["age", "job"], ["sex", "town", "illness"]]}},
            },
        )


def test_values_that_share_a_leaf_are_told_apart() -> None:
    """Decimal numbers need declared intervals, whose leaves hold many values; what is published are the values."""
    data = people(500)
    finest = {"role": "quasi", "taxonomy": {"intervals": {"min": 0.0, "max": 100.0, "widths": [10.0, 50.0]}}}
    rough = data.set_column(0, "age", pa.array(np.array(data["age"]) + 0.5))
    document = {"attributes": ROLES | {"age": finest}, "privacy": [{"simple-l-diversity": {"l": 2}}]}
    for method in (
        {"slicing": {"alpha": 1}},
        {"slicing": {"parts": [["sex"], ["age", "town"], ["job"]]}},
        {"anatomy": {}},
    ):
        release = shoal.anonymize(rough, {**document, "method": method})
        assert sorted(release.data["age"].to_pylist()) == sorted(rough["age"].to_pylist())


def test_buckets_that_link_their_parts_are_a_finding() -> None:
    """Random buckets of two records link their parts if the two differ in one part only."""
    parts = {"parts": [["age", "town"], ["sex", "job"]]}
    random = {"grouping": "random", "bucket_size": 2}
    cut, drawn = (
        {one["id"]: one for one in sliced(parts | how, [{"column-frequency": {"k": 2}}]).evidence["findings"]}
        for how in ({}, random)
    )
    assert "constant-parts" not in cut
    assert drawn["constant-parts"]["severity"] == "high"
    assert " of 400 records" in drawn["constant-parts"]["text"]
    assert drawn["constant-parts"]["fix"] == "Use a larger bucket_size or other parts."
