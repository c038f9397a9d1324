"""Individual risk by survey weights: beside sums of the distribution, and the published example of sdcMicro."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.audit.audit import audit
from shoal.audit.survey import estimate_risks

# The example of Capobianchi, Polettini and Lucarelli, as sdcMicro's guidelines (Templ, Kowarik and Meindl, version
# 3.0.0, section on individual risk) print it: keys, weights, and individual risks with three digits. The fifth risk is
# printed as 0.011, though log(541) / 540 is 0.01165; all others, and the sum, agree with the formula.
KEYS = [(1, 2, 5, 1), (1, 2, 1, 1), (1, 2, 1, 1), (3, 3, 1, 5), (4, 3, 1, 4), (4, 3, 1, 1), (6, 2, 1, 5), (1, 2, 5, 1)]
WEIGHTS = [18.0, 45.5, 39.0, 17.0, 541.0, 8.0, 5.0, 92.0]
PRINTED = [0.017, 0.022, 0.022, 0.177, 0.011, 0.297, 0.402, 0.017]


def survey(weights: list[Any]) -> tuple[pa.Table, dict[str, Any]]:
    columns = {f"key{number}": [keys[number] for keys in KEYS] for number in range(4)}
    roles: dict[str, Any] = {name: {"role": "quasi"} for name in columns} | {"w": {"role": "weight"}}
    return pa.table({**columns, "w": weights}), {"attributes": roles, "privacy": [{"k-anonymity": {"k": 2}}]}


def test_the_published_example() -> None:
    found = audit(*survey(WEIGHTS)).individual
    assert found is not None
    assert found.population == 765.5
    assert (round(found.expected, 2), round(100 * found.mean, 2)) == (0.97, 12.08)  # as printed there
    assert round(found.highest, 3) == max(PRINTED)
    assert dict(found.records_above) == {0.05: 3, 0.2: 2, 0.33: 1}
    assert found.population_uniques == pytest.approx(1 / 17 + 1 / 541 + 1 / 8 + 1 / 5)
    sizes, sums = np.array([2, 2, 2, 1, 1, 1, 1, 2]), np.array([110, 84.5, 84.5, 17, 541, 8, 5, 110])
    risks = estimate_risks(sizes, sums)
    agree = [place for place in range(8) if place != 4]
    assert risks[agree].round(3).tolist() == [PRINTED[place] for place in agree]
    assert risks[4] == pytest.approx(math.log(541) / 540)
    assert json.dumps(found.as_dict())


@given(st.integers(1, 60), st.floats(1.0, 300.0))
def test_risks_are_the_mean_of_the_distribution(size: int, times: float) -> None:
    """Sum 1 / F over the negative binomial distribution of F given f, until nothing is left."""
    weight, total, left, people = size * times, 0.0, 1.0, size
    p = size / weight
    chance = p**size if size * math.log(p) > -600 else 0.0
    if chance == 0.0:
        return  # too small for this way of summing
    while left > 1e-12 and people < 400_000:
        total += chance / people
        left -= chance
        chance *= people / (people - size + 1) * (1 - p)
        people += 1
    assert estimate_risks(np.array([size]), np.array([weight]))[0] == pytest.approx(total, rel=1e-6, abs=1e-9)


def test_three_records_have_the_closed_form_and_weights_below_records_are_all_people() -> None:
    p = 3 / 40
    odds = p / (1 - p)
    closed = odds / 2 * (1 - 2 * odds + 2 * odds**2 * math.log(1 / p))  # Franconi and Polettini (2004)
    assert estimate_risks(np.array([3, 4]), np.array([40.0, 2.0])) == pytest.approx([closed, 0.25])
