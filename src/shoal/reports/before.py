"""The table as it was given: before a sample was drawn and before any technique changed a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.audit.risk.sizes import class_risks
from shoal.audit.risk.units import people_risks
from shoal.columns.baskets.unfolding import UnfoldedSource
from shoal.columns.sampling import SampledSource
from shoal.columns.treating import TreatedSource
from shoal.core.arrays import AnyIntArray
from shoal.core.progress import Progress
from shoal.engines.local import CountedCells, LocalEngine
from shoal.plan.plan import same_rows
from shoal.release.publication import PlannedPublication, Publication
from shoal.release.regions import RegionalPublication
from shoal.reports.carriers import risk_carriers
from shoal.sources.base import Source, layers


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """The given source, and how its records could be found."""

    source: Source
    n_rows: int
    risks: dict[str, Any]
    carriers: dict[str, Any] | None  # which attributes single records out; None: it would take long to say

    @classmethod
    def of(cls, publication: Publication, progress: Progress) -> Given:
        """Take what the run has counted; only if quasi values were changed, or records drawn, count them once more."""
        *_, source = layers(publication.source)
        if isinstance(publication, RegionalPublication):
            return cls(source, publication.n_source_rows, publication.risks_before(), None)
        if not isinstance(publication, PlannedPublication):
            raise TypeError("what was before is known of a table that was counted")
        quasi, counted = publication.policy.names("quasi"), publication.counted
        units = dict(list(publication.policy.units.items())[:1])
        if changed_before(publication.source, quasi):
            quasi = _folded(publication.source, quasi)
            counted = LocalEngine().count(source, (*units.values(), *quasi), progress)
        risks = class_risks(counted.class_sizes(quasi))
        for key, name in units.items():
            _, class_of = same_rows(list(quasi_codes(counted, quasi).values()))
            person = counted.codes(counted.columns.index(name))
            risks = people_risks(key, class_of, person, counted.run.counts)
        return cls(source, counted.n_rows, risks, risk_carriers(quasi_codes(counted, quasi), counted.run.counts))


def quasi_codes(counted: CountedCells, quasi: tuple[str, ...]) -> dict[str, AnyIntArray]:
    """Return (n_cells,) the codes of each quasi attribute."""
    return {name: counted.codes(counted.columns.index(name)) for name in quasi}


def changed_before(source: Source, quasi: tuple[str, ...]) -> bool:
    """Whether records were drawn or quasi values changed, so that the given table is another than what was counted."""
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
