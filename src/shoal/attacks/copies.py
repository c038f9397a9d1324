"""copies: people who stand in a release word for word, looked for over all of its rows and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.attacks.base import Attack, People, Tally, Trials, name_size
from shoal.attacks.parts import read_numbers
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import same_rows
from shoal.linking.linkable import encode_column
from shoal.manifest import Attribute
from shoal.release.sliced.table import column_codes
from shoal.verify.covers import read_covers

RARE = 0.01  # rows that chance would publish with a person's combination, at most, if that is hardly chance
_BUCKETS_PER_ROW = 16  # of hashes by which neighbours are counted
SEVERAL = "\0"  # in place of a label that stands for several values; no value is written so
NOT_WHOLE = "no row shows all values of one record, so none can be a copy"


class CopiesAttack(Attack):
    """Says which people stand in the release word for word, in every column that shows values.

    Asked about are people whose combination of values nobody else has, in the source or the control table. Without
    copying, a combination is published as often whether its owner is in the source or in the control group; what the
    source has beyond that are copies. The most exposed are those whose combination chance hardly makes, since next to
    no published row differs from it in one column only. Generalized rows count if every label covers one value;
    synthetic rows are compared with the labels of people's values.

    Without a control group, the baseline deals the values of the last column to the published rows at random.
    """

    name = "copies"
    title = "who appears verbatim in the release"
    question = "singling out"

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: a row must be one record's."""
        return None if view.form.whole_records and not view.form.by_plan else NOT_WHOLE

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Compare all rows with all people; no targets are drawn."""
        tables = [view.rows, targets.table, *([] if control is None else [control.table])]
        names = [
            name
            for name in view.treatments.attributes
            if name in view.treatments.shown and all(name in table.column_names for table in tables)
        ]
        columns, sizes = [_encode(view, name, tables) for name in names], [table.num_rows for table in tables]
        found = Matches.of(columns, sizes)
        note = f"rows are compared in {', '.join(names)}; targets are people whose combination nobody else has"
        everybody, others = np.ones_like(found.rare), control is not None
        tried = found.compare(everybody, others)
        if tried is None:
            raise UsageError("nobody is alone with a combination of values, so that no row can be told to be a copy")
        if control is None:
            dealt = columns[-1].copy()
            dealt[: view.n_rows] = rng.permutation(dealt[: view.n_rows])
            baseline = Matches.of([*columns[:-1], dealt], sizes).compare(everybody, others)
            return replace(tried, baseline=baseline.success if baseline else None, notes=(note,))
        tried = replace(tried, exposed=found.compare(found.rare, others), notes=(note,))
        return replace(tried, conclusion=_conclude(view, tried, found.rows, len(targets)))


def _conclude(view: ReleaseView, tried: Trials, n_rows: int, n_people: int) -> str | None:
    """Return the verdict in words, given how many rows are people's own; None if no more are than by chance."""
    if tried.worst.low <= 0:
        return None
    value, low, high = (f"{round(min(max(end, 0), 1) * n_people):,}" for end in tried.worst.as_dict().values())
    copied = f"about {value} ({low} to {high}) of {n_people:,} people"
    if view.treatments.nobodys:
        return f"grave: {copied} are copied verbatim into rows that should be synthetic"
    return (
        f"{name_size(tried.worst)}: {n_rows:,} of {view.n_rows:,} rows are people's own, as the method publishes them"
    )


class Matches(NamedTuple):
    """Combinations of values that one person has, of source and control table together."""

    rows: int  # published rows that equal a record of the source
    owner: IntArray  # (n,) 0: the person is in the source, 1: in the control table
    published: BoolArray  # (n,)
    rare: BoolArray  # (n,) whether chance would hardly publish the combination

    @classmethod
    def of(cls, columns: Sequence[CodeArray], sizes: Sequence[int]) -> Matches:
        """Count, given columns of codes over the rows of all tables, the published one first; -1 equals nothing."""
        whole = np.logical_and.reduce([column >= 0 for column in columns])
        columns, table = [column[whole] for column in columns], np.repeat(np.arange(len(sizes)), sizes)[whole]
        first, group = same_rows(columns)
        published, *people = (np.bincount(group[table == place], minlength=len(first)) for place in range(len(sizes)))
        once = np.flatnonzero(np.sum(people, axis=0) == 1)
        expected = _expect(columns, int((table == 0).sum()), first[once], published[once])
        owner = np.argmax([count[once] for count in people], axis=0)
        rows = int(published[people[0] > 0].sum())
        return cls(rows, owner, published[once] > 0, expected <= RARE)

    def compare(self, asked: BoolArray, others: bool) -> Trials | None:
        """Return who of the source stands in the release, beside whom of the control table if there are *others*.

        Which people are asked about must not depend on whose table they are in. None if that is nobody on one side.
        """
        found = [self.published[asked & (self.owner == place)] for place in range(1 + others)]
        if not all(map(len, found)):
            return None
        inside, *outside = map(Tally.of, found)
        return Trials(CopiesAttack.name, inside, outside[0] if others else None)


