"""The transparent reader: an adversary with the public files, the method, and everyone's quasi values.

Definitions and proofs are in docs/adr/0007-transparent-reader.md. The *resolving* reader finds the most specific class
of every person and counts moved, labelled and withheld records by their true values. The *minimality* reader also asks
why a group of people did not become a class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import kernel
from shoal.models.base import ClassHistograms, PrivacyModel, ValueModel, Whole
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Problem
from shoal.plan.slices import SlicedPlan
from shoal.taxonomies.tree import Taxonomy

DRAWS = 200  # random assignments of values to refused groups
_LARGE = 2048  # records: the groups of a larger class are drawn independently
_ENOUGH = 20  # failing draws that are needed to estimate a posterior
_EXPECTED = 5  # a value is ruled out if it never occurs although this many records with it are expected
_AT_ONCE = 1 << 22  # records of all draws in memory
_DOMINANT, _STEPS = 8, 33  # values of a class that may dominate a group, and group shares that are tried for each
_MARGIN = 0.1
_NEGLIGIBLE = 1e-3  # posterior probability below which a value does not count
_MOST_CLASSES = 20_000  # beyond this, estimates use a sample of the classes
_MOST_SETS = 150  # refused sets of each attribute, among these classes


@kernel
def find_specific(start: IntArray, boxes: IntArray, widths: IntArray) -> BoolArray:
    """Return (n_entries,) which of the classes that cover a person are most specific: no other label is narrower.

    Person i is covered by ``boxes[start[i]:start[i + 1]]``. *widths* (n_boxes, n_attributes) is the number of values
    that a label covers in each attribute. Labels that cover the same value of a taxonomy are nested, so a label is more
    specific if it is narrower in one attribute and wider in none.

    >>> find_specific(np.array([0, 3]), np.array([0, 1, 2]), np.array([[9, 9], [1, 9], [9, 2]])).tolist()
    [False, True, True]
    """
    kept = np.ones(len(boxes), dtype=np.bool_)
    for i in range(len(start) - 1):
        for one in range(start[i], start[i + 1]):
            for other in range(start[i], start[i + 1]):
                narrower, wider = False, False
                for a in range(widths.shape[1]):
                    narrower |= widths[boxes[other], a] < widths[boxes[one], a]
                    wider |= widths[boxes[other], a] > widths[boxes[one], a]
                if narrower and not wider:
                    kept[one] = False
                    break
    return kept


def satisfy(problem: Problem, group: AnyIntArray, cell: AnyIntArray, records: IntArray, n_groups: int) -> BoolArray:
    """Return (n_groups,) whether the true values of each group satisfy every model of values.

    Piece i has ``records[i]`` records of ``cell[i]`` in ``group[i]``. Groups without records satisfy all models.
    """
    first, order = kernels.group_items(np.asarray(group, dtype=np.int32), n_groups)
    used = np.flatnonzero(np.diff(first))
    found = np.ones(n_groups, dtype=np.bool_)
    for requirement in problem.requirements:
        model = requirement.model
        if not isinstance(model, ValueModel) or not len(used):
            continue
        whole = requirement.whole(problem.cells.counts)
        if requirement.people is not None:
            number = np.full(n_groups, -1)
            number[used] = np.arange(len(used))
            classes = requirement.histograms_of_people(number[group], cell, len(used))
        else:
            counts = np.zeros((len(used), requirement.n_values), dtype=np.int64)
            edges = np.append(first[used], first[-1])
            kernels.tally_classes(edges, requirement.values_at(cell[order]), records[order], counts)
            classes = ClassHistograms(counts.sum(axis=1), counts)
        found[used] &= model.holds_true(classes, whole)
    return found


def withheld_satisfy(problem: Problem, plan: Plan | SlicedPlan) -> bool:
    """Whether the withheld people as a group satisfy the models of values."""
    if not plan.n_withheld:
        return True
    cell, owner, records = plan.assignment.pieces(problem.cells.counts)
    left = owner == WITHHELD
    return bool(satisfy(problem, np.zeros(left.sum(), np.int32), cell[left], records[left], 1)[0])


class RefusedGroups(NamedTuple):
    """Groups of people that would be classes if they satisfied the models.

    Groups with the same *owner* form a set, of which at least one group failed. A method that publishes every group
    that satisfies the models has sets of one group.
    """

    sizes: IntArray  # (n_groups,) records
    class_of: IntArray  # (n_groups,) the class that contains the group; the same for all groups of a set
    owner: IntArray  # (n_groups,) ascending from 0


def find_refused(
    problem: Problem, plan: Plan, *, each: bool, among: BoolArray | None = None
) -> list[tuple[RefusedGroups, float]]:
    """Return for each attribute the groups one level below the labels of classes, and the share of failing sets.

    The share is below 1 if the method refused some groups for another reason. *among* (n_classes,) selects the classes.

    If *each* group that satisfies the models becomes a class, every group of enough records failed by itself, and so
    did every combination of base values. Otherwise the groups of one attribute are a set, because the class would have
    been divided if all of them satisfied the models. A set with a group below the minimum class size reveals nothing.
    """
    cell, class_of, records, _ = plan.pieces(problem.cells.counts)
    own = (class_of >= 0) & (records > 0)
    shown = np.flatnonzero(own if among is None else own & np.append(among, False)[class_of])
    cell, records = cell[shown], records[shown]
    owner_of: IntArray = class_of[shown].astype(np.int64)
    finer: list[list[AnyIntArray]] = [
        [_step_down(attribute.taxonomy, codes[cell], plan.lo[owner_of, j], plan.hi[owner_of, j])]
        for j, (attribute, codes) in enumerate(zip(problem.quasi, problem.quasi_codes, strict=True))
    ]
    if each:
        finer.append([codes[cell] for codes in problem.quasi_codes])
    found = []
    for columns in finer:
        first, group = kernels.same_rows([owner_of, *columns])
        size, of = np.bincount(group, records).astype(np.int64), owner_of[first]
        order = np.argsort(of, kind="stable")
        size, of = size[order], of[order]
        usable = (size >= problem.smallest_class) & (size < plan.sizes[of])
        if not each:
            usable = (np.bincount(of, ~usable, plan.n_classes) == 0)[of]
        owner = np.arange(usable.sum()) if each else np.unique(of[usable], return_inverse=True)[1].reshape(-1)
        fails = ~satisfy(problem, group, cell, records, len(first))[order][usable]
        share = float((np.bincount(owner, fails) > 0).mean()) if len(owner) else 0.0
        found.append((RefusedGroups(size[usable], of[usable], owner), share))
    return found


def _step_down(tree: Taxonomy, leaves: AnyIntArray, low: AnyIntArray, high: AnyIntArray) -> CodeArray:
    """Return (n,) the largest node above each leaf within a range of leaves, but not the whole range."""
    found = np.asarray(leaves, dtype=np.int32)
    for level in range(1, tree.height + 1):
        node = tree.node_at(level)[leaves]
        inside = (tree.lo[node] >= low) & (tree.hi[node] <= high) & (tree.hi[node] - tree.lo[node] < high - low)
        found = np.where(inside, node, found).astype(np.int32)
    return found


def explain(
    counts: IntArray, refused: RefusedGroups, models: Sequence[PrivacyModel], whole: Whole, rng: np.random.Generator
) -> FloatArray:
    """Return (n_groups, n_values) the posterior of a refused group's members, given that its set was refused.

    The reader assigns the ``counts[c]`` records of each value of a class to its groups at random, and discards draws in
    which every group of the set satisfies the models. If too few draws are left, one value dominates the group, and
    Bayes' rule weighs which value that is.
    """
    found = np.empty((len(refused.sizes), counts.shape[1]))
    large = counts.sum(axis=1)[refused.class_of] > _LARGE
    for part in (np.flatnonzero(~large), np.flatnonzero(large)):
        owner = np.unique(refused.owner[part], return_inverse=True)[1].reshape(-1)
        first = np.searchsorted(owner, np.arange(int(owner.max(initial=-1)) + 2))
        classes = refused.class_of[part][first[:-1]]
        records = np.minimum(counts.sum(axis=1)[classes], _LARGE)
        ends = np.cumsum(records + np.diff(first) * counts.shape[1])
        for begin, end in _split(ends, _AT_ONCE // DRAWS):
            groups = part[first[begin] : first[end]]
            own = RefusedGroups(
                refused.sizes[groups], refused.class_of[groups], owner[first[begin] : first[end]] - begin
            )
            found[groups] = _explain(counts, own, models, whole, rng)
    return found


def _split(ends: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of sets that fit into memory together, at least one set each."""
    begin = 0
    while begin < len(ends):
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield begin, end
        begin = end


