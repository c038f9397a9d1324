"""Sliced releases: the form of buckets and parts, and whether every bucket has the values of its source rows.

Li, Li, Zhang and Molloy, "Slicing: A New Approach for Privacy Preserving Data Publishing", TKDE 2012.

``slices`` has the published rows and ``true_slices`` the source rows that the witness puts in buckets, each with its
place in the table, its bucket, and fingerprints under a random salt. For parts 0, 1, ..., ``q0`` is the fingerprint of
the quasi-identifiers and ``x0`` of everything that is compared. For separators, which are attributes that two parts
share, ``h0_0`` and ``h0_1`` are the fingerprints of the shared quasi-identifiers in the first and in the second part,
``k0_0`` and ``k0_1`` of all shared values.

Chance permutes the parts. *permuted* fails only if some were not permuted at all. Two neighbouring parts are linked in
a bucket if its rows have the pairs of its source rows. The verifier turns the second part of every bucket by a random
number of rows and compares again. If parts were permuted at random, the published and the turned rows have the same
distribution: of m buckets that are linked in one of them only, each is linked in the published rows with a chance of
1/2, and by Hoeffding's inequality these are ahead by d or more with a chance of at most exp(-d^2 / 2m).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from shoal.verify.classes import Answer, FormRows, check_labels, check_rows
from shoal.verify.counting import ReleaseTables
from shoal.verify.covers import Covers
from shoal.verify.engine import Engine, name_columns
from shoal.verify.files import read_names
from shoal.verify.manifest import Manifest
from shoal.verify.people import check_withheld, find_changed
from shoal.verify.reach import follow, rank_quasi
from shoal.verify.result import FALSE_ALARM, Check
from shoal.verify.rows import GUARD, Release, SourceRows, read_file, wrap
from shoal.verify.source_checks import SourceCounts, check_bucket_order, check_source_counts
from shoal.verify.truth import check_spelling, find_types, leave_untrue, report_truth, write_print, write_word


class FormError(Exception):
    """The form of a release does not let it be judged; the arguments are the failed check's name and detail."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its attributes by role, and their columns in the file."""

    column_of: Mapping[str, str]  # attribute -> column, in the order of the file
    quasi: tuple[str, ...]
    rest: tuple[str, ...]  # sensitive and insensitive attributes
    boxed: bool  # whether quasi values are published as labels
    blurred: bool  # whether some quasi values do not follow from the source
    compared: tuple[
        str, ...
    ]  # attributes that are compared with the source, besides quasi values that all follow from it


class Separator(NamedTuple):
    """Attributes that two parts share: an adversary joins the parts through them."""

    first: int
    second: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """All parts, and the separators of the tree in which overlapping ones are joined."""

    parts: tuple[Part, ...]
    separators: tuple[Separator, ...]
    shared: str | None  # the sensitive attribute, if several parts have it

    @property
    def columns(self) -> list[str]:
        """The fingerprints of a tuple that an adversary can compute: of parts, then of separators."""
        return [f"q{place}" for place, _ in enumerate(self.parts)] + [f"h{n}_0" for n, _ in enumerate(self.separators)]

    @property
    def located(self) -> list[int]:
        """The parts in which every source row lies in one region."""
        return [place for place, part in enumerate(self.parts) if part.boxed and not part.blurred]

    @classmethod
    def of(cls, manifest: Manifest) -> Layout:
        """Read the parts of a manifest; raise a FormError if overlapping parts do not form a tree."""
        by_name = manifest.written.attributes
        parts = []
        for names, columns in zip(manifest.parts, manifest.part_columns, strict=True):
            quasi = tuple(name for name in names if by_name[name].role == "quasi")
            rest = tuple(name for name in names if by_name[name].role != "quasi")
            boxed = bool(quasi) and by_name[quasi[0]].boxed
            exact = [name for name in names if manifest.is_traced(by_name[name])]
            blurred = not set(quasi) <= set(exact)
            compared = tuple(name for name in exact if name in rest or (blurred and not boxed))
            parts.append(Part(dict(zip(names, columns, strict=True)), quasi, rest, boxed, blurred, compared))
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
        pairs += [Separator(first, second, shared)] if shared else []
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
            why = f"the parts that share {name!r} do not form a tree with the other parts that overlap"
            raise FormError("parts", f"cannot check: {why}")
    return tuple(chosen)