def _expect(columns: Sequence[CodeArray], n_rows: int, asked: IntArray, published: IntArray) -> FloatArray:
    """Return how many rows chance would publish with the combination of each row that is *asked* for.

    Published rows that agree in all other columns have the person's value with its share in the table: on average
    over the columns, if each depended on the others by no more than that. Neighbours are counted by hashes.
    """
    rng = np.random.default_rng(0)  # any hash will do
    hashes = [rng.integers(2**64, size=int(column.max(initial=0)) + 1, dtype=np.uint64) for column in columns]
    key = np.zeros(len(columns[0]), dtype=np.uint64)
    for own, column in zip(hashes, columns, strict=True):
        key += own[column]
    bits = max(8, math.ceil(math.log2(_BUCKETS_PER_ROW * n_rows + 1)))
    expected = np.zeros(len(asked))
    for own, column in zip(hashes, columns, strict=True):
        bucket = ((key - own[column]) >> np.uint64(64 - bits)).astype(np.int64)
        neighbours = np.bincount(bucket[:n_rows], minlength=2**bits)[bucket[asked]] - published
        share = np.bincount(column[:n_rows], minlength=len(own)) / max(1, n_rows)
        expected += neighbours * share[column[asked]] / len(columns)
    return expected


def _encode(view: ReleaseView, name: str, tables: Sequence[pa.Table]) -> CodeArray:
    """Return codes of a column over the rows of all tables, the published one first; -1 for what is no single value."""
    entry = view.treatments.attributes[name]
    (codes, texts), *people = (encode_column(table.column(name)) for table in tables)
    values = [value for _, values in people for value in values]
    if view.treatments.nobodys and "labels" in entry:
        places = _place_in_labels(name, entry, texts, values)
    else:
        single = [_find_single(text, entry.get("labels")) for text in texts]
        places = _number_values([*single, *values], entry)
        several = np.array([value == SEVERAL for value in (*single, *values)], dtype=np.bool_)
        places = np.where(several, -1, places).astype(np.int32)
    coded, begin = [places[codes]], len(texts)
    for own, values in people:
        coded.append(places[begin + own])
        begin += len(values)
    return np.concatenate(coded)


def _number_values(texts: list[str | None], entry: Mapping[str, Any]) -> CodeArray:
    """Return codes that differ where values do; numbers and dates are equal however they are written."""
    codes = column_codes(pa.chunked_array([pa.array(texts, pa.string())]))
    if entry["kind"] not in ("number", "date"):
        return codes
    numbers = read_numbers(texts, entry["kind"], entry.get("format"))
    place = np.unique(numbers, return_inverse=True)[1].reshape(-1) + len(texts)
    return np.where(np.isnan(numbers), codes, place).astype(np.int32)


def _find_single(text: str | None, labels: Mapping[str, Any] | None) -> str | None:
    """Return the value that a published text stands for, or ``SEVERAL``: a category, a whole number, or none at all."""
    if labels is None or text is None:
        return text
    cover = labels[text]
    begin, end = cover.get("from"), cover.get("below")
    if isinstance(begin, int) and isinstance(end, int) and end - begin == 1:
        return str(begin)
    return cover["values"][0] if len(cover.get("values", ())) == 1 else None if "missing" in cover else SEVERAL


def _place_in_labels(
    name: str, entry: Mapping[str, Any], texts: list[str | None], values: list[str | None]
) -> CodeArray:
    """Return codes of published labels, and of values by the label that they have; the labels do not overlap."""
    covers = read_covers(Attribute.model_construct(**{**entry, "name": name}))
    number = dict(zip(covers.labels, covers.low[covers.start[:-1]].tolist(), strict=True))
    codes = np.full(len(values), covers.missing, dtype=np.int32)
    known = np.array([value is not None for value in values], dtype=np.bool_)
    codes[known] = covers.places(pa.array([value for value in values if value is not None], pa.string()))
    return np.concatenate([np.array([number.get(text, covers.missing) for text in texts], dtype=np.int32), codes])
