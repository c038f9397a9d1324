"""Combinations of classes whose labels are any sets of values, with gaps and overlaps, against brute force."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from tests.tables import cover

from shoal.linking import linking
from shoal.linking.linkable import Candidates, Linkable, read_rows
from shoal.linking.linking import link_classes
from shoal.linking.space import Space
from shoal.release.covers import LabelColumn

VALUES, ILLNESSES = "abcdefgh", ("flu", "gout", "measles", "cough")
Class = tuple[tuple[frozenset[str], ...], Counter[str]]


def table(rng: np.random.Generator, name: str) -> tuple[Linkable, list[Class]]:
    """Return a table of random labels, and its classes as sets of values and counts."""
    n_rows, columns = 14, []
    for attribute in ("one", "two"):
        labels = [frozenset(v for v in VALUES if rng.random() < 0.35) or frozenset("a") for _ in range(4)]
        column = LabelColumn(
            attribute, "category", tuple(map(str, range(4))), tuple({"values": sorted(label)} for label in labels)
        )
        columns.append((column, rng.integers(0, 4, n_rows).astype(np.int32), labels))
    text = rng.integers(0, len(ILLNESSES), n_rows).astype(np.int32)
    linkable = read_rows(name, [(c, codes) for c, codes, _ in columns], text, Candidates.of(ILLNESSES, None, name))
    counts: dict[tuple[int, ...], Counter[str]] = {}
    for row in range(n_rows):
        counts.setdefault(tuple(int(codes[row]) for _, codes, _ in columns), Counter())[ILLNESSES[text[row]]] += 1
    classes = [
        (tuple(labels[place] for place, (_, _, labels) in zip(key, columns, strict=True)), each)
        for key, each in counts.items()
    ]
    return linkable, classes


@pytest.mark.parametrize(("parts", "n_releases", "seed"), cover([1, 5], [2, 3], range(12)))
def test_all_combinations_of_classes_that_have_values_in_common_are_met(
    n_releases: int, seed: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if parts > 1:
        monkeypatch.setattr(linking, "_PARTS", parts)
        monkeypatch.setattr(linking, "_FEW", 1)
    rng = np.random.default_rng([seed, n_releases])
    tables = [table(rng, str(number)) for number in range(n_releases)]
    space = Space.of([linkable for linkable, _ in tables])
    floor = 2 + seed % 2
    left, below = [], [set[int]() for _ in tables]
    empty = 0
    for chosen in itertools.product(*(enumerate(classes) for _, classes in tables)):
        boxes = [box for _, (box, _) in chosen]
        if not all(frozenset.intersection(*sides) for sides in zip(*boxes, strict=True)):
            continue
        counts = [n for s in ILLNESSES if (n := min(each[s] for _, (_, each) in chosen))]
        if not counts:
            empty += 1
            continue
        left.append(counts)
        if len(counts) < floor:
            for marks, (number, _) in zip(below, chosen, strict=True):
                marks.add(number)
    found = link_classes(space, [linkable for linkable, _ in tables], floor)
    assert found["combinations"] == len(left)
    assert found["combinations_below"] == sum(len(counts) < floor for counts in left)
    assert found["l"] == min(map(len, left))
    assert found["frequency_l"] == pytest.approx(min(sum(counts) / max(counts) for counts in left))
    assert found["people_below"] == min(
        sum(sum(classes[number][1].values()) for number in marks)
        for (_, classes), marks in zip(tables, below, strict=True)
    )
    if n_releases == 2:
        assert found["combinations_empty"] == empty
    assert not found["exact"]
