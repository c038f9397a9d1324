"""The verifier makes labels again from their covers: it agrees with all that taxonomies write, and with no other."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.registry import discover
from shoal.manifest import Attribute as PublishedAttribute
from shoal.plan.problem import Attribute
from shoal.release.columns import PublishedColumn
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.tree import Taxonomy, widen
from shoal.verify.covers import CoverError
from shoal.verify.readings import check_readings

BUILDERS = discover("shoal.taxonomies.builders", TaxonomyBuilder)
WORDS = ["a", "b,c", "{d}", "e...f", '"g"', "  ", "(h)", "missing", "*", "[1, 2]", "k", "l", "m", "n", "o", "p"]
GROUPS = {
    "low": {"r": ["a", "b,c", "{d}"], "x, y": ["e...f", '"g"']},
    "high": [*WORDS[5:8], *WORDS[9:12]],
    "{top}": WORDS[12:],
}
DAYS = ["2023-12-30", "2024-01-05", "2024-02-29", "2024-05-01", "2031-07-07"]
EXAMPLES: dict[str, list[tuple[dict[str, Any], list[Any]]]] = {
    "intervals": [
        ({"min": 0, "max": 99, "widths": [10, 50]}, []),
        ({"min": -7, "max": 42, "widths": [5, 25], "open": "both", "origin": 0}, []),
        ({"min": 0.0, "max": 9.5, "widths": [0.5, 2.5]}, []),
        ({"min": 0.1, "max": 1.1, "widths": [0.1, 0.5], "open": "both"}, []),
        ({"min": 0, "max": 120, "edges": [[18, 65], [65]], "open": "high"}, []),
    ],
    "numbers": [({}, [17, 20, 21, 25, 32, 90, 91]), ({}, [0.25, 0.5, 1.75, 9.0, 12.125]), ({}, [-30, -5, 0, 1200])],
    "dates": [
        ({}, DAYS),
        ({"min": "2024-01-15", "max": "2024-12-20"}, []),
        ({"min": "2019-02-03", "levels": ["month", "year"]}, DAYS),
    ],
    "mask": [({"length": 5}, ["47110", "47119", "47200", "10115"]), ({"length": 2, "alphabet": "digits"}, [])],
    "flat": [({}, WORDS), ({"values": WORDS}, [])],
    "groups": [({"groups": GROUPS}, [])],
    "tree": [({"tree": {"all": GROUPS}}, [])],
}
CASES = [(name, number) for name, cases in EXAMPLES.items() for number in range(len(cases))]


def built(name: str, number: int, *, missing: bool) -> Taxonomy:
    options, values = EXAMPLES[name][number]
    tree = BUILDERS[name].model_validate(options).build(pa.array(values))
    return tree.with_missing() if missing else tree


def ranges_of(tree: Taxonomy) -> tuple[np.ndarray, np.ndarray]:
    """All nodes, and many ranges on the declared grid."""
    rng = np.random.default_rng(3)
    lo = rng.integers(0, tree.n_leaves, 200)
    hi = np.minimum(lo + 1 + rng.integers(0, max(tree.n_leaves // 2, 1), 200), tree.n_leaves)
    wide = widen(tree, lo.astype(np.int32), hi.astype(np.int32), ranges=True)
    return np.append(tree.lo, wide[0]), np.append(tree.hi, wide[1])


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("name", "number"), CASES)
def test_all_labels_are_made_again(name: str, number: int, missing: bool) -> None:
    tree = built(name, number, missing=missing)
    column = PublishedColumn.of_ranges(Attribute("a", tree), *ranges_of(tree))
    assert column.entry is not None
    check_readings(PublishedAttribute(name="a", **column.entry))


def test_every_builder_is_here_but_files() -> None:
    assert set(EXAMPLES) == set(BUILDERS) - {"file"}


@pytest.mark.parametrize(("name", "number"), [case for case in CASES if case[0] not in ("flat", "groups", "tree")])
def test_covers_of_other_labels_are_refused(name: str, number: int) -> None:
    """The names of groups may be given to any values; all else may not be exchanged."""
    tree = built(name, number, missing=True)
    entry = PublishedColumn.of_ranges(Attribute("a", tree), *ranges_of(tree)).entry
    assert entry is not None
    labels = list(entry["labels"].items())
    for (label, _), (_, cover) in itertools.islice(itertools.permutations(labels[:30], 2), 400):
        if "(not missing)" in label:
            continue
        changed = {**entry, "labels": {**entry["labels"], label: cover}}
        changed.pop("domain", None)
        with pytest.raises(CoverError):
            check_readings(PublishedAttribute(name="a", **changed))
