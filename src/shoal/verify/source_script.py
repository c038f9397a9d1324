"""The truth of a release as a script in SQL, for the data holder: ``internal/verify-source.sql``.

With the source and the witness it shows that every published row is a row of the source, under labels that cover it.
The witness has, for every source row in its order, the number of its class: 1 + the mixed radix number of its labels.

- The witness has as many rows as the source, and as many of them are published as the manifest says.
- Each value is covered by the label of its class: a check of the distinct pairs of value and label.
- Rows with their labels and unchanged contents are the same in both tables, each as often. They are compared by sums
  of hashes under a random salt, so memory does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from shoal.manifest import Attribute
from shoal.verify.counting import ClassNumbers, Labels
from shoal.verify.engine import CannotCheckError, name_columns, quote_name, quote_text
from shoal.verify.manifest import Manifest
from shoal.verify.rows import read_file, wrap
from shoal.verify.script import ALL_HOLD, END, join_checks, leave_undecided
from shoal.verify.truth import write_print, write_word

_HEAD = """\
-- Shows that the published rows are rows of the source. Run it in the folder "internal", with DuckDB 1.4 or later.
-- The source is a view; read every value of a CSV file as text:
--   duckdb -cmd "CREATE VIEW source AS FROM read_csv('SOURCE', all_varchar = true)" < verify-source.sql
"""
_MACROS = f"""\
{ALL_HOLD}CREATE TEMP MACRO is_within(x, low, high) AS
  x IS NOT NULL AND (low IS NULL OR x >= low) AND (high IS NULL OR x < high);
-- Rows are compared by sums of fingerprints under a random salt, so nobody can prepare a collision.
SET VARIABLE salt = (SELECT concat(gen_random_uuid(), gen_random_uuid()));
"""
_COVERS = """\
-- The labels of each attribute, numbered in their order, and the values that they cover.
CREATE TEMP TABLE covers AS
SELECT attribute, number, label, kind, coalesce((cover->>'$.any')::BOOLEAN, false) AS covers_all,
  coalesce((cover->>'$.missing')::BOOLEAN, false) AS covers_missing, json_exists(cover, '$.from') AS is_span,
  cover->>'$.from' AS low, cover->>'$.below' AS high, cover->>'$.through' AS last,
  coalesce((cover->'$.prefixes')::VARCHAR[], []) AS prefixes, coalesce((cover->'$.values')::VARCHAR[],
    flatten([listed[runs[i] + 1 : runs[i + 1]] FOR i IN range(1, len(runs), 2)]), []) AS listed
FROM (SELECT a.key AS attribute, l.rowid AS number, l.key AS label, l.value AS cover, a.value->>'$.kind' AS kind,
    try_cast(l.value AS BIGINT[]) AS runs, (a.value->'$.values')::VARCHAR[] AS listed
  FROM read_text('../public/manifest.json'), json_each(content::JSON, '$.attributes') AS a,
    json_each(a.value, '$.labels') AS l);
