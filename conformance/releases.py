"""Honest releases of every form, made by shoal from generated people as ``releases.yaml`` says."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.sources.writers import Format

SEED = 35
POPULATION = "population.csv"
HERE = Path(__file__).parent
ILLNESSES = ("asthma", "cold", "flu", "gout", "sprain", "stroke")
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The source and the policy of an honest release."""

    why: str
    rows: Sequence[Row]
    policy: Mapping[str, Any]
    format: Format
    source: bool  # whether the case has the source and the internal folder
    population: Sequence[Row]
    plan: Sequence[str]  # options of an agency's plan, by which the release is made

    def make(self, folder: Path) -> None:
        """Write ``source.csv`` and the release, in ``out``, into a folder."""
        write_rows(folder / "source.csv", self.rows)
        if self.population:
            write_rows(folder / POPULATION, self.population)
        with contextlib.chdir(folder):
            if self.plan:
                apply_plan(self.rows, self.plan)
                return
            write_key(Path("people.key"))
            shoal.anonymize("source.csv", self.policy, out=folder / "out", format=self.format, seed=SEED)


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write a table as CSV; a value that is None becomes an empty field."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_key(path: Path) -> None:
    """Write the key of pseudonyms: bytes that look random, the same for every build."""
    path.touch(0o600)
    path.write_bytes(hashlib.shake_256(b"conformance").digest(32))


def apply_plan(rows: Sequence[Row], options: Sequence[str]) -> None:
    """Let an agency plan classes by the counts of a table, and an owner publish the table by the plan."""
    counts = Counter((row["age"], row["illness"]) for row in rows)
    write_rows(Path("counts.csv"), [{"age": age, "illness": ill, "count": n} for (age, ill), n in counts.items()])
    plan = ["agency", "plan", "--counts", "counts.csv", "--sensitive", "illness", *options, "-o", "plan.json"]
    for call in (plan, ["agency", "apply", "plan.json", "source.csv", "-o", "out", "--seed", str(SEED)]):
        done = CliRunner().invoke(app, call)
        if done.exit_code:
            raise RuntimeError(done.output)


def make_people(n: int, missing: float = 0.0) -> list[Row]:
    """Return people with quasi-identifiers of every kind; ages, towns and wards are missing with this probability."""
    rng = random.Random(SEED)

    def lose(value: Any) -> Any:
        return None if rng.random() < missing else value

    return [
        {
            "name": f"person {number}",
            "home": f"home {number // 2}",
            "age": lose(rng.randint(20, 79)),
            "zip": f"{rng.choice(('47', '10'))}{rng.randint(100, 199)}",
            "sex": rng.choice("fm"),
            "town": lose(rng.choice(("Bonn", "Celle", "Kiel", "Ulm"))),
            "joined": f"20{rng.randint(20, 23)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}",
            "illness": rng.choice(ILLNESSES),
            "ward": lose(rng.choice(("east", "north", "south"))),
            "wage": round(rng.uniform(1000, 5000), 2),
            "height": 150 + 7 * number % 50,
            "weight": 50 + 11 * number % 40,
            "pulse": 60 + 13 * number % 41,
        }
        for number in range(n)
    ]


def share_records(n: int) -> list[Row]:
    """Return records of n people, some of whom have two."""
    return [{**row, "name": f"person {number % n}"} for number, row in enumerate(make_people(60))]


def write_foreign() -> list[Row]:
    """Return people whose values are written as in another country."""
    rows = make_people(30)
    wages = [f"{row['wage']:.2f}".replace(".", ",") for row in rows]
    return [
        {**row, "illness": f" {row['illness']} ", "wage": "?" if number % 7 == 3 else wages[number]}
        for number, row in enumerate(rows)
    ]


def fill_baskets() -> list[Row]:
    """Return people and what they bought."""
    items = ("ale", "bread", "eggs", "milk", "tea", "test")
    ages = [row["age"] for row in make_people(40)]
    chosen = [[item for place, item in enumerate(items) if (7 * n + age) >> place & 1] for n, age in enumerate(ages)]
    return [{"age": age, "bought": ";".join(own) or "bread"} for age, own in zip(ages, chosen, strict=True)]


def name_hostile() -> list[Row]:
    """Return rows whose names and values do harm if they are not quoted."""
    quasi, values = ('he said "it\'s",\nthen left', "=1+1", "\\N"), ("%s", "{folder}", "../..", "\t")
    names = '"; DROP TABLE x; --', "a'b\\", "select"
    return [dict(zip(names, (quasi[n % 3], values[n % 4], f"NULL {n % 5}"), strict=True)) for n in range(30)]


TABLES: Mapping[str, Callable[[], list[Row]]] = {
    "people 40": lambda: make_people(40),
    "people 60": lambda: make_people(60),
    "people 150": lambda: make_people(150),
    "people 210": lambda: make_people(210),
    "holed people 40": lambda: make_people(40, missing=0.1),
    "records of 25 people": lambda: share_records(25),
    "records of 40 people": lambda: share_records(40),
    "foreign people": write_foreign,
    "baskets": fill_baskets,
    "hostile": name_hostile,
    "alone": lambda: [{"group": "aaaaabbbbc"[n], "illness": ILLNESSES[n % 3]} for n in range(10)],
    "long": lambda: [{"group": "a" if n > 2 else "x" * 10_000, "illness": ILLNESSES[n % 3]} for n in range(12)],
    "owner": lambda: [{"age": 20 + n % 30, "illness": ILLNESSES[1 + (n * n % 3 if n % 5 else 2)]} for n in range(60)],
    "frequent flu": lambda: [
        {"group": "abcd"[7 * n // 3 % 4], "illness": (*["flu"] * 6, "cold", "cold", "gout", "sprain")[3 * n % 10]}
        for n in range(60)
    ],
}


def read_recipes() -> dict[str, Recipe]:
    """Return the recipes of ``releases.yaml``."""
    document = yaml.safe_load((HERE / "releases.yaml").read_text("utf-8"))
    return {name: read_recipe(entry, document["attributes"]) for name, entry in document["releases"].items()}


def read_recipe(entry: Mapping[str, Any], usual: Mapping[str, Any]) -> Recipe:
    """Return a recipe; *usual* are the roles of columns that have no other."""
    named = isinstance(entry["rows"], str)
    rows = TABLES[entry["rows"]]() if named else place_in_groups(entry["rows"])
    text = entry.get("columns", " ".join(rows[0]))
    columns = text.split("|" if "|" in text else None)
    roles = {**usual, **entry.get("roles", {})}
    policy = {
        "attributes": {name: roles[name] for name in columns},
        "privacy": entry.get("privacy"),
        "method": entry.get("method", "mondrian"),
        **entry.get("policy", {}),
    }
    return Recipe(
        why=entry["why"],
        rows=[{name: row[name] for name in columns} for row in rows],
        policy=policy,
        format=entry.get("format", "csv"),
        source=entry.get("source", named),
        population=[{"group": group} for group, n in entry.get("population", {}).items() for _ in range(n)],
        plan=entry.get("plan", "").split(),
    )


def place_in_groups(illnesses: Mapping[str, str]) -> list[Row]:
    """Return people in groups: every word is the illness of two people."""
    return [{"group": group, "illness": own} for group, words in illnesses.items() for own in words.split() * 2]
