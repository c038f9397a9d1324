"""copies: people whose record appears verbatim in a release, searched over all of its rows and columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shoal.attacks.base import Attack, People, Tally, Trials, name_size
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import same_rows
from shoal.manifest import Attribute
from shoal.release.covers import Cover, LabelColumn, read_covers, read_numbers
from shoal.release.published import encode_column
from shoal.release.sliced.table import column_codes

RARE = 0.01  # largest expected number of rows with a rare combination
NEAR = "near copies"
_SAMPLE = 5_000  # published rows from which the dependence of columns is estimated
_PRIOR, _UNSEEN = 5.0, 0.1  # weight of a value's share in the table, and of an unseen value, in rows
SEVERAL = "\0"  # replaces a label for several values; no value is written so
NOT_WHOLE = "no row shows all values of one record, so none can be a copy"


class CopiesAttack(Attack):
    """Finds people whose record appears verbatim in the release, in every column that shows values.

    The attack asks about people whose combination of values no one else has, in the source or the control table.
    Without copying, a combination is published equally often for people of both; the surplus of the source are copies.
    The most exposed are people whose combination is unlikely to arise by chance, given how published values depend on
    each other. Generalized rows count if every label covers one value; synthetic rows are compared with the labels of
    people's values. Near copies among synthetic rows equal a person in all columns but one, whichever: each column is
    left out in turn, and a person counts once.

    Without a control group, the baseline permutes the values of the last column among the published rows.
    """

    name = "copies"
    title = "who appears verbatim in the release"
    question = "singling out"
    bears_on = "identity"

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: each row must be one record's."""
        return None if view.form.whole_records and not view.form.by_plan else NOT_WHOLE

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        tables = [view.rows, targets.table, *([] if control is None else [control.table])]
        names = [
            name
            for name in view.treatments.attributes
            if name in view.treatments.shown and all(name in table.column_names for table in tables)
        ]
        columns, sizes = [_encode(view, name, tables) for name in names], [table.num_rows for table in tables]
        found = Matches.of(columns, sizes)
        note = f"rows are compared in {', '.join(names)}; targets are people whose combination of values is unique"
        others = control is not None
        tried = found.compare(math.inf, others)
        if tried is None:
            raise UsageError("no person has a unique combination of values, so no row can be recognized as a copy")
        if control is None:
            dealt = columns[-1].copy()
            dealt[: view.n_rows] = rng.permutation(dealt[: view.n_rows])
            baseline = Matches.of([*columns[:-1], dealt], sizes).compare(math.inf, others)
            return replace(tried, baseline=baseline.success if baseline else None, notes=(note,))
        ways = {self.name: found}
        if view.treatments.nobodys and len(columns) > 1:
            ways[NEAR] = Matches.leave_one_out(columns, sizes)
        tests = [own.compare(RARE, others, name) for name, own in ways.items()]
        cases = sorted((each for each in tests if each is not None), key=lambda each: each.risk.low)
        exposed = cases[-1] if cases else None
        variants = {each.attack: each for each in cases if each.attack == NEAR}
        tried = replace(tried, exposed=exposed, variants=variants, notes=(note,))
        return replace(tried, conclusion=_conclude(view, tried, found.rows, len(targets)))


def _conclude(view: ReleaseView, tried: Trials, n_rows: int, n_people: int) -> str | None:
    """Return the verdict in words, given how many rows equal a record; None if there are no more than by chance."""
    if tried.worst.low <= 0:
        return None
    risk = tried.worst
    value, low, high = (f"{round(min(max(end, 0), 1) * n_people):,}" for end in (risk.value, risk.low, risk.high))
    copied = f"about {value} ({low} to {high}) of {n_people:,} people"
    if view.treatments.nobodys:
        how = "but for one column" if tried.worst_case[1].attack == NEAR else "verbatim"
        return f"severe: {copied} are copied {how} into rows that should be synthetic"
    return (
        f"{name_size(tried.worst)}: {n_rows:,} of {view.n_rows:,} rows are people's own, as the method publishes them"
    )


class Matches(NamedTuple):
    """Combinations of values that one person has, of source and control table together."""

    rows: int  # published rows that equal a record of the source
    person: IntArray  # (n,) row of the person, over all tables
    owner: IntArray  # (n,) 0: the person is in the source, 1: in the control table
    expected: FloatArray  # (n,) number of rows with the combination that chance would publish
    met: FloatArray  # (n,) the same if such a row was published, else infinity

    @classmethod
    def of(cls, columns: Sequence[CodeArray], sizes: Sequence[int]) -> Matches:
        """Count, given columns of codes over the rows of all tables, the published one first; -1 equals no code."""
        whole = np.logical_and.reduce([column >= 0 for column in columns])
        columns, table = [column[whole] for column in columns], np.repeat(np.arange(len(sizes)), sizes)[whole]
        first, group = same_rows(columns)
        published, *people = (np.bincount(group[table == place], minlength=len(first)) for place in range(len(sizes)))
        once = np.flatnonzero(np.sum(people, axis=0) == 1)
        expected = _expect(columns, int((table == 0).sum()), first[once], published[once])
        row = np.zeros(len(first), dtype=np.int64)
        row[group[table > 0]] = np.flatnonzero(whole)[table > 0]
        rows = int(published[people[0] > 0].sum())
        met = np.where(published[once] > 0, expected, np.inf)
        return cls(rows, row[once], np.argmax([count[once] for count in people], axis=0), expected, met)

    @classmethod
    def leave_one_out(cls, columns: Sequence[CodeArray], sizes: Sequence[int]) -> Matches:
        """Count with each column left out in turn; a person counts by the combination least likely by chance."""
        n, rows = sum(sizes), 0
        expected, met = np.full(n, np.inf), np.full(n, np.inf)
        for place in range(len(columns)):
            found = cls.of([column for other, column in enumerate(columns) if other != place], sizes)
            rows = max(rows, found.rows)
            expected[found.person] = np.minimum(expected[found.person], found.expected)
            met[found.person] = np.minimum(met[found.person], found.met)
        person = np.flatnonzero(np.isfinite(expected))
        return cls(rows, person, (person >= sizes[0] + sizes[1]).astype(np.int64), expected[person], met[person])

    def compare(self, rare: float, others: bool, name: str = CopiesAttack.name) -> Trials | None:
        """Return how many people of the source are published and, if there are *others*, how many of the control table.

        Only people count for whom chance would publish at most *rare* rows, which does not depend on their table. The
        result is None if one side has no such person.
        """
        asked, published = self.expected <= rare, np.isfinite(self.met) & (self.met <= rare)
        found = [published[asked & (self.owner == place)] for place in range(1 + others)]
        if not all(map(len, found)):
            return None
        inside, *outside = map(Tally.of, found)
        return Trials(name, inside, outside[0] if others else None)


