"""The comparison of a release with its source as a script in SQL, for the data holder: ``internal/verify-source.sql``.

With the source and the witness it shows that every published row is a row of the source, under labels that cover it.
The witness has, for every source row in its order, the number of its class: 1 + the mixed radix number of its labels.

- The witness has as many rows as the source, and as many of them are published as the manifest says.
- Each value is covered by the label of its class: a check of the distinct pairs of value and label.
- Rows with their labels and unchanged contents are the same in both tables, each as often. They are compared by sums
  of hashes under a random salt, so memory does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from shoal.manifest import Attribute
from shoal.verify.counting import ClassNumbers, Labels
from shoal.verify.engine import CannotCheckError, name_columns, quote_name, quote_text
from shoal.verify.manifest import Manifest
from shoal.verify.rows import read_file, wrap
from shoal.verify.script import ALL_HOLD, END, join_checks, leave_undecided
from shoal.verify.truth import list_traced, write_print, write_reading, write_word

_HEAD = """\
-- Shows that the published rows are rows of the source. Run it in the folder "internal", with DuckDB 2.0 or later.
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
_READING = """\
-- One reading of the source: its rows (n), sums of their fingerprints (h), and the distinct pairs of label and value.
"""
_TRUTH = """\
SELECT 'truth', n || ' rows', own_n || ' rows', n = own_n AND digest = own_digest
FROM (SELECT coalesce(sum(n), 0) AS n, coalesce(sum(h{0}), 0) AS digest FROM counted WHERE inside),
  (SELECT count(*) AS own_n, coalesce(sum(h{0}), 0)::HUGEINT AS own_digest FROM prints)"""


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
    types = {one.name: _find_type(schema.field(one.name).type) for one in manifest.attributes}
    labels, checks = Labels(manifest), [*_check_counts(manifest)]
    if manifest.labelled:
        yield _COVERS
    yield from labels.statements()
    yield _assign(manifest, types)
    own = [f"w{at}" for at in range(1, len(ClassNumbers.of(manifest.labelled).bounds) + 1)]
    places = {one.name: f"t{place}" for place, one in enumerate(manifest.attributes, 1)}
    exact = [one.name for one in manifest.attributes if not one.boxed and manifest.is_traced(one)]
    words = {name: place for place, name in enumerate(types, 1) if name in exact and name not in manifest.techniques}

    def write_words(part: Sequence[str], columns: Sequence[str]) -> list[str]:
        pairs = zip(part, columns, strict=True)
        return [write_word(words[name], column, types[name]) for name, column in pairs if name in words]

    prints = [write_print(own, write_words(part, [places[name] for name in part])) for part in manifest.parts]
    reading = write_reading(manifest, own, places.__getitem__, places.__getitem__, prints, table="assigned")
    yield f"{_READING}CREATE TEMP TABLE met AS\n{reading};\n"
    yield "CREATE TEMP VIEW counted AS FROM met WHERE misfit IS NOT NULL;\n"
    names = name_columns(manifest.columns)
    shown = ["bucket"]
    if not manifest.sliced:
        digits = [labels.digit(one.name, names[one.name]) for one in manifest.labelled]
        shown = ClassNumbers.of(manifest.labelled).pack(digits)
    prints = [
        f"{write_print(shown, write_words(part, [names[column] for column in columns]))} AS h{at}"
        for at, (part, columns) in enumerate(zip(manifest.parts, manifest.part_columns, strict=True), 1)
    ]
    yield f"CREATE TEMP VIEW prints AS SELECT {wrap(prints)}\nFROM release;\n"
    pairs = [_list_pairs(at, one, types[one.name]) for at, one in enumerate(list_traced(manifest).values(), 1)]
    if pairs:
        yield "CREATE TEMP TABLE pairs AS\n" + "\nUNION ALL ".join(pairs) + ";\n"
        checks.append(_COVERED)
    for at, one in enumerate(list_traced(manifest).values(), 1):
        if one.role == "sensitive":  # values that do not occur would make records look more diverse
            under = f"SELECT unnest(listed) FROM covers WHERE attribute = {quote_text(one.name)}"
            found = f"SELECT v{at} FROM met WHERE d{at} IS NOT NULL"
            checks.append(f"SELECT 'values', '0', count(*)::VARCHAR, count(*) = 0\nFROM (({under}) EXCEPT ({found}))")
    checks += [_TRUTH.format(at) for at in range(1, len(prints) + 1)]
    sampled = manifest.sample is not None or manifest.one_per is not None
    if sampled or manifest.techniques or not all(map(manifest.is_traced, manifest.attributes)):
        checks.append("SELECT 'techniques and samples', 'recomputed by shoal verify', NULL, NULL")
    yield join_checks(checks)


