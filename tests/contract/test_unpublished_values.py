"""No value that only unpublished records have is in any public file, whatever left them out.

Every record has a tag that is published as it is, so the data tell which records are published. Some records have
values that nobody else has. Those of records that are not published are looked for in all public bytes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.core.registry import discover
from shoal.methods.base import Method

METHODS: dict[str, list[dict[str, Any]]] = {
    "anatomy": [{"two_tables": True}],
    "auto": [{}],
    "hilbert": [{}, {"labels": "ranges"}],
    "incognito": [{}, {"recode": True}],
    "local-suppression": [{}, {"levels": {"zip": 1}}],
    "microaggregation": [{}],
    "mondrian": [{}, {"labels": "ranges"}],
    "plain": [{}],
    "slicing": [{"columns": 2}, {"columns": 3, "grouping": "random"}],
    "sweep": [{}],
}
CASES = [(name, parameters) for name, variants in METHODS.items() for parameters in variants]
LEFT_OUT: dict[str, Any] = {"missing": "drop", "max_withheld": 0.25, "sample": {"share": 0.7}}
K = {"k-anonymity": {"k": 3}}
WITHHOLDING: list[tuple[str, dict[str, Any]]] = [
    ("incognito", K),
    ("microaggregation", K),
]
TECHNIQUES: dict[str, dict[str, Any]] = {
    "coding": {"coding": {"top": 90_000, "bottom": 25}},
    "permutation": {"permutation": {}},
    "rounding": {"rounding": {"base": 5}},
    "swapping": {"swapping": {"share": 0.5}},
}


def people(n: int = 300, flu: float = 0.55) -> pa.Table:
    """Every fifth record is unlike all others, and some of these lack a value; most people have the flu."""
    rng = np.random.default_rng(11)
    rare = np.arange(n) % 5 == 0
    number = rng.permutation(np.arange(10_000, 99_999))[:n]
    own = [(f"{i:03}", bool(rare[i])) for i in range(n)]
    town = rng.choice(["Aalen", "Bonn", "Celle", "Dessau"], n)
    illness = rng.choice(
        ["angina", "gout", "mumps", "flu"], n, p=[0.3 * (1 - flu), flu, 0.4 * (1 - flu), 0.3 * (1 - flu)]
    )
    return pa.table(
        {
            "age": [int(number[i]) if rare[i] else 20 + i % 40 for i in range(n)],
            "town": [f"Rareton{i}" if alone else str(town[int(i)]) for i, alone in own],
            "zip": [f"9{i}7" if alone else f"471{int(i) % 10}1" for i, alone in own],
            "day": [f"19{30 + int(i) % 40}-11-17" if alone else f"2024-0{1 + int(i) % 3}-05" for i, alone in own],
            "illness": [f"rareitis{i}" if alone and int(i) % 10 else str(illness[int(i)]) for i, alone in own],
            "gap": [None if alone and int(i) % 3 else "x" for i, alone in own],
            "tag": [f"tag{i}" for i, _ in own],
        }
    )


def policy(method: dict[str, Any], **options: Any) -> dict[str, Any]:
    name = next(iter(method))
    return {
        "attributes": {
            "age": {
                "role": "quasi",
                "taxonomy": {"intervals": {"min": 0, "max": 99_999, "widths": [100, 1000, 10_000]}},
            },
            "town": {"role": "quasi"},
            "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 5}}},
            "day": {"role": "quasi"},
            "gap": {"role": "quasi"},
            "illness": {"role": "sensitive"},
            "tag": {"role": "insensitive"},
        },
        "privacy": {"plain": [], "local-suppression": [K]}.get(name, [{"simple-l-diversity": {"l": 1.5}}]),
        "method": method,
        **options,
    }


def found_in_public(folder: Path, table: pa.Table) -> list[str]:
    """Return the values of unpublished records that public files name, and no published record has."""
    public = folder / "public"
    (file,) = public.glob("data.*")
    data = pq.read_table(file) if file.suffix == ".parquet" else pa.csv.read_csv(file)
    shown = {str(value) for column in data.columns for value in column.to_pylist()}
    published = set(data["tag"].to_pylist())
    rows = table.to_pylist()
    theirs = {str(value) for row in rows if row["tag"] in published for value in row.values()}
    left_out = {str(value) for row in rows if row["tag"] not in published for value in row.values() if value}
    canaries = {value for value in left_out - theirs - shown if len(value) > 2}
    assert 0 < len(published) < table.num_rows
    assert canaries
    texts = [path.read_bytes().decode("utf-8", "replace") for path in sorted(public.iterdir())]
    for path in public.glob("*.parquet"):
        texts += [str(value) for column in pq.read_table(path).columns for value in column.unique().to_pylist()]
    return sorted(canaries & set(re.findall(r"\w+(?:-\d\d-\d\d)?", "\n".join(texts))))


def test_all_methods_that_publish_records_are_here() -> None:
    assert set(METHODS) == set(discover("shoal.methods", Method)) - {"synthetic", "safepub"}


@pytest.mark.parametrize(("method", "parameters"), CASES, ids=str)
def test_no_public_file_names_them(method: str, parameters: dict[str, Any], tmp_path: Path) -> None:
    table = people()
    kind = "parquet" if method in ("mondrian", "slicing", "plain") else "csv"
    shoal.anonymize(table, policy({method: parameters}, **LEFT_OUT), out=tmp_path / "out", format=kind)
    assert found_in_public(tmp_path / "out", table) == []


@pytest.mark.parametrize(("method", "model"), WITHHOLDING, ids=str)
def test_nor_if_the_method_withholds_them(method: str, model: dict[str, Any], tmp_path: Path) -> None:
    table = people(flu=0.72)
    if method == "microaggregation":  # two people alone lack a number
        ages = table["age"].to_pylist()
        ages[10] = ages[25] = None
        table = table.set_column(0, "age", pa.array(ages))
    asked = policy({method: {}}, max_withheld=0.3) | {"privacy": [model]}
    release = shoal.anonymize(table, asked, out=tmp_path / "out", format="csv")
    assert release.manifest["withheld"] > 0
    assert found_in_public(tmp_path / "out", table) == []


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_nor_after_a_technique(technique: str, tmp_path: Path) -> None:
    table = people()
    asked = policy({"mondrian": {}}, missing="drop", sample={"share": 0.7})
    asked["attributes"]["age"]["technique"] = TECHNIQUES[technique]
    shoal.anonymize(table, asked, out=tmp_path / "out", format="csv")
    # Ages of dropped records may have been moved to published ones.
    assert found_in_public(tmp_path / "out", table.drop_columns("age")) == []
