"""The tables of the experiments: Adult and Nursery as problems that methods can be given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.errors import UsageError
from shoal.core.progress import Silent
from shoal.datasets.origins import data_folder
from shoal.datasets.uci import adult, adult_policy, nursery
from shoal.engines.local import CountedCells, LocalEngine
from shoal.plan.problem import Problem
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source

# Every taxonomy of Nursery is ours: none was published. Attributes without one are flat.
_NURSERY_GROUPS: dict[str, dict[str, Any]] = {
    "has_nurs": {"adequate": ["proper", "less_proper"], "inadequate": ["improper", "critical", "very_crit"]},
    "form": {"both parents": ["complete", "completed"], "other": ["incomplete", "foster"]},
    "children": {"one or two": ["1", "2"], "three or more": ["3", "more"]},
    "class": {"advised": ["recommend", "very_recom"], "urgent": ["priority", "spec_prior"], "not_recom": {}},
}


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A counted table; its problem is the same for every requirement, apart from that."""

    name: str
    title: str
    choices: str  # what the paper leaves open, and what was taken
    attributes: Mapping[str, Any]  # as in a policy
    counted: CountedCells

    @property
    def n_records(self) -> int:
        """Number of records."""
        return int(self.counted.run.counts.sum())

    def names(self, role: str) -> list[str]:
        """Return the attributes of one role, in the order of importance."""
        return [name for name, options in self.attributes.items() if options["role"] == role]

    def problem(self, model: str, **parameters: float) -> Problem:
        """Return the problem of making this table meet one privacy model; nothing may be withheld."""
        policy = Policy.load({"attributes": self.attributes, "privacy": [{model: parameters}], "max_withheld": 0})
        return encode(self.counted, policy).problem


def adult_table(folder: Path | None, rows: int | None, rng: np.random.Generator) -> Table:
    """Return the 45,222 complete records of Adult, or *rows* of them drawn at random."""
    attributes = adult_policy(folder=_folder(folder))["attributes"]
    return Table(
        name="adult",
        title="Adult",
        choices="The sensitive attribute is occupation (14 values). The quasi attributes are, by importance, age, "
        "workclass, education, marital-status, race and sex, with the taxonomies of the ARX project, except for age: "
        "the labels of its file do not fit what they cover (15-19 stands for 16 to 20), so ages are cut in 5, 10 and "
        "20 years. That makes 720 combinations of levels.",
        attributes=attributes,
        counted=_counted(adult(_folder(folder), columns=list(attributes)), attributes, rows, rng),
    )


def nursery_table(folder: Path | None, rows: int | None, rng: np.random.Generator) -> Table:
    """Return the 12,960 records of Nursery, or *rows* of them drawn at random."""
    table = nursery(_folder(folder))
    attributes: dict[str, Any] = {}
    for name in table.column_names:
        groups = _NURSERY_GROUPS.get(name)
        attributes[name] = {
            "role": "sensitive" if name == "class" else "quasi",
            "taxonomy": {"flat": {}} if groups is None else {"groups": groups},
        }
    return Table(
        name="nursery",
        title="Nursery",
        choices="The sensitive attribute is class (5 values, one of them on 2 records only): the skewed one. All other "
        "eight are quasi attributes, in the order of the file; has_nurs, form and children have one level of groups, "
        "the others are flat. That makes 864 combinations of levels. The classes have the groups advised (recommend, "
        "very_recom) and urgent (priority, spec_prior), and not_recom by itself.",
        attributes=attributes,
        counted=_counted(table, attributes, rows, rng),
    )


def _folder(given: Path | None) -> Path:
    """Return the folder with the tables; none of it is downloaded, for the taxonomies cannot be."""
    folder = given or data_folder()
    if folder is None:
        raise UsageError(
            "Adult and Nursery are not at hand: name the folder that holds adult.csv.gz, nursery.csv and "
            "hierarchies/adult with --data, or in SHOAL_DATA"
        )
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder: --data names the one with adult.csv.gz and nursery.csv")
    return folder


def _counted(
    table: pa.Table, attributes: Mapping[str, Any], rows: int | None, rng: np.random.Generator
) -> CountedCells:
    if rows is not None and rows < len(table):
        table = table.take(pa.array(np.sort(rng.choice(len(table), rows, replace=False))))
    return LocalEngine().count(open_source(table), tuple(attributes), Silent())
