"""Published values are what people drew: nodes of taxonomies, or ranges on a declared grid; never a record's value."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine
from shoal.methods.mondrian.boxes import Items
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source
from shoal.taxonomies.builders.intervals import NumbersTaxonomy
from shoal.verify.verifier import verify_table


@pytest.mark.parametrize("labels", ["levels", "ranges"])
def test_numbers_without_a_taxonomy_have_round_edges(labels: str) -> None:
    rng = np.random.default_rng(4)
    income = np.unique(rng.lognormal(10.3, 0.7, 4_000).astype(int))
    policy = {
        "attributes": {"income": {"role": "quasi"}},
        "privacy": [{"k-anonymity": {"k": 20}}],
        "method": {"mondrian": {"labels": labels}},
    }
    release = shoal.anonymize(pa.table({"income": income}), policy)
    entry = release.manifest["attributes"]["income"]["labels"]
    assert len(entry) > 20
    edges = {edge for cover in entry.values() for key in ("from", "below") if (edge := cover.get(key)) is not None}
    assert all(edge % 100 == 0 for edge in edges)
    assert sum(cover.get("from", 0) is None for cover in entry.values()) >= 1  # open, or it would tell the least
    assert str(income.min()) not in str(entry)
    assert str(income.max()) not in str(entry)


def test_values_without_order_are_never_joined() -> None:
    rng = np.random.default_rng(5)
    months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
    table = pa.table({"month": rng.choice(months, 400), "age": rng.integers(20, 60, 400)})
    for labels in ("levels", "ranges"):
        policy = {
            "attributes": {"month": {"role": "quasi"}, "age": {"role": "quasi"}},
            "privacy": [{"k-anonymity": {"k": 15}}],
            "method": {"mondrian": {"labels": labels}},
        }
        published = set(shoal.anonymize(table, policy).data["month"].to_pylist())
        assert published <= {*months, "*"}


def test_round_groups_nest_and_end_openly() -> None:
    taxonomy = NumbersTaxonomy().build(pa.array(np.arange(-40, 1_000, 7)))
    for node in range(taxonomy.n_leaves, taxonomy.root):
        lo, hi = int(taxonomy.lo[node]), int(taxonomy.hi[node])
        parent = int(taxonomy.parent[node])
        assert taxonomy.lo[parent] <= lo
        assert hi <= taxonomy.hi[parent]
        cover = taxonomy.cover(lo, hi)
        assert (cover["from"] is None) == (lo == 0)
        assert (cover["below"] is None) == (hi == taxonomy.n_leaves)
        assert {(edge or 0) % 5 for edge in cover.values()} == {0}


def test_nodes_leave_the_bits_open_that_records_below_them_have() -> None:
    people = pa.table({"code": list("aaaabbcd"), "group": list("xxxxxxxx")})
    tree = {"tree": {"any": {"ab": ["a", "b"], "cd": ["c", "d"]}}}
    policy = {
        "attributes": {"code": {"role": "quasi", "taxonomy": tree, "weight": 2}, "group": {"role": "quasi"}},
        "privacy": [{"k-anonymity": {"k": 2}}],
    }
    problem = encode(
        LocalEngine(1).count(open_source(people), ("code", "group"), Silent()), Policy.load(policy)
    ).problem
    trees = Items(problem, ranges=False, by_entropy=True).trees
    ab = -(2 / 3 * np.log2(2 / 3) + 1 / 3 * np.log2(1 / 3))
    assert trees.width[:7] == pytest.approx([0, 0, 0, 0, 2 * ab, 2 * 1, 2 * 1.75], abs=0.01)


HOMES = pa.table(
    {
        "home": ["Vienna"] * 4 + ["Graz", "Linz"] * 2,
        "zip": ["10000"] * 4 + ["20010", "20011"] * 2,
        "illness": ["flu", "gout"] * 4,
    }
)
REGIONS = {"any": {"East": ["Vienna"], "West": ["Graz", "Linz"]}}


@pytest.mark.parametrize("method", ["incognito", "local-suppression"])
def test_the_label_of_the_chosen_level_is_published_even_if_its_group_has_one_value(method: str) -> None:
    attributes = {
        "home": {"role": "quasi", "taxonomy": {"tree": REGIONS}},
        "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 5}}},
        "illness": {"role": "sensitive"},
    }
    levels = {"home": 1, "zip": 1}
    policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 2}}], "method": {method: {"levels": levels}}}
    release = shoal.anonymize(HOMES, policy, seed=1)
    assert release.verification.verified
    assert Counter(release.data["home"].to_pylist()) == {"East": 4, "West": 4}
    assert Counter(release.data["zip"].to_pylist()) == {"1000*": 4, "2001*": 4}
    entries = release.manifest["attributes"]
    assert entries["home"]["labels"]["East"] == {"values": ["Vienna"]}  # declared values only
    assert entries["zip"]["labels"]["1000*"] == {"prefixes": ["1000"]}
    shares = {"unchanged": 0.0, "generalized": 1.0, "suppressed": 0.0}
    assert release.evidence["columns"]["home"] == release.evidence["columns"]["zip"] == shares
    assert release.form.describe_values("home") == "generalized; see below"
    renamed = replace_levels(release.manifest, home=0)
    assert not verify_table(release.data, renamed).verified  # at level 0 a label is its value


def replace_levels(manifest: Any, **levels: int) -> dict[str, Any]:
    """Return the manifest with other levels, wherever it states them."""
    parameters = {**manifest["method_parameters"], "levels": {**manifest["method_parameters"]["levels"], **levels}}
    stated = {"levels": {**manifest["levels"], **levels}} if "levels" in manifest else {}
    return {**manifest, "method_parameters": parameters, **stated}


def test_table_1b_of_the_l_delta_paper_has_a_masked_postal_code() -> None:
    rows = ["Male 560012 heart", "Male 560011 lung", *(f"Female 560010 {ill}" for ill in ("bone", "cancer", "bone"))]
    sex, code, illness = zip(*(row.split() for row in rows), strict=True)
    attributes = {
        "sex": {"role": "quasi"},
        "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 6}}},
        "illness": {"role": "sensitive"},
    }
    policy = {"attributes": attributes, "privacy": [{"distinct-l-diversity": {"l": 2}}], "method": "mondrian"}
    release = shoal.anonymize(pa.table({"sex": sex, "zip": code, "illness": illness}), policy, seed=1)
    rows_of = Counter(zip(release.data["sex"].to_pylist(), release.data["zip"].to_pylist(), strict=True))
    assert rows_of == {("Male", "56001*"): 2, ("Female", "560010"): 3}
