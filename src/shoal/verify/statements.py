"""Every privacy model as a statement in SQL over the counts of equivalence classes.

Counts are integers of 128 bits and limits are fractions, multiplied out. Logarithms are compared with a margin; within
it ``settle_entropy`` decides in exact arithmetic. Shares in floating point, which mixtures of classes have, satisfy a
limit only if they are clearly within it.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from shoal.core.dictionaries import fold_text
from shoal.manifest import Attribute
from shoal.verify.engine import CannotCheckError, quote_text
from shoal.verify.promises import Answer, Counts, Promise

_MARGIN = "1e-9"  # entropies closer to their limit than this are not decided by SQL
_ROUNDING = "1e-12"  # of sums of shares
_EXACT_WORK = 20_000_000  # bits of numbers that are compared exactly
_FINEST = 2**64  # the denominator of a limit; times records, it stays within 128 bits
_MOST_LIMITS = 100_000  # of a curve psi; a larger l in a manifest would only keep the verifier busy
_MOST_ROWS = 200_000  # of a table that is written into a statement


def write_table(rows: Sequence[Sequence[str]], columns: str) -> str:
    """Return a table whose rows are in the statement."""
    if len(rows) > _MOST_ROWS:
        raise CannotCheckError("a table is too long for a statement")
    lines = ",\n  ".join(f"({', '.join(row)})" for row in rows)
    return f"(VALUES\n  {lines}) AS t({columns})"


def _at_most(
    counts: Counts, top: str, bottom: str, limit: Fraction, *, strict: bool = False, share: bool = False
) -> str:
    """Return whether top / bottom <= limit: in whole numbers or, of shares, if it is clearly below."""
    if counts.shares:
        return "true" if share and limit >= 1 else f"{top} + {_ROUNDING} <= {bottom} * {float(limit) * (1 - 1e-9)!r}"
    return f"{top} * {limit.denominator} {'<' if strict else '<='} {bottom} * {limit.numerator}"


def _clearly_below(counts: Counts, found: str, limit: str) -> str:
    """Return whether a logarithm is below a limit by more than rounding."""
    return f"{found} * (1 + {_MARGIN if counts.shares else _ROUNDING}) + {_ROUNDING} < {limit}"


def _harmful(promise: Promise) -> str:
    """Return whether a value is not called harmless; a missing value never is."""
    listed = ", ".join(quote_text(fold_text(text)) for text in promise.parameters["harmless"])
    return f"(value IS NULL OR value NOT IN ({listed}))" if listed else "true"


def _demand_names(promise: Promise, counts: Counts) -> None:
    if counts.attribute is None and (promise.parameters.get("harmless") or promise.parameters.get("separator")):
        raise CannotCheckError("joint values have no names that could be harmless, and no items")


def count_records(promise: Promise, counts: Counts) -> Answer:
    """State k-anonymity."""
    return Answer("min(n)", f"n >= {promise.whole('k')}", counts.table)


def limit_profit(promise: Promise, counts: Counts) -> Answer:
    """State that an attack costs at least as much as it gains."""
    gain, cost = promise.fraction("gain"), promise.fraction("cost")
    each = f"{gain.numerator * cost.denominator} <= n * {cost.numerator * gain.denominator}"
    return Answer(f"{float(gain)!r} / min(n)", each, counts.table)


def limit_average(promise: Promise, counts: Counts) -> Answer:
    """State a limit of the average risk: classes per record."""
    together = f"(SELECT 0 AS class, count(*) AS kinds, sum(n) AS records FROM {counts.table})"
    return Answer("max(kinds / records)", _at_most(counts, "kinds", "records", promise.fraction("risk")), together)


def limit_unique(promise: Promise, counts: Counts) -> Answer:
    """State a limit of the share of records that are alone in their class."""
    unique = f"(SELECT 0 AS class, count(*) FILTER (n = 1) AS kinds, sum(n) AS records FROM {counts.table})"
    return Answer("max(kinds / records)", _at_most(counts, "kinds", "records", promise.fraction("fraction")), unique)


def count_population(promise: Promise, counts: Counts) -> Answer:
    """State k-map: each class covers k rows of the population."""
    return Answer("min(covered)", f"covered >= {promise.whole('k')}", counts.table)


def limit_presence(promise: Promise, counts: Counts) -> Answer:
    """State delta-presence: records per covered row of the population are between two limits."""
    each = f"covered > 0 AND {_at_most(counts, 'n', 'covered', promise.fraction('max'))}"
    if (low := promise.fraction("min")) > 0:
        each += f" AND {_at_most(counts, 'covered', 'n', 1 / low)}"
    return Answer("max(CASE WHEN covered > 0 THEN n / covered ELSE 'inf'::DOUBLE END)", each, counts.table)


def count_values(promise: Promise, counts: Counts) -> Answer:
    """State distinct l-diversity; among people with several values, those values count that everyone needs one of."""
    _demand_names(promise, counts)
    harmful, needed, source = _harmful(promise), "count(*)", counts.table
    if counts.several and promise.parameters["harmless"]:
        needed = "count(*) FILTER (before < n)"
        source = (
            "(SELECT *, coalesce(sum(c) OVER (PARTITION BY class ORDER BY c DESC"
            f" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before FROM {counts.table})"
        )
    by_class = f"(SELECT class, {needed} AS kinds, bool_or({harmful}) AS any_harmful FROM {source} GROUP BY class)"
    reached = f"min(CASE WHEN any_harmful THEN kinds ELSE {counts.total} END)"
    return Answer(reached, f"kinds >= {promise.whole('l')} OR NOT any_harmful", by_class)


def _largest_by_class(promise: Promise, counts: Counts) -> str:
    _demand_names(promise, counts)
    largest = f"coalesce(max(c) FILTER ({_harmful(promise)}), 0)"
    return f"(SELECT class, n, {largest} AS largest FROM {counts.table} GROUP BY class, n)"


def limit_largest(promise: Promise, counts: Counts) -> Answer:
    """State simple l-diversity: no value has more than 1/l of a class."""
    reached = f"min(CASE WHEN largest > 0 THEN n / largest ELSE {counts.total} END)"
    each = _at_most(counts, "largest", "n", 1 / promise.fraction("l"), share=True)
    return Answer(reached, each, _largest_by_class(promise, counts))


def limit_share_and_size(promise: Promise, counts: Counts) -> Answer:
    """State (alpha, k)-anonymity."""
    each = f"{_at_most(counts, 'largest', 'n', promise.fraction('alpha'))} AND n >= {promise.whole('k')}"
    return Answer("max(largest / n)", each, _largest_by_class(promise, counts))


def limit_entropy(promise: Promise, counts: Counts) -> Answer:
    """State entropy l-diversity: exp of the mean of -ln(c / n) over the harmful records is at least l."""
    _demand_names(promise, counts)
    l, harmless = promise.fraction("l"), promise.parameters["harmless"]
    where = f" WHERE {_harmful(promise)}" if harmless else ""
    source = counts.table
    if counts.several and harmless:  # of people with several values the most frequent harmful one is the worst
        source = (
            "(SELECT * FROM (SELECT *, sum(c) OVER w > n AS many, max(c) FILTER "
            f"({_harmful(promise)}) OVER w AS largest FROM {counts.table} WINDOW w AS (PARTITION BY class))"
            " WHERE NOT many OR c = largest)"
        )
    by_class = (
        "SELECT class, n, min(c) AS least, max(c) AS most,\n"
        f"    -sum(c * ln(c / n)) / sum(c) AS h FROM {source}{where} GROUP BY class, n"
    )
    reached = f"coalesce(min(exp(h)), {counts.total})"
    if counts.shares:
        each = "true" if l <= 1 else f"exp(h) >= {float(l) * (1 + 1e-9)!r}"
        return Answer(reached, each, f"({by_class})")
    limit = f"ln({float(l)!r})"
    each = (
        f"CASE WHEN least = most THEN {_at_most(counts, 'least', 'n', 1 / l)}\n"
        f"      WHEN abs(h - {limit}) > {_MARGIN} * greatest(1, h) THEN h > {limit} END"
    )
    return Answer(
        reached, each, f"({by_class})", f"SELECT class, n, list(c) AS cs FROM {source}{where} GROUP BY class, n"
    )


def settle_entropy(promise: Promise, found: Mapping[str, Any]) -> bool:
    """Decide a class within the margin: h counted records satisfy it if n**h >= l**h * product of c**c.

    >>> settle_entropy(Promise("entropy-l-diversity", {"l": 2}, None), {"cs": [2, 2], "n": 4})
    True
    """
    l, n = promise.fraction("l"), int(found["n"])
    counts = [int(count) for count in found["cs"]]
    common = math.gcd(*counts, n)
    counts, n = [count // common for count in counts], n // common
    harmful, widest = sum(counts), max(n, l.numerator, l.denominator)
    if n * widest.bit_length() > _EXACT_WORK:
        return False  # too large to settle: refused
    product = math.prod(count**count for count in counts)
    return bool(n**harmful * l.denominator**harmful >= l.numerator**harmful * product)


def limit_recursively(promise: Promise, counts: Counts) -> Answer:
    """State recursive (c, l)-diversity: the most frequent harmful value, at rank y, is below c times the tail."""
    _demand_names(promise, counts)
    l, limit, harmful = promise.whole("l"), promise.fraction("c"), _harmful(promise)
    ranked = (
        f"(SELECT class, n, c, {harmful} AS harmful,"
        f" row_number() OVER (PARTITION BY class ORDER BY c DESC, {harmful} DESC) AS r FROM {counts.table})"
    )
    at_y = f"(SELECT *, min(r) FILTER (harmful) OVER (PARTITION BY class) AS y FROM {ranked})"
    later = f"CASE WHEN y < {l} THEN r >= {l} ELSE r >= {l} - 1 AND r IS DISTINCT FROM y END" if l > 1 else "true"
    tail = f"coalesce(sum(c) FILTER ({later}), 0)"
    if counts.several and promise.parameters["harmless"]:  # a person counts once in the tail
        tail += " - (sum(c) - any_value(n))"
    by_class = (
        f"(SELECT class, coalesce(max(c) FILTER (r = y), 0) AS largest, {tail} AS tail FROM {at_y} GROUP BY class)"
    )
    below = "true"
    if l > 1:
        below = f"largest = 0 OR tail > 0 AND {_at_most(counts, 'largest', 'tail', limit, strict=True)}"
    reached = "max(CASE WHEN tail > 0 THEN largest / tail WHEN largest > 0 THEN 'inf'::DOUBLE ELSE 0 END)"
    return Answer(reached, below, by_class)


def psi_limits(promise: Promise) -> list[Fraction]:
    """Return psi(0), ..., psi(l - 1): the shares that the most frequent values may have together."""
    l, tau, psi = promise.whole("l"), promise.fraction("tau"), promise.parameters["psi"]
    if psi is None:
        if l > _MOST_LIMITS:
            raise CannotCheckError(f"l is above {_MOST_LIMITS:,}")
        return [tau + (1 - tau) * Fraction(k, l - 1) for k in range(l)]
    limits = [Fraction(str(limit)) for limit in psi]
    if limits[0] != tau:
        raise CannotCheckError("psi does not begin with tau")
    return limits


def limit_most_frequent(promise: Promise, counts: Counts) -> Answer:
    """State (tau, l)-diversity: the k most frequent values together have at most psi(k), for every k."""
    _demand_names(promise, counts)
    tau, limits = promise.fraction("tau"), psi_limits(promise)
    rows = []
    for k, limit in enumerate(limits[:-1]):
        # Another tau bends the curve so that 1 - psi(k) stays in proportion to 1 - tau.
        bend = 1 - Fraction(k, len(limits) - 1) if tau == 1 else (1 - limit) / (1 - tau)
        rows.append((str(k + 1), f"{limit.numerator}::HUGEINT", f"{limit.denominator}::HUGEINT", repr(float(bend))))
    if max(limit.denominator for limit in limits) > _FINEST:
        raise CannotCheckError("psi is too fine for SQL")
    count = f"CASE WHEN {_harmful(promise)} THEN c ELSE 0 END"
    summed = (
        f"(SELECT class, n, row_number() OVER w AS k, sum({count}) OVER w AS top FROM {counts.table}\n"
        f"    WINDOW w AS (PARTITION BY class ORDER BY {count} DESC ROWS UNBOUNDED PRECEDING))"
    )
    joined = f"{summed} JOIN {write_table(rows, 'k, most, of_all, bend')} USING (k)"
    reached = "greatest(max(CASE WHEN bend > 0 THEN 1 - (1 - top / n) / bend END), 0)"
    each = "TRY(top * of_all <= n * most)"  # NULL beyond 128 bits, which fine shares under labels need
    if counts.shares:
        each = f"most >= of_all OR top + {_ROUNDING} <= n * (most / of_all) * (1 - {_MARGIN})"
    return Answer(f"coalesce({reached}, 0)", each, joined)


def _whole(counts: Counts) -> str:
    """Return the records of the table that have each value, and all of them."""
    return counts.whole or (
        f"(SELECT value, sum(c) AS whole, sum(sum(c)) OVER () AS total FROM {counts.table} GROUP BY value)"
    )


def _beside_whole(counts: Counts) -> str:
    """Return the counts with the records of the table that have each value."""
    joined = f"{counts.table} AS v JOIN {_whole(counts)} AS w ON v.value IS NOT DISTINCT FROM w.value"
    return f"(SELECT v.*, whole, total FROM {joined})"


def limit_gain(promise: Promise, counts: Counts) -> Answer:
    """State beta-likeness: no value's share of a class exceeds its share of the table by more than beta times that."""
    _demand_names(promise, counts)
    gain = f"CASE WHEN {_harmful(promise)} THEN greatest(c * total - n * whole, 0) ELSE 0 END"
    gains = f"(SELECT class, whole, total, n * whole AS base, {gain} AS gain FROM {_beside_whole(counts)})"
    each = _at_most(counts, "gain", "base", promise.fraction("beta"))
    if promise.parameters["enhanced"]:
        each += f" AND (gain = 0 OR {_clearly_below(counts, 'gain / base', '-ln(whole / total)')})"
    return Answer("max(gain / base)", each, gains)


