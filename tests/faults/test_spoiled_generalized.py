"""Spoiled releases whose sensitive values are generalized: each breaks one promise about induced frequencies."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from shoal.sources.opening import open_source
from shoal.verify.verifier import verify

VIRUS, ILLNESS = "viral", "any illness"
TREE = {"any": {"viral": {"flu": {}, "hiv": {}}, "other": {"ulcer": {}}}}
# Class of the twenties: flu 3/2, hiv 3/2, ulcer 1; class of the others: 4/3 of each.
# The table: flu 17/48, hiv 17/48, ulcer 14/48.
PROMISE: dict[str, Any] = {"tau": 0.5, "l": 3}
OTHERS: list[tuple[str, dict[str, Any], float]] = [
    ("distinct-l-diversity", {"l": 3}, 3.0),
    ("simple-l-diversity", {"l": 2.666}, 8 / 3),
    ("entropy-l-diversity", {"l": 2.95}, 4 / 1.5**0.75),
    ("recursive-cl-diversity", {"c": 1.51, "l": 3}, 1.5),
    ("t-closeness", {"t": 0.041667, "distance": "equal"}, 1 / 24),
    ("t-closeness", {"t": 0.041667, "distance": "hierarchical"}, 1 / 24),
    ("alpha-k-anonymity", {"alpha": 0.375, "k": 4}, 0.375),
    ("beta-likeness", {"beta": 0.142858}, 1 / 7),
    ("delta-disclosure", {"delta": 0.154151}, math.log(7 / 6)),
    ("confidence-bounding", {"most": 0.375}, 0.375),
]


@pytest.fixture
def generalized(release):
    """The honest release, with one flu told as a viral disease and one ulcer as an illness."""
    release.set("illness", 6, VIRUS)
    release.set("illness", 3, ILLNESS)
    release.manifest["method"] = "sweep"
    release.manifest["attributes"]["illness"] |= {
        "labels": {
            "flu": {"values": ["flu"]},
            "hiv": {"values": ["hiv"]},
            "ulcer": {"values": ["ulcer"]},
            VIRUS: {"values": ["flu", "hiv"]},
            ILLNESS: {"values": ["flu", "hiv", "ulcer"]},
        },
        "order": ["flu", "hiv", "ulcer"],
        "taxonomy": TREE,
    }
    only(release, "tau-l-diversity", dict(PROMISE), 0.5)
    return release


def labels(release) -> dict[str, Any]:
    found: dict[str, Any] = release.manifest["attributes"]["illness"]["labels"]
    return found


def only(release, model: str, parameters: dict[str, Any], achieved: float) -> None:
    release.manifest["guarantees"] = [{"model": model, "parameters": parameters, "achieved": achieved}]


def weakest(release, tmp_path) -> None:
    """Promise what any rows keep, and claim what they reach."""
    only(release, "tau-l-diversity", {"tau": 1, "l": 4}, 1.0)
    (found,) = verify(release.write(tmp_path / "asked")).guarantees
    release.manifest["guarantees"][0]["achieved"] = found.achieved


def test_honest_release_is_accepted(generalized, tmp_path):
    verification = verify(generalized.write(tmp_path / "a"), source=open_source(generalized.source))
    assert verification.failures == ()
    assert verification.verdict == "incomplete"  # there is no internal folder
    assert any(check.name == "values" for check in verification.checks)
    assert not any("manifest" in promise.detail for promise in verification.guarantees)
    alone = verify(generalized.write(tmp_path / "b"))
    assert alone.verified
    assert all("frequencies that labels induce" in promise.detail for promise in alone.guarantees)


def test_promise_stronger_than_the_induced_frequencies(generalized, tmp_path):
    only(generalized, "tau-l-diversity", PROMISE | {"tau": 0.4999999999}, 0.5)
    assert generalized.judge(tmp_path) == {"tau-l-diversity"}


def test_achieved_is_not_what_the_induced_frequencies_reach(generalized, tmp_path):
    only(generalized, "tau-l-diversity", PROMISE, 0.501)
    assert generalized.judge(tmp_path) == {"tau-l-diversity"}


@pytest.mark.parametrize(("model", "parameters", "achieved"), OTHERS)
def test_other_models_do_not_say_what_a_label_counts_for(generalized, tmp_path, model, parameters, achieved):
    only(generalized, model, parameters, achieved)
    assert generalized.judge(tmp_path) == {model}


def test_phantom_value_makes_classes_look_more_diverse(generalized, tmp_path):
    for label in (VIRUS, ILLNESS):
        labels(generalized)[label]["values"].append("plague")
    weakest(generalized, tmp_path)
    assert generalized.judge(tmp_path / "a") == {"values"}
    assert generalized.judge(tmp_path / "b", with_source=False) == set()


def test_phantom_missing_value(generalized, tmp_path):
    for label in (VIRUS, ILLNESS):
        labels(generalized)[label]["missing"] = True
    weakest(generalized, tmp_path)
    assert generalized.judge(tmp_path) == {"values"}


def test_values_of_withheld_rows_occur_and_those_of_dropped_rows_do_not(generalized, tmp_path):
    for label in (VIRUS, ILLNESS):
        labels(generalized)[label]["values"].append("plague")
    weakest(generalized, tmp_path)
    sick = generalized.source.slice(0, 1).set_column(3, "illness", pa.array(["plague"]))
    honest = generalized.source
    generalized.source = pa.concat_tables([honest, sick])
    generalized.manifest["withheld"] = 1
    assert generalized.judge(tmp_path / "withheld") == set()
    sexless = pa.array(["F", "M", "F", "F", "M", "M", "F", "F", None])
    generalized.source = generalized.source.set_column(2, "sex", sexless)
    generalized.manifest |= {"withheld": 0, "missing": {"policy": "drop", "tokens": [""], "dropped": 1}}
    assert generalized.judge(tmp_path / "dropped") == {"values"}


def test_label_of_a_record_that_is_not_under_it(generalized, tmp_path):
    generalized.set("illness", 0, VIRUS)
    weakest(generalized, tmp_path)
    assert generalized.judge(tmp_path) == {"truth"}


def test_cover_without_the_value_of_its_record(generalized, tmp_path):
    labels(generalized)[ILLNESS]["values"] = ["flu", "hiv"]
    weakest(generalized, tmp_path)
    assert generalized.judge(tmp_path) == {"truth"}


def test_value_told_as_missing(generalized, tmp_path):
    generalized.set("illness", 2, None)
    weakest(generalized, tmp_path)
    assert "truth" in generalized.judge(tmp_path)


def test_missing_value_that_is_kept(generalized, tmp_path):
    generalized.set("illness", 2, None)
    stated = ["flu", "flu", None, "ulcer", "flu", "hiv", "ulcer", "ulcer"]
    generalized.source = generalized.source.set_column(3, "illness", pa.array(stated))
    weakest(generalized, tmp_path)
    assert generalized.judge(tmp_path / "kept") == set()
    labels(generalized)[VIRUS]["missing"] = True
    assert generalized.judge(tmp_path / "covered") == set()


@pytest.mark.parametrize(
    ("label", "cover"),
    [
        (ILLNESS, {"any": True}),
        (ILLNESS, {"values": []}),
        (ILLNESS, {}),
        (ILLNESS, {"values": ["flu", "hiv", "ulcer", "flu"]}),
        (ILLNESS, {"prefixes": ["u"]}),
        (ILLNESS, {"values": ["ulcer"], "missing": 1}),
        ("flu", {"values": ["flu", "hiv"]}),
        ("flu", {"values": ["flu"], "missing": True}),
        ("ulcer", {"values": ["hiv"]}),
        ("unused", {"values": ["ulcer"]}),
        ("flu", None),
    ],
)
def test_labels_without_a_clear_meaning(generalized, tmp_path, label, cover):
    labels(generalized)[label] = cover
    if cover is None:
        del labels(generalized)[label]
    only(generalized, "tau-l-diversity", {"tau": 1, "l": 2}, 0.375)
    assert "labels" in generalized.judge(tmp_path, with_source=False)


def test_labels_of_another_kind_than_category(generalized, tmp_path):
    generalized.manifest["attributes"]["illness"]["kind"] = "prefix"
    assert generalized.judge(tmp_path) == {"manifest"}


def test_missing_values_under_a_label_although_they_were_dropped(generalized, tmp_path):
    generalized.manifest["missing"]["policy"] = "drop"
    labels(generalized)[ILLNESS]["missing"] = True
    assert generalized.judge(tmp_path) == {"manifest"}


def test_joint_values_cannot_be_checked(generalized, tmp_path):
    generalized.manifest["attributes"]["cost"]["role"] = "sensitive"
    only(generalized, "distinct-l-diversity", {"l": 2, "attribute": ["illness", "cost"]}, 4.0)
    verification = verify(generalized.write(tmp_path))
    assert generalized.failed(verification) == {"distinct-l-diversity"}
    assert verification.guarantees[0].detail.startswith("cannot check: values of 'illness' are generalized")


def test_other_weights_than_those_the_promise_was_kept_with(generalized, tmp_path):
    weights = {"flu": 1, "hiv": 3, "ulcer": 1, "plague": 9}
    # Twenties: flu 5/4, hiv 7/4, ulcer 1; others: flu 6/5, hiv 8/5, ulcer 6/5.
    only(generalized, "tau-l-diversity", {"tau": 0.5, "l": 3, "weights": weights}, 0.5)
    assert generalized.judge(tmp_path / "given") == set()
    only(generalized, "tau-l-diversity", {"tau": 0.5, "l": 2, "weights": weights}, 0.4375)
    assert generalized.judge(tmp_path / "two") == set()
    generalized.manifest["guarantees"][0]["parameters"]["weights"] = weights | {"hiv": 2}
    assert generalized.judge(tmp_path / "others") == {"tau-l-diversity"}
    generalized.manifest["guarantees"][0]["parameters"]["weights"] = {"ulcer": 1}
    verification = verify(generalized.write(tmp_path / "none"))
    assert "covers no value that has a weight" in verification.guarantees[0].detail
