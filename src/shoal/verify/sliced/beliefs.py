"""An adversary's beliefs about tuples, and the guarantees of a sliced release, judged by them.

The belief about a tuple is a mixture of the buckets that match it:

p(t,s) = sum over buckets B of p(t,B) D(t,B)[s], Li, Li, Zhang and Molloy, Equations (2) to (4). p(t,B) is in proportion
to f(t,B), the product of the shares that the values of t have in the parts of B, over the shares of the values that
overlapping parts have in common. D(t,B) is the distribution of sensitive values in the tuple's group: the rows of B
with the tuple's quasi values in the part of the sensitive attribute.

If several parts have the sensitive attribute, an adversary joins them through it, and D(t,B)[s] is the product of the
shares of s in the tuple's groups of these parts, over its shares in the values that such parts have in common.

The table ``entries`` is the inverted lists: in which buckets each value of a part occurs, and how often. The buckets
that match a tuple are found by joins that begin with the list of its rarest value. Products are sums of logarithms, so
very many parts lose no digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import pyarrow as pa

from shoal.verify.counting import as_one
from shoal.verify.engine import CannotCheckError
from shoal.verify.people import put_texts
from shoal.verify.promises import Answer, Counts, Promise, Subject, agrees, answer, find_model, worst_of
from shoal.verify.result import CheckedGuarantee
from shoal.verify.sliced.reading import Slices

MOST_FORMABLE = 2_000_000  # tuples that are worth forming without a source
_MOST = 1 << 23  # candidate buckets and shares of beliefs that are looked at together
_JOINS = 8  # in a statement
_PARTS = 1 << 20  # more than any release has; a length and a part are packed into one number


class _Factor(NamedTuple):
    """A table of groups, with the logarithm of each value's share: D(t,B) is a product of these shares."""

    table: str  # class, n, value, c, code, share
    group: str  # the column of matches that has the class
    sign: str = ""


class _Join(NamedTuple):
    clause: str
    term: str  # of the figure that the joins compute together
    column: str = ""


@dataclass(slots=True)
class _Case:
    """A promise about the beliefs in one subject, and the figures of the tuples."""

    promise: Promise
    subject: Subject
    groups: Answer  # how every group does by it, in whole numbers
    failing_groups: str  # a table
    tuples: int = 0
    failing: int = 0
    figures: list[float] = field(default_factory=list)

    def add(self, tuples: int, failing: int, figure: float) -> None:
        self.tuples, self.failing = self.tuples + int(tuples), self.failing + int(failing)
        self.figures.append(float(figure))


