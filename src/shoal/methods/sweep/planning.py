"""Planning of the sweep: check that the table can hold, sweep it, complete the last class, and check the plan."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import BoolArray
from shoal.core.errors import UnreachableError
from shoal.core.progress import Progress
from shoal.methods.base import refuse_unreachable
from shoal.methods.sweep.classes import Classes, Sweep, group_by_label, population_under, tree_tables
from shoal.methods.sweep.closing import Remainder, limit_values
from shoal.methods.sweep.improving import can_improve, covering_classes, improve
from shoal.methods.sweep.kernels import label_class, label_classes, lift
from shoal.methods.sweep.rules import Models, Parts, caps_of, has_uneven_weights, information_of, is_defended
from shoal.methods.sweep.selecting import count_items, sweep_items
from shoal.models.base import ValueModel, round_up
from shoal.models.exact import fraction
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.judging import judge_plan
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.plan.reader import satisfy

# pace of a defended sweep and maximum share of labels in its groups; only ``improve`` tries more than the first pair
_WAYS = (4.0, Fraction(1, 2)), (2.5, Fraction(1, 2)), (16.0, Fraction(1))
_NOT_TOGETHER = "the table as one class does not meet all models together"
_MOST_LOOKUPS = 1 << 28  # nodes of values at levels: larger tables are swept once


def plan_sweep(problem: Problem, improves: bool, defend: bool, rng: np.random.Generator, progress: Progress) -> Plan:
    """Return the classes of the sweep as a plan."""
    defend = defend and any(isinstance(requirement.model, ValueModel) for requirement in problem.requirements)
    if defend:  # nothing has to be withheld, because the remaining records always hold as one class
        problem = replace(problem, max_withheld=0)
    _refuse_unreachable(problem)
    models = Models.of(problem, defend=defend)
    started = _make_whole_hold(problem, models, Parts.of(problem), rng)
    if defend:
        sweep, classes, parts, gain = _sweep_defended(problem, models, improves, rng, progress)
    else:
        sweep, classes, parts, gain = _sweep_records(problem, models, started, improves, rng, progress)
    plan = _as_plan(sweep, classes, parts)
    _refuse_whole(sweep, plan)
    _check(problem, plan, defend)
    story = {
        "items": len(sweep.items),
        "generalized_before": _count_raised(problem, started),
        "generalized": _count_raised(problem, parts.take(parts.owner >= 0)),
        "improved_by": gain,
    }
    if not defend:
        story["people_revealed"] = _count_revealed(sweep, classes, parts)
    return replace(plan, warnings=_warnings(problem, len(sweep.items), defend), search=story)


def _sweep_defended(
    problem: Problem, models: Models, improves: bool, rng: np.random.Generator, progress: Progress
) -> tuple[Sweep, Classes, Parts, float]:
    """Return the sweep, its classes, all parts, and the gain of the best way over the first one."""
    trees, parts, found = tree_tables(problem), Parts.of(problem), []
    root = np.array([[attribute.taxonomy.root for attribute in problem.quasi]], dtype=np.int32)
    limited = any(limit_values(requirement, problem) is not None for requirement in problem.requirements)
    small = count_items(problem) * trees.leaves.size <= _MOST_LOOKUPS
    for pace, labelled in _WAYS if improves and limited and small else _WAYS[:1]:
        with progress.step("sweeping", problem.cells.n_records, unit="records") as step:
            remainder = Remainder(problem, models, pace, labelled)
            rules = models.rules._replace(plain_records=remainder.smallest_group())
            paced = replace(models, rules=rules)
            sweep, classes, swept = sweep_items(problem, trees, paced, parts, rng, step, remainder)
        n = len(classes.item)
        swept = swept._replace(owner=np.where(swept.owner < 0, n, swept.owner))
        item = np.append(classes.item, len(sweep.items) - 1)
        classes = Classes(item, np.concatenate([classes.nodes, root]))
        swept = _label_classes(problem, models, swept, n + 1, rng)
        found.append((_information(problem, classes, swept), sweep, classes, swept))
    best = max(found, key=lambda one: one[0])
    return *best[1:], best[0] - found[0][0]


def _label_classes(problem: Problem, models: Models, parts: Parts, n: int, rng: np.random.Generator) -> Parts:
    """Return the parts of n classes, with as few generalized values as each class needs."""
    _, order = kernels.group_items(parts.owner.astype(np.int32), n)
    parts = plain = parts.take(order)
    failing = np.zeros(n, dtype=np.bool_)
    for place, chosen in enumerate(models.of_place):
        if not problem.may_generalize(place):
            continue
        own, first = parts.own_values(problem)[:, place].copy(), np.searchsorted(parts.owner, np.arange(n + 1))
        which, steps = np.array(chosen), models.steps[place]
        goal, taken = label_classes(models.rules, which, steps, first, own, parts.records, rng)
        failing |= (goal < 0) & (np.diff(first) > 0)
        lifted = parts._replace(nodes=parts.nodes.copy(), records=taken)
        lifted.nodes[:, place] = goal[parts.owner]
        parts = Parts.join([parts._replace(records=parts.records - taken), lifted])
        parts = parts.take(parts.records > 0)
        parts = parts.take(np.argsort(parts.owner, kind="stable"))
    for number in np.flatnonzero(failing).tolist():  # with unequal weights, one label may not be enough
        found = generalize(problem, models, plain.take(plain.owner == number), rng)
        if found is None:
            raise UnreachableError(_NOT_TOGETHER)
        parts = Parts.join([parts.take(parts.owner != number), found])
    return parts


def _sweep_records(
    problem: Problem, models: Models, started: Parts, improves: bool, rng: np.random.Generator, progress: Progress
) -> tuple[Sweep, Classes, Parts, float]:
    """Return the sweep of the paper, its classes, all parts, and the gain of ``improve``."""
    with progress.step("sweeping", problem.cells.n_records, unit="records") as step:
        sweep, swept_classes, swept = sweep_items(problem, tree_tables(problem), models, started, rng, step)
    classes, parts = _with_last_class(sweep, swept_classes, swept)
    gain, better, moved = 0.0, classes, parts
    if improves and can_improve(sweep, len(swept_classes.item)):
        with progress.step("improving", None), suppress(UnreachableError):  # then the sweep stays as it is
            better, moved = _with_last_class(sweep, swept_classes, improve(sweep, swept_classes, swept))
        more = _information(problem, better, moved) - _information(problem, classes, parts)
        if more > 1e-12:  # beyond rounding; the last class may lose more than the moves gain
            gain, classes, parts = more, better, moved
    return sweep, classes, parts, gain


def _count_revealed(sweep: Sweep, classes: Classes, parts: Parts) -> int:
    """Return the number of people whose most informative covering label belongs to a failing group.

    The group consists of everyone with that label, with true values, wherever their records are published
    (docs/adr/0007-transparent-reader.md).
    """
    problem = sweep.problem
    used, cells = kernels.occurring(parts.owner[parts.owner >= 0]), np.flatnonzero(problem.cells.counts)
    shown = Classes(classes.item[used], classes.nodes[used])
    group = covering_classes(sweep, shown, cells, np.zeros(len(cells)), np.ones(len(used)), 1)[:, 0]
    records = problem.cells.counts[cells]
    holds = satisfy(problem, group, cells, records, len(used))
    return int(records[~np.append(holds, True)[group]].sum())


def _refuse_unreachable(problem: Problem) -> None:
    """Raise if the table as one class fails even after all generalization and withholding that the policy allows."""
    fixed = []
    for requirement in problem.requirements:
        if requirement.place is None or not problem.may_generalize(requirement.place):
            fixed.append(requirement)
            continue
        whole = requirement.whole(problem.cells.counts)
        if requirement.model.why_unreachable(whole) is not None:
            induced = requirement.induce(problem.cells.counts)
            if has_uneven_weights(problem, requirement.place, induced):
                continue  # then a mixture of values and labels may hold, which _make_whole_hold decides
            weights = induced.weights  # the root spreads by the adversary's weights
            at_root = replace(whole, size=whole.size * int(weights.sum()), counts=weights * whole.size)
            why = requirement.model.why_unreachable(at_root)
            if why is not None:
                raise UnreachableError(f"{why}, not even if all values become the most general label")
    refuse_unreachable(replace(problem, requirements=tuple(fixed)), problem.max_withheld)


def _make_whole_hold(problem: Problem, models: Models, parts: Parts, rng: np.random.Generator) -> Parts:
    """Steps 1 and 2: generalize sensitive values until the table as one class holds.

    If it cannot hold, some records have to be withheld at the end; the function raises if the policy does not allow it.
    """
    started = generalize(problem, models, parts, rng)
    blocking = "the table as one class does not meet all models together, however it is generalized"
    for requirement in problem.requirements if started is None else ():
        why = requirement.model.why_unreachable(requirement.whole(problem.cells.counts))
        blocking = f"{why}; generalizing its values does not help" if why else blocking
    if started is not None:
        blocking = _why_beyond_cap(problem, started)
    if blocking and not problem.max_withheld:
        raise UnreachableError(blocking)
    return parts if started is None or blocking else started


def _why_beyond_cap(problem: Problem, parts: Parts) -> str:
    """Return a message if more values of a sensitive attribute are generalized than the policy allows, or ''.

    *parts* are all records that are not withheld, also those without a class.
    """
    of = int(parts.records.sum())
    for (name, n), share in zip(_count_raised(problem, parts).items(), problem.max_generalized, strict=False):
        if share is not None and n > share * of:
            return (
                f"max_generalized of {name!r} is {float(share):g}, but {n:,} of {of:,} records ({n / of:.1%}) would "
                "have to publish a generalized value; allow that, or ask for a larger tau or a smaller l"
            )
    return ""


def _with_last_class(sweep: Sweep, classes: Classes, parts: Parts) -> tuple[Classes, Parts]:
    """Steps 18 to 22: put the records that no class took into a last class, whose label is the root.

    1. Generalize their sensitive values until the last class holds.
    2. If that fails, withhold the records if the policy allows it.
    3. Otherwise dissolve classes into the last class until it holds, beginning with the last to close. The number of
       dissolved classes is found by doubling, then by bisection.
    """
    problem, n = sweep.problem, len(classes.item)
    left = bool((parts.owner < 0).any())
    owner = np.where(parts.owner < 0, n, parts.owner)
    by_owner = np.argsort(owner, kind="stable")
    parts, owner = parts.take(by_owner), owner[by_owner]  # (n_parts,) ascending
    group, alike = parts.alike(problem)  # group: (n_parts,) row of alike

    def attempt(n_dissolved: int) -> Parts | None:
        """Return the labels of the last class, or None if it cannot hold."""
        begin = np.searchsorted(owner, n - n_dissolved)
        records = np.bincount(group[begin:], parts.records[begin:], len(alike.cell)).astype(np.int64)
        found = label_alike(problem, sweep.models, alike._replace(records=records).take(records > 0), sweep.rng)
        if found is None:
            return None
        blocking = _why_beyond_cap(problem, Parts.join([alike._replace(records=alike.records - records), found]))
        if blocking and n_dissolved == n:
            raise UnreachableError(blocking)
        return None if blocking else found

    n_dissolved, found = 0, attempt(0) if left else None
    if left and found is None and not _may_withhold(problem, parts, parts.owner < 0):
        failed, n_dissolved = 0, min(1, n)
        while (found := attempt(n_dissolved)) is None:
            if n_dissolved == n:
                raise UnreachableError(_NOT_TOGETHER)
            failed, n_dissolved = n_dissolved, min(2 * n_dissolved, n)
        while n_dissolved - failed > 1:
            middle = (failed + n_dissolved) // 2
            if (fewer := attempt(middle)) is None:
                failed = middle
            else:
                n_dissolved, found = middle, fewer
    kept = n - n_dissolved
    if found is not None:
        begin = int(np.searchsorted(owner, kept))
        last = parts.take(np.arange(begin, len(owner))).publish_as(group[begin:], found, sweep.rng)
        parts = Parts.join([parts.take(np.arange(begin)), last._replace(owner=np.full(len(last.cell), kept))])
    root = np.array([[attribute.taxonomy.root for attribute in problem.quasi]], dtype=np.int32)
    item = np.append(classes.item[:kept], len(sweep.items) - 1)
    return Classes(item, np.concatenate([classes.nodes[:kept], root])), parts


def _information(problem: Problem, classes: Classes, parts: Parts) -> float:
    """Return the share of the table's information that parts keep; withheld records keep none."""
    shown = parts.take(parts.owner >= 0)
    kept = information_of(problem.quasi, classes.nodes)[shown.owner] + information_of(problem.sensitive, shown.nodes)
    whole = problem.cells.n_records * sum(attribute.weight for attribute in (*problem.quasi, *problem.sensitive))
    return float((kept * shown.records).sum()) / whole  # no dot product: its rounding depends on the processor


