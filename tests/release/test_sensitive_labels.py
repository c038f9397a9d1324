"""What a generalized sensitive column publishes: texts of any type, labels that never collide, missing values."""

from __future__ import annotations

import datetime
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from tests.tables import cover

import shoal
from shoal.taxonomies.parse import texts
from shoal.verify.verifier import verify_table

TREES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "text": (["u", "v", "w", "x"], {"any": {"low": ["u", "v"], "high": ["w", "x"]}}),
    "int": ([1, 2, 30, 40], {"any": {"low": [1, 2], "high": [30, 40]}}),
    "float": ([0.5, 1.25, 3.0, 4.75], {"any": {"low": [0.5, 1.25], "high": [3.0, 4.75]}}),
    "date": (
        [datetime.date(2024, 1, day) for day in (1, 2, 3, 4)],
        {"any": {"low": ["2024-01-01", "2024-01-02"], "high": ["2024-01-03", "2024-01-04"]}},
    ),
}


def anonymized(values: list[Any], tree: dict[str, Any] | None, l: int = 2, tau: float = 0.5, **options: Any) -> Any:
    """A table in which the first value is far too frequent, so that some of it must be generalized."""
    secret = pa.array([values[0]] * 9 + values[1:])
    table = pa.table({"q": ["a", "b"] * (len(secret) // 2) + ["a"] * (len(secret) % 2), "s": secret})
    table = table.append_column("row", pa.array(range(table.num_rows)))
    document = {
        "attributes": {
            "q": {"role": "quasi"},
            "s": {"role": "sensitive"} | ({} if tree is None else {"taxonomy": {"tree": tree}}),
            "row": {"role": "insensitive"},
        },
        "privacy": [{"tau-l-diversity": {"tau": tau, "l": l}}],
        "method": {"sweep": options},
    }
    release = shoal.anonymize(table, document, seed=1)
    assert release.verification.verified  # with the source
    assert verify_table(release.data, release.manifest).verified
    return table, release


def stands_for(release: Any, table: pa.Table) -> dict[str | None, set[str | None]]:
    """Published text -> the source values of its rows, as text; checks that the manifest says so."""
    spelled = texts(table["s"].combine_chunks()).to_pylist()
    original = dict(zip(table["row"].to_pylist(), spelled, strict=True))
    labels = release.manifest["attributes"]["s"]["labels"]
    found: dict[str | None, set[str | None]] = defaultdict(set)
    for record in release.data.to_pylist():
        value = original[record["row"]]
        found[record["s"]].add(value)
        if record["s"] is None:
            assert value is None
            continue
        cover = labels[record["s"]]
        assert cover.get("missing") if value is None else value in cover["values"]
    return dict(found)


@pytest.mark.parametrize(("improve", "kind"), cover([False, True], TREES))
def test_values_of_any_type_are_published_as_text_beside_labels(kind: str, improve: bool) -> None:
    values, tree = TREES[kind]
    table, release = anonymized(values, tree, improve=improve)
    assert pa.types.is_string(release.data["s"].type) or pa.types.is_dictionary(release.data["s"].type)
    found = stands_for(release, table)
    generalized = {text for text in found if text in ("low", "high", "any")}
    assert generalized
    assert found.keys() - generalized <= set(texts(pa.array(values)).to_pylist())
    assert release.evidence["search"]["generalized"]["s"] > 0


def test_a_group_named_like_the_spelling_of_a_value_is_told_apart() -> None:
    values = [0.5, 1.25, 3.0, 4.75]
    table, release = anonymized(values, {"any": {"3": [0.5, 1.25], "high": [3.0, 4.75]}}, defend=False)
    found = stands_for(release, table)
    assert found["(3)"] <= {"0.5", "1.25"}
    assert found["3"] == {"3"}


def test_missing_values_are_kept_or_under_a_label_that_says_so() -> None:
    table, release = anonymized(["u", "v", None, None, "w"], None, tau=0.6, l=3)
    found = stands_for(release, table)
    labels = release.manifest["attributes"]["s"]["labels"]
    assert labels["*"]["missing"] is True
    assert sorted(labels["*"]["values"]) == ["u", "v", "w"]
    assert found.get(None, {None}) == {None}


def test_a_label_covers_only_values_that_occur() -> None:
    tree = {"any": {"low": ["u", "v", "never"], "high": ["w", "x", "nor this"]}}
    _, release = anonymized(["u", "v", "w", "x"], tree, defend=False)
    labels = release.manifest["attributes"]["s"]["labels"]
    assert all("never" not in cover["values"] and "nor this" not in cover["values"] for cover in labels.values())
    assert sorted(labels["low"]["values"]) == ["u", "v"]
