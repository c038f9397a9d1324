"""What the made-up hospital's stays depend on: its diagnoses, regions, ages, occupations and insurances."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from pydantic import TypeAdapter

Exposure = Literal["none", "manual", "contact", "seated"]
EXPOSURES: tuple[Exposure, ...] = ("none", "manual", "contact", "seated")

# How frequent a thing is at an age: (ages, heights), straight lines between.
AGE_PROFILES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "any": ((0, 105), (1, 1)),
    "newborn": ((0, 1), (1, 0)),
    "infant": ((0, 2, 6, 12), (1, 1, 0.25, 0)),
    "child": ((0, 3, 8, 15, 25, 105), (0.6, 1, 1, 0.6, 0.12, 0.02)),
    "young": ((0, 10, 15, 22, 35, 60, 105), (0.05, 0.3, 0.8, 1, 0.6, 0.25, 0.1)),
    "fertile": ((14.5, 17, 27, 32, 37, 42, 47, 49.5), (0, 0.12, 0.9, 1, 0.7, 0.2, 0.01, 0)),
    "adult": ((0, 14, 20, 30, 60, 80, 105), (0, 0.1, 0.7, 1, 1, 0.6, 0.3)),
    "middle": ((0, 20, 35, 50, 65, 80, 105), (0.01, 0.15, 0.6, 1, 0.9, 0.5, 0.25)),
    "older": ((0, 30, 45, 60, 75, 90, 105), (0, 0.05, 0.25, 0.8, 1, 0.7, 0.5)),
    "old": ((0, 45, 60, 70, 80, 90, 105), (0, 0.03, 0.2, 0.5, 1, 1.3, 1.3)),
    "both ends": ((0, 4, 10, 40, 65, 80, 105), (1, 0.7, 0.15, 0.15, 0.6, 1.3, 2)),
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How frequent one diagnosis is, for whom and when, and what a stay with it costs: a row of ``diagnoses.csv``."""

    name: str
    weight: float
    ages: str  # a key of AGE_PROFILES
    cost: int  # the median of a stay
    women: float = 1.0
    men: float = 1.0
    winter: float = 1.0
    summer: float = 1.0
    weekend: float = 1.0  # below one where admission is planned
    exposed: Exposure = "none"  # the kind of work that brings it about more often
    excess: float = 1.0  # how much more often


def _read_diagnoses() -> dict[str, dict[str, tuple[Diagnosis, ...]]]:
    """Return chapters of groups of diagnoses, in the order of the table; an empty cell is the usual value."""
    row_type = TypeAdapter(Diagnosis)
    chapters: dict[str, dict[str, tuple[Diagnosis, ...]]] = {}
    table = resources.files("shoal.datasets").joinpath("diagnoses.csv").read_text("utf-8")
    for row in csv.DictReader(table.splitlines()):
        groups, group = chapters.setdefault(row.pop("chapter"), {}), row.pop("group")
        diagnosis = row_type.validate_python({name: cell for name, cell in row.items() if cell})
        groups[group] = (*groups.get(group, ()), diagnosis)
    return chapters


DIAGNOSES = _read_diagnoses()
ALL_DIAGNOSES: tuple[Diagnosis, ...] = tuple(
    diagnosis for groups in DIAGNOSES.values() for members in groups.values() for diagnosis in members
)


Character = Literal["city", "industry", "country", "capital"]
CHARACTERS: tuple[Character, ...] = ("city", "industry", "country", "capital")

# The first two digits of the postcodes of a region, and what kind of region it is; largest first.
REGIONS: dict[str, Character] = {
    "10": "capital",
    "20": "city",
    "80": "city",
    "50": "city",
    "44": "industry",
    "60": "city",
    "45": "industry",
    "70": "industry",
    "30": "city",
    "01": "city",
    "04": "industry",
    "66": "industry",
    "97": "country",
    "24": "country",
    "17": "country",
    "94": "country",
    "39": "country",
    "88": "country",
    "26": "country",
    "06": "industry",
}

# Admissions by age: (ages, heights), straight lines between. Newborns have a height of their own.
ADMISSIONS = (
    (0, 1, 3, 10, 18, 30, 45, 60, 70, 80, 86, 95, 105),
    (30, 6, 3, 2, 4, 5, 6, 11, 15, 18, 14, 3, 0.05),
)
ADMISSIONS_FOR_BIRTH = ((15, 20, 31, 40, 47), (0, 2, 12, 4, 0))
# The country is older than the city: the weight of an age of 100 against that of a newborn.
LEANING_TO_AGE: dict[Character, float] = {"city": 0.8, "industry": 1.1, "country": 2.0, "capital": 0.5}

