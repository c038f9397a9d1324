"""Every changed or averaged column by itself: whether it looks as declared and can come from the source.

Columns whose values changed rows are compared as multisets, within the groups that values stayed in. The random part of
a technique is named in the text of its check, because files do not show it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.manifest import Attribute
from shoal.verify.covers import find_absent, put_values, relate
from shoal.verify.engine import quote_text
from shoal.verify.items import DerivedRows
from shoal.verify.manifest import Manifest
from shoal.verify.result import Check
from shoal.verify.rows import Release, SourceRows, demand_columns
from shoal.verify.techniques.base import Column, Declared, Rows
from shoal.verify.techniques.declared import Pram, Tokens
from shoal.verify.techniques.numbers import Means

if TYPE_CHECKING:
    from shoal.sources.base import Source


def recompute_source(manifest: Manifest, source: Source) -> Any:
    """Return the source with determined columns recomputed, or as it is if there are none."""
    demand_columns(source, list(manifest.techniques))

    def recompute(declared: Declared, values: pa.Array) -> pa.Array:
        present = pc.invert(find_absent(values, manifest.missing_tokens))
        found = declared.recompute(values.filter(present))
        return pc.replace_with_mask(pa.nulls(len(values), found.type), present, found)

    derived = {name: (name, partial(recompute, one)) for name, one in manifest.techniques.items() if one.determined}
    empty = pa.array([], pa.string())
    kinds = {name: function(empty).type for name, (_, function) in derived.items()}
    schema = pa.schema([(field.name, kinds.get(field.name, field.type)) for field in source.schema])
    return DerivedRows.of(source, schema, derived) if derived else source


def check_columns(
    release: Release, manifest: Manifest, original: SourceRows | None, expected: SourceRows | None
) -> list[Check]:
    """Return a check for every changed or averaged column; *expected* has determined columns recomputed."""
    techniques, rows = manifest.techniques.values(), Rows(release, manifest, original, expected)
    averaged = [one for one in manifest.attributes if manifest.is_averaged(one)]
    if original is not None and expected is not None:
        strata = [name for one in techniques if isinstance(one, Pram) for name in one.strata]
        _keep(original, "original", [*(one.column for one in techniques if _is_compared(one, manifest)), *strata])
        moved = any(one.moved for one in techniques)
        _keep(
            expected,
            "expected",
            [one.name for one in manifest.attributes if one in averaged or (moved and not one.boxed)],
        )
    return [
        *(check for declared in techniques for check in _check_technique(rows, declared)),
        *(_check_averages(rows, attribute) for attribute in averaged),
    ]


def _is_compared(declared: Declared, manifest: Manifest) -> bool:
    """Whether a column is compared with the source; a sample does not show where the edges of all rows were."""
    sampled = manifest.sample is not None or manifest.one_per is not None
    return declared.compared and not (sampled and declared.determined)


def _keep(source: SourceRows, table: str, names: list[str]) -> None:
    """Make a table of the values of some attributes, in which missing ones are NULL."""
    if named := list(dict.fromkeys(names)):
        columns = ", ".join(f"{source.present(name)} AS {source.places[name]}" for name in named)
        with source.reading(named):
            source.engine.make(table, f"SELECT {columns} FROM source")


def _check_technique(rows: Rows, declared: Declared) -> list[Check]:
    manifest, name = rows.manifest, declared.column
    attribute = manifest.written.attributes[name]
    hidden = attribute.boxed or manifest.is_averaged(attribute)
    if attribute.boxed and declared.moved and rows.original is not None:
        return [_check_labels(rows, declared, attribute, rows.original)]
    if hidden and not isinstance(declared, Tokens):
        form = "labels" if attribute.boxed else "averages"
        return [] if declared.determined else [_report(declared, None, f"only {form} of its values are published")]
    engine, original = rows.release.engine, None
    shown = f"(SELECT {rows.release.names[name]} AS v FROM release)"
    if hidden:  # a token is in one label, or in one row of the column, for each value
        listed = f"(SELECT unnest(listed) AS v FROM covers WHERE attribute = {quote_text(name)})"
        shown = f"(SELECT DISTINCT v FROM {listed if attribute.boxed else shown})"
    published = Column.count(engine, "published_values", shown)
    if rows.original is not None and _is_compared(declared, manifest):
        own = f"(SELECT {rows.original.places[name]} AS v FROM original)"
        original = Column.count(engine, "original_values", own)
    fault = (
        _find_gap(manifest, attribute, published)
        or published.find_fault(*declared.list_rules())
        or (None if hidden else declared.check_rows(rows))
        or (None if original is None else declared.compare(published, original))
    )
    return [_report(declared, fault, declared.finding + ("" if original is None else f", and {declared.agreement}"))]


def _find_gap(manifest: Manifest, attribute: Attribute, published: Column) -> str | None:
    gap = manifest.missing_policy == "drop" and attribute.role != "insensitive" and published.missing
    return "has missing values, and rows that lack a value are said to be dropped" if gap else None


def _report(declared: Declared, fault: str | None, good: str) -> Check:
    """Return the check of a column; its text says which part of a technique files do not show."""
    about = f"{declared.column} ({declared.technique})"
    limit = "" if declared.determined else f"; {declared.uncheckable} is not checkable from files"
    return Check.of("technique", fault and f"{about} {fault}", f"{about}: {good}{limit}")


def _check_labels(rows: Rows, declared: Declared, attribute: Attribute, original: SourceRows) -> Check:
    """Check a column whose values changed rows and are published as labels.

    No label, together with all labels inside it, has more rows than the source has values under it. Labels that are
    nested or disjoint can then all have their values. For other labels this would need a matching.
    """
    engine, place = rows.release.engine, original.places[attribute.name]
    engine.make("given", f"SELECT {place} AS v, count(*) AS n FROM original GROUP BY 1")
    values = put_values(engine, rows.manifest, attribute, "SELECT v FROM given", original.types[attribute.name])
    related = relate(engine, attribute, values)
    numbers = f"(SELECT label, number FROM covers WHERE attribute = {quote_text(attribute.name)})"
    counted = f"(SELECT {rows.release.names[attribute.name]} AS label, count(*) AS n FROM release GROUP BY 1)"
    engine.make("shown", f"SELECT number, n FROM {counted} LEFT JOIN {numbers} USING (label)")
    sized = f"(SELECT *, count(*) OVER (PARTITION BY number) AS size FROM {related})"
    pairs = f"{sized} AS a JOIN {related} AS b USING (id) GROUP BY a.number, b.number, size HAVING count(*) = size"
    inside = f"(SELECT a.number AS own, b.number FROM {pairs})"
    needed = f"(SELECT i.number, sum(n) AS needed FROM {inside} AS i JOIN shown AS s ON own = s.number GROUP BY 1)"
    sources = f"given AS g JOIN {values} AS s ON g.v IS NOT DISTINCT FROM s.v JOIN {related} USING (id)"
    held = f"(SELECT number, sum(n) AS held FROM {sources} GROUP BY number)"
    joined = f"shown LEFT JOIN {needed} USING (number) LEFT JOIN {held} USING (number)"
    lost = engine.value(f"SELECT count(*) FROM {joined} WHERE needed > held OR held IS NULL")
    fault = "has labels with more rows than the source has values under them" if lost else None
    return _report(declared, fault, "no label has more rows than the source has values under it")


def _check_averages(rows: Rows, attribute: Attribute) -> Check:
    """Check the means, the medians or the most frequent values of groups that are published of an attribute."""
    manifest, name, engine = rows.manifest, attribute.name, rows.release.engine
    averaging, declared, expected = manifest.averaging, manifest.techniques.get(name), rows.expected
    assert averaging is not None  # noqa: S101 - the attribute is averaged
    numeric = attribute.kind in ("number", "date")
    form = Means(column=name, technique="", decimals=0 if attribute.kind == "date" else averaging.decimals)

    def count(table: str, manifest: Manifest, attribute: Attribute, query: str, kind: pa.DataType | None) -> Column:
        """Dates are numbers of days, and texts are spelled as labels are."""
        values = put_values(engine, manifest, attribute, query, kind)
        counted = f"(SELECT v, count(*) AS n FROM ({query}) AS given(v) GROUP BY v)"
        joined = f"{counted} AS g JOIN {values} AS s ON g.v IS NOT DISTINCT FROM s.v"
        return Column.make(engine, table, f"SELECT CASE WHEN NOT absent THEN s.v END AS v, t, x, n FROM {joined}")

    # A release has no texts in place of missing values, and dates in one format.
    every, shown = replace(manifest, missing_tokens=()), attribute.model_copy(update={"format": None})
    published = count("published_values", every, shown, f"SELECT {rows.release.names[name]} FROM release", None)
    fault = _find_gap(manifest, attribute, published) or (published.find_fault(*form.list_rules()) if numeric else None)
    good = "averages have the declared form"
    # The values that were averaged follow from the source, in whichever rows they were.
    if expected is not None and (declared is None or declared.determined or declared.moved):
        own = f"SELECT {expected.places[name]} FROM expected"
        original = count("original_values", manifest, attribute, own, expected.types[name])
        good += ", and they can come from the source"
        if numeric and averaging.numbers == "mean":
            fault = fault or form.compare(published, original)
        elif numeric:
            fault = fault or super(Means, form).compare(published, original)
        elif published.missing and not original.missing:
            fault = fault or "has missing values, but the source is complete"
        if not numeric or averaging.numbers == "median":
            value = form.grid.nearest if numeric else "t"
            strange = f"{value} NOT IN (SELECT {value} FROM {original.table})"
            fault = fault or published.find_fault((strange, "has values that no source row has"))
    return Check.of("averages", fault and f"{name} {fault}", f"{name}: {good}")
