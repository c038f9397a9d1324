"""What two releases of one seed have in common: nothing but what one of them tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.core.randomness import Chance

N = 2000
PEOPLE = pa.table({"number": list(range(N)), "name": [f"p{i}" for i in range(N)], "wage": [1000 + i for i in range(N)]})


def columns(wage: dict[str, Any], **more: Any) -> dict[str, np.ndarray]:
    """Return names and wages of a release of seed 4, in the order of the people."""
    attributes = {
        "number": {"role": "insensitive"},
        "name": {"role": "identifier", "technique": {"token": {}}},
        "wage": {"role": "quasi", "technique": wage},
    }
    policy = {"attributes": attributes, "privacy": [], "method": "plain", **more}
    table = shoal.anonymize(PEOPLE, policy, seed=4).data.sort_by("number")
    return {name: np.array(table[name].to_pylist()) for name in ("number", "name", "wage")}


def noise(scale: float) -> dict[str, Any]:
    return {"noise": {"laplace": {"scale": scale}}}


def test_noise_of_two_widths_is_not_taken_off_by_comparing() -> None:
    one, other = columns(noise(50))["wage"], columns(noise(100))["wage"]
    true = PEOPLE["wage"].to_numpy()
    # If both were the same numbers times their scales, this would be exact but for rounding.
    assert np.abs(2 * one - other - true).mean() > 50
    assert abs(float(np.corrcoef(one - true, other - true)[0, 1])) < 0.2  # seeded: the same in every run


def test_tokens_of_two_policies_are_different_and_of_one_the_same() -> None:
    one, again, other = columns(noise(50)), columns(noise(50)), columns(noise(100))
    assert (one["name"] == again["name"]).all()
    assert (one["wage"] == again["wage"]).all()
    assert not set(one["name"]) & set(other["name"])


@pytest.mark.parametrize("shares", [(0.5, 0.6), (0.5, 0.50001)])
def test_samples_of_two_policies_are_drawn_apart(shares: tuple[float, float]) -> None:
    one, other = (set(columns(noise(50), sample={"share": share})["number"].tolist()) for share in shares)
    # Of the first sample about the second one's share is in the second: all of it would be if both shared their draws.
    assert len(one & other) < 0.8 * len(one)


def test_chance_of_a_purpose_follows_from_the_seed_and_the_purpose() -> None:
    noisy, again, other = Chance.of(1).apart("noise"), Chance.of(1).apart("noise"), Chance.of(1).apart("order")
    assert (noisy.keys(4) == again.keys(4)).all()
    assert noisy.generator.random() == again.generator.random()
    assert not (Chance.of(1).apart("noise").keys(4) == other.keys(4)).any()
    assert not (Chance.of(2).apart("noise").keys(4) == Chance.of(1).apart("noise").keys(4)).any()
    unseeded = Chance.of(None)
    assert unseeded.apart("noise") is unseeded


def test_releases_by_two_policies_have_different_orders_with_the_same_seed() -> None:
    table = pa.table({"age": list(range(200)), "number": list(range(200))})
    given = {"attributes": {"age": {"role": "quasi"}, "number": {"role": "insensitive"}}, "method": "mondrian"}
    orders = [
        shoal.anonymize(table, given | {"privacy": [{"k-anonymity": {"k": k}}]}, seed=7).data["number"].to_pylist()
        for k in (2, 3, 2)
    ]
    assert orders[0] == orders[2]
    assert sum(one == other for one, other in zip(orders[0], orders[1], strict=True)) < 20
