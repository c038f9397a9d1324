"""Adult and Nursery by the installed command; what it promises is recomputed here from the written files."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter, defaultdict

import pyarrow.csv
import pytest
import yaml

from shoal.datasets.uci import adult, adult_policy, nursery

ADULT_QUASI = ("age", "workclass", "education", "marital-status", "race", "sex")
NURSERY_QUASI = ("parents", "has_nurs", "form", "children", "housing", "finance", "social", "health")

ADULT_MODELS = {
    "k and entropy": [{"k-anonymity": {"k": 10}}, {"entropy-l-diversity": {"l": 4}}],
    "recursive and alpha": [
        {"recursive-cl-diversity": {"c": 2, "l": 3}},
        {"alpha-k-anonymity": {"alpha": 0.5, "k": 8}},
    ],
    "close": [{"k-anonymity": {"k": 20}}, {"t-closeness": {"t": 0.25}}, {"simple-l-diversity": {"l": 2.5}}],
}
NURSERY_MODELS = {
    "k and distinct": [{"k-anonymity": {"k": 5}}, {"distinct-l-diversity": {"l": 2}}],
    "tau and close": [{"tau-l-diversity": {"tau": 0.8, "l": 3}}, {"t-closeness": {"t": 0.4}}],
}


def classes_of(data, quasi, sensitive):
    """Return the values of each class, counted, by plain Python from the written text."""
    classes = defaultdict(Counter)
    with data.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            classes[tuple(row[name] for name in quasi)][row[sensitive]] += 1
    return list(classes.values())


def reached(model, parameters, classes):
    """Return what the weakest class has; every formula is written anew."""
    whole = sum(classes, Counter())
    n = whole.total()
    match model:
        case "k-anonymity":
            return min(values.total() for values in classes)
        case "distinct-l-diversity":
            return min(len(values) for values in classes)
        case "simple-l-diversity":
            return min(values.total() / max(values.values()) for values in classes)
        case "entropy-l-diversity":
            return min(math.exp(-sum(c / v.total() * math.log(c / v.total()) for c in v.values())) for v in classes)
        case "alpha-k-anonymity":
            assert min(values.total() for values in classes) >= parameters["k"]
            return max(max(values.values()) / values.total() for values in classes)
        case "t-closeness":
            return max(sum(abs(v[s] / v.total() - whole[s] / n) for s in whole) / 2 for v in classes)
    return None


def check_release(shoal, folder, source, policy, sensitive, expected_rows):
    quasi = [name for name, entry in policy["attributes"].items() if entry["role"] == "quasi"]
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy, sort_keys=False), encoding="utf-8")
    done = shoal("anonymize", source, "-p", folder / "policy.yaml", "-o", folder / "out", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    data = folder / "out" / "public" / "data.csv"
    classes = classes_of(data, quasi, sensitive)
    assert sum(values.total() for values in classes) == answer["rows"] == expected_rows
    assert len(classes) > 20
    with source.open(encoding="utf-8", newline="") as file:
        assert sum(classes, Counter()) == Counter(row[sensitive] for row in csv.DictReader(file))
    for entry in answer["guarantees"]:
        found = reached(entry["model"], entry["parameters"], classes)
        if found is not None:
            assert entry["achieved"] == pytest.approx(found, rel=1e-9), entry["model"]
    for entry in answer["guarantees"]:
        if entry["model"] == "recursive-cl-diversity":
            c, l = entry["parameters"]["c"], entry["parameters"]["l"]
            ranked = [sorted(values.values(), reverse=True) for values in classes]
            assert all(counts[0] < c * sum(counts[l - 1 :]) for counts in ranked)
        if entry["model"] == "tau-l-diversity":  # no value is generalized here, so induced frequencies are plain
            tau, l = entry["parameters"]["tau"], entry["parameters"]["l"]
            for values in classes:
                tops = sorted(values.values(), reverse=True)
                for k in range(1, l + 1):
                    psi = tau + (k - 1) * (1 - tau) / (l - 1)
                    assert sum(tops[:k]) / values.total() <= psi + 1e-12
    done = shoal("verify", folder / "out", "--source", source, "--json")
    assert (done.returncode, json.loads(done.stdout)["verified"]) == (0, True)


@pytest.mark.parametrize("models", ADULT_MODELS.values(), ids=ADULT_MODELS)
def test_adult(shoal, shared_data, tmp_path, models):
    policy = adult_policy(ADULT_QUASI, "occupation", models, folder=shared_data)
    source = tmp_path / "adult.csv"
    pyarrow.csv.write_csv(adult(shared_data, columns=list(policy["attributes"])), source)
    check_release(shoal, tmp_path, source, policy, "occupation", 45_222)


@pytest.mark.parametrize("models", NURSERY_MODELS.values(), ids=NURSERY_MODELS)
def test_nursery(shoal, shared_data, tmp_path, models):
    attributes = {name: {"role": "quasi"} for name in NURSERY_QUASI} | {"class": {"role": "sensitive"}}
    source = tmp_path / "nursery.csv"
    pyarrow.csv.write_csv(nursery(shared_data), source)
    check_release(shoal, tmp_path, source, {"attributes": attributes, "privacy": models}, "class", 12_960)
