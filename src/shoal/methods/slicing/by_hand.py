"""Parts given by hand: names become places, and what cannot be sliced so is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shoal.errors import PolicyError, did_you_mean
from shoal.links import linked
from shoal.methods.slicing.columns import Places
from shoal.problem import Problem
from shoal.slices import Part

_WHERE = "method.slicing.parts"


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
