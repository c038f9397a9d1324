"""The classes that cover rows: of a population, and of the source of a defended release.

The classes are the leaves of a tree whose edges are labels. A row follows all edges whose labels cover its values, one
attribute after the other. Attributes with many labels come first, because few edges remain after them.

A defended release satisfies its guarantees against a reader who has everyone's quasi values and the method: in a
class, and under each of its labels, no value is more frequent than tau, or than in the whole table, and no record is in
a class if a narrower class covers it (docs/adr/0007-transparent-reader.md). The data holder keeps the values of the
records under labels in a file, which the verifier does not trust: it must have as many records as each class publishes
under each label, with values that the label covers, and the table with these values in place of the labels must be true
by the witness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.manifest import Attribute
from shoal.verify.counting import ClassNumbers, ReleaseTables, as_one
from shoal.verify.covers import Covers, put_values, relate
from shoal.verify.engine import Engine, quote_text
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Counts, Promise, answer, conclude, judge, leave_unchecked
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.rows import Release, SourceRows, wrap

if TYPE_CHECKING:
    from shoal.sources.base import Source

_RECORDS, _FILE = "records", "internal/labels.parquet"


def rank_quasi(quasi: Sequence[Attribute]) -> list[Attribute]:
    """Return attributes in the order in which rows are followed."""
    return sorted(quasi, key=lambda one: len(one.covers), reverse=True)


def follow(rows: SourceRows, quasi: Sequence[Attribute], classes: str, tuples: str) -> None:
    """Make the table ``reached`` of tuples and the leaves n1, n2, ... of ``tree``, the classes, that cover them.

    The query *classes* has the labels l1, l2, ... of each class, *tuples* has values t1, t2, ... and other columns.
    """
    engine, places = rows.engine, range(1, len(quasi) + 1)
    labels = [f"l{at}" for at in places]
    nodes = [f"dense_rank() OVER (ORDER BY {', '.join(labels[:at])})::INTEGER AS n{at}" for at in places]
    engine.make("tree", f"SELECT *, 0 AS n0, {', '.join(nodes)} FROM ({classes})")
    ids, joins, related = [], "", []
    for at, one in enumerate(quasi, 1):
        values = put_values(engine, rows.manifest, one, f"SELECT t{at} FROM ({tuples})", rows.types[one.name])
        related.append(relate(engine, one, values))
        ids.append(f"s{at}.id AS i{at}")
        joins += f"\nJOIN {values} AS s{at} ON t{at} IS NOT DISTINCT FROM s{at}.v"
    others = f"tuples.* EXCLUDE ({', '.join(f't{at}' for at in places)})"
    point = "(row_number() OVER ())::INTEGER AS point"
    engine.make("reached", f"SELECT {point}, {others}, {', '.join(ids)}, 0 AS node\nFROM ({tuples}) AS tuples{joins}")
    for at, covered in enumerate(related, 1):
        engine.make("edges", f"SELECT DISTINCT n{at - 1} AS parent, l{at} AS number, n{at} AS child FROM tree")
        # Labels are looked up before edges: DuckDB would join both first, which are many pairs.
        labelled = f"SELECT r.* EXCLUDE (i{at}), c.number FROM reached AS r JOIN {covered} AS c ON i{at} = c.id"
        engine.make(
            "reached",
            f"WITH s AS MATERIALIZED ({labelled})\nSELECT s.* EXCLUDE (node, number), child AS node\n"
            "FROM s JOIN edges AS e ON s.node = e.parent AND s.number = e.number",
        )


def judge_population(
    release: Release, promise: Promise, given: Mapping[str, Source], checks: list[Check]
) -> CheckedGuarantee:
    """Judge a promise about the rows of a population that each class covers, and add the check of its file."""
    manifest, engine, every = release.manifest, release.engine, release.manifest.of_role("quasi")
    name = str(promise.parameters["population"])
    if name not in given:
        return leave_unchecked(promise, "its population table is not given")
    same = _check_population(name, manifest, given[name])
    checks += [] if same in checks else [same]
    if any(not one.boxed or one.name in manifest.techniques for one in every):
        return answer(promise, None, False, "cannot check: a population has no values of changed attributes")
    quasi, numbers = rank_quasi(every), ClassNumbers.of(every)
    rows = SourceRows(engine, replace(manifest, attributes=tuple(quasi)), given[name], None)
    with rows.reading([one.name for one in quasi]):
        values = ", ".join(f"t{at}" for at, _ in enumerate(quasi, 1))
        engine.make("tuples", f"SELECT {values}, count(*) AS n FROM source GROUP BY ALL")
    keys = ["class"] if len(numbers.bounds) == 1 else [f"class[{n}]" for n in range(1, len(numbers.bounds) + 1)]
    labels = [f"{numbers.unpack(every.index(one), keys)} AS l{at}" for at, one in enumerate(quasi, 1)]
    follow(rows, quasi, f"SELECT class, {wrap(labels)} FROM classes", "FROM tuples")
    leaves = f"SELECT class, reached.n AS rows FROM tree LEFT JOIN reached ON node = n{len(quasi)}"
    sums = f"SELECT class, coalesce(sum(rows), 0)::BIGINT AS covered FROM ({leaves}) GROUP BY class"
    engine.make("population_classes", f"SELECT class, n, covered FROM classes JOIN ({sums}) USING (class)")
    covered = "SELECT coalesce(sum(n), 0) FROM (SELECT DISTINCT point, n FROM reached)"
    uncovered = int(engine.value(f"SELECT coalesce(sum(n), 0) - ({covered}) FROM tuples"))
    return conclude(promise, judge(engine, promise, [Counts("population_classes")]), uncovered=uncovered)


def _check_population(name: str, manifest: Manifest, population: Source) -> Check:
    declared = manifest.written.populations.get(name)
    if declared is None:
        return Check("population", True, "the manifest does not name the file of the population")
    other = population.digest() != declared.sha256 and "the population differs from the declared one"
    return Check.of("population", other, "the population is the declared one")


def check_defended(
    release: Release,
    manifest: Manifest,
    covers: Mapping[str, Covers],
    expected: SourceRows,
    labelled: pa.Table | None,
) -> list[Check]:
    """Return a check of the class of each record, and one of each attribute with defended labels."""
    checks = []
    if any(promise.kind.about == "values" for promise in manifest.promises):
        checks.append(_check_resolution(manifest, covers, expected))
    for attribute in manifest.attributes:
        if not attribute.defended:
            continue
        name = attribute.name
        fault = _find_undefended(release, attribute, labelled)
        if not fault and expected.witness is None:
            why = f"not checked: without the witness, the values in {_FILE} cannot be compared with the source"
            checks.append(Check("defended", True, why, done=False))
            continue
        fault = fault or _find_untrue(attribute, expected)
        good = f"in no class and under no label does a value of {name} exceed tau and its share in the table"
        checks.append(Check.of("defended", fault and f"labels of {name}: {fault}", good))
    return checks


def _find_undefended(release: Release, attribute: Attribute, labelled: pa.Table | None) -> str | None:
    """Return why values under labels of an attribute are not defended; None if they are.

    The table ``spelled_out`` then has the records of each class, published text and value.
    """
    engine, manifest, tables = release.engine, release.manifest, ReleaseTables(release.manifest)
    promises = [promise for promise in manifest.promises if promise.model == "tau-l-diversity"]
    taus = [promise.fraction("tau") for promise in promises if (attribute.name,) in promise.subjects]
    if not taus:
        return "no tau-l-diversity limits how frequent the values under them are"
    if labelled is None:
        return f"{_FILE}, which has the values under them, is missing"
    keys, numbers, (place, _) = tables.keys, tables.numbered, tables.sensitive[attribute.name]
    assert numbers is not None  # noqa: S101 - if sensitive attributes have labels, quasi-identifiers have them too
    columns, names = [*keys, attribute.name, f"value of {attribute.name}", _RECORDS], labelled.column_names
    if any(names.count(name) != 1 for name in columns) or not pa.types.is_integer(labelled.schema.field(_RECORDS).type):
        return f"{_FILE} does not have the columns of this release"
    own = f"FROM covers WHERE attribute = {quote_text(attribute.name)} AND (covers_missing OR listed <> [label])"
    engine.make("wide", f"SELECT label, listed, covers_missing {own}")
    engine.put("label_rows", labelled.select(columns).rename_columns([f"c{at}" for at in range(len(columns))]))
    digits = [tables.labels.digit(key, f"c{at}::VARCHAR") for at, key in enumerate(keys)]
    texts = [f"c{len(keys) + more}::VARCHAR AS {name}" for more, name in enumerate(("label", "value"))]
    every = f"{as_one(numbers.pack(digits))} AS class, {wrap(texts)}, c{len(keys) + 2} AS c FROM label_rows"
    engine.make("hidden", f"SELECT * FROM (SELECT {every}) SEMI JOIN wide USING (label)")
    engine.make("shown", f"SELECT class, s{place}::VARCHAR AS label, sum(c) AS c FROM counted GROUP BY ALL")
    if engine.value("SELECT count(*) FROM hidden WHERE c IS NULL OR c < 1"):
        return f"{_FILE} has entries of less than one record"
    under = "SELECT class, label, -c AS c FROM shown SEMI JOIN wide USING (label)"
    if _differ(engine, f"SELECT class, label, c FROM hidden UNION ALL {under}", "class, label"):
        return f"{_FILE} does not have the records that each class publishes under each label"
    fits = "CASE WHEN value IS NULL THEN covers_missing ELSE list_contains(listed, value) END"
    if engine.value(f"SELECT count(*) FROM hidden JOIN wide USING (label) WHERE NOT {fits}"):
        return f"{_FILE} has values that their labels do not cover"
    rest = "SELECT class, label, label AS value, c FROM shown ANTI JOIN wide USING (label)"
    engine.make("spelled_out", f"FROM hidden UNION ALL {rest}")
    if n := count_excess(engine, "hidden", "spelled_out", "class, label", min(taus)):
        return f"{n} values are more frequent under a label of a class than tau and than in the table"
    if n := count_excess(engine, "spelled_out", "spelled_out", "class", min(taus)):
        return f"{n} values are more frequent in a class, hidden records included, than tau and than in the table"
    return None


def count_excess(engine: Engine, table: str, whole: str, by: str, tau: Fraction) -> int:
    """Return how many values have more of a group than tau, and than of the whole table."""
    counts = f"SELECT value, sum(c) AS c, sum(sum(c)) OVER (PARTITION BY {by}) AS n FROM {table} GROUP BY {by}, value"
    shares = f"SELECT value, sum(c) AS whole, sum(sum(c)) OVER () AS total FROM {whole} GROUP BY value"
    joined = f"({counts}) AS v JOIN ({shares}) AS w ON v.value IS NOT DISTINCT FROM w.value"
    few = f"c * {tau.denominator} <= n * {tau.numerator} OR c * total <= n * whole"
    return int(engine.value(f"SELECT count(*) FROM {joined} WHERE NOT ({few})"))


def _differ(engine: Engine, counts: str, by: str) -> bool:
    """Whether some groups have counts that do not add up to 0."""
    return bool(engine.fetch(f"SELECT 1 FROM ({counts}) GROUP BY {by} HAVING sum(c) <> 0 LIMIT 1"))


def _find_untrue(attribute: Attribute, source: SourceRows) -> str | None:
    """Return why ``spelled_out`` is not the source's table by the witness; None if it is."""
    engine, manifest, own = source.engine, source.manifest, source.places[attribute.name]
    quasi = manifest.of_role("quasi")
    try:
        digits = _read_digits(source)
        by_class = as_one(ClassNumbers.of(quasi).pack([digits[one.name] for one in quasi]))
        with source.reading([attribute.name]):
            counts = f"SELECT {by_class} AS class, {own} AS v, count(*) AS c FROM source WHERE w1 > 0 GROUP BY ALL"
            engine.make("placed", counts)
    except ValueError as fault:
        return str(fault)
    values = put_values(engine, manifest, attribute, "SELECT v FROM placed", source.types[attribute.name])
    true = f"SELECT class, t AS value, -c AS c FROM placed JOIN {values} AS s ON placed.v IS NOT DISTINCT FROM s.v"
    if _differ(engine, f"SELECT class, value, c FROM spelled_out UNION ALL {true}", "class, value"):
        return f"the values in {_FILE} differ from the source"
    return None


