"""Every attack against every kind of release that techniques and methods make: it counts, or says why it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.attacks.base import NO_CONTROL, Attack, Refusal, Trials
from shoal.attacks.running import attack
from shoal.attacks.view import ReleaseView
from shoal.columns.base import Technique
from shoal.columns.keys import new_key
from shoal.core.registry import discover

TOWNS = {"any": {"north": ["Kiel", "Wyk", "Jever", "Aurich"], "south": ["Ulm", "Hof", "Bonn", "Jena", "Passau"]}}
ILLS = {"any": {"lung": ["asthma", "flu"], "other": ["gout", "ulcer", "migraine"]}}
ROLES: dict[str, dict[str, Any]] = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 100, "widths": [5, 20]}}},
    "town": {"role": "quasi", "taxonomy": {"tree": TOWNS}},
    "sex": {"role": "quasi", "taxonomy": {"tree": {"any": ["F", "M"]}}},
    "ill": {"role": "sensitive", "taxonomy": {"tree": ILLS}},
}


def people(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "name": [f"person {seed}-{i}" for i in range(n)],
            "age": rng.integers(18, 60, n),
            "town": rng.choice([town for half in TOWNS["any"].values() for town in half], n),
            "sex": rng.choice(["F", "M"], n),
            "ill": rng.choice(["asthma", "flu", "gout", "ulcer", "migraine"], n, p=[0.3, 0.3, 0.2, 0.1, 0.1]),
        }
    )


SOURCE, CONTROL = people(700, 1), people(600, 2)


def policy(
    techniques: dict[str, Any], method: dict[str, Any], privacy: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    attributes = {name: dict(entry) for name, entry in ROLES.items()}
    for name, technique in techniques.items():
        attributes[name]["technique"] = technique
        if next(iter(technique)) in ("pseudonym", "token", "hash"):
            attributes[name].pop("taxonomy", None)
    return {"attributes": attributes, "privacy": privacy, "method": method, **more}


def plain(**techniques: Any) -> dict[str, Any]:
    return policy(techniques, {"plain": {}}, [])


K, L = {"k-anonymity": {"k": 4}}, {"simple-l-diversity": {"l": 2}}
CROWD = {"column-frequency": {"k": 2}}  # no model of values, for chance decides the values
BARE = {"hash": {"salt": "none", "accept": "dictionary-attacks"}}
NOISE = {"noise": {"gaussian": {"sd": 2}, "min": 0, "max": 100, "edges": "redraw"}}
KEY = {"pseudonym": {"key": "KEY"}}
GROUPS: dict[str, dict[str, dict[str, Any]]] = {  # columns of the guide's table -> releases of that kind
    "classes": {
        "mondrian": policy({}, {"mondrian": {}}, [L]),
        "sweep": policy({}, {"sweep": {}}, [{"tau-l-diversity": {"tau": 0.6, "l": 3}}]),
        "incognito": policy({}, {"incognito": {}}, [L]),
        "hilbert": policy({}, {"hilbert": {}}, [K]),
    },
    "buckets": {
        "anatomy": policy({}, {"anatomy": {}}, [L]),
        "slicing": policy({}, {"slicing": {"parts": [["age", "town"], ["sex", "ill"]]}}, [L]),
    },
    "plain": {"plain": plain()},
    "tokens": {
        "pseudonyms of people": plain(name=KEY),
        "tokens of people": plain(name={"token": {}}),
        "made-up names": plain(name={"masking": {"kind": "name"}}),
        "pseudonyms of towns": plain(town=KEY),
        "hashes of towns": plain(town={"hash": {}}),
        "bare hashes of towns": plain(town=BARE),
        "bare hashes of people": plain(name=BARE),
    },
    "noise": {
        "noise": plain(age=NOISE),
        "rounding at random": plain(age={"rounding": {"base": 5, "random": True}}),
        "rank swapping": plain(age={"rank-swapping": {"window": 0.1}}),
        "averages of ages": plain(age={"microaggregation": {"k": 30}}),
    },
    "swapping": {
        "ages": plain(age={"swapping": {"share": 0.2}}),
        "ills": plain(ill={"swapping": {"share": 0.2}}),
        "towns replaced": plain(town={"pram": {"keep": 0.8, "invariant": True, "strata": ["sex"]}}),
        "ills replaced": plain(ill={"pram": {"keep": 0.7}}),
        "households moved": plain(
            town={"record-swapping": {"hierarchy": ["town"], "risk": ["age"], "similar": ["sex"], "share": 0.2}}
        ),
    },
    "permutation": {
        "ages dealt anew": plain(age={"permutation": {"within": ["sex"]}}),
        "ills dealt anew": plain(ill={"permutation": {}}),
    },
    "rounding": {"rounding": plain(age={"rounding": {"base": 5}}), "coding": plain(age={"coding": {"top": 50}})},
    "sample": {"sample": {**plain(), "sample": {"share": 0.5}}},
    "averages": {"microaggregation": policy({}, {"microaggregation": {}}, [K])},
    "synthetic": {"synthetic": policy({}, {"synthetic": {"epsilon": 2.0}}, [])},
    "treated classes": {
        "noise, then mondrian": policy({"age": NOISE}, {"mondrian": {}}, [K]),
        "rounding, then sweep": policy({"age": {"rounding": {"base": 2}}}, {"sweep": {}}, [K]),
        "tokens, then hilbert": policy({"town": {"token": {}}}, {"hilbert": {}}, [K]),
        "sample, then sweep": policy({}, {"sweep": {}}, [K], sample={"share": 0.5}),
        "sample, then incognito": policy({}, {"incognito": {}}, [L], sample={"share": 0.5}),
        "ills dealt anew, then mondrian": policy({"ill": {"permutation": {}}}, {"mondrian": {}}, [L]),
    },
    "treated buckets": {
        "noise, then anatomy": policy({"age": NOISE}, {"anatomy": {}}, [L]),
        "ills swapped, then slicing": policy(
            {"ill": {"swapping": {"share": 0.3}}}, {"slicing": {"parts": [["age", "town"], ["sex", "ill"]]}}, [CROWD]
        ),
        "sample, then anatomy": policy({}, {"anatomy": {}}, [L], sample={"share": 0.5}),
        "rounding, then anatomy": policy({"age": {"rounding": {"base": 5}}}, {"anatomy": {}}, [L]),
    },
}
GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}
ATTACKS = discover("shoal.attacks", Attack)
Maker = Callable[[str], tuple[Path, dict[str, Any]]]
Attacked = Callable[[str], dict[str, Trials | Refusal]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    folder, found = tmp_path_factory.mktemp("kinds"), {}
    new_key(folder / "the.key")

    def make(kind: str) -> tuple[Path, dict[str, Any]]:
        if kind not in found:
            text = json.dumps(GROUPS[GROUP_OF[kind]][kind]).replace("KEY", str(folder / "the.key"))
            place, said = folder / str(len(found)), json.loads(text)
            source = SOURCE if said["method"] != {"synthetic": {"epsilon": 2.0}} else SOURCE.drop_columns(["name"])
            if source is not SOURCE:
                del said["attributes"]["name"]
            shoal.anonymize(source, said, out=place, seed=1)
            found[kind] = place, said
        return found[kind]

    return make


@pytest.fixture(scope="module")
def attacked(made: Maker) -> Attacked:
    """All attacks on a kind of release, with its policy and another release; each kind is attacked once."""

    @cache
    def attack_kind(kind: str) -> dict[str, Trials | Refusal]:
        folder, said = made(kind)
        other, _ = made("mondrian")
        found = attack(folder, SOURCE, CONTROL, targets=300, seed=5, policy=said, others=[other])
        return {each.attack: each for each in found}

    return attack_kind


@pytest.mark.parametrize("kind", GROUP_OF)
def test_every_attack_counts_or_says_why_not(attacked: Attacked, kind: str) -> None:
    found = attacked(kind)
    assert list(found) == list(ATTACKS)
    for each in found.values():
        stated = each.as_dict()
        assert json.loads(json.dumps(stated)) == stated
        if isinstance(each, Refusal):
            assert set(stated) == {"name", "about", "refused"}
            assert len(each.reason) > 20
            continue
        assert {"name", "attack", "baseline", "control", "risk"} <= set(stated)
        for tally in (stated["attack"], stated["control"], *([stated["baseline"]] if stated["baseline"] else [])):
            assert 0 <= tally["success"] <= tally["trials"] <= (700 if each.attack == "copies" else 300)
            assert tally["trials"] > 0
        assert -1 <= stated["risk"]["low"] <= stated["risk"]["value"] <= stated["risk"]["high"] <= 1
        assert NO_CONTROL not in stated.get("notes", [])
    for name in ("singling-out", "linkability", "inference", "membership"):
        assert isinstance(found[name], Trials), found[name]


def test_every_technique_is_among_the_kinds() -> None:
    used = {
        next(iter(attribute["technique"]))
        for kinds in GROUPS.values()
        for said in kinds.values()
        for attribute in said["attributes"].values()
        if "technique" in attribute
    }
    of_several_numbers = {"correlated-noise", "shuffling"}  # their traces are those of noise and of permutation
    assert used | of_several_numbers == set(discover("shoal.columns", Technique))


def test_tokens_that_nobody_can_compute_are_not_known(made: Maker, attacked: Attacked) -> None:
    for kind in ("pseudonyms of towns", "hashes of towns", "tokens, then hilbert"):
        view = ReleaseView.read(made(kind)[0])
        assert view.known == ("age", "sex")
        found = attacked(kind)["inference"]
        assert any("tokens" in note and "'town'" in note for note in found.notes)


def test_a_bare_hash_is_as_good_as_the_value(made: Maker) -> None:
    names = ["singling-out", "linkability", "inference", "homogeneity", "membership"]
    one, two = (
        attack(made(kind)[0], SOURCE, CONTROL, targets=200, attacks=names, seed=2)
        for kind in ("plain", "bare hashes of towns")
    )
    for plain, hashed in zip(one, two, strict=True):  # rows are in another order, by which ties are broken
        for mine, theirs in ((plain.success, hashed.success), (plain.control, hashed.control)):
            assert mine.trials == theirs.trials, plain.attack
            assert abs(mine.success - theirs.success) <= 0.04 * mine.trials, plain.attack


@pytest.mark.parametrize("kind", ["rounding", "coding", "rounding, then anatomy", "rounding, then sweep"])
def test_what_everybody_can_compute_is_computed(made: Maker, kind: str) -> None:
    """Everybody of the source is covered by a published record, although ages are not published as they are."""
    view = ReleaseView.read(made(kind)[0])
    members = view.people(SOURCE, "the source")
    copies, _ = view.copies(members.codes, members.numbers, near=False)
    assert (copies > 0).all()