class Slices:
    """The published rows and, if the witness fits, their source rows."""

    def __init__(self, release: Release, tables: ReleaseTables, source: SourceRows | None) -> None:
        """Make the table ``slices``, or raise a FormError."""
        self.release, self.source = release, source
        self.engine, self.manifest = release.engine, release.manifest
        self.layout = layout = Layout.of(self.manifest)
        columns: dict[str, list[str]] = {}
        for name, column in (pair for part in layout.parts for pair in part.column_of.items()):
            if not self.manifest.written.attributes[name].boxed:
                columns.setdefault(name, []).append(column)
        self._places = {one.name: place for place, one in enumerate(self.manifest.attributes, 1)}
        self._kinds = find_types(release, source, columns)
        self.kinds = {column: kind for name, kind in self._kinds.items() for column in columns[name]}
        own = {column: f"c{place}" for place, column in enumerate(self.manifest.columns)}
        # of each part: attribute -> column of ``slices``, if it is sensitive
        self.columns = [{name: own[column] for name, column in part.column_of.items()} for part in layout.parts]
        self.engine.run(f"SET VARIABLE salt = '{secrets.token_hex(32)}'", *tables.labels.statements())
        sensitive, fields = {one.name for one in self.manifest.of_role("sensitive")}, []
        for place, part in enumerate(layout.parts):
            fields += [self.columns[place][name] for name in part.rest if name in sensitive]
            if part.boxed:
                digits = [tables.labels.digit(name, self.columns[place][name]) for name in part.quasi]
                fields += [f"{digit} AS {title}" for digit, title in zip(digits, self.list_digits(place), strict=True)]
                fields.append(f"{write_print(digits, [])} AS q{place}")
        number = f"try_cast({release.names['bucket']}::VARCHAR AS INTEGER)"
        bucket = f"CASE WHEN {number}::VARCHAR = {release.names['bucket']}::VARCHAR THEN {number} END AS bucket"
        values = [f"{release.names[column]} AS {title}" for column, title in own.items() if column != "bucket"]
        rows = f"(SELECT {wrap(['row_number() OVER () AS row', bucket, *values])} FROM release)"
        fields += self._write_prints(lambda place, name: self.columns[place][name])
        self.engine.make("slices", f"SELECT row, bucket, {wrap(fields)}\nFROM {rows}")
        steps = "SELECT bucket, bucket - lag(bucket, 1, 0) OVER (ORDER BY row) AS step FROM slices"
        lacking, first, last, gaps = self.engine.fetch_one(
            f"SELECT count(*) - count(bucket), min(bucket), max(bucket), bool_or(step NOT IN (0, 1)) FROM ({steps})"
        )
        if lacking:
            raise FormError("buckets", "rows have no bucket, or their bucket is not a plain whole number")
        if gaps or (first or 1) < 1:
            raise FormError("buckets", "buckets are not numbered from 1 in ascending order, or their numbers have gaps")
        if not last or last != self.manifest.buckets:
            raise FormError("buckets", f"there are {last or 0} buckets, the manifest says {self.manifest.buckets}")

    def list_digits(self, place: int) -> list[str]:
        """Return the columns of ``slices`` with the numbers of a part's labels."""
        return [f"d{place}_{self._places[name]}" for name in self.layout.parts[place].quasi]

    def _write_prints(self, find: Callable[[int, str], str]) -> Iterator[str]:
        """Yield the fingerprints of a row; *find* returns the column of a part's attribute."""

        def write(place: int, names: Sequence[str], title: str, first: Sequence[str] = ()) -> str:
            words = [write_word(self._places[name], find(place, name), self._kinds[name]) for name in names]
            return f"{write_print(['0'], [*first, *words])} AS {title}"

        for place, part in enumerate(self.layout.parts):
            if not part.boxed:
                yield write(place, part.quasi, f"q{place}")
            yield write(place, part.compared, f"x{place}", [] if part.blurred else [f"q{place}"])
        for number, one in enumerate(self.layout.separators):
            for side, place in enumerate((one.first, one.second)):
                known = [name for name in one.names if name != self.layout.shared]
                yield write(place, known, f"h{number}_{side}")
                yield write(place, one.names, f"k{number}_{side}")

    def read_source(self, source: SourceRows) -> tuple[SourceCounts, str | None]:
        """Return the counts of the source and, if its witness does not fit, why; if it fits, make ``true_slices``."""
        manifest, engine, witness = self.manifest, self.engine, source.witness
        if witness is not None and witness.n_columns != 1:
            return SourceCounts(0, 0, []), "it does not have one column"
        dropping = manifest.complete if manifest.missing_policy == "drop" else ()
        lacks = " OR ".join(f"{source.present(name)} IS NULL" for name in dropping) or "false"
        names = [one.name for one in manifest.attributes]
        fields = ["row", f"{'0' if witness is None else 'w1'} AS bucket", f"({lacks}) AS lacks"]
        fields += [f"{source.present(name)} AS {source.places[name]}" for name in names]
        try:
            with source.reading(names):
                engine.make("given", f"SELECT {wrap(fields)} FROM source")
        except ValueError as fault:
            return SourceCounts(0, 0, []), str(fault)
        strange = f"count(*) FILTER (bucket < 0 OR bucket > {manifest.buckets})"
        figures = ["count(*)", "count(*) FILTER (lacks)", strange, "count(*) FILTER (lacks AND bucket > 0)"]
        figures += [f"count(*) FILTER ({source.places[name]} IS NULL)" for name in manifest.moved_complete]
        rows, dropped, misfit, gone, *lacking = engine.fetch_one(f"SELECT {wrap(figures)} FROM given")
        counts = SourceCounts(rows, dropped, lacking)
        if misfit or gone:
            lost = "it puts rows in buckets that lack values and were dropped"
            return counts, lost if gone else "it names buckets that the release does not have"
        if witness is not None:
            joins = "".join(self._locate(source, place) for place in self.layout.located)
            fields = [f"home{place}.q AS q{place}" for place in self.layout.located]
            fields += self._write_prints(lambda _, name: f"given.{source.places[name]}")
            own = f"FROM given{joins} WHERE bucket > 0"
            engine.make("true_slices", f"SELECT row, bucket, {wrap(fields)}\n{own}")
        return counts, None

    def _locate(self, source: SourceRows, place: int) -> str:
        """Make the table of regions in which the source rows lie, and return the join with it."""
        engine, quasi, home = self.engine, self.layout.parts[place].quasi, f"home{place}"
        own = wrap([source.places[name] for name in quasi])
        distinct = f"SELECT DISTINCT {own} FROM given WHERE bucket > 0"
        engine.make("located", f"SELECT row_number() OVER () AS n, * FROM ({distinct})")
        ranked = rank_quasi([self.manifest.written.attributes[name] for name in quasi])
        digits = dict(zip(quasi, self.list_digits(place), strict=True))
        labels = ", ".join(f"{digits[one.name]} AS l{at}" for at, one in enumerate(ranked, 1))
        tuples = ", ".join(f"{source.places[one.name]} AS t{at}" for at, one in enumerate(ranked, 1))
        regions = f"SELECT DISTINCT q{place} AS class, {labels} FROM slices"
        follow(source, ranked, regions, f"SELECT n, {tuples} FROM located")
        leaves = f"reached JOIN tree ON node = n{len(ranked)}"
        only = f"(SELECT n, any_value(class) AS q FROM {leaves} GROUP BY n HAVING count(*) = 1)"
        engine.make(home, f"SELECT q, {own} FROM {only} JOIN located USING (n)")
        same = (f"given.{source.places[name]} IS NOT DISTINCT FROM {home}.{source.places[name]}" for name in quasi)
        return f"\nLEFT JOIN {home} ON {' AND '.join(same)}"


