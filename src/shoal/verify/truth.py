"""Truth: every published row generalizes its own source row, as the witness says.

The witness has, for every source row in source order, the number of the class in which it is published, 0 for none. It
is not believed but checked: each value is under the label of its class (a check of distinct pairs of value and label),
and rows with their class and exact contents are the same in both tables, each as often. Rows are compared by sums of
64-bit fingerprints under random salts, so memory does not grow with the table and nobody can prepare a collision.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from shoal.core.arrays import KeyArray
from shoal.core.wording import count_noun
from shoal.manifest import Attribute
from shoal.verify.counting import ClassNumbers, ReleaseTables
from shoal.verify.covers import count_uncovered, put_values
from shoal.verify.engine import quote_text, read_as
from shoal.verify.form import check_source_counts, count_source
from shoal.verify.manifest import Manifest
from shoal.verify.order import check_order, find_share
from shoal.verify.result import Check
from shoal.verify.rows import Release, SourceRows, wrap

_TYPES: Sequence[tuple[str, Sequence[str]]] = (  # the type in which values are compared, and DuckDB's types of them
    (
        "HUGEINT",
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    ),
    ("DOUBLE", ("DOUBLE",)),
    ("FLOAT", ("FLOAT",)),
    ("BOOLEAN", ("BOOLEAN",)),
    ("DATE", ("DATE",)),
    ("TIME", ("TIME",)),
    ("TIME_NS", ("TIME_NS",)),
    ("TIMESTAMP", ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS")),
    ("TIMESTAMP_NS", ("TIMESTAMP_NS",)),
    ("TIMESTAMP WITH TIME ZONE", ("TIMESTAMP WITH TIME ZONE",)),
    ("TIMESTAMPTZ_NS", ("TIMESTAMPTZ_NS",)),
)
_FIRST, _FREQUENT = 100_000, 10_000  # rows at the beginning of a release, and the texts of a column there
_NUMBERS, _MOMENTS = {"HUGEINT", "DOUBLE", "FLOAT"}, {"DATE", "TIMESTAMP", "TIMESTAMP_NS"}


def find_type(*types: str) -> str:
    """Return the type in which columns of these types of DuckDB are compared: numbers as numbers, else as text.

    >>> find_type("VARCHAR", "DOUBLE"), find_type("INTEGER", "BIGINT"), find_type("INTEGER", "DOUBLE")
    ('DOUBLE', 'HUGEINT', 'DOUBLE')
    """
    plain = {next((name for name, own in _TYPES if kind in own), "VARCHAR") for kind in types if kind != "VARCHAR"}
    if len(plain) == 1:
        return plain.pop()
    if plain and plain <= _NUMBERS:
        return "DOUBLE"
    for pair in (("TIME", "TIME_NS"), ("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS")):
        if plain == set(pair):
            return pair[1]
    if plain and plain <= _MOMENTS:
        return "TIMESTAMP_NS" if "TIMESTAMP_NS" in plain else "TIMESTAMP"
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


@dataclass(frozen=True, slots=True)
class Totals:
    """What one reading of a table found."""

    rows: int  # those that are compared
    digest: int
    tokens: KeyArray  # fingerprints of the rows whose order is compared, in the order of the table


class Comparison:
    """The release and its source, compared by the witness."""

    def __init__(self, release: Release, tables: ReleaseTables, source: SourceRows) -> None:
        self._release, self._tables, self._source = release, tables, source
        self._engine, self._manifest = release.engine, release.manifest
        self._engine.run(f"SET VARIABLE salt = '{secrets.token_hex(32)}'")
        self._numbers = ClassNumbers.of(self._manifest.labelled)
        numbers = range(1, len(self._numbers.bounds) + 1)
        self._own = [f"w{place}" if source.witness else "0" for place in numbers]

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
            stated, true = self._read_source()
        except ValueError as fault:
            return self._misfit(str(fault))
        if stated["misfit"]:
            return self._misfit("the witness has classes that the release cannot have")
        moved = [stated[f"m{place}"] for place in range(len(manifest.moved_complete))]
        counted = count_source(stated["n"], stated["lacks"], moved)
        if source.witness is None:
            published = int(engine.value("SELECT count(*) FROM release"))
            known = leave_untrue() if any(map(manifest.is_traced, manifest.attributes)) else report_truth(manifest)
            counts = check_source_counts(manifest, published, counted)
            return [counts, *self._check_values(), *check_spelling(self._release, self._contents), known]
        shown = self._read_release()
        uncovered = count_uncovered(engine, manifest, self._list_pairs(), source.types)
        return [
            check_order([shown.tokens], [true.tokens]),
            check_source_counts(manifest, shown.rows, counted),
            *self._check_values(),
            *check_spelling(self._release, self._contents),
            self._judge(shown, true, stated["gone"], uncovered),
        ]

    def _misfit(self, why: str) -> list[Check]:
        return [
            Check("witness", False, f"{why}; or the source file or its row order differs"),
            Check("truth", False, "not shown: the witness does not fit the source"),
        ]

    def _read_source(self) -> tuple[Mapping[str, int], Totals]:
        """Read the source once: its counts and sums, and the distinct pairs of value and label in the table ``met``."""
        manifest, source, engine = self._manifest, self._source, self._engine
        drop = manifest.missing_policy == "drop"
        lacks = " OR ".join(f"{source.present(name)} IS NULL" for name in manifest.complete) if drop else ""
        misfit = " OR ".join(
            [f"{own} < 0 OR {own} > {bound}" for own, bound in zip(self._own, self._numbers.bounds, strict=True)]
            + [f"({own} > 0) <> ({self._own[0]} > 0)" for own in self._own[1:]]
        )
        texts = {name for name, kind in source.types.items() if not pa.types.is_primitive(kind)}
        print_ = write_print(self._own, self._write_words(source.present, source.places, texts))
        places = [source.places[one.name] for one in self._traced]
        digits = [f"d{at}" for at in range(len(places))]
        moved = [f"m{at}" for at in range(len(manifest.moved_complete))]
        columns = [
            *(f"({lacks or 'false'}) AS lacks", f"({misfit}) AS misfit", f"{self._own[0]} > 0 AS inside"),
            *(f"{print_} AS h", "row", *places),
            *(f"{self._digit(one)} AS {digit}" for one, digit in zip(self._traced, digits, strict=True)),
            *(
                f"({source.present(name)} IS NULL)::INT AS {own}"
                for name, own in zip(manifest.moved_complete, moved, strict=True)
            ),
        ]
        sets = ["(lacks, misfit, inside)"]
        sets += [f"(lacks, inside, {digit}, {place})" for digit, place in zip(digits, places, strict=True)]
        figures = [
            *("count(*) AS n", "sum(h)::HUGEINT AS digest", *(f"sum({own}) AS {own}" for own in moved)),
            f"list(h ORDER BY row) FILTER (mod(h, {find_share(manifest.rows)}) = 0) AS tokens",
        ]
        keys = ["lacks", "misfit", "inside", *digits, *places, f"grouping({', '.join(['misfit', *digits])}) AS which"]
        with source.reading([one.name for one in manifest.attributes]):
            engine.make(
                "met",
                f"SELECT {wrap([*keys, *figures])}\nFROM (SELECT {wrap(columns)} FROM source)"
                f" GROUP BY GROUPING SETS ({', '.join(sets)})",
            )
        rows = f"FROM met WHERE which = {self._which(-1)}"
        names = ["lacks", "misfit", "inside"]
        counts = {name: int(engine.value(f"SELECT coalesce(sum(n), 0) {rows} AND {name}")) for name in names}
        counts["gone"] = int(engine.value(f"SELECT coalesce(sum(n), 0) {rows} AND lacks AND inside"))
        for own in ("n", *moved):
            counts[own] = int(engine.value(f"SELECT coalesce(sum({own}), 0) {rows}"))
        digest = int(engine.value(f"SELECT coalesce(sum(digest), 0) {rows} AND inside"))
        tokens = [_flatten(one) for one in engine.read(f"SELECT tokens {rows} AND inside")["tokens"].chunks]
        return counts, Totals(counts["inside"], digest, np.concatenate([np.zeros(0, dtype=np.uint64), *tokens]))

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

    @property
    def _traced(self) -> list[Attribute]:
        """The attributes with labels that must cover the values of their source rows."""
        return [one for one in self._manifest.labelled if self._manifest.is_traced(one)]

    def _digit(self, attribute: Attribute) -> str:
        return self._numbers.unpack(list(self._manifest.labelled).index(attribute), self._own)

    def _list_pairs(self) -> dict[str, str]:
        """Return for each attribute with labels the query of its distinct pairs of label and value."""
        found = {}
        for place, one in enumerate(self._traced):
            value, own = self._source.places[one.name], f"which = {self._which(place)} AND inside AND NOT lacks"
            found[one.name] = f"(SELECT d{place} AS number, {value} AS v FROM met WHERE {own})"
        return found

    def _which(self, place: int) -> int:
        """Return the bits by which GROUPING tells what was grouped by: a digit or, at -1, the misfits."""
        n = len(self._traced) + 1
        return ((1 << n) - 1) & ~(1 << (n - 2 - place))

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
        checks = []
        for place, one in enumerate(self._traced):
            if one.role != "sensitive":
                continue
            value = self._source.places[one.name]
            own = f"which = {self._which(place)} AND NOT lacks"
            # They are spelled as labels list them: by the type in the source, and zero without a sign.
            met = put_values(
                self._engine, self._manifest, one, f"SELECT {value} FROM met WHERE {own}", self._source.types[one.name]
            )
            texts = {text for (text,) in self._engine.fetch(f"SELECT t FROM {met}")}
            covers = [*(one.labels or {}).values()]
            listed = {text for cover in covers for text in cover.get("values", ())}
            listed |= {None} if any("missing" in cover for cover in covers) else set()
            absent = len(listed - texts)
            fault = absent and f"labels of {one.name} cover {count_noun(absent, 'value')} that no source row has"
            checks.append(Check.of("values", fault, f"all values that labels of {one.name} cover occur"))
        return checks

    def _judge(self, shown: Totals, true: Totals, gone: int, uncovered: Mapping[str, int]) -> Check:
        manifest = self._manifest
        if gone:
            lost = f"the witness puts {count_noun(gone, 'source row')} that lack a value and were dropped into classes"
            return Check("truth", False, lost)
        if uncovered:
            columns = ", ".join(sorted(uncovered))
            pairs = count_noun(sum(uncovered.values()), "pair")
            return Check("truth", False, f"{pairs} of source value and label do not fit, in {columns}, by the witness")
        if (shown.rows, shown.digest) != (true.rows, true.digest):
            differ = f"the {shown.rows} published rows are not the {true.rows} source rows of their classes"
            return Check("truth", False, f"{differ}, by their values of {', '.join(self._contents) or 'no column'}")
        return report_truth(manifest)


def _flatten(tokens: pa.Array) -> KeyArray:
    return np.asarray(tokens.flatten(), dtype=np.uint64)


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
