"""Which counts are taken: each attribute alone, then rounds that choose under noise what the model describes worst.

McKenna, Mullins, Sheldon and Miklau, "AIM: an adaptive and iterative mechanism for differentially private synthetic
data", PVLDB 15(11), 2022. Every look at the data is one of OpenDP's mechanisms; candidates, shares of the budget and
models follow from the domains and from earlier noisy results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np

from shoal.core.arrays import FloatArray, IntArray
from shoal.methods.synthetic.junction import JunctionTree, Measured, count_cells, find_cliques
from shoal.methods.synthetic.mechanisms import Mechanisms, measure_distance
from shoal.plan.synthetic import MOST_CELLS, Attributes, Records

MODEL_CELLS = 300_000  # of all cliques together: bounds the time and the memory of a round
ALONE = Fraction(1, 5)  # of the budget, for attributes alone
_TRIPLE_CELLS = 20_000
_KEPT_CELLS = 20_000_000  # of exact counts that are kept for the next round
_CHOICE = 0.1  # of what counting costs, for choosing
_LAST = 0.6  # a round that would cost more than this part of what is left takes all of it
_MOST_ROUNDS = 100  # for which the first round's share is meant; shares grow when a round tells nothing new
_MOST_CHECKED = 400  # pairs for which a round finds out whether the model has room for them
_SWEEPS, _LAST_SWEEPS, _ALONE_SWEEPS = 3, 100, 20
_CLOSE = 1e-4  # of the records: what is fitted to that is not fitted further
_WHOLE = 1000  # the largest workload weight, in whole numbers


def measure(records: Records, by_hand: Sequence[Attributes] | None, mechanisms: Mechanisms) -> JunctionTree:
    """Return the model of what the whole budget can tell; pairs that are given *by_hand* cost no choice.

    How much each look is given may depend on what came out before, as long as no course of events uses more than the
    budget: that is so for sums of epsilons, and of rhos (Feldman and Zrnic, "Individual privacy accounting via a Renyi
    filter", NeurIPS 2021).
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
    rounds.model.fit_alone(_ALONE_SWEEPS)
    return rounds.model


class Rounds:
    """What was counted so far, the model that fits it, and what may be counted next."""

    model: JunctionTree

    def __init__(self, records: Records, mechanisms: Mechanisms) -> None:
        """Start with nothing counted."""
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
        """Return what counting costs beside other counts: so shared out, the noise of all counts together is least."""
        return float(self._cells(one) ** (2 / 3 if self._mechanisms.delta else 1 / 2))

    def count(self, one: Attributes, share: Fraction) -> None:
        """Count these attributes with noise that costs a share of the budget."""
        names = " and ".join(self._records.domains[place].name for place in one)
        counts, variance = self._mechanisms.noisy_counts(self._exact(one), share, f"counts of {names}")
        noisy = Measured(counts.astype(np.float64), variance)
        self._measured[one] = noisy.combine(self._measured[one]) if one in self._measured else noisy

    def refit(self, sweeps: int = _SWEEPS) -> None:
        """Fit the model to all that was counted, starting from the model before."""
        self._started = self.model = JunctionTree(self._sizes, self._measured, self._started)
        self.model.fit(sweeps, _CLOSE)

    def run(self) -> None:
        """Choose, count and fit until the budget is used up; the last round takes all that is left.

        A share that teaches less than its noise does is too small: the next one is twice as large.
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
        """Return attributes, pairs that the model has room for, and triples that are together in a clique already."""
        inside = {pair for pair in self.pairs if self.model.holds(pair)}
        outside = [pair for pair in self.pairs if pair not in inside]
        if len(outside) > _MOST_CHECKED:
            picked = np.random.default_rng().choice(len(outside), _MOST_CHECKED, replace=False)
            outside = [outside[number] for number in sorted(picked)]
        full = set()
        for pair in outside:  # what has no room now will have none later: cliques only grow
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
        """Return the counts of candidates that the model makes one expect."""
        apart = {one for one in candidates if not self.model.holds(one)}
        expected: dict[Attributes, FloatArray] = {}
        for first in {first for first, _ in apart}:
            others = [second for one, second in apart if one == first]
            expected |= {(first, second): table for second, table in self.model.pairs_with(first, others).items()}
        return expected | {one: self.model.marginal(one) for one in candidates if one not in apart}

    def _score(self, one: Attributes, expected: FloatArray, unit: float) -> int:
        """Return how far counts are from expected ones, less what noise will add, times the workload's weight.

        One record more changes the distance by 1 at most and, since the weight is at most 1 and whole numbers are
        rounded down, the score by 1 at most.
        """
        noise = self._mechanisms.mean_noise(unit * self._cost(one)) * expected.size
        weight = max(int(_WHOLE * sum(self._weights[place] for place in one) / len(one)), 1)
        return min(weight, _WHOLE) * (measure_distance(self._exact(one), expected) - round(noise)) // _WHOLE

    def _exact(self, one: Attributes) -> IntArray:
        """Return counts without noise, which are for mechanisms only."""
        if one in self._kept:
            return self._kept[one]
        counts = self._records.count(one)
        if sum(kept.size for kept in self._kept.values()) + counts.size <= _KEPT_CELLS:
            self._kept[one] = counts
        return counts
