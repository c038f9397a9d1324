"""Synthetic tables: declared domains, the account, the tree, and rows that agree with the counts."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shoal.core.errors import PolicyError, UsageError
from shoal.core.randomness import Chance
from shoal.methods.synthetic import Synthetic
from shoal.methods.synthetic.junction import non_negative
from shoal.methods.synthetic.synthesis import Mechanisms, Rounds, distances, synthesize, total_variation
from shoal.plan.synthetic import Domain, Records, SyntheticPlan
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy, NumbersTaxonomy
from shoal.taxonomies.builders.listed import FlatTaxonomy


def domain(name: str, size: int) -> Domain:
    values = tuple(f"{name}{i}" for i in range(size))
    return Domain(name, FlatTaxonomy(values=values).build(pa.array([], pa.string())))


DOMAINS = [domain("a", 4), domain("b", 5), domain("c", 3), domain("d", 6)]


def people(n_rows: int = 20_000) -> list[np.ndarray]:
    """The attributes hang together as b - a, c - b and d - b."""
    rng = np.random.default_rng(8)
    a = rng.integers(0, 4, n_rows)
    b = np.where(rng.random(n_rows) < 0.8, a, rng.integers(0, 5, n_rows))
    c = np.where(rng.random(n_rows) < 0.8, b % 3, rng.integers(0, 3, n_rows))
    d = np.where(rng.random(n_rows) < 0.8, 5 - b, rng.integers(0, 6, n_rows))
    return [column.astype(np.int32) for column in (a, b, c, d)]


def made(*, seed: int = 1, **options: object) -> SyntheticPlan:
    pytest.importorskip("opendp")
    return synthesize(people(), DOMAINS, Synthetic(**options), Chance.of(seed))


def shares(table: pa.Table, *names: str) -> np.ndarray:
    codes, size = np.zeros(table.num_rows, dtype=np.int64), 1
    for name in names:
        one = next(domain for domain in DOMAINS if domain.name == name)
        codes, size = codes * one.size + one.taxonomy.encode(table[name].combine_chunks()), size * one.size
    return np.bincount(codes, minlength=size) / table.num_rows


def truth() -> pa.Table:
    return pa.table({one.name: one.decode(codes) for one, codes in zip(DOMAINS, people(), strict=True)})


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": float("inf")},
        {"epsilon": float("nan")},
        {"epsilon": 1, "delta": -1e-9},
        {"epsilon": 1, "delta": 0.5},
        {"epsilon": 1, "rows": 0},
        {"epsilon": 1, "rows": 10**9},
        {"epsilon": 1, "tree": [["a", "b"], ["b", "c"], ["c", "a"]]},
        {"epsilon": 1, "tree": [["a", "a"]]},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Synthetic(**options)


@pytest.mark.parametrize("builder", [FlatTaxonomy(), NumbersTaxonomy()])
def test_domains_from_the_data_are_refused(builder: FlatTaxonomy | NumbersTaxonomy) -> None:
    with pytest.raises(PolicyError, match=r"column 'x': .* taken from the data, not declared"):
        Domain("x", builder.build(pa.array(["1", "2"])))


def test_domains_encode_and_decode() -> None:
    ages = Domain("age", IntervalsTaxonomy(min=0, max=9).build(pa.array([])))
    assert ages.taxonomy.encode(pa.array(["3", None, "12", "0"])).tolist() == [3, -1, -1, 0]
    assert ages.decode(np.array([9, 0], dtype=np.int32)).to_pylist() == ["9", "0"]
    with_missing = Domain("age", ages.taxonomy.with_missing())
    assert with_missing.size == 11
    assert with_missing.taxonomy.encode(pa.array(["3", None, "12"])).tolist() == [3, 10, -1]
    assert with_missing.decode(np.array([10, 1], dtype=np.int32)).to_pylist() == ["missing", "1"]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_large_epsilon_keeps_the_marginals(delta: float) -> None:
    release = made(epsilon=1000, delta=delta)
    assert {("a", "b"), ("b", "c"), ("b", "d")} <= {one for one in release.names if len(one) == 2}
    assert abs(release.table.num_rows - 20_000) <= 1
    for names in ("a", "b", "c", "d", "ab", "bc", "bd"):
        assert np.abs(shares(release.table, *names) - shares(truth(), *names)).sum() < 0.005
    assert np.abs(shares(release.table, "c", "d") - shares(truth(), "c", "d")).sum() < 0.03


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 0.0), (1.0, 0.0), (0.3, 1e-5), (2.0, 1e-9), (7.3, 0.0)])
def test_the_account_is_within_the_budget(epsilon: float, delta: float) -> None:
    release = made(epsilon=epsilon, delta=delta)
    said = release.describe()
    assert (said["epsilon"], said["delta"], said["spent"]["delta"]) == (epsilon, delta, delta)
    assert said["spent"]["epsilon"] <= epsilon
    assert said["spent"]["epsilon"] > (1 - 1e-6) * epsilon
    losses = sum((Fraction(entry["loss"]) for entry in said["ledger"]), Fraction(0))
    assert losses <= Fraction(said["spent"]["rho" if delta else "epsilon"])
    purposes = [entry["purpose"] for entry in said["ledger"]]
    assert purposes[:4] == ["counts of a", "counts of b", "counts of c", "counts of d"]
    counted = [purpose for purpose in purposes[4:] if purpose.startswith("counts of")]
    assert [purpose for purpose in purposes[4:] if purpose not in counted] == [
        f"choice {number + 1}" for number in range(len(counted))
    ]
    json.dumps(said)


def test_gaussian_losses_are_those_of_concentrated_privacy() -> None:
    release = made(epsilon=1.0, delta=1e-6)
    counts = [entry for entry in release.ledger if entry.purpose.startswith("counts")]
    for entry in counts:
        assert entry.loss == pytest.approx(1 / (2 * entry.scale**2), rel=1e-9)
    rho = release.spent["rho"]
    simple = rho + 2 * np.sqrt(rho * np.log(1e6))  # Bun and Steinke; OpenDP's conversion is tighter
    assert 0.5 * simple < release.spent["epsilon"] <= simple


def test_trees_of_unknown_or_too_large_pairs_are_refused() -> None:
    pytest.importorskip("opendp")
    with pytest.raises(PolicyError, match="'z' is not an attribute"):
        made(epsilon=1.0, tree=[["a", "z"]])
    large = [domain("x", 600), domain("y", 600)]
    zeros = np.zeros(10, dtype=np.int32)
    with pytest.raises(PolicyError, match="360,000 joint values"):
        synthesize([zeros, zeros], large, Synthetic(epsilon=1, tree=(("x", "y"),)), Chance.of(1))
    release = synthesize([zeros, zeros], large, Synthetic(epsilon=1), Chance.of(1))
    assert release.names == ()
    assert release.spent["epsilon"] > 0.999999  # nothing is left unused where no pair can be counted


def test_relations_that_no_tree_of_pairs_has_are_kept() -> None:
    """c goes with a and b, d with a, b and c: five relations, of which a tree has three.

    Noise moves the share of a cell by less than 0.001 (20,000 records, epsilon 3) and rows by about as much, so that a
    distance of 0.03 is far beyond both; fewer than one run in 10**6 fails. Independence is off by 0.1 and more.
    """
    pytest.importorskip("opendp")
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 4, 20_000), rng.integers(0, 5, 20_000)
    c = np.where(rng.random(20_000) < 0.5, a % 3, b % 3)
    d = np.select([rng.random(20_000) < 0.4, rng.random(20_000) < 0.5], [a, b], c)
    columns = [column.astype(np.int32) for column in (a, b, c, d)]
    release = synthesize(columns, DOMAINS, Synthetic(epsilon=3), Chance.of(1))
    found = distances(columns, np.ones(20_000, dtype=np.int64), release)
    assert max(entry["distance"] for entry in found["pairs"]) < 0.03
    independent = np.outer(np.bincount(b), np.bincount(d)) / 20_000
    together = np.bincount(b * 5 + d, minlength=25).reshape(5, 5)
    assert np.abs(together - independent).sum() / 40_000 > 0.1


def test_a_record_changes_no_score_by_more_than_one() -> None:
    pytest.importorskip("opendp")
    domains = tuple(
        Domain(one.name, one.taxonomy, weight) for one, weight in zip(DOMAINS, (1, 0.7, 0.2, 3), strict=True)
    )
    columns, rng = people(300), np.random.default_rng(3)

    def rounds(counts: np.ndarray) -> Rounds:
        return Rounds(Records(tuple(columns), counts, domains), Mechanisms.of(1.0, 0.0))

    counts = np.ones(300, dtype=np.int64)
    for row in rng.integers(0, 300, 20):
        more = counts.copy()
        more[row] += 1
        for one in ((0,), (1, 2), (0, 2, 3)):
            expected = rng.uniform(0, 20, [domains[place].size for place in one])
            scores = [rounds(each)._score(one, expected, 0.01) for each in (counts, more)]
            assert abs(scores[0] - scores[1]) <= 1


def test_the_holder_is_warned_of_what_promises_little() -> None:
    def warned(**options: object) -> str:
        return " ".join(made(rows=5, **options).warnings)

    assert warned(epsilon=1, delta=1e-9) == ""
    assert "almost nothing" in warned(epsilon=11)
    assert "delta" in warned(epsilon=1, delta=1e-4)
    assert warned(epsilon=1, tree=[]) == ""
    large, zeros = [domain("x", 600), domain("y", 600)], np.zeros(10, dtype=np.int32)
    lonely = synthesize([zeros, zeros], large, Synthetic(epsilon=1, rows=5), Chance.of(1))
    assert ["independent" in warning for warning in lonely.warnings] == [True]


def test_distances_are_those_of_shares() -> None:
    release = made(epsilon=1000, rows=20_000)
    cells = [column.astype(np.int16) for column in people()]
    found = distances(cells, np.ones(20_000, dtype=np.int64), release)
    assert (found["records"], found["outside"]) == (20_000, 0)
    for name, distance in found["attributes"].items():
        assert distance == pytest.approx(
            np.abs(shares(release.table, name) - shares(truth(), name)).sum() / 2, abs=1e-6
        )
    for entry in found["pairs"]:
        assert entry["kept"] is any(set(entry["pair"]) <= set(one) for one in release.names)
    for entry in found["pairs"]:
        gap = np.abs(shares(release.table, *entry["pair"]) - shares(truth(), *entry["pair"])).sum() / 2
        assert entry["distance"] == pytest.approx(gap, abs=1e-6)
    assert total_variation(np.array([4, 0]), np.array([0, 9])) == 1.0


def test_records_outside_the_domain_are_left_out_and_counted_for_the_holder() -> None:
    pytest.importorskip("opendp")
    columns = people(1000)
    columns[1] = columns[1].copy()
    columns[1][:100] = -1
    release = synthesize(columns, DOMAINS, Synthetic(epsilon=500), Chance.of(1))
    assert release.n_outside == 100
    assert abs(release.table.num_rows - 900) <= 1
    assert "outside" not in json.dumps(release.describe())


def test_noise_does_not_follow_the_seed() -> None:
    one, other = (made(epsilon=0.5, seed=3) for _ in range(2))
    assert not one.table.equals(other.table)


def test_only_declared_values_come_out() -> None:
    release = made(epsilon=0.01, rows=500)
    for one in DOMAINS:
        assert one.taxonomy.encode(release.table[one.name].combine_chunks()).min() >= 0


def test_what_is_over_the_budget_is_refused() -> None:
    pytest.importorskip("opendp")
    mechanisms = Mechanisms.of(1.0, 0.0)
    mechanisms.noisy_counts(np.array([1, 2]), Fraction(3, 4), "first")
    with pytest.raises(UsageError, match="used up"):
        mechanisms.noisy_counts(np.array([1, 2]), Fraction(1, 2), "second")
    assert len(mechanisms.ledger) == 1


@pytest.mark.parametrize("seed", range(8))
def test_a_budget_that_is_used_up_states_no_more_than_was_asked(seed: int) -> None:
    """The least noise at each step, whatever the shares: rounding must not add up to more than epsilon."""
    pytest.importorskip("opendp")
    rng = np.random.default_rng(seed)
    epsilon, delta, steps = 10 ** rng.uniform(-2, 1), 10 ** rng.uniform(-12, -1.1), int(rng.integers(1, 20))
    for mechanisms in (Mechanisms.of(epsilon, 0.0), Mechanisms.of(epsilon, delta)):
        for step in range(steps):
            share = (1 - mechanisms.spent / mechanisms.budget) / (steps - step)
            mechanisms.noisy_counts(np.zeros(1, dtype=np.int64), share, f"step {step}")
        assert epsilon * (1 - 1e-8) < mechanisms.state_loss()["epsilon"] <= epsilon


counts = st.lists(st.integers(-50, 50), min_size=2, max_size=12)


@given(counts, st.floats(1, 500))
def test_the_nearest_counts_are_not_negative_and_add_up(noisy: list[int], total: float) -> None:
    found = non_negative(np.array(noisy, dtype=np.float64), total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    # the nearest: what is above 0 was shifted by the same amount, what is 0 would have been shifted below
    shifts = np.array(noisy) - found
    assert np.ptp(shifts[found > 0]) < 1e-9
    assert (np.array(noisy)[found == 0] <= shifts[found > 0].max() + 1e-9).all()
