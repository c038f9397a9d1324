"""Sources whose columns are treated."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shoal.columns.base import Technique, Treatment
from shoal.columns.domains import NumberDomain
from shoal.columns.sampling import SampledSource
from shoal.core.errors import PolicyError, ShoalError, did_you_mean
from shoal.core.randomness import Chance
from shoal.sources.base import DerivedSource, Source, layers


@dataclass(frozen=True, slots=True, eq=False)
class TreatedSource(DerivedSource):
    """The rows of another source with some columns treated; the others come as they are."""

    treatments: Mapping[str, Treatment]
    identifiers: frozenset[str] = frozenset()  # columns whose tokens stand for persons

    def describe(self) -> dict[str, dict[str, Any]]:
        """Return what everybody may know of each column's treatment: the manifest's ``techniques``."""
        return {
            name: treatment.describe() | ({"of": "identifier"} if name in self.identifiers else {})
            for name, treatment in self.treatments.items()
        }

    def findings(self) -> dict[str, dict[str, int]]:
        """Return each treatment's counts for the evidence, which some have none of."""
        return {name: treatment.findings() for name, treatment in self.treatments.items()}

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        treated = [name for name in columns if name in self.treatments]
        first_row = 0
        for batch in self.given.batches(columns, dictionary=[*(coded - set(treated)), *treated]):
            arrays = dict(zip(columns, batch.columns, strict=True))
            for name in treated:
                arrays[name] = self.treatments[name].apply(arrays[name], first_row)
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=columns)
            first_row += batch.num_rows


def treated(
    techniques: Mapping[str, Technique],
    source: Source,
    chance: Chance,
    domains: Mapping[str, NumberDomain] | None = None,
    identifiers: Collection[str] = (),
) -> Source:
    """Return the source with each of these columns treated; without techniques, as it is.

    *domains* are numbers that columns may hold, by what the policy declares; *identifiers* are columns whose tokens
    stand for persons. Techniques look at the columns as they were given, so their order does not matter.
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
    return TreatedSource(source.name, pa.schema(fields), source.n_rows, (), source, treatments, frozenset(identifiers))


def _prepared(technique: Technique, name: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:
    try:
        return technique.prepare(name, source, chance, domain)
    except ShoalError as error:
        said = str(error)
        if said.startswith("column "):
            raise
        raise type(error)(f"column {name!r}: {said}") from None


def changed_before(source: Source, quasi: tuple[str, ...]) -> bool:
    """Whether records were drawn or quasi values changed, so that the given table is another than what was counted."""
    return any(
        isinstance(layer, SampledSource)
        or (isinstance(layer, TreatedSource) and not layer.treatments.keys().isdisjoint(quasi))
        for layer in layers(source)
    )
