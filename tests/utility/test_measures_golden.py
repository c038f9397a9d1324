"""Measures on tables that were measured elsewhere: the (tau,l) paper by hand, Adult by ARX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from shoal.datasets.uci import adult
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.cells import Cells
from shoal.plan.plan import KEPT, WITHHELD, Assignment, Plan, Targets
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.files import from_arx_text, from_nested
from shoal.utility.base import measure

AGE = from_nested(
    {"[20,39]": {"[20,29]": [str(age) for age in range(20, 30)], "[30,39]": [str(age) for age in range(30, 40)]}}
)
ZIP = from_nested(
    {"100**": {"1000*": [f"1000{digit}" for digit in range(10)], "1001*": [f"1001{digit}" for digit in range(10)]}}
)
DISEASE = from_nested({"any": {"hemal disease": ["hepatitis", "anemia"], "other": ["phthisis", "flu"]}})
HEPATITIS, ANEMIA, PHTHISIS, FLU = range(4)

# Figure 2(a): class, original disease and whether it is published as "hemal disease"; twelve patients
PATIENTS = [
    *((0, HEPATITIS, True), (0, HEPATITIS, True), (0, HEPATITIS, False), (0, PHTHISIS, False)),
    *((1, HEPATITIS, False), (1, PHTHISIS, False), (1, PHTHISIS, False), (1, ANEMIA, False)),
    *((2, HEPATITIS, False), (2, PHTHISIS, False), (2, HEPATITIS, False), (2, FLU, False)),
]
LO = np.array([[0, 0], [10, 0], [0, 0]], dtype=np.int32)  # <[20,29],1000*>, <[30,39],1000*>, <[20,39],100**>
HI = np.array([[10, 10], [20, 10], [20, 20]], dtype=np.int32)


def figure_2(patients: list[tuple[int, int, bool]]) -> tuple[Problem, Plan]:
    """One cell a patient; the base values of age and zip are any of the class."""
    group, disease, general = (np.array(column, dtype=np.int32) for column in zip(*patients, strict=True))
    codes = (LO[group, 0] + np.arange(len(group), dtype=np.int32) % 10, LO[group, 1], disease)
    counts = np.ones(len(group), dtype=np.int64)
    requirement = Requirement(TauLDiversity(tau=0.5, l=3), 0, values=disease, n_values=4, taxonomy=DISEASE, place=0)
    problem = Problem(
        (Attribute("age", AGE), Attribute("zip", ZIP)),
        (Attribute("disease", DISEASE),),
        Cells(codes, counts),
        (requirement,),
    )
    targets = Targets(
        class_of=np.array([0, 0, 1, 2], dtype=np.int32),
        lo=np.array([[KEPT], [0], [KEPT], [KEPT]], dtype=np.int32),
        hi=np.array([[0], [2], [0], [0]], dtype=np.int32),
        records=np.bincount(np.where(general, 1, group + (group > 0)), minlength=4),
    )
    target = np.where(general, 1, group + (group > 0)).astype(np.int32)
    sizes = np.bincount(group, minlength=3)
    return problem, Plan(LO, HI, sizes, Assignment.whole_cells(target), 0, targets=targets)


def test_example_4_the_information_of_the_first_patient() -> None:
    found = measure(*figure_2(PATIENTS[:1]))
    assert found["um"] * 3 == pytest.approx(0.7, abs=1e-15)


def test_figure_2_by_hand() -> None:
    found = measure(*figure_2(PATIENTS), expensive=True, detail=True)
    # 4 x (1/10 + 1/10) + 2 x 1/2 + 2, then 4 x (1/10 + 1/10) + 4, then 4 x (1/20 + 1/20) + 4, of 12 x 3
    assert found["um"] == pytest.approx((3.8 + 4.8 + 4.4) / 36, abs=1e-15)
    # all three classes have F = 0.5, 0.75, 1, 1, exactly psi
    assert found["excessive-protection"] == 0
    assert found["discernibility"] == 3 * 16
    assert found["class-size"] == 4
    # leaves under published values: 8 x 10 + 4 x 20 of age and of zip; 2 x 2 + 10 of diseases
    assert found["attribute-loss"] == {
        "age": pytest.approx((160 - 12) / (12 * 19)),
        "zip": pytest.approx((160 - 12) / (12 * 19)),
        "disease": pytest.approx((14 - 12) / (12 * 3)),
    }
    assert found["loss"] == pytest.approx((160 - 12) / (12 * 19))


def test_arx_formulas_by_hand() -> None:
    # 8 records: city a x 4, b x 2, c x 1, d x 1; {a, b} together, c and d together, d withheld
    city = from_nested({"*": {"north": ["a", "b"], "south": ["c", "d"]}})
    counts = np.array([4, 2, 1, 1], dtype=np.int64)
    problem = Problem((Attribute("city", city),), (), Cells((np.arange(4),), counts), ())
    lo, hi = np.array([[0], [2]], dtype=np.int32), np.array([[2], [4]], dtype=np.int32)
    plan = Plan.of_cells(lo, hi, np.array([0, 0, 1, WITHHELD], dtype=np.int32), counts)
    found = measure(problem, plan)
    # four records -log2(4/6), two -log2(2/6), one -log2(1/2), the withheld one -log2(1/8)
    bits = 4 * np.log2(6 / 4) + 2 * np.log2(6 / 2) + 1 + 3
    assert found["non-uniform-entropy"] == pytest.approx(bits, rel=1e-14)
    assert found["discernibility"] == 6**2 + 1**2 + 8
    assert found["class-size"] == 8 / 3
    # leaf shares 7 x 2/4 + 1, N = 8, d = 4
    assert found["loss"] == pytest.approx((4.5 - 2) / (8 - 2))
    # as one level of a full-domain release: c and d are south, and all that is withheld is south
    level = measure(problem, replace(plan, levels={"city": 1}))
    assert level["non-uniform-entropy"] == pytest.approx(4 * np.log2(6 / 4) + 2 * np.log2(6 / 2) + 2, rel=1e-14)


QUASI = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass", "salary-class")
WITH_OCCUPATION = (*QUASI[:7], "occupation", QUASI[7])


# what ARX reports for the first 30,162 complete rows of Adult at these levels
@pytest.mark.parametrize(
    ("quasi", "levels", "name", "value"),
    [
        (WITH_OCCUPATION, (1, 2, 1, 1, 3, 2, 2, 1, 1), "non-uniform-entropy", 407289.5388925293),
        (QUASI, (1, 1, 1, 1, 3, 2, 2, 1), "non-uniform-entropy", 324620.5269918692),
        (QUASI, (1, 4, 1, 1, 3, 2, 2, 1), "discernibility", 456853172),
        (QUASI, (0, 4, 1, 2, 3, 2, 0, 0), "loss", 0.542211),
    ],
)
def test_adult_as_arx_measures_it(
    shared_data: Path, quasi: tuple[str, ...], levels: tuple[int, ...], name: str, value: float
) -> None:
    table = adult(shared_data).slice(0, 30162)
    attributes = [
        Attribute(name, from_arx_text((shared_data / "hierarchies" / "adult" / f"{name}.csv").read_text(), name=name))
        for name in quasi
    ]
    rows = np.stack([attribute.taxonomy.encode(table[attribute.name]) for attribute in attributes])
    codes, counts = np.unique(rows, axis=1, return_counts=True)
    nodes = [attribute.taxonomy.node_at(level) for attribute, level in zip(attributes, levels, strict=True)]
    published = np.stack([node[column] for node, column in zip(nodes, codes, strict=True)])
    classes, class_of = np.unique(published, axis=1, return_inverse=True)
    lo, hi = (
        np.stack([ends[row] for ends, row in zip(side, classes, strict=True)], axis=1).astype(np.int32)
        for side in ([a.taxonomy.lo for a in attributes], [a.taxonomy.hi for a in attributes])
    )
    problem = Problem(tuple(attributes), (), Cells(tuple(codes), counts), ())
    plan = Plan.of_cells(lo, hi, class_of.reshape(-1).astype(np.int32), counts)
    assert measure(problem, plan)[name] == pytest.approx(value, rel=1e-12 if name != "loss" else 1e-6)