def _may_withhold(problem: Problem, parts: Parts, left: BoolArray) -> bool:
    """Whether the parts that are *left* may be withheld.

    Models that compare with the published table do not allow it. Neither may a sensitive value disappear with these
    records, because labels could then neither name it nor count it.
    """
    records = int(parts.records[left].sum())
    if records > problem.max_withheld or records == problem.cells.n_records:
        return False
    if any(requirement.model.relative_to_whole for requirement in problem.requirements):
        return False
    rest, own = parts.take(~left), parts.own_values(problem)
    if _why_beyond_cap(problem, rest):
        return False
    return all(bool(np.isin(column[left], column[~left]).all()) for column in own.T)


def _as_plan(sweep: Sweep, classes: Classes, parts: Parts) -> Plan:
    """Return the classes as a plan of leaf ranges; parts without a class are withheld."""
    problem = sweep.problem
    parts = parts.take(parts.owner >= 0)
    used, owner = np.unique(parts.owner, return_inverse=True)
    nodes, item = classes.nodes[used], classes.item[used]
    parts = parts._replace(owner=owner.reshape(-1).astype(np.int64))
    trees = [attribute.taxonomy for attribute in problem.quasi]
    least, most = problem.bounds  # a region is made of nodes, and a node that reaches beyond it covers all of it
    lo = np.maximum(np.stack([tree.lo[nodes[:, j]] for j, tree in enumerate(trees)], axis=1), least)
    hi = np.minimum(np.stack([tree.hi[nodes[:, j]] for j, tree in enumerate(trees)], axis=1), most)
    population = {}
    for other in sweep.models.others:
        if other.judge.requirement.population is not None:
            people = np.zeros(len(used), dtype=np.int64)
            for number in np.unique(item).tolist():
                here = item == number
                people[here] = population_under(sweep.trees, other, sweep.items[number], nodes[here])
            population[other.judge.requirement.population_name] = people
    return Plan.of_parts(lo, hi, problem.cells, *parts.as_plan(problem), population)


