"""Defended releases: the models also hold for a reader who has everyone's quasi values and knows the method.

In a class, and under each of its labels, no value is more frequent than tau, or than in the whole table. The data
holder keeps the values of the records under labels in a file, which the verifier does not trust: it must have as many
records as each class publishes under each label, with values that the label covers, and the table with these values in
place of the labels must be true by the witness. No record is in a class if a narrower class covers it
(docs/adr/0007-transparent-reader.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pyarrow as pa

from shoal.manifest import Attribute
from shoal.verify.counting import ClassNumbers, ReleaseTables, as_one
from shoal.verify.covers import Covers, put_values
from shoal.verify.engine import Engine, quote_text
from shoal.verify.manifest import Manifest
from shoal.verify.population import follow, join_columns, rank_quasi
from shoal.verify.promises import find_model
from shoal.verify.result import Check
from shoal.verify.rows import Release, SourceRows, wrap

_RECORDS, _FILE = "records", "internal/labels.parquet"


def check_defended(
    release: Release,
    manifest: Manifest,
    covers: Mapping[str, Covers],
    expected: SourceRows,
    labelled: pa.Table | None,
) -> list[Check]:
    """Return a check of the class of each record, and one of each attribute with defended labels."""
    checks = []
    models = [find_model(promise.model) for promise in manifest.promises]
    if any(model is not None and model.about == "values" for model in models):
        checks.append(_check_resolution(manifest, covers, expected))
    for attribute in manifest.attributes:
        if not attribute.defended:
            continue
        name = attribute.name
        if fault := _find_undefended(release, attribute, labelled):
            checks.append(Check("defended", False, f"labels of {name}: {fault}"))
        elif expected.witness is None:
            why = f"not checked: without the witness, the values in {_FILE} cannot be compared with the source"
            checks.append(Check("defended", True, why, done=False))
        else:
            untrue = _find_untrue(attribute, expected)
            good = f"in no class and under no label does a value of {name} exceed tau and its share in the table"
            checks.append(Check.of("defended", untrue and f"labels of {name}: {untrue}", good))
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
    if n := _count_excess(engine, "hidden", "class, label", min(taus)):
        return f"{n} values are more frequent under a label of a class than tau and than in the table"
    if n := _count_excess(engine, "spelled_out", "class", min(taus)):
        return f"{n} values are more frequent in a class, hidden records included, than tau and than in the table"
    return None


def _count_excess(engine: Engine, table: str, by: str, tau: Fraction) -> int:
    """Return how many values have more of a group than tau, and than of the whole table."""
    counts = f"SELECT value, sum(c) AS c, sum(sum(c)) OVER (PARTITION BY {by}) AS n FROM {table} GROUP BY {by}, value"
    whole = "SELECT value, sum(c) AS whole, sum(sum(c)) OVER () AS total FROM spelled_out GROUP BY value"
    joined = f"({counts}) AS v JOIN ({whole}) AS w ON v.value IS NOT DISTINCT FROM w.value"
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
        return f"the values in {_FILE} are not those of the source"
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
    name, engine, quasi = "resolution", source.engine, rank_quasi(manifest)
    if source.witness is None or not all(one.boxed and manifest.is_traced(one) for one in quasi):
        why = "not checked: the witness or source values of quasi-identifiers are missing"
        return Check(name, True, why, done=False)
    try:
        digits = _read_digits(source)
        columns = [
            f"{source.places[one.name]} AS t{at}, {digits[one.name]} AS l{at}" for at, one in enumerate(quasi, 1)
        ]
        with source.reading([one.name for one in quasi]):
            engine.make("tuples", f"SELECT {wrap(columns)}, count(*) AS n FROM source WHERE w1 > 0 GROUP BY ALL")
    except ValueError as error:
        return Check(name, False, str(error))
    classes = f"SELECT DISTINCT {join_columns(quasi, 'l{}')} FROM tuples"
    follow(source, quasi, classes, "FROM tuples", {one.name: covers[one.name].widths() for one in quasi})
    # The classes that a row reaches are nowhere wider than its own: they are narrower if their widths add up to less.
    joins = " ".join(f"JOIN widths_{at} USING (l{at})" for at, _ in enumerate(quasi, 1))
    width = join_columns(quasi, "w{}").replace(",", " +")
    leaves = f"(SELECT n{len(quasi)} AS node, {width} AS width FROM tree {joins})"
    narrower = f"SELECT DISTINCT point, n FROM reached JOIN {leaves} USING (node) WHERE width < {width}"
    moved = int(engine.value(f"SELECT coalesce(sum(n), 0) FROM ({narrower})"))
    fault = moved and f"{moved} rows are in a class although a narrower class covers them"
    return Check.of(name, fault, "every row is in the narrowest class that covers it")
