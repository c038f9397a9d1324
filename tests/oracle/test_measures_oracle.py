"""Every measure against a slow one that goes record by record, on random tables with random plans."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.cells import Cells
from shoal.plan.plan import KEPT, WITHHELD, Assignment, Plan, Targets
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.files import from_nested
from shoal.utility.base import measure

CITY = from_nested({"*": {"north": ["a", "b"], "south": ["c", "d", "e"]}})
TOWN = from_nested({"*": {"x": ["1", "2", "3"], "y": ["4", "5", "6", "7"]}})
ILL = from_nested({"*": {"p": ["i", "j", "k"], "q": ["l", "m"]}})
PAY = from_nested({"*": {"low": ["0", "1"], "high": ["2", "3"]}})
LEAVES = (5, 7, 5, 4)
N_RECORDS = 60

Range = tuple[int, int]


@dataclass(frozen=True)
class Record:
    """Its four values, and what is published of them; nothing if it is withheld."""

    values: tuple[int, ...]
    published: tuple[Range, ...] | None


def records_of(seed: int, *, generalized: bool) -> list[Record]:
    rng = np.random.default_rng(seed)
    boxes = [((0, 5), (0, 7))]
    for _ in range(4):
        edges = [np.sort(rng.choice(leaves + 1, 2, replace=False)).tolist() for leaves in LEAVES[:2]]
        boxes.append(tuple((int(low), int(high)) for low, high in edges))
    found = []
    for _ in range(N_RECORDS):
        values = tuple(int(rng.integers(leaves - (j == 2))) for j, leaves in enumerate(LEAVES))  # one ill never occurs
        if rng.random() < 0.1:
            found.append(Record(values, None))
            continue
        fitting = [
            box
            for box in dict.fromkeys(boxes)
            if all(low <= v < high for v, (low, high) in zip(values, box, strict=False))
        ]
        box = fitting[int(rng.integers(len(fitting)))]
        sensitive = []
        for taxonomy, value in zip((ILL, PAY), values[2:], strict=True):
            node = value
            while generalized and node != taxonomy.root and rng.random() < 0.3:
                node = int(taxonomy.parent[node])
            sensitive.append((int(taxonomy.lo[node]), int(taxonomy.hi[node])))
        found.append(Record(values, (*box, *sensitive)))
    return found


def planned(records: list[Record], *, generalized: bool) -> tuple[Problem, Plan]:
    cells = Counter(record.values for record in records)
    order = list(cells)
    counts = np.array([cells[values] for values in order], dtype=np.int64)
    codes = tuple(np.array(column, dtype=np.uint8) for column in zip(*order, strict=True))
    requirement = Requirement(
        TauLDiversity(tau=0.5, l=3), 0, values=codes[2].astype(np.int32), n_values=5, taxonomy=ILL, place=0
    )
    problem = Problem(
        (Attribute("city", CITY), Attribute("town", TOWN)),
        (Attribute("ill", ILL), Attribute("pay", PAY)),
        Cells(codes, counts),
        (requirement,),
    )
    kept = [record for record in records if record.published is not None]
    classes = list(dict.fromkeys(record.published[:2] for record in kept))
    lo, hi = (np.array([[ends[side] for ends in box] for box in classes], dtype=np.int32) for side in (0, 1))
    sizes = Counter(classes.index(record.published[:2]) for record in kept)
    size = np.array([sizes[i] for i in range(len(classes))], dtype=np.int64)

    def stated(record: Record) -> tuple[Range, ...]:
        """KEPT where a value is published as it is."""
        pairs = zip(record.published[2:], record.values[2:], strict=True)
        return tuple((KEPT, 0) if ends == (value, value + 1) else ends for ends, value in pairs)

    names = list(
        dict.fromkeys(
            (record.published[:2], *stated(record)) if generalized else (record.published[:2],) for record in kept
        )
    )
    pieces = Counter(
        (
            order.index(record.values),
            WITHHELD
            if record.published is None
            else names.index((record.published[:2], *stated(record)) if generalized else (record.published[:2],)),
        )
        for record in records
    )
    cell, target = (np.array(column) for column in zip(*pieces, strict=True))
    assignment = Assignment.of_pieces(len(order), cell, target, np.array(list(pieces.values())))
    targets = None
    if generalized:
        per_target = Counter()
        for (_, place), number in pieces.items():
            per_target[place] += number
        targets = Targets(
            np.array([classes.index(name[0]) for name in names], dtype=np.int32),
            np.array([[ends[0] for ends in name[1:]] for name in names], dtype=np.int32),
            np.array([[ends[1] for ends in name[1:]] for name in names], dtype=np.int32),
            np.array([per_target[i] for i in range(len(names))], dtype=np.int64),
        )
    return problem, Plan(lo, hi, size, assignment, len(records) - len(kept), targets=targets)


def spread(records: list[Record], record: Record, attribute: int) -> dict[int, Fraction]:
    """The leaves that a published value stands for: all of a quasi range, the occurring ones of a sensitive one."""
    low, high = record.published[attribute]
    there = {r.values[attribute] for r in records}
    leaves = [leaf for leaf in range(low, high) if attribute < 2 or leaf in there]
    return {leaf: Fraction(1, len(leaves)) for leaf in leaves}


def association(table: dict[tuple[int, int], Fraction]) -> float:
    """Cramer's V with Bergsma's correction."""
    rows, columns = defaultdict(Fraction), defaultdict(Fraction)
    for (a, b), weight in table.items():
        rows[a] += weight
        columns[b] += weight
    total = sum(rows.values())
    chi = sum(
        (table.get((a, b), 0) - rows[a] * columns[b] / total) ** 2 / (rows[a] * columns[b] / total)
        for a in rows
        for b in columns
    )
    r, c = len(rows), len(columns)
    square = max(0, chi / total - Fraction((r - 1) * (c - 1)) / (total - 1))
    fewer = min(r - Fraction((r - 1) ** 2) / (total - 1), c - Fraction((c - 1) ** 2) / (total - 1))
    return math.sqrt(square / (fewer - 1)) if fewer > 1 else 0.0


CASES = [(seed, generalized) for seed in range(8) for generalized in (False, True)]


@pytest.mark.parametrize(("seed", "generalized"), CASES)
def test_cheap_measures(seed: int, generalized: bool) -> None:
    records = records_of(seed, generalized=generalized)
    found = measure(*planned(records, generalized=generalized), detail=True)
    kept = [record for record in records if record.published is not None]
    n = len(records)
    information = sum(Fraction(1, high - low) for record in kept for low, high in record.published)
    assert found["um"] == pytest.approx(float(information / (4 * n)), rel=1e-13)
    losses = []
    for j, leaves in enumerate(LEAVES):
        shares = sum(Fraction(r.published[j][1] - r.published[j][0], leaves) if r.published else 1 for r in records)
        losses.append(float((shares - Fraction(n, leaves)) / (n - Fraction(n, leaves))))
    assert list(found["attribute-loss"].values()) == pytest.approx(losses, rel=1e-12, abs=1e-14)
    assert found["loss"] == pytest.approx(math.sqrt((1 + losses[0]) * (1 + losses[1])) - 1, rel=1e-12)
    bits = 0.0
    for record in records:
        for j, leaves in enumerate(LEAVES[:2]):
            low, high = record.published[j] if record.published else (0, leaves)
            same = sum(other.values[j] == record.values[j] for other in records)
            bits -= math.log2(same / sum(low <= other.values[j] < high for other in records))
    assert found["non-uniform-entropy"] == pytest.approx(bits, rel=1e-12)
    sizes = Counter(record.published[:2] for record in kept)
    assert found["discernibility"] == sum(size**2 for size in sizes.values()) + (n - len(kept)) * n
    assert found["class-size"] == n / (len(sizes) + (len(kept) < n))


@pytest.mark.parametrize(("seed", "generalized"), CASES)
def test_association_kept(seed: int, generalized: bool) -> None:
    records = records_of(seed, generalized=generalized)
    found = measure(*planned(records, generalized=generalized), expensive=True)["association-kept"]
    shown = [record for record in records if record.published is not None]
    suggested = [defaultdict(Fraction) for _ in LEAVES]
    for record in shown:
        for place in range(4):
            for leaf, share in spread(records, record, place).items():
                suggested[place][leaf] += share
    total, changed = 0.0, 0.0
    for first, second in combinations(range(4), 2):
        before = Counter((record.values[first], record.values[second]) for record in records)
        after = defaultdict(Fraction)
        for record in shown:
            one, other = (reweigh(spread(records, record, place), suggested[place]) for place in (first, second))
            for a, b in product(one, other):
                after[a, b] += one[a] * other[b]
        was = association({pair: Fraction(n) for pair, n in before.items()})
        total += was
        changed += abs(association(after) - was)
    assert found == pytest.approx(max(0.0, 1 - changed / total), abs=1e-6)
    assert 0 <= found <= 1


def reweigh(leaves: dict[int, Fraction], suggested: dict[int, Fraction]) -> dict[int, Fraction]:
    """The leaves of a label in proportion to what all labels of the column give to them."""
    mass = sum(suggested[leaf] for leaf in leaves)
    return {leaf: suggested[leaf] / mass for leaf in leaves}
