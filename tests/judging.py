"""Classes given by their counts of values, judged one by one by the statements of the verifier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count

from shoal.manifest import Attribute
from shoal.verify.engine import Engine
from shoal.verify.promises import Counts, Promise, find_model

ENGINE = Engine()
ENGINE.run("CREATE TEMP MACRO folded(t) AS trim(t)")
ATTRIBUTE = Attribute(name="s", role="sensitive", kind="category")
_NUMBERS = count()


def put_classes(
    rows: Sequence[Sequence[int]],
    values: Sequence[str],
    whole: Sequence[int],
    *,
    sizes: Sequence[int] | None = None,
    shares: bool = False,
) -> Counts:
    """Make a table of classes; *whole* has the records of the table with each value, *sizes* are numbers of people."""
    table = f"classes_of_test{next(_NUMBERS)}"
    entries = [
        f"({number}, {sum(own) if sizes is None else sizes[number]}, '{value}', {c})"
        for number, own in enumerate(rows)
        for value, c in zip(values, own, strict=True)
        if c
    ]
    n, c = ("1::HUGEINT", "c / n") if shares else ("n::HUGEINT", "c::HUGEINT")
    listed = f"(VALUES {', '.join(entries)}) AS t(class, n, value, c)"
    ENGINE.make(table, f"SELECT class, {n} AS n, value, {c} AS c FROM {listed}")
    total = sum(whole)
    known = ", ".join(
        f"('{value}', {own}::HUGEINT, {total}::HUGEINT)" for value, own in zip(values, whole, strict=True)
    )
    ENGINE.make(f"{table}_whole", f"SELECT * FROM (VALUES {known}) AS t(value, whole, total)")
    several = sizes is not None
    return Counts(table, ATTRIBUTE, total=str(total), whole=f"{table}_whole", shares=shares, several=several)


def judge_classes(promise: Promise, counts: Counts, n_classes: int) -> tuple[list[bool], list[float]]:
    """Return whether each class satisfies a promise, and the figure that it reaches."""
    model = find_model(promise.model)
    assert promise.obstacle is None, promise.obstacle
    assert model is not None
    assert model.statement is not None
    answer = model.statement(promise, counts)
    ENGINE.make("of_test", f"SELECT *, {answer.each} AS ok FROM {answer.relation}")
    by_class = f"SELECT class, {answer.achieved}, bool_and(coalesce(ok, true)) FROM of_test GROUP BY class"
    found = {number: (bool(ok), float(figure)) for number, figure, ok in ENGINE.fetch(by_class)}
    if model.settle is not None and not counts.shares:
        close = f"FROM ({answer.exact}) SEMI JOIN (FROM of_test WHERE ok IS NULL) USING (class)"
        for one in ENGINE.read(close).to_pylist():
            found[one["class"]] = model.settle(promise, one), found[one["class"]][1]
    else:
        assert not ENGINE.value("SELECT count(*) FROM of_test WHERE ok IS NULL")
    nothing = True, math.nan  # a class without harmful values
    both = [found.get(number, nothing) for number in range(n_classes)]
    return [ok for ok, _ in both], [figure for _, figure in both]
