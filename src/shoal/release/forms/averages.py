"""The form `averages`: all records of a class publish an average, a day or a most frequent value."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from shoal.core.arrays import IntArray
from shoal.manifest import Attribute
from shoal.methods.base import Method
from shoal.methods.microaggregation import Microaggregation, centres, group_records, place_centres
from shoal.plan.counted import CountedCells
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.columns import PublishedColumn
from shoal.release.forms.base import EXACT, RECORDS, Form, quote
from shoal.release.forms.classes import Classes
from shoal.taxonomies.scales import iso_day
from shoal.taxonomies.tree import Taxonomy

_MEANS = "- The mean and the total of an averaged column are those of the records, up to rounding."
_MEDIANS = "- Medians of groups keep neither the mean nor the total of a column; the middle of a column is about right."
_SPREAD = (
    "- Variances are too small, and so are the extremes: within a group all records show the same. Associations "
    "between averaged columns look stronger than they are, those with other columns weaker."
)
_MODES = "- Most frequent values of groups make frequent values more frequent, and rare ones vanish."


class Averages(Classes):
    """Records of which all in a class publish the same centre of their quasi values."""

    name: ClassVar[str] = "averages"
    generalizes: ClassVar[bool] = False
    where_dropped: ClassVar[str] = "quasi"
    unlinkable: ClassVar[str | None] = "it publishes averages, which stand for no set of original values"

    @classmethod
    def column(
        cls, place: int, policy: Policy, counted: CountedCells, encoding: Encoding, plan: Plan
    ) -> PublishedColumn:
        """Return the centres of the classes in one quasi attribute."""
        del counted
        return centre_column(place, encoding, plan, policy.method)

    @classmethod
    def read_classes(cls, policy: Policy, problem: Problem, plan: Plan) -> Plan:
        return place_centres(problem, plan, policy.method) if isinstance(policy.method, Microaggregation) else plan

    def _describe_row(self) -> str:
        return (
            f"{RECORDS}, but its quasi columns hold averages: records were put into groups of similar ones, and all "
            "records of a group show the same."
        )

    def _quasi_made(self, attribute: Attribute) -> str:
        """Say what all records of a group show of a column."""
        if attribute.kind not in ("number", "date"):
            return "the most frequent value of a group"
        written = ", as year-month-day" if attribute.kind == "date" else ""
        return f"the {self.manifest.method_parameters['numbers']} of a group{written}"

    def advice(self) -> list[str]:
        """Return what averaging does to figures."""
        kinds: set[str] = {self.manifest.attributes[name].kind for name in self.manifest.names("quasi")}
        medians = self.manifest.method_parameters.get("numbers") == "median"
        return [
            *([_MEDIANS if medians else _MEANS, _SPREAD] if kinds & {"number", "date"} else ()),
            *([_MODES] if kinds - {"number", "date"} else ()),
            EXACT,
            *self.advise_on_withheld(),
        ]

    def examples(self) -> list[tuple[str, str]]:
        """Return an average, or a count where nothing is a number."""
        return Form.examples(self)

    def _count_example(self) -> str:
        by_role = self.names_by_role()
        numbers = [name for name in by_role["quasi"] if self.manifest.attributes[name].kind == "number"]
        if not numbers:
            return super()._count_example()
        grouped = f".groupby(data[{quote(by_role['sensitive'][0])}])" if by_role["sensitive"] else ""
        return f"print(data[{quote(numbers[0])}]{grouped}.mean())\n"


def centre_column(place: int, encoding: Encoding, plan: Plan, method: Method) -> PublishedColumn:
    """Average the source's values of the quasi attribute at *place*, class by class."""
    if not isinstance(method, Microaggregation):
        raise TypeError(f"method {method.name} does not say how numbers are averaged")
    problem = encoding.problem
    found = centres(problem, place, *group_records(problem, plan), method)
    steps = np.unique(found.steps[~found.missing])
    index = np.where(found.missing, -1, np.searchsorted(steps, found.steps)).astype(np.int32)
    return PublishedColumn(index, _spell_centres(problem.quasi[place].taxonomy, steps, method.decimals))


def _spell_centres(taxonomy: Taxonomy, steps: IntArray, decimals: int) -> pa.Array:
    """Return what is published for each of these centres; equal ones, and no others, are equal."""
    if taxonomy.scale.kind == "number":
        return pa.array(steps / 10.0**decimals if decimals else steps)
    if taxonomy.scale.kind == "date":
        return pa.array([iso_day(day) for day in steps.tolist()], pa.string())
    covers = [taxonomy.cover(leaf, leaf + 1) for leaf in steps.tolist()]
    return pa.array([str((cover.get("values") or cover["prefixes"])[0]) for cover in covers], pa.string())
