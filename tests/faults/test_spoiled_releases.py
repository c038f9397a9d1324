"""Spoiled rows and promises: for every promise of the verifier a release that breaks it, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.faults.conftest import Release, release_manifest

from shoal.core.errors import InputError
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify, verify_table

TWENTIES, OLDER, ANY = "[20, 29]", ">= 30", "*"


def test_honest_release_is_accepted(release, tmp_path):
    verification = verify(release.write(tmp_path), source=open_source(release.source))
    assert verification.failures == ()
    assert verification.verdict == "incomplete"  # there is no internal folder
    assert {check.name for check in verification.checks} >= {
        "manifest", "folder", "digest", "hygiene", "columns", "rows", "labels", "source counts", "truth",
    }  # fmt: skip
    assert [promise.achieved for promise in verification.guarantees] == [4.0, 3.0, 2.0, 0.125]


def test_unreadable_folders_are_input_errors(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        verify(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"manifest\.json"):
        verify(tmp_path)


# Rows ------------------------------------------------------------------------------------------------------


def test_two_rows_merged_into_one(release, tmp_path):
    release.table = release.table.slice(0, 7)
    release.manifest["rows"] = 7
    release.manifest["attributes"]["age"]["labels"]["[20, 99]"] = {"from": 20, "below": 100}
    release.set("age", 6, "[20, 99]")
    assert {"k-anonymity", "source counts"} <= release.judge(tmp_path)


def test_changed_label(release, tmp_path):
    release.set("age", 0, OLDER)
    assert {"k-anonymity", "truth"} <= release.judge(tmp_path)


def test_swapped_labels_keep_the_sizes_but_not_the_truth(release, tmp_path):
    for column, first, second in (("age", TWENTIES, OLDER), ("zip", "471**", "10***")):
        release.set(column, 2, second)
        release.set(column, 5, first)
    assert release.judge(tmp_path) == {"truth"}


def test_class_too_small_by_one(release, tmp_path):
    release.table = release.table.slice(0, 7)
    release.manifest["rows"] = 7
    release.manifest["withheld"] = 1
    assert "k-anonymity" in release.judge(tmp_path)


def test_extra_row(release, tmp_path):
    release.table = pa.concat_tables([release.table, release.table.slice(2, 1)])
    assert {"rows", "source counts", "truth"} <= release.judge(tmp_path)


def test_extra_row_that_the_manifest_admits(release, tmp_path):
    release.table = pa.concat_tables([release.table, release.table.slice(2, 1)])
    release.manifest["rows"] = 9
    names = release.judge(tmp_path)
    assert {"source counts", "truth"} <= names
    assert "rows" not in names


def test_missing_row(release, tmp_path):
    release.table = release.table.slice(1)
    assert {"rows", "k-anonymity", "source counts"} <= release.judge(tmp_path)


def test_duplicated_row_in_place_of_another(release, tmp_path):
    table = release.table.take([0, 1, 2, 3, 4, 5, 4, 7])
    release.table = table
    assert release.judge(tmp_path) == {"truth"}


def test_invented_row_beside_withheld_ones(release, tmp_path):
    release.set("cost", 0, 4.5)
    release.manifest["withheld"] = 1
    release.source = pa.concat_tables([release.source, release.source.slice(0, 1)])
    assert release.judge(tmp_path) == {"truth"}


def test_sensitive_value_swapped_between_classes(release, tmp_path):
    release.set("illness", 2, "flu")
    release.set("illness", 7, "hiv")
    assert "truth" in release.judge(tmp_path)


def test_insensitive_value_changed(release, tmp_path):
    release.set("cost", 3, 7.25)
    assert release.judge(tmp_path) == {"truth"}
    assert release.judge(tmp_path / "again", with_source=False) == set()


def test_insensitive_value_lost(release, tmp_path):
    release.set("cost", 3, None)
    assert release.judge(tmp_path) == {"truth"}


def test_cover_without_the_source_value(release, tmp_path):
    labels = release.manifest["attributes"]["age"]["labels"]
    labels["[20, 28]"] = {"from": 20, "below": 29}
    del labels[TWENTIES]
    for row in (0, 2, 4, 6):
        release.set("age", row, "[20, 28]")
    assert release.judge(tmp_path) == {"truth"}


@pytest.mark.parametrize(
    ("column", "label", "cover"),
    [
        ("age", TWENTIES, {"from": 10, "below": 30}),
        ("age", TWENTIES, {"from": 20, "below": 31}),
        ("age", OLDER, {"from": 29, "below": None}),
        ("age", OLDER, {"any": True}),
        ("zip", "471**", {"prefixes": ["47"]}),
        ("zip", "471**", {"prefixes": ["471", "472"]}),
        ("zip", "10***", {"from": "10115", "through": "10119"}),
    ],
)
def test_cover_that_contradicts_its_label(release, tmp_path, column, label, cover):
    release.manifest["attributes"][column]["labels"][label] = cover
    assert "labels" in release.judge(tmp_path, with_source=False)


def test_cover_without_the_missing_value(release, tmp_path):
    release.manifest["attributes"]["sex"]["labels"][ANY] = {"values": ["F", "M"]}
    assert release.judge(tmp_path) == {"truth"}
    release.manifest["attributes"]["sex"]["labels"][ANY] = {"values": ["F", "M"], "missing": True}
    assert release.judge(tmp_path / "whole") == set()


def test_empty_release(release, tmp_path):
    release.table = release.table.slice(0, 0)
    release.manifest["rows"] = 0
    release.manifest["withheld"] = 8
    names = release.judge(tmp_path)
    assert {"rows", "k-anonymity", "t-closeness"} <= names


# Promises --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "parameter", "value"),
    [(0, "k", 5), (1, "l", 4), (2, "l", 2.0000001), (3, "t", 0.1249999999999)],
)
def test_promise_stronger_than_the_data(release, tmp_path, place, parameter, value):
    promise = release.manifest["guarantees"][place]
    promise["parameters"][parameter] = value
    assert release.judge(tmp_path) == {promise["model"]}


@pytest.mark.parametrize(("place", "value"), [(0, 5.0), (1, 4.0), (2, 2.1), (3, 0.1), (0, 3.0), (0, None)])
def test_achieved_is_not_what_the_rows_reach(release, tmp_path, place, value):
    promise = release.manifest["guarantees"][place]
    promise["achieved"] = value
    assert release.judge(tmp_path) == {promise["model"]}


@pytest.mark.parametrize(
    "promise",
    [
        {"model": "perfect-privacy", "parameters": {}, "achieved": 1.0},
        {"model": "k-anonymity", "parameters": {}, "achieved": 4.0},
        {"model": "k-anonymity", "parameters": {"k": "4"}, "achieved": 4.0},
        {"model": "k-anonymity", "parameters": {"k": True}, "achieved": 4.0},
        {"model": "k-anonymity", "parameters": {"k": 4, "except": "kings"}, "achieved": 4.0},
        {"model": "k-anonymity", "parameters": {"k": 0}, "achieved": 4.0},
        {"model": "t-closeness", "parameters": {"t": 1, "distance": "felt"}, "achieved": 0.125},
        {"model": "distinct-l-diversity", "parameters": {"l": 2, "attribute": "cost"}, "achieved": 3.0},
        {"model": "distinct-l-diversity", "parameters": {"l": 2, "attribute": []}, "achieved": 3.0},
        {"model": "t-closeness", "parameters": {"t": 1, "distance": "ordered"}, "achieved": 0.125},
        {"model": "t-closeness", "parameters": {"t": 1, "distance": "hierarchical"}, "achieved": 0.125},
    ],
)
def test_promise_that_cannot_be_checked(release, tmp_path, promise):
    release.manifest["guarantees"].append(promise)
    verification = verify(release.write(tmp_path))
    assert release.failed(verification) == {promise["model"]}
    assert verification.guarantees[-1].detail.startswith("cannot check")


@pytest.mark.parametrize("columns", [["town"], ["town", "sex"]])
def test_people_whose_quasi_identifiers_are_missing_are_a_class(columns):
    """As they are everywhere in releases without labels, of averages or of values as they are."""
    rows = pa.table({"town": ["Ulm"] * 2 + [None], "sex": ["F"] * 2 + [None], "illness": ["flu", "hiv", "flu"]})
    for model, parameters in (
        ("k-anonymity", {"k": 2}),
        ("distinct-l-diversity", {"l": 2}),
        ("t-closeness", {"t": 0.2}),
    ):
        for achieved in (2.0, 1.0, 1 / 3, 1 / 6):
            manifest = {
                **release_manifest(),
                "method": "plain",
                "form": "plain",
                "guarantees": [{"model": model, "parameters": parameters, "achieved": achieved}],
                "parts": [[*columns, "illness"]],
                "rows": 3,
                "attributes": {
                    **{name: {"role": "quasi", "kind": "category"} for name in columns},
                    "illness": {"role": "sensitive", "kind": "category"},
                },
            }
            found = verify_table(rows.select([*columns, "illness"]), manifest)
            assert Release.failed(found) == {model}
            assert "1 of 2 classes" in found.guarantees[0].detail


def test_guarantee_about_a_population_is_open_without_it(release, tmp_path):
    promise = {"model": "k-map", "parameters": {"k": 4, "population": "people.csv"}, "achieved": 4.0}
    release.manifest["guarantees"].append(promise)
    assert release.judge(tmp_path / "a") == set()
    assert verify(release.write(tmp_path / "b")).verdict == "incomplete"
