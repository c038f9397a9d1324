"""Truth: every published row generalizes its own source row, as the witness says.

The witness has, for every source row in source order, the number of the class in which it is published, 0 for none. It
is checked: each value is under the label of its class (a check of distinct pairs of value and label),
and rows with their class and exact contents are the same in both tables, each as often. Rows are compared by sums of
64-bit fingerprints under random salts, so memory does not grow with the table, and collisions cannot be prepared.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shoal.core.arrays import KeyArray
from shoal.core.wording import count_noun
from shoal.manifest import Attribute
from shoal.verify.counting import ClassNumbers, ReleaseTables
from shoal.verify.covers import count_uncovered, put_values
from shoal.verify.engine import quote_text, read_as
from shoal.verify.manifest import Manifest
from shoal.verify.result import Check
from shoal.verify.rows import Release, SourceRows, wrap
from shoal.verify.source_checks import SourceCounts, check_order, check_source_counts, find_share

# Types in which values are compared; of several in a family the last one, but whole numbers and FLOAT need DOUBLE.
_FAMILIES: Sequence[Sequence[str]] = (
    ("HUGEINT", "FLOAT", "DOUBLE"),
    ("DATE", "TIMESTAMP", "TIMESTAMP_NS"),
    ("TIME", "TIME_NS"),
    ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"),
    ("BOOLEAN",),
)
_FIRST, _FREQUENT = 100_000, 10_000  # rows at the beginning of a release, and the texts of a column there


def find_type(*types: str) -> str:
    """Return the DuckDB type in which columns of these types are compared: a type of numbers or days, or text.

    >>> find_type("VARCHAR", "DOUBLE"), find_type("INTEGER", "BIGINT"), find_type("INTEGER", "FLOAT")
    ('DOUBLE', 'HUGEINT', 'DOUBLE')
    """
    plain = {
        "HUGEINT" if kind.endswith(("INT", "INTEGER")) else kind.removesuffix("_S").removesuffix("_MS")
        for kind in types
        if kind != "VARCHAR"
    }
    for family in _FAMILIES:
        if plain and plain <= {*family}:
            return "DOUBLE" if {"HUGEINT", "FLOAT"} <= plain else max(plain, key=family.index)
    return "VARCHAR"


def find_types(release: Release, source: SourceRows | None, columns: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the type in which attributes are compared, given the published columns of each."""
    types: dict[str, str] = {}
    if source is not None:
        schema = pa.schema([(f"c{place}", kind) for place, kind in enumerate(source.types.values())])
        release.engine.put("source_types", schema.empty_table())
        described = release.engine.fetch("DESCRIBE source_types")
        types = {name: str(row[1]) for name, row in zip(source.types, described, strict=True)}
    found = {}
    for name, own in columns.items():
        kind = find_type(*(release.types[column] for column in own), types.get(name, "VARCHAR"))
        declared = release.manifest.techniques.get(name)
        found[name] = "DOUBLE" if kind == "VARCHAR" and declared is not None and declared.numeric else kind
    return found


def check_spelling(release: Release, kinds: Mapping[str, str]) -> list[Check]:
    """Check that texts of numbers and days are the canonical ones: another spelling could mark records."""
    for column, kind in kinds.items():
        if release.types[column] != "VARCHAR" or kind == "VARCHAR":
            continue
        text = release.names[column]
        if kind.startswith("TIME"):  # all are written to the same fraction of a second
            if release.engine.value(f"SELECT count(DISTINCT length({text})) > 1 FROM release"):
                return [Check("spelling", False, f"values of {column} are not written in their canonical form")]
            continue
        again = f"regexp_replace(try_cast({text} AS {kind})::VARCHAR, '[.]0$', '')"
        odd = release.engine.read(f"SELECT DISTINCT {text} AS v FROM release WHERE {again} <> {text}")["v"]
        arrow = {"HUGEINT": pa.int64(), "DOUBLE": pa.float64(), "FLOAT": pa.float32()}.get(kind)
        if len(odd) and (arrow is None or not _is_canonical(odd.combine_chunks(), arrow)):
            return [Check("spelling", False, f"values of {column} are not written in their canonical form")]
    return []


