"""The grids of the experiments: requirements of increasing strength, and what the searches run through."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.models.tau_l_diversity import TauLDiversity


@dataclass(frozen=True, slots=True)
class Grid:
    """What one table is asked for, and the parameters that CLD and 1DLD search for it."""

    requirements: tuple[TauLDiversity, ...]  # each at least as strong as the one before
    cld_c: tuple[float, ...]
    cld_l: tuple[int, ...]
    one_d_l: tuple[int, ...]

    @classmethod
    def of(cls, pairs: tuple[tuple[float, int], ...], c: tuple[float, ...], largest_l: int) -> Grid:
        """Build from (tau, l) pairs; both searches take every l from 2 to *largest_l*."""
        every = tuple(range(2, largest_l + 1))
        return cls(tuple(TauLDiversity(tau=tau, l=l) for tau, l in pairs), c, every, every)


def label(requirement: TauLDiversity) -> str:
    """Write a requirement as the axes do.

    >>> label(TauLDiversity(tau=0.25, l=6))
    '(0.25, 6)'
    """
    return f"({requirement.tau:g}, {requirement.l})"


_C = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)

# Without generalized occupations nothing beyond (0.17, 8) can be reached: two of the 14 have 27 % of the records.
ADULT = Grid.of(
    (
        (0.5, 3),
        (0.45, 3),
        (0.4, 4),
        (0.35, 4),
        (0.3, 5),
        (0.25, 6),
        (0.2, 7),
        (0.17, 8),
        (0.15, 9),
        (0.14, 10),
        (0.12, 12),
        (0.1, 13),
    ),
    _C,
    14,
)
# Three classes have 97 % of the records, so without generalized classes nothing beyond l = 3 can be reached.
NURSERY = Grid.of(
    (
        (0.8, 2),
        (0.7, 2),
        (0.6, 3),
        (0.5, 3),
        (0.45, 3),
        (0.4, 3),
        (0.36, 3),
        (0.36, 4),
        (0.33, 4),
        (0.3, 5),
        (0.27, 5),
        (0.25, 5),
    ),
    _C,
    5,
)
QUICK_ADULT = Grid.of(((0.5, 3), (0.3, 5), (0.14, 10)), (1.0, 3.0), 6)
# A sample may lack the class of 2 records, so l = 4 is the most that can be asked for.
QUICK_NURSERY = Grid.of(((0.7, 2), (0.5, 3), (0.3, 4)), (1.0, 3.0), 4)