def _refuse_whole(sweep: Sweep, plan: Plan) -> None:
    """Raise if the plan has only one class and a model compares with the table: such a class always satisfies it."""
    relative = [other for other in sweep.models.others if other.judge.requirement.model.relative_to_whole]
    cells = np.flatnonzero(sweep.problem.cells.counts)
    all_equal = all((codes[cells] == codes[cells[0]]).all() for codes in sweep.problem.quasi_codes)
    if plan.n_classes > 1 or not relative or all_equal or sweep.problem.box is not None:
        return
    judge, model = relative[0].judge, relative[0].judge.requirement.model
    reached, alone = math.inf, True
    for levels in np.eye(sweep.items.shape[1], dtype=np.int32):  # split the table by one attribute
        group, nodes = group_by_label(sweep.trees, levels, cells, sweep.problem.cells.counts)
        if (group < 0).any() or len(nodes) < 2:
            continue
        first, order = kernels.group_items(group, len(nodes))
        parts = Parts.of(sweep.problem).take(order)
        for classes in judge.histograms(first, relative[0].values_of(parts), parts.records):
            reached = min(reached, model.worst(classes, judge.whole))
            alone &= not bool(model.holds(classes, judge.whole).all())
    if not alone:
        raise UnreachableError(
            "all models together are met only by the whole table as one class; ask for less of one of them"
        )
    offer = "ask for much less"
    if math.isfinite(reached):
        offer = f"split by one attribute it reaches {round_up(reached, 4)}, so ask for that or more"
    raise UnreachableError(f"{model.subject}: it is met only by the whole table as one class; {offer}")


