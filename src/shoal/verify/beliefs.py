"""An adversary's beliefs about tuples, and the promises of a sliced release judged by them.

The belief about a tuple t is a mixture of the buckets that match it:

p(t,s) = sum over buckets B of p(t,B) D(t,B)[s], Li, Li, Zhang and Molloy, Equations (2) to (4).

p(t,B) is in proportion to f(t,B): the product of the shares that the values of t have in the parts of B, over the
shares of the values that overlapping parts have in common. D(t,B) is the distribution of sensitive values in the
tuple's group: the rows of B with its quasi values in the part of the sensitive attribute. If several parts have that
attribute, D(t,B)[s] is the product of the shares of s in the tuple's groups of these parts, over its shares in the
values that such parts have in common.

``entries`` has, for every part and separator, each value in each bucket, which is a group. Products are sums of
logarithms, so very many parts lose no digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from shoal.verify.counting import as_one
from shoal.verify.engine import CannotCheckError
from shoal.verify.people import put_texts
from shoal.verify.promises import Answer, Counts, Promise, Subject, agrees, answer, settle
from shoal.verify.result import CheckedGuarantee
from shoal.verify.slices import Slices

MOST_FORMABLE = 2_000_000  # tuples that are worth forming without a source
_MOST = 1 << 23  # shares of beliefs that are computed together


@dataclass(slots=True)
class _Case:
    """A promise about one subject, and the figures of groups and tuples."""

    promise: Promise
    subject: Subject
    failing_groups: str  # a table
    tuples: int = 0
    failing: int = 0
    figures: list[float] = field(default_factory=list)


class Adversary:
    """An adversary who has the quasi values of tuples, and all buckets."""

    def __init__(self, slices: Slices) -> None:
        self._slices, self._engine, self._layout = slices, slices.engine, slices.layout
        self._columns = self._layout.columns
        self._groups: dict[Subject, tuple[str, list[str]]] = {}
        self.cases: list[_Case] = []
        n_parts, selects = len(self._layout.parts), []
        for at, column in enumerate(self._columns):
            sign = 1 if at < n_parts else -1
            counted = f"SELECT {at} AS part, {sign} AS sign, {column} AS value, bucket, count(*) AS n FROM slices"
            selects.append(f"{counted} GROUP BY ALL")
        sizes = "(SELECT bucket, count(*) AS size FROM slices GROUP BY bucket)"
        lists = "\nUNION ALL ".join(selects)
        self._engine.make(
            "entries", f"SELECT *, sign * ln(n / size) AS share FROM ({lists}) JOIN {sizes} USING (bucket)"
        )

    def count_crowd(self) -> float:
        """Return the smallest number of records of a bucket, or of quasi values within one part."""
        values = f"SELECT sum(n) AS n FROM entries WHERE part < {len(self._layout.parts)} GROUP BY part, value"
        return float(self._engine.value(f"SELECT min(n) FROM ({values} UNION ALL SELECT size FROM entries)"))

    def ask_source(self) -> None:
        """Ask about the distinct tuples of the source."""
        values = ", ".join(f"{column} AS v{at}" for at, column in enumerate(self._columns))
        self._ask(f"SELECT {values}, count(*) AS records FROM true_slices GROUP BY ALL")

    def ask_formable(self) -> bool:
        """Ask about the distinct tuples that some bucket matches, whose parts agree in the values that they share.

        Return whether these are few enough.
        """
        n_parts = len(self._layout.parts)
        widths = f"SELECT bucket, count(*) AS width FROM entries WHERE part < {n_parts} GROUP BY part, bucket"
        formable = f"SELECT product(width) AS formable FROM ({widths}) GROUP BY bucket"
        if self._engine.value(f"SELECT sum(formable) FROM ({formable})") > MOST_FORMABLE:
            return False
        self._engine.make("formed", "SELECT DISTINCT bucket FROM slices")
        for place in range(n_parts):
            columns = [f"q{place} AS v{place}"]
            for number, one in enumerate(self._layout.separators):
                columns += [f"h{number}_{side} AS v{n_parts + number}" for side in (0, 1) if one[side] == place]
            part = f"SELECT DISTINCT bucket, {', '.join(columns)} FROM slices"
            self._engine.make("formed", f"FROM formed NATURAL JOIN ({part})")
        self._ask("SELECT DISTINCT * EXCLUDE (bucket), 1 AS records FROM formed")
        return True

    def _ask(self, tuples: str) -> None:
        """Make the table of tuples, and find the part of each whose value is in the smallest number of buckets."""
        self._engine.make("asked", f"SELECT row_number() OVER () AS t, * FROM ({tuples})")
        values = "\nUNION ALL ".join(f"SELECT t, {at} AS part, v{at} AS value FROM asked" for at in self._places)
        lengths = "(SELECT part, value, count(*) AS length FROM entries GROUP BY ALL)"
        rarest = "min(length) AS length, arg_min(part, length) AS part, arg_min(value, length) AS value"
        self._engine.make("rarest", f"SELECT t, {rarest} FROM ({values}) JOIN {lengths} USING (part, value) GROUP BY t")

    @property
    def _places(self) -> range:
        return range(len(self._columns))

    def match(self, n_values: int) -> Iterator[None]:
        """Find the buckets that match tuples, for some tuples at a time.

        ``matches`` has a row for each tuple t and bucket, with log f(t,B) and the groups g0, g1, ... of all parts.
        """
        widest = f"(SELECT least(max(size), {n_values}) FROM entries)"
        n_pieces = 1 + int(self._engine.value(f"SELECT coalesce(sum(length), 0) * {widest} FROM rarest")) // _MOST
        for piece in range(n_pieces):
            some = f"(FROM rarest WHERE t % {n_pieces} = {piece}) AS r JOIN asked AS a USING (t)"
            begun = "a.* EXCLUDE (records), e.bucket, 0::DOUBLE AS total"
            self._engine.make("matches", f"SELECT {begun} FROM {some} JOIN entries AS e USING (part, value)")
            for at in self._places:
                joined = f"entries AS e ON e.part = {at} AND e.value = v{at} AND e.bucket = m.bucket"
                columns = f"m.* EXCLUDE (v{at}) REPLACE (total + share AS total), e.rowid AS g{at}"
                self._engine.make("matches", f"SELECT {columns} FROM matches AS m JOIN {joined}")
            yield

    def count_groups(self, subject: Subject) -> tuple[str, list[str]]:
        """Count the values of a subject in all groups that D(t,B) is made of.

        Return the table, and the columns of ``matches`` with these groups, parts first.
        """
        if subject in self._groups:
            return self._groups[subject]
        layout, engine, table = self._layout, self._engine, f"groups_{len(self._groups)}"
        owners = [(at, at) for at, part in enumerate(layout.parts) if set(subject) <= set(part.rest)]
        if not owners:
            raise CannotCheckError("the attributes that it is about are in different parts")
        for number, one in enumerate(layout.separators):
            owners += [(len(layout.parts) + number, one.first)] if layout.shared in one.names else []
        joins = ""
        for number, name in enumerate(subject):
            columns = dict.fromkeys(self._slices.columns[place][name] for _, place in owners)
            distinct = "\nUNION ".join(f"SELECT DISTINCT {column} AS s FROM slices" for column in columns)
            source = self._slices.source
            kind = None if source is None else source.types[name]
            put_texts(engine, self._slices.manifest, name, distinct, f"{table}_texts{number}", kind)
            joins += f"\nJOIN {table}_texts{number} AS t{number} ON {{{number}}} IS NOT DISTINCT FROM t{number}.s"
        value, counts = as_one([f"t{number}.value" for number, _ in enumerate(subject)]), []
        for at, place in owners:
            own = joins.format(*(f"slices.{self._slices.columns[place][name]}" for name in subject))
            counts.append(
                f"SELECT e.rowid AS class, part, sign, e.n::HUGEINT AS n, {value} AS value, count(*)::HUGEINT AS c\n"
                f"FROM slices JOIN entries AS e ON e.part = {at} AND e.value = slices.{self._columns[at]}"
                f" AND e.bucket = slices.bucket{own} GROUP BY ALL"
            )
        engine.make("counts", "\nUNION ALL ".join(counts))
        whole = "value, sum(c) AS whole, sum(sum(c)) OVER () AS total, row_number() OVER () AS code"
        engine.make(f"{table}_whole", f"SELECT {whole} FROM counts WHERE part = {owners[0][0]} GROUP BY value")
        coded = f"counts AS c JOIN {table}_whole AS w ON c.value IS NOT DISTINCT FROM w.value"
        engine.make(table, f"SELECT c.*, code, sign * ln(c / n) AS share FROM {coded}")
        self._groups[subject] = table, [f"g{at}" for at, _ in owners]
        return self._groups[subject]

    def _state(self, promise: Promise, subject: Subject, *, mixed: bool) -> Answer:
        """Return the statement of a promise over the counts of groups, or over the shares of mixtures."""
        table, statement = self._groups[subject][0], promise.kind.statement
        attribute = self._slices.manifest.written.attributes[subject[0]] if len(subject) == 1 else None
        whole = f"{table}_whole"
        assert statement is not None  # noqa: S101 - only models of values, which have statements, are judged
        total = f"(SELECT any_value(total) FROM {whole})"
        return statement(promise, Counts("mixed" if mixed else table, attribute, total, whole, shares=mixed))

    def judge_groups(self, promise: Promise, subject: Subject) -> _Case:
        """Judge every group exactly, and begin the case of the tuples."""
        self.count_groups(subject)
        exact = self._state(promise, subject, mixed=False)
        failing = f"failing_{len(self.cases)}"
        each = f"(SELECT *, {exact.each} AS ok FROM {exact.relation})"
        self._engine.make(failing, f"SELECT class FROM {each} GROUP BY class HAVING bool_or(NOT ok)")
        if self._engine.value(f"SELECT count(*) FROM {each} WHERE ok IS NULL"):
            wrong = settle(self._engine, promise, exact, each)
            self._engine.put("settled", {"class": pa.array(wrong, pa.int64())})
            self._engine.run(f"INSERT INTO {failing} FROM settled")
        self.cases.append(_Case(promise, subject, failing))
        return self.cases[-1]

    def judge_tuples(self) -> int:
        """Judge the tuples in question; return how many of their records no bucket matches."""
        engine, tables = self._engine, [table for table, _ in self._groups.values()]
        n_values = max([engine.value(f"SELECT count(*) FROM {table}_whole") for table in tables], default=1)
        lost = int(engine.value("SELECT coalesce(sum(records), 0) FROM asked"))
        for _ in self.match(n_values):
            matched = "SELECT coalesce(sum(records), 0) FROM asked SEMI JOIN matches USING (t)"
            lost -= int(engine.value(matched))
            for subject, (table, factors) in self._groups.items():
                self._mix(table, factors)
                for case in self.cases:
                    if case.subject == subject:
                        self._judge_mixed(case)
        return lost

    def _mix(self, table: str, factors: Sequence[str]) -> None:
        """Make the table of beliefs about the matched tuples: shares c of the values of n = 1."""
        engine, groups = self._engine, ", ".join(factors)
        same = f"JOIN {table} AS f ON f.class = s.{{}}"
        joined = f"SELECT t, {groups}, total + f.share AS total, code FROM matches AS s {same.format(factors[0])}"
        engine.make("joined", joined)
        for group in factors[1:]:
            again = f"FROM joined AS s {same.format(group)} AND f.code = s.code"
            engine.make("joined", f"SELECT s.* REPLACE (total + f.share AS total) {again}")
        engine.make(
            "mixed",
            "WITH tops AS (SELECT t, max(total) AS top FROM joined GROUP BY t),\n"
            "weights AS (SELECT t, code, sum(exp(total - top)) AS c FROM joined JOIN tops USING (t) GROUP BY ALL),\n"
            "sums AS (SELECT t, sum(c) AS sum_c FROM weights GROUP BY t)\n"
            "SELECT t AS class, 1::DOUBLE AS n, value, c / sum_c AS c FROM weights JOIN sums USING (t)\n"
            f"JOIN {table}_whole USING (code) WHERE c > 0",
        )

    def _judge_mixed(self, case: _Case) -> None:
        """Judge mixtures; one of groups that all satisfy a promise does so, too."""
        found, (_, factors) = self._state(case.promise, case.subject, mixed=True), self._groups[case.subject]
        each = f"(SELECT *, {found.each} AS ok FROM {found.relation})"
        failing = f"SELECT DISTINCT class FROM {each} WHERE ok IS NOT TRUE"
        if len(factors) == 1:
            failing += f"\nAND class IN (SELECT t FROM matches WHERE {factors[0]} IN (FROM {case.failing_groups}))"
        tuples = "SELECT count(DISTINCT class) FROM mixed"
        figure = f"SELECT {found.achieved} FROM {found.relation}"
        n, bad, worst = self._engine.fetch_one(f"SELECT ({tuples}), (SELECT count(*) FROM ({failing})), ({figure})")
        if n:
            case.tuples, case.failing = case.tuples + int(n), case.failing + int(bad)
            case.figures.append(float(worst))

    def judge_all_groups(self) -> None:
        """Judge by all groups, which a mixture of them is not worse than."""
        for case in self.cases:
            fails = self._engine.value(f"SELECT count(*) FROM {case.failing_groups}")
            if not fails and len(self._groups[case.subject][1]) == 1:
                exact = self._state(case.promise, case.subject, mixed=False)
                case.figures.append(float(self._engine.value(f"SELECT {exact.achieved} FROM {exact.relation}")))


def check_promises(slices: Slices, *, with_source: bool) -> tuple[list[CheckedGuarantee], int]:
    """Judge every promise by all tuples; also return how many source records match no bucket."""
    adversary, promises = Adversary(slices), slices.manifest.promises
    cases: list[list[_Case] | CheckedGuarantee] = []
    for promise in promises:
        kind = promise.kind
        if promise.obstacle:
            cases.append(answer(promise, None, False, promise.obstacle))
        elif promise.model == "column-frequency":
            cases.append(_judge_crowd(promise, adversary.count_crowd()))
        elif kind.about != "values" or not kind.mixes or kind.statement is None:
            cases.append(answer(promise, None, False, "cannot check: no sliced release can promise this model"))
        else:
            try:
                cases.append([adversary.judge_groups(promise, subject) for subject in promise.subjects])
            except CannotCheckError as obstacle:
                cases.append(answer(promise, None, False, f"cannot check: {obstacle}"))
    lost = 0
    if with_source:
        adversary.ask_source()
    if with_source or adversary.ask_formable():
        lost = adversary.judge_tuples()
    else:
        adversary.judge_all_groups()
    return [_conclude(own, with_source=with_source) if isinstance(own, list) else own for own in cases], lost


def _judge_crowd(promise: Promise, crowd: float) -> CheckedGuarantee:
    fault = None if agrees(promise.claimed, crowd) else "the manifest's 'achieved' is not the figure of the rows"
    if crowd < promise.whole("k"):
        fault = "a bucket, or quasi values within one part, have fewer records"
    good = "every bucket, and all quasi values within one part, have as many records"
    return answer(promise, crowd, not fault, fault or good)


def _conclude(cases: Sequence[_Case], *, with_source: bool) -> CheckedGuarantee:
    """Return a promise with its figures; without the source, a person may be any formable tuple."""
    promise, claimed = cases[0].promise, cases[0].promise.claimed
    tuples, failing = max(case.tuples for case in cases), max(case.failing for case in cases)
    if not all(case.figures for case in cases):
        detail = "the buckets could form too many tuples to judge; only the source shows who is in the table"
        return answer(promise, None, False, "no tuple of the source matches a bucket" if with_source else detail)
    worst = promise.kind.worst
    achieved = worst([figure for case in cases for figure in case.figures])
    which = "tuples of the source" if with_source else "tuples that the buckets could form"
    if failing:
        more = "" if with_source else "; only the source shows who is in the table"
        return answer(promise, achieved, False, f"{failing} of {tuples} different {which} fail it{more}")
    fault, satisfied = None, f"all {f'{tuples} different ' if tuples else ''}{which} satisfy it"
    if not agrees(claimed, achieved):
        satisfied += "; only the source shows whether the 'achieved' is right"
        if with_source:
            fault = "the manifest's 'achieved' is not the figure of the source's tuples"
        elif claimed is None or worst(claimed, achieved) == claimed:
            fault = "the manifest's 'achieved' is worse than the figure of any tuple"
    return answer(promise, achieved, not fault, fault or satisfied)
