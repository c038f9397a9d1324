"""Spoiled releases of treated, sampled, averaged and plain tables: each is refused by the check that is for it."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.sources.opening import open_source
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table

N = 240
Spoil = Callable[[dict[str, list[Any]], dict[str, Any]], None]
K2 = ({"k-anonymity": {"k": 2}},)
L2 = ({"distinct-l-diversity": {"l": 2}},)
PROMISES: dict[str, tuple[Any, ...]] = {
    "plain": (),
    "mondrian": K2,
    "sweep": L2,
    "slicing": L2,
    "anatomy": L2,
    "microaggregation": K2,
}
ILLNESSES = {  # gout is always told, and nothing else becomes gout
    "flu": {"flu": 0.7, "cold": 0.2, "none": 0.1},
    "cold": {"flu": 0.5, "cold": 0.5},
    "none": {"none": 0.9, "flu": 0.1},
    "gout": {"gout": 1},
}
TECHNIQUES: dict[str, dict[str, Any]] = {
    "rounding": {"age": {"rounding": {"base": 5}}},
    "random rounding": {"wage": {"rounding": {"base": 100, "random": True}}},
    "coding": {"age": {"coding": {"bottom": 25, "top": 70}}},
    "coding by shares": {"wage": {"coding": {"shares": {"top": 0.1}}}},
    "noise": {"wage": {"noise": {"laplace": {"scale": 20}}}},
    "normal noise": {"wage": {"noise": {"gaussian": {"sd": 20}, "decimals": 1}}},
    "bounded noise": {"age": {"noise": {"laplace": {"scale": 2}, "min": 0, "max": 119, "edges": "reflect"}}},
    "swapping": {"ward": {"swapping": {"share": 0.5, "within": ["sex"]}}},
    "rank swapping": {"wage": {"rank-swapping": {"window": 0.1}}},
    "correlated noise": {
        "wage": {"correlated-noise": {"share": 0.1, "columns": ["age"]}},
        "age": {"correlated-noise": {"share": 0.1, "columns": ["wage"], "edges": "reflect"}},
    },
    "averages": {"wage": {"microaggregation": {"k": 4, "columns": ["age"]}}},
    "averages in strata": {"wage": {"microaggregation": {"k": 3, "strata": ["sex"], "decimals": 1}}},
    "shuffling": {"wage": {"shuffling": {"given": ["age"]}}},
    "permutation": {"ward": {"permutation": {"within": ["sex"]}}},
    "moved secret": {"illness": {"permutation": {}}},
    "pram": {"doctor": {"pram": {"keep": 0.8}}},
    "invariant pram": {"doctor": {"pram": {"keep": 0.6, "invariant": True, "strata": ["sex"]}}},
    "pram by a matrix": {"illness": {"pram": {"matrix": ILLNESSES}}},
    "record swapping": {
        "ward": {"record-swapping": {"hierarchy": ["sex", "ward"], "risk": ["age"], "similar": ["illness"]}}
    },
    "masked names": {"name": {"masking": {"kind": "name"}}},
    "masked numbers": {"name": {"masking": {"kind": "number"}}},
    "tokens": {"doctor": {"token": {}}},
    "tokens of persons": {"name": {"token": {}}},
    "tokens of a quasi attribute": {"ward": {"token": {}}},
    "hashes": {"doctor": {"hash": {}}},
    "bare hashes": {"doctor": {"hash": {"salt": "none", "accept": "dictionary-attacks"}}},
    "nothing": {},
}


@cache
def source() -> pa.Table:
    rng = np.random.default_rng(5)
    sex = rng.choice(["f", "m"], N)
    ward = np.where(sex == "f", rng.choice(["a", "b", "c"], N), rng.choice(["x", "y", "z"], N))
    wage = rng.integers(1000, 3000, N)
    return pa.table(
        {
            "name": [f"person {i}" for i in range(N)],
            "age": rng.integers(18, 90, N),
            "sex": sex,
            "ward": ward,
            "wage": pa.array(wage, mask=rng.random(N) < 0.05),
            "doctor": np.repeat(["d1", "d2", "d3", "d4"], [100, 70, 50, 20]),
            "illness": rng.choice(["flu", "cold", "gout", "none"], N),
        }
    )


@cache
def honest(technique: str, method: str, sampled: bool = False, promised: bool = False) -> tuple[pa.Table, Any, Any]:
    """Return rows, manifest and witness."""
    attributes: dict[str, dict[str, Any]] = {
        "name": {"role": "identifier"},
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 120, "widths": [5, 10, 20]}}},
        "sex": {"role": "quasi"},
        "ward": {"role": "quasi"},
        "wage": {"role": "insensitive"},
        "doctor": {"role": "insensitive"},
        "illness": {"role": "sensitive"},
    }
    for column, entry in TECHNIQUES[technique].items():
        attributes[column]["technique"] = entry
    promises: tuple[Any, ...] = PROMISES[method]
    if "illness" in TECHNIQUES[technique] and method == "slicing":
        promises = ({"column-frequency": {"k": 2}},)  # slices keep no model of values before a technique
    policy: dict[str, Any] = {
        "attributes": attributes,
        "method": {method: {}},
        "privacy": [{"k-anonymity": {"k": 1}}] if promised else list(promises),
        "max_withheld": 0.3,
    }
    if sampled:
        policy["sample"] = {"share": 0.5}
    return written(source(), policy)


def written(people: pa.Table, policy: dict[str, Any], seed: int = 11) -> tuple[pa.Table, dict[str, Any], np.ndarray]:
    """Return the rows, the manifest and the witness of a release."""
    with tempfile.TemporaryDirectory() as folder:
        release = shoal.anonymize(people, policy, seed=seed, out=Path(folder) / "out", format="parquet")
        rows = pq.read_table(Path(folder) / "out/public/data.parquet")
        witness = pq.read_table(Path(folder) / "out/internal/witness.parquet")
        return rows, dict(release.manifest), np.stack([column.to_numpy() for column in witness.columns])


def verified(technique: str, method: str, spoil: Spoil | None = None, **more: bool) -> Verification:
    table, manifest, witness = honest(technique, method, **more)
    columns, own = table.to_pydict(), copy.deepcopy(dict(manifest))
    if spoil is not None:
        spoil(columns, own)
    # A spoiled value may be of another type than its column.
    arrays = {n: pa.array(v, table.schema.field(n).type if spoil is None else None) for n, v in columns.items()}
    return verify_table(pa.table(arrays), own, source=open_source(source()), witness=witness)


def failing(answer: Verification) -> set[str]:
    return {check.name for check in answer.checks if not check.ok}


@pytest.mark.parametrize(
    ("technique", "method"),
    [
        pair
        for place, technique in enumerate(TECHNIQUES)
        for pair in ((technique, "plain"), (technique, list(PROMISES)[1 + place % 5]))
    ],
)
def test_honest_releases_are_verified(technique: str, method: str) -> None:
    table, manifest, witness = honest(technique, method)
    answer = verify_table(table, manifest, source=open_source(source()), witness=witness)
    assert answer.failures == ()
    assert answer.verdict == "verified"
    assert bool(answer.guarantees) == (method != "plain")


def put(column: str, row: int, value: Any) -> Spoil:
    def spoil(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        columns[column][row] = value

    return spoil


def add(column: str, amount: float, row: int | None = None) -> Spoil:
    def spoil(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        own = columns[column]
        rows = range(len(own)) if row is None else [next(i for i in range(row, len(own)) if own[i] is not None)]
        for i in rows:
            own[i] = None if own[i] is None else round(own[i] + amount, 2)

    return spoil


def exchange(column: str, key: str, one: Any, other: Any) -> Spoil:
    """Exchange the values of two rows that differ in another column."""

    def spoil(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        first, second = (columns[key].index(value) for value in (one, other))
        own = columns[column]
        own[first], own[second] = own[second], own[first]

    return spoil


def exchange_ends(column: str) -> Spoil:
    """Exchange the least and the greatest value."""

    def spoil(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        own = columns[column]
        known = [value for value in own if value is not None]
        first, second = own.index(min(known)), own.index(max(known))
        own[first], own[second] = own[second], own[first]

    return spoil


def declare(column: str, **entries: Any) -> Spoil:
    def spoil(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        manifest["techniques"][column] |= entries

    return spoil


def repeat(column: str) -> Spoil:
    def spoil(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        columns[column][1] = columns[column][0]

    return spoil


def merged_tokens(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
    """The rarest token becomes the second: 100, 90, 50 in place of 100, 70, 50, 20."""
    own = columns["doctor"]
    ranked = sorted(set(own), key=own.count)
    columns["doctor"] = [ranked[2] if token == ranked[0] else token for token in own]


def fill(column: str, value: Any) -> Spoil:
    """Give a value to a row that has none."""

    def spoil(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        columns[column][columns[column].index(None)] = value

    return spoil


def lower(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
    """The least average goes a little below what anybody has; the sum hardly changes."""
    columns["age"][columns["age"].index(min(columns["age"]))] = 17.9


def younger(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
    """Averages are on the grid and among the source's numbers, and their sum is a little too small."""
    columns["age"] = [round(age - 0.2, 1) if age > 30 else age for age in columns["age"]]


