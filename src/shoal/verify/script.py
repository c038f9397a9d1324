"""The guarantees of a release as a script in SQL that anyone can run with DuckDB: ``verify.sql``.

The text is a function of the manifest alone. ``duckdb < verify.sql`` reads the files in its folder and prints one row
per check. shoal runs the same statements, which it writes again; it never executes a script that it finds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import shoal
from shoal.manifest import DataFile
from shoal.verify.counting import PLAIN, SPELLING, ReleaseTables
from shoal.verify.engine import CannotCheckError, quote_name, quote_text
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Counts, Promise
from shoal.verify.result import Check
from shoal.verify.rows import WIDTH, read_file

SCRIPT, SOURCE_SCRIPT = "verify.sql", "verify-source.sql"
_LONGEST = 1 << 22  # characters
_HEAD = """\
-- Checks the guarantees of this release. Run it in the folder of the release, with DuckDB 2.0 or later:
--   duckdb < verify.sql
-- It prints each check, its requirement, the figure that the rows reach, and whether the check holds.
-- "holds" is empty (NULL) if the public files or SQL cannot decide; shoal verify explains why.
"""
ALL_HOLD = """\
CREATE TEMP MACRO all_hold(h) AS CASE WHEN bool_or(NOT h) THEN false WHEN bool_or(h IS NULL) THEN NULL ELSE true END;
"""
AGREES = (
    "CREATE TEMP MACRO agrees(found, stated) AS"
    " found = stated OR abs(found - stated) <= 1e-9 * greatest(abs(found), abs(stated), 1);\n"
)
FOLDED = r"""-- Spellings of one value count as one value.
CREATE TEMP MACRO folded(t) AS
  trim(regexp_replace(lower(replace(nfc_normalize(t), 'İ', 'i' || chr(775))), '[\t-\r ]+', ' ', 'g'));
"""
_LINE = "header = false, auto_detect = false, delim = chr(1), quote = '', escape = '', columns = {'line': 'VARCHAR'}"
_DECLARED = """\
CREATE TEMP TABLE declared AS
SELECT attribute, unnest(labels) AS label, generate_subscripts(labels, 1) - 1 AS number
FROM (SELECT a.key AS attribute, json_keys(a.value, '/labels') AS labels
  FROM read_text('manifest.json'), json_each(content::JSON, '$.attributes') AS a);
"""
LABELS = """\
SELECT 'labels', 'declared in the manifest', count(*) || ' differ', count(*) = 0
FROM ((FROM published EXCEPT SELECT attribute, number FROM declared)
  UNION ALL (SELECT attribute, number FROM declared EXCEPT FROM published))"""
END = """\
SELECT * FROM checks;
SELECT CASE WHEN all_hold(holds) THEN 'verified' WHEN all_hold(holds) IS NULL THEN 'incomplete'
  ELSE error('failed: ' || string_agg(promise, ', ') FILTER (NOT holds)) END AS verdict