def _explain(
    counts: IntArray, refused: RefusedGroups, models: Sequence[PrivacyModel], whole: Whole, rng: np.random.Generator
) -> FloatArray:
    """Return the posteriors of sets whose draws fit into memory together."""
    n_groups, n_values = len(refused.sizes), counts.shape[1]
    classes = refused.class_of[np.searchsorted(refused.owner, np.arange(int(refused.owner[-1]) + 1))]
    drawn = _deal(counts, refused, classes, rng)
    n_draws = len(drawn)
    flat = ClassHistograms(np.tile(refused.sizes, n_draws), drawn.reshape(-1, n_values))
    holds = np.logical_and.reduce([_hold(model, flat, whole) for model in models]).reshape(n_draws, n_groups)
    fails = np.add.reduceat(~holds, np.searchsorted(refused.owner, np.arange(len(classes))), axis=1) > 0
    kept = fails[:, refused.owner]  # (n_draws, n_groups)
    n_kept = kept.sum(axis=0)
    found: FloatArray = (drawn * kept[:, :, np.newaxis]).sum(axis=0) / np.maximum(n_kept * refused.sizes, 1)[:, None]
    usual = counts[refused.class_of] / np.maximum(counts[refused.class_of].sum(axis=1, keepdims=True), 1)
    seen = np.maximum(n_kept * refused.sizes, 1)[:, np.newaxis]
    ruled_out = (found == 0) & (seen * usual >= _EXPECTED)
    error = np.where(ruled_out, 0.0, 1 / np.sqrt(seen))  # a sampling error must not break a model
    found = (1 - error) * found + error * usual
    rare, chance, dominated = np.flatnonzero(n_kept < _ENOUGH), np.full(n_groups, -np.inf), found.copy()
    for some in np.array_split(rare, 1 + len(rare) * _DOMINANT * _STEPS * n_values // _AT_ONCE) if len(rare) else ():
        dominated[some], chance[some] = dominate(counts[refused.class_of[some]], refused.sizes[some], models, whole)
    # the reader does not know which group of a set failed: each one did, in proportion to its chance
    most = np.full(len(classes), -np.inf)
    np.maximum.at(most, refused.owner, chance)
    weight = np.exp(chance - np.where(np.isfinite(most), most, 0.0)[refused.owner])
    share = weight / np.maximum(np.bincount(refused.owner, weight), 1e-300)[refused.owner]
    found[rare] = (share[:, np.newaxis] * dominated + (1 - share)[:, np.newaxis] * usual)[rare]
    return found


def _deal(counts: IntArray, refused: RefusedGroups, classes: IntArray, rng: np.random.Generator) -> IntArray:
    """Return (n_draws, n_groups, n_values) values of each group, drawn at random from its class.

    The groups of a large class are almost independent, so each is drawn by itself.
    """
    n_groups, n_values, totals = len(refused.sizes), counts.shape[1], counts[classes].sum(axis=1)
    if totals.max() > _LARGE:
        pairs = zip(refused.class_of.tolist(), refused.sizes.tolist(), strict=True)
        each = [rng.multivariate_hypergeometric(counts[c], n, DRAWS, method="marginals") for c, n in pairs]
        return np.stack(each, axis=1).astype(np.int64)
    values = np.repeat(np.tile(np.arange(n_values), len(classes)), counts[classes].reshape(-1))
    set_of = np.repeat(np.arange(len(classes)), totals)
    # group_of: (n_records,) the first records of a set belong to its groups in turn, the others to no group
    row, before = np.repeat(np.arange(n_groups), refused.sizes), np.cumsum(refused.sizes) - refused.sizes
    begin = (np.cumsum(totals) - totals) - before[np.searchsorted(refused.owner, np.arange(len(classes)))]
    group_of = np.full(len(values), n_groups)
    group_of[np.arange(len(row)) + begin[refused.owner[row]]] = row
    drawn = np.zeros((DRAWS, n_groups + 1, n_values), dtype=np.int64)
    for draw in range(DRAWS):
        dealt = values[np.argsort(set_of + rng.random(len(values)))]
        drawn[draw] = np.bincount(group_of * n_values + dealt, minlength=drawn[0].size).reshape(drawn.shape[1:])
    return drawn[:, :-1]


def dominate(
    counts: IntArray, sizes: IntArray, models: Sequence[PrivacyModel], whole: Whole
) -> tuple[FloatArray, FloatArray]:
    """Return (n_groups, n_values) the posterior of groups in which one value is frequent enough to break a model.

    The second result is (n_groups,) the logarithm of the chance of that. Group i has ``sizes[i]`` members of a class
    with ``counts[i]`` records of each value. For each value, the function finds the minimum number of members with
    which the group fails, if the others are spread as in the class. The chance of at least this number is the tail of a
    hypergeometric distribution.

    >>> from shoal.models.distinct_l_diversity import DistinctLDiversity
    >>> counts = np.array([[6, 3, 1]])
    >>> posterior, chance = dominate(counts, np.array([3]), [DistinctLDiversity(l=2)], Whole.of(counts[0]))
    >>> posterior.round(3).tolist(), np.exp(chance).round(3).tolist()
    ([[0.952, 0.048, 0.0]], [0.175])
    """
    n_values = counts.shape[1]
    value = np.argsort(-counts, axis=1, kind="stable")[:, :_DOMINANT]  # (n_groups, n_dominant)
    own = np.take_along_axis(counts, value, axis=1)
    total, size = counts.sum(axis=1)[:, np.newaxis], sizes[:, np.newaxis]
    usual = np.floor(size * own / np.maximum(total, 1)).astype(np.int64)
    # number: (n_groups, n_dominant, _STEPS) members with the value, above its share of the class
    steps = np.linspace(0.0, 1.0, _STEPS)
    number = np.ceil(usual[:, :, np.newaxis] + 1 + (size - usual - 1)[:, :, np.newaxis] * steps).astype(np.int64)
    number = np.minimum(number, size[:, :, np.newaxis])  # if the whole class has the value
    others = np.repeat(counts[:, np.newaxis], value.shape[1], axis=1)
    np.put_along_axis(others, value[:, :, np.newaxis], 0, axis=2)
    spread = others / np.maximum(others.sum(axis=2, keepdims=True), 1)  # (n_groups, n_dominant, n_values)
    rest = size[:, :, np.newaxis] - number
    tries = np.floor(rest[..., np.newaxis] * spread[:, :, np.newaxis]).astype(np.int64)
    largest = np.argmax(spread, axis=2)[:, :, np.newaxis, np.newaxis]
    missing = (rest - tries.sum(axis=3))[..., np.newaxis]
    np.put_along_axis(tries, largest, np.take_along_axis(tries, largest, axis=3) + missing, axis=3)
    np.put_along_axis(tries, value[:, :, np.newaxis, np.newaxis], number[..., np.newaxis], axis=3)
    classes = ClassHistograms(np.repeat(sizes, value.shape[1] * _STEPS), tries.reshape(-1, n_values))
    holds = np.logical_and.reduce([_hold(model, classes, whole) for model in models]).reshape(number.shape)
    possible = ~holds & (number <= own[:, :, np.newaxis])
    least = np.take_along_axis(number, possible.argmax(axis=2)[:, :, np.newaxis], axis=2)[:, :, 0]
    chance, share = np.full(own.shape, -np.inf), np.zeros(own.shape)
    some = possible.any(axis=2)
    people, members = (np.broadcast_to(column, own.shape)[some] for column in (total, size))
    chance[some], share[some] = sum_tails(people, own[some], members, least[some])
    largest_chance = chance.max(axis=1, keepdims=True)
    weight = np.exp(chance - np.where(np.isfinite(largest_chance), largest_chance, 0.0))
    found = (((1 - share) * weight)[:, :, np.newaxis] * spread).sum(axis=1)
    np.put_along_axis(found, value, np.take_along_axis(found, value, axis=1) + share * weight, axis=1)
    sums = weight.sum(axis=1, keepdims=True)
    posterior = np.where(sums > 0, found / np.maximum(sums, 1e-300), counts / np.maximum(total, 1))
    with np.errstate(divide="ignore"):
        return posterior, largest_chance[:, 0] + np.log(sums[:, 0])


@kernel
def sum_tails(total: IntArray, own: IntArray, size: IntArray, least: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the logarithm of the chance that a draw has at least *least* records of a value, and its mean share then.

    *size* records are drawn from *total*, of which *own* have the value. The tail of the hypergeometric distribution is
    summed from *least* on, because its terms decrease there.
    """
    chance, share = np.empty(len(total)), np.empty(len(total))
    for i in range(len(total)):
        n, k, m, x = total[i], own[i], size[i], least[i]
        first = math.lgamma(k + 1.0) - math.lgamma(x + 1.0) - math.lgamma(k - x + 1.0)
        first += math.lgamma(n - k + 1.0) - math.lgamma(m - x + 1.0) - math.lgamma(n - k - m + x + 1.0)
        first -= math.lgamma(n + 1.0) - math.lgamma(m + 1.0) - math.lgamma(n - m + 1.0)
        term, sum_of_terms, mean = 1.0, 0.0, 0.0
        while x <= min(k, m) and term > 1e-12 * sum_of_terms:
            sum_of_terms += term
            mean += term * x
            term *= (k - x) * (m - x) / ((x + 1.0) * (n - k - m + x + 1.0))
            x += 1
        chance[i], share[i] = first + math.log(sum_of_terms), mean / sum_of_terms / m
    return chance, share


def _hold(model: PrivacyModel, classes: ClassHistograms, whole: Whole) -> BoolArray:
    """Return (n_groups,) whether true values satisfy a model; this reader sees through labels."""
    return model.holds_true(classes, whole) if isinstance(model, ValueModel) else model.holds(classes, whole)


def breaks(posterior: FloatArray, models: Sequence[PrivacyModel], whole: Whole) -> BoolArray:
    """Return (n_groups,) whether posteriors break any of the models by more than the error of an estimate.

    The most probable value may exceed a limit by a tenth. Values with negligible probability do not count.
    """
    shares = np.where(posterior < _NEGLIGIBLE, 0.0, posterior)
    top = np.arange(len(shares)), shares.argmax(axis=1)
    lowered = shares.copy()
    lowered[top] *= 1 - _MARGIN
    usual = whole.shares if whole.shares is not None else np.zeros(posterior.shape[1])
    broken = np.zeros(len(posterior), dtype=np.bool_)
    for model in models:
        near = (1 - _MARGIN) * shares + _MARGIN * usual if model.relative_to_whole else lowered
        near = near / np.maximum(near.sum(axis=1, keepdims=True), 1e-300)
        if isinstance(model, ValueModel) and model.judges_induced:  # each value has its own limit
            classes = ClassHistograms.of_shares((1 - _MARGIN) * shares)
            broken |= ~_hold(model, replace(classes, sizes=ClassHistograms.of_shares(shares).sizes), whole)
            continue
        broken |= ~_hold(model, ClassHistograms.of_shares(near), whole)
    return broken


class Exposure(NamedTuple):
    """An estimate of the number of people about whom the minimality reader learns too much."""

    people: int  # with a posterior that breaks a model
    n_people: int  # in the table


def estimate_revealed(problem: Problem, plan: Plan, rng: np.random.Generator, *, each: bool) -> Exposure:
    """Estimate the number of people in refused groups that break a model of values; see ``find_refused``.

    If there are too many classes, the function samples them, and samples the refused sets of each attribute. It
    extrapolates the share that breaks a model, and returns the result of the worst attribute.
    """
    cell, class_of, records, _ = plan.pieces(problem.cells.counts)
    among = np.zeros(plan.n_classes, dtype=np.bool_)
    among[rng.permutation(plan.n_classes)[:_MOST_CLASSES]] = True
    all_refused, most = find_refused(problem, plan, each=each, among=among), 0.0
    for place in range(len(problem.sensitive)):
        bound = [one for one in problem.requirements if one.place == place and isinstance(one.model, ValueModel)]
        if not bound or any(one.people is not None for one in bound):
            continue
        n_values, models = bound[0].n_values, [one.model for one in bound]
        whole, values = bound[0].whole(problem.cells.counts), bound[0].values_at(cell)
        for refused, failing in all_refused:
            n_sets = int(refused.owner.max(initial=-1)) + 1
            sets = np.sort(rng.permutation(n_sets)[:_MOST_SETS])
            chosen = np.flatnonzero(np.isin(refused.owner, sets))
            used, number = np.unique(refused.class_of[chosen], return_inverse=True)
            own = RefusedGroups(refused.sizes[chosen], number.reshape(-1), np.searchsorted(sets, refused.owner[chosen]))
            place_of = np.full(plan.n_classes + 1, -1)  # the last entry is for withheld records
            place_of[used] = np.arange(len(used))
            inside = np.flatnonzero(place_of[class_of] >= 0)
            key = place_of[class_of[inside]] * n_values + values[inside]
            counts = np.bincount(key, records[inside], len(used) * n_values).astype(np.int64).reshape(-1, n_values)
            usual = counts[own.class_of] / np.maximum(counts[own.class_of].sum(axis=1, keepdims=True), 1)
            posterior = failing * explain(counts, own, models, whole, rng) + (1 - failing) * usual
            broken = breaks(posterior, models, whole)
            drawn = len(sets) / max(n_sets, 1) * min(1.0, _MOST_CLASSES / max(plan.n_classes, 1))
            most = max(most, float(own.sizes[broken].sum()) / max(drawn, 1e-300))
    return Exposure(round(most), int(plan.sizes.sum()))
