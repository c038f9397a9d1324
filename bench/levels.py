"""How wide published values are, by method: on Adult, and on a table with a drawn hierarchy for every column."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring import Measured
from bench.planning import counted

METHODS = {
    "levels": {"mondrian": {}},
    "ranges": {"mondrian": {"labels": "ranges"}},
    "incognito, `recode`": {"incognito": {"recode": True}},
    "sweep": {"sweep": {}},
    "hilbert": {"hilbert": {}},
}
TARGETS = {2: 0.013, 5: 0.037, 10: 0.055, 50: 0.110}  # of levels on Adult with k alone
STAYS = 20_000


def levels(folder: Path) -> Iterator[Measured]:
    """Plan each table by each method, for several k, alone and with entropy 4."""
    from shoal.core.progress import Silent
    from shoal.utility.information import NormalizedCertaintyPenalty

    for name, table, policy in _tables(folder):
        for k, target in TARGETS.items():
            for models in ({"k-anonymity": {"k": k}},), ({"k-anonymity": {"k": k}}, {"entropy-l-diversity": {"l": 4}}):
                asked = f"{name}, k = {k}" + (" and entropy 4" if len(models) > 1 else "")
                for column, method in METHODS.items():
                    loaded, problem = counted(table, {**policy, "privacy": list(models), "method": method})
                    began = time.perf_counter()
                    plan = loaded.method.plan(problem, np.random.default_rng(1), Silent())
                    seconds, penalty = [time.perf_counter() - began], NormalizedCertaintyPenalty().of(problem, plan)
                    aimed = target if (column, name, len(models)) == ("levels", "Adult", 1) else None
                    limit = "-" if aimed is None else f"NCP {aimed}"
                    detail = {"ncp": penalty, "of": asked, "column": column}
                    within = aimed is None or penalty <= aimed
                    yield Measured(f"NCP, {asked}: {column}", seconds, limit, within, detail=detail)


def _tables(folder: Path) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    from shoal.datasets.hospital import hospital_policy
    from shoal.datasets.hospital_files import write_stays
    from shoal.datasets.uci import adult, adult_policy

    policy = adult_policy()
    yield "Adult", adult(columns=list(policy["attributes"])), policy
    path = folder / "stays-levels.parquet"
    write_stays(path, STAYS, seed=1)
    yield f"{STAYS:,} stays", path, hospital_policy()