def limit_change(promise: Promise, counts: Counts) -> Answer:
    """State delta-disclosure: every value's share of a class is within exp(delta) of its share of the table."""
    _demand_names(promise, counts)
    harmful = _harmful(promise)
    change = f"CASE WHEN c * total <> n * whole AND {harmful} THEN abs(ln(c * total / (n * whole))) ELSE 0 END"
    every = f"(SELECT count(*) FROM {_whole(counts)} WHERE {harmful})"
    by_class = (
        f"(SELECT class, CASE WHEN count(*) FILTER ({harmful}) < {every} THEN 'inf'::DOUBLE ELSE max({change}) END"
        f" AS change FROM {_beside_whole(counts)} GROUP BY class)"
    )
    limit = float(promise.fraction("delta"))
    return Answer("max(change)", _clearly_below(counts, "change", repr(limit)), by_class)


def limit_distance(promise: Promise, counts: Counts) -> Answer:
    """State t-closeness by one of three distances."""
    distance = promise.parameters["distance"]
    if distance == "equal":
        work, factor = _measure_equal(counts)
    elif counts.attribute is None:
        raise CannotCheckError("joint values have no order and no taxonomy")
    elif distance == "ordered":
        work, factor = _measure_ordered(counts, counts.attribute)
    else:
        work, factor = _measure_hierarchy(counts, counts.attribute)
    each = _at_most(counts, "work", f"(n * total * {factor})", promise.fraction("t"), share=True)
    if counts.shares:  # the work is in units of all records
        each = _at_most(counts, f"work / (n * total * {factor})", "1", promise.fraction("t"), share=True)
    return Answer(f"max(work / (n * total * {factor}))", each, work)


