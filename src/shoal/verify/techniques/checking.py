"""Every changed column by itself: whether it looks as declared and, with the source, whether it can come from it.

Published averages of quasi values are checked here, too: means add up, and modes occur. Columns whose values changed
rows are compared as multisets, within the groups that values stayed in. The random part of a technique is named in the
text of its check, because files do not show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.wording import count_noun
from shoal.manifest import Attribute
from shoal.verify.covers import Covers, put_values, relate
from shoal.verify.engine import Engine, quote_text
from shoal.verify.items import DerivedRows
from shoal.verify.manifest import Manifest
from shoal.verify.result import Check
from shoal.verify.rows import Release, SourceRows, demand_columns
from shoal.verify.techniques.base import (
    Column,
    Declared,
    compare_missing,
    find_kind,
    write_key,
    write_list,
    write_number,
)
from shoal.verify.techniques.declared import Moved, RankSwapping, RecordSwapping, Tokens
from shoal.verify.techniques.numbers import Grid, Microaggregation, find_average_fault
from shoal.verify.techniques.pram import Pram
from shoal.verify.truth import find_type

if TYPE_CHECKING:
    from shoal.sources.base import Source


def recompute_source(manifest: Manifest, source: Source) -> Any:
    """Return the source with determined columns recomputed, or as it is if there are none."""
    demand_columns(source, list(manifest.techniques))
    declared = {name: one for name, one in manifest.techniques.items() if one.determined}
    derived = {name: (name, partial(_recompute, one, manifest.missing_tokens)) for name, one in declared.items()}
    kinds = {name: one.recompute(pa.array([], pa.string())).type for name, one in declared.items()}
    schema = pa.schema([(field.name, kinds.get(field.name, field.type)) for field in source.schema])
    return DerivedRows.of(source, schema, derived) if derived else source


def _recompute(declared: Declared, tokens: Sequence[str], values: pa.Array) -> pa.Array:
    absent = pc.is_null(values, nan_is_null=pa.types.is_floating(values.type))
    if pa.types.is_string(values.type):
        absent = pc.or_(absent, pc.is_in(values, value_set=pa.array(tokens, pa.string())))
    found = declared.recompute(values.filter(pc.invert(absent)))
    return pc.replace_with_mask(pa.nulls(len(values), found.type), pc.invert(absent), found)


def check_techniques(
    release: Release,
    manifest: Manifest,
    covers: Mapping[str, Covers],
    original: SourceRows | None,
    expected: SourceRows | None,
) -> list[Check]:
    """Return a check for every changed column; *expected* is the source with determined columns recomputed."""
    techniques = manifest.techniques
    if original is not None and expected is not None:
        needed = [name for name, one in techniques.items() if _needs_source(one, manifest)]
        strata = [name for one in techniques.values() if isinstance(one, Pram) for name in one.strata]
        moved = [name for one in techniques.values() if isinstance(one, Moved) for name in _together(one)]
        _keep(original, "original", [*needed, *strata, *moved])
        _keep(expected, "expected", [*moved, *(name for name in expected.places if moved and name not in covers)])
    columns = _Columns(release, manifest, covers, original, expected)
    return [check for declared in techniques.values() for check in columns.check(declared)]


def _keep(source: SourceRows, table: str, names: Sequence[str]) -> None:
    """Make a table of the values of some attributes, in which missing ones are NULL."""
    named = list(dict.fromkeys(names))
    if named:
        columns = ", ".join(f"{source.present(name)} AS {source.places[name]}" for name in named)
        with source.reading(named):
            source.engine.make(table, f"SELECT {columns} FROM source")


def _together(declared: Moved) -> tuple[str, ...]:
    return declared.hierarchy if isinstance(declared, RecordSwapping) else (declared.column,)


def _needs_source(declared: Declared, manifest: Manifest) -> bool:
    """Whether a column is compared with the source; a sample does not show where the edges of all rows were."""
    return declared.compared and ((manifest.sample is None and manifest.one_per is None) or not declared.determined)


@dataclass(frozen=True, slots=True, eq=False)
class _Columns:
    """The changed columns of a release, and the source's values in the tables ``original`` and ``expected``."""

    release: Release
    manifest: Manifest
    covers: Mapping[str, Covers]
    original: SourceRows | None
    expected: SourceRows | None

    @property
    def engine(self) -> Engine:
        return self.release.engine

    def check(self, declared: Declared) -> list[Check]:
        """Return the checks of one column."""
        name, manifest = declared.column, self.manifest
        attribute = manifest.written.attributes[name]
        averaged = manifest.is_averaged(attribute)
        if attribute.boxed and isinstance(declared, Moved) and self.original is not None:
            return self._check_labelled(declared, attribute, self.original)
        if (attribute.boxed or averaged) and not isinstance(declared, Tokens):
            form = "labels" if attribute.boxed else "averages"
            fine = _report(declared, None, f"only {form} of its values are published")
            return [] if declared.determined else [fine]
        original = None
        if self.original is not None and _needs_source(declared, manifest):
            own = f"(SELECT {self.original.places[name]} AS v FROM original)"
            original = Column.count(self.engine, "original_values", own)
        shown = f"(SELECT {self.release.names[name]} AS v FROM release)"
        if attribute.boxed:  # tokens under labels, whichever rows have them
            shown = f"(SELECT unnest(listed) AS v FROM covers WHERE attribute = {quote_text(name)})"
        published = Column.count(self.engine, "published_values", shown)
        if isinstance(declared, Tokens) and (attribute.boxed or averaged):
            fault = declared.find_fault(published)
            if original is not None:
                fault = fault or declared.compare_texts(published, original)
        else:
            fault = self._find_fault(declared, published, original)
        compared = original is not None or (declared.moved and self.expected is not None)
        found = (declared.finding, declared.agreement if compared else "")
        good = ", and ".join(filter(None, found)) or "values are compared only if the source is given"
        return [_report(declared, fault, good)]

    def _find_fault(self, declared: Declared, published: Column, original: Column | None) -> str | None:
        fault = find_gap(self.manifest, declared.column, published) or declared.find_fault(published)
        if isinstance(declared, Tokens) and declared.of is not None and self.manifest.promises:
            again = "has the same token in several rows: the rows of a class may be one person's"
            fault = fault or published.find_fault(("n > 1", again))
        if original is not None:
            fault = fault or declared.compare(published, original)
        if isinstance(declared, Moved) and self.expected is not None:
            fault = fault or self._find_strange(declared, self.expected)
        if isinstance(declared, RankSwapping) and self.expected is not None:
            fault = fault or self._find_far(declared, self.expected)
        if isinstance(declared, Microaggregation):
            fault = fault or self._find_few(declared)
        if isinstance(declared, Pram) and self.original is not None:
            fault = fault or self._find_impossible(declared, self.original)
        return fault

    def _check_labelled(self, declared: Moved, attribute: Attribute, original: SourceRows) -> list[Check]:
        """Check a column whose values changed rows and are published as labels.

        No label, together with all labels inside it, has more rows than the source has values under it. Labels that
        are nested or disjoint can then all have their values. For other labels this would need a matching.
        """
        engine, name, place = self.engine, attribute.name, original.places[attribute.name]
        engine.make("given", f"SELECT {place} AS v, count(*) AS n FROM original GROUP BY 1")
        values = put_values(engine, self.manifest, attribute, "SELECT v FROM given", original.types[name])
        related = relate(engine, attribute, values)
        numbers = f"(SELECT label, number FROM covers WHERE attribute = {quote_text(name)})"
        other = str(len(attribute.covers)) if attribute.may_keep_missing else "NULL"
        shown = (
            f"(SELECT coalesce(number, {other}) AS number, n FROM (SELECT {self.release.names[name]} AS label,"
            f" count(*) AS n FROM release GROUP BY 1) LEFT JOIN {numbers} USING (label))"
        )
        sized = f"(SELECT *, count(*) OVER (PARTITION BY number) AS size FROM {related})"
        inside = (
            f"(SELECT a.number AS own, b.number FROM {sized} AS a JOIN {related} AS b USING (id)"
            " GROUP BY a.number, b.number, size HAVING count(*) = size)"
        )
        demand = (
            f"(SELECT i.number, sum(n) AS needed FROM {inside} AS i JOIN {shown} AS s ON own = s.number GROUP BY 1)"
        )
        supply = (
            f"(SELECT number, sum(n) AS held FROM given AS g JOIN {values} AS s ON g.v IS NOT DISTINCT FROM s.v"
            f" JOIN {related} USING (id) GROUP BY number)"
        )
        joined = f"{shown} AS s LEFT JOIN {demand} USING (number) LEFT JOIN {supply} USING (number)"
        lost = engine.value(f"SELECT count(*) FROM {joined} WHERE needed > held OR held IS NULL")
        checks = []
        if attribute.role == "sensitive":  # a value that does not occur would make records look more diverse
            points = f"(SELECT DISTINCT unnest(listed) AS t FROM covers WHERE attribute = {quote_text(name)})"
            absent = engine.value(f"SELECT count(*) FROM {points} AS p ANTI JOIN {values} AS s ON p.t = s.t")
            if any("missing" in cover for cover in attribute.covers.values()):
                absent += not engine.value(f"SELECT bool_or(absent) FROM {values}")
            fault = absent and f"labels of {name} cover {count_noun(absent, 'value')} that no source row has"
            checks.append(Check.of("values", fault, f"all values that labels of {name} cover occur"))
        fault = f"has {count_noun(lost, 'label')} with more rows than the source has values under it" if lost else None
        return [*checks, _report(declared, fault, "no label has more rows than the source has values under it")]

    def _find_beside(self, declared: Declared) -> tuple[dict[str, str], list[str]]:
        """Return the columns of plain attributes beside a changed one, and which of these follow from the source."""
        manifest = self.manifest
        part = next(place for place, names in enumerate(manifest.parts) if declared.column in names)
        plain = [a for a in manifest.attributes if not a.boxed and not manifest.is_averaged(a)]
        beside = dict(zip(manifest.parts[part], manifest.part_columns[part], strict=True))
        columns = {one.name: beside[one.name] for one in plain if one.name in beside}
        return columns, [one.name for one in plain if manifest.is_traced(one) and one.name in columns]

    def _pair(self, name: str, column: str | None, source: SourceRows, table: str) -> tuple[str, str, str]:
        """Return a published value and a source's value as comparable texts of SQL, and the type of both."""
        place, types = source.places[name], [] if column is None else [self.release.types[column]]
        kind = find_type(find_kind(self.engine, f"SELECT {place} FROM {table}"), *types)
        own = "" if column is None else write_key(self.release.names[column], kind)
        return own, write_key(place, kind), kind

    def _find_strange(self, declared: Moved, expected: SourceRows) -> str | None:
        """Return a fault if a value, together with the group it stayed in, occurs more often than in the source.

        Groups are given by the columns *within* that are beside the value and follow from the source. If columns moved
        together, the first that is published as it is represents the others.
        """
        columns, exact = self._find_beside(declared)
        moved = [name for name in _together(declared) if name in columns]
        if declared.column != moved[0]:
            return None
        names = [*moved, *(name for name in declared.within if name in exact)]
        own, true, _ = zip(*(self._pair(name, columns[name], expected, "expected") for name in names), strict=True)
        counted = "(SELECT {} AS own, count(*) AS n FROM {} GROUP BY 1)".format
        strange = self.engine.value(
            f"SELECT sum(a.n - coalesce(b.n, 0)) FROM {counted(write_list(own), 'release')} AS a"
            f" LEFT JOIN {counted(write_list(true), 'expected')} AS b USING (own) WHERE a.n > coalesce(b.n, 0)"
        )
        groups = " in the groups that they stay in" if len(names) > 1 else ""
        return f"has {strange} values more often than the source{groups}" if strange else None

    def _find_far(self, declared: RankSwapping, expected: SourceRows) -> str | None:
        """Return a fault if a number's rank cannot be as near to the rank of its row's own number as the window says.

        Rows that agree in all columns that follow from the source are compared in the order of their numbers. If any
        assignment of rows keeps to the window, this one does. Ranks are among all numbers of the source. Equal numbers
        have several ranks, of which the nearest count. If rows were withheld, nothing is compared.
        """
        columns, names = self._find_beside(declared)
        if not names:
            return None
        own, true, _ = zip(*(self._pair(name, columns[name], expected, "expected") for name in names), strict=True)
        place, column = expected.places[declared.column], columns[declared.column]
        number = write_number(place, find_kind(self.engine, f"SELECT {place} FROM expected"))
        shown = write_number(self.release.names[column], self.release.types[column])
        place = "row_number() OVER (PARTITION BY keys ORDER BY x) AS place"
        ranked = f"(SELECT *, {place} FROM (SELECT {{}} AS keys, {{}} AS x FROM {{}}))".format
        rows, others = ranked(write_list(own), shown, "release"), ranked(write_list(true), number, "expected")
        bounds = (
            "(SELECT x, sum(n) OVER (ORDER BY x) AS upto, upto - n AS below, sum(n) OVER () AS total"
            f" FROM (SELECT {number} AS x, count(*) AS n FROM expected GROUP BY 1) WHERE x IS NOT NULL)"
        )
        near = f"greatest(i.below, j.below) - least(i.upto, j.upto) + 1 <= floor({declared.window!r} * i.total)"
        gone, far = self.engine.fetch_one(
            "SELECT count(*) FILTER (a.place IS NULL OR b.place IS NULL),"
            f" count(*) FILTER ((a.x IS NOT NULL OR b.x IS NOT NULL) AND ({near}) IS NOT TRUE)"
            f" FROM {rows} AS a FULL JOIN {others} AS b USING (keys, place)"
            f" LEFT JOIN {bounds} AS i ON a.x = i.x LEFT JOIN {bounds} AS j ON b.x = j.x"
        )
        return "has numbers whose ranks are farther from the source's than the window" if far and not gone else None

    def _find_few(self, declared: Microaggregation) -> str | None:
        """Return a fault if more averages are in fewer than k rows than rows that are not published explain.

        Averages beside each other are counted together, within strata that follow from the source.
        """
        manifest, (columns, exact) = self.manifest, self._find_beside(declared)
        names = {name: self.release.names[column] for name, column in columns.items()}
        shown = [names[name] for name in (declared.column, *declared.columns) if name in names]
        keys = ", ".join([*shown, *(names[name] for name in declared.strata if name in exact)])
        present = " OR ".join(f"{one} IS NOT NULL" for one in shown)
        groups = f"(SELECT count(*) AS n FROM release WHERE {present} GROUP BY {keys})"
        lacking = self.engine.value(f"SELECT sum(greatest({declared.k} - n, 0)) FROM {groups}") or 0
        few = lacking > manifest.withheld + manifest.dropped
        return f"has averages that are in fewer than {declared.k} rows" if few else None

    def _find_impossible(self, declared: Pram, original: SourceRows) -> str | None:
        """Return a fault if the matrix cannot lead to the published frequencies, by strata if these are published."""
        manifest, strata = self.manifest, declared.strata
        columns, exact = self._find_beside(declared)
        kept = [place for place, name in enumerate(strata) if name in exact and name not in manifest.techniques]
        shown = {name: columns[name] for name in (*(strata[place] for place in kept), declared.column)}
        pairs = [self._pair(name, shown.get(name), original, "original") for name in (*strata, declared.column)]
        own, true, kinds = zip(*pairs, strict=True)
        for table, keys, rows in (
            ("published_cells", [*filter(None, own)], "release"),
            ("source_cells", true, "original"),
        ):
            cells = f"{write_list(keys[:-1])} AS stratum, {keys[-1]} AS value"
            self.engine.make(table, f"SELECT {cells}, count(*) AS n FROM {rows} GROUP BY ALL")
        declared.put_matrices(self.engine, kinds)
        return declared.compare_counts(self.engine, kept, whole=manifest.sample is None and manifest.one_per is None)


