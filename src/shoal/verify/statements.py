"""Every privacy model of sensitive values as a statement in SQL over the counts of equivalence classes.

Counts are integers of 128 bits and limits are fractions, multiplied out. Logarithms are compared with a margin; within
it ``settle_entropy`` decides in exact arithmetic. Shares in floating point, which mixtures of classes have, satisfy a
limit only if they are clearly within it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from shoal.core.dictionaries import fold_text
from shoal.manifest import Attribute, Listed, NotNegative, Positive
from shoal.verify.engine import CannotCheckError, quote_text
from shoal.verify.promises import FROM_1, NAME, PART, ROUNDING, Answer, Counts, K, Model, Promise, at_most

_ZONED = r":\d\d([.]\d+)?(z|[-+]\d\d(:?\d\d)?)$"  # the end of a time with its distance from UTC
_MARGIN = "1e-9"  # entropies closer to their limit than this are not decided by SQL
_EXACT_WORK = 20_000_000  # bits of numbers that are compared exactly
_FINEST = 2**64  # the denominator of a limit; times records, it stays within 128 bits
_WIDEST = 2**100  # parts of a record, times records, stay within 128 bits
_MOST_LIMITS = 100_000  # of a curve psi; a larger l in a manifest would only keep the verifier busy
_MOST_ROWS = 200_000  # of a table that is written into a statement


def write_table(rows: Sequence[Sequence[str]], columns: str) -> str:
    """Return a table whose rows are in the statement."""
    if len(rows) > _MOST_ROWS:
        raise CannotCheckError("a table is too long for a statement")
    lines = ",\n  ".join(f"({', '.join(row)})" for row in rows)
    return f"(VALUES\n  {lines}) AS t({columns})"


def share_labels(rows: int, attribute: Attribute, weights: Mapping[str, float] | None) -> tuple[str, int]:
    """Return the values under each label, with the parts that each of them is given, and the parts of a record.

    Labels *induce* frequencies: a record spreads its weight over the values under its label, in proportion to the
    adversary's weights (Tian and Zhang, (tau, l)-diversity). All spellings of a value are one.
    """
    shares: dict[str | None, dict[str | None, Fraction]] = {None: {None: Fraction(1)}}
    for label, cover in attribute.covers.items():
        amounts: dict[str | None, Fraction] = {
            fold_text(leaf): Fraction(str(weights.get(leaf, 0))) if weights else Fraction(1)
            for leaf in cover.get("values", ())
        }
        amounts |= {None: Fraction(1)} if cover.get("missing") else {}
        amounts = dict.fromkeys(amounts, Fraction(1)) if len(amounts) == 1 else amounts
        total = sum(amounts.values())
        if not total:
            raise CannotCheckError(f"a label of {attribute.name!r} covers no value that has a weight")
        shares[label] = {leaf: own / total for leaf, own in amounts.items() if own}
    factor = math.lcm(*(part.denominator for spread in shares.values() for part in spread.values()))
    if factor * max(rows, 1) > _WIDEST:
        raise CannotCheckError("its induced frequencies are too fine to be compared exactly")
    listed = [
        (quote_text(label), quote_text(value), f"{int(part * factor)}::HUGEINT")
        for label, spread in shares.items()
        for value, part in spread.items()
    ]
    return write_table(listed, "label, value, parts"), factor


def _clearly_below(counts: Counts, found: str, limit: str) -> str:
    """Return whether a logarithm is below a limit by more than rounding."""
    return f"{found} * (1 + {_MARGIN if counts.shares else ROUNDING}) + {ROUNDING} < {limit}"


def _find_harmful(promise: Promise, counts: Counts) -> str:
    """Return whether a value is not called harmless; a missing value never is."""
    if counts.attribute is None and (promise.parameters.get("harmless") or promise.parameters.get("separator")):
        raise CannotCheckError("joint values have no names that could be harmless, and no items")
    listed = ", ".join(quote_text(fold_text(text)) for text in promise.parameters["harmless"])
    return f"(value IS NULL OR value NOT IN ({listed}))" if listed else "true"


def _count_values(promise: Promise, counts: Counts) -> Answer:
    """State distinct l-diversity; among people with several values, those values count that everyone needs one of."""
    harmful, needed, source = _find_harmful(promise, counts), "count(*)", counts.table
    if counts.several and promise.parameters["harmless"]:
        needed = "count(*) FILTER (before < n)"
        source = (
            "(SELECT *, coalesce(sum(c) OVER (PARTITION BY class ORDER BY c DESC"
            f" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before FROM {counts.table})"
        )
    by_class = f"(SELECT class, {needed} AS kinds, bool_or({harmful}) AS any_harmful FROM {source} GROUP BY class)"
    reached = f"min(CASE WHEN any_harmful THEN kinds ELSE {counts.total} END)"
    return Answer(reached, f"kinds >= {promise.whole('l')} OR NOT any_harmful", by_class)


def _find_largest(promise: Promise, counts: Counts) -> str:
    """Return the relation of classes with their most frequent harmful value or, with a separator, item of sets."""
    largest = f"coalesce(max(c) FILTER ({_find_harmful(promise, counts)}), 0)"
    source, separator = counts.table, promise.parameters.get("separator")
    if separator is not None:
        if len(separator) != 1 or not separator.isprintable() or separator.isalnum():
            raise CannotCheckError("values cannot be split by this separator in SQL")
        parts = f"[folded(part) FOR part IN string_split(value, {quote_text(separator)}) IF trim(part) <> '']"
        unfolded = f"unnest(CASE WHEN value IS NULL THEN [NULL] ELSE list_distinct({parts}) END)"
        items = f"SELECT class, n, c, {unfolded} AS value FROM {counts.table}"
        every = f"SELECT DISTINCT class, n, 0, {quote_text(separator)} FROM {counts.table}"
        source = f"(SELECT class, n, value, sum(c) AS c FROM ({items} UNION ALL {every}) GROUP BY ALL)"
    return f"(SELECT class, n, {largest} AS largest FROM {source} GROUP BY class, n)"


def _limit_largest(promise: Promise, counts: Counts) -> Answer:
    """State simple l-diversity: no value has more than 1/l of a class."""
    reached = f"min(CASE WHEN largest > 0 THEN n / largest ELSE {counts.total} END)"
    each = at_most(counts, "largest", "n", 1 / promise.fraction("l"), share=True)
    return Answer(reached, each, _find_largest(promise, counts))


def _limit_share_and_size(promise: Promise, counts: Counts) -> Answer:
    """State (alpha, k)-anonymity."""
    each = f"{at_most(counts, 'largest', 'n', promise.fraction('alpha'))} AND n >= {promise.whole('k')}"
    return Answer("max(largest / n)", each, _find_largest(promise, counts))


def _limit_confidence(promise: Promise, counts: Counts) -> Answer:
    """State confidence bounding: no harmful value, or item, has more than a share of its class."""
    each = at_most(counts, "largest", "n", promise.fraction("most"), share=True)
    return Answer("max(largest / n)", each, _find_largest(promise, counts))


def _limit_entropy(promise: Promise, counts: Counts) -> Answer:
    """State entropy l-diversity: exp of the mean of -ln(c / n) over the harmful records is at least l."""
    l, harmful = promise.fraction("l"), _find_harmful(promise, counts)
    source = counts.table
    if counts.several and promise.parameters["harmless"]:
        # of people with several values the most frequent harmful one is the worst
        source = (
            "(SELECT * FROM (SELECT *, sum(c) OVER w > n AS many, max(c) FILTER "
            f"({harmful}) OVER w AS largest FROM {counts.table} WINDOW w AS (PARTITION BY class))"
            " WHERE NOT many OR c = largest)"
        )
    source += "" if harmful == "true" else f" WHERE {harmful}"
    by_class = (
        "(SELECT class, n, min(c) AS least, max(c) AS most,\n"
        f"    -sum(c * ln(c / n)) / sum(c) AS h FROM {source} GROUP BY class, n)"
    )
    reached = f"coalesce(min(exp(h)), {counts.total})"
    if counts.shares:
        each = "true" if l <= 1 else f"exp(h) >= {float(l) * (1 + 1e-9)!r}"
        return Answer(reached, each, by_class)
    limit = f"ln({float(l)!r})"
    each = (
        f"CASE WHEN least = most THEN {at_most(counts, 'least', 'n', 1 / l)}\n"
        f"      WHEN abs(h - {limit}) > {_MARGIN} * greatest(1, h) THEN h > {limit} END"
    )
    return Answer(reached, each, by_class, f"SELECT class, n, list(c) AS cs FROM {source} GROUP BY class, n")


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


def _limit_recursively(promise: Promise, counts: Counts) -> Answer:
    """State recursive (c, l)-diversity: the most frequent harmful value, at rank y, is below c times the tail."""
    l, limit, harmful = promise.whole("l"), promise.fraction("c"), _find_harmful(promise, counts)
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
        below = f"largest = 0 OR tail > 0 AND {at_most(counts, 'largest', 'tail', limit, strict=True)}"
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


def _limit_most_frequent(promise: Promise, counts: Counts) -> Answer:
    """State (tau, l)-diversity: the k most frequent values together have at most psi(k), for every k."""
    tau, limits = promise.fraction("tau"), psi_limits(promise)
    rows = []
    for k, limit in enumerate(limits[:-1]):
        # Another tau bends the curve so that 1 - psi(k) stays in proportion to 1 - tau.
        bend = 1 - Fraction(k, len(limits) - 1) if tau == 1 else (1 - limit) / (1 - tau)
        rows.append((str(k + 1), f"{limit.numerator}::HUGEINT", f"{limit.denominator}::HUGEINT", repr(float(bend))))
    if max(limit.denominator for limit in limits) > _FINEST:
        raise CannotCheckError("psi is too fine for SQL")
    count = f"CASE WHEN {_find_harmful(promise, counts)} THEN c ELSE 0 END"
    summed = (
        f"(SELECT class, n, row_number() OVER w AS k, sum({count}) OVER w AS top FROM {counts.table}\n"
        f"    WINDOW w AS (PARTITION BY class ORDER BY {count} DESC ROWS UNBOUNDED PRECEDING))"
    )
    joined = f"{summed} JOIN {write_table(rows, 'k, most, of_all, bend')} USING (k)"
    reached = "greatest(max(CASE WHEN bend > 0 THEN 1 - (1 - top / n) / bend END), 0)"
    each = "TRY(top * of_all <= n * most)"  # NULL beyond 128 bits, which fine shares under labels need
    if counts.shares:
        each = f"most >= of_all OR top + {ROUNDING} <= n * (most / of_all) * (1 - {_MARGIN})"
    return Answer(f"coalesce({reached}, 0)", each, joined)


def _count_whole(counts: Counts) -> str:
    """Return the records of the table that have each value, and all of them."""
    return counts.whole or (
        f"(SELECT value, sum(c) AS whole, sum(sum(c)) OVER () AS total FROM {counts.table} GROUP BY value)"
    )


def _join_whole(counts: Counts) -> str:
    """Return the counts with the records of the table that have each value."""
    joined = f"{counts.table} AS v JOIN {_count_whole(counts)} AS w ON v.value IS NOT DISTINCT FROM w.value"
    return f"(SELECT v.*, whole, total FROM {joined})"


def _limit_gain(promise: Promise, counts: Counts) -> Answer:
    """State beta-likeness: no value's share of a class exceeds its share of the table by more than beta times that."""
    gain = f"CASE WHEN {_find_harmful(promise, counts)} THEN greatest(c * total - n * whole, 0) ELSE 0 END"
    gains = f"(SELECT class, whole, total, n * whole AS base, {gain} AS gain FROM {_join_whole(counts)})"
    each = at_most(counts, "gain", "base", promise.fraction("beta"))
    if promise.parameters["enhanced"]:
        each += f" AND (gain = 0 OR {_clearly_below(counts, 'gain / base', '-ln(whole / total)')})"
    return Answer("max(gain / base)", each, gains)


