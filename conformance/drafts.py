"""A release that becomes a case: its rows, manifest and witness are changed, and then its digests are restated."""

from __future__ import annotations

import csv
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from conformance.releases import write_rows
from shoal.manifest import ManifestError, unpack_labels
from shoal.verify.manifest import read_manifest
from shoal.verify.script import SCRIPT, write_script

VERSION = "conformance"
CLEAN = {"store_schema": False, "write_statistics": False}
INTERNAL = ("witness.parquet", "labels.parquet")


@dataclass(slots=True)
class Draft:
    """A folder with ``public``, ``internal`` and ``source.csv``; ``close`` makes all digests fit again."""

    folder: Path
    manifest: dict[str, Any]
    actions: list[dict[str, str]] = field(
        default_factory=list
    )  # done by the runner, because git cannot carry the result
    text: str | None = None  # of manifest.json, if it is not the JSON of the manifest
    restate: bool = True  # the digests of data files
    record: bool = True  # the digest of the manifest in the internal folder

    @classmethod
    def open(cls, folder: Path) -> Draft:
        """Read the manifest of a release; labels are unpacked."""
        return cls(folder, unpack_labels(json.loads((folder / "public" / "manifest.json").read_bytes())))

    @property
    def public(self) -> Path:
        """The folder that can be shared."""
        return self.folder / "public"

    @property
    def witness(self) -> Path:
        """The class or bucket of every source row."""
        return self.folder / "internal" / "witness.parquet"

    def read(self, name: str = "data.csv") -> list[list[str]]:
        """Return the lines of a CSV file, the header first."""
        with (self.public / name).open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file))

    def write(self, lines: Sequence[Sequence[str]], name: str = "data.csv") -> None:
        """Write a CSV file in the canonical form."""
        with (self.public / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)

    def swap(self, first: int, second: int, *columns: str) -> None:
        """Exchange values of two rows."""
        with self.edit_lines() as lines:
            for place in map(lines[0].index, columns):
                lines[first][place], lines[second][place] = lines[second][place], lines[first][place]

    def find_largest_class(self, *columns: str) -> list[int]:
        """Return the most rows that agree in some columns, counted from 1."""
        lines = self.read()
        places = [lines[0].index(column) for column in columns]
        found: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, line in enumerate(lines[1:], 1):
            found[tuple(line[place] for place in places)].append(number)
        return max(found.values(), key=len)

    def find_pair(self, same: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
        """Return two rows that agree in some columns and differ in all of some others."""
        head, *lines = self.read()
        alike, apart = ([head.index(name) for name in names] for names in (same, other))
        for one, first in enumerate(lines, 1):
            for two, second in enumerate(lines, 1):
                if all(first[n] == second[n] for n in alike) and all(first[n] != second[n] for n in apart):
                    return one, two
        raise LookupError("no such rows")

    @contextmanager
    def edit_lines(self, name: str = "data.csv") -> Iterator[list[list[str]]]:
        """Yield the lines of a CSV file and write them as they are then; they must have changed."""
        lines = self.read(name)
        before = [list(line) for line in lines]
        yield lines
        if lines == before:
            raise LookupError("no line was changed")
        self.write(lines, name)

    def read_source(self) -> list[dict[str, str]]:
        """Return the rows of the source."""
        with (self.folder / "source.csv").open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def write_source(self, rows: Sequence[dict[str, str]]) -> None:
        """Write the source again."""
        write_rows(self.folder / "source.csv", rows)

    def rewrite_parquet(self, table: pa.Table | None = None, **options: Any) -> None:
        """Write the Parquet file of the rows again, with other options."""
        path = self.public / "data.parquet"
        pq.write_table(pq.read_table(path) if table is None else table, path, **{**CLEAN, **options})

    def edit_numbers(self, change: Any) -> None:
        """Change the witness, a list of numbers."""
        table = pq.read_table(self.witness)
        pq.write_table(pa.table({table.column_names[0]: change(table.column(0).to_pylist())}), self.witness)

    def edit_labels(self, change: Any) -> None:
        """Change the records under labels, a list of dictionaries."""
        path = self.folder / "internal" / "labels.parquet"
        table = pq.read_table(path)
        pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), table.schema), path)

    def trim(self) -> None:
        """Leave out everything that verification can do without, and that other versions of shoal write differently."""
        for key in ("readme", "report"):
            self.manifest.pop(key, None)
        self.manifest["shoal_version"] = VERSION
        for name in ("README.md", "report.html"):
            (self.public / name).unlink()
        for path in (self.folder / "internal").iterdir():
            if path.name not in INTERNAL:
                path.unlink()

    def close(self) -> None:
        """Write the manifest, with digests of the files as they are now, and record its own digest."""
        entries = [self.manifest.get("data"), self.manifest.get("agreed"), *self.manifest.get("tables", {}).values()]
        for entry in entries if self.restate else ():
            if isinstance(entry, dict) and (self.public / entry.get("file", "")).is_file():
                entry["sha256"] = hash_file(self.public / entry["file"])
        text = json.dumps(self.manifest, ensure_ascii=False) if self.text is None else self.text
        (self.public / "manifest.json").write_text(text, "utf-8")
        with suppress(ManifestError):  # a manifest without a meaning keeps the script of the honest release
            (self.public / SCRIPT).write_text(write_script(read_manifest(self.manifest, with_file=True)), "utf-8")
        if self.record and (self.folder / "internal").is_dir():
            recorded = {"manifest": {"sha256": hash_file(self.public / "manifest.json")}}
            (self.folder / "internal" / "evidence.json").write_text(json.dumps(recorded), "utf-8")


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
