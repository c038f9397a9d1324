"""How likely a match with a unique record is right, if the table is a sample: of the table, and record by record.

Skinner and Elliot, "A measure of disclosure risk for microdata", J. R. Statist. Soc. B 64, 2002 (DIS); spread over the
records by their scores as sdcMicro documents it (DIS-SUDA).
"""

from __future__ import annotations

import numpy as np

from shoal.audit.risk.special import SpecialUniques
from shoal.core.arrays import FloatArray
from shoal.core.errors import UsageError

MOST_ATTRIBUTES = 27  # from 28 the exponent is not positive, and higher scores would mean less risk


def disclosure(uniques: int, pairs: int, fraction: float) -> float:
    """Return the chance that somebody of the population who matches one unique record is the person it is about.

    *uniques* records have no equal, *pairs* records have one; *fraction* of the population is in the table.

    >>> disclosure(90, 20, 0.1)
    0.3333333333333333
    """
    check_fraction(fraction)
    right = uniques * fraction
    return right / (right + pairs * (1 - fraction)) if uniques else 0.0


def record_disclosure(found: SpecialUniques, fraction: float) -> FloatArray | None:
    """Return (n_cells,) DIS-SUDA: records of equal scores all get the table's chance, higher scores more.

    It is defined for up to 27 attributes; None beyond. A record without a score gets 0.
    """
    if len(found.attributes) > MOST_ATTRIBUTES:
        return None
    chance = disclosure(int(found.unique.sum()), found.pairs, fraction)
    scored = found.scores > 0
    out = np.zeros(len(found.scores))
    if not scored.any():
        return out
    steepness = 1 + (8 - len(found.attributes)) / 20
    relative = (found.scores[scored] / found.scores[scored].min()) ** steepness
    wrong = (1 - chance) / chance
    out[scored] = 1 / (1 + wrong / (relative * (1 / relative).mean()))
    return out


def check_fraction(fraction: float) -> None:
    """Raise unless this is a share of a population that a sample can be."""
    if not 0 < fraction <= 1:
        raise UsageError(f"the sample's fraction of the population is above 0 and at most 1; received {fraction}")
