"""Random numbers of rows, determined by a secret and the row's number, not by the order of reading."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import FloatArray, IntArray, KeyArray
from shoal.core.randomness import Chance

BLOCK_ROWS = 4096
_WORDS = 4  # of 64 bits for each row and round


@dataclass(frozen=True, slots=True)
class RowRandom:
    """Words of SHAKE-256 over a secret of 256 bits: known noise of some rows discloses nothing about other rows.

    Rows are computed in whole blocks that start at multiples of 4,096. The boundaries of batches therefore change
    nothing, not even the rounding of a logarithm.

    >>> random = RowRandom.of(Chance.of(7))
    >>> bool((random.draw(0, 9, uniform)[5:] == random.draw(5, 4, uniform)).all())
    True
    """

    secret: bytes = field(repr=False)

    @classmethod
    def of(cls, chance: Chance) -> RowRandom:
        return cls(chance.keys(4).tobytes())

    def draw(self, first_row: int, n_rows: int, draw: Callable[[KeyArray], NDArray[Any]]) -> Any:
        """Apply *draw* to the four random 64-bit words of each row, by blocks, and return (n_rows, ...) results."""
        first_block, last_block = first_row // BLOCK_ROWS, (first_row + max(n_rows, 1) - 1) // BLOCK_ROWS
        blocks = [draw(self.block(block)) for block in range(first_block, last_block + 1)]
        start = first_row - first_block * BLOCK_ROWS
        return np.concatenate(blocks)[start : start + n_rows]

    def block(self, block: int, turn: int = 0) -> KeyArray:
        """Return (4096, 4) the words of a block of rows; each turn has different words."""
        said = self.secret + block.to_bytes(8) + turn.to_bytes(8)
        stream = hashlib.shake_256(said).digest(8 * _WORDS * BLOCK_ROWS)
        return np.frombuffer(stream, dtype="<u8").astype(np.uint64).reshape(BLOCK_ROWS, _WORDS)


def uniform(words: KeyArray) -> FloatArray:
    """Return numbers in (0, 1], each a multiple of 2**-53."""
    return ((words >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53


def exponential(zeros: KeyArray, fractions: KeyArray) -> FloatArray:
    """Return exponential numbers of mean 1 whose tail reaches to 2**-64, from two words each.

    A uniform number is 2**-z times a number in (1/2, 1], where z is the number of leading zero bits.
    """
    _, bits = np.frexp((zeros >> np.uint64(32)).astype(np.float64))  # exact: 32 bits at a time
    _, more = np.frexp((zeros & np.uint64(0xFFFFFFFF)).astype(np.float64))
    leading = np.where(bits > 0, 32 - bits, 64 - more)
    return leading * math.log(2.0) - np.log(0.5 + 0.5 * uniform(fractions))


def two_sided_geometric(words: KeyArray, scale: float) -> IntArray:
    """Return integers n with probabilities proportional to exp(-|n| / scale).

    An exponential number times the scale, rounded down, is at least g with probability exp(-g / scale) and thus
    geometric. The difference of two such numbers has the distribution above.
    """
    one = np.floor(exponential(words[:, 0], words[:, 1]) * scale)
    other = np.floor(exponential(words[:, 2], words[:, 3]) * scale)
    return (one - other).astype(np.int64)


def normal(words: KeyArray) -> FloatArray:
    """Return standard normal numbers (Box and Muller)."""
    radius = np.sqrt(2.0 * exponential(words[:, 0], words[:, 1]))
    return np.asarray(radius * np.cos(2.0 * math.pi * uniform(words[:, 2])))


def round_normal(words: KeyArray, deviation: float) -> IntArray:
    """Return normal numbers of this standard deviation, rounded to integers."""
    return np.rint(deviation * normal(words)).astype(np.int64)
