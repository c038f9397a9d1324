"""What every method that publishes buckets must keep, for every variant of it and every model.

A new method needs one entry in VARIANTS; without it the first test fails. Releases are judged here from the published
rows and the source alone: p(t,s) of every tuple in fractions, by the definitions, beside the verifier's own verdict.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.tables import cover

import shoal
from shoal.core.errors import PolicyError, UnreachableError
from shoal.core.registry import discover
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel, ValueModel

METHODS = {name: kind for name, kind in discover("shoal.methods", Method).items() if kind.makes_parts}
BY_HAND = [["age", "day", "zip"], ["sex", "illness"]]
APART = [["age", "day"], ["sex", "zip"], ["illness"]]
SHARED_QUASI = [["age", "day", "sex"], ["sex", "illness"], ["zip", "day"]]
SHARED_SENSITIVE = [["sex", "illness"], ["zip", "illness"], ["age", "day"]]
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "slicing": {
        "default": {},
        "alpha": {"alpha": 1},
        "each": {"columns": "each"},
        "three": {"columns": 3},
        "by hand": {"parts": BY_HAND},
        "generalized": {"parts": BY_HAND},
        "random": {"parts": APART, "grouping": "random", "bucket_size": 12},
        "shared quasi": {"parts": SHARED_QUASI, "overlapping": True},
        "shared sensitive": {"parts": SHARED_SENSITIVE, "overlapping": True},
    },
    "anatomy": {"default": {}, "two tables": {"two_tables": True}},
}
RUNS = [(method, variant) for method, variants in VARIANTS.items() for variant in variants]
GENERALIZED = {"column-frequency": {"k": 9}}  # what the variant "generalized" also promises
BELIEVED: dict[str, list[dict[str, Any]]] = {
    "distinct-l-diversity": [{"l": 3}],
    "simple-l-diversity": [{"l": 1.8}, {"l": 2, "attribute": "illness"}],
    "entropy-l-diversity": [{"l": 2}],
    "recursive-cl-diversity": [{"c": 2, "l": 2}],
    "tau-l-diversity": [{"tau": 0.6, "l": 3}, {"tau": 0.7, "l": 3, "psi": [0.7, 0.95, 1]}],
    "t-closeness": [{"t": 0.35}, {"t": 0.3, "distance": "ordered"}, {"t": 0.3, "distance": "hierarchical"}],
    "confidence-bounding": [
        {"most": 0.55},
        {"most": 0.5, "harmless": ["angina"]},
        {"most": 0.6, "harmless": ["flu"], "separator": ";"},
    ],
}
OTHERS: dict[str, dict[str, Any]] = {
    "k-anonymity": {"k": 5},
    "alpha-k-anonymity": {"alpha": 0.6, "k": 5},
    "beta-likeness": {"beta": 1.5},
    "delta-disclosure": {"delta": 1.6},
    "profitability": {"gain": 5, "cost": 1},
    "average-risk": {"risk": 0.2},
    "sample-uniqueness": {"fraction": 0.1},
    "k-map": {"k": 9, "population": "people.csv"},
    "delta-presence": {"min": 0.1, "max": 0.6, "population": "people.csv"},
}
CASES = [(name, parameters) for name, examples in BELIEVED.items() for parameters in examples]
PAIRS = [  # every model by the methods as they are; by each variant, the usual run takes every third
    pytest.param(
        *run, *case, id=f"{run}-{case}", marks=() if run[1] == "default" or (i + j) % 3 == 0 else pytest.mark.thorough
    )
    for i, run in enumerate(RUNS)
    for j, case in enumerate(CASES)
]
GROUPS = [["angina", "gout"], ["flu", "mumps;flu"]]
QUASI = ("age", "sex", "zip", "day")
Row = dict[str, Any]


def people(seed: int, n: int = 120, gaps: bool = False) -> pa.Table:
    """A table with dependence between its columns; ``row`` stays with the first part and tells a row's bucket."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 44, n)
    columns: dict[str, list[Any]] = {
        "age": age.tolist(),
        "sex": np.where(rng.random(n) < age / 64, "f", "m").tolist(),
        "zip": [f"6{z}" for z in rng.integers(0, 3, n)],
        "day": [f"2024-0{m}-1{d}" for m, d in zip(1 + age // 16, rng.integers(0, 3, n), strict=True)],
        "illness": rng.choice(["angina", "flu", "gout", "mumps;flu"], n, p=[0.27, 0.27, 0.25, 0.21]).tolist(),
        "row": [f"r{i}" for i in range(n)],
    }
    if gaps:
        for name in ("age", "sex", "illness"):
            columns[name] = [None if rng.random() < 0.09 else value for value in columns[name]]
    return pa.table(columns)


def policy(models: Any, method: str, variant: str | dict[str, Any], **options: Any) -> dict[str, Any]:
    parameters = VARIANTS[method][variant] if isinstance(variant, str) else variant
    models = models if isinstance(models, list) else [models]
    return {
        "attributes": {
            **{name: {"role": "quasi"} for name in QUASI},
            "illness": {"role": "sensitive", "taxonomy": {"groups": dict(zip(("body", "germs"), GROUPS, strict=True))}},
            "row": {"role": "insensitive"},
        },
        "privacy": [*models, GENERALIZED] if variant == "generalized" and GENERALIZED not in models else models,
        "method": {method: parameters},
        **options,
    }


def run(table: pa.Table, document: dict[str, Any], seed: int | None = 1) -> Any:
    return shoal.anonymize(table, document, seed=seed)


def exactly(number: float) -> Fraction:
    return Fraction(repr(number))


# -- reading a release as a stranger does ------------------------------------------------------------------------


def covers(cover: Row, value: Any) -> bool:
    if cover.get("any"):
        return True
    if value is None:
        return bool(cover.get("missing"))
    if "values" in cover:
        return str(value) in cover["values"]
    if "through" in cover:
        first, last = cover["from"], cover["through"]
        return (first is None or first <= str(value)) and (last is None or str(value) <= last)
    if "from" in cover:
        low, below = cover["from"], cover["below"]
        place = str(value) if isinstance(low or below, str) else float(value)
        return (low is None or low <= place) and (below is None or place < below)
    return False


def parts_of(release: Any, data: pa.Table) -> list[tuple[list[str], list[tuple[Any, ...]]]]:
    """The attributes of each part, and its values row by row."""
    times: Counter[str] = Counter()
    parts = []
    for names in release.manifest["parts"]:
        times.update(names)
        columns = [name if times[name] == 1 else f"{name} ({times[name]})" for name in names]
        parts.append((names, list(zip(*(data[column].to_pylist() for column in columns), strict=True))))
    assert data.column_names[0] == "bucket"
    assert data.num_columns == 1 + times.total()
    return parts


def as_published(release: Any, names: Iterable[str], entries: Iterable[tuple[Any, ...]], rows: list[Row]) -> list[Any]:
    """The one entry of a part that stands for each source row: its values, or labels that cover them."""
    attributes = release.manifest["attributes"]
    names = list(names)
    labels = {name: attributes[name]["labels"] for name in names if "labels" in attributes[name]}
    if not labels:
        return [tuple(row[name] for name in names) for row in rows]
    distinct = {tuple(entry[names.index(name)] for name in labels) for entry in entries}
    out = []
    for row in rows:
        fitting = [
            dict(zip(labels, entry, strict=True))
            for entry in distinct
            if all(covers(labels[name][text], row[name]) for name, text in zip(labels, entry, strict=True))
        ]
        assert len(fitting) == 1
        out.append(tuple(fitting[0].get(name, row[name]) for name in names))
    return out


def published_rows(release: Any, table: pa.Table, data: pa.Table) -> list[Row]:
    """The source rows that are in the release, each with its bucket: ``row`` tells them."""
    bucket_of = dict(zip(data["row"].to_pylist(), data["bucket"].to_pylist(), strict=True))
    assert len(bucket_of) == data.num_rows == release.manifest["rows"]
    rows = [row | {"bucket": bucket_of[row["row"]]} for row in table.to_pylist() if row["row"] in bucket_of]
    assert len(rows) == len(bucket_of)
    return rows


def check_form_and_truth(release: Any, table: pa.Table, data: pa.Table | None = None) -> list[Row]:
    """Buckets ascend from 1, and every part of every bucket has just what its source rows have."""
    data = release.data if data is None else data
    numbers = data["bucket"].to_pylist()
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, release.manifest["buckets"] + 1))
    rows = published_rows(release, table, data)
    for names, entries in parts_of(release, data):
        there = Counter(zip(numbers, entries, strict=True))
        wanted = as_published(release, names, entries, rows)
        assert there == Counter((row["bucket"], entry) for row, entry in zip(rows, wanted, strict=True))
    dropped = release.manifest["missing"]["dropped"]
    assert len(rows) + release.manifest["withheld"] + dropped == table.num_rows
    assert release.verification.verified
    return rows


