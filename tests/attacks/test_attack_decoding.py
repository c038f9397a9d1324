"""Labels of sensitive values: what they stand for is found unless they are defended, and then no more than promised."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests import releases

import shoal
from shoal.attacks.base import Refusal, Tally, Trials, verdict
from shoal.attacks.decoding import DecodingAttack
from shoal.attacks.view import ReleaseView

ILLS = {"any": {"lungs": ["flu", "cold"], "joints": ["gout", "sprain"]}}
ROLES: dict[str, Any] = {
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [5, 10, 20]}}},
    "town": {"role": "quasi", "taxonomy": {"tree": {"any": ["Bonn", "Hof", "Jena", "Kiel"]}}},
    "ill": {"role": "sensitive", "taxonomy": {"tree": ILLS}},
}


def people(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(20, 80, n),
            "town": rng.choice(["Bonn", "Hof", "Jena", "Kiel"], n),
            "ill": rng.choice(["flu", "cold", "gout", "sprain"], n, p=[0.45, 0.2, 0.2, 0.15]),
        }
    )


def as_table(ills: dict[str, list[str]]) -> pa.Table:
    pairs = [(town, ill) for town, own in ills.items() for ill in own]
    return pa.table(dict(zip(("town", "ill"), map(list, zip(*pairs, strict=True)), strict=True)))


def labelled(rows: dict[str, list[str]]) -> ReleaseView:
    """A release of two towns, in which some illnesses are labels."""
    below = {"lungs": ["flu", "cold"], "any": ["flu", "cold", "gout", "sprain"]}
    ills = {name: {"values": [name]} for name in below["any"]} | {name: {"values": own} for name, own in below.items()}
    attributes = {
        "town": {"role": "quasi", "kind": "category"},
        "ill": {"role": "sensitive", "kind": "category", "labels": ills},
    }
    table = as_table(rows)
    promise = {"model": "tau-l-diversity", "parameters": {"tau": 0.5, "l": 2}, "achieved": 0.5}
    manifest = {"method": "sweep", "parts": [["town", "ill"]], "attributes": attributes, "guarantees": [promise]}
    return releases.view(table, manifest)


def test_a_label_stands_for_what_its_class_shows_most() -> None:
    view = labelled(
        {
            "Bonn": ["flu"] * 4 + ["cold"] * 2 + ["gout"] * 2 + ["lungs"] * 6,
            "Hof": ["cold"] * 3 + ["flu"] + ["lungs"] * 4 + ["any"],
        }
    )
    truth = {
        "Bonn": ["flu"] * 9 + ["cold"] * 3 + ["gout"] * 2,  # of six behind the label five have flu
        "Hof": ["cold"] * 8 + ["flu"],
    }
    members = view.people(as_table(truth), "the source")
    found = DecodingAttack(20).run(view, members, None, np.random.default_rng(1))
    assert found.success == Tally(10, 11)
    assert found.baseline == Tally(6, 11)  # half of them, or what is true of all: nobody's illness has more
    control = view.people(pa.table({"town": ["Bonn"] * 8, "ill": ["flu"] * 2 + ["gout"] * 6}), "the control table")
    beside = DecodingAttack(20).run(view, members, control, np.random.default_rng(1))
    assert beside.control == Tally(2, 8)  # a quarter of those in Bonn have flu; nobody is from Hof
    assert "11 records are published under labels; for 10 of them" in beside.notes[0]


def release(*, defend: bool, **given: Any) -> shoal.Release:
    policy = {
        "attributes": ROLES,
        "privacy": [{"tau-l-diversity": {"tau": 0.4, "l": 3}}],
        "method": {"sweep": {"defend": defend}},
    }
    return shoal.anonymize(people(1500, 1), policy, seed=1, **given)


@pytest.mark.parametrize("defend", [False, True])
def test_labels_of_the_sweep_are_decoded_unless_it_defends_them(defend: bool) -> None:
    found, refused = shoal.attack(
        release(defend=defend), people(1500, 1), people(1500, 2), attacks=["decoding", "minimality"], seed=1
    )
    assert isinstance(found, Trials)
    assert isinstance(refused, Refusal)
    assert refused.reason.endswith("see the attack decoding")
    if defend:
        assert found.success.success <= found.baseline.success
        assert found.risk.low <= 0 or verdict(found).endswith("no more than the guarantee allows")
    else:
        assert found.success.success > 1.5 * found.baseline.success
        assert verdict(found).startswith("severe")


@pytest.mark.parametrize("defend", [False, True])
def test_guesses_are_judged_by_the_true_values_under_labels(defend: bool, tmp_path: Path) -> None:
    """The count is exact: the guessed values among those that the data holder's file lists for each class and label."""
    written = release(defend=defend, out=tmp_path / "out")
    (found,) = shoal.attack(written, people(1500, 1), people(1500, 2), attacks=["decoding"], seed=1)
    view = ReleaseView.read(tmp_path / "out")
    labels = pq.read_table(tmp_path / "out" / "internal" / "labels.parquet")
    shown = Counter(zip(*(view.rows[name].to_pylist() for name in ("age", "town", "ill")), strict=True))
    control = Counter(people(1500, 2)["ill"].to_pylist())
    below = {name: cover["values"] for name, cover in view.manifest.attributes["ill"].covers.items()}
    right = total = 0
    for row in labels.to_pylist():
        place = row["age"], row["town"]
        guess = max(below[row["ill"]], key=lambda ill, place=place: (shown[*place, ill], control[ill]))
        right += row["records"] * (row["value of ill"] == guess)
        total += row["records"]
    assert found.success == Tally(right, total)
    assert "estimated" not in found.notes[0]


def test_without_labels_there_is_nothing_to_decode() -> None:
    policy = {"attributes": ROLES, "privacy": [{"k-anonymity": {"k": 5}}], "method": {"mondrian": {}}}
    (found,) = shoal.attack(shoal.anonymize(people(300, 1), policy, seed=1), people(300, 1), attacks=["decoding"])
    assert isinstance(found, Refusal)
    assert "no labels to decode" in found.reason
