"""The form `plain`: every row is a record with its own quasi values, or what techniques made of them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from shoal.plan.counted import CountedCells
from shoal.plan.plan import Plan
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.columns import PublishedColumn
from shoal.release.forms.base import RECORDS, Form
from shoal.release.forms.classes import Classes

_VALUES = (
    "- Values are those of records, or changed as described above: count and model them as you would the original ones."
)


class Plain(Classes):
    """Records as they are: all that are equal in their quasi values are a class."""

    name: ClassVar[str] = "plain"
    plural: ClassVar[str] = "groups of equal quasi-identifiers"
    groups: ClassVar[str | None] = None
    generalizes: ClassVar[bool] = False
    as_they_are: ClassVar[bool] = True
    where_dropped: ClassVar[str] = "quasi"

    @classmethod
    def column(
        cls, place: int, policy: Policy, counted: CountedCells, encoding: Encoding, plan: Plan
    ) -> PublishedColumn:
        """Return the values that all records of a class have in common."""
        del policy
        of_cells = PublishedColumn.of_cells(counted, encoding.problem.quasi[place].name)
        cells = np.arange(len(plan.assignment.class_of)) if encoding.kept is None else encoding.kept
        index = np.empty(plan.n_classes, dtype=np.int32)
        index[plan.assignment.class_of] = of_cells.index[cells]  # no record is withheld, so each class has some
        return PublishedColumn(index, of_cells.values)

    def _describe_row(self) -> str:
        return f"{RECORDS}."

    def advice(self) -> list[str]:
        return [_VALUES, *self.advise_on_withheld()]

    def examples(self) -> list[tuple[str, str]]:
        return Form.examples(self)
