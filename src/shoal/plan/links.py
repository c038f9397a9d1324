"""How overlapping parts hang together: as a tree, in which each part is linked to one before it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Link(Generic[T]):
    """A part, the part before it that it is linked to, and the attributes that both have."""

    part: int
    parent: int
    shared: tuple[T, ...]


def linked(parts: Sequence[Collection[T]]) -> tuple[Link[T], ...] | None:
    """Return how all parts but the first are linked, each to one before it that has all it shares with those before.

    None if there is no such tree. Where there is one, joining the parts within a bucket gives count(a) count(b) /
    count(shared) expected records and no more can be learned. A spanning tree of most shared attributes is such a tree
    whenever there is one (Bernstein and Goodman, "Power of natural semijoins", 1981).

    >>> linked([["age", "zip"], ["sex", "illness"], ["zip", "sex"]])
    (Link(part=2, parent=0, shared=('zip',)), Link(part=1, parent=2, shared=('sex',)))
    >>> linked([["age", "zip"], ["zip", "sex"], ["sex", "age"]])
    """
    members = [set(part) for part in parts]
    before = set(members[0])
    nearest = {part: (len(members[part] & members[0]), 0) for part in range(1, len(parts))}  # common members, parent
    links = []
    while nearest:
        part = max(nearest, key=lambda left: (nearest[left][0], -left))
        _, parent = nearest.pop(part)
        shared = tuple(member for member in parts[part] if member in before)
        if not set(shared) <= members[parent]:
            return None
        links.append(Link(part, parent, shared))
        before |= members[part]
        for left, (common, _) in nearest.items():
            if len(members[left] & members[part]) > common:
                nearest[left] = (len(members[left] & members[part]), part)
    return tuple(links)
