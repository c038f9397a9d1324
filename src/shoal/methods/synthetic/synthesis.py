"""The whole way from codes to a synthetic table, with its account.

Counts get noise, are made consistent (no count below 0, the same totals everywhere), and rows are drawn from them.
After the noise nothing looks at the data, so nothing costs privacy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import InputError, PolicyError, did_you_mean
from shoal.core.randomness import Chance
from shoal.methods.synthetic.mechanisms import Mechanisms, measure_distance
from shoal.plan.synthetic import MOST_CELLS, Domain, Pair, Records, SyntheticPlan

if TYPE_CHECKING:
    from shoal.methods.synthetic import Synthetic

_ROUNDS = 100
_CLOSE = 1e-7  # of the total; rows are whole numbers anyway
_FLOORS = (1e-9, 1e-2)  # shares of a pair's counts that are independent, so that every marginal can be reached

ALONE, CHOICE = Fraction(3, 10), Fraction(2, 10)  # shares of the budget; the rest is for the pairs' counts
_MOST_ROWS = 10_000_000  # unless asked for: a small epsilon makes the noisy number of records anything
_MUCH = 10  # an epsilon beyond which the data holder is warned
_RARE = 0.1  # delta times records beyond which the data holder is warned


def synthesize(
    codes: Sequence[AnyIntArray],
    domains: Sequence[Domain],
    options: Synthetic,
    chance: Chance,
    counts: IntArray | None = None,
) -> SyntheticPlan:
    """Return a table that is (epsilon, delta)-differentially private for each record of the given one.

    *codes* are (n_cells,) of each attribute and *counts* the records of each cell, one if not given; a record with a
    value outside its domain, -1, is left out. All that is looked at in the data are counts with OpenDP's noise and
    choices by OpenDP's noisy maximum; the rest works on those. OpenDP draws from the operating system whatever the seed
    of *chance*, which only deals out the rows.
    """
    _check(codes, domains)
    inside = np.all([column >= 0 for column in codes], axis=0)
    every = np.ones(len(inside), dtype=np.int64) if counts is None else counts
    records = Records(tuple(column[inside].astype(np.int32) for column in codes), every[inside], tuple(domains))
    mechanisms = Mechanisms.of(options.epsilon, options.delta)
    by_hand = None if options.tree is None else look_up_tree(options.tree, domains)
    alone, pairs = _measure(records, by_hand, mechanisms)
    model = consistent(alone, pairs)
    n_rows = options.rows or min(max(round(model.total), 1), _MOST_ROWS)
    return SyntheticPlan(
        domains=tuple(domains),
        codes=tuple(draw_rows(model, n_rows, chance)),
        pairs=tuple(pairs),
        epsilon=options.epsilon,
        delta=options.delta,
        spent=mechanisms.state_loss(),
        ledger=tuple(mechanisms.ledger),
        n_outside=int(every[~inside].sum()),
        warnings=tuple(_warnings(options, model.total, pairs, domains)),
    )


def _warnings(options: Synthetic, total: float, pairs: Collection[Pair], domains: Sized) -> Iterator[str]:
    """Yield what the data holder should think of; it follows from the options and from noisy counts alone."""
    if options.epsilon > _MUCH:
        yield (
            f"epsilon is {options.epsilon:g}: a result may be e**{options.epsilon:g} times as likely with a record as "
            f"without it, which promises next to nothing; {_MUCH} is much already"
        )
    if options.delta * total > _RARE:
        yield (
            f"delta is {options.delta:g}, and there are about {total:.0f} records: it should be far below one over "
            "their number, for it may be spent on publishing a few of them as they are"
        )
    if len(domains) > 1 and not pairs and options.tree is None:
        yield (
            "no pair of attributes is kept, because noise would hide what it tells: attributes are independent in the "
            "table; declare coarser values, leave attributes out, or allow a larger epsilon"
        )


def _check(codes: Sequence[AnyIntArray], domains: Sequence[Domain]) -> None:
    if not domains or len(codes) != len(domains):
        raise PolicyError("a synthetic table needs one column of codes for each of its attributes")
    for domain, column in zip(domains, codes, strict=True):
        if len(column) and int(column.max()) >= domain.size:
            raise InputError(f"column {domain.name!r} has codes outside its domain")
        if domain.size > MOST_CELLS:
            raise PolicyError(f"column {domain.name!r} has {domain.size:,} values, at most {MOST_CELLS:,} are possible")


def _measure(
    records: Records, by_hand: list[Pair] | None, mechanisms: Mechanisms
) -> tuple[list[Measured], dict[Pair, Measured]]:
    """Count each attribute alone, choose pairs if none are given, and count those with what is left of the budget.

    A tree by hand costs nothing, and a choice that ends early leaves more for each pair. How much each is given may
    depend on what came out before, as long as no course of events uses more than the budget: that is so for sums of
    epsilons, and of rhos (Feldman and Zrnic, "Individual privacy accounting via a Renyi filter", NeurIPS 2021).
    """
    domains = records.domains
    turns = len(domains) - 1 if by_hand is None else len(by_hand)
    of_alone = (ALONE if turns else Fraction(1)) / len(domains)
    alone = [
        Measured(*mechanisms.noisy_counts(records.of(place), of_alone, f"counts of {domain.name}"))
        for place, domain in enumerate(domains)
    ]
    chosen = by_hand or []
    if by_hand is None and turns:
        estimates = [non_negative(m.counts.astype(np.float64), max(float(m.counts.sum()), 1.0)) for m in alone]
        chosen = choose_tree(records, estimates, mechanisms, CHOICE, (1 - ALONE - CHOICE) / turns)
    left = 1 - mechanisms.spent / mechanisms.budget
    pairs = {}
    for pair in chosen:
        purpose = f"counts of {domains[pair[0]].name} and {domains[pair[1]].name}"
        pairs[pair] = Measured(*mechanisms.noisy_counts(records.of_pair(pair), left / len(chosen), purpose))
    return alone, pairs


def look_up_tree(names: Sequence[tuple[str, str]], domains: Sequence[Domain]) -> list[Pair]:
    """Look up the pairs that the policy names."""
    places = {domain.name: place for place, domain in enumerate(domains)}
    pairs = []
    for both in names:
        for name in both:
            if name not in places:
                raise PolicyError(f"tree: {name!r} is not an attribute of the table{did_you_mean(name, places)}")
        first, second = sorted(places[name] for name in both)
        if not _fits(domains, (first, second)):
            cells = domains[first].size * domains[second].size
            raise PolicyError(
                f"tree: {both[0]!r} and {both[1]!r} have {cells:,} joint values, at most {MOST_CELLS:,} are possible; "
                "declare coarser values"
            )
        pairs.append((first, second))
    return pairs


def choose_tree(
    records: Records,
    alone: Sequence[FloatArray],
    mechanisms: Mechanisms,
    share: Fraction,
    edge_share: Fraction,
) -> list[Pair]:
    """Choose pairs one by one, each time probably the one that independence describes worst, none closing a circle.

    The score of a pair is how far its counts are, in sum, from those that the noisy counts *alone* make one expect
    (McKenna, Miklau and Sheldon, "Winning the NIST contest", JPC 11(3), 2021): one record changes it by 1. Taken off is
    what noise will add to the pair's counts, which no record changes. A pair that gains nothing has a score below 0;
    "no more pairs" stands for choice with a score of 0.
    """
    domains = records.domains
    noise = mechanisms.mean_noise(edge_share)
    scores = {}
    for pair in combinations(range(len(domains)), 2):
        if _fits(domains, pair):
            one, other = alone[pair[0]], alone[pair[1]]
            total = float(one.sum() + other.sum()) / 2
            expected = np.outer(one / max(float(one.sum()), 1.0), other / max(float(other.sum()), 1.0)) * total
            scores[pair] = measure_distance(records.of_pair(pair), expected) - round(noise * expected.size)
    component = list(range(len(domains)))
    pairs: list[Pair] = []
    turns = len(domains) - 1
    for turn in range(turns):
        # Even if there are none, that there are no more is chosen: how often is then told by the tree alone.
        open_pairs = [pair for pair in scores if component[pair[0]] != component[pair[1]]]
        choice = mechanisms.largest(
            [*(scores[pair] for pair in open_pairs), 0], share / turns, f"pair {turn + 1} of the tree"
        )
        if choice == len(open_pairs):
            break
        pairs.append(open_pairs[choice])
        kept, gone = (component[place] for place in open_pairs[choice])
        component = [kept if number == gone else number for number in component]
    return pairs


def _fits(domains: Sequence[Domain], pair: Pair) -> bool:
    return domains[pair[0]].size * domains[pair[1]].size <= MOST_CELLS


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Noisy counts, and the variance of the noise in each cell."""

    counts: IntArray
    variance: float


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    """Marginals of attributes and of pairs that agree with each other; all add up to ``total``."""

    total: float
    alone: tuple[FloatArray, ...]
    pairs: Mapping[Pair, FloatArray]


