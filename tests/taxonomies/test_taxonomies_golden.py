"""Published hierarchies of Adult, and the taxonomies of the (tau,l)-diversity paper's Figure 1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.builders.listed import FileTaxonomy, TreeTaxonomy, read_taxonomy

# labels per level, as the data's README lists them
ADULT = {
    "age": (100, 20, 10, 5, 1),
    "education": (16, 5, 3, 1),
    "marital-status": (7, 2, 1),
    "native-country": (41, 5, 1),
    "occupation": (14, 3, 1),
    "race": (5, 1),
    "sex": (2, 1),
    "workclass": (8, 3, 1),
    "salary-class": (2, 1),
    "relationship": (6, 3, 1),
    "hours-per-week": (96, 10, 4, 2, 1),
    "capital-gain": (123, 2, 1),
    "capital-loss": (99, 2, 1),
}
NUMERIC = {"age", "hours-per-week", "capital-gain", "capital-loss"}


@pytest.mark.parametrize("name", ADULT)
def test_adult_hierarchies_have_the_levels_of_their_columns(shared_data: Path, name: str) -> None:
    path = shared_data / "hierarchies" / "adult" / f"{name}.csv"
    taxonomy = read_taxonomy(path)
    lines = [line.split(";") for line in path.read_text(encoding="utf-8").split("\n") if line]
    assert taxonomy.height + 1 == len(ADULT[name])
    assert taxonomy.scale.kind == ("number" if name in NUMERIC else "category")
    leaf_of = {label: leaf for leaf, label in enumerate(taxonomy.leaf_labels)}
    for height, n_labels in enumerate(ADULT[name]):
        nodes = taxonomy.node_at(height)
        assert len(np.unique(nodes)) == n_labels
        for line in lines:
            assert taxonomy.labels[nodes[leaf_of[line[0]]]] == line[height]


def test_ages_of_arx_keep_their_labels_and_read_as_numbers_elsewhere(shared_data: Path) -> None:
    builder = FileTaxonomy.model_validate("hierarchies/adult/age.csv").resolve(shared_data)
    ages = builder.build(pa.array([]))
    assert ages.declared
    assert ages.leaf_labels[15:20] == ("16", "17", "18", "19", "20")
    assert ages.label(15, 20) == "15-19"  # as shipped: shifted by one against its members
    assert ages.cover(15, 20) == {"from": 16, "below": 21}
    assert ages.label(16, 23) == "[17, 23]"
    assert ages.cover(16, 23) == {"from": 17, "below": 24}
    assert ages.label(0, 100) == "*"
    assert ages.positions is not None
    assert ages.positions.tolist() == list(range(1, 101))
    codes = ages.encode(pa.array([17, 0, 100, 101, None]))
    assert codes.tolist() == [16, -1, 99, -1, -1]


def test_gaps_between_declared_numbers_do_not_widen_a_range(shared_data: Path) -> None:
    gains = read_taxonomy(shared_data / "hierarchies" / "adult" / "capital-gain.csv")
    assert gains.label(1, 3) == "[114, 401]"
    assert gains.cover(1, 3) == {"from": 114, "below": 402}
    assert gains.label(1, 123) == "[1, 100000["


def test_figure_1_age_and_disease() -> None:
    ages = IntervalsTaxonomy(min=20, max=39, widths=(10,)).build(pa.array([]))
    assert [ages.labels[node] for node in ages.children(ages.root)] == ["[20, 29]", "[30, 39]"]
    assert ages.height == 2
    disease = TreeTaxonomy.model_validate(
        {"any": {"hemal disease": ["hepatitis", "anemia"], "other": ["phthisis", "flu"]}}
    ).build(pa.array([]))
    assert disease.label(0, 2) == "hemal disease"
    assert disease.label(0, 4) == "any"