def verify_sliced(given: FormRows) -> Answer:
    """Check a sliced release."""
    from shoal.verify.beliefs import check_promises

    release, tables, covers, expected = given.release, given.tables, given.covers, given.source
    manifest, engine = release.manifest, release.engine
    try:
        slices = Slices(release, tables, expected)
    except FormError as fault:
        name, detail = fault.args
        return Answer([Check(name, False, detail)])
    n_rows = int(engine.value("SELECT count(*) FROM slices"))
    checks = [check_rows(n_rows, manifest)]
    checks.append(Check("buckets", True, f"{manifest.buckets} buckets, numbered without gaps"))
    checks += [check_labels(release, tables)] if covers else []
    checks += [_check_overlap(slices)] if slices.layout.separators else []
    if not all(check.ok for check in checks):
        return Answer(checks)
    checks += [_check_regions(slices, covers)] if covers else []
    with_source = False
    if expected is not None:
        counts, misfit = slices.read_source(expected)
        # Chance decided blurred values, so tuples of the source are not the ones that an adversary sees.
        follows = not any(part.blurred for part in slices.layout.parts)
        with_source = expected.witness is not None and misfit is None and follows
        if misfit is not None:
            checks.append(Check("witness", False, f"the file with each row's bucket cannot be used: {misfit}"))
        else:
            checks.append(check_source_counts(manifest, n_rows, counts))
            checks += check_spelling(release, slices.kinds)
            traced = any(map(manifest.is_traced, manifest.attributes))
            unknown = leave_untrue() if traced else report_truth(manifest)
            checks += _compare_source(slices) if expected.witness is not None else [unknown]
        if expected.witness is not None and all(check.ok for check in checks):
            checks += check_withheld(manifest, expected)
    guarantees, lost = check_promises(slices, with_source=with_source)
    if with_source:
        strangers = lost and f"{lost} source rows match no bucket"
        checks.append(Check.of("matching", strangers, "every published source row matches a bucket"))
    if find_changed(manifest):
        refused = "a promise about values that techniques changed by chance cannot be checked in parts"
        checks.append(Check("true values", False, refused))
    return Answer(checks, guarantees)