CREATE TEMP VIEW declared AS SELECT attribute, label, number FROM covers;
CREATE TEMP MACRO day_of(v) AS try_cast(v AS TIMESTAMP)::DATE;
"""
_COVERED = """\
SELECT 'labels', 'cover the values of their rows', count(*) || ' pairs differ', count(*) = 0
FROM pairs LEFT JOIN covers USING (attribute, number)
WHERE NOT coalesce(covers_all OR covers_missing AND v IS NULL OR CASE
  WHEN kind = 'number' AND is_span THEN is_within(try_cast(v AS DOUBLE), low::DOUBLE, high::DOUBLE)
  WHEN kind = 'number' THEN list_contains(listed::DOUBLE[], try_cast(v AS DOUBLE))
  WHEN kind = 'date' AND is_span THEN is_within(day_of(v), low::DATE, high::DATE)
  WHEN kind = 'date' THEN list_contains([day_of(one) FOR one IN listed], day_of(v))
  WHEN is_span THEN is_within(v, low, NULL) AND (last IS NULL OR v <= last)
  ELSE list_contains(listed, v) OR len([p FOR p IN prefixes IF starts_with(v, p)]) > 0 END, false)"""
_TRUTH = """\
SELECT 'truth', n || ' rows', own_n || ' rows', n = own_n AND digest = own_digest
FROM (SELECT count(*) AS n, sum(h) AS digest FROM source_rows{0}),
  (SELECT count(*) AS own_n, sum(h) AS own_digest FROM release_rows{0})"""


def write_source_script(manifest: Manifest, schema: pa.Schema) -> str:
    """Return the script for a release and a source with these columns.

    If SQL cannot compare releases of this form, the script answers *incomplete*.
    """
    try:
        return "\n".join([_HEAD, *_list_statements(manifest, schema), END])
    except CannotCheckError:
        return leave_undecided(_HEAD, "truth", "a form that SQL compares")


def _list_statements(manifest: Manifest, schema: pa.Schema) -> Iterator[str]:
    written = manifest.written
    if written.items or written.synthetic or written.agreed or manifest.averaging is not None:
        raise CannotCheckError("rows of this form are not source rows under labels")
    if manifest.sliced and manifest.labelled:
        raise CannotCheckError("a bucket has several labels of an attribute")
    if manifest.moved_complete or not {one.name for one in manifest.attributes} <= set(schema.names):
        raise CannotCheckError("values of the source changed rows, or columns are absent")
    yield _MACROS
    if manifest.data is None:
        raise CannotCheckError("a release in memory has no files")
    yield read_file(f"../public/{manifest.data.file}", manifest.data.format, manifest.columns)
    table = _SourceTable(manifest, schema)
    checks = [*_check_counts(manifest, table.any_missing())]
    if manifest.labelled:
        yield _COVERS
    yield from table.labels.statements()
    yield table.assign()
    if any(manifest.is_traced(one) for one in manifest.labelled):
        yield table.list_pairs()
        checks.append(_COVERED)
    checks += [_check_values(one, table) for one in manifest.labelled if one.role == "sensitive"]
    for number, part in enumerate(zip(manifest.parts, manifest.part_columns, strict=True), 1):
        yield table.write_rows(number, *part)
        checks.append(_TRUTH.format(number))
    sampled = manifest.sample is not None or manifest.one_per is not None
    if sampled or manifest.techniques or not all(map(manifest.is_traced, manifest.attributes)):
        checks.append("SELECT 'techniques and samples', 'recomputed by shoal verify', NULL, NULL")
    yield join_checks(checks)


class _SourceTable:
    """The source with the witness, row by row: w numbers of the class, l labels, t values of attributes."""

    def __init__(self, manifest: Manifest, schema: pa.Schema) -> None:
        self._manifest = manifest
        self._types = {one.name: _find_type(schema.field(one.name).type) for one in manifest.attributes}
        self._place = {one.name: place + 1 for place, one in enumerate(manifest.attributes)}
        self._numbers = ClassNumbers.of(manifest.labelled)
        self.labels = Labels(manifest)

    def value(self, name: str) -> str:
        """Return the column of an attribute's source values."""
        return f"t{self._place[name]}"

    def assign(self) -> str:
        """Return the statement that puts source and witness side by side."""
        name = "bucket" if self._manifest.sliced else "class"
        numbers = [f'"{name}{f" {at + 1}" if at else ""}" AS w{at + 1}' for at in range(len(self._numbers.bounds))]
        labels = [
            f"mod((w{column + 1} - 1) // {stride}, {radix}) AS l{at + 1}"
            for at, (column, stride, radix) in enumerate(self._numbers.digits)
        ]
        values = [f"{self._read(one)} AS {self.value(one.name)}" for one in self._manifest.attributes]
        return (
            f"-- Every source row: the number of its {name} (w, 0: not published), its labels (l) and values (t).\n"
            f"CREATE TEMP VIEW assigned AS SELECT {wrap(['w.*', *labels, *values])}\nFROM source POSITIONAL JOIN\n"
            f"  (SELECT {', '.join(numbers)} FROM read_parquet('witness.parquet')) AS w;\n"
        )

    def _read(self, attribute: Attribute) -> str:
        """Return a value of the source as shoal reads it, NULL if it is missing."""
        manifest, name = self._manifest, attribute.name
        text, reading = f"source.{quote_name(name)}", manifest.written.reading
        if self._types[name] in ("DOUBLE", "FLOAT"):
            return f"nullif({text}, 'nan')"
        if self._types[name] != "VARCHAR":
            return text
        if reading is not None and (reading.trim or name in reading.decimal_comma):
            raise CannotCheckError("texts of the source are cleaned while they are read")
        own = () if reading is None else reading.missing_in.get(name, ())
        missing = ", ".join(map(quote_text, dict.fromkeys([*manifest.missing_tokens, *own])))
        return f"CASE WHEN {text} NOT IN ({missing}) THEN {text} END" if missing else text

    def any_missing(self) -> str:
        """Return whether a row lacks a value that it must have."""
        return " OR ".join(f"{self.value(name)} IS NULL" for name in self._manifest.complete) or "false"

    def list_pairs(self) -> str:
        """Return the statement that lists the distinct pairs of label and value of all attributes with labels."""
        selects = []
        for at, one in enumerate(self._manifest.labelled):
            if not self._manifest.is_traced(one):
                continue
            value, kind = self.value(one.name), self._types[one.name]
            if kind in ("DOUBLE", "FLOAT") and one.kind in ("category", "prefix"):
                raise CannotCheckError("fractions are categories")
            kept = f" AND (l{at + 1} <> {len(one.labels or {})} OR {value} IS NOT NULL)" if one.may_keep_missing else ""
            text = f"{value}::VARCHAR"
            if one.kind == "date" and one.format:
                if any("values" in cover for cover in (one.labels or {}).values()):
                    raise CannotCheckError("covers list dates in a format")
                day = f"try_strptime({text}, {quote_text(one.format)})::DATE::VARCHAR"
                text = f"CASE WHEN {value} IS NOT NULL THEN coalesce({day}, '?') END"
            if one.kind == "prefix" and one.length and kind == "HUGEINT":
                text = f"lpad({text}, greatest({one.length}, length({text})), '0')"
            selects.append(
                f"SELECT DISTINCT {quote_text(one.name)} AS attribute, l{at + 1} AS number, {text} AS v"
                f" FROM assigned WHERE w1 > 0{kept}"
            )
        return "CREATE TEMP TABLE pairs AS\n" + "\nUNION ALL ".join(selects) + ";\n"

    def write_rows(self, number: int, part: Sequence[str], columns: Sequence[str]) -> str:
        """Return the statements that give the rows of a part their fingerprints, in both tables.

        A fingerprint is of the numbers of the row's class, or of its bucket, and of the unchanged values of the part.
        """
        manifest, names = self._manifest, name_columns(self._manifest.columns)
        own = [f"w{at + 1}" for at in range(len(self._numbers.bounds))]
        shown = ["bucket"]
        if not manifest.sliced:
            shown = self._numbers.pack([self.labels.digit(one.name, names[one.name]) for one in manifest.labelled])
        words: tuple[list[str], list[str]] = [], []
        for at, (name, column) in enumerate(zip(part, columns, strict=True), 1):
            one = manifest.written.attributes[name]
            if one.boxed or not manifest.is_traced(one) or name in manifest.techniques:
                continue
            for texts, value in zip(words, (self.value(name), names[column]), strict=True):
                texts.append(write_word(at, value, self._types[name]))
        views = []
        for view, prints, table in (
            ("source", write_print(own, words[0]), "assigned WHERE w1 > 0"),
            ("release", write_print(shown, words[1]), "release"),
        ):
            views.append(f"CREATE TEMP VIEW {view}_rows{number} AS\nSELECT {prints} AS h\nFROM {table};\n")
        return "".join(views)