def _limit_change(promise: Promise, counts: Counts) -> Answer:
    """State delta-disclosure: every value's share of a class is within exp(delta) of its share of the table."""
    harmful = _find_harmful(promise, counts)
    change = f"CASE WHEN c * total <> n * whole AND {harmful} THEN abs(ln(c * total / (n * whole))) ELSE 0 END"
    every = f"(SELECT count(*) FROM {_count_whole(counts)} WHERE {harmful})"
    by_class = (
        f"(SELECT class, CASE WHEN count(*) FILTER ({harmful}) < {every} THEN 'inf'::DOUBLE ELSE max({change}) END"
        f" AS change FROM {_join_whole(counts)} GROUP BY class)"
    )
    limit = float(promise.fraction("delta"))
    return Answer("max(change)", _clearly_below(counts, "change", repr(limit)), by_class)


def _limit_distance(promise: Promise, counts: Counts) -> Answer:
    """State t-closeness by one of three distances."""
    distance, one, doubt = promise.parameters["distance"], counts.attribute, ""
    if distance == "equal":
        work, factor = _measure_equal(counts)
    elif one is None:
        raise CannotCheckError("joint values have no order and no taxonomy")
    elif distance == "ordered":
        work, factor = _measure_ordered(counts, one)
        doubt = f"values of {one.name!r} have no place in its order"
    else:
        work, factor = _measure_hierarchy(counts, one)
        doubt = f"values of {one.name!r} are not in its taxonomy"
    each = at_most(counts, "work", f"(n * total * {factor})", promise.fraction("t"), share=True)
    if counts.shares:  # the work is in units of all records
        each = at_most(counts, f"work / (n * total * {factor})", "1", promise.fraction("t"), share=True)
    return Answer(f"max(work / (n * total * {factor}))", each, work, doubt=doubt)