def _expect(columns: Sequence[CodeArray], n_rows: int, asked: IntArray, published: IntArray) -> FloatArray:
    """Return the number of rows that chance would publish with the combination of each row in *asked*.

    Each column depends on one other column, as its values do among the published rows; a person's own rows do not
    count. For rare pairs of values, the estimate tends to the product of their shares.
    """
    expected = np.full(len(asked), float(n_rows))
    for column, parent in _link_columns([own[:n_rows] for own in columns]):
        alone, above, both = (
            np.bincount(group[:n_rows], minlength=int(group.max(initial=0)) + 1)[group[asked]] - published
            for group in (columns[column], columns[parent], same_rows([columns[parent], columns[column]])[1])
        )
        share = alone / max(1, n_rows)
        chance = share if parent == column else (both + _PRIOR * share) / (above + _PRIOR)
        expected *= np.maximum(chance, _UNSEEN / max(1, n_rows))
    return expected


def _link_columns(columns: Sequence[CodeArray]) -> Iterator[tuple[int, int]]:
    """Yield each column with the column that it depends on, itself for the first: the tree of Chow and Liu (1968)."""

    def measure(*places: int) -> float:
        counts = np.bincount(same_rows([columns[place][:_SAMPLE] for place in places])[1])
        n = max(1, int(counts.sum()))  # Miller's correction of the entropy (1955)
        return float((len(counts) - 1) / (2 * n) - (counts / n * np.log(counts / n)).sum())

    alone = [measure(place) for place in range(len(columns))]
    best = {place: (-math.inf, place) for place in range(len(columns))}  # the best link of columns outside the tree
    while best:
        column = max(best, key=lambda place: best[place][0])
        yield column, best.pop(column)[1]
        for place in best:
            best[place] = max(best[place], (alone[place] + alone[column] - measure(place, column), column))


def _encode(view: ReleaseView, name: str, tables: Sequence[pa.Table]) -> CodeArray:
    """Return codes of a column over the rows of all tables, the published one first; -1 for several values."""
    attribute = view.treatments.attributes[name]
    (codes, texts), *people = (encode_column(table.column(name)) for table in tables)
    values = [value for _, values in people for value in values]
    if view.treatments.nobodys and attribute.boxed:
        places = _place_in_labels(attribute, texts, values)
    else:
        single = [_find_single(text, attribute.labels) for text in texts]
        places = column_codes(pa.chunked_array([pa.array([*single, *values], pa.string())]))
        if attribute.kind in ("number", "date"):  # which are equal however they are written
            numbers = read_numbers([*single, *values], attribute.kind, attribute.format)
            equal = np.unique(numbers, return_inverse=True)[1].reshape(-1) + len(numbers)
            places = np.where(np.isnan(numbers), places, equal).astype(np.int32)
        several = np.array([value == SEVERAL for value in (*single, *values)], dtype=np.bool_)
        places = np.where(several, -1, places).astype(np.int32)
    coded, begin = [places[codes]], len(texts)
    for own, values in people:
        coded.append(places[begin + own])
        begin += len(values)
    return np.concatenate(coded)


def _find_single(text: str | None, labels: Mapping[str, Cover] | None) -> str | None:
    """Return the value that a published text covers, or ``SEVERAL``: a category, a whole number, or None if missing."""
    if labels is None or text is None:
        return text
    cover = labels[text]
    begin, end = cover.get("from"), cover.get("below")
    if isinstance(begin, int) and isinstance(end, int) and end - begin == 1:
        return str(begin)
    return cover["values"][0] if len(cover.get("values", ())) == 1 else None if "missing" in cover else SEVERAL


def _place_in_labels(attribute: Attribute, texts: list[str | None], values: list[str | None]) -> CodeArray:
    """Return codes of published labels, and of values by the label that covers them; the labels do not overlap."""
    labels: list[str | None] = list(attribute.covers)
    covers = read_covers(LabelColumn.of(attribute, labels, "the release"))
    number = dict(zip(labels, covers.hulls()[0].tolist(), strict=True))
    codes = np.full(len(values), covers.missing, dtype=np.int32)
    known = np.array([value is not None for value in values], dtype=np.bool_)
    codes[known] = covers.places(pa.array([value for value in values if value is not None], pa.string()))
    return np.concatenate([np.array([number.get(text, covers.missing) for text in texts], dtype=np.int32), codes])
