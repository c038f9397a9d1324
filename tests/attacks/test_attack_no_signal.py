"""Where there is nothing to find, attacks find nothing: 40 runs each, with a control group.

The release is about other people than the source: both, and the control group, are drawn alike. A risk's interval has
all that two 95 % Wilson intervals allow, which for equally many trials misses the truth in about 6 of 1,000 runs (a
normal difference beyond 1.96 times the square root of two), and is wholly above it, which is a false alarm, in 3. Of
40 runs more than 4 then miss, or more than 3 are false alarms, with a chance below 1 in 50,000.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

from shoal.attacks.base import Attack, People
from shoal.attacks.view import ReleaseView
from shoal.core.registry import discover

ATTACKS = discover("shoal.attacks", Attack)
SEEDS = 40
N_PEOPLE, N_TARGETS = 300, 150
TREE = {"any": {"lung": {"flu": {}, "asthma": {}}, "other": {"gout": {}, "ulcer": {}}}}
ATTRIBUTES = {
    "age": {"role": "quasi", "kind": "number"},
    "town": {"role": "quasi", "kind": "category"},
    "sex": {"role": "quasi", "kind": "category"},
    "ill": {"role": "sensitive", "kind": "category", "taxonomy": TREE},
}


def drawn(rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "age": rng.integers(20, 60, N_PEOPLE),
            "town": rng.choice(["Bonn", "Hof", "Jena", "Kiel", "Ulm"], N_PEOPLE),
            "sex": rng.choice(["F", "M"], N_PEOPLE),
            "ill": rng.choice(["asthma", "flu", "gout", "ulcer"], N_PEOPLE),
        }
    )


def sliced(rows: pa.Table, rng: np.random.Generator) -> tuple[pa.Table, dict[str, Any]]:
    bucket = np.sort(np.arange(N_PEOPLE) % 10)
    one, other = (np.lexsort((rng.random(N_PEOPLE), bucket)) for _ in range(2))
    columns = {"bucket": bucket + 1}
    columns |= {name: rows[name].take(pa.array(one)) for name in ("age", "town")}
    columns |= {name: rows[name].take(pa.array(other)) for name in ("sex", "ill")}
    return pa.table(columns), {
        "method": "slicing",
        "parts": [["age", "town"], ["sex", "ill"]],
        "attributes": ATTRIBUTES,
    }


@cache
def worlds(kind: str) -> list[tuple[ReleaseView, People, People]]:
    found = []
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, len(kind)])
        rows = drawn(rng)
        manifest: dict[str, Any] = {"method": "plain", "parts": [rows.column_names], "attributes": ATTRIBUTES}
        if kind == "sliced":
            rows, manifest = sliced(rows, rng)
        view = releases.view(rows, manifest)
        found.append((view, view.people(drawn(rng), "the source"), view.people(drawn(rng), "the control table")))
    return found


IN_SLICES = ("definetti", "inference", "linkability", "membership", "singling-out")
ELSEWHERE = {"composition", "decoding", "definetti", "downcoding", "minimality", "named-values", "refinement"}


@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "rows") for name in ATTACKS if name not in ELSEWHERE), *((name, "sliced") for name in IN_SLICES)],
)
def test_nothing_is_found_where_nothing_is(name: str, kind: str) -> None:
    covered, alarms = 0, 0
    for seed, (view, source, control) in enumerate(worlds(kind)):
        risk = ATTACKS[name](N_TARGETS).run(view, source, control, np.random.default_rng(seed)).risk
        covered += risk.low <= 0 <= risk.high
        alarms += risk.low > 0
    assert covered >= SEEDS - 4
    assert alarms <= 3