def _read_digits(source: SourceRows) -> dict[str, str]:
    """Return the label number of each attribute in SQL, by the witness, or raise a ValueError if it does not fit."""
    labelled, witness = source.manifest.labelled, source.witness
    numbers = ClassNumbers.of(labelled)
    if witness is None or witness.n_columns != len(numbers.bounds):
        raise ValueError("the witness has classes that the release cannot have")
    own = [f"w{place}" for place in range(1, witness.n_columns + 1)]
    return {one.name: numbers.unpack(place, own) for place, one in enumerate(labelled)}


def _check_resolution(manifest: Manifest, covers: Mapping[str, Covers], source: SourceRows) -> Check:
    """Check that no source row is in a class if a narrower class covers it: such rows are moved by their values."""
    engine, quasi = source.engine, rank_quasi(manifest.of_role("quasi"))
    if source.witness is None or not all(one.boxed and manifest.is_traced(one) for one in quasi):
        why = "not checked: the witness or source values of quasi-identifiers are missing"
        return Check("resolution", True, why, done=False)
    try:
        digits = _read_digits(source)
        columns = [
            f"{source.places[one.name]} AS t{at}, {digits[one.name]} AS l{at}" for at, one in enumerate(quasi, 1)
        ]
        with source.reading([one.name for one in quasi]):
            engine.make("tuples", f"SELECT {wrap(columns)}, count(*) AS n FROM source WHERE w1 > 0 GROUP BY ALL")
    except ValueError as error:
        return Check("resolution", False, str(error))
    labels = ", ".join(f"l{at}" for at, _ in enumerate(quasi, 1))
    follow(source, quasi, f"SELECT DISTINCT {labels} FROM tuples", "FROM tuples")
    joins, saved = f"reached AS r JOIN tree AS t ON node = n{len(quasi)}", []
    for at, one in enumerate(quasi, 1):
        widths = covers[one.name].widths()
        engine.put("width_rows", {"number": pa.array(range(len(widths))), "width": pa.array(widths)})
        engine.make(f"widths{at}", "FROM width_rows")
        joins += f"\nJOIN widths{at} AS a{at} ON a{at}.number = r.l{at}"
        joins += f" JOIN widths{at} AS b{at} ON b{at}.number = t.l{at} AND b{at}.width <= a{at}.width"
        saved.append(f"a{at}.width - b{at}.width")
    narrower = f"SELECT DISTINCT point, n FROM {joins} WHERE {' + '.join(saved)} > 0"
    moved = int(engine.value(f"SELECT coalesce(sum(n), 0) FROM ({narrower})"))
    fault = moved and f"{moved} rows are in a class although a narrower class covers them"
    return Check.of("resolution", fault, "every row is in the narrowest class that covers it")
