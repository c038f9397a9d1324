"""Which labels cover which values, as joins of DuckDB.

The table ``covers`` has a row for every attribute and label. Values of a source are compared with it in their normal
form: ``x``, a number or the days of a date since 1970, or ``t``, a text. ``absent`` marks missing values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.manifest import Attribute
from shoal.verify.covers import is_text, read_numbers
from shoal.verify.engine import CannotCheckError, Engine, quote_text
from shoal.verify.manifest import Manifest

_COVERS = pa.schema(
    [
        *(("attribute", pa.string()), ("number", pa.int64()), ("label", pa.string()), ("kind", pa.string())),
        *((name, pa.bool_()) for name in ("covers_all", "covers_missing", "is_span")),
        *((name, pa.string()) for name in ("low", "high", "last")),
        *((name, pa.list_(pa.string())) for name in ("prefixes", "listed")),
    ]
)
_POINTS = pa.schema([("attribute", pa.string()), ("number", pa.int64()), ("t", pa.string()), ("x", pa.float64())])
_ENDS = {  # kind -> the ends of a span as the normal form of its values has them
    "number": ("low::DOUBLE", "high::DOUBLE"),
    "date": ("date_diff('day', DATE '1970-01-01', low::DATE)", "date_diff('day', DATE '1970-01-01', high::DATE)"),
}


def put_covers(engine: Engine, manifest: Manifest) -> None:
    """Make the table ``covers`` of all labels, which are well formed, and the tables of what they list.

    ``listed_values`` has the listed values in their normal form, ``beginnings`` the prefixes.
    """
    rows, points = [], [_POINTS.empty_table()]
    try:
        for one in manifest.labelled:
            rows += [_describe(one, number, label, cover) for number, (label, cover) in enumerate(one.covers.items())]
            listed = [(n, text) for n, cover in enumerate(one.covers.values()) for text in cover.get("values", ())]
            texts = pa.array([text for _, text in listed], pa.string())
            spelled = pa.nulls(len(texts), pa.string()) if one.kind in _ENDS else texts
            columns = [[one.name] * len(texts), [number for number, _ in listed], spelled, _read_numbers(one, texts)]
            points.append(pa.table(columns, schema=_POINTS))
        engine.put("cover_rows", pa.Table.from_pylist(rows, _COVERS))
    except UnicodeEncodeError:
        raise CannotCheckError("a label, or a value that it covers, cannot be written in UTF-8") from None
    engine.put("point_rows", pa.concat_tables(points))
    engine.run(
        "CREATE TEMP TABLE covers AS FROM cover_rows ORDER BY attribute, number",
        "CREATE TEMP TABLE listed_values AS SELECT DISTINCT * FROM point_rows",
        "CREATE TEMP TABLE beginnings AS SELECT attribute, number, unnest(prefixes) AS p, length(p) AS n FROM covers",
    )


def _describe(attribute: Attribute, number: int, label: str, cover: Mapping[str, Any]) -> dict[str, Any]:
    ends = [cover.get(key) for key in ("from", "below", "through")]
    texts = [end if end is None else repr(end) if attribute.kind == "number" else str(end) for end in ends]
    flags = [key in cover for key in ("any", "missing", "from")]
    lists = [list(cover.get(key, ())) for key in ("prefixes", "values")]
    entries = [attribute.name, number, label, attribute.kind, *flags, *texts, *lists]
    return dict(zip(_COVERS.names, entries, strict=True))


def put_values(
    engine: Engine, manifest: Manifest, attribute: Attribute, sql: str, kind: pa.DataType | None = None
) -> str:
    """Make a table of the distinct values that a query returns: ``id``, ``v`` and the normal form; return its name.

    Texts are spelled in the *kind* that the source has. Join the table by ``v IS NOT DISTINCT FROM ...``, because
    missing values are among them.
    """
    found = engine.read(f"SELECT DISTINCT v FROM ({sql}) AS given(v)")["v"].combine_chunks()
    values = found if kind is None or pa.types.is_dictionary(kind) else found.cast(kind)
    absent = find_absent(values, manifest.missing_tokens)
    present = pc.if_else(absent, pa.scalar(None, values.type), values)
    name = f"values_{1 + [one.name for one in manifest.attributes].index(attribute.name)}"
    columns = {
        "id": pa.array(np.arange(len(values))),
        "v": found,
        "absent": absent,
        "t": pa.nulls(len(values), pa.string()) if attribute.kind in _ENDS else _spell(attribute, present),
        "x": _read_numbers(attribute, present),
    }
    engine.put("value_rows", columns)
    engine.run(f"CREATE OR REPLACE TEMP TABLE {name} AS FROM value_rows")
    return name


def find_absent(values: pa.Array, tokens: tuple[str, ...]) -> pa.Array:
    absent = pc.is_null(values, nan_is_null=pa.types.is_floating(values.type))
    if is_text(values.type):
        absent = pc.or_(absent, pc.is_in(values, value_set=pa.array(tokens, values.type)))
    return absent


def _spell(attribute: Attribute, values: pa.Array) -> pa.Array:
    """Return values as the texts that labels list, or whose prefixes they are."""
    texts = values if is_text(values.type) else values.cast(pa.string())
    number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    if attribute.kind == "prefix" and number and attribute.length:
        filled = pc.utf8_lpad(texts, attribute.length, "0")
        texts = pc.if_else(pc.utf8_is_digit(texts), filled, texts)
    zero = not attribute.boxed or any("0" in cover.get("values", ()) for cover in attribute.covers.values())
    if attribute.kind == "category" and pa.types.is_floating(values.type) and zero:
        texts = pc.if_else(pc.equal(texts, "-0"), "0", texts)  # two spellings of one number
    return texts


def _read_numbers(attribute: Attribute, values: pa.Array) -> pa.Array:
    """Return numbers, and dates as days; null if a value cannot be read, or is of another kind."""
    if attribute.kind not in _ENDS:
        return pa.nulls(len(values), pa.float64())
    present = pc.is_valid(values)
    numbers = np.full(len(values), np.nan)
    numbers[np.asarray(present)] = read_numbers(attribute, values.filter(present))
    return pa.array(numbers, mask=~np.isfinite(numbers))


def relate(engine: Engine, attribute: Attribute, values: str) -> str:
    """Make a table of the values (``id``) and the numbers of all labels that cover each; return its name."""
    name = values.replace("values", "related")
    sql = _cover(attribute, values, "true")
    engine.run(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT DISTINCT id, number FROM ({sql}) ORDER BY id, number")
    return name


def count_uncovered(
    engine: Engine, manifest: Manifest, pairs: Mapping[str, str], types: Mapping[str, pa.DataType]
) -> dict[str, int]:
    """Return the attributes whose labels do not cover values of their rows, and how many pairs of both there are.

    *pairs* has for each attribute a table, or a query in parentheses, of label numbers ``number`` and source values
    ``v``, which have these *types* in the source. The number after the last label is that of missing sensitive values.
    """
    found = {}
    for attribute in manifest.labelled:
        if attribute.name not in pairs:
            continue
        own = f"SELECT v FROM {pairs[attribute.name]}"
        values = put_values(engine, manifest, attribute, own, types.get(attribute.name))
        engine.run(
            "CREATE OR REPLACE TEMP TABLE own_pairs AS SELECT DISTINCT p.number AS own, s.*\n"
            f"FROM {pairs[attribute.name]} AS p JOIN {values} AS s ON p.v IS NOT DISTINCT FROM s.v"
        )
        covered = _cover(attribute, "own_pairs", "own = number")
        wrong = engine.value(
            f"SELECT count(*) FROM own_pairs ANTI JOIN ({covered}) AS c ON own = c.number AND own_pairs.id = c.id"
        )
        if wrong:
            found[attribute.name] = int(wrong)
    return found


def _cover(attribute: Attribute, table: str, which: str) -> str:
    """Return the query of all pairs ``id``, ``number`` of a value in the table and a label that covers it."""
    return "\nUNION ALL ".join(f"SELECT id, number FROM {table} AS s {one}" for one in _list_joins(attribute, which))


def _list_joins(attribute: Attribute, which: str) -> Iterator[str]:
    name = quote_text(attribute.name)
    own = f"FROM covers WHERE attribute = {name}"
    yield f"JOIN ({own} AND (covers_all OR covers_missing)) AS c ON {which} AND (covers_all OR absent)"
    if attribute.may_keep_missing:
        yield f"JOIN (SELECT {len(attribute.covers)} AS number) AS c ON {which} AND absent"
    form = "x" if attribute.kind in _ENDS else "t"
    yield f"JOIN (FROM listed_values WHERE attribute = {name}) AS c ON {which} AND s.{form} = c.{form}"
    if attribute.kind in _ENDS:
        low, high = _ENDS[attribute.kind]
        ends = f"coalesce({low}, '-inf'::DOUBLE) AS first, coalesce({high}, 'inf'::DOUBLE) AS after"
        yield f"JOIN (SELECT number, {ends} {own} AND is_span) AS c ON {which} AND x >= first AND x < after"
    elif attribute.kind == "prefix":
        yield f"JOIN ({own} AND is_span) AS c ON {which} AND t >= coalesce(low, '') AND (last IS NULL OR t <= last)"
        begun = f"(FROM beginnings WHERE attribute = {name})"
        yield f"JOIN (SELECT DISTINCT n FROM {begun}) AS l ON true JOIN {begun} AS c ON {which} AND left(t, l.n) = p"
