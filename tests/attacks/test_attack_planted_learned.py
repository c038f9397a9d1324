"""Leaks that show only to who learns, counts, or has more than one release: put into the data, and found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases

from shoal.attacks.base import Tally, Trials
from shoal.attacks.decoding import RefinementAttack
from shoal.attacks.definetti import DeFinettiAttack
from shoal.attacks.downcoding import DowncodingAttack
from shoal.attacks.linkability import CompositionAttack, ExternalAttack
from shoal.attacks.minimality import MinimalityAttack
from shoal.attacks.reconstruction import ReconstructionAttack
from shoal.attacks.sensitive import HomogeneityAttack, InferenceAttack, by_column
from shoal.attacks.view import ReleaseView
from shoal.core.errors import UsageError

REGIONS = 40
ANY = {"any": True}


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def entry(role: str, labels: dict[str, Any] | None = None) -> dict[str, Any]:
    stated: dict[str, Any] = {"role": role, "kind": "category"}
    return stated if labels is None else {**stated, "labels": labels}


def own(values: list[str]) -> dict[str, Any]:
    """Labels of values that stand for themselves."""
    return {value: {"values": [value]} for value in values}


def tried(attack: Any, view: ReleaseView, source: pa.Table, control: pa.Table | None = None) -> Trials:
    assert attack.refuses(view) is None
    others = None if control is None else view.people(control, "the control table")
    return attack.run(view, view.people(source, "the source"), others, rng())


# composition


def crossed() -> tuple[pa.Table, ReleaseView, ReleaseView]:
    """Town and job together decide the illness; each release tells of one of them, and leaves two illnesses."""
    ills = {("Ulm", "x"): "flu", ("Ulm", "y"): "gout", ("Bonn", "x"): "ulcer", ("Bonn", "y"): "asthma"}
    rows = [(town, job, ill) for (town, job), ill in ills.items() for _ in range(50)]
    source = pa.table(dict(zip(("town", "job", "ill"), map(list, zip(*rows, strict=True)), strict=True)))
    views = []
    for name in ("town", "job"):
        manifest = {
            "method": "plain",
            "parts": [[name, "ill"]],
            "attributes": {name: entry("quasi"), "ill": entry("sensitive")},
        }
        views.append(releases.view(source.select([name, "ill"]), manifest))
    return source, views[0], views[1]


def test_two_releases_that_leave_two_values_each_leave_one_together() -> None:
    source, one, two = crossed()
    found = tried(CompositionAttack(200, others=(two,)), one, source)
    assert found.success.success == found.success.trials == 200 - found.variants["everybody"].baseline.success
    assert found.variants["everybody"].success == Tally(200, 200)
    assert found.baseline.rate().high < 0.7
    assert found.risk.low > 0.8


# definetti


def bucketized(follows: float, seed: int, n: int = 900) -> tuple[pa.Table, ReleaseView]:
    """Buckets of three people with three of six illnesses; the town tells the illness with some chance."""
    chance = np.random.default_rng(seed)
    code = chance.random((n // 3, 6)).argsort(axis=1)[:, :3].reshape(-1)
    ill = np.array(["flu", "gout", "ulcer", "asthma", "cold", "rash"])[code]
    towns = np.array(["Ulm", "Bonn", "Kiel", "Jena", "Hof", "Wyk"])
    town = towns[np.where(chance.random(n) < follows, code, chance.integers(6, size=n))]
    age = np.arange(n)  # everybody is in one bucket, and known to be
    source = pa.table({"age": age, "town": town, "ill": ill})
    order = np.lexsort((chance.random(n), np.arange(n) // 3))
    rows = pa.table({"bucket": np.arange(n) // 3 + 1, "age": age, "town": town, "ill": ill[order]})
    attributes = {
        "age": {"role": "quasi", "kind": "number"},
        "town": entry("quasi"),
        "ill": entry("sensitive"),
    }
    return source, releases.view(
        rows, {"method": "slicing", "parts": [["age", "town"], ["ill"]], "attributes": attributes}
    )


def test_what_all_buckets_teach_breaks_them() -> None:
    source, view = bucketized(0.8, 1)
    found = tried(DeFinettiAttack(900), view, source)
    assert found.baseline.rate().low < 1 / 3 < found.baseline.rate().high
    assert found.success.rate().low > 0.7


def test_buckets_that_teach_nothing_keep_one_in_l() -> None:
    source, view = bucketized(0.0, 2)
    found = tried(DeFinettiAttack(900), view, source)
    assert found.success.rate().low <= 1 / 3 <= found.success.rate().high


# minimality


def minimal(regions: int = REGIONS, **change: Any) -> tuple[pa.Table, ReleaseView]:
    """In each region two people of A and six of B; only one value occurs twice.

    Had the two of A different values, both towns would have two values, and they would have been published.
    """
    ills = [f"ill {i}" for i in range(7)]
    rows = []
    for region in range(regions):
        twice, *once = np.roll(ills, region).tolist()
        rows += [(f"r{region}", "A", twice)] * 2 + [(f"r{region}", "B", ill) for ill in once]
    source = pa.table(dict(zip(("region", "town", "ill"), map(list, zip(*rows, strict=True)), strict=True)))
    names = [f"r{region}" for region in range(regions)]
    manifest = {
        "method": "incognito",
        "method_parameters": {},
        "levels": {"region": 0, "town": 1},
        "guarantees": [{"model": "distinct-l-diversity", "parameters": {"l": 2}, "achieved": 2}],
        "parts": [["region", "town", "ill"]],
        "attributes": {
            "region": entry("quasi", own(names)),
            "town": entry("quasi", {"*": ANY}),
            "ill": entry("sensitive"),
        },
    }
    published = source.set_column(1, "town", pa.array(["*"] * source.num_rows))
    return source, releases.view(published, {**manifest, **change})


def test_levels_that_were_not_lowered_give_away_why() -> None:
    """With one class, that the towns were not published can only have been for its sake; with many, for any one's."""
    for regions, found in ((1, True), (REGIONS, False)):
        source, view = minimal(regions)
        assert MinimalityAttack(100).refuses(view) is None
        everybody = view.people(source, "the source")
        believed = MinimalityAttack(100).learn(view, view.secrets["ill"], everybody, rng())(everybody)
        truth = everybody.secrets["ill"]
        own = believed[np.arange(len(truth)), truth][np.array(source["town"].to_pylist()) == "A"]
        assert bool(own.min() > 0.5) == found
    source, view = minimal(1, levels={"region": 0, "town": 2})
    with pytest.raises(UsageError, match="give the policy"):
        MinimalityAttack(100).learn(view, view.secrets["ill"], view.people(source, "the source"), rng())


