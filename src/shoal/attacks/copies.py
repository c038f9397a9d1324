"""copies: people who stand in a release word for word, looked for over all of its rows and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.attacks.base import Attack, People, Tally, Trials, name_size
from shoal.attacks.exposure import ALARMS, find_confidence
from shoal.attacks.parts import read_numbers
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import same_rows
from shoal.linking.linkable import encode_column
from shoal.manifest import Attribute
from shoal.release.sliced.table import column_codes
from shoal.verify.covers import read_covers

EXPOSURE = 0.01  # share of copied people that rows are weighed for
_BUCKETS_PER_ROW = 16  # of hashes by which neighbours are counted
SEVERAL = "\0"  # in place of a label that stands for several values; no value is written so
NOT_WHOLE = "no row shows all values of one record, so that none can be a copy of one"


class CopiesAttack(Attack):
    """Says which people stand in the release word for word, in every column that shows values.

    Asked about are people whose combination of values nobody else has, in the source or the control table. Without
    copying, a combination is published as often whether its owner is in the source or in the control group; what the
    source has beyond that are copies. The most exposed are those whose combination chance hardly makes: a person counts
    the more, the fewer published rows there are that differ in one column. Generalized rows count if every label
    covers one value; synthetic rows are compared with the labels of people's values.

    Without a control group, the baseline deals the values of the last column to the published rows at random.
    """

    name = "copies"
    title = "who stands in the release word for word"
    question = "singling out"
    of_people = False

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
        found = Matches.count(columns, sizes)
        share = view.manifest.get("sample", {}).get("share", 1.0)  # a sample's risk is that of the sampled
        (inside, rare), *beside = (found.tally(place, 1.0 if place else share) for place in range(len(sizes) - 1))
        outside, rare_beside = beside[0] if beside else (None, None)
        note = f"rows are compared in {', '.join(names)}; targets are people whose combination nobody else has"
        if outside is None or rare_beside is None:
            dealt = columns[-1].copy()
            dealt[: view.n_rows] = rng.permutation(dealt[: view.n_rows])
            baseline = Matches.count([*columns[:-1], dealt], sizes).tally(0)[0]
            return Trials(self.name, inside, None, baseline, notes=(note,))
        notes = note, f"weighed by how rarely chance makes a combination, z = {_find_z(rare, rare_beside):.1f}"
        tried = replace(_compare(inside, outside), exposed=_compare(rare, rare_beside), notes=notes)
        return replace(tried, conclusion=_conclude(view, tried, found.rows, len(targets)))


def _compare(inside: Tally, outside: Tally) -> Trials:
    confidence = find_confidence(ALARMS, inside.trials, outside.trials)
    return Trials(CopiesAttack.name, inside, outside, confidence=confidence)


def _find_z(one: Tally, other: Tally) -> float:
    """Return the difference of two rates by its standard error, if both were equal."""
    both = (one.success + other.success) / (one.trials + other.trials)
    error = math.sqrt(both * (1 - both) * (1 / one.trials + 1 / other.trials))
    return (one.success / one.trials - other.success / other.trials) / max(error, 1e-9)


def _conclude(view: ReleaseView, tried: Trials, n_rows: int, n_people: int) -> str | None:
    """Return the verdict in words, given how many rows are people's own; None if no more are than by chance."""
    if tried.worst.low <= 0:
        return None
    value, low, high = (f"{round(min(max(end, 0), 1) * n_people):,}" for end in tried.worst.as_dict().values())
    copied = f"about {value} ({low} to {high}) of {n_people:,} people"
    if view.treatments.nobodys:
        return f"grave: {copied} are copied word for word into rows that should be nobody's"
    return (
        f"{name_size(tried.worst)}: {n_rows:,} of {view.n_rows:,} rows are people's own, as the method publishes them"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Combinations of values that one person has, of source and control table together."""

    rows: int  # published rows that equal a record of the source
    owner: IntArray  # (n,) 0: the person is in the source, 1: in the control table
    published: BoolArray  # (n,)
    weight: FloatArray  # (n,) about 1 if chance hardly publishes the combination, about 0 if it surely does

    @classmethod
    def count(cls, columns: Sequence[CodeArray], sizes: Sequence[int]) -> Matches:
        """Count, given columns of codes over the rows of all tables, the published one first; -1 equals nothing."""
        whole = np.logical_and.reduce([column >= 0 for column in columns])
        columns, table = [column[whole] for column in columns], np.repeat(np.arange(len(sizes)), sizes)[whole]
        first, group = same_rows(columns)
        published, *people = (np.bincount(group[table == place], minlength=len(first)) for place in range(len(sizes)))
        once = np.flatnonzero(np.sum(people, axis=0) == 1)
        expected = _expect(columns, int((table == 0).sum()), first[once], published[once])
        owner = np.argmax([count[once] for count in people], axis=0)
        rows = int(published[people[0] > 0].sum())
        return cls(rows, owner, published[once] > 0, EXPOSURE / (EXPOSURE + expected))

    def tally(self, owner: int, share: float = 1.0) -> tuple[Tally, Tally]:
        """Return who of a table stands in the release, each counted once, and by weight; of a share of the table.

        Weighed counts are scaled so that they vary as much as counts of single people do.
        """
        own, shown = self.owner == owner, self.published
        if not own.any():
            raise UsageError("nobody is alone with a combination of values, so that no row can be told to be a copy")
        weight = self.weight * (self.weight[shown].sum() / (self.weight[shown] ** 2).sum() if shown.any() else 1.0)
        found = []
        for each in (np.ones(len(own)), weight):
            success = round(each[own & shown].sum())
            found.append(Tally(success, max(1, success, round(share * each[own].sum()))))
        return found[0], found[1]


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