def _check_overlap(slices: Slices) -> Check:
    differ = [f"sum(k{number}_0) <> sum(k{number}_1)" for number, _ in enumerate(slices.layout.separators)]
    buckets = f"SELECT bucket FROM slices GROUP BY bucket HAVING {wrap(differ, ' OR')}"
    found = slices.engine.value(f"SELECT count(*) FROM ({buckets})")
    fault = found and f"in {found} buckets parts that overlap have different shared values"
    return Check.of("overlap", fault, "parts that overlap have the same shared values in every bucket")


def _check_regions(slices: Slices, covers: Mapping[str, Covers]) -> Check:
    found = 0
    for place, part in enumerate(slices.layout.parts):
        if part.boxed:
            digits = [f"{digit} AS l{at}" for at, digit in enumerate(slices.list_digits(place))]
            slices.engine.make("regions", f"SELECT DISTINCT {wrap(digits)} FROM slices")
            found += count_overlapping(slices.engine, [covers[name] for name in part.quasi])
    fault = found and f"{found} regions of a part overlap others of it"
    return Check.of("regions", fault, "regions of a part do not overlap")


def count_overlapping(engine: Engine, covers: Sequence[Covers]) -> int:
    """Return how many ``regions``, which have labels l0, l1, ..., share values with another one."""
    joins = ""
    for at, cover in enumerate(covers):
        engine.put("label_ranges", {"label": cover.owner, "low": cover.low, "high": cover.high})
        both = "label_ranges AS a JOIN label_ranges AS b ON a.low < b.high AND b.low < a.high"
        engine.make(f"meeting{at}", f"SELECT DISTINCT a.label AS own, b.label AS other FROM {both}")
        joins += f"\nJOIN meeting{at} AS m{at} ON a.l{at} = m{at}.own AND b.l{at} = m{at}.other"
    pairs = f"regions AS a JOIN regions AS b ON a.rowid <> b.rowid{joins}"
    return int(engine.value(f"SELECT count(DISTINCT a.rowid) FROM {pairs}"))


def _compare_source(slices: Slices) -> Iterator[Check]:
    """Compare every bucket with the source rows that the witness puts there."""
    engine, parts = slices.engine, range(len(slices.layout.parts))
    if slices.layout.located:
        homeless = wrap([f"q{place} IS NULL" for place in slices.layout.located], " OR")
        found = engine.value(f"SELECT count(*) FROM true_slices WHERE {homeless}")
        fault = found and f"{found} source rows lie in no region of some part, or in several"
        yield Check.of("located", fault, "every published source row lies in one region of each part")
    contents = wrap([f"x{place}" for place in parts])
    rows = f"SELECT bucket, 1 AS sign, {contents} FROM slices UNION ALL SELECT bucket, -1, {contents} FROM true_slices"
    sums = wrap(["sum(sign) AS n", *(f"sum(sign * x{place}::HUGEINT) AS y{place}" for place in parts)])
    differ = " OR ".join(f"{one} <> 0" for one in ["n", *(f"y{place}" for place in parts)])
    same = wrap([f"sum(n) = 0 AND sum(y{place}) = 0" for place in parts])
    wrong, *kept = engine.fetch_one(
        f"SELECT count(*) FILTER ({differ}), {same}\nFROM (SELECT {sums} FROM ({rows}) GROUP BY bucket)"
    )
    changed = kept.count(False)
    fault = changed and f"{changed} of {len(kept)} parts do not have exactly the values of the source"
    yield Check.of("parts", fault, "every part has exactly its values")
    fault = wrong and f"{wrong} buckets have other values than their source rows, by the witness"
    yield Check.of("truth", fault, "every bucket has, part by part, the values of its source rows, by the witness")
    yield _check_permuted(slices)
    published, true = (
        [column.to_numpy() for column in engine.read(f"SELECT bucket, {contents} FROM {table} ORDER BY row").columns]
        for table in ("slices", "true_slices")
    )
    yield check_bucket_order((published[0], published[1:]), (true[0], true[1:]))