def wordy(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
    columns["age"] = ["old", *map(str, columns["age"][1:])]


def raw_doctors(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
    manifest["techniques"]["doctor"] = {"technique": "token", "length": 26}
    columns["doctor"] = ["d1"] * len(columns["doctor"])


def turn(column: str, one: str, other: str) -> Spoil:
    """Replace the first of a value by another."""

    def spoil(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        columns[column][columns[column].index(one)] = other

    return spoil


def without_gout(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
    """The matrix has no row for gout, and those who have it are said to have the flu."""
    columns["illness"] = ["flu" if illness == "gout" else illness for illness in columns["illness"]]
    (one,) = manifest["techniques"]["illness"]["applied"]
    gone = one["values"].index("gout")
    del one["values"][gone], one["matrix"][gone]
    for row in one["matrix"]:
        del row[gone]


def other_shares(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
    """Matrices that mix as declared, for other frequencies than the source's."""
    for one in manifest["techniques"]["doctor"]["applied"]:
        n = len(one["values"])
        rest = 0.4 / n
        one["matrix"] = [[round(rest + 0.6 * (k == l), 9) for l in range(n)] for k in range(n)]


def truer(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
    """A matrix that says that more is kept than was."""
    manifest["techniques"]["doctor"]["applied"][0]["matrix"] = np.eye(4).tolist()


SPOILED: list[tuple[str, str, str, Spoil]] = [
    ("rounding", "plain", "technique", add("age", 1, 3)),
    ("rounding", "plain", "technique", put("age", 3, 125)),
    ("rounding", "plain", "truth", add("age", 5, 3)),
    ("rounding", "plain", "truth", put("age", 3, None)),
    ("rounding", "plain", "truth", declare("age", min=25)),
    ("random rounding", "plain", "technique", add("wage", 1000, 0)),
    ("random rounding", "plain", "technique", add("wage", 7, 0)),
    ("random rounding", "plain", "technique", add("wage", 100)),
    ("random rounding", "plain", "technique", put("wage", 0, None)),
    ("random rounding", "slicing", "technique", add("wage", 100)),
    ("coding", "plain", "technique", put("age", 3, 71)),
    ("coding", "plain", "technique", add("age", 0.5, 3)),
    ("coding", "plain", "truth", add("age", -1, 0)),
    ("coding", "plain", "truth", declare("age", bottom=26)),
    ("coding by shares", "plain", "technique", declare("wage", shares={"top": 0.2})),
    ("noise", "plain", "technique", add("wage", 0.5, 0)),
    ("noise", "plain", "technique", put("wage", 0, None)),
    ("noise", "plain", "technique", fill("wage", 2000)),
    ("random rounding", "plain", "technique", fill("wage", 2000)),
    ("normal noise", "plain", "technique", add("wage", 0.03, 0)),
    ("bounded noise", "plain", "technique", put("age", 0, 120)),
    ("bounded noise", "plain", "technique", wordy),
    ("bounded noise", "slicing", "parts", put("ward", 0, "q")),
    ("permutation", "slicing", "parts", put("sex", 0, "q")),
    ("swapping", "plain", "technique", put("ward", 0, "q")),
    ("rank swapping", "plain", "technique", put("wage", 0, 1)),
    ("rank swapping", "plain", "technique", put("wage", 0, None)),
    ("rank swapping", "plain", "technique", exchange_ends("wage")),
    ("rank swapping", "plain", "technique", declare("wage", window=0.02)),
    ("rank swapping", "plain", "technique", declare("wage", distance=1.0)),
    ("rank swapping", "slicing", "technique", put("wage", 0, 1)),
    ("correlated noise", "plain", "technique", add("wage", 0.5, 0)),
    ("correlated noise", "plain", "technique", put("wage", 0, None)),
    ("averages", "plain", "technique", add("wage", 0.5, 0)),
    ("averages", "plain", "technique", add("wage", 1, 0)),
    ("averages", "plain", "technique", exchange_ends("wage")),
    ("averages", "plain", "technique", add("wage", 1)),
    ("averages", "plain", "technique", put("age", 0, None)),
    ("averages", "plain", "technique", declare("wage", k=5)),
    ("averages", "plain", "manifest", declare("age", columns=["age"])),
    ("averages", "mondrian", "technique", add("wage", 1)),
    ("averages", "slicing", "technique", add("wage", 200)),
    ("averages in strata", "plain", "technique", exchange("sex", "ward", "a", "x")),
    ("averages in strata", "plain", "technique", fill("wage", 2000)),
    ("averages in strata", "plain", "technique", add("wage", 1, 0)),
    ("shuffling", "plain", "technique", put("wage", 0, 1)),
    ("shuffling", "plain", "technique", fill("wage", 2000)),
    ("shuffling", "slicing", "technique", put("wage", 0, 1)),
    ("permutation", "plain", "technique", exchange("ward", "sex", "f", "m")),
    ("permutation", "plain", "technique", put("ward", 0, None)),
    ("moved secret", "plain", "technique", put("illness", 0, "plague")),
    ("moved secret", "mondrian", "technique", put("illness", 0, "plague")),
    ("moved secret", "slicing", "technique", put("illness", 0, "plague")),
    ("pram", "plain", "technique", put("doctor", 0, "d9")),
    ("pram", "plain", "technique", put("doctor", 0, None)),
    ("pram", "plain", "manifest", truer),
    ("pram by a matrix", "mondrian", "technique", put("illness", 0, "plague")),
    ("record swapping", "plain", "technique", put("ward", 0, "q")),
    ("record swapping", "plain", "technique", exchange("ward", "sex", "f", "m")),
    ("record swapping", "plain", "technique", exchange("ward", "illness", "flu", "gout")),
    ("record swapping", "plain", "truth", exchange("age", "illness", "flu", "gout")),
    ("masked names", "plain", "technique", put("name", 0, "person 0")),
    ("masked names", "mondrian", "technique", put("name", 0, "Anna Ex")),
    ("masked names", "plain", "technique", declare("name", kind="phone")),
    ("masked names", "plain", "manifest", declare("name", length=3)),
    ("masked numbers", "plain", "technique", put("name", 0, "01234567")),
    ("masked numbers", "slicing", "technique", declare("name", length=9)),
    ("tokens", "plain", "technique", put("doctor", 0, "d1")),
    ("tokens", "plain", "technique", put("doctor", 0, "A" * 25)),
    ("tokens", "plain", "technique", put("doctor", 0, "A" * 26)),
    ("tokens", "plain", "technique", put("doctor", 0, None)),
    ("tokens", "plain", "technique", merged_tokens),
    ("tokens", "slicing", "technique", merged_tokens),
    ("hashes", "plain", "technique", put("doctor", 0, "g" * 64)),
    ("hashes", "plain", "technique", merged_tokens),
    ("bare hashes", "plain", "truth", put("doctor", 0, "0" * 64)),
    ("bare hashes", "slicing", "truth", put("doctor", 0, "0" * 64)),
    ("bare hashes", "plain", "technique", raw_doctors),
    ("nothing", "plain", "truth", add("age", 1, 0)),
    ("nothing", "plain", "truth", repeat("wage")),
    ("nothing", "microaggregation", "truth", put("illness", 0, "plague")),
    ("nothing", "microaggregation", "averages", add("age", 1)),
    ("nothing", "microaggregation", "averages", younger),
    ("nothing", "microaggregation", "averages", lower),
    ("nothing", "microaggregation", "averages", add("age", 0.05, 0)),
    ("nothing", "microaggregation", "averages", put("age", 0, 3.0)),
    ("nothing", "microaggregation", "averages", put("ward", 0, "q")),
    ("rounding", "microaggregation", "averages", add("age", -1)),
]


@pytest.mark.parametrize(
    ("technique", "method", "check", "spoil"),
    SPOILED,
    ids=[f"{place}-{technique}-{method}-{check}" for place, (technique, method, check, _) in enumerate(SPOILED)],
)
def test_spoiled_releases_are_refused(technique: str, method: str, check: str, spoil: Spoil) -> None:
    answer = verified(technique, method, spoil)
    assert answer.verdict == "failed"
    assert check in failing(answer), answer.failures
    assert not any("person" in failure or "plague" in failure for failure in answer.failures)


@pytest.mark.parametrize(
    ("technique", "spoil", "said"),
    [
        ("invariant pram", other_shares, "does not keep the frequencies of the source"),
        ("invariant pram", turn("sex", "m", "f"), "more values in a stratum than the source"),
        ("pram by a matrix", turn("illness", "flu", "gout"), "values that no value of the source leads to"),
        ("pram by a matrix", turn("illness", "gout", "flu"), "lacks values that the matrix always keeps"),
        ("pram by a matrix", without_gout, "no transition for some values of the source"),
    ],
)
def test_a_matrix_that_cannot_lead_to_the_published_values_is_refused(technique: str, spoil: Spoil, said: str) -> None:
    assert any(said in failure for failure in verified(technique, "plain", spoil).failures)


@pytest.mark.parametrize(
    ("technique", "column"), [("bounded noise", "age"), ("shuffling", "wage"), ("averages", "wage")]
)
def test_words_are_no_numbers_whether_or_not_the_source_is_given(technique: str, column: str) -> None:
    table, manifest, _ = honest(technique, "plain")
    words = table.to_pydict() | {column: ["old"] * N}
    for given in (None, open_source(source())):
        answer = verify_table(pa.table(words), manifest, source=given)
        assert f"{column} ({manifest['techniques'][column]['technique']}) has values that are not numbers" in str(
            answer.failures
        )


def test_values_that_no_matrix_has_are_refused_without_the_source() -> None:
    table, manifest, _ = honest("pram", "plain")
    answer = verify_table(pa.table(table.to_pydict() | {"doctor": ["d9"] * N}), manifest)
    assert any("has values that the transition matrix does not have" in failure for failure in answer.failures)


def test_tokens_of_one_person_in_several_rows_are_refused_where_something_is_promised() -> None:
    """Tokens say that the rows are of one person, so that a class of two may be of one."""
    assert verified("tokens of persons", "plain", promised=True).verified
    answer = verified("tokens of persons", "plain", repeat("name"), promised=True)
    assert any("one person" in failure for failure in answer.failures)
    table, manifest, witness = honest("tokens of persons", "plain")
    twice = pa.table({"name": ["n"] * N, **{n: source()[n] for n in source().column_names if n != "name"}})
    columns = table.to_pydict() | {"name": [table["name"][0].as_py()] * N}
    assert verify_table(pa.table(columns), manifest, source=open_source(twice), witness=witness).verified


def test_values_that_look_like_tokens_are_no_tokens() -> None:
    people = pa.table({"sex": ["f", "m"] * 4, "card": [letter * 26 for letter in "ABCDEFGH"]})
    attributes = {"sex": {"role": "quasi"}, "card": {"role": "insensitive", "technique": {"token": {}}}}
    release = shoal.anonymize(people, {"attributes": attributes, "method": "plain", "privacy": []})
    raw = release.data.set_column(1, "card", people["card"])
    assert verify_table(raw, release.manifest).verified
    answer = verify_table(raw, release.manifest, source=open_source(people))
    assert any("in place of tokens" in failure for failure in answer.failures)


def test_classes_of_values_are_judged_as_they_are_written() -> None:
    """A class of two equal rows is none if one of them spells a number in another way."""
    people = pa.table({"age": ["30", "30", "41", "41"], "illness": ["a", "b", "a", "b"]})
    attributes = {"age": {"role": "quasi", "taxonomy": {"flat": {}}}, "illness": {"role": "sensitive"}}
    policy = {"attributes": attributes, "method": "plain", "privacy": [{"k-anonymity": {"k": 2}}]}
    release = shoal.anonymize(people, policy)
    assert verify_table(release.data, release.manifest).verified
    spelled = release.data.to_pydict()
    place = spelled["age"].index("30")
    spelled["age"][place] = "30.0"
    answer = verify_table(pa.table(spelled), release.manifest)
    assert [promise.ok for promise in answer.guarantees] == [False]
    assert answer.guarantees[0].achieved == 1.0


@pytest.mark.parametrize("method", ["plain", "mondrian", "slicing", "microaggregation"])
def test_samples(method: str) -> None:
    assert verified("nothing", method, sampled=True).failures == ()

    def rarer(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        manifest["sample"] = {"share": 0.05}

    def whole(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        del manifest["sample"]

    def foreign(columns: dict[str, list[Any]], manifest: dict[str, Any]) -> None:
        columns["illness"][0] = "plague"

    for spoil in (rarer, whole):
        assert "source counts" in failing(verified("nothing", method, spoil, sampled=True))
    assert failing(verified("nothing", method, foreign, sampled=True)) & {"truth", "parts"}


def test_rows_that_lack_a_moved_value_are_counted_as_far_as_anybody_can() -> None:
    """Missing values change rows too: how many rows lack one of two values is then between two numbers."""
    people = pa.table(
        {
            "sex": [None, "f", "m", "f", "m", "f", "m", "f"],
            "ward": [None, None, "a", "a", "b", "b", "a", "b"],
            "illness": ["flu", "cold"] * 4,
        }
    )
    attributes = {
        "sex": {"role": "quasi"},
        "ward": {"role": "quasi", "technique": {"permutation": {}}},
        "illness": {"role": "sensitive"},
    }
    policy = {"attributes": attributes, "method": "plain", "privacy": [], "missing": "drop"}
    dropped = set()
    for seed in range(12):
        release = shoal.anonymize(people, policy, seed=seed)
        dropped.add(release.manifest["missing"]["dropped"])
        for wrong in (1, 4):
            entry = {**release.manifest["missing"], "dropped": wrong}
            stated = dict(release.manifest) | {"missing": entry, "rows": 8 - wrong}
            rows = pa.concat_tables([release.data, release.data]).slice(0, 8 - wrong)
            answer = verify_table(rows, stated, source=open_source(people))
            assert "source counts" in failing(answer)
        gap = release.data.to_pydict()
        gap["ward"][0] = None
        answer = verify_table(pa.table(gap), release.manifest, source=open_source(people))
        assert "technique" in failing(answer)
    assert dropped <= {2, 3}


def test_labels_of_a_moved_attribute_cover_values_of_the_source() -> None:
    table, manifest, witness = honest("permutation", "mondrian")
    assert verify_table(table, manifest, source=open_source(source()), witness=witness).failures == ()
    fewer = source().to_pydict()
    fewer["ward"] = ["c" if ward == "a" else ward for ward in fewer["ward"]]
    answer = verify_table(table, manifest, source=open_source(pa.table(fewer)), witness=witness)
    assert any("more rows than the source has values under" in failure for failure in answer.failures)


@pytest.mark.parametrize("method", ["mondrian", "slicing"])
@pytest.mark.parametrize("with_source", [False, True])
def test_spelling_makes_no_noisy_number_two(method: str, with_source: bool) -> None:
    """Sensitive numbers after noise, published as text: 5 and 5.0 are one value."""
    people = pa.table({"sex": ["f", "m"] * 20, "ward": ["a"] * 20 + ["b"] * 20, "stay": ["5", "5", "7", "7"] * 10})
    attributes = {
        "sex": {"role": "quasi"},
        "ward": {"role": "quasi"},
        "stay": {"role": "sensitive", "technique": {"noise": {"laplace": {"scale": 3}}}},
    }
    privacy = [{"column-frequency": {"k": 2}} if method == "slicing" else {"distinct-l-diversity": {"l": 2}}]
    release = shoal.anonymize(people, {"attributes": attributes, "method": method, "privacy": privacy}, seed=4)
    stated = release.data.to_pydict()
    source = open_source(people) if with_source else None
    for spellings, fine in ((["5", "6"], True), (["5", "5.0"], False)):
        manifest = copy.deepcopy(dict(release.manifest))
        manifest["guarantees"] = [{"model": "distinct-l-diversity", "parameters": {"l": 2}, "achieved": 2.0}]
        stated["stay"] = spellings * 20
        (promise,) = verify_table(pa.table(stated), manifest, source=source).guarantees
        assert promise.ok is fine, promise.detail
        assert promise.achieved == (2.0 if fine else 1.0)
