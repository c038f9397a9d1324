"""The measures of a comparison beside slow ones, and reconstruct rows beside what labels cover."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import log, sqrt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.compare.ground import UNKNOWN, Compared, Ground, names_in_all, reconstruct
from shoal.compare.measures import Association, Counting, Learning, Stage
from shoal.policy.policy import AttributePolicy, Policy
from shoal.utility.association_kept import cramers_v

SMALL: dict[str, Any] = {
    "attributes": {
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 9, "widths": [2]}}},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 2}}],
}


def rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    return pa.table(
        {
            "age": rng.integers(0, 10, n),
            "sex": sex,
            "illness": np.where(
                rng.random(n) < 0.5, np.where(sex == "F", "flu", "gout"), rng.choice(["flu", "rash"], n)
            ),
        }
    )


def stage(n: int = 200) -> tuple[Stage, np.ndarray]:
    policy = Policy.load(SMALL)
    tables = [rows(n, 1), rows(n, 2), rows(n, 3)]
    ground = Ground.of(policy, names_in_all([policy]), tables, None)
    source, asked, other = (ground.codes(table) for table in tables)
    return Stage(ground, source, asked, 1), other


def test_counting_is_that_of_looking_at_every_row() -> None:
    where, other = stage()
    measure = Counting(where)
    errors = []
    for questions in measure._questions:
        for number in range(questions.starts.shape[1]):
            shares = []
            for table in (where.source, other):
                inside = 0
                for person in table.T:
                    inside += all(
                        questions.starts[i, number] <= person[place] < questions.stops[i, number]
                        for i, place in enumerate(questions.places)
                    )
                shares.append(inside / table.shape[1])
            errors.append(min(1.0, abs(shares[1] - shares[0]) / max(shares[0], 0.001)))
    assert len(errors) == 1000
    assert measure.score(other).kept == pytest.approx(1 - sum(errors) / len(errors))
    assert all(where.ground.predicted in questions.places for questions in measure._questions)


def slow_v(pairs: list[tuple[int, int]]) -> float:
    n = len(pairs)
    both, first, second = Counter(pairs), Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    square = sum(
        (both[a, b] - first[a] * second[b] / n) ** 2 / (first[a] * second[b] / n) for a in first for b in second
    )
    r, c = len(first), len(second)
    phi = max(0.0, square / n - (r - 1) * (c - 1) / (n - 1))
    return sqrt(phi / (min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1))


def test_association_is_that_of_the_definition() -> None:
    where, other = stage()
    changes, whole = 0.0, 0.0
    for a, b in combinations(range(3), 2):
        before, after = (slow_v(list(zip(t[a].tolist(), t[b].tolist(), strict=True))) for t in (where.source, other))
        changes += abs(after - before)
        whole += before
    assert Association(where).score(other).kept == pytest.approx(1 - changes / whole)


def test_corrected_v_of_independent_attributes_is_near_0_however_few_the_records() -> None:
    rng = np.random.default_rng(4)
    found = []
    for _ in range(200):
        table = np.zeros((10, 10))
        np.add.at(table, (rng.integers(0, 10, 60), rng.integers(0, 10, 60)), 1)
        found.append(cramers_v(table))
    assert np.mean(found) < 0.1  # without the correction it is 0.4


def test_learning_is_naive_bayes() -> None:
    where, other = stage()
    measure = Learning(where)

    def accuracy(table: np.ndarray) -> float:
        known, answers = table[:2].T.tolist(), table[2].tolist()
        sizes, n_classes = (11, 3), 4  # ages or sexes and one for what is unknown
        counts, right = Counter(answers), 0
        pairs = Counter((a, row[a], answer) for row, answer in zip(known, answers, strict=True) for a in range(2))
        for person in where.asked.T.tolist():
            scores = []
            for value in range(n_classes):
                score = log((counts[value] + 1) / (len(answers) + n_classes))
                for a in range(2):
                    score += log((pairs[a, person[a], value] + 1) / (counts[value] + sizes[a]))
                scores.append(score)
            right += scores.index(max(scores)) == person[2]
        return right / where.asked.shape[1]

    commonest = Counter(where.source[2].tolist()).most_common(1)[0][0]
    by_guess = float((where.asked[2] == commonest).mean())
    score = measure.score(other)
    assert score.figures == pytest.approx(
        {"accuracy": accuracy(other), "source": accuracy(where.source), "commonest": by_guess}
    )
    assert score.kept == pytest.approx((accuracy(other) - by_guess) / (accuracy(where.source) - by_guess))


KINDS = [("mondrian", {}), ("sweep", {}), ("anatomy", {}), ("incognito", {}), ("hilbert", {})]


@pytest.mark.parametrize(("method", "parameters"), KINDS, ids=[name for name, _ in KINDS])
def test_reconstruct_rows_are_among_what_labels_cover(method: str, parameters: dict[str, Any]) -> None:
    policy = {
        "attributes": {
            "age": {"role": "quasi"},  # its values come from the data
            "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 3}}},
            "day": {
                "role": "quasi",
                "taxonomy": {"dates": {"levels": ["month"], "min": "2024-01-01", "max": "2024-12-31"}},
            },
            "illness": {"role": "sensitive"},
        },
        "privacy": [{"simple-l-diversity": {"l": 2}}],
        "method": {method: parameters},
    }
    rng = np.random.default_rng(2)
    n = 300
    table = pa.table(
        {
            "age": pa.array([*rng.integers(20, 60, n - 1).tolist(), None]),
            "zip": [f"{number:03d}" for number in rng.integers(0, 40, n)],
            "day": pa.array(rng.integers(19723, 19723 + 300, n).astype(np.int32)).cast(pa.date32()),
            "illness": rng.choice(["flu", "gout", "rash"], n),
        }
    )
    release = shoal.anonymize(table, policy, seed=1)
    ground = Ground.of(Policy.load(policy), ["age", "zip", "day", "illness"], [table], None)
    made = reconstruct(release, ground, np.random.default_rng(3))
    assert made.shape == (4, n)
    assert (made != UNKNOWN).all()
    source = ground.codes(table)
    if method != "sweep":  # which generalizes sensitive values too
        assert sorted(made[3].tolist()) == sorted(source[3].tolist())
    if method == "anatomy":
        assert (np.sort(made[:3], axis=1) == np.sort(source[:3], axis=1)).all()
        return
    entries = release.manifest["attributes"]
    texts = {name: release.data.column(name).to_pylist() for name in ("age", "zip", "day")}
    for place, compared in enumerate(ground.attributes[:3]):
        for row, text in enumerate(texts[compared.name]):
            assert covers(compared, int(made[place, row]), entries[compared.name]["labels"][text])


def covers(compared: Compared, leaf: int, cover: dict[str, Any]) -> bool:
    """Whether the source value of a leaf is one that a label stands for, told by its text."""
    if cover.get("any") or leaf == compared.taxonomy.missing:
        return bool(cover.get("any") or cover.get("missing"))
    value = compared.taxonomy.labels[leaf]
    if "values" in cover:
        return value in cover["values"]
    if "prefixes" in cover:
        return any(value.startswith(prefix) for prefix in cover["prefixes"])
    if "through" in cover:
        return (cover["from"] or "") <= value <= (cover["through"] or "~")
    read = str if compared.name == "day" else int
    low, below = cover["from"], cover["below"]
    return (low is None or read(value) >= low) and (below is None or read(value) < below)


def test_a_label_gives_all_its_values_evenly() -> None:
    policy = {**SMALL, "privacy": [{"k-anonymity": {"k": 3000}}]}
    table = rows(3000, 1)
    release = shoal.anonymize(table, policy, seed=1)
    loaded = Policy.load(policy)
    ground = Ground.of(loaded, names_in_all([loaded]), [table], None)
    counts = np.bincount(reconstruct(release, ground, np.random.default_rng(1))[0], minlength=10)
    assert counts.min() > 200  # of 300 each; seeded
    assert counts.max() < 400


def test_averages_and_noise_go_to_the_nearest_value_and_tokens_to_none() -> None:
    age = Compared.of("age", AttributePolicy("quasi"), [pa.chunked_array([[10, 20, 40]])])
    assert age.leaves(pa.array([14.9, 15.1, -5.0, 31.0, 1e9])).tolist() == [0, 1, 0, 2, 2]
    assert age.leaves(pa.array(["14.9", "token", None])).tolist() == [0, UNKNOWN, UNKNOWN]
    town = Compared.of("town", AttributePolicy("quasi"), [pa.chunked_array([["Bonn", None, "Ulm"]])])
    assert town.leaves(pa.array(["Ulm", "gA7xQ", None])).tolist() == [1, UNKNOWN, 2]
    assert town.bins(64).tolist() == [0, 1, 2, 3]  # missing and unknown each have a bin
    cost = Compared.of("cost", AttributePolicy("sensitive"), [pa.chunked_array([[0.5, 1.25, 99.75]])])
    assert cost.leaves(pa.array([0.6, 99.0])).tolist() == [0, 1]