def non_negative(counts: FloatArray, total: float) -> FloatArray:
    """Return the nearest counts, by squares, that are not below 0 and add up to the total.

    >>> non_negative(np.array([5.0, -1.0, 2.0]), 6.0)
    array([4.5, 0. , 1.5])
    """
    falling = np.sort(counts.ravel())[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    last = np.flatnonzero(falling > excess)
    shift = float(excess[last[-1]]) if len(last) else float(excess[0])
    return np.maximum(counts - shift, 0.0)


def consistent(alone: Sequence[Measured], pairs: Mapping[Pair, Measured]) -> TreeModel:
    """Average what several tables say of the same marginal, by the inverse of its variance, and fit pairs to it."""
    everything = [*alone, *pairs.values()]
    trust = np.array([1.0 / (measured.variance * measured.counts.size) for measured in everything])
    totals = np.array([float(measured.counts.sum()) for measured in everything])
    total = max(float(np.sum(trust * totals) / np.sum(trust)), 1.0)
    marginals = tuple(non_negative(_average(place, measured, pairs), total) for place, measured in enumerate(alone))
    fitted = {
        pair: _fit(non_negative(measured.counts.astype(np.float64), total), marginals[pair[0]], marginals[pair[1]])
        for pair, measured in pairs.items()
    }
    return TreeModel(total, marginals, fitted)


def _average(place: int, measured: Measured, pairs: Mapping[Pair, Measured]) -> FloatArray:
    found = [(measured.counts, 1.0 / measured.variance)]
    for pair, table in pairs.items():
        if place in pair:
            axis = 1 - pair.index(place)
            found.append((table.counts.sum(axis=axis), 1.0 / (table.variance * table.counts.shape[axis])))
    counts, weights = zip(*found, strict=True)
    return np.average(np.array(counts, dtype=np.float64), axis=0, weights=weights)


def _fit(table: FloatArray, rows: FloatArray, columns: FloatArray) -> FloatArray:
    """Scale rows and columns in turn until both add up as they should (iterative proportional fitting).

    Where zeros stand in the way, and it would take ages, a little more of what independence says is put in their place.
    """
    total = float(rows.sum())
    fitted = table
    for floor in _FLOORS:
        fitted = table * (1.0 - floor) + floor * np.outer(rows, columns) / total
        for _ in range(_ROUNDS):
            fitted = fitted * _ratio(rows, fitted.sum(axis=1))[:, np.newaxis]
            fitted = fitted * _ratio(columns, fitted.sum(axis=0))
            if np.abs(fitted.sum(axis=1) - rows).max() <= _CLOSE * total:
                return fitted
    return fitted


def _ratio(wanted: FloatArray, found: FloatArray) -> FloatArray:
    return np.divide(wanted, found, out=np.zeros_like(wanted), where=found > 0)


def draw_rows(model: TreeModel, n_rows: int, chance: Chance) -> list[CodeArray]:
    """Return (n_rows,) codes of every attribute; counts come as near to the marginals as whole numbers can."""
    columns: list[CodeArray | None] = [None] * len(model.alone)
    for attribute, parent in _walk(len(model.alone), list(model.pairs)):
        if parent is None:
            whole = np.zeros(n_rows, dtype=np.int32)
            columns[attribute] = _draw_given(whole, model.alone[attribute][np.newaxis, :], chance)
            continue
        table = model.pairs.get((parent, attribute))
        shares = model.pairs[attribute, parent].T if table is None else table
        known = columns[parent]
        if known is None:
            raise TypeError("an attribute is drawn after the one it hangs on")
        columns[attribute] = _draw_given(known, shares, chance)
    order = chance.order(n_rows)
    return [column[order] for column in columns if column is not None]


def _walk(n_attributes: int, pairs: Sequence[Pair]) -> list[tuple[int, int | None]]:
    """Return every attribute once, after the one it hangs on."""
    steps: list[tuple[int, int | None]] = []
    seen: set[int] = set()
    for start in range(n_attributes):
        waiting: list[tuple[int, int | None]] = [(start, None)] if start not in seen else []
        while waiting:
            attribute, parent = waiting.pop()
            seen.add(attribute)
            steps.append((attribute, parent))
            neighbours = [a if b == attribute else b for a, b in pairs if attribute in (a, b)]
            waiting += [(other, attribute) for other in neighbours if other not in seen]
    return steps


def _draw_given(known: CodeArray, shares: FloatArray, chance: Chance) -> CodeArray:
    """Draw a value for each row, given (n_known, n_values) shares for what is known of it.

    Rows of one known value take every step of the values' cumulated shares with one common random start, so that each
    value comes up as often as it should, rounded up or down; which row gets which is then left to chance.
    """
    n_known, n_values = shares.shape
    sizes = np.bincount(known, minlength=n_known)
    order = chance.order_within(known, n_known)  # rows by what is known, in random order
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
    drawn[order] = np.clip(code, 0, last[of_row])  # no rounding of sums leads beyond the last value with a share
    return drawn


def distances(codes: Sequence[AnyIntArray], counts: IntArray, plan: SyntheticPlan) -> dict[str, Any]:
    """Return total variation distances between shares of records and of rows, for attributes and pairs of them.

    The distance is the largest difference between the two shares of any set of values: 0 for equal shares, 1 for
    shares that have no value in common. Pairs with more joint values than can be counted together are left out.
    """
    records = Records(tuple(column.astype(np.int32) for column in codes), counts, plan.domains)
    rows = Records(plan.codes, np.ones(plan.n_rows, dtype=np.int64), plan.domains)
    sizes = [domain.size for domain in plan.domains]
    alone = {
        domain.name: round(total_variation(records.of(place), rows.of(place)), 6)
        for place, domain in enumerate(plan.domains)
    }
    pairs = [
        {
            "pair": [plan.domains[first].name, plan.domains[second].name],
            "distance": round(total_variation(records.of_pair((first, second)), rows.of_pair((first, second))), 6),
            "kept": (first, second) in plan.pairs,
        }
        for first, second in combinations(range(len(sizes)), 2)
        if sizes[first] * sizes[second] <= MOST_CELLS
    ]
    return {"records": int(counts.sum()), "outside": plan.n_outside, "attributes": alone, "pairs": pairs}


def total_variation(one: IntArray, other: IntArray) -> float:
    """Return the total variation distance between two tables of counts.

    >>> total_variation(np.array([3, 1]), np.array([2, 2]))
    0.25
    """
    return float(np.abs(one / max(int(one.sum()), 1) - other / max(int(other.sum()), 1)).sum()) / 2
