"""Permutation: the values of a column dealt out anew."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from shoal.columns.base import Technique, Treatment
from shoal.columns.domains import NumberDomain
from shoal.columns.moved import MovedTreatment, coded_rows
from shoal.columns.verdicts import SUBSTITUTION
from shoal.core import kernels
from shoal.core.randomness import Chance
from shoal.sources.base import Source


class Permutation(Technique):
    """Every row gets the value of a random row of its group, each value exactly once: all orders are equally likely."""

    name = "permutation"
    title = "values dealt out anew between the records of a group"
    roles = ("quasi", "sensitive", "insensitive")
    verdict = SUBSTITUTION

    within: tuple[str, ...] = Field(
        default=(), description="columns in which records must agree to exchange values; none: the whole table"
    )

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that make groups."""
        return self.within

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        """Read the column once and deal its values out."""
        rows = coded_rows(source, column, self.within)
        _, places = kernels.grouped(rows.groups, rows.n_groups)
        origin = np.empty(len(rows.codes), dtype=np.int64)
        origin[places] = chance.order_within(rows.groups, rows.n_groups)
        kind = source.schema.field(column).type
        return MovedTreatment.of(column, kind, rows, origin, self.public())