def _find_type(kind: pa.DataType) -> str:
    """Return the type in which values of a source are compared, as DuckDB calls it."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = {
        "VARCHAR": pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind),
        "HUGEINT": pa.types.is_integer(kind),
        "DOUBLE": pa.types.is_float64(kind),
        "FLOAT": pa.types.is_float32(kind),
        "BOOLEAN": pa.types.is_boolean(kind),
        "DATE": pa.types.is_date(kind),
    }
    for name, holds in tests.items():
        if holds:
            return name
    raise CannotCheckError("SQL does not compare values of this type")


def _check_counts(manifest: Manifest, missing: str) -> Iterator[str]:
    """Yield the checks that witness, source and manifest count the same rows."""
    rows = "(SELECT count(*) FROM source) = (SELECT count(*) FROM read_parquet('witness.parquet'))"
    yield (
        "SELECT 'witness' AS promise, 'a number for every row' AS required, count(*)::VARCHAR AS achieved,\n"
        f"  {rows} AND count(*) FILTER (w1 IS NULL OR w1 < 0) = 0 AS holds\nFROM assigned"
    )
    published = f"count(*) = {manifest.rows}"
    yield f"SELECT 'published', '{manifest.rows}', count(*)::VARCHAR, {published}\nFROM assigned WHERE w1 > 0"
    if manifest.sample is not None or manifest.one_per is not None:
        return
    if manifest.missing_policy == "drop":
        dropped = f"count(*) = {manifest.dropped} AND coalesce(max(w1), 0) = 0"
        yield f"SELECT 'dropped', '{manifest.dropped}', count(*)::VARCHAR, {dropped}\nFROM assigned WHERE {missing}"
    left = f"count(*) = {manifest.withheld} + {manifest.dropped}"
    withheld = f"(count(*) - {manifest.dropped})::VARCHAR"
    yield f"SELECT 'withheld', '{manifest.withheld}', {withheld}, {left}\nFROM assigned WHERE w1 = 0"


def _check_values(attribute: Attribute, table: _SourceTable) -> str:
    """Return the check that every value under a sensitive label occurs: others would make records look more diverse."""
    under = f"SELECT unnest(listed) FROM covers WHERE attribute = {quote_text(attribute.name)}"
    found = f"SELECT {table.value(attribute.name)} FROM assigned"
    return f"SELECT 'values', '0', count(*)::VARCHAR, count(*) = 0\nFROM (({under}) EXCEPT ({found}))"
