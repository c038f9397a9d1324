"""The guarantees of a release as a script in SQL that anyone can run with DuckDB: ``verify.sql``.

The text is a function of the manifest alone. ``duckdb < verify.sql`` reads the files in its folder and prints one row
per check. shoal never executes a script that it finds; it compares the text with the one written here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import shoal
from shoal.manifest import Attribute, DataFile
from shoal.verify.exact import CannotCheckError
from shoal.verify.manifest import Manifest
from shoal.verify.people import weaken
from shoal.verify.promises import Promise, find_model
from shoal.verify.result import Check
from shoal.verify.statements import MACROS, WIDTH, Subjects, quote_name, quote_text, state

SCRIPT = "verify.sql"
_HEAD = """\
-- Checks the guarantees of this release. Run it in the folder of the release, with DuckDB 1.4 or later:
--   duckdb < verify.sql
-- It prints each check, its requirement, the figure that the rows reach, and whether the check holds.
-- "holds" is empty (NULL) if the public files or SQL cannot decide; shoal verify explains why.
"""
_GUARD = """\
-- A quotation mark protects spreadsheets from texts that look like formulas. It is not part of the value.
CREATE TEMP MACRO text_of(t) AS
  CASE WHEN regexp_matches(t, '^''+([=@\\t\\r]|[+-].*[(|!"''])', 's') THEN substr(t, 2) ELSE t END;
"""
_DIALECT = "auto_detect = false, delim = ',', quote = '\"', escape = '\"'"
_LINE = "header = false, auto_detect = false, delim = chr(1), quote = '', escape = '', columns = {'line': 'VARCHAR'}"
_DECLARED = """\
CREATE TEMP VIEW declared AS
SELECT a.key AS attribute, unnest(json_keys(a.value, '/labels')) AS label
FROM read_text('manifest.json'), json_each(content::JSON, '$.attributes') AS a;
"""
_LABELS = """\
SELECT 'labels', 'declared in the manifest', count(*) || ' differ', count(*) = 0
FROM ((FROM published EXCEPT FROM declared) UNION ALL (FROM declared EXCEPT FROM published))"""
END = """\
SELECT * FROM checks;
SELECT CASE WHEN all_hold(holds) THEN 'verified' WHEN all_hold(holds) IS NULL THEN 'incomplete'
  ELSE error('failed: ' || string_agg(promise, ', ') FILTER (NOT holds)) END AS verdict