def find_gap(manifest: Manifest, name: str, published: Column) -> str | None:
    """Return a fault if rows lack a value of an attribute although the manifest says that such rows were dropped."""
    needed = {attribute.name for attribute in manifest.attributes if attribute.role != "insensitive"}
    gap = manifest.missing_policy == "drop" and name in needed and published.missing
    return "has missing values, and rows that lack a value are said to be dropped" if gap else None


def _report(declared: Declared, fault: str | None, good: str) -> Check:
    """Return the check of a column; its text says which part of a technique files do not show."""
    about = f"{declared.column} ({declared.technique})"
    limit = "" if declared.determined else f"; {declared.uncheckable} is not checkable from files"
    return Check.of("technique", fault and f"{about} {fault}", f"{about}: {good}{limit}")


def check_averages(release: Release, manifest: Manifest, expected: SourceRows | None) -> list[Check]:
    """Return a check for every quasi attribute; *expected* is the source with determined columns recomputed."""
    if manifest.averaging is None:
        return []
    quasi, techniques = manifest.of_role("quasi"), manifest.techniques
    # the values that were averaged follow from the source, in whichever rows they were
    changed = {name for name, one in techniques.items() if not one.determined and not one.moved}
    known = [one.name for one in quasi if one.name not in changed]
    if expected is not None:
        _keep(expected, "averaged", known)
    checks = []
    for attribute in quasi:
        name = attribute.name
        shown = attribute.model_copy(update={"format": None})  # dates are published in one format
        every = replace(manifest, missing_tokens=())  # a release has no texts in place of missing values
        published = _count_spelled(release.engine, every, shown, f"SELECT {release.names[name]} FROM release")
        original = None
        if expected is not None and name in known:
            own = f"SELECT {expected.places[name]} FROM averaged"
            original = _count_spelled(release.engine, manifest, attribute, own, expected.types[name])
        fault = find_gap(manifest, name, published) or _find_average_fault(manifest, attribute, published, original)
        fine = "averages have the declared form" + ("" if original is None else ", and they can come from the source")
        checks.append(Check.of("averages", fault and f"{name} {fault}", f"{name}: {fine}"))
    return checks


