"""The rows of a release and of its source as tables of DuckDB.

``release`` has the published columns, their texts without the quotation marks that protect spreadsheets, and missing
values as NULL. ``source`` can be read once per statement: t1, t2, ... are the values of the attributes in the order of
the manifest, w1, ... the numbers of the witness, and p_unit and p_household name people.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.arrays import IntArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress, Silent
from shoal.core.wording import count_noun
from shoal.verify.engine import Engine, name_columns, quote_text
from shoal.verify.manifest import Manifest

if TYPE_CHECKING:
    from shoal.sources.base import Source

GUARD = """\
-- A quotation mark protects spreadsheets from texts that look like formulas. It is not part of the value.
CREATE TEMP MACRO text_of(t) AS CASE WHEN NOT starts_with(t, '''') THEN t
  WHEN regexp_matches(t, '^''+([=@\\t\\r]|[+-].*[(|!"''])', 's') THEN substr(t, 2) ELSE t END;
"""
_DIALECT = "header = true, auto_detect = false, delim = ',', quote = '\"', escape = '\"', new_line = '\\n'"
WIDTH = 110  # of a line of SQL
_PIECE = 1 << 18  # rows of a witness that are read together


def wrap(items: Sequence[str], separator: str = ",") -> str:
    """Return items of a list in lines of readable length."""
    lines = [items[0]]
    for item in items[1:]:
        lines[-1] += separator
        if len(lines[-1]) + len(item) < WIDTH:
            lines[-1] += f" {item}"
        else:
            lines.append(item)
    return "\n    ".join(lines)


def read_file(path: str, file_format: str, columns: Sequence[str], view: str = "release") -> str:
    """Return the statement that makes a view from a file."""
    names = list(name_columns(columns).values())
    if file_format == "parquet":
        return f"CREATE TEMP VIEW {view} AS\nFROM read_parquet({quote_text(path)}) AS t({wrap(names)});\n"
    kinds = wrap([f"'c{place}': 'VARCHAR'" for place in range(1, len(names) + 1)])
    texts = wrap([f"text_of(c{place}) AS {name}" for place, name in enumerate(names, 1)])
    rows = f"read_csv({quote_text(path)}, {_DIALECT},\n    allow_quoted_nulls = false, columns = {{{kinds}}})"
    return f"{GUARD}CREATE TEMP VIEW {view} AS\nSELECT {texts}\nFROM {rows};\n"


class Release:
    """The published rows: the view ``release``."""

    def __init__(self, engine: Engine, manifest: Manifest, columns: Sequence[str]) -> None:
        self.engine, self.manifest = engine, manifest
        self.columns = tuple(columns)
        self.names = name_columns(columns)  # attribute or column -> its name in SQL
        described = engine.fetch("DESCRIBE release")
        self.types = {name: str(row[1]) for name, row in zip(columns, described, strict=True)}  # in DuckDB

    @classmethod
    def of_file(cls, engine: Engine, manifest: Manifest, path: Path, file_format: str) -> Release:
        """Read a file, whose columns are the declared ones."""
        engine.run(read_file(str(path), file_format, manifest.columns))
        return cls(engine, manifest, manifest.columns)

    @classmethod
    def of_table(cls, engine: Engine, manifest: Manifest, table: pa.Table) -> Release:
        """Read a table in memory, whose columns are the declared ones."""
        columns = table.column_names
        engine.put("release_rows", table.rename_columns([f"c{place}" for place in range(1, len(columns) + 1)]))
        names = wrap(list(name_columns(columns).values()))
        engine.run(f"CREATE TEMP VIEW release AS FROM release_rows AS t({names})")
        return cls(engine, manifest, columns)

    @classmethod
    def of_batches(cls, engine: Engine, manifest: Manifest, rows: Any) -> Release:
        """Read rows that are kept elsewhere once, and keep them."""
        columns = rows.schema.names
        kinds = [(f"c{place}", field.type) for place, field in enumerate(rows.schema, 1)]

        def read() -> Iterator[pa.RecordBatch]:
            for batch in rows.batches(columns):
                arrays = [own.cast(kind) for own, (_, kind) in zip(batch.columns, kinds, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(kinds))

        with engine.stream("given_rows", pa.schema(kinds), read()):
            engine.run("CREATE TEMP TABLE release_rows AS FROM given_rows")
        names = wrap(list(name_columns(columns).values()))
        engine.run(f"CREATE TEMP VIEW release AS FROM release_rows AS t({names})")
        return cls(engine, manifest, columns)


class WitnessError(ValueError):
    """The witness does not fit the source."""


class Witness:
    """The numbers of classes or buckets, in memory or in a file that is read piece by piece."""

    def __init__(self, given: IntArray | Path, column: str) -> None:
        """Take (n_rows,) or (n_columns, n_rows) numbers, or a Parquet file of columns of that name.

        Another file is refused by a ValueError.
        """
        self._given = given if isinstance(given, Path) else np.atleast_2d(given).astype(np.int64, copy=False)
        if isinstance(self._given, Path):
            with pq.ParquetFile(self._given) as file:
                schema, self.n_rows = file.schema_arrow, file.metadata.num_rows
            self.n_columns = len(schema.names)
            names = [column, *(f"{column} {number}" for number in range(2, self.n_columns + 1))]
            if schema.names != names or not all(pa.types.is_integer(kind) for kind in schema.types):
                raise ValueError("the witness is not columns of whole numbers")
        else:
            self.n_columns, self.n_rows = self._given.shape

    def read(self) -> Iterator[IntArray]:
        """Yield (n_columns, n) the numbers of all rows in their order, some rows at a time."""
        if not isinstance(self._given, Path):
            yield self._given
            return
        with pq.ParquetFile(self._given) as file:
            for batch in file.iter_batches(_PIECE):
                if any(column.null_count for column in batch.columns):
                    raise WitnessError("the witness lacks numbers of some rows")
                yield np.stack([column.cast(pa.int64()).to_numpy() for column in batch.columns])


def demand_columns(source: Source, names: Sequence[str]) -> None:
    """Raise an InputError unless a source has all columns that a release is compared by."""
    absent = [name for name in names if name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks {count_noun(len(absent), 'column')} of the release: {', '.join(absent)}")


class SourceRows:
    """The source with its witness: the table ``source``."""

    def __init__(
        self,
        engine: Engine,
        manifest: Manifest,
        source: Source,
        witness: Witness | None,
        progress: Progress | None = None,
    ) -> None:
        demand_columns(source, [one.name for one in manifest.attributes])
        self.engine, self.manifest, self.source, self.witness = engine, manifest, source, witness
        self.places = {one.name: f"t{place}" for place, one in enumerate(manifest.attributes, 1)}
        self.types: Mapping[str, pa.DataType] = {name: source.schema.field(name).type for name in self.places}
        self._progress = progress or Silent()

    def present(self, name: str) -> str:
        """Return an attribute's value in SQL, NULL if it is missing."""
        value, kind = self.places[name], self.types[name]
        if pa.types.is_floating(kind):
            return f"nullif({value}, 'nan')"
        if not pa.types.is_string(kind) or not self.manifest.missing_tokens:
            return value
        return f"CASE WHEN {value} NOT IN ({', '.join(map(quote_text, self.manifest.missing_tokens))}) THEN {value} END"

    @contextmanager
    def reading(self, attributes: Sequence[str], people: Mapping[str, str] | None = None) -> Iterator[None]:
        """Let one statement read ``source`` with these attributes, the columns that name people, and the witness."""
        columns = {self.places[name]: name for name in attributes}
        columns |= {f"p_{key}": name for key, name in (people or {}).items()}
        named = list(dict.fromkeys(columns.values())) or self.source.schema.names[:1]
        text = [name for name in named if pa.types.is_string(self.source.schema.field(name).type)]
        coded = [name for name in text if name in self.places]
        kinds = {
            name: pa.dictionary(pa.int32(), pa.string()) if name in coded else self.source.schema.field(name).type
            for name in named
        }
        n_numbers = 0 if self.witness is None else self.witness.n_columns
        fields = [(key, kinds[name]) for key, name in columns.items()]
        fields += [(f"w{place}", pa.int64()) for place in range(1, n_numbers + 1)] + [("row", pa.int64())]
        schema = pa.schema(fields)

        def pair() -> Iterator[pa.RecordBatch]:
            begin, witness = 0, self.witness
            pieces, waiting = iter(()) if witness is None else witness.read(), np.zeros((n_numbers, 0), dtype=np.int64)
            for batch in self.source.batches(named, dictionary=coded):
                n = batch.num_rows
                if witness is not None and begin + n > witness.n_rows:
                    raise WitnessError("the witness has fewer rows than the source")
                while n_numbers and waiting.shape[1] < n:
                    waiting = np.concatenate([waiting, next(pieces)], axis=1)
                arrays = [*(batch.column(name) for name in columns.values()), *map(pa.array, waiting[:, :n])]
                yield pa.RecordBatch.from_arrays([*arrays, pa.array(np.arange(begin, begin + n))], schema=schema)
                begin, waiting = begin + n, waiting[:, n:]
                step.advance(n)
            if witness is not None and witness.n_rows > begin:
                raise WitnessError("the witness has more rows than the source")

        with (
            self._progress.step("comparing with the source", self.source.n_rows) as step,
            self.engine.stream("source", schema, pair()),
        ):
            yield