# -- what an adversary believes, by the definitions -----------------------------------------------------------------


def beliefs(release: Any, rows: list[Row], data: pa.Table, secrets: tuple[str, ...]) -> list[dict[Any, Fraction]]:
    """p(t,.) of every distinct tuple: expected numbers of records that equal it, over all buckets."""
    numbers = data["bucket"].to_pylist()
    sizes = Counter(numbers)
    values = sorted({tuple(row[name] for name in secrets) for row in rows}, key=str)
    known, factors = [], []
    seen: set[str] = set()
    for names, entries in parts_of(release, data):
        knows = [name for name in names if name in QUASI]
        tells = secrets if set(secrets) <= set(names) else ()
        for sign, asked in ((1, set(knows) | set(tells)), (-1, (set(knows) | set(tells)) & seen)):
            places = [names.index(name) for name in knows if name in asked]
            hidden = [names.index(name) for name in tells if name in asked]
            if sign < 0 and not seen:
                continue
            counts: Counter[Any] = Counter()
            for number, entry in zip(numbers, entries, strict=True):
                counts[number, tuple(entry[i] for i in places), tuple(entry[i] for i in hidden)] += 1
            factors.append((sign, counts, bool(hidden)))
            fitting = as_published(release, names, entries, rows)
            known.append([tuple(entry[i] for i in places) for entry in fitting])
        seen |= set(knows) | set(tells)
    out = []
    for tuple_ in dict.fromkeys(zip(*known, strict=True)):
        weight: dict[Any, Fraction] = defaultdict(Fraction)
        for number, size in sizes.items():
            shares = {value: Fraction(1, size) for value in values}
            for (sign, counts, tells), mine in zip(factors, tuple_, strict=True):
                for value in list(shares):
                    count = counts[number, mine, value if tells else ()]
                    if count:
                        shares[value] *= Fraction(count) ** sign
                    else:
                        del shares[value]
                if not shares:
                    break
            for value, share in shares.items():
                weight[value if len(value) > 1 else value[0]] += share
        total = sum(weight.values())
        out.append({value: share / total for value, share in weight.items()})
    return out