def _measure_equal(counts: Counts) -> tuple[str, str]:
    # Values that a class lacks differ by their whole share, so all shares are counted first.
    gaps = "sum(abs(c * total - whole * n) - whole * n) + n * total"
    work = f"(SELECT class, n, total, {gaps} AS work FROM {_beside_whole(counts)} GROUP BY class, n, total)"
    return work, "2"


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
            raise CannotCheckError(f"the manifest has no order for {attribute.name!r}")
        places = {fold_text(text): at for at, text in reversed([*enumerate(order)])}
        places = _add_moments(order) | places if attribute.kind == "category" else places
        table = write_table([(quote_text(text), str(at)) for text, at in places.items()], "text, place")
        join, place = f"LEFT JOIN {table} ON w.value = t.text", "place"
    known = f"(w.value IS NULL OR {place} IS NOT NULL) AS known, {place} AS place, w.value AS value"
    summed = "CASE WHEN bool_and(known) THEN sum(abs(moved)) END AS work, greatest(count(*) - 1, 1) AS steps"
    work = (
        f"(SELECT class, n, total, {summed}"
        f" FROM (SELECT *, sum(gap) OVER (PARTITION BY class ORDER BY place NULLS LAST, value NULLS LAST"
        f" ROWS UNBOUNDED PRECEDING) AS moved FROM {_list_gaps(counts, known, join)}) GROUP BY class, n, total)"
    )
    return work, "steps"


