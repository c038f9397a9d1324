"""Public files name no value that fewer than k people have, but for values of published rows and of the policy."""

from __future__ import annotations

import calendar
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

import shoal

K = 10
N = 2000
CODES = [f"{letter}{chapter:02}.{digit}" for letter in "EIJ" for chapter in range(40) for digit in range(8)]


def patients(seed: int = 4) -> pa.Table:
    """Codes of diagnoses, some of them of one patient only; costs and wards that few have."""
    rng = np.random.default_rng(seed)
    common = rng.zipf(1.4, N) % len(CODES)
    rare = rng.random(N) < 0.05
    code = [CODES[at] for at in np.where(rare, rng.integers(0, len(CODES), N), common)]
    ward = np.where(rng.random(N) < 0.02, np.char.add("ward-", rng.integers(100, 999, N).astype(str)), "ward-7")
    day = np.datetime64("2024-01-01") + rng.integers(0, 365, N) ** 2 // 365
    age = np.clip(rng.normal(50, 18, N), 0, 104).astype(int)
    illness = rng.choice(["asthma", "gout", "angina", "mumps"], N)
    return pa.table({"code": code, "ward": ward, "age": age, "day": day.astype("datetime64[D]"), "illness": illness})


def declared_tree() -> dict[str, Any]:
    """All codes by chapter and letter, whether they occur or not."""
    return {
        letter: {
            f"{letter}{chapter:02}": [f"{letter}{chapter:02}.{digit}" for digit in range(8)] for chapter in range(40)
        }
        for letter in "EIJ"
    }


TAXONOMIES: dict[str, Any] = {
    "groups": {"groups": declared_tree()},
    "tree": {"tree": {"any code": declared_tree()}},
    "mask": {"mask": {}},
    "mask of one length": {"mask": {"length": 5}},
    "drafted": None,
    "flat": {"flat": CODES},
}
METHODS: dict[str, dict[str, Any]] = {
    "mondrian": {"mondrian": {}},
    "ranges": {"mondrian": {"labels": "ranges"}},
    "sweep": {"sweep": {"improve": False}},
    "incognito": {"incognito": {}},
    "hilbert": {"hilbert": {}},
    "local-suppression": {"local-suppression": {}},
    "slicing": {"slicing": {}},
}
CASES = [("mondrian", taxonomy) for taxonomy in TAXONOMIES] + [(method, "groups") for method in METHODS]


def policy(method: str, taxonomy: str) -> dict[str, Any]:
    code = {"role": "quasi"} | ({} if TAXONOMIES[taxonomy] is None else {"taxonomy": TAXONOMIES[taxonomy]})
    models: list[dict[str, Any]] = [{"k-anonymity": {"k": K}}]
    if method == "slicing":
        models = [{"distinct-l-diversity": {"l": 2}}, {"column-frequency": {"k": K}}]
    return {
        "attributes": {
            "code": code,
            "ward": {"role": "quasi"},
            "age": {"role": "quasi"},
            "day": {"role": "quasi"},
            "illness": {"role": "sensitive"},
        },
        "privacy": models,
        "method": METHODS[method],
    }


def is_edge(value: str) -> bool:
    """Whether a text is the first or the last day of a month, at which spans of the calendar end."""
    day = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", value)
    return day is not None and int(day[3]) in (1, calendar.monthrange(int(day[1]), int(day[2]))[1])


def find_named(folder: Path, table: pa.Table) -> dict[str, set[str]]:
    """Return the values of fewer than K people that texts of public files name, and no published row shows."""
    public = folder / "public"
    data = pyarrow.csv.read_csv(public / "data.csv")
    shown = {str(value) for column in data.columns for value in column.unique().to_pylist()}
    days = [date.fromisoformat(text) for text in shown if re.fullmatch(r"\d{4}-\d\d-\d\d", text)]
    shown |= {str(day + timedelta(days=1)) for day in days}  # where the cover of a shown day ends
    texts = {path.name: path.read_text() for path in public.iterdir() if path.name != "data.csv"}
    found: dict[str, set[str]] = {}
    for name in table.column_names:
        counts = pc.value_counts(table[name].cast(pa.string()).combine_chunks()).to_pylist()
        rare = {entry["values"] for entry in counts if entry["counts"] < K} - shown
        for file, text in texts.items():
            words = set(re.findall(r"[\w.\-]+", text))
            named = {value for value in rare if value in words and len(value) > 3 and not is_edge(value)}
            if named:
                found.setdefault(f"{file} {name}", set()).update(named)
    return found


@pytest.mark.parametrize(("method", "taxonomy"), dict.fromkeys(CASES))
def test_no_rare_value_is_named(method: str, taxonomy: str, tmp_path: Path) -> None:
    table = patients()
    release = shoal.anonymize(table, policy(method, taxonomy), out=tmp_path / "out", format="csv", seed=1)
    assert shoal.verify(tmp_path / "out", source=table).verified
    found = find_named(tmp_path / "out", table)
    if taxonomy in ("groups", "tree", "flat"):  # declared values may be named, but then all of a group are
        found = {place: named for place, named in found.items() if not place.endswith(" code")}
    assert found == {}
    for cover in release.manifest["attributes"]["code"].get("labels", {}).values():
        values = cover.get("values", [])
        heads = {value[:3] for value in values}
        assert len(values) <= 1 or set(values) >= {code for code in CODES if code[:3] in heads} or method == "ranges"


def test_a_cover_does_not_depend_on_who_is_in_the_table(tmp_path: Path) -> None:
    """One patient alone has a code: with and without the patient, the covers are the same."""
    rows = [{"code": "E00.0", "age": 30 + i % 3} for i in range(40)] + [{"code": "E00.1", "age": 31}] * 20
    both = [[*rows, {"code": "E00.7", "age": 31}], [*rows, {"code": "E00.6", "age": 31}]]
    tree = {"groups": {"E00": [f"E00.{digit}" for digit in range(8)], "E01": ["E01.0", "E01.1"]}}
    document = {
        "attributes": {"code": {"role": "quasi", "taxonomy": tree}, "age": {"role": "quasi"}},
        "privacy": [{"k-anonymity": {"k": K}}],
    }
    entries = [
        shoal.anonymize(pa.Table.from_pylist(some), document, seed=1).manifest["attributes"]["code"] for some in both
    ]
    assert entries[0] == entries[1]
    assert entries[0]["labels"]["E00"]["values"] == [f"E00.{digit}" for digit in range(8)]
