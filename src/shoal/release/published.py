"""A published release, read back: the only place where rows and a manifest become typed columns, classes and parts.

Attacks, linking, audits, reports, the receiving side and agencies start from a ``PublishedRelease``. It trusts the
manifest; ``shoal verify`` reads the same files independently and shares no code with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shoal.core.arrays import CodeArray
from shoal.core.dictionaries import split_values
from shoal.core.errors import InputError, UsageError
from shoal.manifest import Attribute, Manifest, ManifestError, read_manifest
from shoal.release.covers import LabelColumn
from shoal.release.forms.agreed import AgreedPlan, parse_plan, read_plan_file
from shoal.release.forms.base import Form, read_form
from shoal.release.release import INTERNAL, PUBLIC, UNVERIFIED, Release, find_release
from shoal.release.sliced.table import SlicedTable, name_columns
from shoal.sources.base import Source, SourceOptions
from shoal.sources.columns import plain
from shoal.sources.frames import as_table
from shoal.sources.opening import open_source


@dataclass(frozen=True, slots=True, eq=False)
class PublishedRelease:
    """The published rows, in memory or in a file, and their manifest; they are not verified.

    >>> from shoal.manifest import Attribute
    >>> ages = {"20-29": {"from": 20, "below": 30}, "*": {"any": True}}
    >>> age = Attribute(name="age", role="quasi", kind="number", labels=ages)
    >>> column, codes = read_column(pa.array(["*", "20-29", "*"]), age, "the release")
    >>> column.spans.tolist(), codes.tolist()
    ([[-inf, inf], [20.0, 30.0]], [0, 1, 0])
    """

    name: str  # in messages
    manifest: Manifest
    data: pa.Table | Path
    folder: Path | None = None  # of the public files, if the release was written

    @classmethod
    def find(cls, folder: Path) -> PublishedRelease | None:
        """Return the release in a folder or in its folder ``public``; None if neither has a manifest."""
        found = find_release(folder)
        return None if found is None else cls(str(folder), found[1], found[0] / found[1].file, found[0])

    @classmethod
    def open(cls, release: Release | str | Path) -> PublishedRelease:
        if isinstance(release, str | Path):
            found = cls.find(Path(release))
            if found is None:
                raise InputError(
                    f"{release} has no manifest.json, not even in its folder public; give the folder of a release"
                )
            return found
        given = as_table(release.data)
        data = release.data_file if given is None else given[0]
        if data is None:
            raise UsageError(
                "this release has neither data nor a folder; pass the release as `shoal.anonymize` returned it"
            )
        name, folder = str(release.folder or "a release"), release.folder and release.folder / PUBLIC
        try:
            return cls(name, read_manifest(release.manifest), data, folder)
        except ManifestError as fault:
            raise InputError(f"{name}: its manifest cannot be read: {fault}") from None

    @property
    def form(self) -> Form:
        return read_form(self.manifest)

    def read_rows(self) -> pa.Table:
        """Return the rows; unlabelled numbers in a CSV file become numbers."""
        if not isinstance(self.data, Path):
            return self.data
        rows, parts = pa.Table.from_batches(list(self.source.batches())), self.manifest.parts
        if self.data.suffix != ".csv":
            return rows
        named = (pair for each in zip(parts, name_columns(parts), strict=True) for pair in zip(*each, strict=True))
        for name, column in named:
            attribute = self.manifest.attributes[name]
            if attribute.kind == "number" and not attribute.boxed and column in rows.column_names:
                place = rows.column_names.index(column)
                rows = rows.set_column(place, column, _parse_numbers(rows.column(column)))
        return rows

    def read_texts(self) -> pa.Table:
        """Return the rows without dictionaries; whole records of a CSV file stay texts."""
        written = isinstance(self.data, Path) and self.form.whole_records
        return plain(pa.Table.from_batches(list(self.source.batches())) if written else self.read_rows())

    @property
    def source(self) -> Source:
        return open_source(self.data, SourceOptions(delimiter=","))

    def slice_rows(self) -> SlicedTable:
        """Return the rows as buckets and parts; refuse a release of whole records."""
        return SlicedTable.of(self.read_rows(), self.manifest.parts)

    def read_plan(self) -> AgreedPlan:
        """Return the agency's plan of the release; it must be the one in the manifest."""
        stated = self.manifest.agreed
        if stated is None or self.folder is None:
            raise UsageError(f"the plan of {self.name} is in its folder; give the folder")
        path = self.folder / stated.file
        if not path.is_file():  # reading a pipe or a device might never end
            raise InputError(f"{self.name}: it lacks its plan; run `shoal verify` on it")
        content = read_plan_file(path)
        if hashlib.sha256(content).hexdigest() != stated.sha256:
            raise InputError(f"{self.name}: its plan is not the file that the manifest names; run `shoal verify` on it")
        plan = parse_plan(content, f"{stated.file} of {self.name}")
        if plan.digest != stated.digest:
            raise InputError(f"{self.name}: the digest of its plan is not in the manifest; run `shoal verify` on it")
        return plan

    def read_labelled(self) -> pa.Table | None:
        """Return the original values under labels from the internal folder, if it is next to the public files."""
        if self.folder is None or self.folder.name not in (PUBLIC, UNVERIFIED):
            return None
        path = self.folder.parent / INTERNAL / "labels.parquet"
        return pq.read_table(path) if path.is_file() else None


def read_options(manifest: Manifest) -> SourceOptions:
    """Return the options for reading the original table as the manifest's release did."""
    stated = {} if manifest.reading is None else manifest.reading.model_dump(mode="json", exclude_unset=True)
    return SourceOptions(missing=list(manifest.missing.tokens), **stated)


def read_columns(source: Source, columns: Sequence[str]) -> pa.Table:
    return pa.Table.from_batches(list(source.batches(columns, dictionary=columns))).unify_dictionaries()


def _parse_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whole numbers if possible, or else decimals; other texts stay unchanged."""
    for kind in (pa.int64(), pa.float64()):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column


def encode_column(column: pa.ChunkedArray | pa.Array) -> tuple[CodeArray, list[str | None]]:
    """Return (n,) the code of each value, and the values as texts; the last one is None if values are missing."""
    codes, values = split_values(column)
    texts: list[str | None] = pc.cast(values, pa.string()).to_pylist()
    return codes, [*texts, None] if len(codes) and codes.max() == len(texts) else texts


def read_column(column: pa.ChunkedArray | pa.Array, attribute: Attribute, where: str) -> tuple[LabelColumn, CodeArray]:
    """Return the labels of a published column with their covers, and (n,) the label of each row."""
    codes, values = encode_column(column)
    return LabelColumn.of(attribute, values, where), codes
