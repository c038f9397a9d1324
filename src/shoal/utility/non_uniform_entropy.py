"""non-uniform-entropy: how many bits tell an original value once the published one is known."""

from __future__ import annotations

import math

import numpy as np

from shoal.core.arrays import IntArray
from shoal.core.kernels import summed
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute, Problem
from shoal.utility.base import Measure
from shoal.utility.kernels import frequencies, open_bits


class NonUniformEntropy(Measure):
    """The sum over records and quasi attributes of -log2(freq(original value) / freq(published value)).

    Gionis and Tassa (TKDE 2009); the plain sum, in bits, as ARX reports it. A published value's frequency is the
    number of original records that it covers, withheld ones included. A withheld record's published value is the
    root; in a full-domain release it is, as in ARX, the value of its level, which is then lost among the withheld.
    """

    name = "non-uniform-entropy"
    title = "non-uniform entropy: bits that the published values leave open, summed over all records"
    better = "lower"
    within = (0.0, math.inf)
    grows_with = 1

    def of(self, problem: Problem, plan: Plan) -> float:
        """Subtract what original values say from what published values say; each is a sum over few numbers."""
        withheld = self._withheld(problem, plan)
        bits = 0.0
        for j, codes in enumerate(problem.quasi_codes):
            original = frequencies(codes, problem.cells.counts, problem.quasi[j].taxonomy.n_leaves)
            before = np.concatenate([[0], np.cumsum(original)])
            occurring = original[original > 0]
            bits += open_bits(plan.lo[:, j], plan.hi[:, j], plan.sizes, before)
            bits -= float(np.dot(occurring, np.log2(occurring)))
            if withheld is not None:
                lost = frequencies(codes, withheld, len(original))
                bits += _lost_bits(problem.quasi[j], lost, before, plan.levels.get(problem.quasi[j].name))
        return max(bits, 0.0)

    @staticmethod
    def _withheld(problem: Problem, plan: Plan) -> IntArray | None:
        """Return (n_cells,) the records of each cell that are withheld, or None if none is."""
        if not plan.n_withheld:
            return None
        cell, class_of, records, _ = plan.pieces(problem.cells.counts)
        kept = summed(np.where(class_of >= 0, cell, -1).astype(np.int32), records, problem.cells.n_cells)
        return np.asarray(problem.cells.counts - kept)


def _lost_bits(attribute: Attribute, lost: IntArray, before: IntArray, level: int | None) -> float:
    """Return the bits that one attribute of the withheld records leaves open, given *lost* records of each leaf."""
    if level is None:
        return float(lost.sum() * np.log2(before[-1]))
    nodes = attribute.taxonomy.node_at(level)
    lo, hi = attribute.taxonomy.lo[nodes], attribute.taxonomy.hi[nodes]
    among = np.bincount(nodes, weights=lost)
    among = among[among > 0]
    return open_bits(lo, hi, lost, before) + float(np.dot(among, np.log2(among.sum() / among)))
