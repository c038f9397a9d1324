"""Every privacy model as a statement in SQL over the counts of equivalence classes.

A statement answers with one row: model, requirement, figure reached, whether it holds (NULL: not decided here). Counts
are integers of 128 bits and limits are fractions, multiplied out. Logarithms are compared with a margin.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from shoal.core.dictionaries import fold_text
from shoal.manifest import Attribute
from shoal.verify.exact import CannotCheckError, flatten_taxonomy
from shoal.verify.guarantees import Subject, spread_label
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Promise, find_model, psi_limits

_MARGIN = "1e-9"  # entropies closer to their limit than this are not decided
_WIDEST = 2**100  # parts of a record, times records, stay within 128 bits
WIDTH = 110  # of a line
_MOST_ROWS = 20_000  # of a table that is written into the script
# Letters for which lower case and NFC give the same normal form as shoal.core.dictionaries.fold_text.
PLAIN = (
    r"\t-\r -~¿-Þà-įŊ-žΣ-ρЀ-ҁҊ-ԯ\x{5D0}-\x{5EA}\x{620}-\x{64A}"
    r"ก-าぁ-ゖァ-ヺ一-鿿가-힣Ḁ-ẙẠ-ỹ"
)
ALL_HOLD = """\
CREATE TEMP MACRO all_hold(h) AS CASE WHEN bool_or(NOT h) THEN false WHEN bool_or(h IS NULL) THEN NULL ELSE true END;
"""
MACROS = rf"""
{ALL_HOLD}CREATE TEMP MACRO agrees(found, stated) AS
  found = stated OR abs(found - stated) <= 1e-9 * greatest(abs(found), abs(stated), 1);
CREATE TEMP MACRO power(b, e) AS
  list_reduce(list_transform(range(e::BIGINT), lambda i: b::HUGEINT), lambda x, y: x * y);
-- Spellings of one value count as one value.
CREATE TEMP MACRO folded(t) AS
  trim(regexp_replace(lower(replace(nfc_normalize(t), 'İ', 'i' || chr(775))), '[\t-\r ]+', ' ', 'g'));
"""
_SPELLING = r"""-- SQL cannot compare the spellings of values with letters outside this list, and decides nothing then.
CREATE TEMP MACRO decided(h) AS CASE WHEN (SELECT count(*) FROM ({}) WHERE NOT regexp_full_match(value,
  '[{}]*')) = 0 THEN h END;
