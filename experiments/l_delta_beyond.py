"""Beyond Rameshwar and Tandon: records that depend on each other, k and entropy under linkage, no trusted agency.

The theorems stand in ``docs/l-delta-beyond.md``; here they are tried. Classes have equal probability, values fall
geometrically, and both are independent. ``python -m experiments.l_delta_beyond docs`` makes the page's tables anew.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from scipy.stats import binom

from shoal.core.arrays import FloatArray, IntArray, KeyArray

N_CLASSES, N_VALUES, RATIO = 20, 8, 0.8
L, K, DELTA = 5, 50, 0.1
TRIALS = 2000
MARKS = "<!-- tables: begin -->\n", "<!-- tables: end -->"


def joint_chances() -> FloatArray:
    """Return (n_classes, n_values) the chances of a class with a value."""
    values = RATIO ** np.arange(N_VALUES)
    return np.tile(values / values.sum() / N_CLASSES, (N_CLASSES, 1))


def find_least(enough: Callable[[int], bool]) -> int:
    """Return the least number from which on *enough* holds, by doubling and halving.

    >>> find_least(lambda n: n >= 37)
    37
    """
    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class Groups:
    """Records that come in groups, such as families or visits of a patient.

    The first of a group is drawn; each further one repeats it with probability *alike*, and is drawn anew otherwise.
    """

    size: int
    alike: float

    def miss(self, chance: FloatArray, records: int) -> FloatArray:
        """Return how probably what has this chance does not occur among so many records."""
        further = 1 - (1 - self.alike) * chance
        return np.asarray(((1 - chance) * further ** (self.size - 1)) ** (records // self.size))

    def need(self, delta: float) -> int:
        """Return the least number of records, whole groups, at which the union bound is at most *delta*."""
        likeliest = joint_chances()[:, :L]
        return self.size * find_least(lambda groups: self.miss(likeliest, groups * self.size).sum() <= delta)

    def draw_anew(self, records: int, rng: np.random.Generator) -> int:
        """Return how many of the records are drawn, and not repeated."""
        groups = records // self.size
        return groups + int(rng.binomial(groups * (self.size - 1), 1 - self.alike))

    def count_failures(self, records: int, trials: int, rng: np.random.Generator) -> int:
        """Return in how many trials one of the l likeliest values of a class does not occur."""
        chances = joint_chances()
        failed = 0
        for _ in range(trials):
            counts = rng.multinomial(self.draw_anew(records, rng), chances.ravel()).reshape(chances.shape)
            failed += bool((counts[:, :L] == 0).any())
        return failed


def bound_counts(records: int, delta: float) -> tuple[IntArray, IntArray]:
    """Return (n_values,) the ends between which all counts of every class lie, but with probability *delta*.

    Each end of each count is missed with at most an equal share of it.
    """
    share, count = delta / (2 * N_CLASSES * N_VALUES), binom(records, joint_chances()[0])
    return count.ppf(share).astype(np.int64), count.isf(share).astype(np.int64)


def least_entropy(low: IntArray, high: IntArray) -> float:
    """Return the least entropy of any counts between these ends: it is reached where every count is at an end.

    >>> round(float(np.exp(least_entropy(np.array([3, 3]), np.array([3, 3])))), 6)
    2.0
    """
    corners = np.array(list(product(*zip(low, high, strict=True))), dtype=np.float64)
    return float(entropies(corners).min())


def entropies(counts: FloatArray | IntArray) -> FloatArray:
    """Return (...,) the entropy of counts along the last axis."""
    shares = counts / counts.sum(axis=-1, keepdims=True)
    return np.asarray(-(shares * np.log(np.maximum(shares, 1e-300))).sum(axis=-1))


def link(records: int, releases: int, trials: int, rng: np.random.Generator) -> IntArray:
    """Return (trials, n_classes, n_values) the least count of every value over so many independent releases."""
    chances = joint_chances()
    drawn = rng.multinomial(records, chances.ravel(), size=(releases, trials))
    return np.asarray(drawn.min(axis=0).reshape(trials, *chances.shape))


def make_mask(secret: bytes, length: int) -> KeyArray:
    """Return (length,) what two owners who share a secret add and subtract: uniform to everybody else."""
    return np.frombuffer(hashlib.shake_256(secret).digest(8 * length), dtype="<u8").astype(np.uint64)


def mask_counts(counts: Sequence[IntArray], secrets: dict[tuple[int, int], bytes]) -> list[KeyArray]:
    """Return the message of each owner: counts, plus the masks shared with later owners, less those with earlier.

    All is modulo 2^64, so that each message by itself is uniform, and their sum is that of the counts.
    """
    messages = []
    for own, stated in enumerate(counts):
        message = stated.astype(np.uint64)
        for other in range(len(counts)):
            if other != own:
                mask = make_mask(secrets[min(own, other), max(own, other)], len(stated))
                message = message + mask if own < other else message - mask
        messages.append(message)
    return messages


def add_messages(messages: Sequence[KeyArray]) -> IntArray:
    """Return the sum of all messages, in which the masks cancel."""
    return np.asarray(np.sum(np.stack(messages), axis=0, dtype=np.uint64)).astype(np.int64)


def make_tables(trials: int = TRIALS, seed: int = 1) -> str:
    """Return the page's tables as Markdown."""
    return "\n".join([*_table_groups(trials, seed), "", *_table_linkage(trials, seed)]) + "\n"


