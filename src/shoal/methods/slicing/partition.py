"""Which attributes are together in one part: by hand, one each, or those that go together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shoal.arrays import FloatArray
from shoal.methods.slicing.by_hand import places_by_hand
from shoal.methods.slicing.columns import Places, one_each, partitioned, slimmer
from shoal.methods.slicing.correlation import correlations
from shoal.problem import Problem

if TYPE_CHECKING:
    from shoal.methods.slicing import Slicing

_COLUMNS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """The attributes of each part: quasi and sensitive ones by their places, insensitive ones by their names."""

    places: Places
    carried: tuple[tuple[str, ...], ...]  # (n_parts,)
    search: Mapping[str, Any]  # what is told of how it was found
    correlations: FloatArray | None  # (d, d) that may move attributes; None: the policy wants just these parts
    moved: tuple[str, ...] = ()  # quasi attributes that had to leave the sensitive part

    @classmethod
    def of(cls, method: Slicing, problem: Problem) -> Partition:
        """Divide the attributes as the method's parameters say; insensitive ones go to the first part."""
        if method.parts is not None:
            places, carried = places_by_hand(problem, method.parts, method.overlapping)
            search = {"overlapping": _gained(problem, places, method.intervals)} if method.overlapping else {}
            return cls(places, carried, search, None)
        if method.columns == "each":
            places = one_each(problem)
            return cls(places, _in_first(problem, places), {}, None)
        n_columns = _COLUMNS if method.columns is None else method.columns
        columns = partitioned(problem, n_columns, method.alpha, method.correlation, method.intervals)
        names = _names(problem)
        told = {
            f"{names[i]}, {names[j]}": round(float(columns.correlations[i, j]), 6)
            for i in range(len(names))
            for j in range(i)
        }
        return cls(
            columns.places,
            _in_first(problem, columns.places),
            {"correlations": told},
            columns.correlations if method.alpha is None else None,
        )

    def slimmer(self, problem: Problem) -> Partition | None:
        """Return it with one quasi attribute fewer in the sensitive part; None if none can or may leave it."""
        n_quasi = len(problem.quasi)
        last = self.places[-1]
        if self.correlations is None or last[0] >= n_quasi or last[-1] < n_quasi:
            return None
        places, place = slimmer(self.places, self.correlations, n_quasi)
        return replace(self, places=places, moved=(*self.moved, problem.quasi[place].name))


def _names(problem: Problem) -> list[str]:
    return [attribute.name for attribute in (*problem.quasi, *problem.sensitive)]


def _in_first(problem: Problem, places: Places) -> tuple[tuple[str, ...], ...]:
    return problem.carried, *((),) * (len(places) - 1)


def _gained(problem: Problem, places: Places, intervals: int) -> dict[str, Any]:
    """Return what overlapping keeps: correlation of attribute pairs within a part, with it and without it."""
    found = correlations(problem, "phi2", intervals)
    pairs = {(i, j) for group in places for i in group for j in group if i < j}
    seen: set[int] = set()
    alone = set()
    for group in places:
        first = [place for place in group if place not in seen]
        seen.update(first)
        alone |= {(i, j) for i in first for j in first if i < j}
    names = _names(problem)
    return {
        "pairs_gained": [f"{names[i]}, {names[j]}" for i, j in sorted(pairs - alone)],
        "phi2_within_parts": round(float(sum(found[i, j] for i, j in pairs)), 6),
        "phi2_without_overlap": round(float(sum(found[i, j] for i, j in alone)), 6),
    }
