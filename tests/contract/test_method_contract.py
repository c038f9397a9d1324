"""What every method must keep, for every method that the package has and every model.

A new method needs one entry in VARIANTS; without it the first test fails. Releases are judged here by counting
over the published rows, in exact arithmetic where the definitions allow, beside the verifier's own verdict.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from tests import tables
from tests.tables import cover

import shoal
from shoal.core.errors import UnreachableError
from shoal.core.registry import discover
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel, ValueModel
from shoal.release.forms.base import find_form

METHODS = {
    name: kind
    for name, kind in discover("shoal.methods", Method).items()
    if kind.form == "classes" and name != "auto"  # which makes no classes itself
}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "hilbert": [{}, {"labels": "ranges"}],
    "mondrian": [{}, {"labels": "ranges"}],
    "incognito": [{}, {"measure": "ncp"}],
    "local-suppression": [{}, {"levels": {"age": 1, "zip": 2, "day": 1}, "importance": ["sex", "age"]}],
    "sweep": [{"improve": False}, {}],
}
RUNS = [(name, parameters) for name, variants in VARIANTS.items() for parameters in variants]
COLUMNS = "age sex zip day illness job row"
QUASI = ("age", "sex", "zip", "day")
MODELS: dict[str, list[dict[str, Any]]] = {
    "k-anonymity": [{"k": 4}],
    "profitability": [{"gain": 7, "cost": 1.4}],
    "average-risk": [{"risk": 0.3}],
    "sample-uniqueness": [{"fraction": 0.1}],
    "distinct-l-diversity": [{"l": 3}, {"l": 6, "attribute": ["illness", "job"]}],
    "simple-l-diversity": [{"l": 1.8}, {"l": 2, "attribute": "illness"}],
    "entropy-l-diversity": [{"l": 2}],
    "recursive-cl-diversity": [{"c": 2, "l": 2}],
    "tau-l-diversity": [{"tau": 0.6, "l": 3}, {"tau": 0.7, "l": 3, "psi": [0.7, 0.95, 1]}],
    "t-closeness": [{"t": 0.4}, {"t": 0.3, "distance": "ordered"}, {"t": 0.35, "distance": "hierarchical"}],
    "alpha-k-anonymity": [{"alpha": 0.6, "k": 5}],
    "beta-likeness": [{"beta": 1.5, "enhanced": False}, {"beta": 1.2, "enhanced": True}],
    "delta-disclosure": [{"delta": 1.6}],
    "confidence-bounding": [
        {"most": 0.55},
        {"most": 0.5, "harmless": ["angina", "clerk"]},
        {"most": 0.6, "harmless": ["flu"], "separator": " ", "attribute": "illness"},
    ],
    "k-map": [{"k": 9, "population": "people.csv"}],
    "delta-presence": [{"min": 0.1, "max": 0.6, "population": "people.csv"}],
}
CASES = [(name, parameters) for name, examples in MODELS.items() for parameters in examples]
PAIRS = [  # every model by the first variant of every method; by the others, the usual run takes each fourth
    pytest.param(*run, *case, id=f"{run}-{case}", marks=() if i % 2 == 0 or (i + j) % 4 == 0 else pytest.mark.thorough)
    for i, run in enumerate(RUNS)
    for j, case in enumerate(CASES)
]


@pytest.fixture(autouse=True)
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long the sweep looks for better classes is no matter here: the promises hold whatever it finds."""


def people(seed: int, n: int = 140, gaps: bool = False, outliers: int = 0) -> pa.Table:
    """People, some of them older than anybody else; ``row`` tells published rows apart."""
    missing = dict.fromkeys(("age", "sex", "illness"), 0.08) if gaps else 0.0
    age = tables.people(n, seed, "age")["age"].to_numpy().copy()
    age[:outliers] = 118 - np.arange(outliers)
    return tables.people(n, seed, COLUMNS, missing=missing, age=age)


