"""Linking releases: what their intersection leaves for one person, or for everybody."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray
from shoal.core.errors import UsageError, did_you_mean
from shoal.linking.columns import ABSENT
from shoal.linking.everybody import by_classes, by_population, left_for, trees
from shoal.linking.linkable import Linkable
from shoal.linking.reading import Linked, read_columns, read_linkables
from shoal.linking.result import PopulationLinkage, Remaining, TargetLinkage
from shoal.linking.space import Space
from shoal.policy.policy import Policy
from shoal.release.sliced.table import numbered
from shoal.sources.base import Source
from shoal.sources.opening import open_source
from shoal.taxonomies.tree import free_label


def link_target(
    releases: Sequence[Linked],
    target: Mapping[str, str],
    *,
    policy: str | Path | Mapping[str, Any] | Policy | None = None,
    sensitive: str | None = None,
) -> TargetLinkage:
    """Return what releases leave for a person of whom somebody knows these quasi values, as texts.

    Of every sensitive value the least count that any release leaves remains: Rameshwar and Tandon, section 2.3. An
    attribute that *target* does not name is not known of the person; an empty text is a missing value. *policy*
    tells the roles of tables that are no releases of shoal.
    """
    linkables, chosen = _read(releases, policy, sensitive, lambda quasi: _asked(target, quasi))
    space = Space.of(linkables)
    query = _query(space, target)
    sums, first = left_for(space, trees(space), query)
    for each, found in zip(linkables, first, strict=True):
        if found[0] < 0:
            raise UsageError(f"no class of {each.name} covers the target: nobody with these values is in it")
    texts = spelled(space)
    return TargetLinkage(
        releases=tuple(each.name for each in linkables),
        sensitive=chosen,
        remaining=Remaining.of(np.min([each[0] for each in sums], axis=0), texts),
        alone=tuple(Remaining.of(each[0], texts) for each in sums),
        **_agreed(linkables),
    )


def link(
    releases: Sequence[Linked],
    *,
    floor: int = 2,
    population: object | None = None,
    policy: str | Path | Mapping[str, Any] | Policy | None = None,
    sensitive: str | None = None,
) -> PopulationLinkage:
    """Return what releases leave for everybody who is in all of them, and for how many that is below the floor.

    *population* is a table with one row per person and at least one of the quasi attributes as they are in reality;
    without it every combination of classes that somebody can be in is looked at.
    """
    if floor < 1:
        raise UsageError(f"the floor is a number of values, at least 1; received {floor}")
    loaded = None if policy is None else Policy.load(policy)
    people = None if population is None else open_source(population, None if loaded is None else loaded.source)
    linkables, chosen = _read(releases, loaded, sensitive, lambda quasi: _told(people, quasi))
    space = Space.of(linkables)
    alone = tuple(int(each.histograms.distinct.min()) for each in linkables)
    if people is None:
        found = by_classes(space, linkables, floor, spelled(space))
    else:
        found = by_population(space, linkables, *people_queries(space, people), floor, spelled(space))
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
        **_agreed(linkables),
    )


def parse_target(text: str) -> dict[str, str]:
    """Read ``sex=Female,zip=560010``; a comma within a value is written as ``%2C``, a percent sign as ``%25``.

    >>> parse_target("sex=Female, zip=560010")
    {'sex': 'Female', 'zip': '560010'}
    """
    target: dict[str, str] = {}
    for number, piece in enumerate(text.split(","), start=1):
        name, equals, value = piece.partition("=")
        name = _unescaped(name.strip())
        if not equals or not name:
            raise UsageError(f"--target: entry {number} is not written as attribute=value")
        if name in target:
            raise UsageError(f"--target names {name!r} twice")
        target[name] = _unescaped(value.strip())
    return target


def _unescaped(text: str) -> str:
    return text.replace("%2C", ",").replace("%25", "%")


def spelled(space: Space) -> list[str]:
    """Return the sensitive values as texts, a missing one told apart from all others."""
    absent = free_label(ABSENT, (value for value in space.values if value is not None))
    return [absent if value is None else value for value in space.values]


def _read(
    releases: Sequence[Linked],
    policy: Any,
    sensitive: str | None,
    known: Callable[[Collection[str]], Collection[str]],
) -> tuple[list[Linkable], str]:
    if len(releases) < 2:
        raise UsageError(f"linking takes at least two releases; received {len(releases)}")
    loaded = None if policy is None else Policy.load(policy)
    return read_linkables(releases, policy=loaded, sensitive=sensitive, known=known)


def _asked(target: Mapping[str, str], quasi: Collection[str]) -> Collection[str]:
    """Return the attributes of a target, all of which must be quasi."""
    if not target:
        raise UsageError("the target has no attribute; name at least one")
    for name in target:
        if name not in quasi:
            raise UsageError(
                f"the target names {name!r}, which is no quasi attribute of the releases{did_you_mean(name, quasi)}"
            )
    return target.keys()


def _told(people: Source | None, quasi: Collection[str]) -> Collection[str]:
    """Return the quasi attributes that a population has; without one, all."""
    if people is None:
        return quasi
    names = [name for name in quasi if name in people.schema.names]
    if not names:
        raise UsageError(f"{people.name} has none of the releases' quasi attributes: {', '.join(quasi)}")
    return names


def _agreed(linkables: Sequence[Linkable]) -> dict[str, Any]:
    """Return the plan that all releases are by, if there is one, and how many values it promises."""
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
        measured = bool(value) and cover.attribute.kind in ("number", "date")
        if measured and int(cover.line.places(given)[0]) == cover.line.stretches:
            raise UsageError(f"the target's {name!r} cannot be read as a {cover.attribute.kind}")
        code = space.codes(place, given)[0]
        query[0, 2 * place : 2 * place + 2] = code, code + 1
    return query


def people_queries(space: Space, source: Source) -> tuple[CodeArray, CodeArray]:
    """Return the distinct quasi values of a population as queries, and which of them each of its rows has."""
    table = read_columns(source, space.attributes)
    columns = []
    for place, name in enumerate(space.attributes):
        whole = table.column(name).combine_chunks()
        if not pa.types.is_dictionary(whole.type):
            whole = whole.dictionary_encode()
        code_of = np.append(space.codes(place, whole.dictionary), np.int32(space.covers[place].missing))
        columns.append(code_of[np.asarray(whole.indices.fill_null(len(whole.dictionary)))])
    people, first = numbered(columns, table.num_rows)
    low = np.stack([codes[first] for codes in columns], axis=1)
    return np.stack([low, low + 1], axis=2).reshape(len(first), -1).astype(np.int32), people


def worst_case_l(n_values: int, ls: Sequence[int]) -> int:
    """Return the least number of values that a person can be left with in releases of these distinct l.

    Rameshwar and Tandon, "(l, delta)-Diversity", Proposition 3.1, for any number of releases and for a different l
    in each: a release with l of |S| values rules out at most |S| - l of the L = |S| - 1 values that are not the
    person's own, and in the worst case no two releases rule out the same one.

    >>> worst_case_l(10, [9, 9]), worst_case_l(10, [4, 4])
    (8, 1)
    """
    if n_values < 1:
        raise UsageError(f"there must be at least one sensitive value, not {n_values}")
    if not ls:
        raise UsageError("a worst case is one of at least one release; none was given")
    for l in ls:
        if not 1 <= l <= n_values:
            raise UsageError(f"l must be from 1 to the number of sensitive values, {n_values}; received {l}")
    others = n_values - 1
    return 1 + max(0, others - sum(n_values - l for l in ls))


def composed(guarantees: Sequence[tuple[int, float]]) -> tuple[int, float]:
    """Return the (l, delta) that holds for all of several (l, delta)-diverse releases together.

    Rameshwar and Tandon, Theorem 4.5, for releases that were made with the same agreed classes: all of them are
    l-diverse on the same likely values unless one of them fails, so the chances to fail add up.

    >>> composed([(5, 0.01), (5, 0.02)])
    (5, 0.03)
    """
    if not guarantees:
        raise UsageError("nothing to compose: give at least one (l, delta)")
    for l, delta in guarantees:
        if l < 1 or not 0 <= delta <= 1:
            raise UsageError("(l, delta)-diversity has an l of at least 1 and a delta from 0 to 1")
    return min(l for l, _ in guarantees), min(1.0, sum(delta for _, delta in guarantees))