@pytest.mark.parametrize("method", ["mondrian", "sweep", "local-suppression"])
def test_groups_that_are_not_a_class_give_away_why(method: str) -> None:
    """The two of A would have been a class if they had two values; so both have the one that occurs twice."""
    source, view = minimal()
    more = pa.table({"region": ["open"] * 4, "town": ["A", "A", "B", "B"], "ill": ["ill 0", "ill 1"] * 2})
    source, rows = pa.concat_tables([source, more]), pa.concat_tables([view.rows, more])
    stated = view.manifest.document
    attributes = dict(stated["attributes"])
    attributes["region"] = entry("quasi", own([*attributes["region"]["labels"], "open"]))
    attributes["town"] = entry("quasi", {"*": ANY, **own(["A", "B"])})
    view = releases.view(rows, {**stated, "method": method, "attributes": attributes})
    assert MinimalityAttack(100).refuses(view) is None
    everybody = view.people(source, "the source")
    believed = MinimalityAttack(100).learn(view, view.secrets["ill"], everybody, rng())(everybody)
    truth = everybody.secrets["ill"]
    refused = (np.array(source["town"].to_pylist()) == "A") & (np.array(source["region"].to_pylist()) != "open")
    assert believed[refused, truth[refused]].min() > 0.99


def test_withheld_people_give_away_their_value_by_their_absence() -> None:
    """Ten people of a region that no class covers fail together: they all have the most frequent value."""
    ills = ["flu"] * 60 + ["gout"] * 20 + ["ulcer"] * 20
    source = pa.table({"region": ["here"] * 100 + ["gone"] * 10, "ill": [*ills, *["flu"] * 10]})
    manifest = {
        "method": "hilbert",
        "withheld": 10,
        "guarantees": [{"model": "distinct-l-diversity", "parameters": {"l": 2}, "achieved": 3}],
        "parts": [["region", "ill"]],
        "attributes": {"region": entry("quasi", own(["here", "gone"])), "ill": entry("sensitive")},
    }
    view = releases.view(source.slice(0, 100), manifest)
    everybody = view.people(source, "the source")
    believed = MinimalityAttack(100).learn(view, view.secrets["ill"], everybody, rng())(everybody)
    assert believed[100:, view.secrets["ill"].values.index("flu")].min() > 0.99
    assert not believed[:100].any()


# downcoding


