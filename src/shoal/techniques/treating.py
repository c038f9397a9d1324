"""Sources whose columns are treated, and samples of sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from shoal.chance import Chance
from shoal.errors import PolicyError, ShoalError, did_you_mean
from shoal.sources import Source
from shoal.techniques.base import Technique, Treatment
from shoal.techniques.domains import NumberDomain
from shoal.techniques.row_random import RowRandom, chosen


@dataclass(frozen=True, slots=True, eq=False)
class TreatedSource(Source):
    """The rows of another source with some columns treated; the others come as they are."""

    given: Source
    treatments: Mapping[str, Treatment]

    def digest(self) -> str:
        """Return the digest of the rows as they were given."""
        return self.given.digest()

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return what everybody may know of each column's treatment: the manifest's ``techniques``."""
        return {name: treatment.describe() for name, treatment in self.treatments.items()}

    def findings(self) -> dict[str, dict[str, int]]:
        """Return counts for the evidence, of the treatments that have some."""
        found = {name: treatment.findings() for name, treatment in self.treatments.items()}
        return {name: counts for name, counts in found.items() if counts}

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        treated = [name for name in columns if name in self.treatments]
        first_row = 0
        for batch in self.given.batches(columns, dictionary=[*(coded - set(treated)), *treated]):
            arrays = dict(zip(columns, batch.columns, strict=True))
            for name in treated:
                arrays[name] = self.treatments[name].apply(arrays[name], first_row)
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=columns)
            first_row += batch.num_rows


@dataclass(frozen=True, slots=True, eq=False)
class SampledSource(Source):
    """Some rows of another source, the same at every reading."""

    given: Source
    random: RowRandom
    share: float

    def digest(self) -> str:
        """Return the digest of all rows as they were given."""
        return self.given.digest()

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        first_row = 0
        for batch in self.given.batches(columns, dictionary=coded):
            kept = self.random.drawn(first_row, batch.num_rows, lambda words: chosen(words, self.share))
            first_row += batch.num_rows
            yield batch.filter(pa.array(kept))


class Sampling(BaseModel):
    """Each record is published with the same probability, whatever becomes of the others.

    How many are published is thereby left to chance too, and does not tell how many there were.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    share: float = Field(gt=0, lt=1, description="probability of each record to be in the release")

    def describe(self) -> dict[str, Any]:
        """Return what everybody may know: the manifest's ``sample``."""
        return {"share": self.share}


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


def treated(
    techniques: Mapping[str, Technique],
    source: Source,
    chance: Chance,
    domains: Mapping[str, NumberDomain] | None = None,
) -> Source:
    """Return the source with each of these columns treated; without techniques, as it is.

    *domains* are numbers that columns may hold, by what the policy declares. Techniques look at the columns as they
    were given, so their order does not matter.
    """
    if not techniques:
        return source
    known = source.schema.names
    for name, technique in techniques.items():
        for other in (name, *technique.needs):
            if other not in known:
                raise PolicyError(f"column {other!r} is not in {source.name}{did_you_mean(other, known)}")
        if name in technique.needs:
            raise PolicyError(f"column {name!r}: {technique.name} within the column itself would change nothing")
    treatments = {}
    for name, technique in techniques.items():
        domain = (domains or {}).get(name, NumberDomain())
        treatments[name] = _prepared(technique, name, source, chance, domain)
    fields = [
        pa.field(field.name, treatments[field.name].kind) if field.name in treatments else field
        for field in source.schema
    ]
    return TreatedSource(source.name, pa.schema(fields), source.n_rows, (), source, treatments)


def _prepared(technique: Technique, name: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:
    try:
        return technique.prepare(name, source, chance, domain)
    except ShoalError as error:
        said = str(error)
        if said.startswith("column "):
            raise
        raise type(error)(f"column {name!r}: {said}") from None
