"""Joint classes and differences of classes against counting people one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from shoal.linking.beliefs import BeliefJudge
from shoal.linking.kernels import Boxes, Histograms
from shoal.linking.ledger.comparing import OccupiedClasses, subtract_classes
from shoal.linking.space import Candidacy

Classes = list[set[int]]  # of each query, the classes that its people may be in
N_CLASSES, VALUES = 4, ("flu", "gout", "cold")


def draw(rng: np.random.Generator, n_queries: int, several: float) -> Classes:
    return [
        {int(rng.integers(N_CLASSES)) for _ in range(1 + (rng.random() < several))} if rng.random() < 0.9 else set()
        for _ in range(n_queries)
    ]


def occupy(classes: Classes, records: list[Counter[int]], rows: np.ndarray) -> OccupiedClasses:
    """Return classes of one box each, with their records of every value."""
    start = np.cumsum([0, *map(len, classes)])
    boxes = np.array([own for each in classes for own in sorted(each)], dtype=np.int64)
    entries = [(number, value, n) for number, each in enumerate(records) for value, n in each.items()]
    counts = Histograms.of(*np.array(entries).T, N_CLASSES, len(VALUES))
    empty = np.zeros((N_CLASSES, 0), dtype=np.int32)
    own = Boxes(empty, empty, counts, np.arange(N_CLASSES))
    return OccupiedClasses.of(Candidacy(start, boxes), own, np.array([each.total() for each in records]), rows)


def difference(more: list[Counter[int]], less: list[Counter[int]]) -> Counter[int]:
    return sum(more, Counter()) - sum(less, Counter())  # what is positive


@pytest.mark.parametrize("seed", range(60))
def test_differences_of_classes_are_found_as_by_hand(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    n, floor = 8, 2
    rows = np.ones(n, dtype=np.int64)
    both = [draw(rng, n, 0.0) for _ in range(2)]
    true = [[Counter(int(rng.integers(3)) for q in range(n) if c in own[q]) for c in range(N_CLASSES)] for own in both]
    if seed % 2:  # some have other numbers of records than people
        true[0][0][int(rng.integers(3))] += 1
    counts = [[Counter(each) or Counter({0: 1}) for each in own] for own in true]
    judge = BeliefJudge([], VALUES, np.ones(3, dtype=np.int64))
    one, other = (occupy(own, each, rows) for own, each in zip(both, counts, strict=True))
    found = subtract_classes(one, other, rows, floor, judge)

    parts = [{("old", c)} for c in range(N_CLASSES)] + [{("new", c)} for c in range(N_CLASSES)]
    for q in range(n):
        if both[0][q] and both[1][q]:
            joined = {("old", *both[0][q]), ("new", *both[1][q])}
            touched = [part for part in parts if part & joined]
            parts = [part for part in parts if not part & joined] + [set.union(*touched)]
    exposed, least = [0, 0, 0], []

    def count(values: Counter[int]) -> int:
        if values:
            least.append(len(values))
        return values.total() if 0 < len(values) < floor else 0

    for part in parts:
        old, new = ([counts[place][c] for side, c in part if side == name] for place, name in enumerate(("old", "new")))
        exposed[0] += max(count(difference(new, old)), count(difference(old, new)))
    for outer, inner in ((1, 0), (0, 1)):
        for c in range(N_CLASSES):
            within = []
            for d in range(N_CLASSES):
                there = [q for q in range(n) if d in both[inner][q]]
                if there and all(c in both[outer][q] for q in there) and len(there) == counts[inner][d].total():
                    within.append(counts[inner][d])
            if within:
                exposed[2 - outer] += count(difference([counts[outer][c]], within))
    assert found == (max(exposed), min(least, default=None))
