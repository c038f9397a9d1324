"""Models whose parameters promise nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from shoal.audit.findings.base import Check, Finding, PublishedTable, Severity
from shoal.core.wording import parameters_text
from shoal.models.base import PopulationModel, PrivacyModel, ValueModel, Whole


class EmptyPromise(Check):
    """A requirement that the worst class meets: a single record, or for a model of values any single value."""

    name: ClassVar[str] = "empty-promise"
    severity: ClassVar[Severity] = "high"

    def look(self, table: PublishedTable) -> Iterable[Finding]:
        """Ask every model whether it rules anything out in this table."""
        for model in table.models:
            yield from self._asked(model, table)

    def _asked(self, model: PrivacyModel, table: PublishedTable) -> Iterator[Finding]:
        told = f"{model.name} ({parameters_text(model.model_dump(mode='json'))})"
        fix = f"Ask {model.name} for more."
        if not isinstance(model, ValueModel):
            if model.promises_nothing(Whole(table.rows.n_rows)):
                worst = (
                    "a record whose label fits one person" if isinstance(model, PopulationModel) else "a lone record"
                )
                yield self.found((), f"{told} promises nothing: even {worst} meets it.", fix)
            return
        names = model.attributes or table.rows.sensitive
        for about in [names] if len(model.attributes) > 1 else [(name,) for name in names]:
            if len(about) > 1 and model.relative_to_whole:
                continue  # joint values are not counted
            if model.promises_nothing(Whole.of(table.rows.value_counts(about[0]))):
                yield self.found(
                    about,
                    f"{told} promises nothing about {', '.join(about)}: even a class in which all records have the "
                    "same value meets it.",
                    fix,
                )
