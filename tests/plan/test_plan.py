"""Plans: assignments, their move to counted cells, dealing by quotas, and what plans promise."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from shoal.core.errors import InputError
from shoal.core.kernels import same_rows
from shoal.core.randomness import Chance
from shoal.models.k_anonymity import KAnonymity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.plan.cells import Cells
from shoal.plan.plan import KEPT, SPLIT, WITHHELD, Assignment, Dealer, Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.policy.policy import Policy
from shoal.release.figures import measure_guarantees
from shoal.taxonomies.files import from_nested


def triples(assignment: Assignment, counts: np.ndarray) -> Counter[tuple[int, int]]:
    records: Counter[tuple[int, int]] = Counter()
    for cell, target, amount in zip(*assignment.pieces(counts), strict=True):
        records[int(cell), int(target)] += int(amount)
    return records


def test_pieces_of_a_cell_that_share_a_class_are_one() -> None:
    plan = Assignment.of_pieces(2, np.array([1, 0, 1, 1]), np.array([3, 2, 3, 4]), np.array([2, 9, 1, 5]))
    assert plan.class_of.tolist() == [2, SPLIT]
    assert plan.split_cells.tolist() == [1]
    assert plan.target.tolist() == [3, 4]
    assert plan.quota.tolist() == [3, 5]
    assert plan.first.tolist() == [0, 2]


def test_a_cell_that_is_partly_withheld_is_split() -> None:
    plan = Assignment.of_pieces(1, np.array([0, 0]), np.array([0, WITHHELD]), np.array([4, 1]))
    assert plan.class_of.tolist() == [SPLIT]
    assert sorted(zip(plan.target.tolist(), plan.quota.tolist(), strict=True)) == [(WITHHELD, 1), (0, 4)]


@pytest.mark.parametrize("seed", range(5))
def test_pieces_come_back_as_they_were_given(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells, classes = rng.integers(8, size=40), rng.integers(-1, 5, size=40)
    amounts = rng.integers(1, 6, size=40)
    counts = np.bincount(cells, weights=amounts, minlength=8).astype(np.int64)
    expected: Counter[tuple[int, int]] = Counter()
    for cell, target, amount in zip(cells.tolist(), classes.tolist(), amounts.tolist(), strict=True):
        expected[cell, target] += amount
    assert triples(Assignment.of_pieces(8, cells, classes, amounts), counts) == expected


def test_relocated_puts_cells_back_among_those_that_were_dropped() -> None:
    plan = Assignment.of_pieces(3, np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1]), np.array([5, 2, 1, 4]))
    moved = plan.relocate(6, np.array([1, 3, 4]))
    assert moved.class_of.tolist() == [WITHHELD, 0, WITHHELD, SPLIT, 1, WITHHELD]
    assert moved.split_cells.tolist() == [3]
    assert moved.quota.tolist() == [2, 1]


def dealt(assignment: Assignment, cells: np.ndarray, batch: int, seed: int) -> np.ndarray:
    dealer = Dealer(assignment, Chance.of(seed))
    return np.concatenate([dealer.deal(cells[start : start + batch]) for start in range(0, len(cells), batch)])


@pytest.mark.parametrize("batch", [1, 3, 10, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_quotas_are_met_exactly_however_rows_come(batch: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells, classes = rng.integers(6, size=30), rng.integers(-1, 4, size=30)
    amounts = rng.integers(1, 9, size=30)
    counts = np.bincount(cells, weights=amounts, minlength=6).astype(np.int64)
    assignment = Assignment.of_pieces(6, cells, classes, amounts)
    rows = rng.permutation(np.repeat(np.arange(6), counts))
    before = assignment.quota.copy()
    targets = dealt(assignment, rows, batch, seed)
    expected = {pair: amount for pair, amount in triples(assignment, counts).items() if amount}
    assert Counter(zip(rows.tolist(), targets.tolist(), strict=True)) == expected
    assert np.array_equal(assignment.quota, before)


def test_more_rows_than_quotas_mean_that_the_source_has_changed() -> None:
    pieces = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([1, 1, 1, 1])
    assignment = Assignment.of_pieces(2, *pieces)
    dealer = Dealer(assignment, Chance.of(0))
    with pytest.raises(InputError, match="changed while it was being read"):
        dealer.deal(np.array([0, 0, 0, 1]))


def test_classes_that_publish_the_same_are_one_class() -> None:
    lo = np.array([[0, 0], [1, 0], [0, 0]], dtype=np.int32)
    hi = np.array([[1, 2], [2, 2], [1, 2]], dtype=np.int32)
    counts = np.array([3, 4, 5, 6])
    class_of = np.array([0, 1, 2, WITHHELD], dtype=np.int32)
    plan = Plan.of_pieces(lo, hi, 4, np.arange(4), class_of, counts, {"people": np.array([7, 8, 7])})
    assert plan.n_classes == 2
    assert plan.sizes.tolist() == [8, 4]
    assert plan.n_withheld == 6
    assert plan.population["people"].tolist() == [7, 8]


def test_ranges_too_many_for_one_number_are_still_told_apart() -> None:
    rng = np.random.default_rng(2)
    lo = rng.integers(1 << 30, size=(200, 6)).astype(np.int32)
    lo = np.concatenate([lo, lo])
    numbers = np.arange(400, dtype=np.int32)
    plan = Plan.of_pieces(lo, lo + 1, 400, numbers, numbers, np.ones(400, dtype=np.int64))
    assert plan.n_classes == 200
    assert np.array_equal(plan.lo[plan.assignment.class_of], lo)


def small_problem(n_classes: int, seed: int) -> tuple[Problem, Plan, np.ndarray]:
    """Classes of one quasi value each, with two sensitive values."""
    rng = np.random.default_rng(seed)
    table = rng.integers(2, 9, size=(n_classes, 2))
    quasi = from_nested({"*": [f"q{i:03}" for i in range(n_classes)]})
    sensitive = from_nested({"*": ["a", "b"]})
    codes = np.repeat(np.arange(n_classes, dtype=np.int32), 2)
    values = np.tile(np.array([0, 1], dtype=np.int32), n_classes)
    cells = Cells((codes, values), table.reshape(-1))
    requirements = (
        Requirement(KAnonymity(k=2), 0),
        Requirement(SimpleLDiversity(l=1), 1, values, 2, sensitive),
    )
    problem = Problem((Attribute("q", quasi),), (Attribute("s", sensitive),), cells, requirements)
    lo = np.arange(n_classes, dtype=np.int32)[:, np.newaxis]
    return problem, Plan.of_cells(lo, lo + 1, codes, cells.counts), table


POLICY = Policy.load(
    {
        "attributes": {"q": {"role": "quasi"}, "s": {"role": "sensitive"}},
        "privacy": [{"k-anonymity": {"k": 2}}, {"simple-l-diversity": {"l": 1}}],
    }
)


def test_withheld_records_do_not_count_towards_what_is_achieved() -> None:
    problem, plan, table = small_problem(4, 3)
    class_of = plan.assignment.class_of.copy()
    class_of[0] = WITHHELD  # the first value of the first class
    fewer = Plan.of_cells(plan.lo, plan.hi, class_of, problem.cells.counts)
    table[0, 0] = 0
    size, diversity = measure_guarantees(problem, fewer, POLICY)
    assert size.achieved == table.sum(axis=1).min()
    assert diversity.achieved == 1


def parts_of(rows: list[tuple[int, int, int, int, int]]) -> tuple:
    """Columns of parts with one sensitive attribute, from (cell, class, lo, hi, records)."""
    cell, owner, lo, hi, records = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return cell, owner, records, (lo.astype(np.int32)[:, np.newaxis], hi.astype(np.int32)[:, np.newaxis])


LABELS = np.array([[0], [1]], dtype=np.int32)


def test_parts_under_ranges_of_sensitive_values_are_targets() -> None:
    cells = Cells((np.array([0, 1]), np.array([0, 1], dtype=np.int32)), np.array([5, 4]))
    rows = [(0, 0, KEPT, 0, 2), (0, 0, 0, 2, 1), (1, 0, 0, 2, 3), (1, 1, KEPT, 0, 1)]
    plan = Plan.of_parts(LABELS, LABELS + 1, cells, *parts_of(rows), {"people": np.array([7, 8])})
    assert plan.n_withheld == 2  # of cell 0, which are in no part
    assert plan.sizes.tolist() == [6, 1]
    assert plan.population["people"].tolist() == [7, 8]
    targets = plan.targets
    assert targets is not None
    stated = zip(targets.class_of, targets.lo[:, 0], targets.hi[:, 0], targets.records, strict=True)
    assert sorted(tuple(map(int, row)) for row in stated) == [(0, KEPT, 0, 2), (0, 0, 2, 4), (1, KEPT, 0, 1)]
    found: Counter[tuple[int, int, int]] = Counter()
    for cell, class_of, records, target in zip(*plan.pieces(cells.counts), strict=True):
        low = KEPT if class_of == WITHHELD else int(targets.lo[target, 0])
        found[int(cell), int(class_of), low] += int(records)
    assert found == Counter({(0, 0, KEPT): 2, (0, 0, 0): 1, (0, WITHHELD, KEPT): 2, (1, 0, 0): 3, (1, 1, KEPT): 1})


def test_parts_of_classes_with_the_same_ranges_are_in_one_class() -> None:
    cells = Cells((np.array([0, 0]), np.array([0, 1], dtype=np.int32)), np.array([3, 4]))
    same = np.zeros((2, 1), dtype=np.int32)
    plan = Plan.of_parts(same, same + 1, cells, *parts_of([(0, 0, 0, 2, 3), (1, 1, 0, 2, 4)]))
    assert plan.n_classes == 1
    assert plan.targets is not None
    assert plan.targets.records.tolist() == [7]


@pytest.mark.parametrize("seed", range(4))
def test_same_rows_tells_rows_apart_and_only_those(seed: int) -> None:
    rng = np.random.default_rng(seed)
    large = [1 << 30, 3, 1 << 31, 5, 1 << 30, 2]
    table = np.stack([rng.integers(0, size, 30) for size in large], axis=1)
    table = np.concatenate([table, table[rng.integers(0, 30, 40)]])
    first, group = same_rows(tuple(table.T))
    assert np.array_equal(table[first][group], table)
    assert len(first) == len(np.unique(table, axis=0))
    assert all(first[number] == np.flatnonzero(group == number)[0] for number in range(len(first)))


def test_without_a_seed_dealing_follows_from_the_operating_system_alone(monkeypatch):
    assignment = Assignment.of_pieces(1, np.array([0, 0]), np.array([0, 1]), np.array([20, 20]))

    def dealt():
        monkeypatch.setattr("shoal.core.randomness.os.urandom", np.random.default_rng(5).bytes)
        return Dealer(assignment, Chance.of(None)).deal(np.zeros(40, dtype=np.int64)).tolist()

    assert dealt() == dealt()