def moved(p: dict[Any, Fraction], q: dict[Any, Fraction], distance: str) -> Fraction:
    extra = {value: p.get(value, Fraction(0)) - share for value, share in q.items()}
    if distance == "equal":
        return sum(map(abs, extra.values()), Fraction(0)) / 2
    if distance == "ordered":
        steps = accumulate(extra[value] for value in itertools.chain(*GROUPS) if value in q)
        return sum(map(abs, steps), Fraction(0)) / (len(q) - 1)
    within, between = Fraction(0), Fraction(0)
    for group in GROUPS:
        inside = [extra.get(value, Fraction(0)) for value in group]
        rises = sum((x for x in inside if x > 0), Fraction(0))
        within += min(rises, rises - sum(inside))
        between += abs(sum(inside, Fraction(0))) / 2
    return within / 2 + between


def figure(name: str, given: Row, p: dict[Any, Fraction], q: dict[Any, Fraction]) -> Any:
    """The strongest main parameter that one distribution meets."""
    falling = sorted(p.values(), reverse=True)
    match name:
        case "distinct-l-diversity":
            return len(falling)
        case "simple-l-diversity":
            return 1 / falling[0]
        case "entropy-l-diversity":
            return math.exp(-sum(float(x) * math.log(x) for x in falling))
        case "recursive-cl-diversity":
            tail = sum(falling[given["l"] - 1 :])
            return falling[0] / tail if tail else math.inf
        case "tau-l-diversity":
            tau, l = exactly(given["tau"]), given["l"]
            line = [tau + (1 - tau) * Fraction(i, l - 1) for i in range(l)]
            curve = [exactly(point) for point in given["psi"]] if "psi" in given else line
            below = [(top, psi) for top, psi in zip(accumulate(falling), curve, strict=False) if psi < 1]
            return 1 - min([Fraction(1), *((1 - top) * (1 - tau) / (1 - psi) for top, psi in below)])
        case "t-closeness":
            return moved(p, q, given.get("distance", "equal"))
        case "confidence-bounding":
            shares: Counter[Any] = Counter({None: Fraction(0)})
            for value, share in p.items():
                whole = "separator" not in given
                for item in {value} if whole else set(value.split(given["separator"])) - {""}:
                    shares[item] += 0 if item in given.get("harmless", ()) else share
            return max(shares.values())
    raise AssertionError(name)


