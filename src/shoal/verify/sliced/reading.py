"""The parts of a sliced release and how they overlap, and its rows and those of its source as tables.

``slices`` has the published rows, ``true_slices`` the source rows that the witness puts in buckets. Both have a row's
place in its table, its ``bucket`` and fingerprints under a random salt. For parts 0, 1, ..., ``q0`` is the fingerprint
of the quasi-identifiers and ``x0`` of everything that is compared. For separators of two parts, ``h0_0`` and ``h0_1``
are the fingerprints of the shared quasi-identifiers in the first and in the second part, ``k0_0`` and ``k0_1`` of all
shared values.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from shoal.core.arrays import IntArray
from shoal.verify.counting import ReleaseTables
from shoal.verify.form import SourceCounts, count_source
from shoal.verify.manifest import Manifest
from shoal.verify.population import follow
from shoal.verify.rows import Release, SourceRows, wrap
from shoal.verify.truth import find_types, write_print, write_word

_JOINS = 16  # in a statement


class FormError(Exception):
    """The form of a release does not let it be judged; the arguments are the failed check's name and detail."""


@dataclass(frozen=True, slots=True)
class PartLayout:
    """One part: its attributes by what an adversary knows of them, and their columns in the file."""

    column_of: Mapping[str, str]  # attribute -> column, in the order of the file
    quasi: tuple[str, ...]
    rest: tuple[str, ...]  # sensitive and insensitive attributes
    boxed: bool  # whether quasi values are published as labels
    blurred: bool  # whether some quasi values do not follow from the source
    compared: tuple[str, ...]  # attributes by which both tables are compared, beside quasi values that all follow
    located: bool  # whether each row of the source lies in a region of the part


class Separator(NamedTuple):
    """Attributes that two parts share: an adversary joins the parts through them."""

    first: int
    second: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """All parts, and the separators of the tree in which overlapping ones are joined."""

    parts: tuple[PartLayout, ...]
    separators: tuple[Separator, ...]
    shared: str | None  # the sensitive attribute, if several parts have it

    @property
    def known(self) -> list[int]:
        """The parts with quasi-identifiers: only these show an adversary where a person may be."""
        return [place for place, part in enumerate(self.parts) if part.quasi]

    @property
    def joining(self) -> list[int]:
        """The separators that share quasi-identifiers."""
        return [number for number, one in enumerate(self.separators) if any(n != self.shared for n in one.names)]

    @property
    def columns(self) -> list[str]:
        """The fingerprints that an adversary knows of a tuple: of known parts, then of separators."""
        return [f"q{place}" for place in self.known] + [f"h{number}_0" for number in self.joining]

    @classmethod
    def of(cls, manifest: Manifest) -> Layout:
        """Read the parts of a manifest; raise a FormError if those that overlap do not form a tree."""
        by_name = {attribute.name: attribute for attribute in manifest.attributes}
        parts = []
        for names, columns in zip(manifest.parts, manifest.part_columns, strict=True):
            quasi = tuple(name for name in names if by_name[name].role == "quasi")
            rest = tuple(name for name in names if by_name[name].role != "quasi")
            boxed = bool(quasi) and by_name[quasi[0]].boxed
            exact = tuple(name for name in names if manifest.is_traced(by_name[name]))
            blurred = not set(quasi) <= set(exact)
            compared = tuple(name for name in exact if name in rest or (blurred and not boxed))
            column_of, located = dict(zip(names, columns, strict=True)), boxed and not blurred
            parts.append(PartLayout(column_of, quasi, rest, boxed, blurred, compared, located))
        named = [name for part in manifest.parts for name in part]
        shared = next((one.name for one in manifest.of_role("sensitive") if named.count(one.name) > 1), None)
        links = [(*part.quasi, shared) if shared in part.rest else part.quasi for part in parts]
        return cls(tuple(parts), join_tree(links), shared)


def join_tree(parts: Sequence[Sequence[str]]) -> tuple[Separator, ...]:
    """Return the separators of a junction tree over overlapping parts, or raise a FormError.

    If a junction tree exists, any spanning tree with the most shared attributes is one.

    >>> [separator.names for separator in join_tree([("a", "b"), ("b", "c"), ("c", "d")])]
    [('b',), ('c',)]
    """
    pairs = []
    for first, second in combinations(range(len(parts)), 2):
        shared = tuple(name for name in parts[first] if name in parts[second])
        if shared:
            pairs.append(Separator(first, second, shared))
    tree_of = list(range(len(parts)))
    chosen = []
    for pair in sorted(pairs, key=lambda pair: -len(pair.names)):
        one, other = tree_of[pair.first], tree_of[pair.second]
        if one != other:
            chosen.append(pair)
            tree_of = [one if tree == other else tree for tree in tree_of]
    for name in dict.fromkeys(name for part in parts for name in part):
        links = sum(name in pair.names for pair in chosen)
        if links != sum(name in part for part in parts) - 1:
            raise FormError(
                "parts",
                f"cannot check: the parts that share {name!r} do not form a tree with the other parts that overlap",
            )
    return tuple(chosen)