def policy(model: dict[str, Any] | list[dict[str, Any]], method: dict[str, Any], **options: Any) -> dict[str, Any]:
    weights = {name: {"weight": weight} for name, weight in options.pop("weights", {}).items()}
    return {
        "attributes": tables.attributes(COLUMNS, **weights),
        "privacy": model if isinstance(model, list) else [model],
        "method": method,
        **options,
    }


@pytest.fixture(scope="module", autouse=True)
def population(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The population's file, in a working folder of its own: dict policies start their paths there."""
    folder = tmp_path_factory.mktemp("population")
    everybody = pa.concat_tables([people(seed).select(QUASI) for seed in (1, 1, 2, 2, 5, 7, 8)])
    pyarrow.csv.write_csv(everybody, folder / "people.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield everybody


def covers(cover: dict[str, Any], value: Any) -> bool:
    """Whether a label stands for a source value, read as the manifest's format says."""
    if cover.get("any"):
        return True
    if value is None:
        return bool(cover.get("missing"))
    if "values" in cover:
        return str(value) in cover["values"]
    if "prefixes" in cover:
        return any(str(value).startswith(prefix) for prefix in cover["prefixes"])
    if "through" in cover:
        first, last = cover["from"], cover["through"]
        return (first is None or first <= str(value)) and (last is None or str(value) <= last)
    if "from" in cover:
        low, below = cover["from"], cover["below"]
        return (low is None or low <= value) and (below is None or value < below)
    return False


def classes_of(data: pa.Table) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    classes = defaultdict(list)
    for record in data.to_pylist():
        classes[tuple(record[name] for name in QUASI)].append(record)
    return dict(classes)


def check_truth(release: Any, table: pa.Table) -> None:
    """Every published row is a source row, once, under labels that cover it."""
    source = {record["row"]: record for record in table.to_pylist()}
    published = release.data.to_pylist()
    rows = [record["row"] for record in published]
    assert len(set(rows)) == len(rows) == release.manifest["rows"]
    attributes = release.manifest["attributes"]
    for record in published:
        original = source[record["row"]]
        for name in ("illness", "job"):
            labels = attributes[name].get("labels")
            if labels is None or record[name] is None:
                assert record[name] == original[name]
            else:
                assert covers(labels[record[name]], original[name])
        for name in QUASI:
            assert covers(attributes[name]["labels"][record[name]], original[name]), name


def joint(records: list[dict[str, Any]], names: list[str], labels: dict[str, Any] | None = None) -> Counter[Any]:
    """Count combinations of values; a record under a label that covers several values is shared out evenly."""
    counts: Counter[Any] = Counter()
    for record in records:
        under = [_values(record[name], (labels or {}).get(name)) for name in names]
        for combination in itertools.product(*under):
            counts[combination] += Fraction(1, math.prod(map(len, under)))
    return counts


def _values(text: Any, labels: dict[str, Any] | None) -> list[Any]:
    if labels is None or text is None:
        return [text]
    return labels[text].get("values", []) + ([None] if labels[text].get("missing") else [])


def exactly(number: float) -> Fraction:
    return Fraction(repr(number))


def ordered_distance(p: list[Fraction], q: list[Fraction]) -> Fraction:
    steps = list(accumulate(a - b for a, b in zip(p, q, strict=True)))
    return sum((abs(step) for step in steps), Fraction(0)) / max(len(p) - 1, 1)


def hierarchical_distance(p: dict[Any, Fraction], q: dict[Any, Fraction], groups: list[list[Any]]) -> Fraction:
    """Li et al.: on two levels, what stays within a group costs 1/2, what crosses costs 1."""
    total = Fraction(0)
    extra = [[p.get(v, Fraction(0)) - q.get(v, Fraction(0)) for v in group] for group in groups]
    for group in extra:
        positive, negative = sum(x for x in group if x > 0), -sum(x for x in group if x < 0)
        total += Fraction(1, 2) * min(positive, negative)
    sums = [sum(group) for group in extra]
    return total + min(sum(x for x in sums if x > 0), -sum(x for x in sums if x < 0))


GROUPS = {"illness": [["angina", "gout"], ["flu", "mumps"]], "job": [["cook", "smith"], ["clerk"]]}
ORDERS = {"illness": ["angina", "gout", "flu", "mumps"], "job": ["cook", "smith", "clerk"]}


def keeps_values(name: str, given: dict[str, Any], counts: Counter[Any], whole: Counter[Any], attribute: str) -> bool:
    n, total = counts.total(), whole.total()
    top = sorted(counts.values(), reverse=True)
    p = {value: Fraction(count, n) for value, count in counts.items()}
    q = {value: Fraction(count, total) for value, count in whole.items()}
    match name:
        case "distinct-l-diversity":
            return len(counts) >= given["l"]
        case "simple-l-diversity":
            return top[0] * exactly(given["l"]) <= n
        case "entropy-l-diversity":
            return math.exp(-sum(float(x) * math.log(x) for x in p.values())) >= given["l"] - 1e-9
        case "recursive-cl-diversity":
            return top[0] < exactly(given["c"]) * sum(top[given["l"] - 1 :])
        case "tau-l-diversity":
            tau, l = exactly(given["tau"]), given["l"]
            shares = accumulate(sorted(p.values(), reverse=True))
            curve = [exactly(point) for point in given.get("psi", ())] or [
                tau + (1 - tau) * Fraction(i, l - 1) for i in range(l)
            ]
            return all(share <= limit for share, limit in zip(shares, curve, strict=False))
        case "alpha-k-anonymity":
            return n >= given["k"] and Fraction(top[0], n) <= exactly(given["alpha"])
        case "t-closeness":
            if given.get("distance", "equal") == "ordered":
                order = [value for value in ORDERS[attribute] if value in q]
                distance = ordered_distance([p.get(v, Fraction(0)) for v in order], [q[v] for v in order])
            elif given.get("distance") == "hierarchical":
                distance = hierarchical_distance(p, q, GROUPS[attribute])
            else:
                distance = sum(abs(p.get(v, Fraction(0)) - q[v]) for v in q) / 2
            return distance <= exactly(given["t"])
        case "beta-likeness":
            beta = exactly(given["beta"])
            for value, share in p.items():
                most = min(float(beta), -math.log(q[value])) if given["enhanced"] else float(beta)
                if share > q[value] and float((share - q[value]) / q[value]) > most + 1e-9:
                    return False
            return True
        case "confidence-bounding":
            shares: Counter[Any] = Counter()
            for value, share in p.items():
                whole_value = value is None or "separator" not in given
                for item in {value} if whole_value else set(value.split(given["separator"])):
                    shares[item] += 0 if item in ("", *given.get("harmless", ())) else share
            return max(shares.values()) <= exactly(given["most"])
        case "delta-disclosure":
            return all(v in p and abs(math.log(p[v] / q[v])) < given["delta"] + 1e-9 for v in q)
    raise AssertionError(name)


def keeps(name: str, given: dict[str, Any], release: Any, everybody: pa.Table) -> bool:
    """Whether the published rows keep a model, counted from scratch."""
    data = release.data.to_pylist()
    classes = classes_of(release.data)
    labels = {column: entry["labels"] for column, entry in release.manifest["attributes"].items() if "labels" in entry}
    if name == "k-anonymity":
        return all(len(records) >= given["k"] for records in classes.values())
    sizes = [len(records) for records in classes.values()]
    if name == "profitability":
        return all(exactly(given["gain"]) <= size * exactly(given["cost"]) for size in sizes)
    if name == "average-risk":
        return Fraction(len(sizes), sum(sizes)) <= exactly(given["risk"])
    if name == "sample-uniqueness":
        return Fraction(sizes.count(1), sum(sizes)) <= exactly(given["fraction"])
    if name in ("k-map", "delta-presence"):
        persons = everybody.to_pylist()
        for label, records in classes.items():
            named = list(zip(QUASI, label, strict=True))
            size = sum(all(covers(labels[c][text], person[c]) for c, text in named) for person in persons)
            if name == "k-map" and size < given["k"]:
                return False
            share = Fraction(len(records), size) if size else Fraction(2)
            if name == "delta-presence" and not exactly(given["min"]) <= share <= exactly(given["max"]):
                return False
        return True
    wanted = given.get("attribute")
    sets = [wanted] if isinstance(wanted, list) else [[wanted]] if wanted else [["illness"], ["job"]]
    for names in sets:
        single = names[0] if len(names) == 1 else ""
        unwrap: Callable[[Counter[Any]], Counter[Any]] = (
            (lambda c: Counter({k[0]: v for k, v in c.items()})) if single else (lambda c: c)
        )
        whole = unwrap(joint(data, names, labels))
        if not all(keeps_values(name, given, unwrap(joint(r, names, labels)), whole, single) for r in classes.values()):
            return False
    return True


def run(table: pa.Table, document: dict[str, Any], seed: int = 1) -> Any:
    return shoal.anonymize(table, document, seed=seed)


def refused(model: dict[str, Any], method: str, parameters: dict[str, Any]) -> bool:
    counts_people = next(iter(model)) in ("k-map", "delta-presence")
    overlapping = method == "hilbert" or (method == "mondrian" and parameters.get("labels") == "ranges")
    bounded_below = method in ("sweep", "local-suppression") and model.get("delta-presence", {}).get("min", 0) > 0
    of_values = issubclass(discover("shoal.models", PrivacyModel)[next(iter(model))], ValueModel)
    return (overlapping and counts_people) or bounded_below or (method == "local-suppression" and of_values)


def served(models: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    """Local suppression serves no models of values."""
    return [model for model in models if not refused(model, method, {})]


def published(release: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(str(value) for value in record.values()) for record in release.data.to_pylist())


def test_every_method_and_every_model_has_examples() -> None:
    assert set(VARIANTS) == set(METHODS)  # methods that publish buckets have a contract of their own
    assert set(MODELS) == {name for name, kind in discover("shoal.models", PrivacyModel).items() if not kind.of_parts}


@pytest.mark.parametrize("name", discover("shoal.methods", Method))
def test_declarations_are_complete(name: str) -> None:
    kind = discover("shoal.methods", Method)[name]
    assert find_form(kind.form).name == kind.form
    assert kind.models in ("required", "optional", "none")
    assert kind.name == name == name.lower()
    assert kind.title
    assert kind.__doc__
    for parameter, field in kind.model_fields.items():
        assert field.description, parameter
        chosen = name in ("synthetic", "safepub") and parameter == "epsilon"  # nobody else can choose the privacy loss
        assert field.is_required() == chosen, f"{parameter}: a method must run without parameters"


@pytest.mark.parametrize(("method", "variant", "model", "given"), PAIRS)
def test_every_release_keeps_every_promise(
    method: str, variant: dict[str, Any], model: str, given: dict[str, Any], population: pa.Table
) -> None:
    if refused({model: given}, method, variant):
        with pytest.raises(UnreachableError, match=f"method {method}: .*(population|use mondrian or sweep)"):
            run(people(1), policy({model: given}, {method: variant}))
        return
    seed, withheld = ((1, 0), (2, 0.1))[(CASES.index((model, given)) + RUNS.index((method, variant))) % 2]
    table = people(seed)
    release = run(table, policy({model: given}, {method: variant}, max_withheld=withheld))
    check_truth(release, table)
    assert keeps(model, given, release, population)
    assert release.verification.verified
    assert release.manifest["rows"] + release.manifest["withheld"] == table.num_rows
    assert release.manifest["withheld"] <= withheld * table.num_rows
    assert len(classes_of(release.data)) > 1


@pytest.mark.parametrize(("method", "variant", "missing"), cover(RUNS, ["category", "drop"], names=(2, 1)))
def test_missing_values(method: str, variant: dict[str, Any], missing: str) -> None:
    table = people(3, gaps=True)
    models = served([{"k-anonymity": {"k": 4}}, {"distinct-l-diversity": {"l": 2}}], method)
    release = run(table, policy(models, {method: variant}, missing=missing))
    check_truth(release, table)
    complete = [all(r[c] is not None for c in (*QUASI, "illness", "job")) for r in table.to_pylist()]
    dropped = 0 if missing == "category" else complete.count(False)
    assert dropped == release.manifest["missing"]["dropped"]
    assert release.manifest["rows"] == table.num_rows - dropped
    assert all(len(records) >= 4 for records in classes_of(release.data).values())
    if missing == "category":
        assert len(models) == 1 or all(len(joint(r, ["illness"])) >= 2 for r in classes_of(release.data).values())
        assert None in release.data["illness"].to_pylist()


@pytest.mark.parametrize(("method", "variant"), RUNS, ids=str)
def test_the_same_seed_gives_the_same_release(method: str, variant: dict[str, Any]) -> None:
    document = policy({"k-anonymity": {"k": 5}}, {method: variant}, max_withheld=0.1)
    one, same, other = (run(people(5, outliers=3), document, seed) for seed in (8, 8, 9))
    assert one.data.equals(same.data)
    assert one.manifest == same.manifest
    assert one.data["row"].to_pylist() != other.data["row"].to_pylist()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("withheld", "seed"), [(0, 0), (0.1, 1)])
def test_the_order_of_rows_does_not_matter(method: str, withheld: float, seed: int) -> None:
    models = served([{"k-anonymity": {"k": 4}}, {"distinct-l-diversity": {"l": 2}}], method)
    document = policy(models, {method: {}}, max_withheld=withheld)
    table = people(seed + 30, outliers=4, gaps=True)
    mixed = table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))
    assert published(run(table, document)) == published(run(mixed, document))


