"""Every attack against every kind of release that techniques and methods make: it counts, or says why it cannot."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.attacks.base import NO_CONTROL, Attack, Refusal, Tally, Trials
from shoal.attacks.running import attack, attack_names
from shoal.attacks.view import ReleaseView
from shoal.columns.base import Technique
from shoal.columns.keys import new_key
from shoal.core.errors import UsageError
from shoal.core.registry import discover

GUIDE = Path(__file__).parents[2] / "docs" / "attacks.md"
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


def guide() -> tuple[dict[tuple[str, str], str], dict[str, str]]:
    """The guide's table, cell by cell, and the reasons that its letters stand for."""
    text = GUIDE.read_text(encoding="utf-8")
    lines = text[text.index("| attack | classes |") :].split("\n\n")[0].splitlines()
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    cells = {(row[0], column): cell for row in rows[2:] for column, cell in zip(rows[0][1:], row[1:], strict=True)}
    return cells, dict(re.findall(r"^\* \*\*([a-z])\*\*: (.+?)\.$", text, re.MULTILINE))


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


@pytest.mark.parametrize("kind", GROUP_OF)
def test_without_a_control_group_every_report_says_so(made: Maker, kind: str) -> None:
    folder, _ = made(kind)
    for each in attack(folder, SOURCE, targets=60, seed=9):
        if isinstance(each, Trials):
            assert NO_CONTROL in each.as_dict()["notes"]
        else:
            assert len(each.reason) > 20


@pytest.mark.parametrize("group", [group for group in GROUPS if not group.startswith("treated")])
def test_the_guide_says_what_applies(attacked: Attacked, group: str) -> None:
    cells, reasons = guide()
    assert {attack for attack, _ in cells} == set(attack_names())
    found = [attacked(kind) for kind in GROUPS[group]]
    for name in attack_names():
        refused = [each[name].reason for each in found if isinstance(each[name], Refusal)]
        cell = cells[name, group]
        if cell == "yes":
            assert not refused, (name, refused)
        elif cell == "some":
            assert 0 < len(refused) < len(found), (name, refused)
        else:
            assert refused == [reasons[cell]] * len(found), name


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


def test_whoever_knows_a_name_finds_its_bare_hash(made: Maker, attacked: Attacked) -> None:
    found = attacked("bare hashes of people")
    assert found["external"].success.success == found["external"].success.trials
    assert found["singling-out"].risk.low > 0.9
    lacking = attack(
        made("bare hashes of people")[0],
        SOURCE,
        CONTROL.drop_columns(["name"]),
        attacks=["inference"],
        targets=200,
        seed=1,
    )
    assert lacking[0].success.rate().low > 0.95  # of the control group names are not known, and nothing breaks


@pytest.mark.parametrize("kind", ["rounding", "coding", "rounding, then anatomy", "rounding, then sweep"])
def test_what_everybody_can_compute_is_computed(made: Maker, kind: str) -> None:
    """Everybody of the source is covered by a published record, although ages are not published as they are."""
    view = ReleaseView.read(made(kind)[0])
    members = view.people(SOURCE, "the source")
    copies, _ = view.copies(members.codes, members.numbers, near=False)
    assert (copies > 0).all()


def test_a_sample_is_about_those_who_were_drawn_or_says_that_not_everybody_was(
    made: Maker, attacked: Attacked, tmp_path: Path
) -> None:
    found = attacked("sample")
    alone = shutil.copytree(Path(made("sample")[0]) / "public", tmp_path / "public")
    for diluted in attack(alone, SOURCE, CONTROL, attacks=["inference", "membership"], targets=200, seed=1):
        assert any("2 times the risk" in note for note in diluted.notes)
        assert any("are in the sample" in note for note in found[diluted.attack].notes)
        assert found[diluted.attack].risk.value > diluted.risk.value
    assert not any("sample" in note or "times the risk" in note for note in found["singling-out"].notes)