def _table_groups(trials: int, seed: int) -> Iterator[str]:
    alone = Groups(1, 0.0).need(DELTA)
    yield f"N for independent records, l = {L}, delta = {DELTA}: {alone:,}."
    yield ""
    yield "| group size | alike | with N records: failed | records needed | with these: failed |"
    yield "|---|---|---|---|---|"
    for place, (size, alike) in enumerate(((1, 0.0), (2, 0.5), (2, 1.0), (5, 0.5), (5, 1.0))):
        groups, rng = Groups(size, alike), np.random.default_rng([seed, place])
        failed = [groups.count_failures(records, trials, rng) / trials for records in (alone, groups.need(DELTA))]
        yield f"| {size} | {alike} | {failed[0]:.3f} | {groups.need(DELTA):,} | {failed[1]:.3f} |"


def _table_linkage(trials: int, seed: int) -> Iterator[str]:
    wanted_k = find_least(lambda n: int(bound_counts(n, DELTA)[0].sum()) >= K)
    wanted_entropy = find_least(
        lambda n: (ends := bound_counts(n, DELTA))[0].min() > 0 and least_entropy(*ends) >= np.log(L)
    )
    yield (
        f"k = {K} needs {wanted_k:,} records of each owner, entropy l = {L} needs {wanted_entropy:,}; linked sets may "
        f"fail with at most {DELTA} times the number of releases."
    )
    yield ""
    yield "| releases | k: failed | with half the records | entropy: failed | with a tenth of the records |"
    yield "|---|---|---|---|---|"
    for releases in (1, 2, 3):
        rng = np.random.default_rng([seed, 100 + releases])
        few = [
            float((link(n, releases, trials, rng).sum(axis=2) < K).any(axis=1).mean())
            for n in (wanted_k, wanted_k // 2)
        ]
        uneven = [
            float((entropies(link(n, releases, trials, rng)) < np.log(L)).any(axis=1).mean())
            for n in (wanted_entropy, wanted_entropy // 10)
        ]
        yield f"| {releases} | {few[0]:.3f} | {few[1]:.3f} | {uneven[0]:.3f} | {uneven[1]:.3f} |"


def write_tables(page: Path) -> None:
    """Put the tables into the page, between its marks."""
    text = page.read_text(encoding="utf-8")
    begin, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    page.write_text(text[:begin] + "\n" + make_tables() + "\n" + text[end:], encoding="utf-8")


if __name__ == "__main__":
    write_tables(Path(sys.argv[1]) / "l-delta-beyond.md")
