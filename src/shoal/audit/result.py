"""The result of an audit: names of columns and counts, never a record's values.

The risks by class are for three kinds of attackers: El Emam, "Guide to the de-identification of personal health
information", 2013. The prosecutor is sure that the target is in the table, the journalist only that the target is in
the population, and the marketer wants to find as many people as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from shoal.audit.raw import RawTable
from shoal.audit.requirements import ModelVerdict, SensitiveRisk
from shoal.audit.survey import IndividualRisk, LogLinearRisk
from shoal.audit.uniqueness import CodedColumn, MinimalSet, SetRisk, SpecialUniques, disclosure, record_disclosure
from shoal.audit.units import HouseholdRisk, PersonRisk
from shoal.core.arrays import IntArray
from shoal.core.progress import Progress, show
from shoal.core.results import Figures, Finding, as_json
from shoal.core.wording import count_noun, percent
from shoal.models.population import PopulationUniqueness
from shoal.policy.policy import Policy, Role

ALONE = 0.05  # share of records that a column makes unique by itself, from which there is a warning
JOINED = 0.5  # share of the records hidden by the quasi attributes that it makes unique together with them
ABOVE = (0.1, 0.3, 0.5)  # probabilities for which the number of records above is stated
THRESHOLDS = (0.05, 0.2, 0.33)
_KEYS = (  # of an audit as JSON
    "headline", "warnings", "source", "rows", "records", "missing", "quasi", "classes", "k", "unique_records",
    "unique_share", "class_sizes", "prosecutor", "journalist", "marketer", "models", "sensitive", "sets",
    "minimal_sets", "fastest_order", "columns", "special_uniques", "population_uniqueness", "loglinear", "persons",
    "households", "individual_risk", "findings",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Audit:
    """The risk of publishing an unchanged table, without identifiers.

    If the policy names persons, searchers, models of sizes and populations, sets of attributes, and estimates count
    each person once per class instead of the records. Class sizes, models of values and columns count records.
    """

    source: str
    rows: int  # of the source
    records: int  # that the policy does not drop
    missing: Literal["category", "drop"]
    missing_values: tuple[MissingValues, ...]
    quasi: tuple[str, ...]
    classes: int
    smallest_class: int  # records
    unique_records: int
    class_sizes: tuple[dict[str, int], ...]
    prosecutor: SearchRisk
    marketer: float
    populations: tuple[PopulationRisk, ...]
    models: tuple[ModelVerdict, ...]
    sensitive: tuple[SensitiveRisk, ...]
    sets: tuple[SetRisk, ...]  # ordered by the records that they single out
    threshold: float
    minimal_sets: tuple[SetRisk, ...]
    fastest_order: tuple[SetRisk, ...]
    columns: tuple[ColumnRisk, ...]
    special: SpecialRisk
    uniqueness: PopulationUniqueness | None  # if the table is a sample
    loglinear: tuple[LogLinearRisk, ...]  # the same by the quasi values
    persons: PersonRisk | None  # if the policy names them
    households: HouseholdRisk | None
    individual: IndividualRisk | None = None  # if the policy has survey weights
    findings: tuple[Finding, ...] = ()  # high ones first
    not_applied: tuple[str, ...] = ()  # changes by the policy: columns with techniques, "sample"

    @property
    def k(self) -> int:
        """The k of the table: the people of its smallest class."""
        return self.smallest_class if self.persons is None else self.persons.smallest_class

    @property
    def unique_share(self) -> float:
        """The share of records with unique quasi values."""
        return self.unique_records / self.records

    @property
    def warnings(self) -> tuple[str, ...]:
        """Changes that the policy needs before publishing."""
        found = [column.warning for column in self.columns if column.warning is not None]
        by_records = [verdict.model.name for verdict in self.models if verdict.by_records]
        if by_records:
            found.append(f"{', '.join(by_records)} count records, not people, and may look better than they are")
        if self.not_applied:
            found.append(
                f"the policy changes the table first ({', '.join(self.not_applied)}), but this audit describes the "
                "original table; shoal attack measures the risk after the changes"
            )
        return tuple(found)

    @property
    def headline(self) -> str:
        """The audit in one sentence."""
        if self.persons is not None:
            lone, every = self.persons.lone_persons, self.persons.persons
            return (
                f"{lone:,} of {every:,} people ({percent(lone / every)}) {'is' if lone == 1 else 'are'} "
                f"alone with a record's values of {', '.join(self.quasi)}."
            )
        return (
            f"{self.unique_records:,} of {self.records:,} records ({percent(self.unique_share)}) "
            f"{'is' if self.unique_records == 1 else 'are'} unique on {', '.join(self.quasi)}."
        )

    def _repr_html_(self) -> str:
        return str(show("audit", self))

    def as_dict(self) -> dict[str, object]:
        """Return everything for JSON."""
        other: dict[str, object] = {  # entries that differ from the field or property of that name
            "missing": {"policy": self.missing, "columns": self.missing_values},
            "journalist": {risk.population: risk for risk in self.populations} or {"upper_bound": self.prosecutor},
            "minimal_sets": {"unique_share_above": self.threshold, "sets": self.minimal_sets},
            "special_uniques": self.special,
            "population_uniqueness": self.uniqueness,
            "individual_risk": self.individual,
        }
        return {name: as_json(other[name] if name in other else getattr(self, name)) for name in _KEYS}


@dataclass(frozen=True, slots=True)
class SearchRisk(Figures):
    """The probability that a record is matched with the right person, over all records."""

    highest: float
    mean: float
    share_above: tuple[tuple[float, float], ...]  # threshold, share of records with a higher risk

    def as_dict(self) -> dict[str, object]:
        above = {f"{threshold:g}": share for threshold, share in self.share_above}
        return {"highest": self.highest, "mean": self.mean, "share_above": above}


@dataclass(frozen=True, slots=True)
class PopulationRisk(Figures):
    """The risks if an attacker searches in a table of the population.

    ``records_not_covered`` are in classes with more records than the population has people: the population is
    incomplete, so their own class is used as the candidates.
    """

    population: str
    people: int
    journalist: SearchRisk
    marketer: float
    population_unique_records: int  # records that fit one person of the population
    records_not_covered: int


def search_risk(sizes: IntArray, candidates: IntArray) -> SearchRisk:
    """Return the risks of records in classes of these *sizes* that hide among *candidates*.

    >>> search_risk(np.array([1, 3]), np.array([1, 3])).mean
    0.5
    """
    n_records = int(sizes.sum())
    return SearchRisk(
        highest=1 / int(candidates.min()),
        mean=float((sizes / candidates).sum()) / n_records,
        share_above=tuple(
            (threshold, int(sizes[candidates < float(1 / Fraction(str(threshold)))].sum()) / n_records)
            for threshold in THRESHOLDS
        ),
    )


def population_risk(name: str, people: int, sizes: IntArray, candidates: IntArray) -> PopulationRisk:
    """Return the risks of classes of these *sizes*, given the number of *candidates* of the population for each."""
    fitting = np.maximum(sizes, candidates)
    risk = search_risk(sizes, fitting)
    return PopulationRisk(
        population=name,
        people=people,
        journalist=risk,
        marketer=risk.mean,  # the sum of f / F over classes, per record
        population_unique_records=int(((sizes == 1) & (candidates == 1)).sum()),
        records_not_covered=int(sizes[candidates < sizes].sum()),
    )


@dataclass(frozen=True, slots=True)
class DisclosureRisk(Figures):
    """The probability that a person of the population who matches one unique record is the right one."""

    chance: float  # over all unique records
    highest: float | None  # of a record, by its score; None for too many attributes
    records_above: tuple[tuple[float, int], ...]

    @classmethod
    def of(cls, found: SpecialUniques, fraction: float) -> DisclosureRisk:
        """Measure a table that is *fraction* of its population."""
        chance = disclosure(int(found.unique.sum()), found.pairs, fraction)
        chances = record_disclosure(found, fraction)
        if chances is None:
            return cls(chance, None, ())
        return cls(chance, float(chances.max()), tuple((limit, int((chances > limit).sum())) for limit in ABOVE))

    def as_dict(self) -> dict[str, object]:
        above = {f"{chance:g}": records for chance, records in self.records_above}
        return {"dis": self.chance, "dis_suda_highest": self.highest, "dis_suda_records_above": above}


@dataclass(frozen=True, slots=True)
class SpecialRisk(Figures):
    """The attributes that single records out: minimal sets, and the contribution of each attribute to the scores."""

    largest: int
    unique_records: int
    by_size: tuple[int, ...]  # records by the size of their smallest set, from 1; the last has only larger sets
    sets: tuple[MinimalSet, ...]  # the highest score first
    score: int
    contributions: tuple[tuple[str, float], ...]  # the highest first
    disclosure: DisclosureRisk | None  # if the table is a sample

    @classmethod
    def of(cls, found: SpecialUniques, fraction: float | None) -> SpecialRisk:
        """Summarize the search; *fraction* of the population is in the table, if that is known."""
        return cls(
            largest=found.largest,
            unique_records=int(found.unique.sum()),
            by_size=found.by_size(),
            sets=found.sets,
            score=found.score,
            contributions=tuple(sorted(found.contributions.items(), key=lambda entry: -entry[1])),
            disclosure=None if fraction is None else DisclosureRisk.of(found, fraction),
        )

    def as_dict(self) -> dict[str, object]:
        return {
            "largest_set": self.largest,
            "unique_records": self.unique_records,
            "records_by_smallest_set": {str(size + 1): count for size, count in enumerate(self.by_size[:-1])},
            "records_of_larger_sets": self.by_size[-1],
            "score": self.score,
            "contributions": dict(self.contributions),
            "sets": [
                {"attributes": list(one.attributes), "records": one.records, "score_share": one.score / self.score}
                for one in self.sets
            ],
            "disclosure": None if self.disclosure is None else self.disclosure.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class MissingValues(Figures):
    """The records of the source without a value in one column."""

    column: str
    records: int
    share: float


@dataclass(frozen=True, slots=True)
class ColumnRisk(Figures):
    """The records that a column without the role quasi singles out, alone and together with the quasi attributes."""

    column: str
    role: Role
    values: int
    unique_records: int
    unique_share: float
    unique_with_quasi: int
    newly_unique_share: float  # of the records that are not unique by the quasi attributes
    warning: str | None


def column_risks(raw: RawTable, policy: Policy, progress: Progress) -> tuple[ColumnRisk, ...]:
    """Examine every sensitive and insensitive column; identifiers are not published and not read."""
    names = raw.counted.columns[raw.n_quasi :]
    risks = []
    with progress.step("other columns", len(names), unit="columns") as step:
        for number, name in enumerate(names, start=raw.n_quasi):
            risks.append(_column_risk(raw, raw.column(number), policy.attributes[name].role))
            step.advance(1)
    return tuple(risks)


def _column_risk(raw: RawTable, column: CodedColumn, role: Role) -> ColumnRisk:
    of_value = np.bincount(column.codes, weights=raw.records, minlength=column.domain)
    unique, n_records = int((of_value == 1).sum()), raw.n_records
    joined = raw.classes().split(column).n_unique
    before = int((raw.sizes == 1).sum())
    hidden = n_records - before
    newly = (joined - before) / hidden if hidden else 0.0
    share = unique / n_records
    return ColumnRisk(
        column=column.name,
        role=role,
        values=int((of_value[1:] > 0).sum()),
        unique_records=unique,
        unique_share=share,
        unique_with_quasi=joined,
        newly_unique_share=newly,
        warning=_warning(column.name, role, unique, share, newly, hidden),
    )


def _warning(name: str, role: Role, unique: int, share: float, newly: float, hidden: int) -> str | None:
    if share >= ALONE:
        found = f"column {name!r} alone makes {count_noun(unique, 'record')} ({percent(share)}) unique"
    elif role == "insensitive" and newly >= JOINED:
        found = f"column {name!r} makes {percent(newly)} of the {hidden:,} records that the others hide unique"
    else:
        return None
    if role == "insensitive":
        return (
            f"{found}, and no model covers it: anyone who knows it finds the record; make it quasi with a taxonomy, "
            "round it (a technique), or make it an identifier"
        )
    return f"{found}: anyone who knows it finds the record; coarsen it, or make it quasi"


def missing_values(raw: RawTable) -> tuple[MissingValues, ...]:
    """Count missing values in every column that was read, in all records of the source."""
    found = []
    for number, name in enumerate(raw.counted.columns):
        records = int(raw.counted.run.counts[raw.counted.codes(number) == 0].sum())
        if records:
            found.append(MissingValues(name, records, records / raw.counted.n_rows))
    return tuple(found)