FROM checks;
"""


def write_script(manifest: Manifest) -> str:
    """Return the script for a release; a manifest that SQL cannot express makes one that answers *incomplete*."""
    try:
        return "\n".join([_HEAD + MACROS, *_list_statements(manifest), END])
    except CannotCheckError:
        return leave_undecided(_HEAD, "release", "texts that SQL can express")


def leave_undecided(head: str, check: str, required: str) -> str:
    """Return a script that answers *incomplete*."""
    nothing = f"SELECT '{check}' AS promise, '{required}' AS required, NULL AS achieved, NULL AS holds"
    return f"{head}\n{nothing};\nSELECT 'incomplete' AS verdict;\n"


def check_script(manifest: Manifest, found: str | None) -> Check:
    """Compare the script in the folder with the one for this manifest; other versions may write it differently."""
    if found is None:
        return Check("script", True, f"not checked: there is no {SCRIPT}", done=False)
    if manifest.written.shoal_version != shoal.__version__:
        return Check("script", True, f"not checked: another version of shoal wrote {SCRIPT}", done=False)
    fault = found != write_script(manifest) and f"{SCRIPT} is not the script for this manifest; do not run it"
    return Check.of("script", fault, f"{SCRIPT} is the script for this manifest")


def _list_statements(manifest: Manifest) -> Iterator[str]:
    data = manifest.data
    if data is None:
        raise CannotCheckError("a release in memory has no files")
    yield from make_release(manifest)
    checks = [*_check_form(manifest, data)]
    keys = _find_keys(manifest)
    if keys:
        yield _count_cells(manifest, keys)
    if manifest.labelled:
        yield _DECLARED
        yield _list_published(manifest)
        checks.append(_LABELS)
    subjects = Subjects(manifest, partial(spell_text, manifest))
    checks += [_check_promise(promise, manifest, subjects if keys else None) for promise in manifest.promises]
    yield from subjects.statements()
    yield join_checks(checks)


def make_release(manifest: Manifest, folder: str = "") -> Iterator[str]:
    """Yield the statements that read the published rows, with the public folder at a relative path."""
    data = manifest.data
    if data is None:
        raise CannotCheckError("a release in memory has no files")
    rows = f"read_parquet('{folder}{data.file}')"
    if data.format == "csv":
        yield _GUARD
        columns = wrap([f"{quote_text(name)}: 'VARCHAR'" for name in manifest.columns])
        rows = f"read_csv('{folder}{data.file}', header = true, {_DIALECT},\n  columns = {{{columns}}})"
    yield f"CREATE TEMP VIEW release AS\nSELECT * FROM {rows};\n"


def join_checks(checks: Sequence[str]) -> str:
    """Return the statement that collects the answers to all checks."""
    return "CREATE TEMP TABLE checks AS\n" + "\nUNION ALL\n".join(checks) + ";\n"


def _find_keys(manifest: Manifest) -> list[str]:
    """Return the columns whose values make a class: in parts, the bucket and the quasi-identifiers of one part.

    None if nothing is promised, or if sensitive attributes are in several parts.
    """
    quasi, sensitive = ([one.name for one in manifest.of_role(role)] for role in ("quasi", "sensitive"))
    if not manifest.promises or not manifest.sliced:
        return quasi if manifest.promises else []
    parts = [part for part in manifest.parts if not set(sensitive).isdisjoint(part)]
    if len(parts) != 1 or len(manifest.columns) != len(manifest.attributes) + 1:
        return []
    return ["bucket", *(name for name in parts[0] if name in quasi)]


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


def _check_form(manifest: Manifest, data: DataFile) -> Iterator[str]:
    """Yield the checks of rows, columns and buckets."""
    found = f"count(*) = {manifest.rows} AND count(*) > 0"
    yield (
        f"SELECT 'rows' AS promise, '{manifest.rows}' AS required, count(*)::VARCHAR AS achieved, {found} AS holds\n"
        "FROM release"
    )
    names = [quote_text(name) for name in manifest.columns]
    if data.format == "parquet":
        listed = f"list(column_name) = [{', '.join(names)}]"
        yield f"SELECT 'columns', '{len(names)}', count(*)::VARCHAR, {listed}\nFROM (DESCRIBE release)"
    else:
        first = ",".join(map(_write_field, manifest.columns))
        same = f"line = {quote_text(first)}" if "\n" not in first else "NULL"
        yield f"SELECT 'columns', '{len(names)}', NULL, {same}\nFROM (FROM read_csv('{data.file}', {_LINE}) LIMIT 1)"
    if manifest.sliced:
        numbers = f"min(b) = 1 AND max(b) = {manifest.buckets} AND count(*) = {manifest.buckets}"
        buckets = "(SELECT DISTINCT bucket::BIGINT AS b FROM release)"
        yield f"SELECT 'buckets', '{manifest.buckets}', count(*)::VARCHAR, {numbers}\nFROM {buckets}"


def _write_field(name: str) -> str:
    """Return a name as the first line of a CSV file has it."""
    return '"' + name.replace('"', '""') + '"' if any(mark in name for mark in ',"\r\n') else name


def _list_published(manifest: Manifest) -> str:
    """Return the statement that lists the published labels of all attributes; the labels of classes are counted."""
    found: list[tuple[Attribute, str, str]] = []  # attribute, its label in SQL, and the table
    if manifest.promises and not manifest.sliced:
        for role, letter in (("quasi", "q"), ("sensitive", "s")):
            places = [(one, f"{letter}{at + 1}") for at, one in enumerate(manifest.of_role(role)) if one.boxed]
            found += [(one, spell_text(manifest, column), "counted") for one, column in places]
    else:
        for own, names in zip(manifest.parts, manifest.part_columns, strict=True):
            pairs = [(manifest.written.attributes[one], name) for one, name in zip(own, names, strict=True)]
            found += [(one, spell(manifest, name), "release") for one, name in pairs if one.boxed]
    selects = [
        f"SELECT {quote_text(one.name)} AS attribute, {label} AS label FROM {table}"
        + (f" WHERE {label} IS NOT NULL" if one.may_keep_missing else "")
        for one, label, table in found
    ]
    return "CREATE TEMP VIEW published AS\n" + "\nUNION ".join(selects) + ";\n"


def spell(manifest: Manifest, name: str) -> str:
    """Return a column of the file as the text that was published."""
    return spell_text(manifest, quote_name(name))


def spell_text(manifest: Manifest, column: str) -> str:
    """Return a column of SQL as the text that was published."""
    csv = manifest.data is not None and manifest.data.format == "csv"
    return f"text_of({column})" if csv else f"{column}::VARCHAR"


def _count_cells(manifest: Manifest, keys: Sequence[str]) -> str:
    """Return the statements that count the records of each class and the sensitive values that they have."""
    texts = [quote_name(name) for name in keys]
    if manifest.data is not None and manifest.data.format == "parquet":
        texts = [f"{text}::VARCHAR" for text in texts]  # readers see -0.0 and 0.0, which numbers do not tell apart
    quasi = [f"{text} AS q{place + 1}" for place, text in enumerate(texts)]
    values = [f"{quote_name(one.name)} AS s{place + 1}" for place, one in enumerate(manifest.of_role("sensitive"))]
    names = [f"q{place + 1}" for place in range(len(keys))]
    same = wrap([f"k.{name} IS NOT DISTINCT FROM r.{name}" for name in names], " AND")
    title = "-- Rows with equal quasi-identifiers (q) are an equivalence class; c of its n records have the values (s)."
    if manifest.sliced:
        title = "-- In each bucket, rows with equal quasi-identifiers beside the sensitive values (s) are a class."
    columns, classes = wrap([*quasi, *values, "count(*) AS c"]), ", ".join(names)
    return (
        f"{title}\nCREATE TEMP TABLE counted AS\nSELECT {columns}\nFROM release GROUP BY ALL;\n"
        f"CREATE TEMP TABLE classes AS SELECT row_number() OVER () AS class, *\n"
        f"FROM (SELECT {classes}, sum(c) AS n FROM counted GROUP BY ALL);\n"
        f"CREATE TEMP TABLE cells AS SELECT class, n, r.* EXCLUDE ({classes})\n"
        f"FROM counted AS r JOIN classes AS k ON {same};\n"
    )


def _check_promise(promise: Promise, manifest: Manifest, subjects: Subjects | None) -> str:
    """Return the statement of a promise, or the part of it that SQL can decide.

    Records can disprove a promise about people. In parts, the belief about a tuple is a mixture of classes, which
    satisfies a model if all of them do; if some do not, the script decides nothing.
    """
    model = find_model(promise.model)
    if promise.obstacle or subjects is None or model is None:
        return _leave_open(promise)
    if promise.model == "column-frequency" and promise.counts is None:
        return _count_parts(promise, manifest)
    if promise.counts is None and not manifest.sliced:
        return state(promise, subjects) or _leave_open(promise)
    shown, decided = None, "WHEN holds THEN true"
    if promise.counts is not None:
        weaker, decided = weaken(promise), "WHEN NOT holds THEN false"
        shown = state(weaker, subjects, claimed=False) if weaker is not None and not manifest.sliced else None
    elif model.about == "values" and model.mixes:
        shown = state(promise, subjects, claimed=False)
    if shown is None:
        return _leave_open(promise)
    found = f"FROM ({shown}) AS t(promise, required, achieved, holds)"
    return f"SELECT {quote_text(promise.model)}, required, achieved, CASE {decided} END\n{found}"


def _count_parts(promise: Promise, manifest: Manifest) -> str:
    """Return the check that buckets, and quasi-identifiers within each part, are shared by k records."""
    quasi = {one.name for one in manifest.of_role("quasi")}
    keys = [["bucket"], *([name for name in part if name in quasi] for part in manifest.parts)]
    counts = "\n  UNION ALL ".join(
        f"SELECT count(*) AS n FROM release GROUP BY {', '.join(map(quote_name, names))}" for names in keys if names
    )
    k, claimed = promise.whole("k"), "false" if promise.claimed is None else f"agrees(min(n), {promise.claimed!r})"
    return f"SELECT 'column-frequency', 'k = {k}', min(n)::VARCHAR, min(n) >= {k} AND {claimed}\nFROM ({counts})"


def _leave_open(promise: Promise) -> str:
    return f"SELECT {quote_text(promise.model)}, NULL, NULL, {'false' if promise.obstacle else 'NULL'}"
