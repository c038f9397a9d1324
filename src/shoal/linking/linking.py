"""Linking releases: the values that their intersection leaves for one person, for given people, or for any people."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.linking import kernels
from shoal.linking.beliefs import BeliefJudge
from shoal.linking.kernels import Boxes, BoxIndex, Histograms, PairSummary
from shoal.linking.linkable import Linkable
from shoal.linking.reading import Linked, read_linkables
from shoal.linking.result import PopulationLinkage, RemainingValues, TargetLinkage, WorstCase
from shoal.linking.space import Space
from shoal.policy.policy import Policy
from shoal.release.sliced.table import number_rows
from shoal.sources.base import Source
from shoal.sources.opening import open_source

WORST = 10
MOST_PAIRS = 2**24
_NONE = np.iinfo(np.int64).max
_PARTS, _FEW = 16, 4096  # parts for threads; the number of boxes below which one thread is enough


def link(
    releases: Sequence[Linked],
    target: str | Mapping[str, str] | None = None,
    *,
    floor: int = 2,
    population: object | None = None,
    policy: str | Path | Mapping[str, Any] | Policy | None = None,
    sensitive: str | None = None,
) -> PopulationLinkage | TargetLinkage:
    """Return the values that several releases leave for all people who are in all of them, or for one person.

    Parameters
    ----------
    releases
        Results of ``shoal.anonymize``, their folders, or tables of others.
    target
        The known values of one person, such as "sex=F,zip=560010"; the result has the values that remain.
    floor
        Without a target, the result counts the people for whom fewer values than this remain.
    population
        A table with one row per person and at least one of the original quasi attributes. Without it, all combinations
        of classes that a person can be in are examined.
    policy
        The roles of the columns of tables of others.
    sensitive
        The sensitive attribute, if the releases have several in common.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import shoal
    >>> illness = ["flu", "cold", "cold", "gout"]
    >>> people = pa.table({"age": [31, 32, 46, 47], "sex": ["F", "M", "F", "M"], "ill": illness})
    >>> def publish(known, hidden):
    ...     roles = {known: {"role": "quasi"}, hidden: {"role": "identifier"}, "ill": {"role": "sensitive"}}
    ...     return shoal.anonymize(people, {"attributes": roles, "privacy": [{"k-anonymity": {"k": 2}}]})
    >>> both = [publish("age", "sex"), publish("sex", "age")]
    >>> found = shoal.link(both)
    >>> found.l, found.people_below
    (1, 4)
    >>> shoal.link(both, "age=46,sex=F").remaining.counts
    {'cold': 1}
    """
    if target is not None and population is not None:
        raise UsageError("a target is one person and a population many people; give one of them")
    if target is None and floor < 1:
        raise UsageError(f"the floor is a number of values, at least 1; received {floor}")
    if len(releases) < 2:
        raise UsageError(f"linking takes at least two releases; received {len(releases)}")
    loaded = None if policy is None else Policy.load(policy)
    if target is not None:
        return _link_target(releases, parse_target(target) if isinstance(target, str) else target, loaded, sensitive)
    people = None if population is None else open_source(population, None if loaded is None else loaded.source)

    def find_known(quasi: Collection[str]) -> Collection[str]:
        names = [name for name in quasi if people is None or name in people.schema.names]
        if not names and people is not None:
            raise UsageError(f"{people.name} lacks all of the releases' quasi attributes: {', '.join(quasi)}")
        return names

    linkables, chosen = read_linkables(releases, policy=loaded, sensitive=sensitive, known=find_known)
    space = Space.of(linkables, fold=True)
    alone = tuple(int(each.histograms.distinct.min()) for each in space.releases)
    found = link_classes(space, linkables, floor) if people is None else link_people(space, linkables, people, floor)
    return PopulationLinkage(
        releases=tuple(each.name for each in linkables),
        sensitive=chosen,
        attributes=space.attributes,
        values=len(space.values),
        alone=alone,
        bound=worst_case_l(len(space.values), alone),
        floor=floor,
        population=population is not None,
        **found,
        **_common_plan(linkables),
    )


def _link_target(
    releases: Sequence[Linked], target: Mapping[str, str], policy: Policy | None, sensitive: str | None
) -> TargetLinkage:
    """Return the values that releases leave for a person with these known quasi values, as texts.

    Of every sensitive value, the smallest count in any release remains: Rameshwar and Tandon, section 2.3. Attributes
    that *target* does not name are unknown; an empty text is a missing value.
    """

    def check(quasi: Collection[str]) -> Collection[str]:
        if not target:
            raise UsageError("the target has no attribute; name at least one")
        for name in target:
            if name not in quasi:
                hint = did_you_mean(name, quasi)
                raise UsageError(f"the target names {name!r}, which is not a quasi attribute of the releases{hint}")
        return target.keys()

    linkables, chosen = read_linkables(releases, policy=policy, sensitive=sensitive, known=check)
    space = Space.of(linkables, fold=True)
    sums, found = space.look_up(space.make_lookups(), _query(space, target))
    for each, own in zip(linkables, found, strict=True):
        if not len(own.boxes):
            raise UsageError(f"no class of {each.name} covers the target, so no person with these values is in it")
    texts = space.value_texts
    return TargetLinkage(
        releases=tuple(each.name for each in linkables),
        sensitive=chosen,
        remaining=RemainingValues.of(np.min([each[0] for each in sums], axis=0), texts),
        alone=tuple(RemainingValues.of(each[0], texts) for each in sums),
        **_common_plan(linkables),
    )


def parse_target(text: str) -> dict[str, str]:
    """Read ``sex=Female,zip=560010``; within a value, a comma is written as ``%2C`` and a percent sign as ``%25``.

    >>> parse_target("sex=Female, zip=560010")
    {'sex': 'Female', 'zip': '560010'}
    """
    target: dict[str, str] = {}
    for number, piece in enumerate(text.split(","), start=1):
        name, equals, value = (part.strip().replace("%2C", ",").replace("%25", "%") for part in piece.partition("="))
        if not equals or not name:
            raise UsageError(f"--target: entry {number} is not written as attribute=value")
        if name in target:
            raise UsageError(f"--target names {name!r} twice")
        target[name] = value
    return target


def _common_plan(linkables: Sequence[Linkable]) -> dict[str, Any]:
    """Return the plan of all releases, if they have the same, and the number of values that it guarantees."""
    first = linkables[0].agreement
    if first is None or any(each.agreement is None or each.agreement.digest != first.digest for each in linkables):
        return {}
    return {"plan": first.digest, "promised": first.promised}


def _query(space: Space, target: Mapping[str, str]) -> CodeArray:
    query = np.zeros((1, 2 * len(space.attributes)), dtype=np.int32)
    for name, value in target.items():
        place = space.attributes.index(name)
        cover = space.covers[place]
        given = pa.array([value or None], pa.string())
        if value and cover.kind in ("number", "date") and not cover.can_read(given)[0]:
            raise UsageError(f"the target's {name!r} cannot be read as a {cover.kind}")
        code = space.codes(place, given)[0]
        query[0, 2 * place : 2 * place + 2] = code, code + 1
    return query


def worst_case_l(n_values: int, ls: Sequence[int]) -> int:
    """Return the smallest number of values that can remain for a person in releases of these distinct l.

    Rameshwar and Tandon, "(l, delta)-Diversity", Proposition 3.1, for any number of releases and for a different l in
    each: a release with l of |S| values excludes at most |S| - l of the L = |S| - 1 values that are not the person's
    own, and in the worst case no two releases exclude the same one.

    >>> worst_case_l(10, [9, 9]), worst_case_l(10, [4, 4])
    (8, 1)
    """
    if n_values < 1:
        raise UsageError(f"there must be at least one sensitive value, not {n_values}")
    if not ls:
        raise UsageError("a worst case needs at least one release; none was given")
    for l in ls:
        if not 1 <= l <= n_values:
            raise UsageError(f"l must be from 1 to the number of sensitive values, {n_values}; received {l}")
    others = n_values - 1
    return 1 + max(0, others - sum(n_values - l for l in ls))


def link_people(space: Space, linkables: Sequence[Linkable], people: Source, floor: int) -> dict[str, Any]:
    with ThreadPoolExecutor(1) as threads:
        growing = threads.submit(space.make_lookups)
        queries, person = space.queries_of(people)
    lookups = growing.result()
    rows = np.bincount(person, minlength=len(queries)).astype(np.int64)
    distinct = np.zeros(len(queries), dtype=np.int64)
    frequency, entropy = np.zeros(len(queries)), np.zeros(len(queries))

    def measure(block: slice, sums: list[IntArray]) -> None:
        kernels.measure_counts(reduce(np.minimum, sums), distinct[block], frequency[block], entropy[block])

    space.look_up_all(lookups, queries, measure)
    linked = distinct > 0
    if not linked.any():
        raise InputError("no person of the population can be in all releases; are they about the same people?")
    order = np.lexsort((frequency, distinct))
    chosen = order[linked[order]][: 20 * WORST]
    sums, found = space.look_up(lookups, queries[chosen])
    left = np.minimum.reduce(sums)
    members = np.stack([own.boxes[own.start[:-1]] for own in found], axis=1)
    owners = np.stack([each.owner[boxes] for each, boxes in zip(linkables, members.T, strict=True)], axis=1)
    _, unlike = np.unique(owners, axis=0, return_index=True)
    below = linked & (distinct < floor)
    return {
        "l": int(distinct[linked].min()),
        "frequency_l": float(frequency[linked].min()),
        "entropy_l": float(entropy[linked].min()),
        "people": len(person),
        "people_linked": int(rows[linked].sum()),
        "people_below": int(rows[below].sum()),
        "exact": True,
        "combinations": int(linked.sum()),
        "combinations_below": int(below.sum()),
        "combinations_empty": int((~linked).sum()),
        "worst": tuple(
            WorstCase.of(linkables, members[place].tolist(), left[place], space.value_texts)
            for place in np.sort(unlike)[:WORST].tolist()
        ),
    }


def link_classes(space: Space, linkables: Sequence[Linkable], floor: int) -> dict[str, Any]:
    """Link for all possible people: all combinations of classes, one of each release, that have values in common.

    Returns the entries of a ``PopulationLinkage``.
    """
    indexes = space.index()
    boxes, members = _join_releases(space, indexes, len(linkables) - 1)
    overlapping = any(kernels.any_overlap(*both) for both in zip(space.releases, indexes, strict=True))
    last = space.releases[-1]
    owners = [each.owner[boxes] for each, boxes in zip(linkables[:-1], members.T, strict=True)]
    boxes = boxes._replace(owner=number_rows(owners, len(members))[0].astype(np.int64))
    seen = _look_at_pairs(boxes, last, indexes[-1], len(space.values), floor)
    if not seen.totals[0]:
        raise InputError("the classes of the releases have no values in common; are they about the same people?")
    texts = space.value_texts

    def intersect(one: int, other: int) -> IntArray:
        here = boxes.histograms.rows(np.array([one]), len(texts))
        there = last.histograms.rows(np.array([other]), len(texts))
        return np.minimum(here, there).reshape(-1)

    return {
        "l": int(seen.least[0]),
        "frequency_l": float(seen.least[1]),
        "entropy_l": float(seen.least[2]),
        "people": min(each.n_rows for each in linkables),
        "people_linked": _most_people(linkables, members[seen.met], seen.met_there),
        "people_below": _most_people(linkables, members[seen.below], seen.below_there),
        "exact": not overlapping,
        "combinations": int(seen.totals[0]),
        "combinations_below": int(seen.totals[1]),
        "combinations_empty": int(seen.totals[2]),
        "worst": tuple(
            WorstCase.of(linkables, [*members[one].tolist(), other], intersect(one, other), texts)
            for _, _, one, other in seen.worst[seen.worst[:, 0] < _NONE].tolist()
        ),
    }


def judge_classes(space: Space, linkables: Sequence[Linkable], judge: BeliefJudge) -> tuple[int, float]:
    """Return the largest number of people in classes that together violate a guarantee, and the largest belief.

    Without people, it is unknown how many share the classes: beliefs are judged for one person and for all.
    """
    _, members = _join_releases(space, space.index(), len(linkables))
    kept, belief = np.ones(len(members), dtype=np.bool_), 0.0
    for block in space.blocks(len(members)):
        both = zip(space.releases, members[block].T, strict=True)
        left = np.stack([each.histograms.rows(own, len(space.values)) for each, own in both])
        fewest = np.ones(len(members[block]), dtype=np.int64)
        kept[block], largest = judge.judge(left, fewest, np.full_like(fewest, _NONE))
        belief = max([belief, *largest])
    there = np.zeros(len(linkables[-1].labels), dtype=np.bool_)
    there[members[~kept, -1]] = True
    return _most_people(linkables, members[~kept, :-1], there) if not kept.all() else 0, belief


def _join_releases(space: Space, indexes: Sequence[BoxIndex], count: int) -> tuple[Boxes, IntArray]:
    """Return the intersections of the boxes of the first *count* releases, and the members of each."""
    boxes, members = space.releases[0], np.arange(len(space.releases[0].hulls))[:, None]
    for each, index in zip(space.releases[1:count], indexes[1:count], strict=True):
        boxes, members = _join(space, boxes, members, each, index)
    return boxes, members


def _look_at_pairs(boxes: Boxes, there: Boxes, index: BoxIndex, n_values: int, floor: int) -> PairSummary:
    """Examine all pairs of boxes that meet, in threads, each with whole owners."""
    both = (boxes.histograms, there.histograms)
    most = max(int(np.add.reduceat(each.counts, each.start[:-1]).max()) for each in both)
    logs = np.log(np.maximum(np.arange(most + 1), 1))
    sequence = np.argsort(boxes.owner, kind="stable")
    parts = [sequence]
    if len(sequence) >= _FEW:
        of = boxes.owner[sequence]
        edges = np.searchsorted(of, of[np.arange(1, _PARTS) * len(of) // _PARTS])
        parts = np.split(sequence, np.unique(edges))

    def look(part: IntArray) -> PairSummary:
        n, n_there = len(boxes.hulls), len(there.hulls)
        below, below_there, met, met_there = (np.zeros(size, dtype=np.bool_) for size in (n, n_there, n, n_there))
        worst, least = np.full((WORST, 4), _NONE, dtype=np.int64), np.full(3, np.inf)
        seen = PairSummary(below, below_there, met, met_there, worst, least, np.zeros(3, dtype=np.int64))
        kernels.link_pairs(boxes, part, there, index, n_values, floor, logs, seen)
        return seen

    with ThreadPoolExecutor() as threads:
        every = PairSummary(*map(np.stack, zip(*threads.map(look, parts), strict=True)))
    worst = np.concatenate(every.worst)
    worst = worst[np.lexsort((-worst[:, 1], worst[:, 0]))[:WORST]]
    below, below_there, met, met_there = (np.logical_or.reduce(each) for each in every[:4])
    return PairSummary(below, below_there, met, met_there, worst, every.least.min(axis=0), every.totals.sum(axis=0))


def _join(space: Space, boxes: Boxes, members: IntArray, each: Boxes, index: BoxIndex) -> tuple[Boxes, IntArray]:
    """Return the boxes that meet one of another release, with the values that both leave, and their members."""
    n_values, nothing = len(space.values), np.empty((0, 3), dtype=np.int64)
    n_pairs, n_entries = kernels.join_pairs(boxes, each, index, n_values, nothing, nothing, False)
    if n_entries > MOST_PAIRS:
        raise UsageError(
            f"the classes of three and more releases meet in too many ways ({n_pairs:,}); give the people with "
            "--population, or link two at a time"
        )
    pairs, entries = np.empty((n_pairs, 2), dtype=np.int64), np.empty((n_entries, 3), dtype=np.int64)
    kernels.join_pairs(boxes, each, index, n_values, pairs, entries, True)
    one, other = boxes.hulls[pairs[:, 0]], each.hulls[pairs[:, 1]]
    hulls = np.empty_like(one)
    hulls[:, ::2] = np.maximum(one[:, ::2], other[:, ::2])
    hulls[:, 1::2] = np.minimum(one[:, 1::2], other[:, 1::2])
    uneven = np.concatenate([boxes.uneven[pairs[:, 0]], each.uneven[pairs[:, 1]]], axis=1)
    left = Histograms.of(entries[:, 0], entries[:, 1], entries[:, 2], n_pairs, n_values)
    return Boxes(hulls, uneven, left, np.arange(n_pairs)), np.column_stack((members[pairs[:, 0]], pairs[:, 1]))


def _most_people(linkables: Sequence[Linkable], members: IntArray, there: BoolArray) -> int:
    """Return how many people can be in any of the combinations: each is a record of a class of every release."""
    chosen = [np.unique(members[:, place]) for place in range(members.shape[1])]
    chosen.append(np.flatnonzero(there))
    return min(min(each.n_rows, each.records_in(boxes)) for each, boxes in zip(linkables, chosen, strict=True))
