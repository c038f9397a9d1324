"""The made-up hospital's joint distribution, as tables of chances along the order in which columns are drawn.

postcode -> sex -> age -> occupation -> insurance, and day of admission; then diagnosis from age, sex, season,
weekend and the kind of work; then cost from diagnosis, age and insurance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray
from shoal.datasets import hospital_diagnoses, hospital_people
from shoal.datasets.chances import Chances
from shoal.datasets.hospital_diagnoses import AGE_PROFILES, EXPOSURES
from shoal.datasets.hospital_people import CHARACTERS

SEXES = ("F", "M")
WOMEN = 0.515  # share of stays
FIRST_DAY = np.datetime64("2022-01-01")
LAST_DAY = np.datetime64("2024-12-31")
OLDEST = 105
AGES = np.arange(OLDEST + 1)
SEASONS = ("winter", "spring", "summer", "autumn")

WEEKDAYS = (1.18, 1.15, 1.08, 1.06, 1.0, 0.66, 0.62)  # Monday first
STEEPNESS = 1.5  # of the weights of diagnoses: a few fill the house, many are rare
QUIET_DAYS = ("01-01", "12-24", "12-25", "12-26", "12-31")


@dataclass(frozen=True, slots=True, eq=False)
class HospitalTables:
    """All that the generator looks up; contexts are mixed-radix numbers of the codes they name."""

    postcodes: tuple[str, ...]
    postcode: Chances
    character: CodeArray  # (n_postcodes,) the kind of region
    age: Chances  # context: character, sex
    occupation: Chances  # context: character, sex, age
    insurance: Chances  # context: occupation, stage of life
    stage: CodeArray  # (n_ages,) below 30, below 50, older
    exposure: CodeArray  # (n_occupations,)
    day: Chances
    season: CodeArray  # (n_days,)
    weekend: CodeArray  # (n_days,) 1 on Saturday and Sunday
    band: CodeArray  # (n_ages,) newborn, then 1 to 4, then five years each
    diagnosis: Chances  # context: band, sex, season, weekend, exposure
    log_cost: FloatArray  # (n_diagnoses,) logarithm of the median


@cache
def tables() -> HospitalTables:
    """Return the one set of tables; it depends on nothing but this package."""
    postcodes, weights, character = _postcodes()
    days = np.arange(FIRST_DAY, LAST_DAY + 1)
    weekday = (days.astype(np.int64) + 3) % 7  # the first of January 1970 was a Thursday
    month = days.astype("datetime64[M]").astype(np.int64) % 12 + 1
    band = np.where(AGES == 0, 0, 1 + AGES // 5)
    return HospitalTables(
        postcodes=postcodes,
        postcode=Chances.of(weights[np.newaxis, :]),
        character=character,
        age=Chances.of(_age_weights()),
        occupation=Chances.of(_occupation_weights()),
        insurance=Chances.of(_insurance_weights()),
        stage=np.searchsorted((30, 50), AGES, side="right").astype(np.int32),
        exposure=np.array([EXPOSURES.index(job.exposure) for job in hospital_people.ALL], dtype=np.int32),
        day=Chances.of(_day_weights(days, weekday)[np.newaxis, :]),
        season=(month % 12 // 3).astype(np.int32),
        weekend=(weekday >= 5).astype(np.int32),
        band=band.astype(np.int32),
        diagnosis=Chances.of(_diagnosis_weights(band)),
        log_cost=np.log([diagnosis.cost for diagnosis in hospital_diagnoses.ALL]),
    )


def _postcodes() -> tuple[tuple[str, ...], FloatArray, CodeArray]:
    """Return sorted postcodes with Zipf-like weights, within a region and between regions."""
    rows: list[tuple[str, float, int]] = []
    for rank, (prefix, kind) in enumerate(hospital_people.REGIONS.items()):
        size = 150 - 5 * rank
        places = np.arange(size)
        weights = (places + 4.0) ** -0.9
        weights /= weights.sum() * (rank + 2) ** 0.8
        suffixes = (places * 37 + rank * 113) % 1000  # 37 is prime to 1000, so they differ
        rows += zip(
            (f"{prefix}{suffix:03d}" for suffix in suffixes),
            weights.tolist(),
            [CHARACTERS.index(kind)] * size,
            strict=True,
        )
    texts, shares, kinds = zip(*sorted(rows), strict=True)
    return texts, np.array(shares), np.array(kinds, dtype=np.int32)


def _age_weights() -> FloatArray:
    admissions = np.interp(AGES, *hospital_people.ADMISSIONS)
    births = np.interp(AGES, *hospital_people.ADMISSIONS_FOR_BIRTH)
    # The oldest are women: their survival reaches further.
    by_sex = np.stack([admissions * (0.85 + 0.3 * (AGES / 90) ** 4) + births, admissions])
    leaning = np.array([hospital_people.LEANING_TO_AGE[kind] for kind in CHARACTERS])
    lean = leaning[:, np.newaxis] ** (AGES / 100)  # (n_characters, n_ages)
    return (lean[:, np.newaxis, :] * by_sex).reshape(-1, AGES.size)


def _occupation_weights() -> FloatArray:
    weights = np.empty((len(CHARACTERS), len(SEXES), AGES.size, len(hospital_people.ALL)))
    for column, job in enumerate(hospital_people.ALL):
        ages = np.interp(AGES, *job.ages) * (job.start <= AGES) * job.weight
        sexes = np.array([job.women, job.men]) / (job.women + job.men)
        regions = np.array([job.excess if kind == job.where else 1.0 for kind in CHARACTERS])
        weights[..., column] = regions[:, None, None] * sexes[None, :, None] * ages
    return weights.reshape(-1, len(hospital_people.ALL))


def _insurance_weights() -> FloatArray:
    by_job = np.array([hospital_people.INSURANCE_CHANCES[job.insurance] for job in hospital_people.ALL])
    stages = np.ones((len(hospital_people.PRIVATE_BY_AGE), len(hospital_people.INSURANCES)))
    stages[:, hospital_people.INSURANCES.index("private")] = hospital_people.PRIVATE_BY_AGE
    return (by_job[:, np.newaxis, :] * stages).reshape(-1, len(hospital_people.INSURANCES))


def _day_weights(days: np.typing.NDArray[np.datetime64], weekday: np.typing.NDArray[np.int64]) -> FloatArray:
    since_new_year = (days - days.astype("datetime64[Y]")).astype(np.int64)
    seasonal = 1 + 0.07 * np.cos(2 * np.pi * (since_new_year - 25) / 365.25)
    growth = 1 + 0.02 * (days - FIRST_DAY).astype(np.int64) / 365.25
    quiet = np.isin([str(day)[5:] for day in days], QUIET_DAYS)
    weights: FloatArray = np.take(WEEKDAYS, weekday) * seasonal * growth * np.where(quiet, 0.6, 1.0)
    return weights


def _diagnosis_weights(band: np.typing.NDArray[np.int64]) -> FloatArray:
    n_bands = int(band[-1]) + 1
    middles = np.array([AGES[band == number].mean() for number in range(n_bands)])
    profiles = {name: np.interp(middles, *knots) for name, knots in AGE_PROFILES.items()}
    shape = (n_bands, len(SEXES), len(SEASONS), 2, len(EXPOSURES), len(hospital_diagnoses.ALL))
    weights = np.empty(shape)
    for column, diagnosis in enumerate(hospital_diagnoses.ALL):
        sexes = np.array([diagnosis.women, diagnosis.men]) / (diagnosis.women + diagnosis.men)
        seasons = np.array([diagnosis.winter, 1.0, diagnosis.summer, 1.0])
        weekends = np.array([1.0, diagnosis.weekend])
        works = np.array([diagnosis.excess if kind == diagnosis.exposed else 1.0 for kind in EXPOSURES])
        ages = diagnosis.weight**STEEPNESS * profiles[diagnosis.ages]
        weights[..., column] = (
            ages[:, None, None, None, None]
            * sexes[None, :, None, None, None]
            * seasons[None, None, :, None, None]
            * weekends[None, None, None, :, None]
            * works
        )
    return weights.reshape(-1, len(hospital_diagnoses.ALL))
