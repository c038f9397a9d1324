"""The table as it was given: before a sample was drawn and before any technique changed a value."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.arrays import AnyIntArray
from shoal.engines.local import CountedCells, LocalEngine
from shoal.progress import Progress
from shoal.publishing import PlannedPublication
from shoal.sources import Source
from shoal.sources.base import layers
from shoal.techniques.sampling import SampledSource
from shoal.techniques.treating import TreatedSource
from shoal.transactions.unfolding import UnfoldedSource


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """The given source, and its cells over the quasi attributes, which are the last columns counted."""

    source: Source
    counted: CountedCells
    quasi: tuple[str, ...]

    @classmethod
    def of(cls, publication: PlannedPublication, progress: Progress) -> Given:
        """Take what the run has counted; only if quasi values were changed, or records drawn, count them once more."""
        *_, source = layers(publication.source)
        quasi = publication.policy.names("quasi")
        if not _changed(publication.source, quasi):
            return cls(source, publication.counted, quasi)
        columns = _folded(publication.source, quasi)
        return cls(source, LocalEngine().count(source, columns, progress), columns)

    def codes(self) -> dict[str, AnyIntArray]:
        """Return (n_cells,) the codes of each quasi attribute."""
        return quasi_codes(self.counted, self.quasi)


def quasi_codes(counted: CountedCells, quasi: tuple[str, ...]) -> dict[str, AnyIntArray]:
    """Return (n_cells,) the codes of each quasi attribute."""
    return {name: counted.codes(counted.columns.index(name)) for name in quasi}


def _changed(source: Source, quasi: tuple[str, ...]) -> bool:
    return any(
        isinstance(layer, SampledSource)
        or (isinstance(layer, TreatedSource) and not layer.treatments.keys().isdisjoint(quasi))
        for layer in layers(source)
    )


def _folded(source: Source, quasi: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of the given source that quasi attributes were made of: baskets in place of their groups."""
    basket = {
        name: unfolding.column
        for layer in layers(source)
        if isinstance(layer, UnfoldedSource)
        for unfolding in layer.unfoldings
        for name in unfolding.names
    }
    return tuple(dict.fromkeys(basket.get(name, name) for name in quasi))