def _check_permuted(slices: Slices) -> Check:
    """Check that no two neighbouring parts are linked in far more buckets than chance links."""
    engine, pairs = slices.engine, range(len(slices.layout.parts) - 1)
    own = wrap([f"sum(hash(a.x{at}, a.x{at + 1})) AS y{at}" for at in pairs])
    turned = wrap([f"sum(hash(a.x{at}, b.x{at + 1})) AS z{at}" for at in pairs])
    places = "1 + hash(bucket, getvariable('salt')) % greatest(count(*) - 1, 1) AS places"
    size = f"min(row) AS first, count(*) AS n, {places}"
    turn = "b.row = first + (a.row - first + places) % n"
    linked = [f"count(*) FILTER (s.y{at} = t.y{at})" for at in pairs]
    more = [f"count(*) FILTER (s.y{at} = t.y{at} AND z{at} <> t.y{at})" for at in pairs]
    fewer = [f"count(*) FILTER (s.y{at} <> t.y{at} AND z{at} = t.y{at})" for at in pairs]
    found = engine.fetch_one(
        f"SELECT {wrap([*linked, *more, *fewer])} FROM (SELECT a.bucket, {own}, {turned} FROM slices AS a\n"
        f"JOIN (SELECT bucket, {size} FROM slices GROUP BY bucket) AS g USING (bucket) JOIN slices AS b ON {turn}\n"
        f"GROUP BY a.bucket) AS s JOIN (SELECT bucket, {own} FROM true_slices AS a GROUP BY bucket) AS t USING (bucket)"
    )
    for link, ahead, behind in zip(*(found[len(pairs) * at : len(pairs) * (at + 1)] for at in range(3)), strict=True):
        if ahead > behind and (ahead - behind) ** 2 > -2 * math.log(FALSE_ALARM) * (ahead + behind):
            return Check("permuted", False, f"in {link} buckets rows still link the values of two parts")
    return Check("permuted", True, "no two parts are linked in more buckets than chance explains")


def check_tables(release: Release, files: Mapping[str, tuple[Path, str]]) -> Check:
    """Compare the table of quasi values and the table of sensitive values with the rows, bucket by bucket."""
    manifest, engine = release.manifest, release.engine
    sensitive_names = {attribute.name for attribute in manifest.of_role("sensitive")}
    holders = [place for place, part in enumerate(manifest.parts) if sensitive_names & set(part)]
    if len(holders) != 1:
        return Check("tables", False, "the sensitive attributes are in several parts, which two tables cannot show")
    theirs = manifest.part_columns[holders[0]]
    ours = [c for place, part in enumerate(manifest.part_columns) if place != holders[0] for c in part]
    if "count" in theirs:
        return Check("tables", False, "a sensitive column has the name of the counts")
    for what, own, counted in (("quasi", ours, []), ("sensitive", list(theirs), ["count"])):
        path, file_format = files[what]
        columns = ["bucket", *own, *counted]
        if read_names(path, file_format) != columns:
            return Check("tables", False, f"the table of {what} values does not have the columns of its parts")
        view, names, times = f"table_{what}", name_columns(columns), "1"
        engine.run(read_file(str(path), file_format, columns, view).removeprefix(GUARD))
        if counted:  # such a row is as many rows
            text = f"{names['count']}::VARCHAR"
            number = f"try_cast({text} AS BIGINT)"
            times = f"CASE WHEN {number} > 0 AND {number}::VARCHAR = {text} THEN {number} END"
        rows = [_list_rows("release", release.names, own, "1"), _list_rows(view, names, own, f"-({times})")]
        buckets = f"SELECT bucket FROM ({' UNION ALL '.join(rows)}) GROUP BY bucket"
        differ = engine.value(
            f"SELECT count(*) FROM ({buckets}\n"
            "HAVING count(times) < count(*) OR sum(times) <> 0 OR sum(h::HUGEINT * times) <> 0)"
        )
        if differ:
            return Check("tables", False, f"{differ} buckets of the table of {what} values differ from the data")
    return Check("tables", True, "the tables of quasi and of sensitive values agree with the data")


def _list_rows(view: str, names: Mapping[str, str], own: Sequence[str], times: str) -> str:
    """Return the query of the buckets and fingerprints of rows, which are as *times* as many rows."""
    words = [write_word(place, f"{names[name]}::VARCHAR", "VARCHAR") for place, name in enumerate(own)]
    bucket = f"{names['bucket']}::VARCHAR AS bucket"
    return f"SELECT {bucket}, {times} AS times, {write_print(['0'], words)} AS h FROM {view}"
