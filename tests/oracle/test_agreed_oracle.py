"""Releases by random plans against plain Python: what is published, when nothing is, and what verify says."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.agency.apply import apply_plan
from shoal.core.errors import UnreachableError
from shoal.release.forms.agreed import digest_plan
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify

MODELS = ("l-delta-diversity", "k-delta-anonymity", "entropy-l-delta-diversity")
ILLNESSES = ("angina", "cold", "flu", "gout")


def random_plan(rng: np.random.Generator, model: str) -> dict:
    """Classes are any sets of points, which no order would make."""
    sizes = rng.integers(1, 5, 3)
    points = [tuple(map(int, point)) for point in np.argwhere(rng.random(sizes) < 0.7)] or [(0, 0, 0)]
    n_classes = int(rng.integers(1, min(4, len(points)) + 1))
    number = np.append(np.arange(n_classes), rng.integers(0, n_classes, len(points) - n_classes)) + 1
    rng.shuffle(number)
    least = {MODELS[0]: int(rng.integers(1, 4)), MODELS[1]: int(rng.integers(1, 9)), MODELS[2]: 2.0}[model]
    named = (
        [sorted(rng.choice(4, least, replace=False).tolist()) for _ in range(n_classes)] if model == MODELS[0] else []
    )
    records = int(rng.integers(1, 30))
    document = {
        "format": 2,
        "kind": "shoal-agency-plan",
        "quasi": [
            {"name": "age", "values": [str(20 + 5 * v) for v in range(sizes[0])]},
            {"name": "sex", "values": list("FMXU")[: sizes[1]]},
            {"name": "town", "values": ["Bonn", "*", "{Köln}", "missing"][: sizes[2]]},
        ],
        "sensitive": {"name": "illness", "values": list(ILLNESSES)},
        "order": "lexicographic",
        "arrangement": "gathered",
        "promise": {"model": model, "k" if model == MODELS[1] else "l": least},
        "delta": 0.1,
        "p": 0.01,
        "eta": 0,
        "n": records,
        "n_tight": records,
        "records": records,
        "m": float(n_classes),
        "classes": n_classes,
        "points": [list(column) for column in zip(*points, strict=True)],
        "runs": [[int(each), 1] for each in number],
        "values": named,
    }
    return document | {"digest": digest_plan(document)}


def random_people(rng: np.random.Generator, document: dict) -> list[tuple[str, ...]]:
    least = max(document["records"] - 4, 1)
    drawn = rng.integers(0, len(document["runs"]), int(rng.integers(least, least + 20)))
    return [
        (
            *(entry["values"][codes[p]] for entry, codes in zip(document["quasi"], document["points"], strict=True)),
            ILLNESSES[int(i)],
        )
        for p, i in zip(drawn, rng.choice(4, len(drawn), p=[0.4, 0.3, 0.2, 0.1]), strict=True)
    ]


def by_hand(document: dict, people: list[tuple[str, ...]]) -> dict[int, Counter[str]]:
    number = {}
    for place, (own, _) in enumerate(document["runs"]):
        names = (e["values"][c[place]] for e, c in zip(document["quasi"], document["points"], strict=True))
        number[tuple(names)] = own
    classes = {n + 1: Counter() for n in range(document["classes"])}
    for *quasi, illness in people:
        classes[number[tuple(quasi)]][illness] += 1
    return classes


def entropy_holds(counts: Counter[str], l: Fraction) -> bool:
    """exp(entropy) >= l, in whole numbers: n^n >= l^n times the product of c^c."""
    n = sum(counts.values())
    return n > 0 and n**n >= l**n * math.prod(c**c for c in counts.values())


def keeps(document: dict, classes: dict[int, Counter[str]], n_records: int) -> bool:
    promise = document["promise"]
    if n_records < document["records"]:
        return False
    if promise["model"] == MODELS[0]:
        return all(classes[n + 1][ILLNESSES[code]] > 0 for n, codes in enumerate(document["values"]) for code in codes)
    if promise["model"] == MODELS[1]:
        return all(sum(counts.values()) >= promise["k"] for counts in classes.values())
    return all(entropy_holds(counts, Fraction(str(promise["l"]))) for counts in classes.values())


def reached(model: str, classes: dict[int, Counter[str]]) -> float:
    if model == MODELS[0]:
        return min(len(counts) for counts in classes.values())
    if model == MODELS[1]:
        return min(sum(counts.values()) for counts in classes.values())
    shares = ([c / sum(counts.values()) for c in counts.values()] for counts in classes.values())
    return min(math.exp(-sum(p * math.log(p) for p in each)) for each in shares)


@pytest.mark.parametrize("model", MODELS)
def test_published_if_and_only_if_the_plan_allows_it(tmp_path: Path, model: str) -> None:
    rng = np.random.default_rng(MODELS.index(model))
    published = refused = 0
    for turn in range(40):
        document = random_plan(rng, model)
        people = random_people(rng, document)
        classes = by_hand(document, people)
        plan = tmp_path / f"plan{turn}.json"
        plan.write_text(json.dumps(document), encoding="utf-8")
        columns = zip(("age", "sex", "town", "illness"), zip(*people, strict=True), strict=True)
        table = pa.table({name: list(values) for name, values in columns})
        out = tmp_path / f"out{turn}"
        if not keeps(document, classes, len(people)):
            refused += 1
            with pytest.raises(UnreachableError):
                apply_plan(plan, table, out)
            assert not out.exists()
            continue
        published += 1
        release = apply_plan(plan, table, out)
        (promise,) = release.guarantees
        assert promise["achieved"] == pytest.approx(reached(model, classes), rel=1e-12)
        rows = pq.read_table(out / "public" / "data.parquet")
        stated = Counter(zip(rows["class"].to_pylist(), rows["illness"].to_pylist(), strict=True))
        assert stated == Counter({(n, v): c for n, counts in classes.items() for v, c in counts.items()})
        assert verify(out, source=open_source(table)).verified
    assert published >= 10
    assert refused >= 10


def test_the_hull_of_a_class_covers_its_points_and_no_more_values_than_between_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    checked = 0
    for turn in range(20):
        document = random_plan(rng, MODELS[1])
        document |= {"promise": {"model": MODELS[1], "k": 1}, "records": 1, "n": 1, "n_tight": 1}
        document["digest"] = digest_plan(document)
        people = [
            (*(e["values"][c[place]] for e, c in zip(document["quasi"], document["points"], strict=True)), "flu")
            for place in range(len(document["runs"]))
        ]
        plan = tmp_path / f"plan{turn}.json"
        plan.write_text(json.dumps(document), encoding="utf-8")
        columns = zip(("age", "sex", "town", "illness"), zip(*people, strict=True), strict=True)
        release = apply_plan(plan, pa.table({name: list(values) for name, values in columns}), tmp_path / f"o{turn}")
        rows = pq.read_table(tmp_path / f"o{turn}" / "public" / "data.parquet").to_pylist()
        labels = {row["class"]: row for row in rows}
        for entry, codes in zip(document["quasi"], document["points"], strict=True):
            covers = release.manifest["attributes"][entry["name"]]["labels"]
            for number in range(1, document["classes"] + 1):
                own = [code for code, (n, _) in zip(codes, document["runs"], strict=True) if n == number]
                hull = entry["values"][min(own) : max(own) + 1]
                cover = covers[labels[number][entry["name"]]]
                if "any" in cover:
                    assert hull == entry["values"]
                elif "from" in cover:
                    assert [v for v in entry["values"] if cover["from"] <= int(v) < cover["below"]] == hull
                else:
                    assert cover == {"values": hull}
                checked += 1
    assert checked > 50