def _check(problem: Problem, plan: Plan, defend: bool) -> None:
    """Check every class with the models as it will be published, and its true values if the sweep is defended."""
    for requirement, classes, whole in judge_plan(problem, plan):
        if not requirement.model.holds(classes, whole).all():
            raise UnreachableError(f"{requirement.model.subject}: the sweep found no classes that satisfy it")
    if defend and not is_defended(problem, plan):
        raise UnreachableError("the sweep found no classes whose true sensitive values satisfy the models")


def _warnings(problem: Problem, n_items: int, defend: bool) -> tuple[str, ...]:
    n_combinations = count_items(problem)
    selected = (
        f"the quasi attributes have {n_combinations:,} combinations of levels, too many to try all of them on this "
        f"table: the sweep tried {n_items:,}, at which most groups of similar records share their labels"
    )
    advice = "For more than one class, ask for tau" if defend else "Ask for tau"
    below_base = [
        f"{requirement.model.subject}: the most frequent value has a share of {round_up(float(max(caps)), 4)} of the "
        f"whole table, which is more than tau = {requirement.model.tau:g}. No release can hide a base rate. "
        f"{advice} of at least {round_up(float(max(caps)), 4)}"
        for requirement in problem.requirements
        if isinstance(requirement.model, TauLDiversity)
        and not requirement.model.harmless
        and max(caps := caps_of(requirement, problem)) > fraction(requirement.model.tau)
    ]
    return (
        (selected,) * (n_items < n_combinations)
        + tuple(below_base)
        + tuple(
            f"sensitive attribute {attribute.name!r} has no taxonomy, so its only label covers all of its values"
            for place, attribute in enumerate(problem.sensitive)
            if problem.may_generalize(place) and attribute.taxonomy.height <= 1 and not attribute.taxonomy.declared
        )
    )


