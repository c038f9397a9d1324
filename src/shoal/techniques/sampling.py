"""Samples of sources: some records, drawn at random."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from shoal.chance import Chance
from shoal.errors import InputError
from shoal.sources import Source
from shoal.sources.base import DerivedSource
from shoal.techniques.row_random import RowRandom, chosen


@dataclass(frozen=True, slots=True, eq=False)
class SampledSource(DerivedSource):
    """Some rows of another source, the same at every reading."""

    random: RowRandom
    share: float

    def describe(self) -> dict[str, float]:
        """Return what everybody may know: the manifest's ``sample``."""
        return {"share": self.share}

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        first_row = n_kept = 0
        for batch in self.given.batches(columns, dictionary=coded):
            kept = self.random.drawn(first_row, batch.num_rows, lambda words: chosen(words, self.share))
            first_row += batch.num_rows
            n_kept += int(kept.sum())
            yield batch.filter(pa.array(kept))
        if not n_kept:
            raise InputError(f"no record of {self.given.name} was drawn for the sample; take a larger share")


class Sampling(BaseModel):
    """Each record is published with the same probability, whatever becomes of the others.

    How many are published is thereby left to chance too, and does not tell how many there were.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    share: float = Field(gt=0, lt=1, description="probability of each record to be in the release")


def sampled(sampling: Sampling, source: Source, chance: Chance) -> SampledSource:
    """Return a random sample of a source's records, of which nobody can tell who was drawn.

    >>> from shoal.sources import SourceOptions, open_source
    >>> people = open_source(pa.table({"age": list(range(1000))}), SourceOptions())
    >>> some = sampled(Sampling(share=0.1), people, Chance.of(7))
    >>> 50 < sum(batch.num_rows for batch in some.batches()) < 160
    True
    """
    name = f"the sample of {source.name}"
    return SampledSource(name, source.schema, None, (), source, RowRandom.of(chance), sampling.share)
