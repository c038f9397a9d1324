"""How the columns of a sliced release hang together: parts, and the attributes that link two of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from shoal.verify.manifest import Manifest


class OverlapError(Exception):
    """Parts overlap in a way in which it is not known what an adversary learns; the message says where."""


@dataclass(frozen=True, slots=True)
class PartLayout:
    """One part: its attributes by what an adversary knows of them, and their columns in the file."""

    column_of: dict[str, str]  # attribute -> column, in the order of the file
    quasi: tuple[str, ...]
    rest: tuple[str, ...]  # sensitive and insensitive attributes
    boxed: bool  # whether quasi values are published as labels
    blurred: bool = False  # whether some quasi values do not follow from the source
    compared: tuple[str, ...] = ()  # what rows of both tables are compared by, beside quasi values that all follow

    @property
    def located(self) -> bool:
        """Whether each row of the source lies in a region of the part."""
        return self.boxed and not self.blurred


@dataclass(frozen=True, slots=True)
class Separator:
    """Attributes that two parts share: an adversary joins the parts through them."""

    first: int
    second: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """All parts, and the separators of the tree in which overlapping ones are joined."""

    parts: tuple[PartLayout, ...]
    separators: tuple[Separator, ...]
    shared: str | None  # the sensitive attribute, if several parts have it

    @property
    def known(self) -> tuple[int, ...]:
        """The parts with quasi attributes: only these tell an adversary where a person may be."""
        return tuple(place for place, part in enumerate(self.parts) if part.quasi)

    @property
    def blurred(self) -> bool:
        """Whether an adversary's tuples are not those of the source: some quasi values were left to chance."""
        return any(part.blurred for part in self.parts)

    @property
    def informed(self) -> tuple[int, ...]:
        """The parts with the sensitive attribute, if several have it."""
        return tuple(place for place, part in enumerate(self.parts) if self.shared in part.rest)

    def part_of(self, subject: Sequence[str]) -> int | None:
        """Return the part that holds all these sensitive attributes."""
        for place, part in enumerate(self.parts):
            if set(subject) <= set(part.rest):
                return place
        return None

    @classmethod
    def of(cls, manifest: Manifest) -> Layout:
        """Read the parts of a manifest; raise OverlapError if those that overlap form no tree."""
        by_name = {attribute.name: attribute for attribute in manifest.attributes}
        parts = []
        for names, columns in zip(manifest.parts, manifest.part_columns, strict=True):
            quasi = tuple(name for name in names if by_name[name].role == "quasi")
            rest = tuple(name for name in names if by_name[name].role != "quasi")
            boxed = bool(quasi) and by_name[quasi[0]].boxed
            exact = tuple(name for name in names if manifest.traced(by_name[name]))
            blurred = not set(quasi) <= set(exact)
            compared = tuple(n for n in exact if n in rest or (blurred and not boxed))
            column_of = dict(zip(names, columns, strict=True))
            parts.append(PartLayout(column_of, quasi, rest, boxed, blurred, compared))
        named = [name for part in manifest.parts for name in part]
        shared = next((a.name for a in manifest.of_role("sensitive") if named.count(a.name) > 1), None)
        links = [(*part.quasi, shared) if shared in part.rest else part.quasi for part in parts]
        return cls(tuple(parts), join_tree(links), shared)


def join_tree(parts: Sequence[Sequence[str]]) -> tuple[Separator, ...]:
    """Return the separators of a junction tree over overlapping parts, or raise OverlapError.

    A spanning tree with the most shared attributes is one if any is: then the parts of every attribute hang
    together in it.

    >>> [separator.names for separator in join_tree([("a", "b"), ("b", "c"), ("c", "d")])]
    [('b',), ('c',)]
    """
    pairs = []
    for first, second in combinations(range(len(parts)), 2):
        shared = tuple(name for name in parts[first] if name in parts[second])
        if shared:
            pairs.append(Separator(first, second, shared))
    tree_of = list(range(len(parts)))
    chosen = []
    for pair in sorted(pairs, key=lambda pair: -len(pair.names)):
        one, other = tree_of[pair.first], tree_of[pair.second]
        if one != other:
            chosen.append(pair)
            tree_of = [one if tree == other else tree for tree in tree_of]
    for name in dict.fromkeys(name for part in parts for name in part):
        links = sum(name in pair.names for pair in chosen)
        if links != sum(name in part for part in parts) - 1:
            raise OverlapError(f"the parts that share {name!r} form no tree with the other parts that overlap")
    return tuple(chosen)