LIMITS: dict[str, tuple[str, Callable[[Any, Fraction], bool]]] = {
    "distinct-l-diversity": ("l", lambda reached, limit: reached >= limit),
    "simple-l-diversity": ("l", lambda reached, limit: reached >= limit),
    "entropy-l-diversity": ("l", lambda reached, limit: reached >= limit - Fraction(1, 10**12)),
    "recursive-cl-diversity": ("c", lambda reached, limit: reached < limit),
    "tau-l-diversity": ("tau", lambda reached, limit: reached <= limit),
    "t-closeness": ("t", lambda reached, limit: reached <= limit),
    "confidence-bounding": ("most", lambda reached, limit: reached <= limit),
}


def check_promise(
    release: Any, rows: list[Row], data: pa.Table, place: int, secrets: tuple[str, ...] = ("illness",)
) -> None:
    """The promise at a place holds for every tuple, and what it says was achieved is what the worst tuple reaches."""
    promise = release.guarantees[place]
    name, given = promise["model"], promise["parameters"]
    if name == "column-frequency":
        crowd = min(Counter(data["bucket"].to_pylist()).values())
        for names, entries in parts_of(release, data):
            places = [i for i, attribute in enumerate(names) if attribute in QUASI]
            crowd = min([crowd, *Counter(tuple(entry[i] for i in places) for entry in entries).values()])
        assert promise["achieved"] == crowd >= given["k"]
        return
    whole = Counter(tuple(row[secret] for secret in secrets) for row in rows)
    q = {v if len(v) > 1 else v[0]: Fraction(n, len(rows)) for v, n in whole.items()}
    figures = [figure(name, given, p, q) for p in beliefs(release, rows, data, secrets)]
    parameter, enough = LIMITS[name]
    assert all(enough(reached, exactly(given[parameter])) for reached in figures)
    worst = min(figures) if "at least" in discover("shoal.models", PrivacyModel)[name].achieved_is else max(figures)
    assert promise["achieved"] == pytest.approx(float(worst), rel=1e-9, abs=1e-9)


# -- the contract -----------------------------------------------------------------------------------------------------


def test_every_method_and_every_model_has_examples() -> None:
    models = discover("shoal.models", PrivacyModel)
    judged = {name for name, kind in models.items() if issubclass(kind, ValueModel) and kind.judges_beliefs}
    assert set(VARIANTS) == set(METHODS)
    assert set(BELIEVED) == judged == set(LIMITS)
    assert set(OTHERS) == set(models) - judged - {"column-frequency"}


