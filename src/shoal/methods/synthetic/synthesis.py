"""Differentially private synthesis: from codes to a synthetic table and its privacy account.

Noise is added to counts, a consistent model is fitted to them, and rows are drawn from the model. After the noise, the
data are not accessed, so no privacy budget is consumed.

Single attributes are counted first. Further rounds select, under noise, counts that the model describes worst (McKenna,
Mullins, Sheldon and Miklau, "AIM: an adaptive and iterative mechanism for differentially private synthetic data", PVLDB
15(11), 2022). All access to the data is by OpenDP's mechanisms; candidates, shares of the budget and models depend on
the domains and earlier noisy results only.

The account of privacy losses is exact. Two tables are neighbours if one has an additional record. A record is in one
cell of every table of counts, so the counts of neighbours differ by 1 in one cell. Their distance is 1 in every norm,
which is the sensitivity for all mechanisms.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import PolicyError, UsageError, did_you_mean
from shoal.core.randomness import Chance
from shoal.methods.synthetic import Synthetic
from shoal.methods.synthetic.junction import JunctionTree, Measured, count_cells, find_cliques, sum_to
from shoal.plan.synthetic import MOST_CELLS, Attributes, Domain, Records, Spent, SyntheticPlan

_MOST_ROWS = 10_000_000  # by default, because with a small epsilon the noisy number of records is arbitrary
_MUCH = 10  # warn the data holder about a larger epsilon
_RARE = 0.1  # warn the data holder about a larger product of delta and records


def synthesize(
    codes: Sequence[AnyIntArray],
    domains: Sequence[Domain],
    options: Synthetic,
    chance: Chance,
    counts: IntArray | None = None,
) -> SyntheticPlan:
    """Return a table that is (epsilon, delta)-differentially private for each record of the given one.

    *codes* are (n_cells,) of each attribute and *counts* the records of each cell, by default one; records with a value
    outside its domain, -1, are left out. The data are accessed only by counts with OpenDP's noise and choices by
    OpenDP's noisy maximum. OpenDP uses randomness of the operating system; *chance* only draws rows from the model.
    """
    _check_sizes(domains)
    inside = np.all([column >= 0 for column in codes], axis=0)
    every = np.ones(len(inside), dtype=np.int64) if counts is None else counts
    records = Records(tuple(column[inside].astype(np.int32) for column in codes), every[inside], tuple(domains))
    mechanisms = Mechanisms.of(options.epsilon, options.delta)
    by_hand = None if options.tree is None else look_up_tree(options.tree, domains)
    model = measure(records, by_hand, mechanisms)
    marginals = tuple(one for one in model.measured if len(one) > 1)
    n_rows = options.rows or min(max(round(model.total), 1), _MOST_ROWS)
    return SyntheticPlan(
        domains=tuple(domains),
        codes=tuple(draw_rows(model, n_rows, chance)),
        marginals=marginals,
        epsilon=options.epsilon,
        delta=options.delta,
        spent=mechanisms.state_loss(),
        ledger=tuple(mechanisms.ledger),
        n_outside=int(every[~inside].sum()),
        warnings=tuple(_warnings(options, model.total, marginals, domains)),
    )


def _warnings(options: Synthetic, total: float, marginals: Collection[Attributes], domains: Sized) -> Iterator[str]:
    """Yield warnings to the data holder, which depend on the options and noisy counts only."""
    if options.epsilon > _MUCH:
        yield (
            f"epsilon is {options.epsilon:g}: a result may be e**{options.epsilon:g} times as likely with a record as "
            f"without it, which guarantees almost nothing; even {_MUCH} is large"
        )
    if options.delta * total > _RARE:
        yield (
            f"delta is {options.delta:g}, and there are about {total:.0f} records: it should be far below one over "
            "their number, because it permits publishing a few of them unchanged"
        )
    if len(domains) > 1 and not marginals and options.tree is None:
        yield (
            "no pair of attributes was counted, because noise would hide relations: attributes are independent in the "
            "table; declare coarser values, leave attributes out, or allow a larger epsilon"
        )


def _check_sizes(domains: Sequence[Domain]) -> None:
    for domain in domains:
        if domain.size > MOST_CELLS:
            raise PolicyError(f"column {domain.name!r} has {domain.size:,} values, at most {MOST_CELLS:,} are possible")


def look_up_tree(names: Sequence[tuple[str, str]], domains: Sequence[Domain]) -> list[Attributes]:
    """Return the places of the pairs that the policy names."""
    places = {domain.name: place for place, domain in enumerate(domains)}
    pairs: list[Attributes] = []
    for both in names:
        for name in both:
            if name not in places:
                raise PolicyError(f"tree: {name!r} is not an attribute of the table{did_you_mean(name, places)}")
        first, second = sorted(places[name] for name in both)
        cells = domains[first].size * domains[second].size
        if cells > MOST_CELLS:
            raise PolicyError(
                f"tree: {both[0]!r} and {both[1]!r} have {cells:,} joint values, at most {MOST_CELLS:,} are possible; "
                "declare coarser values"
            )
        pairs.append((first, second))
    return pairs


def draw_rows(model: JunctionTree, n_rows: int, chance: Chance) -> list[CodeArray]:
    """Return (n_rows,) codes of every attribute, drawn clique by clique given earlier attributes."""
    columns: dict[int, CodeArray] = {}
    for clique in model.cliques:
        known = clique.shared
        for place in clique.attributes:
            if place in columns:
                continue
            both = tuple(sorted((*known, place)))
            shares = np.moveaxis(sum_to(clique.table, clique.attributes, both), both.index(place), -1)
            joint = np.zeros(n_rows, dtype=np.int32)
            for other in known:
                joint = joint * np.int32(model.sizes[other]) + columns[other]
            columns[place] = _draw_given(joint, shares.reshape(-1, shares.shape[-1]), chance)
            known = both
    order = chance.order(n_rows)
    return [columns[place][order] for place in range(len(columns))]


def _draw_given(known: CodeArray, shares: FloatArray, chance: Chance) -> CodeArray:
    """Draw a value for each row from (n_known, n_values) shares, given the known code of the row.

    Systematic sampling: rows with the same known code take equal steps through the cumulated shares from a common
    random start. Each value thus occurs its expected number of times, rounded up or down, in random rows.
    """
    n_known, n_values = shares.shape
    sizes = np.bincount(known, minlength=n_known)
    order = chance.order_within(known, n_known)  # rows by known code, in random order
    of_row = np.repeat(np.arange(n_known), sizes)
    start = np.cumsum(sizes) - sizes
    first = chance.fractions(n_known)
    place = np.arange(len(known)) - start[of_row] + first[of_row]
    totals = shares.sum(axis=1, keepdims=True)
    even = np.full_like(shares, 1.0 / n_values)
    cumulated = np.cumsum(np.divide(shares, totals, out=even, where=totals > 0), axis=1)
    cumulated[:, -1] = 1.0
    target = of_row + np.minimum(place / sizes[of_row], np.nextafter(1.0, 0.0))
    edges = (np.arange(n_known)[:, np.newaxis] + np.minimum(cumulated, 1.0)).ravel()
    code: IntArray = np.searchsorted(edges, target, side="right") - of_row * n_values
    some = shares > 0
    last = np.where(some.any(axis=1), n_values - 1 - np.argmax(some[:, ::-1], axis=1), n_values - 1)
    drawn = np.empty(len(known), dtype=np.int32)
    drawn[order] = np.clip(code, 0, last[of_row])  # rounding must not lead beyond the last value with a share
    return drawn


def distances(codes: Sequence[AnyIntArray], counts: IntArray, plan: SyntheticPlan) -> dict[str, object]:
    """Return total variation distances between shares of records and of rows, for attributes and pairs of them.

    The distance is the largest difference between the two shares of a set of values: 0 for equal shares, 1 for shares
    without common values. Pairs with too many joint values are left out.
    """
    published = tuple(domain.generalize(column) for domain, column in zip(plan.domains, codes, strict=True))
    records = Records(published, counts, plan.domains)
    rows = Records(plan.codes, np.ones(plan.n_rows, dtype=np.int64), plan.domains)
    sizes = [domain.size for domain in plan.domains]
    alone = {
        domain.name: round(total_variation(records.count((place,)), rows.count((place,))), 6)
        for place, domain in enumerate(plan.domains)
    }
    pairs = [
        {
            "pair": [plan.domains[place].name for place in pair],
            "distance": round(total_variation(records.count(pair), rows.count(pair)), 6),
            "kept": any(set(pair) <= set(one) for one in plan.marginals),
        }
        for pair in combinations(range(len(sizes)), 2)
        if sizes[pair[0]] * sizes[pair[1]] <= MOST_CELLS
    ]
    return {"records": int(counts.sum()), "outside": plan.n_outside, "attributes": alone, "pairs": pairs}


def total_variation(one: IntArray, other: IntArray) -> float:
    """Return the total variation distance between two tables of counts.

    >>> total_variation(np.array([3, 1]), np.array([2, 2]))
    0.25
    """
    return float(np.abs(one / max(int(one.sum()), 1) - other / max(int(other.sum()), 1)).sum()) / 2


MODEL_CELLS = 300_000  # of all cliques; bounds the time and the memory of a round
ALONE = Fraction(1, 5)  # of the budget, for single attributes
_TRIPLE_CELLS = 20_000
_KEPT_CELLS = 20_000_000  # of exact counts that are cached between rounds
_CHOICE = 0.1  # the cost of selecting, as a share of the cost of counting
_LAST = 0.6  # a round that would cost more than this share of the remaining budget uses all of it
_MOST_ROUNDS = 100  # planned for by the first round's share; shares grow if a round adds no information
_MOST_CHECKED = 400  # pairs that a round tests for room in the model
_SWEEPS, _LAST_SWEEPS, _CLEARED_SWEEPS, _ALONE_SWEEPS = 3, 100, 20, 20
_CLOSE = 1e-4  # of the records, the tolerance of fitting
_WHOLE = 1000  # the largest workload weight as an integer


def measure(records: Records, by_hand: Sequence[Attributes] | None, mechanisms: Mechanisms) -> JunctionTree:
    """Spend the whole budget and return the fitted model; pairs given *by_hand* need no selection.

    The budget of each query may depend on earlier results, as long as the total never exceeds the budget. This holds
    for sums of epsilons and of rhos (Feldman and Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS
    2021).
    """
    rounds = Rounds(records, mechanisms)
    pairs = rounds.pairs if by_hand is None else by_hand
    n_attributes = len(records.domains)
    for place in range(n_attributes):
        share = (ALONE if pairs else mechanisms.left) / (n_attributes if pairs else n_attributes - place)
        rounds.count((place,), share)
    rounds.refit()
    if by_hand is None and pairs:
        rounds.run()
    for number, pair in enumerate(by_hand or ()):
        rounds.count(pair, mechanisms.left / (len(pairs) - number))
    rounds.refit(_LAST_SWEEPS)
    rounds.model.clear_impossible([(domain.taxonomy.lo, domain.taxonomy.hi) for domain in records.domains])
    rounds.model.fit(_CLEARED_SWEEPS, _CLOSE)
    rounds.model.fit_alone(_ALONE_SWEEPS)
    return rounds.model


class Rounds:
    """The counts so far, the model fitted to them, and the candidates to count next."""

    model: JunctionTree

    def __init__(self, records: Records, mechanisms: Mechanisms) -> None:
        self._records, self._mechanisms = records, mechanisms
        self._sizes = [domain.size for domain in records.domains]
        heaviest = max(domain.weight for domain in records.domains)
        self._weights = [domain.weight / heaviest for domain in records.domains]
        self._measured: dict[Attributes, Measured] = {}
        self._started: JunctionTree | None = None
        self._kept: dict[Attributes, IntArray] = {}
        self.pairs = [pair for pair in combinations(range(len(self._sizes)), 2) if self._cells(pair) <= MOST_CELLS]

    def _cells(self, one: Attributes) -> int:
        return count_cells(self._sizes, [one])

    def _cost(self, one: Attributes) -> float:
        """Return the relative cost of a count; shares in these proportions minimize the total noise."""
        return float(self._cells(one) ** (2 / 3 if self._mechanisms.delta else 1 / 2))

    def count(self, one: Attributes, share: Fraction) -> None:
        """Count these attributes with noise, for a share of the budget."""
        names = " and ".join(self._records.domains[place].name for place in one)
        counts, variance = self._mechanisms.noisy_counts(self._exact(one), share, f"counts of {names}")
        noisy = Measured(counts.astype(np.float64), variance)
        self._measured[one] = noisy.combine(self._measured[one]) if one in self._measured else noisy

    def refit(self, sweeps: int = _SWEEPS) -> None:
        """Fit the model to all counts, starting from the previous model."""
        self._started = self.model = JunctionTree(self._sizes, self._measured, self._started)
        self.model.fit(sweeps, _CLOSE)

    def run(self) -> None:
        """Select, count and fit until the budget is used up; the last round uses all of the remaining budget.

        If the model changes by less than the noise, the share was too small and is doubled.
        """
        mechanisms = self._mechanisms
        costs = [self._cost(pair) for pair in self.pairs]
        unit = float(mechanisms.left) * (1 - _CHOICE) / (float(np.mean(costs)) * min(len(costs), _MOST_ROUNDS))
        number = 0
        while True:
            number += 1
            candidates = self._find_candidates()
            typical = float(np.mean([self._cost(one) for one in candidates]))
            expected = self._expect(candidates)
            scores = [self._score(one, expected[one], unit) for one in candidates]
            share = Fraction(_CHOICE * min(unit * typical, float(mechanisms.left)))
            chosen = candidates[mechanisms.largest(scores, share, f"choice {number}")]
            share = Fraction(unit * self._cost(chosen))
            last = share >= _LAST * mechanisms.left
            self.count(chosen, mechanisms.left if last else share)
            if last:
                return
            self.refit()
            learned = float(np.abs(self.model.marginal(chosen) - expected[chosen]).sum())
            if learned <= mechanisms.mean_noise(float(share)) * self._cells(chosen):
                unit *= 2

    def _find_candidates(self) -> list[Attributes]:
        """Return single attributes, pairs for which the model has room, and triples within a clique."""
        inside = {pair for pair in self.pairs if self.model.holds(pair)}
        outside = [pair for pair in self.pairs if pair not in inside]
        if len(outside) > _MOST_CHECKED:
            picked = np.random.default_rng().choice(len(outside), _MOST_CHECKED, replace=False)
            outside = [outside[number] for number in sorted(picked)]
        full = set()
        for pair in outside:  # cliques only grow, so there will never be room for these
            if count_cells(self._sizes, find_cliques(self._sizes, [*self._measured, pair])) > MODEL_CELLS:
                full.add(pair)
        self.pairs = [pair for pair in self.pairs if pair not in full]
        triples = {triple for clique in self.model.cliques for triple in combinations(clique.attributes, 3)}
        return [
            *((place,) for place in range(len(self._sizes))),
            *sorted(inside.union(outside) - full),
            *sorted(triple for triple in triples if self._cells(triple) <= _TRIPLE_CELLS),
        ]

    def _expect(self, candidates: Sequence[Attributes]) -> Mapping[Attributes, FloatArray]:
        """Return the counts of candidates that the model predicts."""
        apart = {one for one in candidates if not self.model.holds(one)}
        expected: dict[Attributes, FloatArray] = {}
        for first in {first for first, _ in apart}:
            others = [second for one, second in apart if one == first]
            expected |= {(first, second): table for second, table in self.model.pairs_with(first, others).items()}
        return expected | {one: self.model.marginal(one) for one in candidates if one not in apart}

    def _score(self, one: Attributes, expected: FloatArray, unit: float) -> int:
        """Return the weighted distance of counts from the predicted ones, minus the expected noise.

        An additional record changes the distance by at most 1. The weight is at most 1 and results are rounded down, so
        the score changes by at most 1.
        """
        noise = self._mechanisms.mean_noise(unit * self._cost(one)) * expected.size
        weight = max(int(_WHOLE * sum(self._weights[place] for place in one) / len(one)), 1)
        return min(weight, _WHOLE) * (measure_distance(self._exact(one), expected) - round(noise)) // _WHOLE

    def _exact(self, one: Attributes) -> IntArray:
        """Return exact counts, which only mechanisms may use."""
        if one in self._kept:
            return self._kept[one]
        counts = self._records.count(one)
        if sum(kept.size for kept in self._kept.values()) + counts.size <= _KEPT_CELLS:
            self._kept[one] = counts
        return counts


_LAST_DIGITS = Fraction(1, 10**9)  # subtracted from a budget of rho, whose epsilon is found in steps of 10**-12


@dataclass(slots=True)
class Mechanisms:
    """OpenDP's mechanisms with a common budget, which they cannot exceed.

    Without a delta losses are epsilons and counts get discrete Laplace noise; with one they are rhos of
    zero-concentrated privacy and noise is discrete Gaussian. Both add up.
    """

    budget: Fraction  # in units of the measure: epsilon, or rho
    delta: float = 0.0
    ledger: list[Spent] = field(default_factory=list)

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Mechanisms:
        """Return mechanisms with this total budget."""
        if delta == 0.0:
            return cls(Fraction(epsilon))
        return cls(Fraction(_largest_rho(epsilon, delta)) * (1 - _LAST_DIGITS), delta)

    @property
    def spent(self) -> Fraction:
        return sum((Fraction(entry.loss) for entry in self.ledger), Fraction(0))

    @property
    def left(self) -> Fraction:
        return 1 - self.spent / self.budget

    def noisy_counts(self, counts: IntArray, share: Fraction, purpose: str) -> tuple[IntArray, float]:
        """Return counts with noise for a share of the budget, and the variance of the noise in each cell."""
        measurement, scale = self._within(self._noise, share)
        self._book(purpose, scale, measurement)
        noisy = np.array(measurement(counts.ravel().tolist()), dtype=np.int64)
        return noisy.reshape(counts.shape), (scale * scale if self.delta else 2.0 * scale * scale)

    def largest(self, scores: list[int], share: Fraction, purpose: str) -> int:
        """Return the place of the noisy maximum of scores, whose sensitivity must be at most 1."""
        measurement, scale = self._within(self._choice, share)
        self._book(purpose, scale, measurement)
        return int(measurement(scores))

    def mean_noise(self, share: float) -> float:
        """Return the approximate mean absolute noise of a count for this share of the budget."""
        loss = share * float(self.budget)
        return 1.0 / math.sqrt(math.pi * loss) if self.delta else 1.0 / loss

    def state_loss(self) -> dict[str, float]:
        """Return the total epsilon and delta, rounded up; OpenDP converts a sum of rhos."""
        loss = round_up(self.spent)
        if not self.delta:
            return {"epsilon": loss, "delta": 0.0}
        return {"epsilon": epsilon_of(loss, self.delta), "delta": self.delta, "rho": loss}

    def _book(self, purpose: str, scale: float, measurement: Any) -> None:
        loss = float(measurement.map(1))
        if self.spent + Fraction(loss) > self.budget:
            raise UsageError("the privacy budget is used up; nothing was published")
        self.ledger.append(Spent(purpose, scale, loss))

    def _within(self, make: Callable[[float], Any], share: Fraction) -> tuple[Any, float]:
        """Return the mechanism with the smallest noise whose stated loss is within a share of the budget."""
        allowed = self.budget * share
        ratio = float(make(1.0).map(1)) / float(allowed)
        scale = math.sqrt(ratio) if self.delta else ratio
        measurement = make(scale)
        while Fraction(float(measurement.map(1))) > allowed:  # in the last digits, because OpenDP rounds up
            scale *= 1.0 + 2.0**-40
            measurement = make(scale)
        return measurement, scale

    def _noise(self, scale: float) -> Any:
        dp = opendp()
        make, distance = (dp.m.make_gaussian, dp.l2_distance) if self.delta else (dp.m.make_laplace, dp.l1_distance)
        return make(dp.vector_domain(dp.atom_domain(T="i64")), distance(T="i64"), scale)

    def _choice(self, scale: float) -> Any:
        dp = opendp()
        measure = dp.zero_concentrated_divergence() if self.delta else dp.max_divergence()
        scores = dp.vector_domain(dp.atom_domain(T="i64"))
        return dp.m.make_noisy_max(scores, dp.linf_distance(T="i64"), measure, scale)


@cache
def epsilon_of(rho: float, delta: float) -> float:
    """Return the epsilon, possibly infinite, that OpenDP states at this delta for a loss slightly above *rho*."""
    dp = opendp()
    scale = math.sqrt(0.5 / rho)
    while True:
        noise = dp.m.make_gaussian(dp.atom_domain(T="i64"), dp.absolute_distance(T="i64"), scale)
        if float(noise.map(1)) >= rho:
            try:
                return float(dp.c.make_zCDP_to_approxDP(noise).map(1).epsilon(delta))
            except dp.OpenDPException:  # beyond the range of its arithmetic
                return math.inf
        scale *= 1.0 - 2.0**-40


@cache
def _largest_rho(epsilon: float, delta: float) -> float:
    """Return a lower bound, by bisection, of the largest rho that implies (epsilon, delta)."""
    low, high = 0.0, epsilon  # rho = epsilon is far too large for any delta below 1 / 10
    for _ in range(60):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low


def round_up(number: Fraction) -> float:
    """Return the smallest float that is at least the number.

    >>> round_up(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    nearest = float(number)
    return nearest if Fraction(nearest) >= number else math.nextafter(nearest, math.inf)


def measure_distance(counts: IntArray, estimate: FloatArray) -> int:
    """Return the L1 distance between counts and a fixed estimate, whose sensitivity is 1."""
    return int(np.abs(counts - np.rint(estimate).astype(np.int64)).sum())


@cache
def opendp() -> Any:
    """Return OpenDP with contributed parts, which are proven in papers but not yet vetted by its reviewers."""
    try:
        library = importlib.import_module("opendp.prelude")
    except ImportError:
        raise UsageError("differentially private tables need OpenDP: pip install 'shoal[synthetic]'") from None
    library.enable_features("contrib")
    return library