class Slices:
    """The published rows and, if the witness fits, their source rows."""

    def __init__(self, release: Release, tables: ReleaseTables, layout: Layout, source: SourceRows | None) -> None:
        """Make the table ``slices``, or raise a FormError."""
        self.layout, self.source = layout, source
        self.engine, self.manifest = release.engine, release.manifest
        self._places = {one.name: place for place, one in enumerate(self.manifest.attributes, 1)}
        boxed = {one.name for one in self.manifest.labelled}
        columns: dict[str, list[str]] = {}
        for name, column in (pair for part in layout.parts for pair in part.column_of.items()):
            columns.setdefault(name, []).append(column)
        kinds = find_types(release, source, {name: own for name, own in columns.items() if name not in boxed})
        self._kinds = kinds
        self.kinds = {column: kinds[name] for name in kinds for column in columns[name]}  # of published columns
        own = {column: f"c{place}" for place, column in enumerate(self.manifest.columns)}
        # of each part: attribute -> column of ``slices``, if it is sensitive
        self.columns = [{name: own[column] for name, column in part.column_of.items()} for part in layout.parts]
        bucket = f"try_cast({release.names['bucket']}::VARCHAR AS INTEGER)"
        bucket = f"CASE WHEN {bucket}::VARCHAR = {release.names['bucket']}::VARCHAR THEN {bucket} END AS bucket"
        values = [f"{release.names[column]} AS {c}" for column, c in own.items() if column != "bucket"]
        self.engine.run(f"SET VARIABLE salt = '{secrets.token_hex(32)}'")
        self.engine.make("published", f"SELECT {wrap([bucket, *values])} FROM release")
        self._demand_buckets()
        fields, sensitive = [], {one.name for one in self.manifest.of_role("sensitive")}
        for place, part in enumerate(layout.parts):
            fields += [f"published.{self.columns[place][name]}" for name in part.rest if name in sensitive]
            if part.boxed:
                digits = [tables.labels.digit(name, f"published.{self.columns[place][name]}") for name in part.quasi]
                fields += [f"{digit} AS {d}" for digit, d in zip(digits, self.list_digits(place), strict=True)]
                fields.append(f"{write_print(digits, [])} AS q{place}")
        self._print_rows("slices", "(SELECT rowid AS row, * FROM published) AS published", self.columns, fields)

    def list_digits(self, place: int) -> list[str]:
        """Return the columns of ``slices`` with the numbers of a part's labels."""
        return [f"d{place}_{self._places[name]}" for name in self.layout.parts[place].quasi]

    def _demand_buckets(self) -> None:
        numbers = self.engine.read("SELECT bucket FROM published ORDER BY rowid")["bucket"]
        if numbers.null_count:
            raise FormError("buckets", "rows have no bucket, or one that is not a plain whole number")
        buckets: IntArray = numbers.to_numpy()
        steps = np.diff(buckets, prepend=0)
        if ((steps < 0) | (steps > 1)).any() or buckets.min(initial=1) < 1:
            raise FormError("buckets", "buckets are not numbered from 1 in ascending order, or their numbers have gaps")
        n_buckets = int(buckets.max(initial=0))
        if n_buckets != self.manifest.buckets or not n_buckets:
            raise FormError("buckets", f"there are {n_buckets} buckets, the manifest says {self.manifest.buckets}")

    def _print_rows(
        self, table: str, rows: str, columns: Sequence[Mapping[str, str]], fields: Sequence[str], joins: str = ""
    ) -> None:
        """Make a table of fingerprints of rows, given the columns of each part's attributes and more fields."""
        name_of, words = rows.rpartition(" ")[2], {}
        for name, column in dict.fromkeys(pair for own in columns for pair in own.items() if pair[0] in self._kinds):
            words[column] = write_word(self._places[name], f"{name_of}.{column}", self._kinds[name])
            # MD5 is slow, so each text of a column is hashed once; very many joins need too much memory.
            if self._kinds[name] == "VARCHAR" and len(words) <= _JOINS:
                listed = f"SELECT {name_of}.{column} AS v, {words[column]} AS w FROM"
                self.engine.make(f"words_{column}", f"{listed} (SELECT DISTINCT {column} FROM {name_of}) AS {name_of}")
                joins += f"\nLEFT JOIN words_{column} ON {name_of}.{column} = words_{column}.v"
                words[column] = f"coalesce(words_{column}.w, 0)"
        prints, contents = [f"{name_of}.row", f"{name_of}.bucket", *fields], []

        def add(names: Sequence[str], place: int, title: str) -> None:
            own = [words[columns[place][name]] for name in names]
            prints.append(f"{write_print([], own) if own else '0::UBIGINT'} AS {title}")

        for place, part in enumerate(self.layout.parts):
            if part.quasi and not part.boxed:
                add(part.quasi, place, f"q{place}")
            add(part.compared, place, f"r{place}")
            whole = part.quasi and not part.blurred
            contents.append(f"{f'hash(q{place}, r{place})' if whole else f'r{place}'} AS x{place}")
        for number, one in enumerate(self.layout.separators):
            for side, place in enumerate((one.first, one.second)):
                add([name for name in one.names if name != self.layout.shared], place, f"h{number}_{side}")
                add(one.names, place, f"k{number}_{side}")
        inner = f"SELECT {wrap(prints)}\nFROM {rows}{joins}"
        rests = ", ".join(f"r{place}" for place in range(len(contents)))
        self.engine.make(table, f"SELECT * EXCLUDE ({rests}), {wrap(contents)} FROM ({inner})")
        self.engine.run(f"DROP TABLE {name_of}")

    def read_source(self, source: SourceRows) -> tuple[SourceCounts, str | None]:
        """Return the counts of the source and, if its witness does not fit, why; if it fits, make ``true_slices``."""
        manifest, engine, witness = self.manifest, self.engine, source.witness
        if witness is not None and witness.n_columns != 1:
            return count_source(0, 0, []), "it does not have one column"
        dropping = manifest.complete if manifest.missing_policy == "drop" else ()
        lacks = " OR ".join(f"{source.present(name)} IS NULL" for name in dropping) or "false"
        moved = [f"count(*) FILTER ({source.places[name]} IS NULL)" for name in manifest.moved_complete]
        names = [one.name for one in manifest.attributes]
        fields = ["row", f"{'0' if witness is None else 'w1'} AS bucket", f"({lacks}) AS lacks"]
        fields += [f"{source.present(name)} AS {source.places[name]}" for name in names]
        try:
            with source.reading(names):
                engine.make("given", f"SELECT {wrap(fields)} FROM source")
        except ValueError as fault:
            return count_source(0, 0, []), str(fault)
        strange = f"count(*) FILTER (bucket < 0 OR bucket > {manifest.buckets})"
        figures = ["count(*)", "count(*) FILTER (lacks)", strange, "count(*) FILTER (lacks AND bucket > 0)", *moved]
        rows, dropped, misfit, gone, *lacking = engine.fetch_one(f"SELECT {wrap(figures)} FROM given")
        counts = count_source(rows, dropped, lacking)
        if misfit or gone:
            lost = "it puts rows in buckets that lack values and were dropped"
            return counts, lost if gone else "it names buckets that the release does not have"
        if witness is not None:
            engine.run("DELETE FROM given WHERE bucket = 0")
            located = [place for place, part in enumerate(self.layout.parts) if part.located]
            joins, regions = (
                "".join(self._locate(source, place) for place in located),
                [f"home{p}.q AS q{p}" for p in located],
            )
            self._print_rows("true_slices", "given", [source.places] * len(self.layout.parts), regions, joins)
        return counts, None

    def _locate(self, source: SourceRows, place: int) -> str:
        """Make the table of regions in which the source rows lie, and return the join with it."""
        engine, quasi, home = self.engine, self.layout.parts[place].quasi, f"home{place}"
        own = wrap([source.places[name] for name in quasi])
        engine.make("located", f"SELECT row_number() OVER () AS n, * FROM (SELECT DISTINCT {own} FROM given)")
        by_name, digits = self.manifest.written.attributes, dict(zip(quasi, self.list_digits(place), strict=True))
        ranked = sorted(quasi, key=lambda name: len(by_name[name].covers), reverse=True)
        labels = ", ".join(f"{digits[name]} AS l{at}" for at, name in enumerate(ranked, 1))
        tuples = ", ".join(f"{source.places[name]} AS t{at}" for at, name in enumerate(ranked, 1))
        regions = f"SELECT DISTINCT q{place} AS class, {labels} FROM slices"
        follow(source, [by_name[name] for name in ranked], regions, f"SELECT n, {tuples} FROM located", {})
        leaves = f"reached JOIN tree ON node = n{len(ranked)}"
        only = f"(SELECT n, any_value(class) AS q FROM {leaves} GROUP BY n HAVING count(*) = 1)"
        engine.make(home, f"SELECT q, {own} FROM {only} JOIN located USING (n)")
        same = (f"given.{source.places[name]} IS NOT DISTINCT FROM {home}.{source.places[name]}" for name in quasi)
        return f"\nLEFT JOIN {home} ON {' AND '.join(same)}"