def _measure_equal(counts: Counts) -> tuple[str, str]:
    # Values that a class lacks differ by their whole share, so all shares are counted first.
    gaps = "sum(abs(c * total - whole * n) - whole * n) + n * total"
    work = f"(SELECT class, n, total, {gaps} AS work FROM {_join_whole(counts)} GROUP BY class, n, total)"
    return work, "2"


def _list_gaps(counts: Counts, columns: str, join: str = "") -> str:
    """Return the records that each class has beyond its share of each value, times both sizes."""
    return (
        f"(SELECT o.class, o.n, total, {columns}, coalesce(v.c, 0) * total - whole * o.n AS gap"
        f" FROM (SELECT DISTINCT class, n FROM {counts.table}) AS o CROSS JOIN {_count_whole(counts)} AS w {join}"
        f" LEFT JOIN {counts.table} AS v ON v.class = o.class AND v.value IS NOT DISTINCT FROM w.value)"
    )


def _measure_ordered(counts: Counts, attribute: Attribute) -> tuple[str, str]:
    """Return the work along the ranks of the values that occur; an order without one of them decides nothing."""
    order, kind = attribute.order, attribute.kind
    if order is None and attribute.taxonomy is not None and kind in ("category", "prefix"):
        order = tuple(str(leaf) for leaf in flatten_taxonomy(attribute.taxonomy)[2])
    join, place = "", f"try_cast(w.value AS {'DOUBLE' if kind == 'number' else 'TIMESTAMP'})"
    if kind != "number" and (kind != "date" or order is not None):
        if order is None:
            raise CannotCheckError(f"the manifest has no order for {attribute.name!r}")
        listed = write_table([(quote_text(fold_text(text)), str(at)) for at, text in enumerate(order)], "text, place")
        text, value = map(_write_moment, ("text", "w.value"))
        places = f"SELECT {text} AS text, min(place) AS place FROM {listed} GROUP BY 1"
        join, place = f"LEFT JOIN ({places}) AS t ON {value} = t.text", "place"
    known = f"(w.value IS NULL OR {place} IS NOT NULL) AS known, {place} AS place, w.value AS value"
    summed = "CASE WHEN bool_and(known) THEN sum(abs(moved)) END AS work, greatest(count(*) - 1, 1) AS steps"
    work = (
        f"(SELECT class, n, total, {summed}"
        f" FROM (SELECT *, sum(gap) OVER (PARTITION BY class ORDER BY place NULLS LAST, value NULLS LAST"
        f" ROWS UNBOUNDED PRECEDING) AS moved FROM {_list_gaps(counts, known, join)}) GROUP BY class, n, total)"
    )
    return work, "steps"


