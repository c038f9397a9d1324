"""What a release promises, attacks must find kept: k people beside each other, and beliefs of at most 1/l."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.tables import cover

import shoal
from shoal.attacks.base import ALARMS, Trials
from shoal.attacks.running import attack
from shoal.attacks.view import ReleaseView
from shoal.datasets.uci import adult

NAMES = ["age", "workclass", "education", "marital-status", "race", "sex", "occupation"]


@pytest.fixture(scope="module")
def tables(shared_data: Path) -> tuple[pa.Table, pa.Table]:
    table = adult(shared_data, columns=NAMES)
    order = np.random.default_rng(3).permutation(table.num_rows)
    return table.take(pa.array(order[:8000])), table.take(pa.array(order[8000:16_000]))


def released(source: pa.Table, privacy: dict[str, Any], method: dict[str, Any]) -> shoal.Release:
    roles = {name: {"role": "sensitive" if name == "occupation" else "quasi"} for name in NAMES}
    return shoal.anonymize(source, {"attributes": roles, "privacy": [privacy], "method": method}, seed=1)


def tried(release: shoal.Release, source: pa.Table, control: pa.Table, *names: str) -> dict[str, Trials]:
    found = attack(release, source, control, attacks=names, targets=2000, seed=4)
    return {each.attack: each for each in found if isinstance(each, Trials)}


@pytest.mark.parametrize(("k", "method"), cover([2, 10], ["mondrian", "sweep"]))
def test_nobody_is_isolated_among_k(tables: tuple[pa.Table, pa.Table], method: str, k: int) -> None:
    """Whoever fulfils a predicate of labels has the others of the class beside: with k = 2 nobody is alone, surely."""
    source, control = tables
    found = tried(
        released(source, {"k-anonymity": {"k": k}}, {method: {}}), source, control, "singling-out", "external"
    )
    assert found["singling-out"].success.success == 0
    assert found["singling-out"].variants["all"].success.trials > 400  # each class is asked for once
    assert found["external"].success.success == 0
    assert found["singling-out"].risk.low <= 0


@pytest.mark.parametrize("k", [2, 10])
def test_averages_of_k_lead_to_nobody_s_record(tables: tuple[pa.Table, pa.Table], k: int) -> None:
    """Of k equal records at most one in k is the person's whom ranges around averages isolate, beyond chance."""
    source, control = tables
    release = released(source, {"k-anonymity": {"k": k}}, {"microaggregation": {}})
    found = tried(release, source, control, "singling-out", "external")
    assert found["external"].success.success == 0
    assert replace(found["singling-out"], alarms=ALARMS).risk.high <= 1 / k


@pytest.mark.parametrize("l", [2, 3])
@pytest.mark.parametrize(
    "method", [{"slicing": {"columns": 2, "alpha": 2}}, {"anatomy": {}}, {"mondrian": {}}], ids=str
)
def test_nobody_is_guessed_with_more_than_one_in_l(
    tables: tuple[pa.Table, pa.Table], method: dict[str, Any], l: int
) -> None:
    """Beliefs are at most 1/l, exactly; by chance, guesses are right somewhat more often in at most 1 of 40 runs."""
    source, control = tables
    release = released(source, {"simple-l-diversity": {"l": l}}, method)
    view = ReleaseView.read(release)
    weights = view.find_left(view.secrets["occupation"], view.people(source, "the source")).weights
    assert (weights.max(axis=1) / weights.sum(axis=1)).max() <= 1 / l + 1e-12
    found = tried(release, source, control, "inference", "homogeneity")
    assert found["inference"].success.rate().low <= 1 / l
    assert found["homogeneity"].success.success == 0