def _add_moments(order: Sequence[str]) -> dict[str, int]:
    """Return the places of times in other spellings: a file may write them in another unit than the order does."""
    places: dict[str, int] = {}
    for at, text in enumerate(order):
        try:
            moment: datetime.datetime | datetime.time = datetime.datetime.fromisoformat(text)
        except ValueError:
            try:
                moment = datetime.time.fromisoformat(text)
            except ValueError:
                return {}
        nanoseconds = re.search(r"[.]\d{6}(\d{3})", text)  # which Python drops
        for unit in ("microseconds",) if nanoseconds else ("auto", "seconds", "milliseconds", "microseconds"):
            if isinstance(moment, datetime.datetime):
                moment = moment if moment.tzinfo is None else moment.astimezone(datetime.UTC)
            spelled = moment.isoformat(timespec=unit).replace("+00:00", "Z")
            if nanoseconds:
                spelled = re.sub(r"([.]\d{6})", rf"\g<1>{nanoseconds[1]}", spelled)
            places |= {fold_text(spelled): at, fold_text(spelled.replace("T", " ")): at}
    return places


def _measure_hierarchy(counts: Counts, attribute: Attribute) -> tuple[str, str]:
    """Return the work over the taxonomy: children of a node settle what they can among themselves."""
    if attribute.taxonomy is None:
        raise CannotCheckError(f"the manifest has no taxonomy for {attribute.name!r}")
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
    table = write_table(rows, "text, node, parent, height")
    gaps = _list_gaps(counts, "node, parent, height", f"LEFT JOIN {table} ON w.value IS NOT DISTINCT FROM t.text")
    nodes = f"(SELECT class, n, total, node, parent, height, sum(gap) AS gap FROM {gaps} GROUP BY ALL)"
    settled = (
        "(SELECT class, n, total, count(*) = count(node) AS known,"
        " height * least(sum(greatest(gap, 0)), sum(greatest(-gap, 0))) AS work"
        f" FROM {nodes} GROUP BY class, n, total, parent, height)"
    )
    summed = "CASE WHEN bool_and(known) THEN sum(work) END AS work"
    work = f"(SELECT class, n, total, {summed} FROM {settled} GROUP BY class, n, total)"
    return work, str(max(heights[0], 1))


