"""Sliced releases in memory: the paper's example, what manifests may say, what is said without a source."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.sources.opening import open_source
from shoal.verify.beliefs import Adversary
from shoal.verify.classes import put_labels
from shoal.verify.counting import ReleaseTables
from shoal.verify.engine import Engine
from shoal.verify.manifest import Manifest, read_manifest
from shoal.verify.result import Verification
from shoal.verify.rows import Release
from shoal.verify.slices import FormError, Slices, join_tree
from shoal.verify.verifier import verify_table

# Li, Li, Zhang and Molloy, Table 1(a) and 1(f).
PATIENTS = pa.table(
    {
        "age": [22, 22, 33, 52, 54, 60, 60, 64],
        "sex": ["M", "F", "F", "F", "M", "M", "M", "F"],
        "zip": ["47906", "47906", "47905", "47905", "47302", "47302", "47304", "47304"],
        "disease": ["dyspepsia", "flu", "flu", "bronchitis", "flu", "dyspepsia", "dyspepsia", "gastritis"],
    }
)
TABLE_1F = pa.table(
    {
        "bucket": [1, 1, 1, 1, 2, 2, 2, 2],
        "age": [22, 22, 33, 52, 54, 60, 60, 64],
        "sex": ["M", "F", "F", "F", "M", "M", "M", "F"],
        "zip": ["47905", "47906", "47905", "47906", "47304", "47302", "47302", "47304"],
        "disease": ["flu", "dyspepsia", "bronchitis", "flu", "gastritis", "flu", "dyspepsia", "dyspepsia"],
    }
)
BUCKETS = np.array([1, 1, 1, 1, 2, 2, 2, 2])
PARTS = [["age", "sex"], ["zip", "disease"]]
ROLES = {"age": "quasi", "sex": "quasi", "zip": "quasi", "disease": "sensitive"}


def manifest(*promises: Any, parts: Any = PARTS, **more: Any) -> dict[str, Any]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        "format": 1,
        "shoal_version": "0",
        "method": "slicing",
        "form": "slices",
        "method_parameters": {},
        "guarantees": [{"model": m, "parameters": p, "achieved": a} for m, p, a in promises or [SIMPLE]],
        "parts": parts,
        "buckets": 2,
        "rows": 8,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": {name: {"role": ROLES[name], "kind": "category"} for name in names},
        **more,
    }


OTHER = {"role": "insensitive", "kind": "number"}
SIMPLE = ("simple-l-diversity", {"l": 2}, 2.0)


def failed(verification: Verification) -> set[str]:
    names = {check.name for check in verification.checks if not check.ok}
    return names | {promise.model for promise in verification.guarantees if not promise.ok}


def detail(verification: Verification, name: str) -> str:
    return next(check.detail for check in verification.checks if check.name == name)


@pytest.mark.parametrize("witness", [BUCKETS, None])
def test_table_1f_is_2_diverse(witness):
    verification = verify_table(TABLE_1F, manifest(), source=open_source(PATIENTS), witness=witness)
    assert verification.verdict == ("incomplete" if witness is None else "verified")
    assert verification.guarantees[0].achieved == 2.0
    tuples = (
        "8 different tuples of the source" if witness is not None else "14 different tuples that the buckets could form"
    )
    assert verification.guarantees[0].detail == f"all {tuples} satisfy it"


@pytest.mark.parametrize(("values", "holds"), [("aaaabcde", True), ("aaaabbcd", False)])
def test_entropies_next_to_their_limit_are_settled_exactly(values, holds):
    table = pa.table({"bucket": [1] * 8, "age": range(8), "zip": ["1"] * 8, "disease": list(values)})
    promise = ("entropy-l-diversity", {"l": 4}, 4.0 if holds else 3.363585661014858)
    stated = manifest(promise, parts=[["age"], ["zip", "disease"]], buckets=1)
    verification = verify_table(table, stated)
    assert failed(verification) == (set() if holds else {"entropy-l-diversity"})
    assert verification.guarantees[0].achieved == pytest.approx(4.0 if holds else 3.363585661014858)


def open_adversary(table: pa.Table, read: Manifest, engine: Engine) -> Adversary:
    release = Release.of_table(engine, read, table)
    put_labels(release)
    return Adversary(Slices(release, ReleaseTables(read), None))


def test_the_beliefs_about_the_first_patient():
    """f1 = 1/4 and f2 = 2/4 are given by the counts, p(t1, B1) is 1, and D is half dyspepsia, half flu."""
    with Engine() as engine:
        adversary = open_adversary(TABLE_1F, read_manifest(manifest(), with_file=False), engine)
        assert adversary.ask_formable()
        own = "(SELECT q0 FROM slices WHERE row = 1), (SELECT q1 FROM slices WHERE row = 2)"  # 22, M and 47906
        engine.run(f"DELETE FROM asked WHERE (v0, v1) <> ({own})")
        table, (group_of, *_) = adversary.count_groups(("disease",))
        for _ in adversary.match(1):
            ((share, group),) = engine.fetch(f"SELECT exp(total), {group_of} FROM matches")
        assert share == pytest.approx(1 / 4 * 2 / 4)
        found = engine.fetch(f"SELECT value, c / n FROM {table} WHERE class = {group}")
        assert sorted(found) == [("dyspepsia", 0.5), ("flu", 0.5)]


def test_mixtures_need_a_margin_but_groups_do_not():
    """One part is in both buckets: flu has 3/4 in one, 1/4 in the other, and half of the mixture: too close to call."""
    table = pa.table({"bucket": [1] * 4 + [2] * 4, "sex": ["F"] * 8, "disease": list("fffg") + list("fggg")})
    source = pa.table({"sex": ["F"] * 8, "disease": list("fffgfggg")})
    parts = [["sex"], ["disease"]]
    for l, accepted in ((2, False), (1.99, True)):
        claim = ("simple-l-diversity", {"l": l}, 2.0)
        verification = verify_table(table, manifest(claim, parts=parts), source=open_source(source), witness=BUCKETS)
        assert verification.verified is accepted
        assert verification.guarantees[0].achieved == pytest.approx(2.0)
    even = table.set_column(2, "disease", pa.array(list("ffgg") * 2))
    source = source.set_column(1, "disease", pa.array(list("ffgg") * 2))
    assert verify_table(even, manifest(parts=parts), source=open_source(source), witness=BUCKETS).verified


# Without a source --------------------------------------------------------------------------------------------


def test_all_groups_hold_whoever_is_in_the_table():
    verification = verify_table(TABLE_1F, manifest())
    assert verification.verified
    assert verification.guarantees[0].detail == "all 14 different tuples that the buckets could form satisfy it"


def test_formable_tuples_that_fail_are_counted():
    """In bucket 1 the zip code x tells the disease, but only one of its 2 x 2 tuples is known to be there."""
    table = pa.table({"bucket": [1, 1], "age": [1, 2], "sex": ["M", "F"], "zip": ["x", "y"], "disease": ["f", "g"]})
    verification = verify_table(table, manifest(buckets=1, rows=2))
    stated = verification.guarantees[0].detail
    assert stated.startswith("4 of 4 different tuples that the buckets could form fail it")
    assert "source" in stated
    assert verification.guarantees[0].achieved == 1.0


def test_a_claim_that_only_the_source_can_tell():
    """Age 1 with zip x would match bucket 1 alone; the people of the source match mixtures."""
    table = pa.table(
        {
            "bucket": [1, 1, 1, 2, 2, 2],
            "age": [1, 1, 2, 1, 2, 2],
            "sex": ["M"] * 6,
            "zip": ["x", "x", "x", "x", "x", "x"],
            "disease": ["f", "f", "g", "f", "g", "h"],
        }
    )
    source, witness = open_source(table.drop_columns(["bucket"])), np.repeat([1, 2], 3)
    stated = manifest(("simple-l-diversity", {"l": 1.4}, 1.7), rows=6)
    achieved = verify_table(table, stated, source=source, witness=witness).guarantees[0].achieved
    assert achieved is not None
    stated = manifest(("simple-l-diversity", {"l": 1.4}, achieved), rows=6)
    assert verify_table(table, stated, source=source, witness=witness).verified
    assert verify_table(table, stated, source=source).verdict == "incomplete"
    assert verify_table(table, stated).verified
    better = manifest(("simple-l-diversity", {"l": 1.4}, achieved + 0.1), rows=6)
    alone = verify_table(table, better)
    assert alone.verified
    assert "only the source shows" in alone.guarantees[0].detail
    assert verify_table(table, better, source=source, witness=witness).verdict == "failed"
    worse = manifest(("simple-l-diversity", {"l": 1.4}, achieved - 0.1), rows=6)
    assert failed(verify_table(table, worse)) == {"simple-l-diversity"}


@pytest.mark.parametrize(("l", "accepted"), [(2, True), (3, False)])
def test_too_many_tuples_to_be_formed(monkeypatch, l, accepted):
    monkeypatch.setattr(import_module("shoal.verify.beliefs"), "MOST_FORMABLE", 3)
    verification = verify_table(TABLE_1F, manifest(("simple-l-diversity", {"l": l}, 2.0)))
    assert verification.verified is accepted
    if not accepted:
        assert "too many" in verification.guarantees[0].detail


def test_formable_tuples_agree_where_parts_overlap():
    parts = [["age", "sex"], ["sex", "zip", "disease"]]
    rows = TABLE_1F.append_column("sex (2)", pa.array(list("MFFFMFMM")))
    table = rows.select(["bucket", "age", "sex", "sex (2)", "zip", "disease"])
    read = read_manifest(manifest(parts=parts, method_parameters={"overlapping": True}), with_file=False)
    # bucket 1: (22, M) with 1 zip; (22, F), (33, F), (52, F) with 2; bucket 2: (54, M), (60, M) with 2, (64, F) with 1
    with Engine() as engine:
        assert open_adversary(table, read, engine).ask_formable()
        assert engine.value("SELECT count(*) FROM asked") == 1 * 1 + 3 * 2 + 2 * 2 + 1


# Manifests ---------------------------------------------------------------------------------------------------


def spoiled(change: Any) -> dict[str, Any]:
    stated = copy.deepcopy(manifest())
    change(stated)
    return stated


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m.pop("buckets"), "how many buckets"),
        (lambda m: m.update(buckets=-1), "buckets should be greater than or equal to 0"),
        (lambda m: m.update(levels={}), "levels"),
        (lambda m: m["parts"].append([]), "empty"),
        (lambda m: m["parts"][0].append("age"), "twice"),
        (lambda m: m["parts"][1].append("age"), "overlap"),
        (lambda m: m["parts"].append(["income"]), "same columns"),
        (lambda m: m["parts"][0].remove("sex"), "same columns"),
        (lambda m: m["attributes"]["age"].update(labels={"*": {"any": True}}), "labels and others without"),
        (lambda m: m["attributes"]["disease"].update(labels={"*": {"values": ["flu"]}}), "labels in a sliced release"),
        (lambda m: (m["attributes"].update(bucket=OTHER), m["parts"][0].append("bucket")), "same name"),
        (lambda m: m.update(parts=[["age", "sex", "zip", "disease"]]), "one part"),
        (lambda m: m.update(buckets=10**30), "buckets should be less than"),
        (lambda m: m["guarantees"][0].update(achieved=10**400), "achieved should be a valid number"),
        (lambda m: m["guarantees"][0].update(achieved=float("nan")), "achieved is not a number"),
        (lambda m: m.update(utility={"um": 0.5}), "has 1 unexpected key"),
        (lambda m: (m["attributes"].update(cost=OTHER), [p.append("cost") for p in m["parts"]],
                    m.update(method_parameters={"overlapping": True})), "which is insensitive"),
        (lambda m: (m["attributes"].update(job={"role": "sensitive", "kind": "category"}),
                    [p.append("job") for p in m["parts"]],
                    m.update(method_parameters={"overlapping": True})), "not the only sensitive"),
    ],
)  # fmt: skip
def test_manifests_that_make_no_sense(change, why):
    verification = verify_table(TABLE_1F, spoiled(change))
    assert failed(verification) == {"manifest"}
    assert why in detail(verification, "manifest")


def test_a_parameter_that_no_number_can_hold():
    verification = verify_table(TABLE_1F, manifest(("simple-l-diversity", {"l": 10**400}, 2.0)))
    assert verification.guarantees[0].detail == "cannot check: parameters.l should be a valid number"


def test_models_that_no_sliced_release_can_promise():
    promises = [("alpha-k-anonymity", {"alpha": 0.9, "k": 2}, 0.5), ("k-map", {"k": 2, "population": "p"}, 2.0)]
    promises.append(("k-anonymity", {"k": 1}, 1.0))
    verification = verify_table(TABLE_1F, manifest(SIMPLE, *promises), source=open_source(PATIENTS))
    assert failed(verification) == {"alpha-k-anonymity", "k-map", "k-anonymity"}


def test_overlaps_that_are_no_tree():
    with pytest.raises(FormError, match="do not form a tree"):
        join_tree([("a", "b"), ("b", "c"), ("c", "a")])
    parts = [["age", "sex"], ["sex", "zip"], ["zip", "age", "disease"]]
    stated = manifest(parts=parts, method_parameters={"overlapping": True})
    columns = ["bucket", "age", "sex", "sex (2)", "zip", "zip (2)", "age (2)", "disease"]
    table = pa.table({name: PATIENTS[name.split(" ")[0]] if name != "bucket" else BUCKETS for name in columns})
    assert failed(verify_table(table, stated)) >= {"parts"}


# What several batches and very many parts must not change ------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
def test_joined_beliefs_do_not_depend_on_batches(rows):
    """Where a batch ends within a bucket, two columns of the sensitive attribute meet its values in other orders."""
    parts = [["age", "disease"], ["sex", "disease"]]
    stated = manifest(
        ("confidence-bounding", {"most": 0.9, "harmless": ["w"]}, None),
        ("t-closeness", {"t": 0.9}, None),
        parts=parts,
        buckets=1,
        method_parameters={"overlapping": True},
    )
    table = pa.table(
        {
            "bucket": [1] * 8,
            "age": [1, 2, 1, 1, 2, 2, 1, 1],
            "disease": list("xxyzzwww"),
            "sex": list("MFMFMFMM"),
            "disease (2)": list("wwwzzyxx"),
        }
    )
    whole = verify_table(table, stated)
    pieces = pa.concat_tables([table.slice(first, rows) for first in range(0, 8, rows)])
    found = verify_table(pieces, stated)
    assert [one.achieved for one in found.guarantees] == [one.achieved for one in whole.guarantees]
    assert None not in [one.achieved for one in found.guarantees]


@pytest.mark.parametrize("n_parts", [3, 130])
def test_very_many_parts(n_parts):
    """Two buckets match everybody alike, so flu has half of what is believed, however small f(t, B) is."""
    n = 1000
    column = ["r", *["c"] * (n - 1)] * 2
    quasi = {f"q{number}": column for number in range(n_parts)}
    source = pa.table({**quasi, "s": ["flu"] * 600 + ["gout"] * 400 + ["flu"] * 400 + ["gout"] * 600})
    buckets = np.repeat([1, 2], n)
    attributes = {name: {"role": "quasi", "kind": "category"} for name in quasi}
    stated = manifest(("simple-l-diversity", {"l": 1.9}, 2.0), rows=2 * n) | {
        "parts": [[name] for name in source.column_names],
        "attributes": attributes | {"s": {"role": "sensitive", "kind": "category"}},
    }
    table = source.add_column(0, "bucket", pa.array(buckets))
    verification = verify_table(table, stated, source=open_source(source), witness=buckets)
    assert verification.failures == ()
    assert verification.guarantees[0].achieved == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize(("n_parts", "l"), [(3, 5), (130, 2)])
def test_values_of_buckets_that_have_no_weight_do_not_count(n_parts, l):
    """Whoever has r everywhere is in the first bucket, but for a chance of 1000**-n_parts to be in the second."""
    n = 1000
    quasi = {f"q{number}": ["r"] * n + ["r"] + ["c"] * (n - 1) for number in range(n_parts)}
    source = pa.table({**quasi, "s": ["a", "b"] * (n // 2) + [f"c{row % 5}" for row in range(n)]})
    attributes = {name: {"role": "quasi", "kind": "category"} for name in quasi}
    buckets = np.repeat([1, 2], n)
    for asked, failing in ((l, set()), (l + 1, {"distinct-l-diversity"})):
        stated = manifest(("distinct-l-diversity", {"l": asked}, float(l)), rows=2 * n) | {
            "parts": [[name] for name in source.column_names],
            "attributes": attributes | {"s": {"role": "sensitive", "kind": "category"}},
        }
        table = source.add_column(0, "bucket", pa.array(buckets))
        order = np.random.default_rng(5).permutation(2 * n)  # buckets are not listed in the order of the source
        original = open_source(source.take(pa.array(order)))
        assert failed(verify_table(table, stated, source=original, witness=buckets[order])) == failing


# Rows that are withheld or dropped -----------------------------------------------------------------------------


def test_withheld_rows():
    alone = open_source(pa.concat_tables([PATIENTS, PATIENTS.slice(0, 1)]))
    assert failed(verify_table(TABLE_1F, manifest(withheld=1), source=alone, witness=np.append(BUCKETS, 0))) == {
        "withheld"  # the only absent person has one disease
    }
    more = pa.concat_tables([PATIENTS, PATIENTS.slice(0, 2)])
    stated = manifest(withheld=2)
    verification = verify_table(TABLE_1F, stated, source=open_source(more), witness=np.append(BUCKETS, [0, 0]))
    assert verification.failures == ()
    assert failed(verify_table(TABLE_1F, manifest(), source=open_source(more))) == {"source counts"}


def test_missing_values_are_values_of_their_own():
    source = PATIENTS.set_column(1, "sex", pa.array([None, "F", "F", "F", "M", "M", "M", "F"]))
    table = TABLE_1F.set_column(2, "sex", source["sex"])
    assert verify_table(table, manifest(), source=open_source(source), witness=BUCKETS).failures == ()
    unlike = verify_table(TABLE_1F, manifest(), source=open_source(source), witness=BUCKETS)
    assert failed(unlike) == {"parts", "truth", "matching"}


# Generalized parts ---------------------------------------------------------------------------------------------

AGES = {"young": {"from": 0, "below": 53}, "old": {"from": 53, "below": None}}
SEXES = {"*": {"any": True}}


def generalized() -> tuple[pa.Table, dict[str, Any]]:
    young = pa.array(["young"] * 4 + ["old"] * 4)
    table = TABLE_1F.set_column(1, "age", young).set_column(2, "sex", pa.array(["*"] * 8))
    stated = manifest(SIMPLE, ("column-frequency", {"k": 2}, 2.0))
    stated["attributes"]["age"] = {"role": "quasi", "kind": "number", "labels": copy.deepcopy(AGES)}
    stated["attributes"]["sex"]["labels"] = copy.deepcopy(SEXES)
    return table, stated


@pytest.mark.parametrize("witness", [BUCKETS, None])
def test_regions(witness):
    table, stated = generalized()
    assert verify_table(table, stated, source=open_source(PATIENTS), witness=witness).failures == ()
    assert verify_table(table, stated).failures == ()


def test_regions_that_overlap():
    table, stated = generalized()
    stated["attributes"]["age"]["labels"]["old"]["from"] = 52
    assert failed(verify_table(table, stated)) == {"regions"}


def test_rows_in_no_region():
    table, stated = generalized()
    stated["attributes"]["age"]["labels"]["old"]["from"] = 60
    names = failed(verify_table(table, stated, source=open_source(PATIENTS), witness=BUCKETS))
    assert names >= {"located", "parts", "truth", "matching"}


def test_labels_are_declared_and_used():
    table, stated = generalized()
    stated["attributes"]["age"]["labels"]["none"] = {"from": -5, "below": 0}
    assert "labels" in failed(verify_table(table, stated))
    table, stated = generalized()
    del stated["attributes"]["age"]["labels"]["old"]
    assert "labels" in failed(verify_table(table, stated))
