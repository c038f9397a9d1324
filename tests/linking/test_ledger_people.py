"""Several releases of the same people: how few share all classes, who joined or left, and tokens in common."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.columns.keys import new_key
from shoal.core.errors import UnreachableError
from shoal.core.progress import Silent
from shoal.linking.ledger.checking import check
from shoal.linking.ledger.records import LedgerOptions
from shoal.linking.linking import link
from shoal.release.release import Release

INTERVALS = {"intervals": {"min": 0, "max": 100, "widths": [1, 2, 4, 20]}}
ILLNESSES = ["flu", "gout", "cold", "ulcer"]


def publish(place: Path, name: str, data: pa.Table, wanted: dict[str, Any], **options: Any) -> Release:
    ledger = LedgerOptions(place / "ledger.db", **options)
    return shoal.anonymize(data, wanted, out=place / name, ledger=ledger, seed=1)


def by(quasi: str, data: pa.Table, privacy: dict[str, Any], **roles: Any) -> dict[str, Any]:
    """Publish a number in intervals; the roles of other columns are given, and the rest is not published."""
    attributes = {name: {"role": "identifier"} | roles.get(name, {}) for name in data.column_names}
    attributes[quasi] = {"role": "quasi", "taxonomy": INTERVALS}
    return {"attributes": attributes, "privacy": [privacy]}


def evaluated(release: Release, sensitive: str) -> dict[str, Any]:
    """Return the answer for the last two releases."""
    (found,) = (one for one in release.evidence["ledger"]["linked"] if one["sensitive"] == sensitive)
    return next(each for each in found["sets"] if len(each["releases"]) == 2)


def find_class(release: Release, quasi: str, value: int) -> str:
    """Return the only label that covers a number."""
    labels = release.manifest["attributes"][quasi]["labels"].items()
    shown = {*release.data[quasi].to_pylist()}
    (found,) = (
        label
        for label, cover in labels
        if label in shown and (cover["from"] or 0) <= value and (cover["below"] is None or value < cover["below"])
    )
    return str(found)


# Row 8: joint classes


@pytest.fixture(scope="module")
def strangers() -> pa.Table:
    """People whose streets, trades and illnesses have nothing to do with each other."""
    rng = np.random.default_rng(8)
    numbers = {name: rng.integers(0, 100, 900) for name in ("street", "trade")}
    return pa.table({**numbers, "cost": np.arange(900), "illness": rng.choice(ILLNESSES, 900)})


K10 = {"k-anonymity": {"k": 10}}
OPEN = {"role": "insensitive"}
ILL = {"role": "sensitive"}


def test_two_k_anonymous_releases_whose_classes_few_people_share_are_refused(
    tmp_path: Path, strangers: pa.Table
) -> None:
    """The first release has no sensitive attribute, so nothing but class sizes can be compared."""
    publish(tmp_path, "streets", strangers, by("street", strangers, K10))
    wanted = by("trade", strangers, K10, illness=ILL)
    first, second = (shoal.anonymize(strangers, each, seed=1) for each in (by("street", strangers, K10), wanted))
    pairs = Counter(
        (find_class(first, "street", row["street"]), find_class(second, "trade", row["trade"]))
        for row in strangers.to_pylist()
    )
    below = sum(n for n in pairs.values() if n < 10)
    alone = sum(n == 1 for n in pairs.values())
    assert alone > 0
    with pytest.raises(UnreachableError) as refused:
        publish(tmp_path, "trades", strangers, wanted)
    said = f"{below} of 900 people would be among fewer than 10 people who share all classes, {alone} of them alone"
    assert said in str(refused.value)
    assert not (tmp_path / "trades").exists()
    publish(tmp_path, "trades", strangers, wanted, warn=True)
    (found,) = check(tmp_path / "ledger.db", None, None, Silent())
    assert found.fails
    (joint,) = (one for one in found.linked if not one.sensitive)
    assert [(each.releases, each.below, each.alone, each.l) for each in joint.failing] == [((1, 2), below, alone, 1)]


def square(n_each: int) -> pa.Table:
    """People at the corners of a square, as many at each, with a number that is different for all."""
    corners = [(x, y) for x in (10, 90) for y in (10, 90)] * n_each
    columns = {"street": [x for x, _ in corners], "trade": [y for _, y in corners]}
    return pa.table({**columns, "cost": np.arange(len(corners)), "illness": ILLNESSES * n_each})


def test_an_insensitive_column_that_two_releases_publish_joins_their_records(tmp_path: Path) -> None:
    people = square(12)
    publish(tmp_path, "streets", people, by("street", people, K10, cost=OPEN))
    found = publish(tmp_path, "trades", people, by("trade", people, K10))
    assert evaluated(found, "")["l"] == 12  # at each corner
    with pytest.raises(UnreachableError, match=r"48 of 48 people would be .* all classes and 'cost', 48 of them"):
        publish(tmp_path, "costs", people, by("trade", people, K10, cost=OPEN))


def test_without_people_joint_classes_are_not_known(tmp_path: Path) -> None:
    """The new source lacks streets, by which people are found in the first release."""
    people = square(12)
    wanted = by("street", people, K10)
    wanted["attributes"]["trade"] = {"role": "quasi", "taxonomy": INTERVALS}
    publish(tmp_path, "both", people, wanted)
    fewer = people.drop_columns(["street"])
    with pytest.raises(UnreachableError, match="cannot be linked: how many people share their classes is not known"):
        publish(tmp_path, "trades", fewer, by("trade", fewer, K10))
    accepted = {"accept": [{"finding": "unlinked", "about": [], "reason": "the classes are the same"}]}
    found = publish(tmp_path, "trades", fewer, by("trade", fewer, K10) | accepted)
    assert [one.accepted for one in found.findings if one.id == "unlinked"] == ["the classes are the same"]
    assert not check(tmp_path / "ledger.db", None, None, Silent())[0].fails


# Row 9: people who join, leave or change

DISTINCT = {"distinct-l-diversity": {"l": 3}}


def patients(*illnesses: str) -> pa.Table:
    """Everyone lives in one street."""
    return pa.table({"street": [5] * len(illnesses), "illness": illnesses})


SIX = ("cold", "cold", "flu", "flu", "gout", "gout")


@pytest.mark.parametrize(
    ("before", "after", "exposed"),
    [
        (SIX, (*SIX, "gout"), 1),  # one joins
        ((*SIX, "gout"), SIX, 1),  # one leaves
        (SIX, ("cold", *SIX[2:], "gout"), 1),  # one has another illness now
        (SIX, (*SIX, "gout", "flu"), 2),  # two join, with fewer illnesses than were promised
        (SIX, (*SIX, "gout", "flu", "cold"), 0),
        (SIX, SIX, 0),
    ],
)
def test_the_difference_of_two_classes_exposes_who_joined_left_or_changed(
    before: tuple[str, ...], after: tuple[str, ...], exposed: int, tmp_path: Path
) -> None:
    first, second = patients(*before), patients(*after)
    publish(tmp_path, "first", first, by("street", first, DISTINCT, illness=ILL))
    wanted = by("street", second, DISTINCT, illness=ILL)
    if not exposed:
        assert evaluated(publish(tmp_path, "second", second, wanted), "illness")["people_exposed"] == 0
        return
    with pytest.raises(UnreachableError) as refused:
        publish(tmp_path, "second", second, wanted)
    who = "1 person, at worst with 1 value" if exposed == 1 else "2 people, at worst with 2 values"
    assert f"subtracting classes of one from classes of the other would expose {who} of 'illness'" in str(refused.value)
    found = evaluated(publish(tmp_path, "second", second, wanted, warn=True), "illness")
    assert (found["people_exposed"], found["difference"]) == (exposed, min(exposed, 2))
    assert check(tmp_path / "ledger.db", None, None, Silent())[0].fails


def test_differences_are_held_to_promises_about_shares(tmp_path: Path) -> None:
    """Three people join, two of them with gout, and the promise permits a third."""
    first, second = patients(*SIX), patients(*SIX, "gout", "gout", "flu")
    simple = {"simple-l-diversity": {"l": 2.25}}
    publish(tmp_path, "first", first, by("street", first, simple, illness=ILL))
    with pytest.raises(UnreachableError, match="expose 3 people, at worst with 2 values"):
        publish(tmp_path, "second", second, by("street", second, simple, illness=ILL))


def test_newcomers_are_counted_class_by_class(tmp_path: Path) -> None:
    """The classes of both releases are the same streets; a newcomer who is alone in a class is exposed."""
    rng = np.random.default_rng(4)
    streets, illness = np.repeat(np.arange(0, 100, 4), 12), rng.choice(ILLNESSES, 300)
    place, news = rng.choice(np.arange(0, 100, 4), 15), rng.choice(ILLNESSES, 15)
    before = pa.table({"street": streets, "illness": illness})
    after = pa.table({"street": np.append(streets, place), "illness": np.append(illness, news)})
    coarse = {"intervals": {"min": 0, "max": 100, "widths": [4]}}

    def wanted(data: pa.Table) -> dict[str, Any]:
        policy = by("street", data, {"distinct-l-diversity": {"l": 2}}, illness=ILL)
        policy["attributes"]["street"]["taxonomy"] = coarse
        return policy

    publish(tmp_path, "before", before, wanted(before))
    joined: dict[int, list[str]] = {}
    for street, value in zip(place.tolist(), news.tolist(), strict=True):
        joined.setdefault(street, []).append(value)
    exposed = sum(len(values) for values in joined.values() if len({*values}) < 2)
    assert 0 < exposed < 15
    found = publish(tmp_path, "after", after, wanted(after), warn=True)
    assert evaluated(found, "illness")["people_exposed"] == exposed


def test_a_class_within_another_one_is_subtracted_although_the_people_are_the_same(tmp_path: Path) -> None:
    """First streets 10 | 50, 90; then 10, 50 | 90. Those of street 50 are in the class that is larger by them."""
    illness = {10: ["flu", "gout"] * 4, 50: ["cold"] * 2, 90: ["flu", "gout"] * 4}
    rows = [(street, value) for street, values in illness.items() for value in values]
    data = pa.table({"street": [street for street, _ in rows], "illness": [value for _, value in rows]})
    policies = []
    for groups in ({"low": ["10"], "high": ["50", "90"]}, {"low": ["10", "50"], "high": ["90"]}):
        wanted = by("street", data, {"distinct-l-diversity": {"l": 2}}, illness=ILL)
        wanted["attributes"]["street"]["taxonomy"] = {"groups": groups}
        policies.append(wanted | {"method": {"incognito": {}}})
    publish(tmp_path, "one", data, policies[0])
    with pytest.raises(UnreachableError, match="would expose 2 people, at worst with 1 value"):
        publish(tmp_path, "two", data, policies[1])


# Row 10: the most specific class


def test_a_wide_class_does_not_hide_what_a_narrow_one_gives_away(tmp_path: Path) -> None:
    """By all classes that cover street 5, four illnesses remain; by the most specific one, two, and one in common."""
    (tmp_path / "one.csv").write_text("street,illness\n5,flu\n5,gout\n*,flu\n*,gout\n*,cold\n*,ulcer\n")
    (tmp_path / "two.csv").write_text("street,illness\n5,flu\n5,cold\n*,flu\n*,gout\n*,cold\n*,ulcer\n")
    both = [tmp_path / "one.csv", tmp_path / "two.csv"]
    policy = {"attributes": {"street": {"role": "quasi"}, "illness": ILL}, "privacy": [{"k-anonymity": {"k": 2}}]}
    assert dict(link(both, {"street": "5"}, policy=policy).remaining.counts) == {"flu": 1}
    people = pa.table({"street": ["5", "5", "7"]})
    found = link(both, population=people, policy=policy)
    assert (found.l, found.people_below, found.people_linked) == (1, 2, 3)
    assert link(both, policy=policy).l == 1


# Row 11: tokens


def test_releases_that_share_a_pseudonym_are_refused_as_unlinked(tmp_path: Path) -> None:
    """Neither release has a sensitive attribute in common with the other, and all people share their classes."""
    people = square(12).append_column("name", pa.array([f"person {number}" for number in range(48)]))
    new_key(tmp_path / "a.key")
    token = {"role": "identifier", "technique": {"pseudonym": {"key": str(tmp_path / "a.key")}}}
    publish(tmp_path, "first", people, by("street", people, K10, name=token))
    with pytest.raises(UnreachableError, match=r"release 1 \(.*\) cannot be linked: they have tokens that are"):
        publish(tmp_path, "second", people, by("street", people, K10, name=token))
    release = publish(tmp_path, "second", people, by("street", people, K10, name=token), warn=True)
    (finding,) = (one for one in release.findings if one.id == "unlinked")
    assert (finding.about, finding.severity, finding.open) == (("name",), "high", True)
    (found,) = check(tmp_path / "ledger.db", None, None, Silent())
    assert [(one.sensitive, [each.releases for each in one.failing]) for one in found.linked if one.failing] == [
        ("name", [(1, 2)])
    ]
    reason = "the recipient may follow people"
    accepted = {"accept": [{"finding": "unlinked", "about": ["name"], "reason": reason}]}
    third = publish(tmp_path, "third", people, by("street", people, K10, name=token) | accepted)
    assert [one.accepted for one in third.findings if one.id == "unlinked"] == [reason]
