"""Which attributes are together in one part: by hand, one each, or those that go together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shoal.core.arrays import FloatArray
from shoal.core.errors import PolicyError, did_you_mean
from shoal.methods.slicing.columns import Places, one_each, partitioned, slimmer
from shoal.methods.slicing.correlation import correlations
from shoal.plan.links import linked
from shoal.plan.problem import Problem
from shoal.plan.slices import Part

if TYPE_CHECKING:
    from shoal.methods.slicing import Slicing

_WHERE = "method.slicing.parts"
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


def places_by_hand(
    problem: Problem, given: Sequence[Sequence[str]], overlapping: bool
) -> tuple[Places, tuple[tuple[str, ...], ...]]:
    """Return the places of quasi and sensitive attributes of each part, and the names of insensitive ones.

    Insensitive attributes that are in no part go to the first that has no sensitive one.
    """
    names = [attribute.name for attribute in (*problem.quasi, *problem.sensitive)]
    known = [*names, *problem.carried]
    for part in given:
        for name in part:
            if name not in known:
                hint = did_you_mean(name, known) or f"; these are {', '.join(known)}"
                raise PolicyError(f"{_WHERE}: {name!r} is no attribute that is published{hint}")
        if len(set(part)) < len(part):
            raise PolicyError(f"{_WHERE}: a part has the same attribute twice")
        if not part:
            raise PolicyError(f"{_WHERE}: a part has no attributes")
    if len(given) < 2:
        raise PolicyError(f"{_WHERE}: one part hides nothing; give at least two")
    times = Counter(name for part in given for name in part)
    absent = [name for name in names if not times[name]]
    if absent:
        raise PolicyError(
            f"{_WHERE}: {', '.join(absent)} in no part; every quasi and sensitive attribute must be in one"
        )
    repeated = [name for name in known if times[name] > 1]
    if repeated and not overlapping:
        raise PolicyError(
            f"{_WHERE}: {', '.join(repeated)} in several parts; say overlapping: true if that is meant, and the check "
            "will reckon with an adversary who joins the parts by it"
        )
    _check_shared(problem, repeated)
    left = tuple(name for name in problem.carried if not times[name])
    sensitive = {attribute.name for attribute in problem.sensitive}
    carried = [tuple(name for name in part if name in problem.carried) for part in given]
    home = next((i for i, part in enumerate(given) if not set(part) & sensitive), 0)
    carried[home] = (*carried[home], *left)
    places = tuple(tuple(sorted(names.index(name) for name in part if name in names)) for part in given)
    if sum(map(bool, places)) < 2:
        raise PolicyError(
            f"{_WHERE}: one part has all quasi and sensitive attributes, which hides nothing; divide them too"
        )
    return places, tuple(carried)


def _check_shared(problem: Problem, repeated: Sequence[str]) -> None:
    """Raise where the adversary who joins parts is not one that can be reckoned with."""
    carried = [name for name in repeated if name in problem.carried]
    if carried:
        raise PolicyError(
            f"{_WHERE}: {', '.join(carried)} is insensitive and may link parts row by row; put it into one part only"
        )
    sensitive = [attribute.name for attribute in problem.sensitive]
    if any(name in sensitive for name in repeated) and len(sensitive) > 1:
        raise PolicyError(
            f"{_WHERE}: with several sensitive attributes none of them can be in several parts: what joining by it "
            "tells of the others cannot be checked"
        )


def check_tree(parts: Sequence[Part]) -> None:
    """Raise unless what is learned by joining parts can be computed."""
    if linked([part.members for part in parts]) is None:
        raise PolicyError(
            f"{_WHERE}: the shared attributes link the parts in a circle, and what an adversary learns by joining them "
            "cannot be computed then; let parts that share an attribute be linked by parts that have it too"
        )


def check_joint(problem: Problem, parts: Sequence[Part], overlapping: bool) -> None:
    """Raise unless the attributes of each model on joint values are in one part."""
    for requirement in problem.requirements:
        wanted = problem.sensitive_places(requirement)
        if len(wanted) < 2:
            continue
        if overlapping or not any(wanted <= set(part.sensitive) for part in parts):
            raise PolicyError(
                f"{requirement.model.subject}: its attributes must be in one part, and parts must not overlap; "
                "joint values across parts are not published"
            )