"""


def quote_name(name: str) -> str:
    """Return a name of a column or table as SQL has it.

    >>> print(quote_name('a"; DROP TABLE x; --'))
    "a""; DROP TABLE x; --"
    """
    return '"' + _demand_text(name).replace('"', '""') + '"'


def quote_text(text: str | None) -> str:
    """Return a text as SQL has it.

    >>> print(quote_text("it's"), quote_text(None))
    'it''s' NULL
    """
    return "NULL" if text is None else "'" + _demand_text(text).replace("'", "''") + "'"


def _demand_text(text: str) -> str:
    if "\0" in text or (not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)):
        raise CannotCheckError("a text cannot be written in SQL")
    return text


def _write_table(rows: Sequence[Sequence[str]], columns: str) -> str:
    """Return a table whose rows are in the script."""
    if len(rows) > _MOST_ROWS:
        raise CannotCheckError("a table is too long for a script")
    lines = ",\n  ".join(f"({', '.join(row)})" for row in rows)
    return f"(VALUES\n  {lines}) AS t({columns})"


def fold_column(text: str, attribute: Attribute, missing: Sequence[str]) -> str:
    """Return the normal form of published values, NULL for missing ones."""
    unknown = ", ".join(map(quote_text, [*missing, *(["nan"] if attribute.kind == "number" else [])]))
    return f"CASE WHEN {text} NOT IN ({unknown}) THEN folded({text}) END" if unknown else f"folded({text})"


class Counts(NamedTuple):
    """A table with the records of each class that have each value: columns class, value, c and n."""

    table: str
    attribute: Attribute | None  # None for joint values of several attributes


class Subjects:
    """The tables of counts that the promises of a manifest need; each is made once."""

    def __init__(self, manifest: Manifest, spell: Callable[[str], str]) -> None:
        """Take a function that returns a column as the text that was published."""
        self._sensitive = {one.name: (place + 1, one) for place, one in enumerate(manifest.of_role("sensitive"))}
        self._manifest, self._spell = manifest, spell
        self._texts: dict[str, str] = {}  # attribute -> the statement that lists its values
        self._made: dict[tuple[Subject, str], tuple[Counts, str]] = {}

    def statements(self) -> Iterator[str]:
        """Yield the statements that make the tables."""
        yield from self._texts.values()
        folded = [f"FROM texts{self._sensitive[name][0]}" for name in self._texts if not self._sensitive[name][1].boxed]
        if self._made:
            yield _SPELLING.format(" UNION ALL ".join(folded) or "SELECT '' AS value", PLAIN)
        for _, statement in self._made.values():
            yield statement

    def count(self, subject: Subject, weights: Mapping[str, float] | None = None) -> Counts:
        """Return the counts of a subject's values, or of the values under its labels by an adversary's weights."""
        key = (subject, json.dumps(weights, sort_keys=True))
        if key not in self._made:
            places = [self._list_texts(name) for name in subject]
            attribute = self._sensitive[subject[0]][1] if len(subject) == 1 else None
            value, count, n, source = ", ".join(f"texts{place}.value" for place in places), "c", "n", "cells"
            for place in places:
                source += f" JOIN texts{place} ON cells.s{place} IS NOT DISTINCT FROM texts{place}.s"
            if any(self._sensitive[name][1].boxed for name in subject):
                if attribute is None:
                    raise CannotCheckError("joint values are generalized")
                table, parts = self._share(attribute, weights)
                source += f"\n  JOIN {table} ON {value} IS NOT DISTINCT FROM label"
                value, count, n = "t.value", "c * parts", f"n * {parts}::HUGEINT AS n"
            elif attribute is None:
                value = f"({value})"
            table = f"v{len(self._made) + 1}"
            statement = (
                f"CREATE TEMP TABLE {table} AS SELECT class, {n}, {value} AS value, sum({count}) AS c\n"
                f"FROM {source}\nGROUP BY ALL;\n"
            )
            self._made[key] = Counts(table, attribute), statement
        return self._made[key][0]

    def _list_texts(self, name: str) -> int:
        """Return the place of a sensitive attribute whose values are listed: as published, and in their normal form."""
        place, one = self._sensitive[name]
        text = self._spell("s")
        folded = text if one.boxed else fold_column(text, one, self._manifest.missing_tokens)
        self._texts[name] = (
            f"CREATE TEMP TABLE texts{place} AS SELECT s, {folded} AS value\n"
            f"FROM (SELECT DISTINCT s{place} AS s FROM cells);\n"
        )
        return place

    def _share(self, attribute: Attribute, weights: Mapping[str, float] | None) -> tuple[str, int]:
        """Return the values under each label, with the parts that each of them is given, and the parts of a record."""
        labels: tuple[str | None, ...] = (*(attribute.labels or {}), None)
        shares = {label: spread_label(label, attribute, weights) for label in labels}
        factor = math.lcm(*(part.denominator for spread in shares.values() for part in spread.values()))
        if factor * max(self._manifest.rows, 1) > _WIDEST:
            raise CannotCheckError("induced frequencies are too fine for SQL")
        rows = [
            (quote_text(label), quote_text(value), f"{int(part * factor)}::HUGEINT")
            for label, spread in shares.items()
            for value, part in spread.items()
        ]
        return _write_table(rows, "label, value, parts"), factor


class Answer(NamedTuple):
    """The figure that classes reach and whether they satisfy a model, in SQL, over a relation."""

    achieved: str
    holds: str
    relation: str


Statement = Callable[[Promise, Counts], Answer]


def state(promise: Promise, subjects: Subjects, *, claimed: bool = True) -> str | None:
    """Return the statement of a promise; None if SQL cannot decide it.

    With *claimed*, the figure that the manifest states must be the one that is reached.
    """
    model = find_model(promise.model)
    required = ", ".join(f"{name} = {_show(value)}" for name, value in promise.parameters.items() if value)
    stated = ""
    if claimed:
        stated = " AND " + ("false" if promise.claimed is None else f"agrees(achieved, {promise.claimed!r})")
    try:
        if promise.model in _SIZES:
            return _write(promise, required, f"holds{stated}", _select(_SIZES[promise.model](promise)))
        if promise.model not in _VALUES or model is None:
            return None
        answers = []
        for subject in promise.subjects:
            counts = subjects.count(subject, promise.parameters.get("weights"))
            if counts.attribute is not None and counts.attribute.boxed and not model.labels:
                raise CannotCheckError("values are generalized")
            if counts.attribute is None and promise.parameters.get("harmless"):
                raise CannotCheckError("joint values have no names that could be harmless")
            answers.append(_select(_VALUES[promise.model](promise, counts)))
    except CannotCheckError:
        return None
    found = answers[0]
    if len(answers) > 1:
        worst = "min" if model.worst is min else "max"
        both = "\n  UNION ALL\n  ".join(answers)
        found = f"SELECT {worst}(achieved) AS achieved, all_hold(holds) AS holds FROM (\n  {both})"
    return _write(promise, required, f"decided(holds{stated})", found)


def _select(answer: Answer) -> str:
    line = f"SELECT {answer.achieved} AS achieved, {answer.holds} AS holds FROM {answer.relation}"
    if len(line) < WIDTH:
        return line
    return f"SELECT {answer.achieved} AS achieved,\n    {answer.holds} AS holds\n  FROM {answer.relation}"


def _write(promise: Promise, required: str, holds: str, found: str) -> str:
    texts = f"{quote_text(promise.model)}, {quote_text(required)}"
    return f"SELECT {texts}, achieved::DOUBLE::VARCHAR, {holds}\nFROM ({found})"


def _show(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isprintable() and len(text) < 100 else "..."


def _at_most(top: str, bottom: str, limit: Fraction, *, strict: bool = False) -> str:
    """Return whether top / bottom <= limit, in whole numbers."""
    return f"{top} * {limit.denominator} {'<' if strict else '<='} {bottom} * {limit.numerator}"


def _harmful(promise: Promise) -> str:
    """Return whether a value is not called harmless."""
    harmless = promise.parameters.get("harmless") or ()
    listed = ", ".join(quote_text(fold_text(text)) for text in harmless)
    return f"(value IS NULL OR value NOT IN ({listed}))" if harmless else "true"


def _k_anonymity(promise: Promise) -> Answer:
    return Answer("min(n)", f"min(n) >= {promise.whole('k')}", "classes")


def _profitability(promise: Promise) -> Answer:
    gain, cost = promise.fraction("gain"), promise.fraction("cost")
    holds = f"{gain.numerator * cost.denominator} <= min(n) * {cost.numerator * gain.denominator}"
    return Answer(f"{float(gain)!r} / min(n)", holds, "classes")


def _average_risk(promise: Promise) -> Answer:
    return Answer("count(*) / sum(n)", _at_most("count(*)", "sum(n)", promise.fraction("risk")), "classes")


def _sample_uniqueness(promise: Promise) -> Answer:
    unique = "count(*) FILTER (n = 1)"
    return Answer(f"{unique} / sum(n)", _at_most(unique, "sum(n)", promise.fraction("fraction")), "classes")


def _distinct(promise: Promise, counts: Counts) -> Answer:
    by_class = (
        f"(SELECT count(*) AS kinds, bool_or({_harmful(promise)}) AS any_harmful FROM {counts.table} GROUP BY class)"
    )
    reached = "min(CASE WHEN any_harmful THEN kinds ELSE (SELECT sum(n) FROM classes) END)"
    return Answer(reached, f"all_hold(kinds >= {promise.whole('l')} OR NOT any_harmful)", by_class)


def _largest_by_class(promise: Promise, counts: Counts) -> str:
    largest = f"coalesce(max(c) FILTER ({_harmful(promise)}), 0)"
    return f"(SELECT n, {largest} AS largest FROM {counts.table} GROUP BY class, n)"


def _simple(promise: Promise, counts: Counts) -> Answer:
    reached = "min(CASE WHEN largest > 0 THEN n / largest ELSE (SELECT sum(n) FROM classes) END)"
    holds = f"all_hold({_at_most('largest', 'n', 1 / promise.fraction('l'))})"
    return Answer(reached, holds, _largest_by_class(promise, counts))


def _alpha_k(promise: Promise, counts: Counts) -> Answer:
    holds = f"all_hold({_at_most('largest', 'n', promise.fraction('alpha'))} AND n >= {promise.whole('k')})"
    return Answer("max(largest / n)", holds, _largest_by_class(promise, counts))


def _entropy(promise: Promise, counts: Counts) -> Answer:
    """Compare exp(entropy) with l: h counted records satisfy it if n**h >= l**h * product of c**c.

    Within the margin this is decided by whole numbers if values are equally frequent, or if they are small.
    """
    l = promise.fraction("l")
    where = f" WHERE {_harmful(promise)}" if promise.parameters["harmless"] else ""
    by_class = (
        "(SELECT n, list(c) AS cs, min(c) AS least, max(c) AS most, -sum(c * ln(c / n)) / sum(c) AS h"
        f" FROM {counts.table}{where} GROUP BY class, n)"
    )
    small = max(n for n in range(1, 64) if n == 1 or (n * max(l.numerator, l.denominator)) ** n < 2**120)
    near = (
        "(SELECT *, n // d AS m, list_transform(cs, lambda c: c // d) AS ms"
        f" FROM (SELECT *, list_reduce(list_append(cs, n), lambda a, b: gcd(a, b)) AS d FROM {by_class}))"
    )
    powers = f"list_transform(ms, lambda c: power(c, c) * power({l.numerator}, c))"
    exactly = f"power(m * {l.denominator}, list_sum(ms)) >= list_reduce({powers}, lambda a, b: a * b)"
    holds = (
        f"all_hold(CASE WHEN least = most THEN {_at_most('least', 'n', 1 / l)}"
        f" WHEN abs(h - ln({float(l)!r})) > {_MARGIN} THEN h > ln({float(l)!r})\n"
        f"      WHEN m <= {small} THEN {exactly} END)"
    )
    return Answer("coalesce(min(exp(h)), (SELECT sum(n) FROM classes))", holds, near)


def _recursive(promise: Promise, counts: Counts) -> Answer:
    """Compare the most frequent harmful value, at rank y, with the tail: Definition 4.3 of l-diversity."""
    l, limit = promise.whole("l"), promise.fraction("c")
    ranked = (
        f"(SELECT class, c, {_harmful(promise)} AS harmful,"
        f" row_number() OVER (PARTITION BY class ORDER BY c DESC, {_harmful(promise)} DESC) AS r FROM {counts.table})"
    )
    at_y = f"(SELECT *, min(r) FILTER (harmful) OVER (PARTITION BY class) AS y FROM {ranked})"
    later = f"CASE WHEN y < {l} THEN r >= {l} ELSE r >= {l} - 1 AND r <> y END" if l > 1 else "true"
    by_class = (
        f"(SELECT coalesce(max(c) FILTER (r = y), 0) AS largest, coalesce(sum(c) FILTER ({later}), 0) AS tail"
        f" FROM {at_y} GROUP BY class)"
    )
    below = f"largest = 0 OR tail > 0 AND {_at_most('largest', 'tail', limit, strict=True)}" if l > 1 else "true"
    reached = "max(CASE WHEN tail > 0 THEN largest / tail WHEN largest > 0 THEN 'inf'::DOUBLE ELSE 0 END)"
    return Answer(reached, f"all_hold({below})", by_class)


def _tau_l(promise: Promise, counts: Counts) -> Answer:
    """Compare the k most frequent values together, for every k, with psi(k)."""
    tau, limits = promise.fraction("tau"), psi_limits(promise)
    rows = []
    for k, limit in enumerate(limits[:-1]):
        # Another tau bends the curve so that 1 - psi(k) stays in proportion to 1 - tau.
        bend = 1 - Fraction(k, len(limits) - 1) if tau == 1 else (1 - limit) / (1 - tau)
        rows.append((str(k + 1), f"{limit.numerator}::HUGEINT", f"{limit.denominator}::HUGEINT", repr(float(bend))))
    if max((limit.denominator for limit in limits), default=1) * 2**60 > _WIDEST:
        raise CannotCheckError("psi is too fine for SQL")
    summed = (
        f"(SELECT n, row_number() OVER w AS k, sum(CASE WHEN {_harmful(promise)} THEN c ELSE 0 END) OVER w AS top"
        f" FROM {counts.table} WINDOW w AS (PARTITION BY class"
        f" ORDER BY CASE WHEN {_harmful(promise)} THEN c ELSE 0 END DESC ROWS UNBOUNDED PRECEDING))"
    )
    joined = f"{summed} JOIN {_write_table(rows, 'k, most, of_all, bend')} USING (k)"
    reached = "greatest(max(CASE WHEN bend > 0 THEN 1 - (1 - top / n) / bend END), 0)"
    return Answer(f"coalesce({reached}, 0)", "all_hold(top * of_all <= n * most)", joined)


def _whole(counts: Counts) -> str:
    """Return the records of the table that have each value, and all of them."""
    return f"(SELECT value, sum(c) AS whole, sum(sum(c)) OVER () AS total FROM {counts.table} GROUP BY value)"


def _beside_whole(counts: Counts) -> str:
    """Return the counts with the records of the table that have each value."""
    joined = f"{counts.table} AS v JOIN {_whole(counts)} AS w ON v.value IS NOT DISTINCT FROM w.value"
    return f"(SELECT v.*, whole, total FROM {joined})"


def _beta(promise: Promise, counts: Counts) -> Answer:
    gain = f"CASE WHEN {_harmful(promise)} THEN greatest(c * total - n * whole, 0) ELSE 0 END"
    gains = f"(SELECT whole, total, n * whole AS base, {gain} AS gain FROM {_beside_whole(counts)})"
    holds = _at_most("gain", "base", promise.fraction("beta"))
    if promise.parameters["enhanced"]:
        holds += " AND (gain = 0 OR gain / base * (1 + 1e-12) + 1e-12 < -ln(whole / total))"
    return Answer("max(gain / base)", f"all_hold({holds})", gains)


def _delta_disclosure(promise: Promise, counts: Counts) -> Answer:
    harmful = _harmful(promise)
    change = f"CASE WHEN c * total <> n * whole AND {harmful} THEN abs(ln(c * total / (n * whole))) ELSE 0 END"
    every = f"(SELECT count(*) FROM (SELECT DISTINCT value FROM {counts.table} WHERE {harmful}))"
    by_class = (
        f"(SELECT CASE WHEN count(*) FILTER ({harmful}) < {every} THEN 'inf'::DOUBLE ELSE max({change}) END AS change"
        f" FROM {_beside_whole(counts)} GROUP BY class)"
    )
    limit = float(promise.fraction("delta"))
    return Answer("max(change)", f"all_hold(change * (1 + 1e-12) + 1e-12 < {limit!r})", by_class)


def _t_closeness(promise: Promise, counts: Counts) -> Answer:
    distance = promise.parameters["distance"]
    if distance == "equal":
        work, factor = _measure_equal(counts)
    elif counts.attribute is None:
        raise CannotCheckError("joint values have no order and no taxonomy")
    elif distance == "ordered":
        work, factor = _measure_ordered(counts, counts.attribute)
    else:
        work, factor = _measure_hierarchy(counts, counts.attribute)
    holds = _at_most("work", f"(n * total * {factor})", promise.fraction("t"))
    return Answer(f"max(work / (n * total * {factor}))", f"all_hold({holds})", work)


def _measure_equal(counts: Counts) -> tuple[str, str]:
    # Values that a class lacks differ by their whole share, so all shares are counted first.
    gaps = "sum(abs(c * total - whole * n) - whole * n) + n * total"
    return f"(SELECT n, total, {gaps} AS work FROM {_beside_whole(counts)} GROUP BY class, n, total)", "2"


def _list_gaps(counts: Counts, columns: str, join: str = "") -> str:
    """Return the records that each class has beyond its share of each value, times both sizes."""
    return (
        f"(SELECT o.class, o.n, total, {columns}, coalesce(v.c, 0) * total - whole * o.n AS gap"
        f" FROM (SELECT DISTINCT class, n FROM {counts.table}) AS o CROSS JOIN {_whole(counts)} AS w {join}"
        f" LEFT JOIN {counts.table} AS v ON v.class = o.class AND v.value IS NOT DISTINCT FROM w.value)"
    )


def _measure_ordered(counts: Counts, attribute: Attribute) -> tuple[str, str]:
    """Return the work along the ranks of the values that occur; an order without one of them decides nothing."""
    order = attribute.order
    if order is None and attribute.taxonomy is not None and attribute.kind in ("category", "prefix"):
        order = tuple(str(leaf) for leaf in flatten_taxonomy(attribute.taxonomy)[2])
    kind = "DOUBLE" if attribute.kind == "number" else "TIMESTAMP"
    join, place = "", f"try_cast(w.value AS {kind})"
    if attribute.kind != "number" and (attribute.kind != "date" or order is not None):
        if order is None:
            raise CannotCheckError("the manifest has no order")
        places = {fold_text(text): at for at, text in reversed([*enumerate(order)])}
        table = _write_table([(quote_text(text), str(at)) for text, at in places.items()], "text, place")
        join, place = f"LEFT JOIN {table} ON w.value = t.text", "place"
    known = f"(w.value IS NULL OR {place} IS NOT NULL) AS known, {place} AS place, w.value AS value"
    summed = "CASE WHEN bool_and(known) THEN sum(abs(moved)) END AS work, greatest(count(*) - 1, 1) AS steps"
    work = (
        f"(SELECT n, total, {summed}"
        f" FROM (SELECT *, sum(gap) OVER (PARTITION BY class ORDER BY place NULLS LAST, value NULLS LAST"
        f" ROWS UNBOUNDED PRECEDING) AS moved FROM {_list_gaps(counts, known, join)}) GROUP BY class, n, total)"
    )
    return work, "steps"


def _measure_hierarchy(counts: Counts, attribute: Attribute) -> tuple[str, str]:
    """Return the work over the taxonomy: children of a node settle what they can among themselves."""
    if attribute.taxonomy is None:
        raise CannotCheckError("the manifest has no taxonomy")
    parents, heights, leaves = flatten_taxonomy(attribute.taxonomy)
    if None not in leaves:
        leaves[None] = len(parents)  # missing values are a category right under the root
        parents.append(0)
        heights.append(0)
    above: dict[str | None, list[int]] = {}
    for text, leaf in reversed(leaves.items()):
        node, path = leaf, []
        while node > 0:
            path.append(node)
            node = parents[node]
        above[None if text is None else fold_text(text)] = path
    rows = [
        (quote_text(text), str(node), str(parents[node]), str(heights[parents[node]]))
        for text, path in above.items()
        for node in path
    ]
    table = _write_table(rows, "text, node, parent, height")
    gaps = _list_gaps(counts, "node, parent, height", f"LEFT JOIN {table} ON w.value IS NOT DISTINCT FROM t.text")
    nodes = f"(SELECT class, n, total, node, parent, height, sum(gap) AS gap FROM {gaps} GROUP BY ALL)"
    settled = (
        "(SELECT class, n, total, count(*) = count(node) AS known,"
        " height * least(sum(greatest(gap, 0)), sum(greatest(-gap, 0))) AS work"
        f" FROM {nodes} GROUP BY class, n, total, parent, height)"
    )
    summed = "CASE WHEN bool_and(known) THEN sum(work) END AS work"
    return f"(SELECT n, total, {summed} FROM {settled} GROUP BY class, n, total)", str(max(heights[0], 1))


def _confidence(promise: Promise, counts: Counts) -> Answer:
    """Compare the records of each harmful item with a share of their class; values may be sets of items."""
    separator, holds = promise.parameters["separator"], _at_most("largest", "n", promise.fraction("most"))
    if separator is None:
        return Answer("max(largest / n)", f"all_hold({holds})", _largest_by_class(promise, counts))
    if counts.attribute is None or len(separator) != 1 or not separator.isprintable() or separator.isalnum():
        raise CannotCheckError("values cannot be split by this separator in SQL")
    parts = f"[folded(part) FOR part IN string_split(value, {quote_text(separator)}) IF trim(part) <> '']"
    each = f"unnest(CASE WHEN value IS NULL THEN [NULL] ELSE list_distinct({parts}) END)"
    items = f"(SELECT class, c, {each} AS value FROM {counts.table})"
    summed = f"(SELECT class, sum(c) AS c FROM {items} WHERE {_harmful(promise)} GROUP BY class, value)"
    every = f"(SELECT DISTINCT class, n FROM {counts.table})"
    largest = (
        f"(SELECT n, coalesce(max(c), 0) AS largest FROM {every} LEFT JOIN {summed} USING (class) GROUP BY class, n)"
    )
    return Answer("max(largest / n)", f"all_hold({holds})", largest)


_SIZES: Mapping[str, Callable[[Promise], Answer]] = {
    "k-anonymity": _k_anonymity,
    "profitability": _profitability,
    "average-risk": _average_risk,
    "sample-uniqueness": _sample_uniqueness,
}
_VALUES: Mapping[str, Statement] = {
    "distinct-l-diversity": _distinct,
    "simple-l-diversity": _simple,
    "entropy-l-diversity": _entropy,
    "recursive-cl-diversity": _recursive,
    "tau-l-diversity": _tau_l,
    "t-closeness": _t_closeness,
    "alpha-k-anonymity": _alpha_k,
    "beta-likeness": _beta,
    "delta-disclosure": _delta_disclosure,
    "confidence-bounding": _confidence,
}
