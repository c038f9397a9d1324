"""Singling out on Adult, one half the source and the other the control group: who stands out is found first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.attacks.base import Trials
from shoal.attacks.running import attack
from shoal.datasets.uci import ADULT_QUASI, adult

NOISE = {"noise": {"laplace": {"scale": 5}}}


@pytest.fixture(scope="module")
def halves(shared_data: Path) -> tuple[pa.Table, pa.Table]:
    table = adult(shared_data)
    order = np.random.default_rng(3).permutation(table.num_rows)
    half = table.num_rows // 2
    return table.take(pa.array(order[:half])), table.take(pa.array(order[half : 2 * half]))


def tried(halves: tuple[pa.Table, pa.Table], attributes: dict[str, Any], **more: Any) -> Trials:
    stated = {**attributes, "occupation": {"role": "sensitive"}}
    source, control = (half.select(list(stated)) for half in halves)
    release = shoal.anonymize(source, {"privacy": [], "method": {"plain": {}}, **more, "attributes": stated}, seed=1)
    (found,) = attack(release, source, control, attacks=["singling-out"], seed=1)
    assert isinstance(found, Trials)
    return found


@pytest.mark.parametrize(
    ("techniques", "least"),
    [({"age": NOISE}, 0.65), ({name: {"swapping": {"share": 0.2}} for name in ADULT_QUASI}, 0.34)],
    ids=["noise", "swapping"],
)
def test_tolerant_predicates_find_people_behind_techniques(
    halves: tuple[pa.Table, pa.Table], techniques: dict[str, Any], least: float
) -> None:
    roles = {name: {"role": "quasi"} for name in ADULT_QUASI}
    found = tried(halves, {**roles, **{name: {**roles[name], "technique": own} for name, own in techniques.items()}})
    assert found.success.rate().value >= least
    assert found.risk.value >= least
    assert found.risk.low > 0.3


def test_classes_with_a_column_that_nobody_called_quasi_identifying_hide_few(
    halves: tuple[pa.Table, pa.Table],
) -> None:
    roles = {name: {"role": "quasi"} for name in ADULT_QUASI}
    more = {"hours-per-week": {"role": "insensitive"}, "native-country": {"role": "insensitive"}}
    classes = {"privacy": [{"k-anonymity": {"k": 5}}], "method": {"mondrian": {}}}
    assert tried(halves, roles, **classes).success.success == 0
    found = tried(halves, {**roles, **more}, **classes)
    assert found.risk.low > 0.9
    assert any("'hours-per-week', 'native-country' as well" in note for note in found.notes)
