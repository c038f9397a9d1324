"""Hospital stays that nobody had: a table about people to try everything on, as long as wanted.

The columns depend on each other as in life: births are women's, influenza comes in winter, farmers live in
the country, hips break in old age. No record describes a person. ``docs/demo-data.md`` tells the whole of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray
from shoal.core.errors import UsageError
from shoal.datasets import hospital_diagnoses, hospital_people
from shoal.datasets.hospital_diagnoses import EXPOSURES
from shoal.datasets.hospital_tables import FIRST_DAY, LAST_DAY, OLDEST, SEASONS, SEXES, WOMEN, tables

BLOCK = 50_000  # rows drawn from one generator, whatever the size of the batches
MOST_ROWS = 10**10  # as many as there are patient numbers
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


def stays(n: int, *, seed: int | None = None, batch: int = 500_000, missing: float = 0.01) -> Iterator[pa.RecordBatch]:
    """Yield *n* stays, one a patient, in batches of *batch* rows; memory is bounded by one batch.

    The same seed gives the same rows for every batch size, and fewer rows are the beginning of more. Without
    a seed every call differs. *missing* is the share of stays without an occupation.

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
    """Return chapters of groups of diagnoses: a ``tree`` taxonomy but for its root."""
    return {
        chapter: {group: [diagnosis.name for diagnosis in members] for group, members in groups.items()}
        for chapter, groups in hospital_diagnoses.DIAGNOSES.items()
    }


def occupation_tree() -> dict[str, list[str]]:
    """Return groups of occupations: a ``tree`` taxonomy but for its root."""
    return {group: [job.name for job in members] for group, members in hospital_people.OCCUPATIONS.items()}


def hospital_policy(*, k: int = 10, l: float = 4) -> dict[str, Any]:
    """Return a policy for the stays: six quasi attributes, the diagnosis sensitive, no stay withheld.

    Entropy l-diversity is reachable up to the diversity of the whole table, which is above 40.
    """
    years = {"min": str(FIRST_DAY), "max": str(LAST_DAY)}
    return {
        "attributes": {
            "patient": {"role": "identifier"},
            # Integer domains include their maximum: 0 to 119 is cut evenly by every width.
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
    pending: list[pa.RecordBatch] = []
    room = batch
    for start in range(0, n, BLOCK):
        rest = _block(entropy, start, rounds, missing).slice(0, n - start)
        while rest.num_rows:
            pending.append(rest.slice(0, room))
            rest = rest.slice(room)
            room -= pending[-1].num_rows
            if room == 0:
                yield _joined(pending)
                pending, room = [], batch
    if pending:
        yield _joined(pending)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def _generator(entropy: int, *key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))


def _block(entropy: int, start: int, rounds: AnyIntArray, missing: float) -> pa.RecordBatch:
    """Return the BLOCK stays from row *start* on, drawn by a generator of their own."""
    chances = tables()
    generator = _generator(entropy, 1, start // BLOCK)
    uniform = generator.random((8, BLOCK))
    postcode = chances.postcode.draw(uniform[0])
    character = chances.character.take(postcode)
    sex = (uniform[1] >= WOMEN).astype(np.int32)
    home = character * len(SEXES) + sex
    age = chances.age.draw(uniform[2], home)
    occupation = chances.occupation.draw(uniform[3], home * (OLDEST + 1) + age)
    insurance = chances.insurance.draw(
        uniform[4], occupation * len(hospital_people.PRIVATE_BY_AGE) + chances.stage.take(age)
    )
    day = chances.day.draw(uniform[5])
    moment = (chances.band.take(age) * len(SEXES) + sex) * len(SEASONS) + chances.season.take(day)
    moment = (moment * 2 + chances.weekend.take(day)) * len(EXPOSURES) + chances.exposure.take(occupation)
    diagnosis = chances.diagnosis.draw(uniform[6], moment)
    logarithm = chances.log_cost.take(diagnosis) + generator.normal(0, SPREAD, BLOCK)
    cost = np.exp(logarithm) * (0.85 + 0.005 * age) * np.take(hospital_people.INSURANCE_PRICES, insurance)

    return pa.RecordBatch.from_arrays(
        [
            _patients(np.arange(start, start + BLOCK), rounds),
            pa.array(age),
            _dictionary(sex, SEXES),
            _dictionary(postcode, chances.postcodes),
            pa.array(day + FIRST_DAY.astype(np.int32)).cast(pa.date32()),
            _dictionary(occupation, [job.name for job in hospital_people.ALL], uniform[7] < missing),
            _dictionary(insurance, hospital_people.INSURANCES),
            _dictionary(diagnosis, [illness.name for illness in hospital_diagnoses.ALL]),
            pa.array(cost.round(2)),
        ],
        schema=SCHEMA,
    )


def _dictionary(codes: CodeArray, values: Sequence[str], absent: BoolArray | None = None) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=absent), pa.array(values, type=pa.string()))


def _patients(rows: AnyIntArray, rounds: AnyIntArray) -> Any:
    """Return a patient number for each row: all different, in no order.

    A Feistel network permutes the pairs of halves whatever its round functions are, here random tables.
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
    """Return (HALF, 5) the five digits of every half, as characters."""
    digits = np.arange(HALF)[:, np.newaxis] // 10 ** np.arange(4, -1, -1) % 10
    return (digits + ord("0")).astype(np.uint8)