def hierarchical(crowded: int = 0) -> tuple[pa.Table, ReleaseView]:
    """Classes of five by region, four from large towns and one from a small one; elsewhere too, few are from those.

    In some regions, *crowded* ones, a class of their own has more people from small towns.
    """
    names = [f"r{region}" for region in range(REGIONS)]
    region = [name for name in names for _ in range(5)] + ["far"] * 1000
    town = ["Ulm", "Bonn", "Ulm", "Bonn", "Wyk"] * REGIONS + ["Ulm"] * 475 + ["Bonn"] * 475 + ["Wyk", "Tann"] * 25
    label = ["*"] * 5 * REGIONS + ["large"] * 950 + ["small"] * 50
    region += [name for name in names[:crowded] for _ in range(4)]
    town += ["Tann"] * 4 * crowded
    label += ["small"] * 4 * crowded
    source = pa.table({"region": region, "town": town, "ill": ["flu", "gout"] * (len(town) // 2)})
    labels = {"*": ANY, "large": {"values": ["Ulm", "Bonn"]}, "small": {"values": ["Wyk", "Tann"]}}
    manifest = {
        "method": "mondrian",
        "parts": [["region", "town", "ill"]],
        "attributes": {
            "region": entry("quasi", own([*names, "far"])),
            "town": entry("quasi", labels),
            "ill": entry("sensitive"),
        },
    }
    return source, releases.view(source.set_column(1, "town", pa.array(label)), manifest)


def test_a_class_no_wider_than_needed_has_somebody_under_each_child() -> None:
    source, view = hierarchical()
    found = tried(DowncodingAttack(1000), view, source)
    assert found.success == Tally(REGIONS, REGIONS)
    assert found.baseline.rate().high < 0.8


# refinement


def overlapping() -> tuple[pa.Table, ReleaseView]:
    """In each region one person of A and one of B; a class for A and B has one record, and one for B and C has one.

    Neither class is more specific. Who is of A fits only the first, and fills it; so who is of B is in the other one.
    """
    names = [f"r{region}" for region in range(REGIONS)]
    source = pa.table(
        {
            "region": [name for name in names for _ in range(2)],
            "town": ["A", "B"] * REGIONS,
            "ill": ["gout", "flu"] * (REGIONS // 2) + ["ulcer", "gout"] * (REGIONS // 2),
        }
    )
    manifest = {
        "method": "mondrian",
        "parts": [["region", "town", "ill"]],
        "attributes": {
            "region": entry("quasi", own(names)),
            "town": entry("quasi", {"A or B": {"values": ["A", "B"]}, "B or C": {"values": ["B", "C"]}}),
            "ill": entry("sensitive"),
        },
    }
    return source, releases.view(source.set_column(1, "town", pa.array(["A or B", "B or C"] * REGIONS)), manifest)


def test_one_value_classes_inside_wider_ones_are_found() -> None:
    """A class for everyone of a region surrounds one for B alone, in which all records have one value."""
    names = [f"r{region}" for region in range(REGIONS)]
    ills = ["gout", "flu", "ulcer", "ulcer"] * REGIONS
    towns, labels = ["A", "A", "B", "B"] * REGIONS, ["*", "*", "B", "B"] * REGIONS
    source = pa.table({"region": [name for name in names for _ in range(4)], "town": towns, "ill": ills})
    attributes = {
        "region": entry("quasi", own(names)),
        "town": entry("quasi", {"*": ANY, "B": {"values": ["B"]}}),
        "ill": entry("sensitive"),
    }
    manifest = {"method": "mondrian", "parts": [["region", "town", "ill"]], "attributes": attributes}
    view = releases.view(source.set_column(1, "town", pa.array(labels)), manifest)
    for attack, right in ((HomogeneityAttack(1000), 2), (ExternalAttack(1000), 0)):
        assert tried(attack, view, source).success == Tally(right * REGIONS, 4 * REGIONS)
    assert tried(InferenceAttack(1000), view, source).success.success >= 2 * REGIONS


def test_counting_finds_whose_class_it_must_be() -> None:
    source, view = overlapping()
    found = tried(RefinementAttack(1000), view, source)
    assert found.success == Tally(2 * REGIONS, 2 * REGIONS)
    assert found.baseline.success < 2 * REGIONS
    assert f"{REGIONS} are covered by several classes; counting leaves {REGIONS} of these in one" in found.notes[0]


# reconstruction


def test_hidden_columns_are_learned_from_the_published_rows() -> None:
    """Town and street go together, and both decide the illness: each hidden column follows from what is known."""
    pytest.importorskip("sklearn")
    towns = [f"t{number % 8}" for number in range(800)]
    streets, ills = [f"s{town[1:]}" for town in towns], [f"ill {int(town[1:]) // 2}" for town in towns]
    source = pa.table({"town": towns, "street": streets, "ill": ills})
    labels = {f"t{2 * pair} or t{2 * pair + 1}": {"values": [f"t{2 * pair}", f"t{2 * pair + 1}"]} for pair in range(4)}
    attributes = {"town": entry("quasi", labels), "street": entry("quasi"), "ill": entry("sensitive")}
    manifest = {"method": "mondrian", "parts": [["town", "street", "ill"]], "attributes": attributes}
    shown = [f"t{int(town[1:]) // 2 * 2} or t{int(town[1:]) // 2 * 2 + 1}" for town in towns]
    view = releases.view(source.set_column(0, "town", pa.array(shown)), manifest)
    attack = ReconstructionAttack(400)
    views = by_column(attack, view)
    assert [next(iter(each.secrets)) for each in views] == ["ill", "town"]
    people = view.people(source, "the source")
    ill, town = (attack.run(each, people, people, rng()) for each in views)
    assert (ill.about, ill.success) == ("ill", Tally(400, 400))
    assert town.about == "town"
    assert 120 < town.success.success < 280  # the street tells the label, and the label one of two towns
    assert town.baseline.success < 100
