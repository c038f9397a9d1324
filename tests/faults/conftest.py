"""An honest release that tests spoil, each in one way."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.sources.opening import open_source
from shoal.sources.writers import header_line, lines
from shoal.verify.result import Verification
from shoal.verify.verifier import verify

CLEAN = {"store_schema": False, "write_statistics": False}
TWENTIES, OLDER, ANY = "[20, 29]", ">= 30", "*"


def source_table() -> pa.Table:
    """Eight people; one older man has no known sex."""
    return pa.table(
        {
            "age": pa.array([20, 24, 25, 29, 30, 38, 51, 90]),
            "zip": ["47110", "47111", "47119", "47110", "10115", "10117", "10119", "10115"],
            "sex": ["F", "M", "F", "F", "M", "M", None, "F"],
            "illness": ["flu", "flu", "hiv", "ulcer", "flu", "hiv", "ulcer", "ulcer"],
            "cost": pa.array([1.5, 2.25, 3.0, 4.0, 5.0, 6.0, 7.125, 8.0]),
        }
    )


def release_table() -> pa.Table:
    """Two classes of four, rows in another order than in the source."""
    return pa.table(
        {
            "age": [TWENTIES, OLDER] * 4,
            "zip": ["471**", "10***"] * 4,
            "sex": [ANY, ANY] * 4,
            "illness": ["ulcer", "ulcer", "hiv", "ulcer", "flu", "hiv", "flu", "flu"],
            "cost": pa.array([4.0, 8.0, 3.0, 7.125, 2.25, 6.0, 1.5, 5.0]),
        }
    )


def release_manifest() -> dict[str, Any]:
    return {
        "format": 1,
        "shoal_version": "0.1.0",
        "method": "mondrian",
        "method_parameters": {},
        "guarantees": [
            {"model": "k-anonymity", "parameters": {"k": 4}, "achieved": 4.0},
            {"model": "distinct-l-diversity", "parameters": {"l": 3}, "achieved": 3.0},
            {"model": "simple-l-diversity", "parameters": {"l": 2, "attribute": "illness"}, "achieved": 2.0},
            {"model": "t-closeness", "parameters": {"t": 0.125, "distance": "equal"}, "achieved": 0.125},
        ],
        "parts": [["age", "zip", "sex", "illness", "cost"]],
        "rows": 8,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": {
            "age": {
                "role": "quasi",
                "kind": "number",
                "labels": {TWENTIES: {"from": 20, "below": 30}, OLDER: {"from": 30, "below": None}},
            },
            "zip": {
                "role": "quasi",
                "kind": "prefix",
                "labels": {"471**": {"prefixes": ["471"]}, "10***": {"prefixes": ["10"]}},
            },
            "sex": {"role": "quasi", "kind": "category", "labels": {ANY: {"any": True}}},
            "illness": {"role": "sensitive", "kind": "category"},
            "cost": {"role": "insensitive", "kind": "number"},
        },
    }


@dataclass
class Release:
    """A release before it is written; mutants change it."""

    format: str
    table: pa.Table = field(default_factory=release_table)
    manifest: dict[str, Any] = field(default_factory=release_manifest)
    parquet: dict[str, Any] = field(default_factory=lambda: dict(CLEAN))
    source: pa.Table = field(default_factory=source_table)
    after: Callable[[Path], None] = lambda _: None
    sign: bool = True

    def set(self, column: str, row: int, value: object) -> None:
        values = self.table.column(column).to_pylist()
        values[row] = value
        kind = self.table.schema.field(column).type
        place = self.table.column_names.index(column)
        self.table = self.table.set_column(place, column, pa.array(values, type=kind))

    def write(self, folder: Path) -> Path:
        public = folder / "public"
        public.mkdir(parents=True)
        data = public / f"data.{self.format}"
        if self.format == "parquet":
            pq.write_table(self.table, data, **self.parquet)
        else:
            data.write_bytes(header_line(self.table.column_names) + b"".join(map(lines, self.table.to_batches())))
        (public / "README.md").write_text("A release.\n")
        manifest = copy.deepcopy(self.manifest)
        if self.sign:
            self.after(public)
        digest = hashlib.sha256(data.read_bytes()).hexdigest()
        manifest.setdefault("data", {"file": data.name, "format": self.format, "sha256": digest})
        if not self.sign:
            self.after(public)
        (public / "manifest.json").write_text(json.dumps(manifest))
        self._write_witness(folder / "internal", manifest)
        return folder

    def _write_witness(self, folder: Path, manifest: dict[str, Any]) -> None:
        """Write the class of every source row, which is that of the published row with its cost; 0 without one."""
        attributes = manifest.get("attributes")
        entries = attributes.items() if isinstance(attributes, dict) else ()
        labelled = {name: list(one["labels"]) for name, one in entries if isinstance(one, dict) and "labels" in one}
        class_of: dict[Any, list[int]] = {}
        for row in self.table.to_pylist():
            number = 0
            for name, labels in labelled.items():
                text = row.get(name)
                digit = labels.index(text) if text in labels else len(labels) + (text is not None)
                number = number * (len(labels) + 2) + digit
            class_of.setdefault(row.get("cost"), []).append(number + 1)
        left = [class_of.get(cost, []) for cost in self.source["cost"].to_pylist()]
        numbers = [own.pop(0) if own else 0 for own in left]
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table({"class": pa.array(numbers, pa.int64())}), folder / "witness.parquet")

    def judge(self, folder: Path, *, with_source: bool = True) -> set[str]:
        """Write it and return the names of what failed; the verdict must agree."""
        source = open_source(self.source) if with_source else None
        verification = verify(self.write(folder), source=source)
        names = self.failed(verification)
        assert (verification.verdict == "failed") == (bool(names) or not verification.guarantees)
        assert verification.verified == (verification.verdict != "failed" and not with_source)  # nothing is recorded
        assert verification.as_dict()["verified"] is verification.verified
        stated = json.dumps(verification.as_dict())
        assert "7.125" not in stated
        assert "47119" not in stated
        return names

    @staticmethod
    def failed(verification: Verification) -> set[str]:
        return {check.name for check in verification.checks if not check.ok} | {
            promise.model for promise in verification.guarantees if not promise.ok
        }


@pytest.fixture(params=["parquet", "csv"])
def release(request: pytest.FixtureRequest) -> Release:
    return Release(request.param)


@pytest.fixture
def parquet() -> Release:
    return Release("parquet")


@pytest.fixture
def delimited() -> Release:
    return Release("csv")
