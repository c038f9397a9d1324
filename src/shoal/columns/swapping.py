"""Swapping: a share of the records exchange their values in pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from shoal.columns.base import NumberDomain, Technique, Treatment
from shoal.columns.permutation import MovedTreatment, explain_groups, read_codes
from shoal.columns.row_random import uniform
from shoal.columns.verdicts import SUBSTITUTION
from shoal.core.randomness import Chance
from shoal.sources.base import Source


class Swapping(Technique):
    """A random share of the records of each group exchange the column's value with a random other one of the group.

    Dalenius and Reiss, "Data-swapping: a technique for disclosure control", JSPI 6(1), 1982.
    """

    name = "swapping"
    title = "values exchanged between pairs of records of a group"
    roles = ("quasi", "sensitive", "insensitive")
    verdict = SUBSTITUTION

    share: float = Field(gt=0, le=1, description="share of the records that take part, on average")
    within: tuple[str, ...] = Field(
        default=(), description="columns in which records must agree to exchange values; none: the whole table"
    )

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        """Say how many records exchanged their values, and with whom."""
        return (
            f"about {100 * entry['share']:.6g}% of the records exchanged their values in pairs{explain_groups(entry)}. "
            "No value was made up, but in a row it may be another person's."
        )

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that make groups."""
        return self.within

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        """Read the column once and choose the pairs: neighbours in a random order of each group, the first ones of it.

        The number of pairs is rounded up or down at random, so that small groups take part as often as large ones.
        """
        rows = read_codes(source, column, self.within)
        order = chance.order_within(rows.groups, rows.n_groups)
        sizes = np.bincount(rows.groups, minlength=rows.n_groups)
        chances = uniform(chance.keys(rows.n_groups)) - 2.0**-53
        pairs = np.minimum(np.floor(self.share * sizes / 2 + chances).astype(np.int64), sizes // 2)  # (n_groups,)
        start = np.cumsum(sizes) - sizes
        group = np.repeat(np.arange(rows.n_groups), sizes)
        place = np.arange(len(order)) - start[group]  # (n_rows,) in the order of the group
        partner = np.where(place < 2 * pairs[group], place ^ 1, place)
        origin = np.empty(len(order), dtype=np.int64)
        origin[order] = order[start[group] + partner]
        kind = source.schema.field(column).type
        return MovedTreatment.of(column, kind, rows, origin, self.public())
