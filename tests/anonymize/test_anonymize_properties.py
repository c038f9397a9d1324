"""The whole job on small tables of any shape: either a clear refusal, or a release that is true and keeps its word."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.core.errors import InputError, UnreachableError

TEXTS = st.one_of(st.none(), st.sampled_from(["a", "b", "cc", "é", "a b", "*", "missing", "{a, b}", "[1, 2]", "1"]))
NUMBERS = st.one_of(st.none(), st.integers(-3, 12), st.sampled_from([-(10**9), 10**12]))
ROWS = st.lists(st.tuples(NUMBERS, TEXTS, st.sampled_from(["u", "v", "w", None])), min_size=1, max_size=40)


def table(rows: list[tuple[Any, ...]]) -> pa.Table:
    number, text, sensitive = zip(*rows, strict=True)
    return pa.table(
        {
            "number": pa.array(number, pa.int64()),
            "text": pa.array(text, pa.string()),
            "secret": pa.array(sensitive, pa.string()),
            "row": list(range(len(rows))),
        }
    )


def policy(privacy: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    return {
        "attributes": {
            "number": {"role": "quasi"},
            "text": {"role": "quasi"},
            "secret": {"role": "sensitive"},
            "row": {"role": "insensitive"},
        },
        "privacy": privacy,
        **options,
    }


def stands_for(cover: dict[str, Any], value: Any) -> bool:
    if cover.get("any"):
        return True
    if value is None:
        return bool(cover.get("missing"))
    if "values" in cover:
        return value in cover["values"]
    if "from" not in cover:
        return False
    low, below = cover["from"], cover["below"]
    number = int(value)  # a column of texts that are all numbers is one of numbers
    return (low is None or low <= number) and (below is None or number < below)


@given(
    rows=ROWS,
    k=st.integers(1, 5),
    l=st.integers(1, 3),
    missing=st.sampled_from(["category", "drop"]),
    labels=st.sampled_from(["levels", "ranges"]),
    withheld=st.sampled_from([0, 0.2]),
    seed=st.integers(0, 5),
)
def test_a_release_is_true_and_keeps_its_word(
    rows: list[tuple[Any, ...]], k: int, l: int, missing: str, labels: str, withheld: float, seed: int
) -> None:
    asked = policy(
        [{"k-anonymity": {"k": k}}, {"distinct-l-diversity": {"l": l}}],
        missing=missing,
        method={"mondrian": {"labels": labels}},
        max_withheld=withheld,
    )
    complete = [row for row in rows if None not in row] if missing == "drop" else rows
    try:
        release = shoal.anonymize(table(rows), asked, seed=seed)
    except UnreachableError:
        values = Counter(row[2] for row in complete)
        assert len(complete) < k or len(values) < l
        return
    except InputError:
        assert not complete or any(all(row[j] is None for row in rows) for j in range(3))
        return
    published = release.data.to_pylist()
    manifest = release.manifest
    assert manifest["rows"] == len(published) == len(complete) - manifest["withheld"]
    assert manifest["withheld"] <= withheld * len(complete)
    assert manifest["missing"]["dropped"] == len(rows) - len(complete)
    classes: dict[tuple[str, str], list[dict[str, Any]]] = {}
    seen = set()
    for record in published:
        number, text, secret = rows[record["row"]]
        assert record["secret"] == secret
        assert stands_for(manifest["attributes"]["number"]["labels"][record["number"]], number)
        assert stands_for(manifest["attributes"]["text"]["labels"][record["text"]], text)
        classes.setdefault((record["number"], record["text"]), []).append(record)
        seen.add(record["row"])
    assert len(seen) == len(published)
    assert min(len(records) for records in classes.values()) >= k
    assert min(len({record["secret"] for record in records}) for records in classes.values()) >= l
    assert release.guarantees[0]["achieved"] == min(len(records) for records in classes.values())


@settings(max_examples=30)
@given(rows=ROWS.filter(lambda rows: len(rows) >= 4), data=st.data())
def test_the_order_of_rows_and_chunks_do_not_matter(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    asked = policy([{"k-anonymity": {"k": 2}}], max_withheld=0.3)
    mixed = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(1, len(rows)))
    pieces = pa.concat_tables([table(mixed).slice(0, cut), table(mixed).slice(cut)])
    results = []
    for given_table in (table(rows), pieces):
        try:
            release = shoal.anonymize(given_table, asked)
        except InputError:
            results.append(None)
        else:
            published = release.data.drop(["row"]).to_pylist()
            results.append(Counter(tuple(record.values()) for record in published))
    assert results[0] == results[1]


@settings(max_examples=30)
@given(rows=ROWS.filter(lambda rows: len(rows) >= 6), seed=st.integers(0, 3))
def test_the_same_seed_gives_the_same_table(rows: list[tuple[Any, ...]], seed: int) -> None:
    asked = policy([{"k-anonymity": {"k": 3}}], method={"hilbert": {}})
    try:
        first, second = (shoal.anonymize(table(rows), asked, seed=seed) for _ in range(2))
    except InputError:
        return
    assert first.data.equals(second.data)
