"""Generated hospital stays: realistic test data about fictional people, of any length.

The columns depend on each other as in reality: births are women's, influenza occurs in winter, farmers live in the
country, hips break in old age. ``docs/demo-data.md`` describes the distribution. Columns are drawn in this order:
postcode, sex, age, occupation, insurance and day of admission; then diagnosis from age, sex, season, weekend and kind
of work; then cost from diagnosis, age and insurance.
"""

from __future__ import annotations

import csv
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import yaml
from numpy.typing import NDArray
from pydantic import TypeAdapter

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray
from shoal.core.errors import UsageError
from shoal.sources.base import even_batches

Exposure = Literal["none", "manual", "contact", "seated"]
EXPOSURES: tuple[Exposure, ...] = ("none", "manual", "contact", "seated")
Character = Literal["city", "industry", "country", "capital"]
CHARACTERS: tuple[Character, ...] = ("city", "industry", "country", "capital")
Knots = tuple[tuple[float, ...], tuple[float, ...]]  # ages and heights, with straight lines between them
WORKING: Knots = ((15, 17, 20, 26, 56, 61, 64, 67, 72, 80), (0, 0.15, 0.6, 1, 1, 0.85, 0.5, 0.12, 0.03, 0))


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The frequency of a diagnosis by circumstances, and the cost of a stay: a row of ``diagnoses.csv``."""

    name: str
    weight: float
    ages: str  # a key of AGE_PROFILES
    cost: int  # the median of a stay
    women: float = 1.0
    men: float = 1.0
    winter: float = 1.0
    summer: float = 1.0
    weekend: float = 1.0  # below one if admissions are planned
    exposed: Exposure = "none"  # the kind of work that causes it more often
    excess: float = 1.0  # its frequency with that work


@dataclass(frozen=True, slots=True)
class Occupation:
    """The frequency of an occupation by circumstances, and its consequences."""

    name: str
    weight: float
    insurance: str = "employee"  # a key of INSURANCE_CHANCES
    exposure: Exposure = "none"
    women: float = 1.0
    men: float = 1.0
    start: int = 0  # the lowest age
    ages: Knots = WORKING
    where: Character | None = None  # the kind of region in which it is more frequent
    excess: float = 1.0  # its frequency there


def _read(name: str) -> str:
    return resources.files("shoal.datasets").joinpath(name).read_text("utf-8")


def _read_diagnoses() -> dict[str, dict[str, tuple[Diagnosis, ...]]]:
    """Return the diagnoses by chapter and group, in the order of the table; empty cells have the default."""
    row_type = TypeAdapter(Diagnosis)
    chapters: dict[str, dict[str, tuple[Diagnosis, ...]]] = {}
    for row in csv.DictReader(_read("diagnoses.csv").splitlines()):
        groups, group = chapters.setdefault(row.pop("chapter"), {}), row.pop("group")
        diagnosis = row_type.validate_python({name: cell for name, cell in row.items() if cell})
        groups[group] = (*groups.get(group, ()), diagnosis)
    return chapters


_RATES: dict[str, Any] = yaml.safe_load(_read("hospital.yaml"))
AGE_PROFILES: dict[str, Knots] = _RATES["age_profiles"]
REGIONS: dict[str, Character] = _RATES["regions"]
ADMISSIONS: Knots = _RATES["admissions"]
ADMISSIONS_FOR_BIRTH: Knots = _RATES["admissions_for_birth"]
LEANING_TO_AGE: dict[Character, float] = _RATES["leaning_to_age"]
INSURANCES: tuple[str, ...] = tuple(_RATES["insurances"])
INSURANCE_PRICES: tuple[float, ...] = tuple(_RATES["insurance_prices"])
INSURANCE_CHANCES: dict[str, tuple[float, ...]] = _RATES["insurance_chances"]
PRIVATE_BY_AGE: tuple[float, ...] = tuple(_RATES["private_by_age"])
OCCUPATIONS = TypeAdapter(dict[str, tuple[Occupation, ...]]).validate_python(_RATES["occupations"])
ALL_OCCUPATIONS: tuple[Occupation, ...] = tuple(member for members in OCCUPATIONS.values() for member in members)
DIAGNOSES = _read_diagnoses()
ALL_DIAGNOSES: tuple[Diagnosis, ...] = tuple(
    diagnosis for groups in DIAGNOSES.values() for members in groups.values() for diagnosis in members
)

BLOCK = 50_000  # rows drawn from one generator, independent of the batch size
MOST_ROWS = 10**10  # the number of possible patient numbers
LARGEST_BATCH = 10**8  # the text of patient numbers must stay below 2 GiB
SPREAD = 0.45  # standard deviation of the logarithm of costs around their median
HALF = 10**5  # a patient number is two halves of five digits

TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    {
        "patient": pa.string(),
        "age": pa.int32(),
        "sex": TEXT,
        "postcode": TEXT,
        "admitted": pa.date32(),
        "occupation": TEXT,
        "insurance": TEXT,
        "diagnosis": TEXT,
        "cost": pa.float64(),
    }
)
SEXES = ("F", "M")
WOMEN = 0.515  # share of stays
FIRST_DAY = np.datetime64("2022-01-01")
LAST_DAY = np.datetime64("2024-12-31")
OLDEST = 105
AGES = np.arange(OLDEST + 1)
SEASONS = ("winter", "spring", "summer", "autumn")

WEEKDAYS = (1.18, 1.15, 1.08, 1.06, 1.0, 0.66, 0.62)  # Monday first
STEEPNESS = 1.5  # exponent of the diagnoses' weights: a few are frequent, many are rare
QUIET_DAYS = ("01-01", "12-24", "12-25", "12-26", "12-31")


@dataclass(frozen=True, slots=True, eq=False)
class Chances:
    """One distribution of the same values per context; drawing takes constant time per row.

    Values of weight zero are never drawn. In Walker's alias method every column of a context has at most two values:
    a uniform number selects the column and then one of its values.

    >>> fair = Chances.of(np.array([[1.0, 1.0], [0.0, 5.0]]))
    >>> fair.draw(np.array([0.1, 0.9, 0.1, 0.9]), np.array([0, 0, 1, 1]))
    array([0, 1, 1, 1], dtype=int32)
    """

    n_values: int
    keep: NDArray[np.float32]  # (n_contexts * n_values,) probability of the column's own value
    other: CodeArray  # (n_contexts * n_values,) the column's other value

    @classmethod
    def of(cls, weights: FloatArray) -> Chances:
        """Build from (n_contexts, n_values) weights with any sums."""
        n_contexts, n_values = weights.shape
        rows = np.arange(n_contexts)
        mass = weights * (n_values / weights.sum(axis=1, keepdims=True))  # mean 1 in every row
        waiting = np.ones(mass.shape, dtype=bool)
        keep = np.ones(mass.shape, dtype=np.float32)
        other = np.zeros(mass.shape, dtype=np.int32)
        for _ in range(n_values):  # fills the emptiest column of every context from the fullest one
            scant = np.where(waiting, mass, np.inf).argmin(axis=1)
            full = np.where(waiting, mass, -np.inf).argmax(axis=1)
            keep[rows, scant] = mass[rows, scant]
            other[rows, scant] = full
            mass[rows, full] -= 1.0 - mass[rows, scant]
            waiting[rows, scant] = False
        return cls(n_values, keep.ravel(), other.ravel())

    def draw(self, uniform: FloatArray, context: AnyIntArray | int = 0) -> CodeArray:
        """Return (n_rows,) the value for each uniform number in [0, 1) and its context."""
        scaled = uniform * self.n_values
        column = scaled.astype(np.int32)
        place = context * self.n_values + column
        return np.where(scaled - column < self.keep.take(place), column, self.other.take(place))


@dataclass(frozen=True, slots=True, eq=False)
class HospitalTables:
    """The joint distribution of stays; contexts are mixed-radix numbers of the codes in the comments."""

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
def hospital_tables() -> HospitalTables:
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
        exposure=np.array([EXPOSURES.index(job.exposure) for job in ALL_OCCUPATIONS], dtype=np.int32),
        day=Chances.of(_day_weights(days, weekday)[np.newaxis, :]),
        season=(month % 12 // 3).astype(np.int32),
        weekend=(weekday >= 5).astype(np.int32),
        band=band.astype(np.int32),
        diagnosis=Chances.of(_diagnosis_weights(band)),
        log_cost=np.log([diagnosis.cost for diagnosis in ALL_DIAGNOSES]),
    )


def _postcodes() -> tuple[tuple[str, ...], FloatArray, CodeArray]:
    """Return sorted postcodes with Zipf-like weights within and between regions, and the kinds of their regions."""
    rows: list[tuple[str, float, int]] = []
    for rank, (prefix, kind) in enumerate(REGIONS.items()):
        size = 150 - 5 * rank
        places = np.arange(size)
        weights = (places + 4.0) ** -0.9
        weights /= weights.sum() * (rank + 2) ** 0.8
        suffixes = (places * 37 + rank * 113) % 1000  # all different, because 37 is prime to 1000
        rows += zip(
            (f"{prefix}{suffix:03d}" for suffix in suffixes),
            weights.tolist(),
            [CHARACTERS.index(kind)] * size,
            strict=True,
        )
    texts, shares, kinds = zip(*sorted(rows), strict=True)
    return texts, np.array(shares), np.array(kinds, dtype=np.int32)


def _age_weights() -> FloatArray:
    admissions = np.interp(AGES, *ADMISSIONS)
    births = np.interp(AGES, *ADMISSIONS_FOR_BIRTH)
    # Women live longer.
    by_sex = np.stack([admissions * (0.85 + 0.3 * (AGES / 90) ** 4) + births, admissions])
    leaning = np.array([LEANING_TO_AGE[kind] for kind in CHARACTERS])
    lean = leaning[:, np.newaxis] ** (AGES / 100)  # (n_characters, n_ages)
    return (lean[:, np.newaxis, :] * by_sex).reshape(-1, AGES.size)


def _occupation_weights() -> FloatArray:
    weights = np.empty((len(CHARACTERS), len(SEXES), AGES.size, len(ALL_OCCUPATIONS)))
    for column, job in enumerate(ALL_OCCUPATIONS):
        ages = np.interp(AGES, *job.ages) * (job.start <= AGES) * job.weight
        sexes = np.array([job.women, job.men]) / (job.women + job.men)
        regions = np.array([job.excess if kind == job.where else 1.0 for kind in CHARACTERS])
        weights[..., column] = regions[:, None, None] * sexes[None, :, None] * ages
    return weights.reshape(-1, len(ALL_OCCUPATIONS))


def _insurance_weights() -> FloatArray:
    by_job = np.array([INSURANCE_CHANCES[job.insurance] for job in ALL_OCCUPATIONS])
    stages = np.ones((len(PRIVATE_BY_AGE), len(INSURANCES)))
    stages[:, INSURANCES.index("private")] = PRIVATE_BY_AGE
    return (by_job[:, np.newaxis, :] * stages).reshape(-1, len(INSURANCES))


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
    shape = (n_bands, len(SEXES), len(SEASONS), 2, len(EXPOSURES), len(ALL_DIAGNOSES))
    weights = np.empty(shape)
    for column, diagnosis in enumerate(ALL_DIAGNOSES):
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
    return weights.reshape(-1, len(ALL_DIAGNOSES))


def stays(n: int, *, seed: int | None = None, batch: int = 500_000, missing: float = 0.01) -> Iterator[pa.RecordBatch]:
    """Yield *n* stays of different patients in batches of *batch* rows; memory is bounded by one batch.

    With a seed the rows do not depend on the batch size, and fewer rows are the beginning of more. *missing* is the
    share of stays without an occupation.

    >>> first = next(stays(1000, seed=1))
    >>> first.num_rows, first.schema.names[:4]
    (1000, ['patient', 'age', 'sex', 'postcode'])
    >>> [part.num_rows for part in stays(1000, seed=1, batch=400)]
    [400, 400, 200]
    """
    if not 1 <= n <= MOST_ROWS:
        raise UsageError(f"the number of stays must be from 1 to {MOST_ROWS:,}, not {n:,}")
    if not 1 <= batch <= LARGEST_BATCH:
        raise UsageError(f"the rows of a batch must be from 1 to {LARGEST_BATCH:,}, not {batch:,}")
    if not 0 <= missing <= 1:
        raise UsageError(f"the share of missing occupations must be from 0 to 1, not {missing}")
    if seed is not None and seed < 0:
        raise UsageError(f"the seed must not be negative, but is {seed}")
    return _batches(n, secrets.randbits(128) if seed is None else seed, batch, missing)


def diagnosis_tree() -> dict[str, dict[str, list[str]]]:
    """Return the chapters and groups of diagnoses: a ``tree`` taxonomy without its root."""
    return {
        chapter: {group: [diagnosis.name for diagnosis in members] for group, members in groups.items()}
        for chapter, groups in DIAGNOSES.items()
    }


def occupation_tree() -> dict[str, list[str]]:
    """Return the groups of occupations: a ``tree`` taxonomy without its root."""
    return {group: [job.name for job in members] for group, members in OCCUPATIONS.items()}


def hospital_policy(*, k: int = 10, l: float = 4) -> dict[str, Any]:
    """Return a policy for the stays: six quasi attributes, the diagnosis sensitive, no stay withheld.

    Entropy l-diversity is reachable up to the diversity of the whole table, which is above 40.
    """
    years = {"min": str(FIRST_DAY), "max": str(LAST_DAY)}
    return {
        "attributes": {
            "patient": {"role": "identifier"},
            # Integer domains include the maximum: all widths divide the 120 ages from 0 to 119.
            "age": {
                "role": "quasi",
                "taxonomy": {"intervals": {"min": 0, "max": 119, "widths": [5, 10, 20, 40]}},
            },
            "sex": {"role": "quasi"},
            "postcode": {"role": "quasi", "taxonomy": {"mask": {"length": 5}}},
            "admitted": {
                "role": "quasi",
                "taxonomy": {"dates": {"levels": ["month", "quarter", "year"], **years}},
            },
            "occupation": {"role": "quasi", "taxonomy": {"tree": {"*": occupation_tree()}}},
            "insurance": {"role": "quasi"},
            "diagnosis": {"role": "sensitive", "taxonomy": {"tree": {"*": diagnosis_tree()}}},
            "cost": {"role": "insensitive"},
        },
        "privacy": [{"k-anonymity": {"k": k}}, {"entropy-l-diversity": {"l": l}}],
        "method": {"mondrian": {}},
        "missing": "category",
        "max_withheld": 0,
    }


def _batches(n: int, entropy: int, batch: int, missing: float) -> Iterator[pa.RecordBatch]:
    rounds = _generator(entropy, 0).integers(0, HALF, size=(4, HALF))
    blocks = (_block(entropy, start, rounds, missing).slice(0, n - start) for start in range(0, n, BLOCK))
    return even_batches(blocks, SCHEMA, batch)


def _generator(entropy: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))


def _block(entropy: int, start: int, rounds: AnyIntArray, missing: float) -> pa.RecordBatch:
    """Return BLOCK stays from row *start* on, drawn by their own generator."""
    chances = hospital_tables()
    generator = _generator(entropy, 1, start // BLOCK)
    uniform = generator.random((8, BLOCK))
    postcode = chances.postcode.draw(uniform[0])
    character = chances.character.take(postcode)
    sex = (uniform[1] >= WOMEN).astype(np.int32)
    home = character * len(SEXES) + sex
    age = chances.age.draw(uniform[2], home)
    occupation = chances.occupation.draw(uniform[3], home * (OLDEST + 1) + age)
    insurance = chances.insurance.draw(uniform[4], occupation * len(PRIVATE_BY_AGE) + chances.stage.take(age))
    day = chances.day.draw(uniform[5])
    moment = (chances.band.take(age) * len(SEXES) + sex) * len(SEASONS) + chances.season.take(day)
    moment = (moment * 2 + chances.weekend.take(day)) * len(EXPOSURES) + chances.exposure.take(occupation)
    diagnosis = chances.diagnosis.draw(uniform[6], moment)
    logarithm = chances.log_cost.take(diagnosis) + generator.normal(0, SPREAD, BLOCK)
    cost = np.exp(logarithm) * (0.85 + 0.005 * age) * np.take(INSURANCE_PRICES, insurance)

    return pa.RecordBatch.from_arrays(
        [
            _patients(np.arange(start, start + BLOCK), rounds),
            pa.array(age),
            _dictionary(sex, SEXES),
            _dictionary(postcode, chances.postcodes),
            pa.array(day + FIRST_DAY.astype(np.int32)).cast(pa.date32()),
            _dictionary(occupation, [job.name for job in ALL_OCCUPATIONS], uniform[7] < missing),
            _dictionary(insurance, INSURANCES),
            _dictionary(diagnosis, [illness.name for illness in ALL_DIAGNOSES]),
            pa.array(cost.round(2)),
        ],
        schema=SCHEMA,
    )


def _dictionary(codes: CodeArray, values: Sequence[str], absent: BoolArray | None = None) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=absent), pa.array(values, type=pa.string()))


def _patients(rows: AnyIntArray, rounds: AnyIntArray) -> Any:
    """Return (n_rows,) distinct patient numbers in random order.

    A Feistel network is a permutation for any round functions; here they are random tables.
    """
    left, right = np.divmod(rows, HALF)
    for table in rounds:
        left, right = right, (left + table.take(right)) % HALF
    figures = _figures()
    text = np.empty((rows.size, 11), dtype=np.uint8)
    text[:, 0] = ord("P")
    text[:, 1:6] = figures.take(left, axis=0)
    text[:, 6:] = figures.take(right, axis=0)
    offsets = np.arange(rows.size + 1, dtype=np.int32) * 11
    return pa.StringArray.from_buffers(rows.size, pa.py_buffer(offsets), pa.py_buffer(text))


@cache
def _figures() -> NDArray[np.uint8]:
    """Return (HALF, 5) the digits of every half of a number, as characters."""
    digits = np.arange(HALF)[:, np.newaxis] // 10 ** np.arange(4, -1, -1) % 10
    return (digits + ord("0")).astype(np.uint8)