def _count_raised(problem: Problem, parts: Parts) -> dict[str, int]:
    """Return how many records publish a generalized value of each sensitive attribute."""
    return {
        attribute.name: int(parts.records[parts.nodes[:, place] >= attribute.taxonomy.n_leaves].sum())
        for place, attribute in enumerate(problem.sensitive)
    }


def generalize(problem: Problem, models: Models, parts: Parts, rng: np.random.Generator) -> Parts | None:
    """Generalize sensitive values of one class until it satisfies all models; return None if that does not help."""
    group, alike = parts.alike(problem)
    found = label_alike(problem, models, alike, rng)
    return None if found is None else parts.publish_as(group, found, rng)


def label_alike(problem: Problem, models: Models, found: Parts, rng: np.random.Generator) -> Parts | None:
    """Generalize sensitive values of parts that differ in them, until one class of all parts satisfies all models.

    Tian and Zhang, steps 1, 2, 20 and 21: the next record has a value that covers the dominant one, under the most
    special node. Return None if that does not help. Other models judge values that are never generalized.
    """
    for place, chosen in enumerate(models.of_place):
        if chosen:
            raised = _lift_values(problem, models, found, place, chosen, rng)
            if raised is None and models.uneven[place]:
                raised = _mix_values(problem, models, found, place, chosen)
            if raised is None:
                return None
            found = raised
    if found.records.sum() < models.rules.records or not models.others_accept(found):
        return None
    return found


def _lift_values(
    problem: Problem, models: Models, parts: Parts, place: int, chosen: tuple[int, ...], rng: np.random.Generator
) -> Parts | None:
    """Lift records until all rules on an attribute hold: step by step, or to one label if labels are defended."""
    tree, steps, rules = problem.sensitive[place].taxonomy, models.steps[place], models.rules
    which = np.array(chosen)
    if not rules.capped[which].any():
        by_node = kernels.sum_groups(parts.nodes[:, place].copy(), parts.records, tree.n_nodes)
        lifted = np.zeros(tree.n_nodes, dtype=np.int64)
        if not lift(rules, which, steps, by_node, lifted):
            return None
        for node in np.flatnonzero(lifted).tolist():  # a node's number is larger than the numbers of all nodes below it
            here = np.flatnonzero(parts.nodes[:, place] == node)
            parts = parts.move(place, [(here, int(lifted[node]))], int(steps[node]), rng)
        return parts
    own = parts.own_values(problem)[:, place]
    counts = kernels.sum_groups(own.copy(), parts.records, tree.n_leaves)
    goal, best = label_class(rules, which, steps, counts, int(counts.sum()))
    if goal < 0:
        return None
    nodes = parts.nodes.copy()
    nodes[:, place] = own
    moved = [(np.flatnonzero(own == value), int(best[value])) for value in np.flatnonzero(best).tolist()]
    parts = parts._replace(nodes=nodes)
    return parts.move(place, moved, goal, rng) if moved else parts


