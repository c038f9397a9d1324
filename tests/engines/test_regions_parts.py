"""The parts of planning region by region: budgets, samples, cuts, joins, sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.anonymize import anonymize
from shoal.core.errors import UsageError
from shoal.core.progress import Silent
from shoal.engines.local import CountedCells, LocalEngine, SampledCells
from shoal.engines.regions import budget as budgets
from shoal.engines.regions.budget import Budget, parse_memory
from shoal.engines.regions.planning import settle_regions
from shoal.engines.regions.routing import RegionCounts
from shoal.engines.regions.tree import RegionTree, cut_regions
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.k_anonymity import KAnonymity
from shoal.plan.cells import Cells
from shoal.plan.counted import Thinning
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.policy.binding import WholeTable
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.release.columns import key_ranges, read_ranges
from shoal.sources.base import Source, SourceOptions
from shoal.sources.frames import open_arrow
from shoal.taxonomies.builders.intervals import NumbersTaxonomy
from shoal.taxonomies.files import from_nested
from shoal.utility.base import Pool, Total, measure

NUMBER = NumbersTaxonomy().build(pa.array(range(32)))
CITY = from_nested({"*": {"north": ["a", "b"], "south": ["c", "d", "e"], "west": ["f"]}})
ILL = from_nested({"*": ["x", "y", "z"]})


def opened(table: pa.Table, batch_rows: int) -> Source:
    return open_arrow(table, SourceOptions(), "the test table", batch_rows)


def looked(table: pa.Table, most: int, sample: int, *, batch_rows: int = 500, threads: int = 2, seed: int = 1) -> Any:
    thinning = Thinning(most, sample, lambda: np.random.default_rng(seed))
    return LocalEngine(threads).look(opened(table, batch_rows), table.column_names, Silent(), thinning)


def wide(n_rows: int, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    a = pa.array(rng.integers(0, 3000, n_rows), mask=rng.random(n_rows) < 0.05)
    return pa.table({"s": pa.array(rng.choice(["x", "y", "z"], n_rows)), "a": a})


@pytest.mark.parametrize("memory", ["", "much", "-1GiB", "2XB", "GiB", "1e9"])
def test_memory_that_cannot_be_read_is_refused(memory: str) -> None:
    with pytest.raises(UsageError, match="write it like 2GiB"):
        parse_memory(memory)


def test_too_little_memory_is_refused_before_anything_is_read(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="767 MiB; shoal needs at least 768 MiB"):
        anonymize(tmp_path / "nothing.csv", tmp_path / "nothing.yaml", memory="767MiB")


@pytest.mark.parametrize("memory", ["768MiB", "900MiB", "1GiB", "2GiB", "64GiB"])
def test_budgets_add_up_to_less_than_the_limit(memory: str) -> None:
    budget = Budget.of(memory)
    assert 0 < budget.sample <= budget.region_rows <= budget.cells
    assert budget.heap_rows >= 1 << 14
    assert budget.threads >= 1
    assert budget.cells * 150 < budget.limit


def test_the_limit_of_the_control_group_counts(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "_CGROUP", tmp_path)
    assert budgets.machine_memory() > 0
    (tmp_path / "memory.max").write_text("max\n")
    everything = budgets.machine_memory()
    (tmp_path / "memory.max").write_text(f"{900 << 20}\n")
    assert budgets.machine_memory() == 900 << 20 < everything


def test_a_table_within_the_limit_is_counted_in_full() -> None:
    table = wide(2000)
    found = looked(table, 5000, 500)
    assert isinstance(found, CountedCells)
    plain = LocalEngine().count(opened(table, 500), table.column_names, Silent())
    assert np.array_equal(found.run.keys, plain.run.keys)
    assert np.array_equal(found.run.counts, plain.run.counts)


@pytest.mark.parametrize("batch_rows", [300, 1000, 100_000])
def test_a_table_beyond_it_is_sampled_and_its_values_are_counted_exactly(batch_rows: int) -> None:
    table = wide(6000)
    found = looked(table, 1000, 400, batch_rows=batch_rows)
    assert isinstance(found, SampledCells)
    assert found.n_rows == 6000
    assert len(found.sample.run.counts) <= 400
    assert found.sample.run.counts.sum() == pytest.approx(6000 * found.share, rel=0.5)
    plain = LocalEngine().count(opened(table, batch_rows), table.column_names, Silent())
    for column in range(2):
        assert np.array_equal(found.records(column), plain.records(column))
        assert np.array_equal(found.find_used(column), plain.find_used(column))
        assert found.in_use(column)[0].equals(plain.in_use(column)[0])


def test_a_sample_is_fair() -> None:
    """A value on half of the records has half of the sample; off by 8 standard deviations less than once in 10**14."""
    table = pa.table({"half": pa.array(["a", "b"] * 20_000), "number": pa.array(range(40_000))})
    found = looked(table, 5000, 4000, batch_rows=3000)
    codes = found.sample.codes(0)
    n = int(found.sample.run.counts.sum())
    n_first = int(found.sample.run.counts[codes == 1].sum())
    assert abs(n_first - n / 2) < 8 * np.sqrt(n / 4)
    numbers = found.sample.codes(1)
    assert abs(np.mean(numbers) - 20_000) < 8 * 40_000 / np.sqrt(12 * n)


def sample_problem(seed: int, n_cells: int = 2000, requirements: tuple[Requirement, ...] = ()) -> Problem:
    rng = np.random.default_rng(seed)
    codes = (rng.integers(0, 32, n_cells), rng.integers(0, 6, n_cells), rng.integers(0, 3, n_cells))
    cells = Cells(codes, np.ones(n_cells, dtype=np.int64))
    return Problem((Attribute("n", NUMBER), Attribute("city", CITY)), (Attribute("s", ILL),), cells, requirements)


def boxes(tree: RegionTree) -> list[tuple[list[int], list[int]]]:
    return [(tree.nodes[leaf].lo.tolist(), tree.nodes[leaf].hi.tolist()) for leaf in tree.leaves]


@pytest.mark.parametrize("by_nodes", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_regions_are_boxes_that_tile_the_domain(seed: int, by_nodes: bool) -> None:
    tree = cut_regions(sample_problem(seed), 0.1, 1500, by_nodes=by_nodes)
    covered = np.zeros((32, 6), dtype=int)
    for lo, hi in boxes(tree):
        covered[lo[0] : hi[0], lo[1] : hi[1]] += 1
    assert (covered == 1).all()
    assert len(tree.leaves) >= 20_000 // 1500
    if by_nodes:
        for node in (tree.nodes[leaf] for leaf in tree.leaves):
            assert node.closed
            for j, taxonomy in enumerate((NUMBER, CITY)):
                covering = taxonomy.covering(int(node.lo[j]), int(node.hi[j]))
                assert (taxonomy.lo[covering], taxonomy.hi[covering]) == (node.lo[j], node.hi[j])


def test_cuts_that_would_break_a_model_are_not_made() -> None:
    """Value x has city a alone: a cut of cities would leave a side without it."""
    rng = np.random.default_rng(1)
    n = 3000
    number, city = rng.integers(0, 32, n), rng.integers(0, 6, n)
    ill = np.where(city == 0, 0, 1 + rng.integers(0, 2, n)).astype(np.int32)
    requirement = Requirement(DistinctLDiversity(l=3, attribute="s"), 0, ill, 3, ILL, place=0)
    cells = Cells((number, city, ill), np.ones(n, dtype=np.int64))
    problem = Problem((Attribute("n", NUMBER), Attribute("city", CITY)), (Attribute("s", ILL),), cells, (requirement,))
    tree = cut_regions(problem, 1.0, 300, by_nodes=False)
    assert len(tree.leaves) > 4
    assert all((lo[1], hi[1]) == (0, 6) for lo, hi in boxes(tree))


def counts_of(tree: RegionTree, values: list[list[int]]) -> RegionCounts:
    table = np.array(values, dtype=np.int64)
    assert len(table) == len(tree.leaves)
    return RegionCounts(table.sum(axis=1), {("s",): table}, {"s": table.shape[1]}, 0)


def requiring(model: Any, counts: RegionCounts) -> Problem:
    whole = counts.whole
    assert isinstance(whole, WholeTable)
    problem = sample_problem(1, 50)
    if isinstance(model, KAnonymity):
        asked = Requirement(model, 0)
    else:
        asked = Requirement(model, 0, problem.cells.codes[2].astype(np.int32), 3, ILL, place=0)
    return Problem(problem.quasi, problem.sensitive, problem.cells, (asked,))


def four_leaves() -> RegionTree:
    """Two cuts of the number within a cut of the number: leaves from 0, 8, 16 and 24 on."""
    tree = cut_regions(sample_problem(2, 4000), 1.0, 1100, by_nodes=False)
    assert len(tree.leaves) == 4
    return tree


def test_a_region_that_fails_is_joined_with_its_sibling() -> None:
    tree = four_leaves()
    counts = counts_of(tree, [[5, 5, 5], [5, 5, 5], [20, 0, 0], [5, 5, 5]])
    found = settle_regions(tree, counts, requiring(DistinctLDiversity(l=3, attribute="s"), counts))
    assert sorted(region.leaves for region in found) == sorted([*_alone(tree, 2), _siblings(tree, 2)])
    joined = next(region for region in found if len(region.leaves) == 2)
    assert joined.n_records == 35
    sides = [tree.nodes[tree.leaves[leaf]] for leaf in joined.leaves]
    assert joined.lo.tolist() == np.min([side.lo for side in sides], axis=0).tolist()
    assert joined.hi.tolist() == np.max([side.hi for side in sides], axis=0).tolist()


def _siblings(tree: RegionTree, leaf: int) -> tuple[int, ...]:
    number = {node: place for place, node in enumerate(tree.leaves)}
    for node in tree.nodes:
        if node.attribute >= 0 and tree.leaves[leaf] in (node.below, node.above):
            return number[node.below], number[node.above]
    raise AssertionError("the leaf has no parent")


def _alone(tree: RegionTree, leaf: int) -> list[tuple[int, ...]]:
    return [(other,) for other in range(len(tree.leaves)) if other not in _siblings(tree, leaf)]


def test_what_only_all_together_meet_is_one_region() -> None:
    tree = four_leaves()
    counts = counts_of(tree, [[9, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]])
    (found,) = settle_regions(tree, counts, requiring(DistinctLDiversity(l=3, attribute="s"), counts))
    assert sorted(found.leaves) == [0, 1, 2, 3]
    assert found.n_records == 36


def test_keys_of_ranges_are_as_wide_as_they_have_to_be() -> None:
    wide = NumbersTaxonomy().build(pa.array(range(50_000)))
    lo, hi = np.array([0, 49_999], dtype=np.int32), np.array([50_000, 50_000], dtype=np.int32)
    for tree, kind in ((NUMBER, np.int32), (wide, np.int64)):
        keys = key_ranges(tree, np.minimum(lo, 31), np.minimum(hi, tree.n_leaves), 7)
        assert keys.dtype == kind
        assert [ends.tolist() for ends in read_ranges(tree, keys - 7)] == [[0, 31], [min(50_000, tree.n_leaves)] * 2]


def test_measures_of_parts_add_up_to_those_of_the_table() -> None:
    table = wide(800)
    asked = {
        "attributes": {"a": {"role": "quasi"}, "s": {"role": "sensitive"}},
        "privacy": [{"k-anonymity": {"k": 3}}],
    }
    loaded = Policy.load(asked)
    problem = encode(LocalEngine().count(opened(table, 500), ("s", "a"), Silent()), loaded).problem
    plan = loaded.method.plan(problem, np.random.default_rng(1), Silent())
    assert isinstance(plan, Plan)
    last = plan.n_classes - 1
    class_of = np.where(plan.assignment.class_of == last, WITHHELD, plan.assignment.class_of).astype(np.int32)
    plan = Plan.of_cells(plan.lo[:last], plan.hi[:last], class_of, problem.cells.counts)
    pools, n_withheld = [], 0
    middle = plan.n_classes // 2
    for which in (np.arange(middle), np.arange(middle, plan.n_classes)):
        number = np.full(plan.n_classes + 1, -1, dtype=np.int32)
        number[which] = np.arange(len(which), dtype=np.int32)
        mine = np.isin(plan.assignment.class_of, which)
        mine |= (plan.assignment.class_of < 0) & (which[0] == 0)
        cells = Cells(tuple(codes[mine] for codes in problem.cells.codes), problem.cells.counts[mine])
        part = Problem(problem.quasi, problem.sensitive, cells, ())
        classes = number[plan.assignment.class_of[mine]]
        half = Plan.of_cells(plan.lo[which], plan.hi[which], classes, cells.counts)
        n_withheld += half.n_withheld
        pools.append(Pool.of(part, half))
    assert n_withheld == plan.n_withheld > 0
    total = Total(problem.quasi, problem.sensitive, problem.cells.n_records, plan.n_withheld)
    found, wanted = (pools[0] + pools[1]).measure(total), measure(problem, plan, detail=True)
    assert {"um", "ncp", "loss", "attribute-loss", "class-size", "discernibility"} <= set(found)
    for name, value in found.items():
        assert value == pytest.approx(wanted[name], rel=1e-12)


@pytest.mark.parametrize("method", ["mondrian", "sweep"])
def test_classes_of_a_region_publish_nothing_beyond_it(method: str) -> None:
    problem = sample_problem(6, 600, (Requirement(KAnonymity(k=20), 0),))
    node = problem.quasi[0].taxonomy.children(problem.quasi[0].taxonomy.root)[0]
    first, end = int(problem.quasi[0].taxonomy.lo[node]), int(problem.quasi[0].taxonomy.hi[node])
    lo, hi = np.array([first, 0], dtype=np.int32), np.array([end, 6], dtype=np.int32)  # a node of each attribute
    inside = (problem.cells.codes[0] >= first) & (problem.cells.codes[0] < end)
    cells = Cells(tuple(codes[inside] for codes in problem.cells.codes), problem.cells.counts[inside])
    region = Problem(problem.quasi, problem.sensitive, cells, problem.requirements, box=(lo, hi))
    asked = {"attributes": {"n": {"role": "quasi"}}, "privacy": [{"k-anonymity": {"k": 2}}], "method": {method: {}}}
    plan = Policy.load(asked).method.plan(region, np.random.default_rng(1), Silent())
    assert isinstance(plan, Plan)
    assert plan.n_classes > 1 or method == "sweep"
    assert (plan.lo >= lo).all()
    assert (plan.hi <= hi).all()
    assert plan.sizes.sum() == inside.sum()