class Adversary:
    """Has the quasi values of tuples, and all buckets."""

    def __init__(self, slices: Slices) -> None:
        self._slices, self._engine, self._layout = slices, slices.engine, slices.layout
        self._columns = self._layout.columns
        self._factors: dict[Subject, list[_Factor]] = {}
        self._numbers, self._n_records = count(), 0
        self._engine.make("buckets", "SELECT bucket, count(*) AS n, ln(n) AS share FROM slices GROUP BY bucket")
        counted = "SELECT {}::INTEGER AS part, {} AS value, bucket, count(*)::INTEGER AS n FROM slices GROUP BY ALL"
        lists = "\nUNION ALL ".join(counted.format(at, column) for at, column in enumerate(self._columns))
        self._engine.make("entries", f"SELECT *, ln(n) AS share FROM ({lists})")
        self._engine.make("lists", "SELECT part, value, count(*) AS len, sum(n) AS n FROM entries GROUP BY ALL")

    def count_crowd(self) -> int:
        """Return the smallest number of records of a bucket, or of quasi values within one part."""
        known = f"SELECT n FROM lists WHERE part < {len(self._layout.known)}"
        return int(self._engine.value(f"SELECT min(n) FROM (SELECT n FROM buckets UNION ALL {known})"))

    def ask_source(self) -> None:
        """Make the table of the distinct tuples of the source."""
        tuples = ", ".join(f"{column} AS v{at}" for at, column in enumerate(self._columns))
        self._ask(f"SELECT {tuples}, count(*)::INTEGER AS records FROM true_slices GROUP BY ALL")
        self._engine.run("DROP TABLE true_slices")

    def ask_formable(self) -> bool:
        """Make the table of the distinct tuples that some bucket matches; return whether they are few enough.

        Tuples have values of all parts with quasi-identifiers, and agree in values that parts share.
        """
        known, joining = self._layout.known, self._layout.joining
        widths = f"SELECT part, bucket, count(*) AS width FROM entries WHERE part < {len(known)} GROUP BY ALL"
        formable = f"SELECT product(width) AS formable FROM ({widths}) GROUP BY bucket"
        if self._engine.value(f"SELECT sum(formable) FROM ({formable})") > MOST_FORMABLE:
            return False
        parts = []
        for at, place in enumerate(known):
            columns = ["bucket", f"q{place} AS v{at}"]
            for v, number in enumerate(joining, len(known)):
                sides = (self._layout.separators[number].first, self._layout.separators[number].second)
                columns += [f"h{number}_{sides.index(place)} AS v{v}"] if place in sides else []
            parts.append(f"(SELECT DISTINCT {', '.join(columns)} FROM slices)")
        formed = parts[0]
        for begin in range(1, len(parts), _JOINS):
            joined = " NATURAL JOIN ".join([formed, *parts[begin : begin + _JOINS]])
            formed = f"formed_{begin}"
            self._engine.make(formed, f"FROM {joined}")
        self._ask(f"SELECT DISTINCT * EXCLUDE (bucket), 1 AS records FROM {formed}")
        return True

    def _ask(self, tuples: str) -> None:
        """Make the table of tuples in question, and of these with the length and the part of their shortest list."""
        self._engine.make("asked", f"SELECT row_number() OVER () AS t, *, {1 << 62} AS total FROM ({tuples})")
        joins = [
            _Join(f"JOIN lists AS l{at} ON l{at}.part = {at} AND l{at}.value = s.v{at}", f"l{at}.len * {_PARTS} + {at}")
            for at in range(len(self._columns))
        ]
        self._join("looked", "asked", joins, ("least(s.total, {})", ", "))
        self._n_records = int(self._engine.value("SELECT coalesce(sum(records), 0) FROM asked"))
        self._engine.run("DROP TABLE asked")

    def _join(self, table: str, source: str, joins: Sequence[_Join], how: tuple[str, str], drop: str = "") -> None:
        """Make a table by joins; *how* the terms of each make a new ``total``, and columns to *drop* at last."""
        for begin in range(0, len(joins), _JOINS):
            block, last = joins[begin : begin + _JOINS], begin + _JOINS >= len(joins)
            total = how[0].format(how[1].join(join.term for join in block))
            kept = f"s.* {f'EXCLUDE ({drop}) ' if drop and last else ''}REPLACE ({total} AS total)"
            columns = ", ".join([kept, *(join.column for join in block if join.column)])
            clauses = "\n".join(join.clause for join in block)
            target = table if last else f"{table}_{begin}"
            self._engine.make(target, f"SELECT {columns} FROM {source} AS s\n{clauses}")
            source = target

    def match(self) -> Iterator[int]:
        """Find the buckets that match tuples, for several tuples at a time; yield how many records these have.

        ``matches`` has a row for each of them and each bucket: log f(t,B), which is ``total``, and the groups g0, g1,
        ... ``owners`` has a row for each tuple.
        """
        known, every = len(self._layout.known), range(len(self._columns))
        signs = ["" if at < known else "-" for at in every]
        values = ", ".join(f"v{at}" for at in every)
        found = f"SELECT total % {_PARTS}, sum(total // {_PARTS}) FROM looked GROUP BY 1 ORDER BY 1"
        for rarest, work in self._engine.fetch(found):
            joins = [
                _Join(
                    f"JOIN entries AS e{at} ON e{at}.part = {at} AND e{at}.value = s.v{at} AND e{at}.bucket = s.bucket",
                    f"{signs[at]}e{at}.share",
                    f"e{at}.rowid AS g{at}",
                )
                for at in every
                if at != rarest
            ]
            joins.append(_Join("JOIN buckets AS b ON b.bucket = s.bucket", f"{len(every) - 2 * known} * b.share"))
            n_pieces = 1 + work // _MOST
            for piece in range(n_pieces):
                begun = (
                    f"(SELECT t, records, {values}, e.bucket, e.rowid AS g{rarest}, {signs[rarest]}e.share AS total\n"
                    f"FROM looked JOIN entries AS e ON e.part = {rarest} AND e.value = v{rarest}\n"
                    f"WHERE total % {_PARTS} = {rarest} AND t % {n_pieces} = {piece})"
                )
                self._join("matches", begun, joins, ("s.total + {}", " + "), values)
                owners = "SELECT t, count(*) AS times, max(total) AS top, any_value(records) AS records FROM matches"
                self._engine.make("owners", f"{owners} GROUP BY t")
                yield int(self._engine.value("SELECT coalesce(sum(records), 0) FROM owners"))

    def list_factors(self, subject: Subject) -> list[_Factor]:
        """Return the factors of D(t,B); the first are the groups of a part that has the sensitive attributes."""
        if subject in self._factors:
            return self._factors[subject]
        layout = self._layout
        places = [place for place, part in enumerate(layout.parts) if set(subject) <= set(part.rest)]
        if not places:
            raise CannotCheckError("the attributes that it is about are in different parts")
        codes = [self._put_codes(name, places) for name in subject]
        found = [self._count(subject, codes, place, f"q{place}") for place in places]
        for number, separator in enumerate(layout.separators):
            if layout.shared in separator.names:
                found.append(self._count(subject, codes, separator.first, f"h{number}_0", "-"))
        whole = f"SELECT code, value, sum(c) AS whole, sum(sum(c)) OVER () AS total FROM {found[0].table}"
        self._engine.make(f"{found[0].table}_whole", f"{whole} GROUP BY code, value")
        self._factors[subject] = found
        return found

    def _put_codes(self, name: str, places: Sequence[int]) -> str:
        """Make the table of an attribute's values s, their normal form, and its number."""
        source, table = self._slices.source, f"codes_{next(self._numbers)}"
        kind = None if source is None else source.types[name]
        every = "\nUNION ".join(f"SELECT DISTINCT {self._slices.columns[at][name]} AS s FROM slices" for at in places)
        put_texts(self._engine, self._slices.manifest, name, every, f"{table}_texts", kind)
        coded = f"SELECT *, (dense_rank() OVER (ORDER BY value))::INTEGER AS code FROM {table}_texts"
        self._engine.make(table, coded)
        return table

    def _count(self, subject: Subject, codes: Sequence[str], place: int, column: str, sign: str = "") -> _Factor:
        """Count the sensitive values that a part has in every group."""
        table, code = f"groups_{next(self._numbers)}", as_one([f"{own}.code" for own in codes])
        value, owner, group = f"{codes[0]}.value" if len(codes) == 1 else code, "g.bucket", "bucket"
        joins = "JOIN buckets AS g USING (bucket)"
        if column in self._columns:
            part = self._columns.index(column)
            joins = f"JOIN entries AS g ON g.part = {part} AND g.value = slices.{column} AND g.bucket = slices.bucket"
            owner, group = "g.rowid", f"g{part}"
        for name, own in zip(subject, codes, strict=True):
            s = self._slices.columns[place][name]
            joins += f"\nJOIN {own} ON slices.{s} IS NOT DISTINCT FROM {own}.s"
        counted = (
            f"SELECT {owner} AS class, g.n::HUGEINT AS n, {value} AS value, {code} AS code, count(*)::HUGEINT AS c"
        )
        self._engine.make(table, f"SELECT *, ln(c / n) AS share FROM ({counted}\nFROM slices {joins}\nGROUP BY ALL)")
        return _Factor(table, group, sign)

    def _state(self, promise: Promise, subject: Subject, table: str | None = None) -> Answer:
        """Return the statement of a promise over counts of groups, or over a table of shares."""
        model, groups = find_model(promise.model), self.list_factors(subject)[0].table
        attribute = self._slices.manifest.written.attributes[subject[0]] if len(subject) == 1 else None
        whole = f"{groups}_whole"
        total = f"(SELECT any_value(total) FROM {whole})"
        assert model is not None  # noqa: S101 - only models of values, which have statements, are judged
        assert model.statement is not None  # noqa: S101
        return model.statement(promise, Counts(table or groups, attribute, total, whole, shares=table is not None))

    def judge_groups(self, promise: Promise, subject: Subject) -> _Case:
        """Judge every group exactly."""
        groups, model = self._state(promise, subject), find_model(promise.model)
        table = f"failing_{next(self._numbers)}"
        each = f"(SELECT *, {groups.each} AS ok FROM {groups.relation})"
        self._engine.make(table, f"SELECT class FROM {each} GROUP BY class HAVING bool_or(NOT ok)")
        if self._engine.value(f"SELECT count(*) FROM {each} WHERE ok IS NULL"):
            if model is None or model.settle is None:
                raise CannotCheckError("some of its values have no place in their order or taxonomy")
            close = self._engine.read(f"SELECT class, n, cs FROM {each} WHERE ok IS NULL").to_pylist()
            failing = [int(one["class"]) for one in close if not model.settle(promise, one)]
            self._engine.put("settled", {"class": pa.array(failing, pa.int64())})
            self._engine.run(f"INSERT INTO {table} FROM settled")
        return _Case(promise, subject, groups, table)

    def judge_tuples(self, cases: Sequence[_Case]) -> int:
        """Judge the tuples in question; return how many of their records no bucket matches."""
        engine, lost = self._engine, self._n_records
        subjects = {case.subject: self.list_factors(case.subject) for case in cases}
        alone = {subject: f"{own[0].table}_alone" for subject, own in subjects.items() if len(own) == 1}
        for table in alone.values():
            engine.make(table, "SELECT 0::BIGINT AS class, 0::BIGINT AS tuples WHERE false")
        for records in self.match():
            lost -= records
            for subject, factors in subjects.items():
                if subject in alone:
                    own = f"SELECT {factors[0].group}, count(*) FROM matches JOIN owners USING (t) WHERE times = 1"
                    engine.run(f"INSERT INTO {alone[subject]} {own} GROUP BY 1")
                for _ in self._mix(factors):
                    for case in (case for case in cases if case.subject == subject):
                        self._judge_mixed(case)
        for case in (case for case in cases if case.subject in alone):
            self._judge_alone(case, alone[case.subject])
        return lost

    def _mix(self, factors: Sequence[_Factor]) -> Iterator[None]:
        """Make the table of beliefs about tuples, except the counts of one group, for several tuples at a time."""
        engine, (table, group, _) = self._engine, factors[0]
        several = f"times > {int(len(factors) == 1)}"
        n_values = f"(SELECT count(*) FROM {table}_whole)"
        work = f"SELECT sum(least(times * (SELECT max(n) FROM buckets), {n_values})) FROM owners WHERE {several}"
        n_pieces = -int(-(engine.value(work) or 0) // _MOST)
        for piece in range(n_pieces):
            some = f"(FROM owners WHERE {several} AND hash(t) % {n_pieces} = {piece})"
            joined = f"matches JOIN {some} AS o USING (t) JOIN {table} AS f ON {group} = f.class"
            share = "total + f.share - top"
            if len(factors) > 1:
                groups = ", ".join(sorted({one.group for one in factors}))
                joins = [
                    _Join(
                        f"JOIN {one.table} AS f{at} ON f{at}.class = s.{one.group} AND f{at}.code = s.code",
                        f"{one.sign}f{at}.share",
                    )
                    for at, one in enumerate(factors)
                ]
                begun = f"(SELECT t, total, {groups}, code FROM {joined})"
                self._join("joined", begun, joins, ("s.total + {}", " + "), groups)
                joined = "joined JOIN (SELECT t, max(total) AS top FROM joined GROUP BY t) USING (t)"
                share = "total - top"
            weights = f"SELECT t, code, sum(exp({share})) AS c FROM {joined} GROUP BY ALL"
            engine.make("weights", f"FROM ({weights}) WHERE c > 0")
            engine.make(
                "mixed",
                "SELECT t AS class, 1::DOUBLE AS n, value, c / all_c AS c FROM weights\n"
                f"JOIN (SELECT t, sum(c) AS all_c FROM weights GROUP BY t) USING (t) JOIN {table}_whole USING (code)",
            )
            if engine.value("SELECT count(*) FROM mixed"):
                yield

    def _judge_mixed(self, case: _Case) -> None:
        """Judge mixtures; one of groups that all satisfy a promise does so, too."""
        found, factors = self._state(case.promise, case.subject, "mixed"), self.list_factors(case.subject)
        failing = (
            f"SELECT DISTINCT class FROM (SELECT *, {found.each} AS ok FROM {found.relation})\nWHERE ok IS NOT TRUE"
        )
        if len(factors) == 1:
            failing += f" AND class IN (SELECT t FROM matches WHERE {factors[0].group} IN (FROM {case.failing_groups}))"
        figure = f"SELECT {found.achieved} FROM {found.relation}"
        tuples = "SELECT count(DISTINCT class) FROM mixed"
        case.add(*self._engine.fetch_one(f"SELECT ({tuples}), (SELECT count(*) FROM ({failing})), ({figure})"))

    def _judge_alone(self, case: _Case, table: str) -> None:
        """Judge tuples that one bucket matches."""
        if self._engine.value(f"SELECT count(*) FROM {table}"):
            failing = f"SELECT coalesce(sum(tuples), 0) FROM {table} SEMI JOIN {case.failing_groups} USING (class)"
            own = f"SELECT * FROM {case.groups.relation} WHERE class IN (SELECT class FROM {table})"
            figure = f"SELECT {case.groups.achieved} FROM ({own})"
            case.add(*self._engine.fetch_one(f"SELECT (SELECT sum(tuples) FROM {table}), ({failing}), ({figure})"))

    def judge_all_groups(self, case: _Case) -> None:
        """Judge by all groups, which a mixture of them is not worse than."""
        fails = self._engine.value(f"SELECT count(*) FROM {case.failing_groups}")
        if not fails and len(self.list_factors(case.subject)) == 1:
            case.add(0, 0, self._engine.value(f"SELECT {case.groups.achieved} FROM {case.groups.relation}"))


def check_promises(
    adversary: Adversary, promises: Sequence[Promise], *, with_source: bool
) -> tuple[list[CheckedGuarantee], int]:
    """Return every promise beside the figure of the tuples, and how many records of the source match no bucket."""
    outcomes: dict[int, CheckedGuarantee] = {}
    cases: dict[int, list[_Case]] = {}
    for place, promise in enumerate(promises):
        model = find_model(promise.model)
        if promise.obstacle:
            outcomes[place] = answer(promise, None, False, promise.obstacle)
        elif promise.model == "column-frequency":
            outcomes[place] = _judge_crowd(promise, float(adversary.count_crowd()))
        elif model is None or model.about != "values" or not model.mixes or model.statement is None:
            outcomes[place] = answer(promise, None, False, "cannot check: no sliced release can promise this model")
        else:
            try:
                cases[place] = [adversary.judge_groups(promise, subject) for subject in promise.subjects]
            except CannotCheckError as obstacle:
                outcomes[place] = answer(promise, None, False, f"cannot check: {obstacle}")
    if with_source:
        adversary.ask_source()
    every, lost = [case for own in cases.values() for case in own], 0
    if with_source or adversary.ask_formable():
        lost = adversary.judge_tuples(every)
    else:
        for case in every:
            adversary.judge_all_groups(case)
    for place, own in cases.items():
        outcomes[place] = _conclude(own, with_source=with_source)
    return [outcomes[place] for place in range(len(promises))], lost


def _judge_crowd(promise: Promise, crowd: float) -> CheckedGuarantee:
    if crowd < promise.whole("k"):
        return answer(promise, crowd, False, "a bucket, or quasi values within one part, have fewer records")
    if not agrees(promise.claimed, crowd):
        return answer(promise, crowd, False, "the manifest's 'achieved' is not the figure of the rows")
    return answer(promise, crowd, True, "every bucket, and all quasi values within one part, have as many records")


def _conclude(cases: Sequence[_Case], *, with_source: bool) -> CheckedGuarantee:
    """Return a promise beside the figures of its subjects; without a source everyone may be any formable tuple."""
    promise, claimed = cases[0].promise, cases[0].promise.claimed
    tuples, failing = max(case.tuples for case in cases), max(case.failing for case in cases)
    if not all(case.figures for case in cases):
        detail = "the buckets could form too many tuples to judge; only the source shows who is in the table"
        return answer(promise, None, False, "no tuple of the source matches a bucket" if with_source else detail)
    worst = worst_of(promise)
    achieved = worst([figure for case in cases for figure in case.figures])
    which = "tuples of the source" if with_source else "tuples that the buckets could form"
    if failing:
        more = "" if with_source else "; only the source shows who is in the table"
        return answer(promise, achieved, False, f"{failing} of {tuples} different {which} fail it{more}")
    satisfied = f"all {f'{tuples} different ' if tuples else ''}{which} satisfy it"
    if agrees(claimed, achieved):
        return answer(promise, achieved, True, satisfied)
    if with_source:
        return answer(promise, achieved, False, "the manifest's 'achieved' is not the figure of the source's tuples")
    if claimed is None or worst(claimed, achieved) == claimed:
        return answer(promise, achieved, False, "the manifest's 'achieved' is worse than the figure of any tuple")
    return answer(promise, achieved, True, f"{satisfied}; only the source shows whether the 'achieved' is right")