@pytest.mark.parametrize(("method", "variant", "model", "given"), PAIRS)
def test_every_release_keeps_every_promise(method: str, variant: str, model: str, given: Row) -> None:
    names_values = "harmless" in given or model == "t-closeness"
    seed, withheld = ((1, 0), (2, 0.1))[(CASES.index((model, given)) + RUNS.index((method, variant))) % 2]
    table = people(seed)
    document = policy({model: given}, method, variant, max_withheld=withheld)
    if method == "anatomy" and names_values:
        with pytest.raises(UnreachableError, match=f"method anatomy: .*{model}"):
            run(table, document)
        return
    release = run(table, document)
    rows = check_form_and_truth(release, table)
    check_promise(release, rows, release.data, 0)
    assert release.manifest["method"] == method
    assert release.manifest["withheld"] <= withheld * table.num_rows
    assert release.manifest["buckets"] > 1 or variant == "shared sensitive"


@pytest.mark.parametrize(("method", "variant"), RUNS, ids=str)
def test_column_frequency_is_of_buckets_and_of_values_within_a_part(method: str, variant: str) -> None:
    document = policy([{"column-frequency": {"k": 4}}, {"distinct-l-diversity": {"l": 2}}], method, variant)
    if method == "anatomy":
        with pytest.raises(UnreachableError, match=r"method anatomy: .*column-frequency cannot hold"):
            run(people(1), document)
        return
    if variant.startswith("shared"):
        with pytest.raises(PolicyError, match=r"overlap cannot be generalized too; .*column-frequency"):
            run(people(1), document)
        return
    table = people(1)
    release = run(table, document)
    rows = check_form_and_truth(release, table)
    for place in (0, 1):
        check_promise(release, rows, release.data, place)
    assert release.manifest["buckets"] > 1


def test_column_frequency_is_kept_when_records_are_withheld_for_another_model() -> None:
    """Five people are 70 years old, and four of them have to be withheld: the fifth must not stay alone."""
    rows = people(1, 100).to_pylist()
    for place in range(5):
        rows[place]["age"] = 70
    give_company(rows)
    table = pa.Table.from_pylist(rows)
    models = [{"column-frequency": {"k": 4}}, {"simple-l-diversity": {"l": 1.5}}]
    parts = {"parts": [["age"], ["day", "sex"], ["zip", "illness"]]}
    release = run(table, policy(models, "slicing", parts, max_withheld=0.1))
    published = check_form_and_truth(release, table)
    for place in (0, 1):
        check_promise(release, published, release.data, place)


def give_company(rows: list[dict[str, Any]]) -> None:
    """Give four people of one place one illness, and four of another place all four illnesses."""
    for place in range(4):
        rows[place] |= {"zip": "69", "illness": "flu"}
    for place, illness in zip(range(5, 9), ("angina", "gout", "mumps;flu", "flu"), strict=True):
        rows[place] |= {"zip": "68", "illness": illness}


@pytest.mark.parametrize("first", [0, 1])
def test_as_many_records_are_withheld_as_any_model_needs_and_the_policy_allows(first: int) -> None:
    """Four people of one place have one illness: they go with four others, if eight may."""
    rows = people(1, 100).to_pylist()
    give_company(rows)
    table = pa.Table.from_pylist(rows)
    models = [{"simple-l-diversity": {"l": 1.5}}, {"t-closeness": {"t": 0.9}}]
    document = policy(
        [models[first], models[1 - first]], "slicing", {"parts": [["age", "day", "sex"], ["zip", "illness"]]}
    )
    release = run(table, document | {"max_withheld": 0.08})
    published = check_form_and_truth(release, table)
    assert release.manifest["withheld"] == 8
    assert not {"68", "69"} & set(release.data["zip"].to_pylist())
    for place in (0, 1):
        check_promise(release, published, release.data, place)
    with pytest.raises(UnreachableError, match=r"simple-l-diversity.*4 records that share one value of zip"):
        run(table, document | {"max_withheld": 0.03})
    with pytest.raises(UnreachableError, match=r"4 records that share one value of zip.*others with other values must"):
        run(table, document | {"max_withheld": 0.07})


@pytest.mark.parametrize("grouping", ["mondrian", "random"])
def test_what_joining_tells_of_one_bucket_is_too_much(grouping: str) -> None:
    """Each part by itself would reach 3; joined by the illness they do not."""
    method = VARIANTS["slicing"]["shared sensitive"] | {"grouping": grouping}
    with pytest.raises(UnreachableError, match="joins the overlapping parts"):
        run(people(1), policy({"simple-l-diversity": {"l": 2.9}}, "slicing", method))


