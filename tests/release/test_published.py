"""One small release of every form, read back: what the rows are, and what their labels cover, by hand."""

from __future__ import annotations

from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.core.errors import InputError, UsageError
from shoal.manifest import Attribute
from shoal.release.covers import LabelColumn, read_covers
from shoal.release.published import PublishedRelease, encode_column, read_column
from shoal.release.release import Release

PEOPLE = pa.table({"age": [21, 24, 26, 29, 31, 34, 36, 39], "ill": ["flu", "gout", "cold", "rash"] * 2})
AGES = {"role": "quasi", "taxonomy": {"intervals": {"min": 20, "max": 39, "widths": [10]}}}


def policy(method: dict[str, Any], *models: dict[str, Any]) -> dict[str, Any]:
    return {"attributes": {"age": AGES, "ill": {"role": "sensitive"}}, "privacy": list(models), "method": method}


def publish(method: dict[str, Any], *models: dict[str, Any], **options: Any) -> Release:
    return shoal.anonymize(PEOPLE, policy(method, *models), seed=1, **options)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_classes(kind: Any, tmp_path: Path) -> None:
    made = publish({"mondrian": {}}, {"k-anonymity": {"k": 4}}, out=tmp_path / "out", format=kind)
    for release in (made, tmp_path / "out", tmp_path / "out" / "public"):
        found = PublishedRelease.open(release)
        assert (found.form.name, found.manifest.rows, found.folder) == ("classes", 8, tmp_path / "out" / "public")
        column, codes = read_column(found.read_rows()["age"], found.manifest.attributes["age"], found.name)
        spans = {label: tuple(span) for label, span in zip(column.labels, column.spans.tolist(), strict=True)}
        assert spans == {"[20, 29]": (20, 30), "[30, 39]": (30, 40)}
        assert np.bincount(codes).tolist() == [4, 4]
        with pytest.raises(UsageError, match="not sliced"):
            found.slice_rows()


def test_a_plan_is_in_the_folder(tmp_path: Path) -> None:
    found = PublishedRelease.open(publish({"mondrian": {}}, {"k-anonymity": {"k": 4}}))
    with pytest.raises(UsageError, match="plan of a release is in its folder"):
        found.read_plan()
    with pytest.raises(InputError, match=r"has no manifest\.json"):
        PublishedRelease.open(tmp_path)


def column(kind: Any, *covers: dict[str, Any], **more: Any) -> LabelColumn:
    return LabelColumn("q", kind, tuple(map(str, range(len(covers)))), covers, **more)


def ranges(kind: Any, *covers: dict[str, Any], values: pa.Array, **more: Any) -> tuple[list[list[int]], list[int]]:
    """Return the codes that each label covers, and the codes of values."""
    found = read_covers(column(kind, *covers, **more))
    assert found.missing == found.width - 1
    codes = [list(range(low, high)) for low, high in zip(found.low.tolist(), found.high.tolist(), strict=True)]
    labels = [list(chain(*codes[start:stop])) for start, stop in pairwise(found.start.tolist())]
    return labels, found.places(values).tolist()


def test_covers_of_numbers_share_their_edges() -> None:
    young, old, rest = {"from": 0, "below": 30}, {"from": 20, "below": None}, {"values": ["50"], "missing": True}
    # 0-20, 20-30, 30-50, 50, from 50 on; then other values, and missing ones
    labels, codes = ranges("number", young, old, rest, values=pa.array(["5", "25", "50", "51", "-1", "x"]))
    assert labels == [[0, 1], [1, 2, 3, 4], [3, 6]]
    assert codes == [0, 1, 3, 4, 5, 5]


def test_covers_of_dates_and_texts() -> None:
    days = {"from": "2024-01-01", "below": "2024-02-01"}
    assert ranges("date", days, values=pa.array(["31.01.2024", "01.02.2024"]), format="%d.%m.%Y") == ([[0]], [0, 1])
    codes = {"prefixes": ["47"]}, {"from": "46", "through": None}, {"any": True}
    assert ranges("prefix", *codes, values=pa.array([4711, 46, 1]), length=4) == (
        [[1], [0, 1, 2], [0, 1, 2, 3, 4]],
        [1, 3, 3],
    )


def test_covers_of_categories_keep_groups_together() -> None:
    group, one = {"values": ["b", "a"]}, {"values": ["a"], "missing": True}
    assert ranges("category", group, one, values=pa.array(["a", "b", "c"])) == ([[0, 1], [1, 3]], [1, 0, 2])


@pytest.mark.parametrize(
    "labels",
    [
        ("number", {"from": 3, "below": 3}),
        ("number", {"values": ["x"]}),
        ("number", {"from": 3}),
        ("prefix", {"prefixes": [""]}),
        ("category", {"values": []}),
        ("category", {}),
    ],
)
def test_labels_that_cover_nothing_are_refused(labels: tuple[Any, dict[str, Any]]) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_covers(column(*labels))


def test_texts_without_a_label_are_refused() -> None:
    age = Attribute(name="age", role="quasi", kind="number", labels={"20-29": {"from": 20, "below": 30}})
    with pytest.raises(InputError, match="does not explain"):
        read_column(pa.array(["30-39"]), age, "the release")
    assert encode_column(pa.array(["b", None, "a", "b"]))[1] == ["b", "a", None]