@pytest.mark.parametrize(
    ("method", "variant", "seed", "model"),
    [
        pytest.param(*run, seed, model, id=f"{run}-{model}", marks=() if place % 2 == 0 else pytest.mark.thorough)
        for place, run in enumerate(RUNS)
        for seed, model in enumerate(
            [
                {"k-anonymity": {"k": 25}},
                {"distinct-l-diversity": {"l": 4, "attribute": "illness"}},
                {"t-closeness": {"t": 0.25}},
            ]
        )
        if not refused(model, *run)
    ],
)
def test_a_larger_budget_never_gives_a_wider_table(
    method: str, variant: dict[str, Any], seed: int, model: dict[str, Any]
) -> None:
    table = people(seed + 60, n=90, outliers=2 + seed)
    penalties, gone = [], []
    for budget in (0, 0.03, 0.1, 0.2):
        release = run(table, policy(model, {method: variant}, max_withheld=budget))
        penalties.append(release.utility["ncp"])
        gone.append(release.manifest["withheld"])
        assert gone[-1] <= budget * table.num_rows
    assert penalties == sorted(penalties, reverse=True)


@pytest.mark.parametrize("method", METHODS)
def test_what_cannot_be_reached_is_said_before_anything_is_made(method: str) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"k-anonymity": {"k": 141}}, "140"),
        ({"distinct-l-diversity": {"l": 5}}, "4|3"),
        ({"t-closeness": {"t": 0.0001}}, "ask for at least|reach"),
    ]
    for model, says in cases:
        with pytest.raises(UnreachableError, match="use mondrian" if refused(model, method, {}) else says) as caught:
            run(people(1), policy(model, {method: {}}))
        assert caught.value.exit_code == 3


@pytest.mark.parametrize(("method", "variant"), RUNS, ids=str)
def test_without_a_seed_orders_differ(method: str, variant: dict[str, Any]) -> None:
    document = policy({"k-anonymity": {"k": 4}}, {method: variant})
    first, second = (shoal.anonymize(people(1), document) for _ in range(2))
    assert first.evidence["seed"] is None
    # two equal orders of 140 rows by chance: 1 in 140!
    assert first.data["row"].to_pylist() != second.data["row"].to_pylist()
