"""The lecture slides' table of 7 patients without names, and a register of 9 names with job, sex and age."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import shoal

REGISTER = [
    ("Alice", "Writer", "Female", 30),
    ("Bob", "Engineer", "Male", 35),
    ("Cathy", "Writer", "Female", 30),
    ("Doug", "Lawyer", "Male", 30),
    ("Emily", "Dancer", "Female", 30),
    ("Fred", "Engineer", "Male", 38),
    ("Gladys", "Dancer", "Female", 30),
    ("Henry", "Lawyer", "Male", 39),
    ("Irene", "Dancer", "Female", 32),
]
# Henry and Irene are not patients. Which writer has the flu, the published table does not show.
DISEASES = {"Alice": "Flu", "Bob": "Hepatitis", "Fred": "Hepatitis"} | dict.fromkeys(
    ("Cathy", "Doug", "Emily", "Gladys"), "HIV"
)
ROLES = {
    "Name": {"role": "identifier"},
    "Job": {
        "role": "quasi",
        "taxonomy": {"tree": {"Any": {"Professional": ["Engineer", "Lawyer"], "Artist": ["Dancer", "Writer"]}}},
    },
    "Sex": {"role": "quasi"},
    "Age": {"role": "quasi", "taxonomy": {"intervals": {"min": 30, "max": 39, "widths": [5, 10]}}},
    "Disease": {"role": "sensitive"},
}


def columns(rows: list[tuple[Any, ...]], *names: str) -> pa.Table:
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


@pytest.mark.parametrize(
    ("privacy", "method", "external", "homogeneity"),
    [
        ([], {"plain": {}}, 3, 5),  # Bob, Doug and Fred are alone; both dancers have HIV
        ([{"k-anonymity": {"k": 3}}], {"mondrian": {}}, 0, 0),  # hepatitis or HIV; flu or HIV
    ],
)
def test_names_lead_to_diseases_until_jobs_and_ages_are_generalized(
    privacy: list[Any], method: dict[str, Any], external: int, homogeneity: int
) -> None:
    patients = [(*row, DISEASES[row[0]]) for row in REGISTER if row[0] in DISEASES]
    source = columns(patients, "Name", "Job", "Sex", "Age", "Disease")
    release = shoal.anonymize(source, {"attributes": ROLES, "privacy": privacy, "method": method}, seed=1)
    register = columns(REGISTER, "Name", "Job", "Sex", "Age")
    tried = ["external", "homogeneity"]
    found = {each.attack: each for each in shoal.attack(release, source, register=register, attacks=tried, seed=1)}
    assert {name: each.success.trials for name, each in found.items()} == dict.fromkeys(tried, 7)
    assert found["external"].success.success == external
    assert found["homogeneity"].success.success == homogeneity
    assert "7 people of the source are in the register" in str(found["external"])