@pytest.mark.parametrize(("method", "variant"), RUNS, ids=str)
def test_other_models_are_refused_by_name(
    method: str, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = people(1, 60)
    pyarrow.csv.write_csv(table.select(QUASI), tmp_path / "people.csv")
    for model, given in OTHERS.items():
        with pytest.raises(UnreachableError, match=f"method {method}: .*{model}") as caught:
            run(table, policy({model: given}, method, variant))
        assert caught.value.exit_code == 3


@pytest.mark.parametrize(("method", "variant", "missing"), cover(RUNS, ["category", "drop"], names=(2, 1)))
def test_missing_values(method: str, variant: str, missing: str) -> None:
    table = people(3, gaps=True)
    model = {"entropy-l-diversity": {"l": 1.5}} if variant == "shared sensitive" else {"simple-l-diversity": {"l": 1.5}}
    release = run(table, policy(model, method, variant, missing=missing))
    rows = check_form_and_truth(release, table)
    check_promise(release, rows, release.data, 0)
    complete = [all(row[name] is not None for name in (*QUASI, "illness")) for row in table.to_pylist()]
    dropped = 0 if missing == "category" else complete.count(False)
    assert release.manifest["missing"]["dropped"] == dropped
    assert release.manifest["rows"] == table.num_rows - dropped
    assert (None in release.data["illness"].to_pylist()) == (missing == "category")


def two_secrets(seed: int, n: int = 120) -> pa.Table:
    jobs = np.random.default_rng(seed + 100).choice(["clerk", "cook", "smith"], n)
    return people(seed, n).append_column("job", pa.array(jobs))


@pytest.mark.parametrize(
    ("parameters", "models"),
    cover(
        [
            {},
            {"alpha": 2},
            {"columns": "each"},
            {"parts": [["age", "day"], ["sex", "illness", "job"], ["zip"]]},
            {"parts": [["age", "day"], ["sex", "illness"], ["zip", "job"]]},
            {"parts": [["age", "day", "job"], ["sex", "zip", "illness"]], "frequency": 15},
            {"parts": [["age", "sex"], ["sex", "illness"], ["zip", "job"], ["day"]], "overlapping": True},
            {"parts": [["age", "day"], ["sex", "illness"], ["zip", "job"]], "grouping": "random", "bucket_size": 12},
        ],
        [["simple-l-diversity"], ["distinct-l-diversity", "tau-l-diversity"]],
    ),
)
def test_several_sensitive_attributes_each_keep_the_promise(parameters: Row, models: list[str]) -> None:
    given: dict[str, Row] = {
        "simple-l-diversity": {"l": 1.6},
        "distinct-l-diversity": {"l": 2, "attribute": "job"},
        "tau-l-diversity": {"tau": 0.7, "l": 2, "attribute": "illness"},
    }
    table = two_secrets(len(models))
    asked = [{name: given[name]} for name in models]
    if "frequency" in parameters:
        asked.append({"column-frequency": {"k": parameters["frequency"]}})
    document = policy(asked, "slicing", {k: v for k, v in parameters.items() if k != "frequency"}, max_withheld=0.1)
    document["attributes"]["job"] = {"role": "sensitive"}
    release = run(table, document)
    rows = check_form_and_truth(release, table)
    for place, promise in enumerate(release.guarantees[: len(models)]):
        attribute = promise["parameters"].get("attribute")
        reached = []
        for secret in [attribute] if attribute else ["illness", "job"]:
            shares = beliefs(release, rows, release.data, (secret,))
            reached += [figure(promise["model"], promise["parameters"], p, {}) for p in shares]
        parameter, enough = LIMITS[promise["model"]]
        assert all(enough(one, exactly(given[models[place]][parameter])) for one in reached)
        worst = max(reached) if promise["model"] == "tau-l-diversity" else min(reached)
        assert promise["achieved"] == pytest.approx(float(worst), rel=1e-9)


@pytest.mark.parametrize(
    "variant", [{"alpha": 2}, {"parts": [["age", "day", "zip"], ["sex", "illness", "job"]]}], ids=str
)
def test_joint_values_keep_the_promise(variant: Row) -> None:
    table = two_secrets(5)
    models = [
        {"distinct-l-diversity": {"l": 6, "attribute": ["illness", "job"]}},
        {"t-closeness": {"t": 0.4, "attribute": ["illness", "job"]}},
    ]
    document = policy(models, "slicing", variant)
    document["attributes"]["job"] = {"role": "sensitive"}
    release = run(table, document)
    rows = check_form_and_truth(release, table)
    assert release.manifest["buckets"] > 1
    for place in (0, 1):
        check_promise(release, rows, release.data, place, ("illness", "job"))


@pytest.mark.parametrize(
    ("method", "model", "words"),
    [
        (
            {"parts": [*SHARED_SENSITIVE, ["job"]], "overlapping": True},
            {"l": 2},
            "none of them can be in several parts",
        ),
        ({"parts": [*BY_HAND, ["job"]]}, {"l": 2, "attribute": ["illness", "job"]}, "must be in one part"),
    ],
    ids=["shared", "joint"],
)
def test_what_cannot_be_checked_of_two_secrets_is_refused(method: Row, model: Row, words: str) -> None:
    document = policy({"distinct-l-diversity": model}, "slicing", method)
    document["attributes"]["job"] = {"role": "sensitive"}
    with pytest.raises(PolicyError, match=words):
        run(two_secrets(1), document)


@pytest.mark.parametrize(("method", "variant"), RUNS, ids=str)
def test_the_same_seed_gives_the_same_release(method: str, variant: str) -> None:
    document = policy({"entropy-l-diversity": {"l": 1.8}}, method, variant, max_withheld=0.1)
    one, same, other = (run(people(5), document, seed) for seed in (8, 8, 9))
    assert one.data.equals(same.data)
    assert one.manifest == same.manifest
    assert not one.data.equals(other.data)


def companies(release: Any) -> set[frozenset[str]]:
    """The rows that share a bucket."""
    members = defaultdict(set)
    for number, row in zip(release.data["bucket"].to_pylist(), release.data["row"].to_pylist(), strict=True):
        members[number].add(row)
    return {frozenset(rows) for rows in members.values()}


@pytest.mark.parametrize("variant", ["alpha", "each"])
def test_numbers_of_buckets_are_not_in_the_order_of_cuts(variant: str) -> None:
    document = policy({"simple-l-diversity": {"l": 1.7}}, "slicing", variant)
    releases = [run(people(8), document, seed) for seed in (1, 2)]
    assert companies(releases[0]) == companies(releases[1])
    orders = []
    for release in releases:
        ages = defaultdict(list)
        for number, age in zip(release.data["bucket"].to_pylist(), release.data["age"].to_pylist(), strict=True):
            ages[number].append(age)
        means = [sum(some) / len(some) for _, some in sorted(ages.items())]
        orders.append(means)
        assert len(means) >= 8
        # a rank correlation of 0.9 by chance with 8 or more buckets: below 1 in 300
        ranks = np.argsort(np.argsort(means))
        assert abs(np.corrcoef(ranks, np.arange(len(means)))[0, 1]) < 0.9
    assert orders[0] != orders[1]


@pytest.mark.parametrize(("method", "variant"), RUNS, ids=str)
def test_what_cannot_be_reached_is_said_before_anything_is_made(method: str, variant: str, tmp_path: Path) -> None:
    for model in (
        {"distinct-l-diversity": {"l": 5}},
        {"simple-l-diversity": {"l": 3.9}},
        {"entropy-l-diversity": {"l": 4}},
    ):
        with pytest.raises(UnreachableError, match=r"[34]|\b1/4") as caught:
            shoal.anonymize(people(1), policy(model, method, variant), out=tmp_path / "out", seed=1)
        assert caught.value.exit_code == 3
        assert not list(tmp_path.iterdir())
