"""What counting leaves possible, beside linear programming; and the most even cuts, beside trying all."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from shoal.attacks.decoding import feasible, scale_links


def most(people: np.ndarray, records: np.ndarray, kind: np.ndarray, place: np.ndarray, edge: int) -> float | None:
    """The greatest number of people on one edge, by HiGHS; None if they do not fit at all."""
    equal = np.concatenate([np.arange(len(people))[:, None] == kind, np.arange(len(records))[:, None] == place]).astype(
        float
    )
    aim = np.zeros(len(kind))
    aim[edge] = -1.0
    found = linprog(aim, A_eq=equal, b_eq=np.concatenate([people, records]), method="highs")
    return -found.fun if found.status == 0 else None


@pytest.mark.parametrize("seed", range(25))
def test_an_edge_is_possible_just_if_the_linear_program_can_use_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_kinds, n_classes = rng.integers(2, 7, 2)
    covers = rng.random((n_kinds, n_classes)) < 0.45
    covers[np.arange(n_kinds), rng.integers(n_classes, size=n_kinds)] = True
    kind, place = np.nonzero(covers)
    links = rng.integers(0, 3, len(kind))  # a way in which all fit
    people = np.bincount(kind, links, n_kinds).astype(np.int64)
    records = np.bincount(place, links, n_classes).astype(np.int64)
    found = feasible(people, records, kind, place)
    assert found is not None
    limits = [most(people, records, kind, place, edge) for edge in range(len(kind))]
    assert found.tolist() == [limit is not None and limit > 1e-6 for limit in limits]
    likely = scale_links(people, records, kind, place, found)
    assert np.bincount(kind, likely, n_kinds) == pytest.approx(people)
    assert (likely[~found] == 0).all()


@pytest.mark.parametrize("seed", range(10))
def test_people_who_do_not_fit_are_found_out(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind, place = np.nonzero(rng.random((5, 4)) < 0.5)
    people, records = rng.multinomial(12, [0.2] * 5), rng.multinomial(12, [0.25] * 4)
    found = feasible(people, records, kind, place)
    fits = len(kind) > 0 and most(people, records, kind, place, 0) is not None
    assert (found is not None) == fits
    assert feasible(people, records + 1, kind, place) is None