def write_word(column: int, value: str, kind: str, coded: str = "NULL", *, text: bool = True) -> str:
    """Return the word of a value, perhaps a *text*, in SQL; equal values have the same, however they are stored.

    Texts go through MD5, because DuckDB's own hash has no key and texts with equal hashes can be found. The places of
    frequent texts, *coded*, are enough for these, and much faster.
    """
    digest = f"md5_number_lower(concat(getvariable('salt'), '{column}:', {value}))"
    key = f"hash(getvariable('salt'), {column})"
    if kind == "VARCHAR":
        frequent = "" if coded == "NULL" else f" WHEN {coded} IS NOT NULL THEN hash(xor(hash({coded}), {key}))"
        return f"CASE{frequent} WHEN {value} IS NULL THEN 0 ELSE {digest} END"
    read = read_as(value, kind, text=text)
    if kind in ("DOUBLE", "FLOAT"):
        read = f"nullif({read}::DOUBLE + 0.0, 'nan')"
    bits = f"xor({read}, {key}::HUGEINT)" if kind == "HUGEINT" else read  # only wide numbers could collide without key
    keyed = f"hash(xor(hash({bits}), {key}))"
    return f"CASE WHEN {value} IS NULL THEN 0 WHEN {read} IS NULL THEN {digest} ELSE {keyed} END"


def write_print(numbers: Sequence[str], words: Sequence[str]) -> str:
    """Return the fingerprint of a row, given the numbers of its class and the words of its contents."""
    keys = [f"hash(xor(hash(({one})::BIGINT), hash(getvariable('salt'), {-at})))" for at, one in enumerate(numbers, 1)]
    return f"hash({wrap([*keys, *words])})"


def write_reading(
    manifest: Manifest,
    own: Sequence[str],
    present: Callable[[str], str],
    raw: Callable[[str], str],
    prints: Sequence[str],
    more: Sequence[str] = (),
    *,
    table: str = "source",
) -> str:
    """Return the query that reads the source once.

    Its answer has two kinds of rows. Those with a value of ``misfit`` have the number n of source rows and the sums h1,
    h2, ... of their fingerprints, by whether they lack a value that they must have, whether their numbers in the
    witness are impossible, and whether they are published (``inside``). Those with a number d1 list the distinct
    labels d1 and values v1 of the first attribute with labels, and so on. *own* are the numbers of the witness;
    *present* and *raw* give an attribute's value in SQL, *present* NULL if it is missing.
    """
    numbers, traced = ClassNumbers.of(manifest.labelled), list_traced(manifest)
    bounds = [manifest.buckets] if manifest.sliced else numbers.bounds
    dropping = manifest.complete if manifest.missing_policy == "drop" else ()
    lacks = " OR ".join(f"{present(name)} IS NULL" for name in dropping) or "false"
    misfit = " OR ".join(
        [f"{one} NOT BETWEEN 0 AND {bound}" for one, bound in zip(own, bounds, strict=True)]
        + [f"({one} > 0) <> ({own[0]} > 0)" for one in own[1:]]
    )
    columns = [f"({lacks}) AS lacks", f"coalesce({misfit}, true) AS misfit", f"coalesce({own[0]} > 0, false) AS inside"]
    columns += [f"{one} AS h{at}" for at, one in enumerate(prints, 1)]
    pairs = []
    for at, (place, one) in enumerate(traced.items(), 1):
        columns += [f"{numbers.unpack(place, own)} AS d{at}", f"{raw(one.name)} AS v{at}"]
        pairs.append(f"d{at}, v{at}")
    sums = [f"sum(h{at})::HUGEINT AS h{at}" for at in range(1, len(prints) + 1)]
    sets = ["(lacks, misfit, inside)", *(f"(lacks, inside, {pair})" for pair in pairs)]
    return (
        f"SELECT {wrap(['lacks', 'misfit', 'inside', *pairs, 'count(*) AS n', *sums, *more])}\n"
        f"FROM (SELECT {wrap([*columns, '*'] if more else columns)}\n  FROM {table})\n"
        f"GROUP BY GROUPING SETS ({wrap(sets)})"
    )


def list_traced(manifest: Manifest) -> dict[int, Attribute]:
    """Return the attributes with labels that must cover the values of their source rows, by their place among all."""
    return {at: one for at, one in enumerate(manifest.labelled) if manifest.is_traced(one)}


class Totals(NamedTuple):
    """The totals of one reading of a table."""

    rows: int  # that are compared
    digest: int
    tokens: KeyArray  # fingerprints of the rows whose order is compared, in the order of the table


