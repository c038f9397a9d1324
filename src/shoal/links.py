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
    placed, links = [0], []
    while len(placed) < len(parts):
        left = [number for number in range(len(parts)) if number not in placed]
        _, part, parent = max((len(set(parts[p]) & set(parts[q])), -p, -q) for p in left for q in placed)
        part, parent = -part, -parent
        before = {member for number in placed for member in parts[number]}
        shared = tuple(member for member in parts[part] if member in before)
        if not set(shared) <= set(parts[parent]):
            return None
        links.append(Link(part, parent, shared))
        placed.append(part)
    return tuple(links)
