"""Table 2 of the (l, delta)-diversity paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.linking.linking import link, worst_case_l

ONE = """sex,zip,disease
Male,{560011;560012},Heart disease
Male,{560011;560012},Lung infection
Female,560010,Osteoporosis
Female,560010,Cervical cancer
"""
TWO = """sex,zip,disease
Female,560008,Irritable bowel syndrome
Female,560008,Lung infection
Female,560010,Cervical cancer
Female,560010,Amoebic dysentery
"""
TREE = {"any": {"{560011;560012}": ["560011", "560012"], "rest": ["560008", "560010"]}}
POLICY: dict[str, Any] = {
    "attributes": {
        "sex": {"role": "quasi"},
        "zip": {"role": "quasi", "taxonomy": {"tree": TREE}},
        "disease": {"role": "sensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 2}}],
}


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for path, text in zip(paths, (ONE, TWO), strict=True):
        path.write_text(text)
    return paths


def test_two_diverse_tables_leave_one_disease(tables: list[Path]) -> None:
    found = link(tables, {"sex": "Female", "zip": "560010"}, policy=POLICY)
    assert found.remaining.counts == {"Cervical cancer": 1}
    assert (found.remaining.l, found.remaining.frequency_l, found.remaining.entropy_l) == (1, 1.0, 1.0)
    assert [alone.l for alone in found.alone] == [2, 2]


def test_the_worst_of_everybody_is_that_class(tables: list[Path], tmp_path: Path) -> None:
    found = link(tables, policy=POLICY)
    assert (found.l, found.people_below, found.combinations, found.exact) == (1, 2, 1, True)
    assert found.worst[0].classes == ({"sex": "Female", "zip": "560010"},) * 2
    people = tmp_path / "people.csv"
    people.write_text("sex,zip\nFemale,560010\nFemale,560010\nFemale,560010\nMale,560011\nFemale,560008\n")
    found = link(tables, policy=POLICY, population=people)
    assert (found.people, found.people_linked, found.people_below) == (5, 3, 3)
    assert found.bound == worst_case_l(6, [2, 2]) == 1


def test_a_label_of_the_declared_tree_covers_what_lies_below_it(tables: list[Path]) -> None:
    found = link([tables[0], tables[0]], {"zip": "560011"}, policy=POLICY)
    assert found.remaining.counts == {"Heart disease": 1, "Lung infection": 1}