class Comparison:
    """The release and its source, compared by the witness."""

    def __init__(self, release: Release, tables: ReleaseTables, source: SourceRows) -> None:
        self._release, self._tables, self._source = release, tables, source
        self._engine, self._manifest = release.engine, release.manifest
        self._engine.run(f"SET VARIABLE salt = '{secrets.token_hex(32)}'")
        self._numbers = ClassNumbers.of(self._manifest.labelled)
        self._own = [f"w{at}" if source.witness else "0" for at in range(1, len(self._numbers.bounds) + 1)]

    @cached_property
    def _contents(self) -> dict[str, str]:
        """The attributes that are compared exactly, and the type of each."""
        traced = filter(self._manifest.is_traced, self._manifest.attributes)
        return find_types(self._release, self._source, {one.name: [one.name] for one in traced if not one.boxed})

    def check(self) -> list[Check]:
        """Return the checks of order, counts, values, witness and truth; without a witness, of counts and values."""
        manifest, source, engine = self._manifest, self._source, self._engine
        if source.witness is not None and source.witness.n_columns != len(self._own):
            return self._misfit("the witness has classes that the release cannot have")
        self._list_texts()
        try:
            true = self._read_source()
        except ValueError as fault:
            return self._misfit(str(fault))
        moved = "".join(f", sum(m{at})" for at, _ in enumerate(manifest.moved_complete))
        counts = "sum(n), sum(n) FILTER (lacks), sum(n) FILTER (misfit), sum(n) FILTER (lacks AND inside)"
        n_rows, lacks, misfit, gone, *absent = (
            int(figure or 0) for figure in engine.fetch_one(f"SELECT {counts}{moved} FROM met WHERE misfit IS NOT NULL")
        )
        if misfit:
            return self._misfit("the witness has classes that the release cannot have")
        counted = SourceCounts(n_rows, lacks, absent)
        common = [*self._check_values(), *check_spelling(self._release, self._contents)]
        if source.witness is None:
            published = int(engine.value("SELECT count(*) FROM release"))
            known = leave_untrue() if any(map(manifest.is_traced, manifest.attributes)) else report_truth(manifest)
            return [check_source_counts(manifest, published, counted), *common, known]
        shown = self._read_release()
        return [
            check_order(shown.tokens, true.tokens),
            check_source_counts(manifest, shown.rows, counted),
            *common,
            self._judge(shown, true, gone),
        ]

    def _misfit(self, why: str) -> list[Check]:
        return [
            Check("witness", False, f"{why}; or the source file or its row order differs"),
            Check("truth", False, "not shown: the witness does not fit the source"),
        ]

    def _read_source(self) -> Totals:
        """Read the source once into the table ``met``."""
        manifest, source, engine = self._manifest, self._source, self._engine
        texts = {name for name, kind in source.types.items() if not pa.types.is_primitive(kind)}
        print_ = write_print(self._own, self._write_words(source.present, source.places, texts))
        more = [
            f"count(*) FILTER ({source.present(name)} IS NULL) AS m{at}"
            for at, name in enumerate(manifest.moved_complete)
        ]
        more.append(f"list(h1 ORDER BY row) FILTER (mod(h1, {find_share(manifest.rows)}) = 0) AS tokens")
        with source.reading([one.name for one in manifest.attributes]):
            query = write_reading(manifest, self._own, source.present, source.places.__getitem__, [print_], more)
            engine.make("met", query)
        found = engine.read("SELECT n, h1, tokens FROM met WHERE misfit IS NOT NULL AND inside").to_pydict()
        tokens = [np.array(own or (), dtype=np.uint64) for own in found["tokens"]]
        return Totals(sum(found["n"]), int(sum(found["h1"])), np.concatenate([*tokens, np.zeros(0, dtype=np.uint64)]))

    def _write_words(self, value: Callable[[str], str], raw: Mapping[str, str], texts: set[str]) -> list[str]:
        """Return the words of a row's contents; frequent texts are those at the beginning of the release."""
        words = []
        for at, (name, kind) in enumerate(self._contents.items(), 1):
            coded = f"enum_code(try_cast({raw[name]}::VARCHAR AS text{at}))" if kind == "VARCHAR" else "NULL"
            words.append(write_word(at, value(name), kind, coded, text=name in texts))
        return words

    def _list_texts(self) -> None:
        """Make the types of frequent texts of the release: no text that means missing in the source is among them."""
        known = " AND ".join(f"v <> {quote_text(token)}" for token in self._manifest.missing_tokens)
        for at, (name, kind) in enumerate(self._contents.items(), 1):
            if kind == "VARCHAR":
                first = f"SELECT {self._release.names[name]}::VARCHAR AS v FROM release LIMIT {_FIRST}"
                texts = f"SELECT DISTINCT v FROM ({first}) WHERE v IS NOT NULL AND {known or 'true'} LIMIT {_FREQUENT}"
                self._engine.run(f"CREATE TEMP TYPE text{at} AS ENUM ({texts})")

    def _read_release(self) -> Totals:
        """Read the published rows: their number, the sum of fingerprints, and those whose order is compared."""
        manifest, names = self._manifest, self._release.names
        digits = [self._tables.labels.digit(one.name, names[one.name]) for one in manifest.labelled]
        texts = {name for name, kind in self._release.types.items() if kind == "VARCHAR"}
        print_ = write_print(self._numbers.pack(digits), self._write_words(names.__getitem__, names, texts))
        self._engine.make("prints", f"SELECT {print_} AS h FROM release")
        tokens = self._engine.read(f"SELECT h FROM prints WHERE mod(h, {find_share(manifest.rows)}) = 0")["h"]
        rows, digest = self._engine.fetch_one("SELECT count(*), sum(h)::HUGEINT FROM prints")
        return Totals(int(rows), int(digest or 0), tokens.to_numpy())

    def _check_values(self) -> list[Check]:
        """Check that every value under a sensitive label occurs: others would make records look more diverse."""
        checks, manifest = [], self._manifest
        for at, one in enumerate(list_traced(manifest).values(), 1):
            if one.role == "sensitive":
                # They are spelled as labels list them: by the type in the source, and zero without a sign.
                own = f"SELECT v{at} FROM met WHERE d{at} IS NOT NULL AND NOT lacks"
                met = put_values(self._engine, manifest, one, own, self._source.types[one.name])
                labels = f"FROM covers WHERE attribute = {quote_text(one.name)}"
                listed = f"SELECT unnest(listed) {labels} UNION SELECT NULL {labels} AND covers_missing"
                absent = self._engine.value(f"SELECT count(*) FROM (({listed}) EXCEPT (SELECT t FROM {met}))")
                fault = absent and f"labels of {one.name} cover {count_noun(absent, 'value')} that no source row has"
                checks.append(Check.of("values", fault, f"all values that labels of {one.name} cover occur"))
        return checks

    def _judge(self, shown: Totals, true: Totals, gone: int) -> Check:
        manifest = self._manifest
        if gone:
            lost = f"the witness puts {count_noun(gone, 'source row')} that lack a value and were dropped into classes"
            return Check("truth", False, lost)
        pairs = {
            one.name: f"(SELECT d{at} AS number, v{at} AS v FROM met WHERE d{at} IS NOT NULL AND inside AND NOT lacks)"
            for at, one in enumerate(list_traced(manifest).values(), 1)
        }
        if uncovered := count_uncovered(self._engine, manifest, pairs, self._source.types):
            columns = ", ".join(sorted(uncovered))
            found = count_noun(sum(uncovered.values()), "pair")
            return Check("truth", False, f"{found} of source value and label do not fit, in {columns}, by the witness")
        if (shown.rows, shown.digest) != (true.rows, true.digest):
            differ = f"the {shown.rows} published rows are not the {true.rows} source rows of their classes"
            return Check("truth", False, f"{differ}, by their values of {', '.join(self._contents) or 'no column'}")
        return report_truth(manifest)


def _is_canonical(texts: pa.Array, kind: pa.DataType) -> bool:
    try:
        return bool(texts.cast(kind).cast(pa.string()).equals(texts))
    except pa.ArrowInvalid:
        return False


def report_truth(manifest: Manifest) -> Check:
    """Return the check that every published row generalizes its own source row."""
    traced = sum(manifest.is_traced(attribute) for attribute in manifest.attributes)
    by = "" if traced == len(manifest.attributes) else f", by the {traced} columns that follow from the source"
    if not traced:
        return Check("truth", True, "no column follows from the source, so rows cannot be distinguished")
    return Check("truth", True, f"every published row covers its own source row{by}")


def leave_untrue() -> Check:
    """Return the check of truth, which was not done because the witness is missing."""
    why = "not checked: internal/witness.parquet, which has the class of each source row, is missing"
    return Check("truth", True, why, done=False, required=True)
