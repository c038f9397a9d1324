"""Microaggregation of several columns: numbers become averages over groups of near records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from pydantic import Field, model_validator

from shoal.columns.base import NumberDomain, Technique, Trace, Treatment
from shoal.columns.numbers import MOST_DECIMALS, Grid, explain_decimals, plain_number, read_numbers
from shoal.columns.permutation import MovedTreatment
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.dictionaries import encode_columns
from shoal.core.errors import InputError
from shoal.core.kernels import group_items, same_rows
from shoal.core.randomness import Chance
from shoal.core.wording import code, count_noun, join_words
from shoal.sources.base import Source


class Microaggregation(Technique):
    """Every combination of averages of these columns is published at least k times, within strata if these are named.

    Records are grouped by these columns alone, and separately for other sets of columns, as in sdcMicro and mu-Argus
    (Domingo-Ferrer and Mateo-Sanz, "Practical data-oriented microaggregation for statistical disclosure control", TKDE
    14(1), 2002). Several sets of columns together may still distinguish a record from all others; for k-anonymity use
    the method of the same name. Only records that lack the same numbers share groups. Records with equal numbers are
    assigned to groups at random.
    """

    name = "microaggregation"
    title = "numbers of some columns averaged over groups of at least k similar records"
    roles = ("quasi", "sensitive", "insensitive")

    k: int = Field(ge=2, description="smallest number of records in a group; the largest is below 2k")
    columns: tuple[str, ...] = Field(
        default=(), description="the other columns of numbers that are grouped and averaged together with this one"
    )
    strata: tuple[str, ...] = Field(
        default=(), description="columns in which all records of a group agree; none: the whole table"
    )
    decimals: int = Field(default=0, ge=0, le=MOST_DECIMALS, description="decimals of published averages")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if len({*self.columns, *self.strata}) < len(self.needs):
            raise ValueError("names a column twice in columns and strata")
        return self

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        others = f" together with {join_words([code(name) for name in entry['columns']])}" if entry["columns"] else ""
        strata = f" that agree in {join_words([code(name) for name in entry['strata']])}" if entry["strata"] else ""
        return (
            f"numbers were replaced{others} by averages of groups of at least {entry['k']} near records{strata}, "
            f"{explain_decimals(entry)}. A number is usually about {plain_number(entry['distance'])} away from its "
            "average. Other columns were not considered and may still distinguish rows."
        )

    @classmethod
    def advise(cls, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
        names = join_words([code(name) for name in entries])
        advice = (
            f"- Group averages ({names}) preserve means. Variances are too small, correlations of columns that were "
            "averaged together tend to be too large, and correlations with other columns are distorted."
        )
        return [advice]

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        return Trace(blur=float(entry["distance"]), numbers=True)

    @property
    def carried(self) -> tuple[str, ...]:
        return self.columns

    @property
    def needs(self) -> tuple[str, ...]:
        return (*self.columns, *self.strata)

    def refuse(self, column: str) -> str | None:
        return "name other columns than this one in columns and strata" if column in self.needs else None

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        names, grid = [column, *self.columns], Grid(self.decimals)
        numbers = read_numbers(source, names)
        # Only rows that lack the same numbers and agree in the strata share groups.
        lacking: list[AnyIntArray] = [np.isnan(own).astype(np.int32) for own in numbers.T]
        strata = list(self.strata)
        agreeing = encode_columns(source.batches(strata, dictionary=strata))[1] if strata else []
        group = self._group(column, numbers, same_rows([*lacking, *agreeing])[1], chance)
        treatments: dict[str, Treatment] = {}
        for name, own in zip(names, numbers.T, strict=True):
            known = np.flatnonzero(np.isfinite(own))
            averages = average_groups(own[known], group[known])
            distance = float(f"{np.sqrt(np.mean((own[known] - averages) ** 2)):.1g}") if len(known) else 0.0
            steps, place = np.unique(grid.steps(averages, name), return_inverse=True)
            codes = np.zeros(len(own), dtype=np.int32)
            codes[known] = place + 1
            others = [other for other in names if other != name]
            said = self.public(columns=others, strata=list(self.strata), distance=distance)
            values, found = grid.numbers(steps, np.ones(len(steps), dtype=np.bool_)), {"groups": int(group.max()) + 1}
            treatments[name] = MovedTreatment(name, grid.kind, said, values, codes, found)
        return replace(treatments.pop(column), carried=treatments)

    def _group(self, column: str, numbers: FloatArray, parts: CodeArray, chance: Chance) -> IntArray:
        """Return (n_rows,) the group of each row, -1 for rows without numbers; refuse parts of fewer than k rows."""
        from shoal.columns.microaggregation.mdav import Space, microaggregate

        group = np.full(len(parts), -1)
        n_parts, n_groups, too_few = int(parts.max(initial=-1)) + 1, 0, 0
        start, _ = group_items(parts, n_parts)
        order = chance.order_within(parts, n_parts)  # equal records are assigned to groups in this order
        for part in range(n_parts):
            rows = order[start[part] : start[part + 1]]
            known = np.flatnonzero(np.isfinite(numbers[rows[0]]))
            if not len(known):
                continue
            if len(rows) < self.k:
                too_few += len(rows)
                continue
            found = microaggregate(Space.of([numbers[rows, place] for place in known], []), self.k)
            group[rows] = found.group + n_groups
            n_groups += found.n_groups
        if too_few:
            raise InputError(
                f"column {column!r}: {count_noun(too_few, 'record is', 'records are')} in strata of fewer than "
                f"{self.k}, or too few others lack the same numbers; name coarser strata, or group "
                "columns with missing numbers separately"
            )
        return group


def average_groups(numbers: FloatArray, group: IntArray) -> FloatArray:
    """Return (n_rows,) the mean of every row's group; the order of rows does not change even the last digit."""
    from shoal.columns.microaggregation.mdav import Grouping, group_means

    if not len(numbers):
        return numbers
    owner = np.unique(group, return_inverse=True)[1].reshape(-1).astype(np.int32)
    means: FloatArray = group_means(numbers, Grouping(owner, int(owner.max()) + 1))[owner]
    return means
