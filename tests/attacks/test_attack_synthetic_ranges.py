"""Sensitive numbers and dates of synthetic tables, whose labels are ranges, are guessed range by range."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

import shoal
from shoal.attacks.base import Refusal
from shoal.attacks.running import attack

N = 3000
AGES = {"intervals": {"min": 0, "max": 99, "step": 10}}
RANGES = {
    "few labels": ("wage", {"intervals": {"min": 0, "max": 99_999, "step": 10_000}}),
    "decimals": ("wage", {"intervals": {"min": 0.0, "max": 99_999.0, "step": 10_000.0, "open": "high"}}),
    "many labels": ("wage", {"intervals": {"min": 0, "max": 99_999, "step": 100}}),
    "days": ("left", {"dates": {"min": "2020-01-01", "max": "2022-12-31", "levels": ["year"]}}),
}


def people(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, N)
    return pa.table(
        {
            "age": age,
            "wage": pa.array(1000 * age, mask=age == 0),
            "left": [date(2020, 1, 1) + timedelta(days=int(number)) for number in age * 10],
        }
    )


@pytest.fixture(scope="module", params=list(RANGES))
def released(request: pytest.FixtureRequest) -> tuple[str, pa.Table, shoal.Release]:
    name, taxonomy = RANGES[request.param]
    source = people(1).select(["age", name])
    attributes: dict[str, Any] = {
        "age": {"role": "quasi", "taxonomy": AGES},
        name: {"role": "sensitive", "taxonomy": taxonomy},
    }
    method = {
        "synthetic": {"epsilon": 10_000, "tree": [["age", name]]}
    }  # so that next to no noise hides what goes along
    return name, source, shoal.anonymize(source, {"attributes": attributes, "privacy": [], "method": method})


def test_what_goes_along_with_quasi_values_is_guessed(released: tuple[str, pa.Table, shoal.Release]) -> None:
    name, source, release = released
    (found,) = attack(release, source, people(2).select(["age", name]), attacks=["inference"], seed=1)
    assert not isinstance(found, Refusal)
    assert found.success.success > 0.4 * found.success.trials  # ranges of ages are about as wide as two of the others
    assert found.success.success > 3 * found.baseline.success
    assert found.control is not None
    assert found.control.success > 0.4 * found.control.trials  # nobody's record is disclosed by it


def test_every_value_has_the_place_of_its_label(released: tuple[str, pa.Table, shoal.Release]) -> None:
    name, source, release = released
    view = releases.view(release.data, release.manifest)
    secret = view.secrets[name]
    places = view.people(source, "the source").secrets[name]
    assert secret.marginal.sum() == pytest.approx(1)
    shares = np.bincount(places, minlength=len(secret.values)) / len(places)
    assert np.abs(shares - secret.marginal).max() < 0.02
    if name == "wage":
        missing = source[name].is_null().to_numpy()
        assert (places[missing] == len(secret.values) - 1).all()
        assert (places[~missing] < len(secret.values) - 1).all()
        assert (np.diff(places[~missing][np.argsort(source[name].drop_null().to_numpy())]) >= 0).all()