FROM checks;
"""


def write_script(manifest: Manifest) -> str:
    """Return the script for a release; if SQL cannot express the manifest, the script answers *incomplete*."""
    try:
        chunks = [*_list_statements(manifest), END]
        text = "".join(f"\n{chunk}" if chunk.startswith("--") else chunk for chunk in chunks)
        used = [ALL_HOLD, AGREES, FOLDED if " folded(" in text else ""]
        if len(text) < _LONGEST:
            return f"{_HEAD}\n{''.join(used)}{text}"
    except CannotCheckError:
        pass
    return leave_undecided(_HEAD, "release", "texts that SQL can express")


def leave_undecided(head: str, check: str, required: str) -> str:
    """Return a script that answers *incomplete*."""
    nothing = f"SELECT '{check}' AS promise, '{required}' AS required, NULL AS achieved, NULL AS holds"
    return f"{head}\n{nothing};\nSELECT 'incomplete' AS verdict;\n"


def check_script(manifest: Manifest, found: str | None) -> Check:
    """Compare the script in the folder with the one for this manifest; other versions may write it differently."""
    if found is None:
        return Check("script", True, f"not checked: {SCRIPT} is missing", done=False)
    if manifest.written.shoal_version != shoal.__version__:
        return Check("script", True, f"not checked: another version of shoal wrote {SCRIPT}", done=False)
    fault = found != write_script(manifest) and f"{SCRIPT} is not the script for this manifest; do not run it"
    return Check.of("script", fault, f"{SCRIPT} is the script for this manifest")


def _list_statements(manifest: Manifest) -> Iterator[str]:
    data = manifest.data
    if data is None:
        raise CannotCheckError("a release in memory has no files")
    yield read_file(data.file, data.format, manifest.columns)
    tables = ReleaseTables(manifest)
    checks = [*_check_form(manifest, data)]
    if manifest.labelled:
        yield _DECLARED
    yield from tables.count()
    if manifest.labelled:
        yield tables.list_published()
        checks.append(LABELS)
    statements: list[str] = []
    checks += [_check_promise(promise, manifest, tables, statements) for promise in manifest.promises]
    if statements:
        used = [name for name in tables.sensitive if any(f"texts{tables.sensitive[name][0]} " in s for s in statements)]
        yield "".join(map(tables.list_texts, used))
        folded = [f"FROM texts{tables.sensitive[name][0]}" for name in used if not tables.sensitive[name][1].boxed]
        yield SPELLING.format(" UNION ALL ".join(folded) or "SELECT '' AS value", PLAIN)
        yield "".join(statements)
    yield join_checks(checks)


def join_checks(checks: Sequence[str]) -> str:
    """Return the statement that collects the answers to all checks."""
    return "CREATE TEMP TABLE checks AS\n" + "\nUNION ALL ".join(checks) + ";\n"


def _check_form(manifest: Manifest, data: DataFile) -> Iterator[str]:
    """Yield the checks of rows, columns and buckets."""
    found = f"count(*) = {manifest.rows} AND count(*) > 0"
    yield (
        f"SELECT 'rows' AS promise, '{manifest.rows}' AS required, count(*)::VARCHAR AS achieved, {found} AS holds"
        " FROM release"
    )
    names = [quote_text(name) for name in manifest.columns]
    if data.format == "parquet":
        listed = f"list(name ORDER BY column_id) = [{', '.join(names)}]"
        schema = f"parquet_schema({quote_text(data.file)})"
        schema = f"(SELECT name, row_number() OVER () AS column_id FROM {schema} WHERE num_children IS NULL)"
        yield f"SELECT 'columns', '{len(names)}', count(*)::VARCHAR, {listed}\nFROM {schema}"
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


def _check_promise(promise: Promise, manifest: Manifest, tables: ReleaseTables, made: list[str]) -> str:
    """Return the statement of a promise, or of the part that SQL can decide.

    Records can disprove a promise about people. In parts, the belief about a tuple is a mixture of classes, which
    satisfies a model if all of them do; if some do not, the script decides nothing.
    """
    if promise.obstacle or not tables.keys:
        return _leave_open(promise)
    if promise.model == "column-frequency" and promise.counts is None:
        return _count_parts(promise, manifest)
    shown, decided = None if manifest.sliced else promise, ""
    if promise.counts is not None:
        from shoal.verify.people import weaken

        shown, decided = None if manifest.sliced else weaken(promise), "WHEN NOT holds THEN false"
    elif manifest.sliced and promise.kind.about == "values" and promise.kind.mixes:
        shown, decided = promise, "WHEN holds THEN true"
    found = None if shown is None else _state(shown, tables, made, claimed=not decided)
    if found is None:
        return _leave_open(promise)
    if not decided:
        return found
    found = f"FROM ({found}) AS t(promise, required, achieved, holds)"
    return f"SELECT {quote_text(promise.model)}, required, achieved, CASE {decided} END\n{found}"


def _state(promise: Promise, tables: ReleaseTables, made: list[str], *, claimed: bool = True) -> str | None:
    """Return the statement of a promise; None if SQL cannot decide it.

    With *claimed*, the manifest must state the figure that the rows reach.
    """
    kind = promise.kind
    required = ", ".join(f"{name} = {_show(value)}" for name, value in promise.parameters.items() if value)
    holds, worst = "holds", "min" if kind.worst is min else "max"
    if claimed:
        holds += " AND " + ("false" if promise.claimed is None else f"agrees(achieved, {promise.claimed!r})")
    if kind.statement is None or kind.about == "population":
        return None
    answers = []
    try:
        if kind.about != "values":
            answers.append(kind.statement(promise, Counts("classes")))
        else:
            holds = f"decided({holds})"
        for subject in promise.subjects:
            counts, statement = tables.count_values(promise, subject)
            made += [] if statement is None else [statement]
            answers.append(kind.statement(promise, counts))
    except CannotCheckError:
        return None
    selects = []
    for one in answers:
        line = f"SELECT {one.achieved} AS achieved, all_hold({one.each}) AS holds FROM {one.relation}"
        if len(line) > WIDTH:
            line = f"SELECT {one.achieved} AS achieved,\n    all_hold({one.each}) AS holds\n  FROM {one.relation}"
        selects.append(line)
    found = selects[0]
    if len(selects) > 1:
        both = "\n  UNION ALL\n  ".join(selects)
        found = f"SELECT {worst}(achieved) AS achieved, all_hold(holds) AS holds FROM (\n  {both})"
    texts = f"{quote_text(promise.model)}, {quote_text(required)}"
    return f"SELECT {texts}, achieved::DOUBLE::VARCHAR, {holds}\nFROM ({found})"


def _show(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isprintable() and len(text) < 100 else "..."


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
