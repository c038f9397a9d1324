"""ID3 against a textbook table and against a plain implementation, record by record."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

import numpy as np
from experiments.id3 import LEAF, DecisionTree, Examples, learn
from hypothesis import given
from hypothesis import strategies as st

# Quinlan 1986, Table 1: outlook, temperature, humidity, windy -> class
WEATHER = """
sunny hot high false N; sunny hot high true N; overcast hot high false P; rain mild high false P;
rain cool normal false P; rain cool normal true N; overcast cool normal true P; sunny mild high false N;
sunny cool normal false P; rain mild normal false P; sunny mild normal true P; overcast mild high true P;
overcast hot normal false P; rain mild high true N
"""


def weather() -> tuple[np.ndarray, np.ndarray, list[list[str]]]:
    rows = [line.split() for line in WEATHER.replace("\n", " ").split(";")]
    names = [sorted({row[a] for row in rows}) for a in range(5)]
    codes = np.array([[names[a].index(row[a]) for a in range(4)] for row in rows])
    weights = np.zeros((len(rows), 2))
    weights[np.arange(len(rows)), [names[4].index(row[4]) for row in rows]] = 1
    return codes, weights, names


def test_the_saturday_mornings_give_quinlans_tree() -> None:
    codes, weights, names = weather()
    tree = learn(Examples.of_base_values(codes, weights, (3, 3, 2, 2)))
    assert tree.attribute[0] == 0  # outlook
    children = range(tree.first[0], tree.first[1])
    below = {names[0][tree.lo[child]]: int(tree.attribute[child]) for child in children}
    assert below == {"overcast": LEAF, "rain": 3, "sunny": 2}
    assert tree.n_nodes == 8
    assert tree.accuracy(codes, weights) == 1.0


def test_overlapping_labels_speak_by_the_records_that_a_value_would_have() -> None:
    """Value 0 has 3 records of its own for class 0, and a fourth part of 16 for class 1; value 3 only the latter."""
    examples = Examples(
        lo=np.array([[0], [0]], dtype=np.int32),
        hi=np.array([[1], [4]], dtype=np.int32),
        weights=np.array([[3.0, 0.0], [0.0, 16.0]]),
        n_leaves=(4,),
    )
    assert learn(examples).votes(np.array([[0], [3]])).tolist() == [[3.0, 4.0], [0.0, 4.0]]


Label = tuple[int, int]
Record = tuple[tuple[Label, ...], int]


class PlainTree:
    """ID3 as the textbook tells it: one record after another, dictionaries and recursion."""

    def __init__(self, records: list[Record], attributes: list[int], n_leaves: tuple[int, ...], n_classes: int) -> None:
        self.n_leaves = n_leaves
        self.counts = [sum(1 for _, value in records if value == c) for c in range(n_classes)]
        self.branches: dict[Label, PlainTree] = {}
        self.asked: int | None = None
        ways = {a: len({labels[a] for labels, _ in records}) for a in attributes}
        usable = [a for a in attributes if ways[a] > 1]
        if max(self.counts) == len(records) or not usable:
            return
        left = {a: self._entropy_left(records, a) for a in usable}
        least = min(left.values())
        self.asked = next(a for a in usable if left[a] <= least + 1e-9)
        parts: dict[Label, list[Record]] = defaultdict(list)
        for record in records:
            parts[record[0][self.asked]].append(record)
        rest = [a for a in attributes if a != self.asked]
        self.branches = {label: PlainTree(part, rest, n_leaves, n_classes) for label, part in parts.items()}

    @staticmethod
    def _entropy_left(records: list[Record], attribute: int) -> float:
        parts: dict[Label, Counter[int]] = defaultdict(Counter)
        for labels, value in records:
            parts[labels[attribute]][value] += 1
        return sum(
            -count * math.log(count / part.total()) / len(records) for part in parts.values() for count in part.values()
        )

    def votes(self, point: tuple[int, ...]) -> list[float]:
        if self.asked is None:
            return [float(count) for count in self.counts]
        code = point[self.asked]
        covering = [(label, tree) for label, tree in self.branches.items() if label[0] <= code < label[1]]
        if not covering:
            return [count / self.n_leaves[self.asked] for count in self.counts]
        answers = [[vote / (hi - lo) for vote in tree.votes(point)] for (lo, hi), tree in covering]
        return [sum(column) for column in zip(*answers, strict=True)]

    def size(self) -> int:
        return 1 + sum(tree.size() for tree in self.branches.values())


LEAVES = (4, 3, 2)


@st.composite
def published(draw: st.DrawFn) -> list[Record]:
    def label(n_leaves: int) -> st.SearchStrategy[Label]:
        return st.tuples(st.integers(0, n_leaves - 1), st.integers(1, n_leaves)).filter(lambda ends: ends[0] < ends[1])

    record = st.tuples(st.tuples(*(label(n) for n in LEAVES)), st.integers(0, 2))
    return draw(st.lists(record, min_size=1, max_size=25))


def grouped(records: list[Record]) -> DecisionTree:
    items = sorted({labels for labels, _ in records})
    weights = np.zeros((len(items), 3))
    for labels, value in records:
        weights[items.index(labels), value] += 1
    bounds = np.array(items, dtype=np.int32)
    return learn(Examples(bounds[:, :, 0], bounds[:, :, 1], weights, LEAVES))


@given(published())
def test_generalized_records_give_the_same_tree_and_votes_as_the_plain_way(records: list[Record]) -> None:
    plain = PlainTree(records, [0, 1, 2], LEAVES, 3)
    tree = grouped(records)
    assert tree.n_nodes == plain.size()
    points = [(a, b, c) for a in range(4) for b in range(3) for c in range(2)]
    expected = np.array([plain.votes(point) for point in points])
    np.testing.assert_allclose(tree.votes(np.array(points)), expected, atol=1e-12)