def flatten_taxonomy(taxonomy: Mapping[str, Any]) -> tuple[list[int], list[int], dict[str | None, int]]:
    """Return parents and heights of the nodes, parents before children, and the leaves in tree order."""
    parents: list[int] = []
    leaves: dict[str | None, int] = {}
    waiting: list[tuple[str, Mapping[str, Any], int]] = [(label, tree, -1) for label, tree in taxonomy.items()]
    while waiting:
        label, children, parent = waiting.pop()
        node = len(parents)
        parents.append(parent)
        if not children:
            leaves[label] = node
        waiting.extend((name, tree, node) for name, tree in reversed(list(children.items())))
    heights = [0] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        heights[parents[node]] = max(heights[parents[node]], heights[node] + 1)
    return parents, heights, leaves


def limit_items(promise: Promise, counts: Counts) -> Answer:
    """State confidence bounding: no harmful item has more than a share of its class; values may be sets of items."""
    separator = promise.parameters["separator"]
    each = _at_most(counts, "largest", "n", promise.fraction("most"), share=True)
    if separator is None:
        return Answer("max(largest / n)", each, _largest_by_class(promise, counts))
    _demand_names(promise, counts)
    if len(separator) != 1 or not separator.isprintable() or separator.isalnum():
        raise CannotCheckError("values cannot be split by this separator in SQL")
    parts = f"[folded(part) FOR part IN string_split(value, {quote_text(separator)}) IF trim(part) <> '']"
    unfolded = f"unnest(CASE WHEN value IS NULL THEN [NULL] ELSE list_distinct({parts}) END)"
    items = f"(SELECT class, c, {unfolded} AS value FROM {counts.table})"
    summed = f"(SELECT class, sum(c) AS c FROM {items} WHERE {_harmful(promise)} GROUP BY class, value)"
    every = f"(SELECT DISTINCT class, n FROM {counts.table})"
    largest = (
        f"(SELECT class, n, coalesce(max(c), 0) AS largest FROM {every} LEFT JOIN {summed} USING (class)"
        " GROUP BY class, n)"
    )
    return Answer("max(largest / n)", each, largest)