INSURANCES = ("statutory", "family member", "private", "civil servant scheme", "self-pay")
INSURANCE_PRICES = (1.0, 1.0, 1.3, 1.15, 1.1)  # what they pay for the same stay
INSURANCE_CHANCES: dict[str, tuple[float, ...]] = {
    "dependant": (0.02, 0.80, 0.11, 0.06, 0.01),
    "student": (0.46, 0.38, 0.11, 0.03, 0.02),
    "employee": (0.90, 0.01, 0.08, 0.00, 0.01),
    "well paid": (0.45, 0.01, 0.52, 0.01, 0.01),
    "official": (0.10, 0.00, 0.09, 0.80, 0.01),
    "independent": (0.66, 0.05, 0.25, 0.00, 0.04),
    "retired": (0.84, 0.02, 0.08, 0.055, 0.005),
    "without work": (0.62, 0.32, 0.02, 0.01, 0.03),
}
# Private insurance is taken out by the established: its weight below 30, from 30 to 49, and from 50 on.
PRIVATE_BY_AGE = (0.6, 1.0, 1.35)

Knots = tuple[tuple[float, ...], tuple[float, ...]]
WORKING: Knots = ((15, 17, 20, 26, 56, 61, 64, 67, 72, 80), (0, 0.15, 0.6, 1, 1, 0.85, 0.5, 0.12, 0.03, 0))


@dataclass(frozen=True, slots=True)
class Occupation:
    """How frequent an occupation is, for whom and where, and what it brings with it."""

    name: str
    weight: float
    insurance: str = "employee"  # a key of INSURANCE_CHANCES
    exposure: Exposure = "none"
    women: float = 1.0
    men: float = 1.0
    start: int = 0  # the lowest age
    ages: Knots = WORKING
    where: Character | None = None  # the kind of region that has more of it
    excess: float = 1.0  # how much more


O = Occupation
OCCUPATIONS: dict[str, tuple[Occupation, ...]] = {
    "In education": (
        O("preschool child", 100, "dependant", ages=((0, 5, 6), (1, 1, 0))),
        O("pupil", 100, "dependant", ages=((5, 6, 15, 16, 19, 20), (0, 1, 1, 0.6, 0.15, 0))),
        O("apprentice", 30, exposure="manual", men=1.4, ages=((15, 16, 18, 23, 27), (0, 0.6, 1, 0.2, 0))),
        O(
            "student",
            60,
            "student",
            where="city",
            excess=1.6,
            ages=((17, 18, 21, 26, 34), (0, 0.4, 1, 0.4, 0)),
        ),
    ),
    "Care and teaching": (
        O("nurse", 7, exposure="contact", women=5, start=19),
        O("physician", 1.5, "well paid", "contact", start=25, where="city", excess=1.4),
        O("teacher", 4, "official", "contact", women=2.4, start=24),
        O("social worker", 3, exposure="contact", women=3, start=21),
    ),
    "Office": (
        O("clerk", 14, exposure="seated", women=2.2),
        O("accountant", 3, exposure="seated", women=1.2, start=21),
        O("manager", 4, "well paid", "seated", men=2, start=27, where="capital", excess=1.6),
        O("software developer", 4, "well paid", "seated", men=4, start=21, where="capital", excess=2.2),
        O("administrator", 5, "official", "seated", women=1.3, start=20, where="capital", excess=2.5),
    ),
    "Service": (
        O("shop assistant", 9, women=2.4, exposure="contact"),
        O("cook", 3, exposure="manual"),
        O("cleaner", 5, exposure="manual", women=4),
        O("hairdresser", 1.5, "independent", "contact", women=7),
        O("driver", 5, exposure="seated", men=9, start=20),
    ),
    "Craft and industry": (
        O("electrician", 3, exposure="manual", men=14),
        O("mechanic", 4, exposure="manual", men=12),
        O("builder", 4, exposure="manual", men=20),
        O("machine operator", 6, exposure="manual", men=3.5, where="industry", excess=3),
        O("warehouse worker", 5, exposure="manual", men=2.6, where="industry", excess=1.8),
        O("engineer", 4, "well paid", "seated", men=4, start=23, where="industry", excess=1.6),
    ),
    "Land": (
        O("farmer", 1.4, "independent", "manual", men=1.8, where="country", excess=8),
        O("gardener", 1.2, exposure="manual", men=1.6, where="country", excess=2),
    ),
    "Public safety": (
        O("police officer", 1.4, "official", "contact", men=2.6, start=19),
        O("soldier", 0.9, "official", "manual", men=7, where="country", excess=1.5),
    ),
    "Not employed": (
        O("homemaker", 7, "without work", women=6, ages=((18, 24, 35, 60, 72, 90), (0, 0.6, 1, 1, 0.5, 0.1))),
        O(
            "unemployed",
            9,
            "without work",
            where="industry",
            excess=1.5,
            ages=((17, 19, 60, 65, 66), (0, 1, 1, 0.6, 0)),
        ),
        O("retired", 900, "retired", ages=((52, 58, 62, 66, 70), (0, 0.004, 0.03, 0.35, 1))),
    ),
}
ALL_OCCUPATIONS: tuple[Occupation, ...] = tuple(member for members in OCCUPATIONS.values() for member in members)