def _assign(manifest: Manifest, types: Mapping[str, str]) -> str:
    """Return the statement that puts source and witness side by side; missing values are NULL."""
    name, values = "bucket" if manifest.sliced else "class", []
    n_numbers = len(ClassNumbers.of(manifest.labelled).bounds)
    numbers = [f'"{name}{f" {at}" if at > 1 else ""}" AS w{at}' for at in range(1, n_numbers + 1)]
    for place, one in enumerate(manifest.attributes, 1):
        text, reading = f"source.{quote_name(one.name)}", manifest.written.reading
        if types[one.name] in ("DOUBLE", "FLOAT"):
            text = f"nullif({text}, 'nan')"
        elif types[one.name] == "VARCHAR":
            if reading is not None and (reading.trim or one.name in reading.decimal_comma):
                raise CannotCheckError("texts of the source are cleaned while they are read")
            tokens = [*manifest.missing_tokens, *(() if reading is None else reading.missing_in.get(one.name, ()))]
            missing = ", ".join(map(quote_text, dict.fromkeys(tokens)))
            text = f"CASE WHEN {text} NOT IN ({missing}) THEN {text} END" if missing else text
        values.append(f"{text} AS t{place}")
    return (
        f"-- Every source row: the number of its {name} (w, 0: not published) and its values (t).\n"
        f"CREATE TEMP VIEW assigned AS SELECT {wrap(['w.*', *values])}\nFROM source POSITIONAL JOIN\n"
        f"  (SELECT {', '.join(numbers)} FROM read_parquet('witness.parquet')) AS w;\n"
    )


def _list_pairs(at: int, one: Attribute, kind: str) -> str:
    """Return the query of the distinct pairs of label and value of an attribute."""
    if kind in ("DOUBLE", "FLOAT") and one.kind in ("category", "prefix"):
        raise CannotCheckError("fractions are categories")
    kept = f" AND (d{at} <> {len(one.covers)} OR v{at} IS NOT NULL)" if one.may_keep_missing else ""
    text = f"v{at}::VARCHAR"
    if one.kind == "date" and one.format:
        if any("values" in cover for cover in one.covers.values()):
            raise CannotCheckError("covers list dates in a format")
        day = f"try_strptime({text}, {quote_text(one.format)})::DATE::VARCHAR"
        text = f"CASE WHEN v{at} IS NOT NULL THEN coalesce({day}, '?') END"
    if one.kind == "prefix" and one.length and kind == "HUGEINT":
        text = f"lpad({text}, greatest({one.length}, length({text})), '0')"
    return (
        f"SELECT {quote_text(one.name)} AS attribute, d{at} AS number, {text} AS v"
        f" FROM met WHERE d{at} IS NOT NULL AND inside{kept}"
    )


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


def _check_counts(manifest: Manifest) -> Iterator[str]:
    """Yield the checks that witness, source and manifest count the same rows."""
    whole = "coalesce(bool_or(misfit AND n > 0), false) = false AND sum(n) = (SELECT count(*) FROM source)"
    yield (
        "SELECT 'witness' AS promise, 'a number for every row' AS required, sum(n)::VARCHAR AS achieved,\n"
        f"  {whole} AS holds\nFROM counted"
    )
    inside, lacking, outside = (f"coalesce(sum(n) FILTER ({which}), 0)" for which in ("inside", "lacks", "NOT inside"))
    yield f"SELECT 'published', '{manifest.rows}', {inside}::VARCHAR, {inside} = {manifest.rows} FROM counted"
    if manifest.sample is not None or manifest.one_per is not None:
        return
    if manifest.missing_policy == "drop":
        dropped = f"{lacking} = {manifest.dropped} AND NOT coalesce(bool_or(lacks AND inside), false)"
        yield f"SELECT 'dropped', '{manifest.dropped}', {lacking}::VARCHAR, {dropped}\nFROM counted"
    left = f"{outside} = {manifest.withheld} + {manifest.dropped}"
    yield f"SELECT 'withheld', '{manifest.withheld}', ({outside} - {manifest.dropped})::VARCHAR, {left}\nFROM counted"