def _count_spelled(
    engine: Engine, manifest: Manifest, attribute: Attribute, query: str, kind: pa.DataType | None = None
) -> Column:
    """Count the values of a query; dates are numbers of days, and texts are spelled as labels are."""
    table = "published_values" if kind is None else "original_values"
    counted = f"(SELECT v, count(*) AS n FROM ({query}) AS given(v) GROUP BY v)"
    values = put_values(engine, manifest, attribute, query, kind)
    spelled = f"{counted} AS g JOIN {values} AS s ON g.v IS NOT DISTINCT FROM s.v"
    engine.make(table, f"SELECT CASE WHEN NOT absent THEN s.v END AS v, t, x, n FROM {spelled}")
    return Column.of_table(engine, table)


def _find_average_fault(
    manifest: Manifest, attribute: Attribute, published: Column, original: Column | None
) -> str | None:
    """Return a fault of means or medians, or of the most frequent values of groups."""
    assert manifest.averaging is not None  # noqa: S101 - the caller asked
    if attribute.kind not in ("number", "date"):
        if original is not None and published.missing and not original.missing:
            return "has missing values, and the source has none"
        strange = "false" if original is None else f"t NOT IN (SELECT t FROM {original.table})"
        return published.find_fault((strange, "has values that no source row has"))
    grid, means = (
        Grid(0 if attribute.kind == "date" else manifest.averaging.decimals),
        manifest.averaging.numbers == "mean",
    )
    no_averages = "has averages that are no numbers of the declared decimals, or no dates"
    fault = published.find_fault((f"x IS NULL OR {grid.misses}", no_averages))
    if fault or original is None:
        return fault
    no_numbers = "x IS NULL", "has values in the source that are no numbers, or no dates"
    if fault := compare_missing(published, original) or original.find_fault(no_numbers):
        return fault
    strange = "false" if means else f"{grid.steps} NOT IN (SELECT {grid.steps} FROM {original.table})"
    fault = find_average_fault(published, original, grid, add_up=means)
    return fault or published.find_fault((strange, "has medians that are no numbers of the source"))