def _mix_values(problem: Problem, models: Models, parts: Parts, place: int, chosen: tuple[int, ...]) -> Parts | None:
    """Find the most special mixture of values and labels that satisfies all rules on an attribute; None if none does.

    With unequal weights, a mixture may hold although everything at the root does not. An integer program finds x, the
    records of each *way* (a part and a node above it). For every limit, the k largest of the frequencies u = shares @ x
    must not exceed a share of the class: this is so if k t + sum(max(u - t, 0)) does not for some t, so each limit adds
    unknowns t and e >= u - t, e >= 0. The result is judged again in whole numbers.
    """
    from scipy.linalg import block_diag
    from scipy.optimize import LinearConstraint, milp

    rules, tree, steps = models.rules, problem.sensitive[place].taxonomy, models.steps[place]
    ways = list(enumerate(parts.nodes[:, place].tolist()))
    for part, node in ways:  # ways grows: each node is followed by the one above it
        if steps[node] != node:
            ways.append((part, int(steps[node])))
    part, node = np.array(ways).T
    moved = parts.take(part)
    moved.nodes[:, place] = node
    own, m, total = moved.own_values(problem)[:, place], tree.n_leaves, int(parts.records.sum())
    inside = (np.arange(m) >= tree.lo[node, np.newaxis]) & (np.arange(m) < tree.hi[node, np.newaxis])
    of_x, of_limits, most, capped = [np.zeros((0, len(ways)))], [], [np.zeros(0)], []
    for r in chosen:
        leaves = slice(rules.first_leaf[r], rules.first_leaf[r + 1])
        units = np.where(node[:, np.newaxis] < m, 1, rules.weights[leaves]) * inside
        shares = (units / units.sum(axis=1, keepdims=True)).T  # (n_leaves, n_ways)
        for k, limit in enumerate(range(rules.first_limit[r], rules.first_limit[r + 1]), start=1):
            of_x.append(np.vstack([shares, np.zeros(len(ways))]))
            of_limits.append(np.block([[-np.ones((m, 1)), -np.eye(m)], [np.full((1, 1), k), np.ones((1, m))]]))
            most.append(np.append(np.zeros(m), total * (rules.top[limit] / rules.bottom[limit])))
        if models.defend:  # under each label, no value exceeds its cap
            caps = rules.cap_top[leaves] / rules.cap_bottom[leaves]
            labels = [(label, v) for label in np.unique(node[node >= m]) for v in np.unique(own[node == label])]
            capped += [(node == label) * ((own == v) - caps[v]) for label, v in labels]
    limits = np.hstack([np.vstack(of_x), block_diag(*of_limits)])
    more = limits.shape[1] - len(ways)
    once = np.arange(len(parts.cell))[:, np.newaxis] == part  # each record of a part goes one way
    constraints = [
        LinearConstraint(limits, -np.inf, np.concatenate(most)),
        LinearConstraint(np.pad(once.astype(np.float64), ((0, 0), (0, more))), parts.records, parts.records),
    ]
    if capped:
        constraints.append(LinearConstraint(np.pad(np.array(capped), ((0, 0), (0, more))), -np.inf, 0))
    information = np.append(1 / (tree.hi - tree.lo)[node], np.zeros(more))
    answer = milp(-information, integrality=np.arange(len(information)) < len(ways), constraints=constraints)
    if answer.x is None:
        return None
    found = moved._replace(records=np.rint(answer.x[: len(ways)]).astype(np.int64))
    found = found.take(found.records > 0)
    by_node = kernels.sum_groups(found.nodes[:, place].copy(), found.records, tree.n_nodes)
    lifted = np.zeros(tree.n_nodes, dtype=np.int64)
    holds = lift(rules, np.array(chosen), steps, by_node, lifted)
    return found if holds and not lifted.any() else None
