"""The form `averages`: all records of a class publish the same average, day or most frequent value."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from shoal.core.arrays import IntArray
from shoal.manifest import Attribute
from shoal.methods.microaggregation import Microaggregation, centres, group_records, place_centres
from shoal.plan.counted import CountedCells
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.columns import PublishedColumn
from shoal.release.forms.base import EXACT, RECORDS, quote
from shoal.release.forms.classes import Classes
from shoal.taxonomies.scales import iso_day
from shoal.taxonomies.tree import Taxonomy

_MEANS = "- The mean and the total of an averaged column equal the original ones, up to rounding."
_MEDIANS = "- Medians of groups change the mean and the total of a column; its overall median is about right."
_SPREAD = (
    "- Variances and extremes are too small, because all records of a group have the same value. Associations between "
    "averaged columns look stronger than they are, associations with other columns weaker."
)
_MODES = "- Most frequent values of groups make frequent values more frequent, and rare ones disappear."


class Averages(Classes):
    """Records whose classes publish a centre of their quasi values."""

    name: ClassVar[str] = "averages"
    generalizes: ClassVar[bool] = False
    where_dropped: ClassVar[str] = "quasi"
    unlinkable: ClassVar[str | None] = "it publishes averages, which do not represent sets of original values"

    @classmethod
    def column(
        cls, place: int, policy: Policy, counted: CountedCells, encoding: Encoding, plan: Plan
    ) -> PublishedColumn:
        """Average the source's values of the quasi attribute at *place*, class by class."""
        del counted
        method, problem = policy.method, encoding.problem
        if not isinstance(method, Microaggregation):
            raise TypeError(f"method {method.name} does not define how numbers are averaged")
        found = centres(problem, place, *group_records(problem, plan), method)
        steps = np.unique(found.steps[~found.missing])
        index = np.where(found.missing, -1, np.searchsorted(steps, found.steps)).astype(np.int32)
        return PublishedColumn(index, _spell_centres(problem.quasi[place].taxonomy, steps, method.decimals))

    @classmethod
    def read_classes(cls, policy: Policy, problem: Problem, plan: Plan) -> Plan:
        return place_centres(problem, plan, policy.method) if isinstance(policy.method, Microaggregation) else plan

    def _describe_row(self) -> str:
        return (
            f"{RECORDS}, but its quasi columns hold averages: records were put into groups of similar ones, and all "
            "records of a group show the same."
        )

    def _quasi_made(self, attribute: Attribute) -> str:
        if attribute.kind not in ("number", "date"):
            return "the most frequent value of a group"
        written = ", as year-month-day" if attribute.kind == "date" else ""
        return f"the {self.manifest.method_parameters['numbers']} of a group{written}"

    def advice(self) -> list[str]:
        kinds: set[str] = {self.manifest.attributes[name].kind for name in self.manifest.names("quasi")}
        medians = self.manifest.method_parameters.get("numbers") == "median"
        return [
            *([_MEDIANS if medians else _MEANS, _SPREAD] if kinds & {"number", "date"} else ()),
            *([_MODES] if kinds - {"number", "date"} else ()),
            EXACT,
            *self.advise_on_withheld(),
        ]

    def _count_example(self) -> str:
        by_role = self.names_by_role()
        numbers = [name for name in by_role["quasi"] if self.manifest.attributes[name].kind == "number"]
        if not numbers:
            return super()._count_example()
        grouped = f".groupby(data[{quote(by_role['sensitive'][0])}])" if by_role["sensitive"] else ""
        return f"print(data[{quote(numbers[0])}]{grouped}.mean())\n"


def _spell_centres(taxonomy: Taxonomy, steps: IntArray, decimals: int) -> pa.Array:
    """Return the published value of each centre; different centres have different values."""
    if taxonomy.scale.kind == "number":
        return pa.array(steps / 10.0**decimals if decimals else steps)
    if taxonomy.scale.kind == "date":
        return pa.array([iso_day(day) for day in steps.tolist()], pa.string())
    covers = [taxonomy.cover(leaf, leaf + 1) for leaf in steps.tolist()]
    return pa.array([str((cover.get("values") or cover["prefixes"])[0]) for cover in covers], pa.string())
