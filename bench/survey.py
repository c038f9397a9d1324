"""A generated survey of people like census microdata: 24 columns, of which 21 are quasi-identifiers.

Columns depend on each other as in such files: children have no occupation, the old own homes and are disabled more
often, areas differ in race, rent and income. ``N`` stands for what is not asked of a person. Codes look like numbers
and are none.
"""

from __future__ import annotations

import importlib
import json
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.measuring import Measured, process, shoal_command
from shoal.core.arrays import AnyIntArray, FloatArray

ROWS = 27_000
AREAS = 20
SECTORS = 18
WEIGHTS = ("person_weight", "household_weight")
_NOT_ASKED = "N"
_GROUPS = {
    "race": {"white": ["1"], "black": ["2"], "native": ["3", "4", "5"], "asian": ["6", "7"], "other": ["8", "9"]},
    "origin": {"none": ["0"], "some": ["1", "2", "3", "4"]},
    "marital_status": {"married": ["1", "2"], "formerly": ["3", "4", "5"], "never": ["6"]},
    "children": {"none": ["0"], "one or two": ["1", "2"], "more": [str(n) for n in range(3, 9)]},
    "family_size": {"two": ["2"], "three or four": ["3", "4"], "more": [str(n) for n in range(5, 13)]},
    "service": {"unrated": ["1"], "rated": [str(n) for n in range(2, 7)]},
    "education": {
        "primary": [str(n) for n in range(1, 9)],
        "secondary": [str(n) for n in range(9, 16)],
        "finished school": ["16", "17"],
        "college": [str(n) for n in range(18, 21)],
        "degree": [str(n) for n in range(21, 25)],
    },
    "income_decile": {"low": ["0", "1", "2"], "middle": ["3", "4", "5", "6"], "high": ["7", "8", "9"]},
}