def _write_moment(text: str) -> str:
    """Return a folded text in SQL; all spellings of a moment are one, whatever their digits and time zone."""
    zoned, plain = (f"try_cast(upper({text}) AS {kind})::VARCHAR" for kind in ("TIMESTAMPTZ_NS", "TIMESTAMP_NS"))
    moment = f"CASE WHEN regexp_matches({text}, '{_ZONED}') THEN {zoned} ELSE {plain} END"
    return f"coalesce({moment}, try_cast({text} AS TIME)::VARCHAR, {text})"


def _measure_hierarchy(counts: Counts, attribute: Attribute) -> tuple[str, str]:
    """Return the work over the taxonomy: the children of a node exchange as much as they can."""
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


def _check_curve(psi: tuple[float, ...]) -> tuple[float, ...]:
    if len(psi) < 2 or list(psi) != sorted(psi) or psi[0] <= 0 or psi[-1] != 1:
        raise ValueError("does not rise from above 0 to 1")
    return psi


_TWO = Annotated[int, Field(ge=2, lt=2**53)]
_CURVE = Annotated[Listed[float], AfterValidator(_check_curve)]
_DISTANCE = Literal["equal", "ordered", "hierarchical"]
_HARM = {"harmless": (Listed[str], ())}
_TAU = {"tau": (PART, ...), "l": (_TWO, ...), "psi": (_CURVE, None), "weights": (dict[str, NotNegative], None), **_HARM}
_ALL_OF_PSI = (lambda given: given["psi"] is None or len(given["psi"]) == given["l"], "'psi' does not have l numbers")
VALUES: Mapping[str, Model] = {
    "distinct-l-diversity": Model({"l": (K, ...), **_HARM}, _count_values, worst=min),
    "simple-l-diversity": Model({"l": (FROM_1, ...), **_HARM}, _limit_largest, worst=min),
    "entropy-l-diversity": Model({"l": (FROM_1, ...), **_HARM}, _limit_entropy, worst=min, settle=settle_entropy),
    "recursive-cl-diversity": Model({"c": (Positive, ...), "l": (K, ...), **_HARM}, _limit_recursively),
    "tau-l-diversity": Model(_TAU, _limit_most_frequent, labels=True, demands=(_ALL_OF_PSI,)),
    "t-closeness": Model({"t": (NotNegative, ...), "distance": (_DISTANCE, "equal")}, _limit_distance),
    "alpha-k-anonymity": Model({"alpha": (PART, ...), "k": (K, ...), **_HARM}, _limit_share_and_size, mixes=False),
    "beta-likeness": Model({"beta": (Positive, ...), "enhanced": (bool, False), **_HARM}, _limit_gain),
    "delta-disclosure": Model({"delta": (Positive, ...), **_HARM}, _limit_change),
    "confidence-bounding": Model({"most": (PART, ...), "separator": (NAME, None), **_HARM}, _limit_confidence),
}
