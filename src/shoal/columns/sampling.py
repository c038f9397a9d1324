"""Random samples of the records of a source."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from shoal.columns.base import ChangedSource
from shoal.columns.row_random import RowRandom, uniform
from shoal.core.arrays import BoolArray
from shoal.core.dictionaries import MISSING_CODE, encode_columns
from shoal.core.documents import Parameters
from shoal.core.errors import InputError
from shoal.core.kernels import find_starts
from shoal.core.randomness import Chance
from shoal.core.wording import count_noun
from shoal.sources.base import Source
from shoal.sources.columns import UNCHANGED


class Sampling(Parameters):
    """Either each record is drawn independently with the same probability, or one record per person is drawn.

    With a share, the size of the sample is random as well and does not disclose the number of records.
    """

    share: float | None = Field(default=None, gt=0, lt=1, description="probability that a record is in the release")
    one_per: Literal["unit", "household"] | None = Field(
        default=None,
        description="draw one record at random for each person or household, as the policy identifies them",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.share is None) == (self.one_per is None):
            raise ValueError("give either share or one_per")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class SampledSource(ChangedSource):
    """Some rows of another source, the same in every reading."""

    entry = "sample"

    random: RowRandom
    sampling: Sampling
    rows: BoolArray | None = None  # (n_rows of the other source,) whether each is drawn; None: by the share

    def describe(self) -> dict[str, object]:
        return self.sampling.model_dump(mode="json", exclude_none=True)

    def concerns(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        return True

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        first_row = n_kept = 0
        for batch in self.given.batches(columns, dictionary=coded):
            kept = self._keep(first_row, batch.num_rows)
            first_row += batch.num_rows
            n_kept += int(kept.sum())
            yield batch.filter(pa.array(kept))
        if not n_kept:
            raise InputError(f"no record of {self.given.name} was drawn for the sample; choose a larger share")

    def find_drawn(self) -> BoolArray:
        """Return (n_rows of the other source,) whether each row was drawn."""
        if self.rows is not None:
            return self.rows
        sizes = [batch.num_rows for batch in self.given.batches(self.given.schema.names[:1])]
        return self._keep(0, sum(sizes))

    def _keep(self, first_row: int, n_rows: int) -> BoolArray:
        if self.rows is not None:
            kept = self.rows[first_row : first_row + n_rows]
            if len(kept) < n_rows:
                raise InputError(f"{self.given.name} changed while it was being read; nothing was published")
            return kept
        share = self.sampling.share or 0.0
        drawn: BoolArray = self.random.draw(first_row, n_rows, lambda words: uniform(words[:, 0]) <= share)
        return drawn


def sample(sampling: Sampling, source: Source, chance: Chance, column: str | None = None) -> SampledSource:
    """Return a random sample of a source's records, drawn by a secret of the run.

    *column* identifies the persons or households for each of which one record is drawn.

    >>> from shoal.sources.base import SourceOptions
    >>> from shoal.sources.opening import open_source
    >>> people = open_source(pa.table({"age": list(range(1000))}), SourceOptions())
    >>> some = sample(Sampling(share=0.1), people, Chance.of(7))
    >>> 50 < sum(batch.num_rows for batch in some.batches()) < 160
    True
    """
    name, random = f"the sample of {source.name}", RowRandom.of(chance)
    rows = None if column is None else _one_of_each(source, column, random)
    return SampledSource(name, source.schema, None, UNCHANGED, source, random, sampling, rows)


def _one_of_each(source: Source, column: str, random: RowRandom) -> BoolArray:
    """Return (n_rows,) whether each row is drawn: for each value of a column one of its rows, all equally likely."""
    _, (owner,) = encode_columns(source.batches([column], dictionary=[column]))
    refuse_nobody(column, int((owner == MISSING_CODE).sum()))
    order = np.lexsort((random.draw(0, len(owner), lambda words: words[:, 0]), owner))
    rows = np.zeros(len(owner), dtype=np.bool_)
    rows[order[find_starts([owner[order]])]] = True
    return rows


def refuse_nobody(column: str, n_records: int) -> None:
    """Raise if records lack an owner: neither one owner for all nor one for each would be safe to assume."""
    if n_records:
        raise InputError(
            f"column {column!r} has no value in {count_noun(n_records, 'record')}; give each record its "
            "value, or remove these records, because their owners are unknown"
        )