class People:
    """Draws the columns one after another, each from those before it."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.columns: dict[str, Any] = {}

    def draw(self, chances: FloatArray) -> AnyIntArray:
        """Return (n,) a place for each person, given (n, n_values) or (n_values,) chances up to a factor."""
        chances = np.broadcast_to(chances, (self.n, chances.shape[-1]))
        edges = np.cumsum(chances, axis=1)
        places: AnyIntArray = (edges < (self.rng.random(self.n) * edges[:, -1])[:, np.newaxis]).sum(axis=1)
        return places

    def happens(self, chance: FloatArray | float) -> Any:
        """Return (n,) whether something of this chance happens to each person."""
        return self.rng.random(self.n) < chance

    def code(self, name: str, values: Any, asked: Any = None) -> None:
        """Publish whole numbers as codes; *asked* says of whom."""
        text = np.asarray(values).astype(str)
        self.columns[name] = text if asked is None else np.where(asked, text, _NOT_ASKED)


def survey(n: int = ROWS, seed: int = 20) -> pa.Table:
    """Return the table."""
    people = People(n, seed)
    wealth = _draw_places(people)
    _draw_family(people)
    _draw_health(people)
    _draw_work(people, wealth)
    weight = people.rng.gamma(4.0, 20.0, n)
    people.columns["person_weight"] = np.maximum(weight, 1).round().astype(np.int64)
    people.columns["household_weight"] = np.maximum(weight * people.rng.normal(1, 0.2, n), 1).round().astype(np.int64)
    for name in ("area_value", "age_value"):
        del people.columns[name]
    return pa.table(people.columns)


def _draw_places(people: People) -> FloatArray:
    """Draw area, race and origin, housing; return (n,) how rich the area is, around 0."""
    rng, n = people.rng, people.n
    area = people.draw(rng.gamma(3.0, 1.0, AREAS))
    wealth, density = rng.normal(0, 0.5, AREAS), rng.gamma(1.2, 2.0, AREAS)
    mix = rng.dirichlet([6, 2, 0.1, 0.1, 0.1, 1.2, 0.1, 0.6, 0.6], AREAS)  # race codes 1 to 9
    race = people.draw(mix[area])
    hispanic = np.where(race == 7, 0.7, np.where(race == 0, 0.15, 0.05)) * (0.5 + density[area] / 3)
    origin = np.where(people.happens(np.minimum(hispanic, 0.9)), 1 + people.draw(np.array([6.0, 1.5, 1.0, 2.0])), 0)
    people.columns["area_value"] = area
    people.columns["area"] = np.array([f"{1 + code % 7:02d}-{100 + 107 * code:05d}" for code in range(AREAS)])[area]
    people.code("race", race + 1)
    people.code("origin", origin)
    people.columns["age_value"] = np.clip(
        np.where(people.happens(0.55), rng.uniform(0, 60, n), rng.normal(52 + 6 * wealth[area], 19, n)), 0, 94
    ).astype(np.int64)
    age = people.columns["age_value"]
    people.columns["age"] = age
    return np.asarray(wealth[area] - 0.25 * np.isin(race, (1, 2, 7)))


def _draw_family(people: People) -> None:
    """Draw sex, marriage, children, family and housing."""
    age, area, n = people.columns["age_value"], people.columns["area_value"], people.n
    sex = people.happens(0.49 + 0.002 * np.maximum(age - 60, 0)).astype(np.int64)  # 1: women
    old, grown = age >= 65, age >= 15
    married = 1 / (1 + np.exp(-(age - 29) / 4)) * np.where(old, np.where(sex == 1, 0.5, 0.75), 0.62)
    widowed = np.where(old, np.where(sex == 1, 0.35, 0.1), 0.015)
    divorced = 0.16 / (1 + np.exp(-(age - 38) / 5))
    apart = np.full(n, 0.03) * (age > 22)
    single = np.maximum(1 - married - widowed - divorced - 2 * apart, 0.03)
    marriage = people.draw(np.stack([married, apart, widowed, divorced, apart, single], axis=1))
    mean = np.where(married > 0.3, 1.6, 0.5) * np.exp(-(((age - 37) / 13) ** 2)) + np.where(age < 18, 1.3, 0.05)
    children = np.minimum(people.rng.poisson(mean), 7) + (age < 18)
    alone = people.happens(np.where((marriage == 0) | (age < 18), 0.02, 0.45)) & (children == 0)
    family = np.minimum(children + 1 + ((marriage == 0) | (age < 18)) + people.rng.poisson(0.3, people.n), 12)
    group = people.happens(np.where(grown & (age < 24), 0.08, np.where(age > 80, 0.1, 0.015)))
    kind = np.where(group, np.where(people.happens(0.4), 2, 3), 1)
    owning = 1 / (1 + np.exp(-(age - 38) / 12 - (marriage == 0) + 0.08 * (area % 5) * 3 - 0.3))
    people.code("sex", sex + 1)
    people.code("marital_status", marriage + 1, grown)
    people.code("children", children, ~group & (~alone | (children > 0)))
    people.code("family_size", np.maximum(family, 2), ~group & ~alone)
    people.code("housing", kind)
    people.code("tenure", np.where(group, 0, np.where(people.happens(owning), 1, 2)))


def _draw_health(people: People) -> None:
    """Draw disabilities and military service."""
    age, sex = people.columns["age_value"], people.columns["sex"]
    frail = people.rng.random(people.n) ** 2  # one person's troubles come together
    for name, at, least in (("walking", 0.30, 5), ("remembering", 0.16, 5), ("seeing", 0.09, 0), ("hearing", 0.16, 0)):
        chance = (0.015 + at * (age / 90) ** 3) * (0.3 + 2.2 * frail)
        people.code(name, np.where(people.happens(chance), 1, 2), age >= least)
    served = people.happens(np.where(sex == "1", 0.05 + 0.004 * np.maximum(age - 40, 0), 0.015)) & (age >= 18)
    rating = people.draw(np.array([3.0, 0.6, 0.5, 0.4, 0.7, 0.3])) + 1
    people.code("service", rating, served)


def _draw_work(people: People, wealth: FloatArray) -> None:
    """Draw education, industry, income, its decile, poverty and insurance."""
    rng, n, age = people.rng, people.n, people.columns["age_value"]
    sex = (people.columns["sex"] == "2").astype(np.int64)
    ability = rng.normal(0, 1, n) + 0.8 * wealth
    reached = np.clip(np.round(15.5 + 3.2 * ability - 0.03 * np.maximum(age - 60, 0)), 1, 24)
    education = np.where(age < 25, np.minimum(reached, np.maximum(age - 3, 1)), reached).astype(np.int64)
    education = np.where(people.happens(0.35) & (education > 13) & (education < 20), 16, education)
    working = (age >= 16) & people.happens(np.where(age < 66, 0.78, 0.2))
    liking = rng.normal(0, 1, (3, SECTORS))  # of schooled people, of women, of old people
    taste = np.stack([(education - 15) / 4, sex - 0.5, (age - 45) / 30], axis=1) @ liking
    sector = people.draw(np.exp(taste + rng.normal(0, 0.7, SECTORS)))
    within = np.minimum(rng.geometric(0.22, n) - 1, 14)
    industry = 170 + 510 * sector + 31 * within
    mean = 9.6 + 0.09 * education + 0.25 * wealth - 0.25 * sex + 0.3 * rng.normal(0, 1, SECTORS)[sector] * working
    mean = mean - 0.0006 * (age - 50) ** 2 - 0.9 * ~working
    income = np.exp(mean + rng.standard_t(5, n) * 0.55)
    income = np.where(people.happens(np.where(working, 0.02, 0.3)), 0, np.minimum(income, 1_400_000))
    income = np.round(income, -2).astype(np.int64)
    asked = age >= 15
    edges = np.quantile(income[asked], np.arange(0.1, 1, 0.1))
    family = np.where(people.columns["family_size"] == _NOT_ASKED, 1, 2.5)
    ratio = np.minimum((np.where(asked, income, 38_000) * (1 + 0.5 * rng.random(n)) / (90 * family + 60)), 501)
    people.code("education", education, age >= 3)
    people.code("industry", np.char.zfill(industry.astype(str), 4), working)
    people.code("sector", sector, working)
    people.columns["income"] = pa.array(income, mask=~asked)
    people.code("income_decile", np.searchsorted(edges, income, side="right"), asked)
    people.columns["poverty"] = pa.array(ratio.astype(np.int64), mask=people.columns["housing"] != "1")
    insured = 1 / (1 + np.exp(-1.2 - 0.5 * wealth - (age > 65) * 2 - (income > 60_000)))
    people.code("insured", np.where(people.happens(insured), 1, 2))


def survey_policy(method: str, *, flat: bool = False, **parameters: Any) -> dict[str, Any]:
    """Return a policy with k = 5 and the taxonomies that an analyst would draw; *flat*: codes have no groups."""
    numbers = {
        "age": {"min": 0, "max": 99, "widths": [5, 10, 20, 40]},
        "income": {"min": 0, "max": 1_499_900, "step": 100, "widths": [10_000, 50_000, 250_000]},
        "poverty": {"min": 0, "max": 501, "widths": [50, 100, 200]},
    }
    table, attributes = survey(), dict[str, Any]()
    for name in table.column_names:
        values = sorted(table[name].unique().to_pylist(), key=str)
        codes = {"flat": {}} if flat else {"tree": {"any": _group_codes(name, values)}}
        attributes[name] = {"role": "quasi", "taxonomy": {"intervals": numbers[name]} if name in numbers else codes}
    for name in WEIGHTS:
        attributes[name] = {"role": "insensitive"}
    attributes["insured"] = {"role": "sensitive"}
    return {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 5}}], "method": {method: parameters}}


def _group_codes(name: str, values: list[str]) -> dict[str, Any] | list[str]:
    """Return codes in their groups, those who were not asked apart from all others."""
    asked = [value for value in values if value != _NOT_ASKED]
    groups: dict[str, Any] | list[str] = asked
    if name in _GROUPS:
        groups = {title: [code for code in codes if code in asked] for title, codes in _GROUPS[name].items()}
    elif name in ("area", "industry"):
        starts = sorted({value[:2] for value in asked})
        groups = {f"{start}...": [value for value in asked if value.startswith(start)] for start in starts}
    return groups if len(asked) == len(values) else {_NOT_ASKED: [_NOT_ASKED], "asked": groups}


def wide(folder: Path) -> Iterator[Measured]:
    """The full-domain search with all quasi attributes, and audits of wide tables by the policies drafted for them."""
    import pyarrow.csv

    drawn = importlib.import_module("tests.policy.draft_tables")
    source, policy, out = folder / "survey.csv", folder / "survey.json", folder / "out"
    pyarrow.csv.write_csv(survey(), source)
    policy.write_text(json.dumps(survey_policy("incognito", time_budget=60)))
    shutil.rmtree(out, ignore_errors=True)
    run = process([shoal_command(), "anonymize", source, "-p", policy, "-o", out])
    gap = json.loads((out / "internal" / "evidence.json").read_text())["search"]["gap"]
    shutil.rmtree(out)
    name = f"incognito, 21 quasi attributes, {ROWS:,} rows, k = 5, budget of 60 s"
    yield Measured(f"{name}: whole command", [run.seconds], "70 s, 819 MiB", run.peak_mib <= 819, run.peak_mib)
    yield Measured(f"{name}: gap to the bound of the loss (no seconds)", [gap], "0.15", gap <= 0.15)

    drawn.encounters(drawn.People(5, 101_766)).write(folder / "encounters")
    persons, census = drawn.census_persons(drawn.People(6, 299_285)).columns, survey(299_285)
    for column in list(persons)[2:]:  # without keys
        census = census.append_column(f"{column}_2", pa.array(persons[column].values))
    pyarrow.csv.write_csv(census, folder / "census.csv")
    for title, limit in (("encounters", 8), ("census", 10)):
        source, policy = folder / f"{title}.csv", folder / f"{title}.yaml"
        policy.unlink(missing_ok=True)
        process([shoal_command(), "init", source, "-o", policy])
        runs = [process([shoal_command(), "audit", source, "-p", policy, "--json"]) for _ in range(3)]
        seconds, peak = [run.seconds for run in runs], max(run.peak_mib for run in runs)
        within = statistics.median(seconds) <= limit
        yield Measured(f"audit of wide {title}, as drafted: whole command", seconds, f"{limit} s", within, peak)
        source.unlink()
