"""Planning alone, without reading, writing and verifying: what other tools call their search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from shoal.plan.problem import Problem
    from shoal.policy.policy import Policy


def planner(data: object, policy: Mapping[str, Any] | Path, seed: int = 1) -> Callable[[], object]:
    """Count a table once and return a function that plans it from the counted cells."""
    from shoal.core.progress import Silent

    loaded, problem = counted(data, policy)
    return lambda: loaded.method.plan(problem, np.random.default_rng(seed), Silent())


def counted(data: object, policy: Mapping[str, Any] | Path) -> tuple[Policy, Problem]:
    """Return the policy, and the problem that it makes of the table."""
    from shoal.core.progress import Silent
    from shoal.engines.local import LocalEngine
    from shoal.policy.encoding import encode
    from shoal.policy.policy import Policy
    from shoal.sources.opening import open_source

    loaded = Policy.load(policy)
    columns = (*loaded.names("sensitive"), *loaded.names("quasi"))
    cells = LocalEngine().count(open_source(data, loaded.source), columns, Silent())
    return loaded, encode(cells, loaded).problem


def n_cells(data: object, policy: Mapping[str, Any] | Path) -> int:
    """Return how many distinct combinations of quasi and sensitive values a table has."""
    return counted(data, policy)[1].cells.n_cells
