"""Which classes cover which rows: a join along the labels of the classes, one attribute after the other.

The classes are the leaves of a tree whose edges are labels. A row follows all edges whose labels cover its values, so
that only combinations of labels are tried that some class begins with. Values that the same labels cover have the same
code. The attributes with the most labels come first, because they leave the fewest edges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.core.arrays import IntArray
from shoal.manifest import Attribute
from shoal.verify.covers import put_values, relate
from shoal.verify.engine import Engine
from shoal.verify.manifest import Manifest
from shoal.verify.rows import SourceRows

if TYPE_CHECKING:
    from shoal.sources.base import Source


def count_covered(engine: Engine, manifest: Manifest, population: Source, classes: str, into: str) -> int:
    """Make the table *into* of classes and how many rows of a population each covers; return how many none covers.

    The table *classes* has the columns ``class`` and l1, l2, ...: numbers of the labels of the quasi-identifiers.
    """
    quasi = rank_quasi(manifest)
    rows = SourceRows(engine, replace(manifest, attributes=tuple(quasi)), population, None)
    with rows.reading([one.name for one in quasi]):
        engine.make("tuples", f"SELECT {join_columns(quasi, 't{}')}, count(*) AS n FROM source GROUP BY ALL")
    labels = [f"l{manifest.of_role('quasi').index(one) + 1} AS l{place}" for place, one in enumerate(quasi, 1)]
    follow(rows, quasi, f"SELECT class, {', '.join(labels)} FROM {classes}", "FROM tuples", {})
    engine.make(
        into,
        "SELECT class, coalesce(sum(n), 0)::BIGINT AS total\n"
        f"FROM tree LEFT JOIN reached ON node = n{len(quasi)} GROUP BY class",
    )
    covered = "SELECT coalesce(sum(n), 0) FROM points SEMI JOIN reached USING (point)"
    return int(engine.value(f"SELECT coalesce(sum(n), 0) - ({covered}) FROM tuples"))


def rank_quasi(manifest: Manifest) -> list[Attribute]:
    """Return the quasi-identifiers in the order in which rows are followed."""
    return sorted(manifest.of_role("quasi"), key=lambda one: len(one.covers), reverse=True)


def join_columns(quasi: Sequence[object], form: str) -> str:
    """Return a list of columns, one for each attribute.

    >>> join_columns(["age", "zip"], "l{}")
    'l1, l2'
    """
    return ", ".join(form.format(place) for place in range(1, len(quasi) + 1))


def follow(
    rows: SourceRows, quasi: Sequence[Attribute], classes: str, tuples: str, widths: Mapping[str, IntArray]
) -> None:
    """Make the table ``reached`` of points and the leaves of ``tree``, the classes, that cover them.

    The query *tuples* has values t1, t2, ... and their rows n; ``points`` has those that some labels cover. If labels
    have *widths*, it also has l1, l2, ..., and these points reach no class that is wider in an attribute.
    """
    engine, joins = rows.engine, ""
    nodes = [
        f"dense_rank() OVER (ORDER BY {join_columns(quasi[:at], 'l{}')})::INTEGER AS n{at}" for at in _count(quasi)
    ]
    engine.make("tree", f"SELECT *, 0 AS n0, {', '.join(nodes)} FROM ({classes})")
    for at, one in enumerate(quasi, 1):
        own = widths.get(one.name, [0] * (len(one.covers) + 1))
        engine.put("width_rows", {"number": pa.array(range(len(own))), "width": pa.array(own)})
        engine.make(f"widths_{at}", f"SELECT number::INTEGER AS l{at}, width::INTEGER AS w{at} FROM width_rows")
        values = put_values(engine, rows.manifest, one, f"SELECT t{at} FROM ({tuples})", rows.types[one.name])
        listed = f"SELECT id, list(number ORDER BY number) AS labels FROM {relate(engine, one, values)} GROUP BY id"
        coded = f"SELECT v AS v{at}, labels, (dense_rank() OVER (ORDER BY labels))::INTEGER AS c{at}"
        engine.make(f"codes_{at}", f"{coded} FROM ({listed}) JOIN {values} USING (id)")
        under = f"SELECT DISTINCT c{at} AS code, unnest(labels)::INTEGER AS l{at} FROM codes_{at}"
        engine.make(f"under_{at}", f"SELECT * FROM ({under}) JOIN widths_{at} USING (l{at})")
        joins += f"\nJOIN (SELECT v{at}, c{at} FROM codes_{at}) ON t{at} IS NOT DISTINCT FROM v{at}"
        joins += f" JOIN widths_{at} USING (l{at})" if widths else ""
    codes = join_columns(quasi, "w{0}, c{0}" if widths else "0 AS w{0}, c{0}")
    engine.make("points", f"SELECT (row_number() OVER ())::INTEGER AS point, {codes}, n\nFROM ({tuples}){joins}")
    engine.make("reached", "SELECT *, 0 AS node FROM points")
    for at in _count(quasi):
        engine.make("edges", f"SELECT DISTINCT n{at - 1} AS parent, l{at}::INTEGER AS number, n{at} AS node FROM tree")
        # Labels are looked up before edges: DuckDB would join both first, which are many pairs.
        under = f"FROM reached AS s JOIN under_{at} AS u ON s.c{at} = u.code AND u.w{at} <= s.w{at}"
        engine.make(
            "further",
            f"WITH s AS MATERIALIZED (SELECT s.* EXCLUDE (c{at}), u.l{at} AS number {under})\n"
            "SELECT s.* EXCLUDE (node, number), e.node\n"
            "FROM s JOIN edges AS e ON s.node = e.parent AND s.number = e.number",
        )
        engine.run("DROP TABLE reached", "ALTER TABLE further RENAME TO reached")


def _count(quasi: Sequence[object]) -> range:
    return range(1, len(quasi) + 1)