def test_releases_with_the_same_tokens_are_linked_by_them(made: Maker) -> None:
    """One release shows illnesses beside rounded ages, one ages and towns; by their tokens records of both are one."""
    _, said = made("pseudonyms of people")
    key = said["attributes"]["name"]["technique"]
    wide = {"age": {**ROLES["age"], "technique": {"rounding": {"base": 20}}}}
    with_key = {"name": {"role": "identifier", "technique": key}}
    roles = {**ROLES, **with_key, **wide}
    base = {"privacy": [], "method": {"plain": {}}}
    ill = shoal.anonymize(SOURCE.drop_columns(["town"]), {**base, "attributes": _without(roles, "town")}, seed=1)
    towns = shoal.anonymize(
        SOURCE.drop_columns(["ill"]),
        {**base, "attributes": _without({**ROLES, **with_key}, "ill")},
        seed=2,
    )
    names = ["composition", "linkability"]
    composed, linked = attack(ill, SOURCE, CONTROL, attacks=names, others=[towns], targets=400, seed=3)
    assert isinstance(composed, Trials)
    assert composed.risk.low > 0.3
    assert any("700 records have the same token" in note for note in composed.notes)
    assert any("700 records have the same token" in note for note in linked.notes)
    assert linked.success == Tally(700, 700)  # the keys tell more than halves of what is known
    assert linked.risk.low > 0.9
    forgotten = {**ROLES, "name": {"role": "identifier", "technique": {"token": {}}}}
    apart = shoal.anonymize(SOURCE.drop_columns(["ill"]), {**base, "attributes": _without(forgotten, "ill")}, seed=2)
    (refused,) = attack(ill, SOURCE, CONTROL, attacks=["composition"], others=[apart], seed=3)
    assert isinstance(refused, Refusal)


@pytest.mark.parametrize("kind", ["pseudonyms of people", "bare hashes of people"])
def test_a_register_of_names_leads_to_people_though_names_are_tokens(made: Maker, kind: str) -> None:
    register = SOURCE.select(["name", "age", "town"]).slice(0, 300)
    (found,) = attack(made(kind)[0], SOURCE, CONTROL, attacks=["external"], register=register, targets=300, seed=1)
    assert isinstance(found, Trials)
    assert found.success.trials == 300
    assert "300 people of the source are in the register" in found.notes[0]
    assert (found.success.success == 300) == (kind == "bare hashes of people")


def test_noise_in_buckets_is_looked_up_by_what_is_near(made: Maker) -> None:
    view = ReleaseView.read(made("noise, then anatomy")[0])
    members = view.people(SOURCE, "the source")
    copies, _ = view.copies(members.codes, members.numbers)
    assert (copies > 0).mean() > 0.9


def test_what_keeps_an_attack_from_treated_releases_is_said(attacked: Attacked) -> None:
    assert "drawn into the sample" in attacked("sample, then incognito")["minimality"].reason
    for kind in ("noise, then mondrian", "rounding, then sweep", "tokens, then hilbert"):
        assert "changed before classes were made" in attacked(kind)["downcoding"].reason
        assert "changed before classes were made" in attacked(kind)["refinement"].reason
    for kind in (
        "rounding, then anatomy",
        "noise, then anatomy",
    ):  # values are not looked up as they were in the source
        notes = " ".join(attacked(kind)["membership"].notes)
        assert re.search("decided by (records|excess|nearness)", notes)
        assert set(attacked(kind)["membership"].variants) == {"records", "excess", "nearness", "popularity"}


def test_rows_of_one_person_are_told() -> None:
    visits = pa.concat_tables([SOURCE, SOURCE.slice(0, 50)])
    roles = {**ROLES, "name": {"role": "identifier", "technique": {"token": {}}}}
    release = shoal.anonymize(visits, {"attributes": roles, "privacy": [], "method": {"plain": {}}}, seed=1)
    (found,) = attack(release, visits, CONTROL, attacks=["linkability"], targets=60, seed=1)
    assert any("100 records share a person's token" in note for note in found.notes)
    assert found.variants["equal tokens"].success == Tally(100, len(visits))
    assert found.risk.low >= found.variants["equal tokens"].risk.low


def test_a_release_of_tokens_alone_has_nothing_to_know_people_by() -> None:
    roles = {"town": {"role": "quasi", "technique": {"token": {}}}, "ill": ROLES["ill"]}
    rows = SOURCE.select(["town", "ill"])
    release = shoal.anonymize(rows, {"attributes": roles, "privacy": [], "method": {"plain": {}}}, seed=1)
    with pytest.raises(UsageError, match="all quasi attributes are tokens"):
        attack(release, rows)


def _without(roles: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: entry for name, entry in roles.items() if name not in names}
