"""The ledger: what it refuses, what it warns of, what it keeps, and what it never lets go."""

from __future__ import annotations

import csv
import json
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

import shoal
from shoal.core.errors import FindingsError, InputError, UnreachableError, UsageError, VerificationError
from shoal.core.progress import Silent
from shoal.linking.ledger import book, checking
from shoal.linking.ledger.book import Ledger
from shoal.linking.ledger.checking import check, export, overview, strike
from shoal.linking.ledger.entering import add, enter_verified
from shoal.linking.ledger.records import Entry, LedgerOptions
from shoal.release.release import Release, Staging
from shoal.sources.opening import open_source

COLUMNS = ("x", "y", "illness", "job")
CORNERS = [
    ("a", "a", "flu", "cook"),
    ("a", "b", "gout", "clerk"),
    ("b", "a", "cold", "cook"),
    ("b", "b", "ulcer", "nurse"),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Sixteen people at the corners of a square; each corner has an illness of its own."""
    with (tmp_path / "people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *(CORNERS * 4)])
    return tmp_path


def policy(*quasi: str, l: int = 2, sensitive: tuple[str, ...] = ("illness",), **roles: str) -> dict[str, Any]:
    """Publish some of the columns; rows and columns of the square each have two illnesses."""
    role = dict.fromkeys(COLUMNS, "identifier") | dict.fromkeys(quasi, "quasi") | dict.fromkeys(sensitive, "sensitive")
    attributes = {name: {"role": kind} for name, kind in (role | roles).items()}
    return {"attributes": attributes, "privacy": [{"distinct-l-diversity": {"l": l}}]}


def publish(place: Path, name: str, *quasi: str, data: object = None, l: int = 2, **options: Any) -> Release:
    wanted = policy(*quasi, l=l) if quasi else options.pop("policy")
    ledger = LedgerOptions(place / "ledger.db", **options)
    return shoal.anonymize(data or place / "people.csv", wanted, out=place / name, ledger=ledger)


def accept(*columns: str) -> dict[str, Any]:
    """Accept that a release is not linked by these columns."""
    return {"accept": [{"finding": "unlinked", "about": list(columns), "reason": "other people"}]}


def entries(place: Path) -> tuple[Entry, ...]:
    with Ledger.open(place / "ledger.db") as ledger:
        return ledger.entries()


def test_rows_and_columns_of_the_square_meet_in_one_illness(place: Path) -> None:
    publish(place, "rows", "x", recipient="the city")
    with pytest.raises(UnreachableError) as refused:
        publish(place, "columns", "y")
    day = entries(place)[0].at[:10]
    for said in (
        f"together with release 1 ({day}, to the city)",
        "16 of 16 people would be left with fewer than 2 values of 'illness', at worst with 1",
        "nothing was published",
        "--warn",
        "coarser",
        "`shoal ledger floor`",
    ):
        assert said in str(refused.value)
    assert not any(value in str(refused.value) for value in ("flu", "gout", "cold", "ulcer"))
    assert {path.name for path in place.iterdir()} == {"people.csv", "ledger.db", "rows"}
    assert len(entries(place)) == 1
    found = publish(place, "whole", "y", l=4)  # one class of everybody
    assert found.evidence["warnings"] == []
    assert found.evidence["ledger"]["number"] == 2
    (linked,) = found.evidence["ledger"]["linked"]
    assert (linked["l"], linked["people"], linked["people_below"], linked["complete"]) == (2, 16, 0, True)
    assert [(each["releases"], each["l"]) for each in linked["sets"]] == [([2], 4), ([1, 2], 2)]


def test_a_warning_is_published_with_the_release_and_kept(place: Path) -> None:
    publish(place, "rows", "x")
    found = publish(place, "columns", "y", warn=True)
    (warning,) = found.evidence["warnings"]
    assert "16 of 16 people can be left with fewer than 2 values" in warning
    evidence = json.loads((place / "columns" / "internal" / "evidence.json").read_text())
    assert evidence["warnings"] == [warning]
    assert evidence["ledger"] == found.evidence["ledger"]
    assert "ledger" in evidence["seconds"]
    public = "".join(path.read_text() for path in (place / "columns" / "public").iterdir())
    assert "ledger" not in public
    with Ledger.open(place / "ledger.db") as ledger:
        assert [(each.releases, each.l, each.below) for each in ledger.evaluations()] == [
            ((1,), 2, 0),
            ((2,), 2, 0),
            ((1, 2), 1, 16),
        ]
    assert [entry.status for entry in entries(place)] == ["published", "published"]


def test_a_first_release_that_leaves_too_little_by_itself_is_refused_and_makes_no_ledger(place: Path) -> None:
    with pytest.raises(UnreachableError, match="by itself: 16 of 16 people would be left with fewer than 3 values"):
        publish(place, "rows", "x", floor=3)
    assert {path.name for path in place.iterdir()} == {"people.csv"}


def test_a_person_may_be_in_some_releases_and_not_in_others(place: Path) -> None:
    """Nobody is in all three: the middle one is about others. The first and the last meet all the same."""
    publish(place, "rows", "x")
    others = pa.table(
        {"x": ["c", "d"] * 2, "y": ["c"] * 4, "illness": ["flu", "flu", "gout", "gout"], "job": ["cook"] * 4}
    )
    with pytest.raises(UnreachableError, match=r"release 1 \(.*\): no one can be in all of them; if they are"):
        publish(place, "others", "x", data=others)
    found = publish(place, "others", policy=policy("x") | accept("illness"), data=others)
    assert found.evidence["warnings"] == []
    assert [(one.id, one.about, one.accepted) for one in found.findings if one.id == "unlinked"] == [
        ("unlinked", ("illness",), "other people")
    ]
    with pytest.raises(UnreachableError, match=r"together with release 1 \("):
        publish(place, "columns", "y")


ROWS = dict(zip(COLUMNS, map(list, zip(*CORNERS * 4, strict=True)), strict=True))


def rename(**names: str) -> tuple[pa.Table, dict[str, Any]]:
    """Return the people by y, with other names of columns, and the policy of that."""
    wanted = policy("y")
    wanted["attributes"] = {names.get(name, name): entry for name, entry in wanted["attributes"].items()}
    return pa.table({names.get(name, name): column for name, column in ROWS.items()}), wanted


def test_an_attribute_under_another_name_is_not_linked_and_so_refused(place: Path) -> None:
    publish(place, "rows", "x", recipient="the city")
    data, wanted = rename(illness="diagnosis")
    with pytest.raises(UnreachableError) as refused:
        publish(place, "columns", data=data, policy=wanted)
    for said in ("cannot be linked: 'diagnosis' may be another name of 'illness'", "same_as", "unlinked", "--warn"):
        assert said in str(refused.value)
    assert not (place / "columns").exists()
    named = wanted | {"attributes": wanted["attributes"] | {"diagnosis": {"role": "sensitive", "same_as": "Illness"}}}
    with pytest.raises(UnreachableError, match="16 of 16 people would be left with fewer than 2 values of 'illness'"):
        publish(place, "columns", data=data, policy=named)
    found = publish(place, "columns", data=data, policy=wanted | accept("diagnosis"))
    (finding,) = [one for one in found.findings if one.id == "unlinked"]
    assert (finding.about, finding.accepted) == (("diagnosis",), "other people")
    assert not check(place / "ledger.db", None, None, Silent())[0].fails  # what was accepted stays so


def test_a_warning_about_what_was_not_linked_is_a_finding_that_a_strict_run_refuses(place: Path) -> None:
    publish(place, "rows", "x")
    data, wanted = rename(illness="diagnosis")
    ledger = LedgerOptions(place / "ledger.db", warn=True)
    accepted = {"accept": [{"finding": "repeated-people", "about": ["x", "job"], "reason": "these are no people"}]}
    with pytest.raises(FindingsError, match=r"1 high finding is open.*\n.*may be another name"):
        shoal.anonymize(data, wanted | accepted, out=place / "strict", ledger=ledger, strict=True)
    assert not (place / "strict").exists()
    found = publish(place, "columns", data=data, policy=wanted, warn=True)
    assert [one.severity for one in found.findings if one.id == "unlinked" and one.open] == ["high"]
    assert check(place / "ledger.db", None, None, Silent())[0].fails


@pytest.mark.parametrize(
    "names",
    [{"illness": "ILLNESS"}, {"y": " Y"}, {"illness": "\uff49llness"}],  # the last with a wide first letter
    ids=["case", "space", "width"],
)
def test_names_are_compared_in_a_normal_form(place: Path, names: dict[str, str]) -> None:
    publish(place, "rows", "x")
    data, wanted = rename(**names)
    with pytest.raises(UnreachableError, match="16 of 16 people would be left with fewer than 2 values of 'illness'"):
        publish(place, "columns", data=data, policy=wanted)


def test_values_are_compared_in_a_normal_form(place: Path) -> None:
    """The same people, written in other letters: quasi values as well as sensitive ones."""
    publish(place, "both", policy=policy("x", l=2) | {"privacy": [{"distinct-l-diversity": {"l": 2}}]})
    shouted = pa.table({name: [f" {value.upper()}" for value in column] for name, column in ROWS.items()})
    with pytest.raises(UnreachableError, match="16 of 16 people would be left with fewer than 2 values"):
        publish(place, "columns", data=shouted, policy=policy("y"))
    found = publish(place, "again", data=shouted, policy=policy("x"))
    assert [each["people_linked"] for each in found.evidence["ledger"]["linked"][0]["sets"]] == [16, 16]


def test_values_that_a_release_tells_apart_by_case_are_not_the_same(place: Path) -> None:
    people = pa.table({"x": ["a", "A"] * 8, "y": ["b"] * 16, "illness": ["flu", "gout"] * 8, "job": ["cook"] * 16})
    found = publish(place, "rows", policy=policy("x", l=1), data=people, floor=1)
    assert found.evidence["ledger"]["linked"][0]["l"] == 1  # and not both for everybody


def test_columns_that_a_ledger_cannot_tell_apart_are_refused(place: Path) -> None:
    data, wanted = rename(job="Y", x="other")
    wanted["attributes"]["Y"] = {"role": "insensitive"}
    with pytest.raises(InputError, match="the columns 'y' and 'Y' have one name to a ledger"):
        publish(place, "columns", data=data, policy=wanted)


def test_a_release_of_before_is_added_by_its_policy(place: Path) -> None:
    publish(place, "rows", "x")
    data, wanted = rename(illness="diagnosis")
    wanted["attributes"]["diagnosis"] = {"role": "sensitive", "same_as": "illness"}
    shoal.anonymize(data, wanted, out=place / "columns")
    (place / "policy.json").write_text(json.dumps(wanted))
    pa_csv.write_csv(data, place / "columns.csv")
    given = LedgerOptions(place / "ledger.db"), place / "columns", place / "columns.csv", Silent()
    (warning,) = add(*given, policy=place / "policy.json").warnings
    assert "16 of 16 people can be left with fewer than 2 values of 'illness'" in warning


def test_floors_are_raised_by_anybody_and_lowered_by_a_command(place: Path) -> None:
    publish(place, "rows", "x", floor=1)
    publish(place, "again", "x", floor=2)
    publish(place, "third", "x")
    with pytest.raises(UsageError, match=r"the floor of 'everybody' is 2, and only .shoal ledger floor. lowers it"):
        publish(place, "fourth", "x", floor=1)
    assert not (place / "fourth").exists()
    with Ledger.open(place / "ledger.db", write=True) as ledger:
        assert ledger.set_limits("everybody", floor=1).limits.floor == 1
        assert not ledger.find_population("everybody").limits.warns
        assert ledger.set_limits("everybody", floor=2, warns=True).limits.warns
        assert [change.floor for change in ledger.find_population("everybody").changes] == [1, 2, 1, 2]
    assert publish(place, "columns", "y").evidence["warnings"]  # now it warns


def test_releases_are_linked_with_those_about_the_same_population(place: Path) -> None:
    publish(place, "rows", "x", population="patients")
    found = publish(place, "columns", "y", population="patient")
    assert found.evidence["warnings"] == [
        "'patient' is a new population, which is linked with no earlier release; did you mean 'patients'?"
    ]
    with pytest.raises(UsageError, match="the populations 'patients', 'patient'; say which one"):
        publish(place, "more", "y")
    with pytest.raises(UnreachableError):
        publish(place, "more", "y", population="patients")


def test_every_sensitive_attribute_is_linked_by_itself(place: Path) -> None:
    both = ("illness", "job")
    publish(place, "rows", policy=policy("x", sensitive=both))
    with pytest.raises(UnreachableError) as refused:
        publish(place, "columns", policy=policy("y", sensitive=("job",), l=1), floor=1 + 1)
    assert "'job'" in str(refused.value)
    assert "'illness'" not in str(refused.value)


def test_a_release_without_sensitive_attributes_is_entered_and_a_warning_says_what_was_compared(place: Path) -> None:
    plain = policy("x", sensitive=()) | {"privacy": [{"k-anonymity": {"k": 2}}]}
    found = publish(place, "plain", policy=plain)
    assert found.evidence["warnings"] == [
        "the release has no sensitive attribute, so only class sizes and tokens were compared"
    ]
    assert publish(place, "rows", "x").evidence["ledger"]["earlier"] == [1]


def test_an_attribute_that_another_release_publishes_openly_cannot_be_hidden(place: Path) -> None:
    plain = policy("x", sensitive=(), illness="insensitive") | {"privacy": [{"k-anonymity": {"k": 2}}]}
    publish(place, "plain", policy=plain)
    with pytest.raises(UnreachableError, match=r"release 1 .* cannot be linked: 'illness' is sensitive in one"):
        publish(place, "rows", "x")
    assert len(publish(place, "rows", "x", warn=True).evidence["warnings"]) == 1


def test_an_attribute_that_another_release_hides_cannot_be_published_openly(place: Path) -> None:
    publish(place, "rows", "x")
    plain = policy("x", sensitive=(), illness="insensitive") | {"privacy": [{"k-anonymity": {"k": 2}}]}
    with pytest.raises(UnreachableError, match=r"release 1 .* cannot be linked: 'illness' is sensitive in one"):
        publish(place, "plain", policy=plain)
    publish(place, "plain", policy=plain, warn=True)
    (found,) = check(place / "ledger.db", None, None, Silent())
    assert [each.releases for each in found.linked[0].failing] == [(1, 2)]


def test_of_many_releases_the_worst_set_is_looked_at_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(place, "rows", "x")
    publish(place, "whole", "y", l=4)
    monkeypatch.setattr("shoal.linking.ledger.evaluating.sets_among", lambda _, newest: [(newest,), (1, 2, newest)])
    monkeypatch.setattr("shoal.linking.ledger.evaluating.is_complete", lambda _: False)
    (found,) = publish(place, "columns", "y", warn=True).evidence["ledger"]["linked"]
    assert [(each["releases"], each["l"]) for each in found["sets"]] == [([3], 2), ([1, 2, 3], 1), ([1, 3], 1)]
    assert found["complete"]


def test_what_the_source_does_not_tell_of_its_people_is_not_taken_as_unknown(place: Path) -> None:
    """The new source lacks x, by which others find people in the first release, and classes have nothing in common."""
    publish(place, "rows", "x")
    columns = pa_csv.read_csv(place / "people.csv").select(["y", "illness"])
    wanted = policy("y")
    wanted["attributes"] = {name: wanted["attributes"][name] for name in ("y", "illness")}
    with pytest.raises(UnreachableError, match="no quasi-identifier in common to look people up by"):
        publish(place, "columns", policy=wanted, data=columns)


def test_releases_that_do_not_go_together_are_refused_and_the_others_looked_at(place: Path) -> None:
    """x is a number in the second release and a code in the third; the first says nothing of it."""
    publish(place, "columns", "y")
    people = pa.table(
        {"x": ["1", "2"] * 4, "y": ["a"] * 8, "illness": ["flu", "flu", "gout", "gout"] * 2, "job": ["cook"] * 8}
    )
    numbers, codes = policy("x"), policy("x")
    numbers["attributes"]["x"]["taxonomy"] = {"intervals": {"min": 0, "max": 9, "widths": [5]}}
    codes["attributes"]["x"]["taxonomy"] = {"mask": {"length": 1}}
    publish(place, "numbers", policy=numbers, data=people, warn=True)
    with pytest.raises(
        UnreachableError, match=r"with release 2 \(.*\) cannot be linked: 'x' is of kind 'number' in one"
    ):
        publish(place, "codes", policy=codes, data=people)
    found = publish(place, "codes", policy=codes, data=people, warn=True).evidence["ledger"]["linked"][0]["sets"]
    assert {tuple(each["releases"]): each["l"] for each in found} == {
        (3,): 2,
        (1, 3): 1,
        (2, 3): None,
        (1, 2, 3): None,
    }


def test_public_files_are_kept_byte_by_byte_and_alone(place: Path) -> None:
    publish(place, "rows", "x")
    ledger_file = place / "ledger.db"
    assert stat.S_IMODE(ledger_file.stat().st_mode) == 0o600
    with Ledger.open(ledger_file) as ledger:
        (entry,) = ledger.entries()
        (place / "back").mkdir()
        ledger.unpack(entry, place / "back")
    public = {path.name: path.read_bytes() for path in (place / "rows" / "public").iterdir()}
    assert {path.name: path.read_bytes() for path in (place / "back").iterdir()} == public
    content = ledger_file.read_bytes()
    assert b"people.csv" not in content
    assert (
        json.loads((place / "rows" / "internal" / "evidence.json").read_text())["source"]["sha256"].encode()
        not in content
    )
    assert [path.name for path in place.glob("ledger.db*")] == ["ledger.db"]


@pytest.mark.parametrize("table", book.TABLES)
def test_nothing_is_changed_or_deleted(place: Path, table: str) -> None:
    publish(place, "rows", "x")
    with book.connect(place / "ledger.db", write=True) as connection:
        column = connection.execute(f"SELECT * FROM {table}").description[0][0]
        for statement in (
            f"DELETE FROM {table}",
            f"UPDATE {table} SET {column} = {column}",
            f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="never changed"):
                connection.execute(statement)


def test_numbers_and_not_clocks_make_the_order(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(place, "rows", "x")
    monkeypatch.setattr("shoal.linking.ledger.records.now", lambda: "1999-12-31T23:59:59+00:00")
    publish(place, "again", "x")
    assert [(entry.number, entry.at[:4] == "1999") for entry in entries(place)] == [(1, False), (2, True)]
    with pytest.raises(UnreachableError, match=r"release 2 \(1999-12-31\)"):
        publish(place, "columns", "y")


def unfinished(place: Path, name: str, monkeypatch: pytest.MonkeyPatch, *quasi: str) -> None:
    """Publish, and end as if killed before the entry is marked."""
    with monkeypatch.context() as patched:
        patched.setattr("shoal.linking.ledger.book._settle", lambda *_: None)
        publish(place, name, *quasi)


def test_an_unfinished_release_counts_and_is_settled_by_its_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished(place, "rows", monkeypatch, "x")
    assert entries(place)[0].status == "unfinished"
    with pytest.raises(UnreachableError, match=r"unfinished.*`shoal ledger strike` removes it"):
        publish(place, "columns", "y")
    with pytest.raises(UsageError, match="in place and therefore published"):
        strike(place / "ledger.db", 1, "a mistake")
    assert entries(place)[0].status == "published"


def test_a_release_that_never_was_is_struck_and_stays_in_the_record(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished(place, "rows", monkeypatch, "x")
    (place / "rows" / "public").rename(place / "rows" / "elsewhere")
    (found,) = check(place / "ledger.db", None, None, Silent())
    assert (found.settled, [entry.status for entry in found.entries]) == ((), ["unfinished"])
    struck = strike(place / "ledger.db", 1, "killed before")
    assert (struck.status, struck.reason) == ("struck", "killed before")
    publish(place, "columns", "y")
    with pytest.raises(UsageError, match="release 2 is published"):
        strike(place / "ledger.db", 2, "regret")
    with pytest.raises(UsageError, match="has no release 3"):
        strike(place / "ledger.db", 3, "regret")
    with Ledger.open(place / "ledger.db") as ledger:
        assert [each["status"] for each in overview(ledger)["releases"]] == ["struck", "published"]


def test_a_run_that_fails_after_entering_strikes_its_entry(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "shoal.release.release.Staging.publish", lambda *_: (_ for _ in ()).throw(UsageError("no room"))
    )
    with pytest.raises(UsageError, match="no room"):
        publish(place, "rows", "x")
    (entry,) = entries(place)
    assert (entry.status, entry.reason) == ("struck", "the run ended before anything was published")


def test_a_source_that_changes_after_it_was_verified_is_not_linked_in_its_place(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(place, "rows", "x")

    def later(*given: Any) -> Any:
        """Nobody of these is in the first release, so that nothing would be below the floor."""
        (place / "people.csv").write_text("x,y,illness,job\nelse,where,flu,none\n")
        return enter_verified(*given)

    monkeypatch.setattr("shoal.linking.ledger.entering.enter_verified", later)
    with pytest.raises(InputError, match=r"people\.csv changed while it was being read; nothing was published"):
        publish(place, "columns", policy=policy("y") | accept("illness"))
    assert not (place / "columns").exists()
    assert [entry.status for entry in entries(place)] == ["published", "struck"]


def test_a_run_that_cannot_mark_its_release_says_so(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise UsageError("the ledger is in use")

    monkeypatch.setattr("shoal.linking.ledger.book._settle", fails)
    found = publish(place, "rows", "x")
    assert "does not list it as published (the ledger is in use)" in found.evidence["warnings"][0]
    monkeypatch.undo()
    assert check(place / "ledger.db", None, None, Silent())[0].settled == (1,)
    assert entries(place)[0].status == "published"


def test_a_release_that_is_struck_or_settled_while_it_is_put_in_place(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_place = Staging.publish

    def meanwhile(self: Staging, *rest: Any) -> None:
        strike(place / "ledger.db", 1, "impatience")
        put_in_place(self, *rest)

    monkeypatch.setattr(Staging, "publish", meanwhile)
    (warning,) = publish(place, "rows", "x").evidence["warnings"]
    assert "release 1 is struck" in warning
    assert "`shoal ledger add` if it was struck" in warning

    def sooner(self: Staging, *rest: Any) -> None:
        put_in_place(self, *rest)
        assert check(place / "ledger.db", None, None, Silent())[0].settled == (2,)

    monkeypatch.setattr(Staging, "publish", sooner)
    assert publish(place, "again", "x").evidence["warnings"] == []
    add(LedgerOptions(place / "ledger.db"), place / "rows", None, Silent())
    assert [entry.status for entry in entries(place)] == ["struck", "published", "published"]


def test_baskets_in_other_groups_cannot_be_linked(place: Path) -> None:
    """Groups come from the data, so that no text of the second table would be found in the first."""
    items = {"columns": 2, "sensitive": ["test"]}
    wanted = {
        "attributes": {"basket": {"role": "quasi", "items": items}},
        "privacy": [{"distinct-l-diversity": {"l": 1}}],
        "method": {"slicing": {"columns": "each"}},
    }
    first = pa.table({"basket": ["bread;milk;test", "bread;milk", "tea;rum;test", "tea;rum"] * 4})
    second = pa.table({"basket": ["bread;rum;test", "bread;rum", "tea;milk;test", "tea;milk"] * 4})
    publish(place, "first", policy=wanted, data=first, floor=1)
    with pytest.raises(UnreachableError, match="items are in other groups"):
        publish(place, "second", policy=wanted, data=second)
    (found,) = publish(place, "again", policy=wanted, data=first).evidence["ledger"]["linked"]
    assert [each["people_linked"] for each in found["sets"]] == [16, 16]


def test_a_table_of_other_people_does_not_lift_a_verdict(place: Path) -> None:
    publish(place, "rows", "x")
    publish(place, "columns", "y", warn=True)
    strangers = open_source(pa.table({"x": ["somewhere"], "y": ["else"]}))
    (found,) = check(place / "ledger.db", None, strangers, Silent())
    assert [each.linked for each in found.linked[0].failing] == [0]  # of them, nobody is in both
    assert check(place / "ledger.db", None, None, Silent())[0].fails
    with Ledger.open(place / "ledger.db") as ledger:
        assert [each["l"] for each in overview(ledger)["releases"]] == [1, 1]


def test_an_answer_does_not_stand_once_more_is_known_of_people(place: Path) -> None:
    """Release 1 has y as insensitive; when y becomes quasi elsewhere, release 1 alone gives illnesses away."""
    publish(place, "rows", policy=policy("x", y="insensitive"))
    assert not check(place / "ledger.db", None, None, Silent())[0].fails
    publish(place, "jobs", policy=policy("y", sensitive=("job",), l=1), warn=True)
    (found,) = check(place / "ledger.db", None, None, Silent())
    (illness,) = [each for each in found.linked if each.sensitive == "illness"]
    assert [(each.releases, each.l, each.basis) for each in illness.evaluations] == [((1,), 1, "classes")]


def test_adding_releases_of_before(place: Path) -> None:
    for name, quasi in (("rows", "x"), ("columns", "y")):
        shoal.anonymize(place / "people.csv", policy(quasi), out=place / name)
    options = LedgerOptions(place / "ledger.db", recipient="the city")
    assert add(options, place / "rows", place / "people.csv", Silent()).warnings == []
    with pytest.raises(UsageError, match="already, as number 1"):
        add(options, place / "rows" / "public", None, Silent())
    (warning,) = add(options, place / "columns" / "public", None, Silent()).warnings
    assert "together with release 1" in warning
    assert [(entry.status, entry.origin) for entry in entries(place)] == [("published", "added")] * 2
    assert check(place / "ledger.db", None, None, Silent())[0].fails
    data = place / "columns" / "public" / "data.csv"
    data.write_text(data.read_text().replace("gout", "cold"))
    with pytest.raises(VerificationError, match="was not entered"):
        add(options, place / "columns", None, Silent())
    with pytest.raises(InputError, match="there is no release"):
        add(options, place / "nowhere", None, Silent())
    assert len(entries(place)) == 2


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_what_auditors_get_has_no_rows_and_no_places(place: Path, ending: str) -> None:
    publish(place, "rows", "x", recipient="the city")
    counts = export(place / "ledger.db", place / f"ledger.{ending}")
    assert counts == {"releases": 1, "evaluations": 1}
    text = (place / f"ledger.{ending}").read_text()
    assert not any(word in text for word in ("flu", "gout", str(place)))
    manifest = json.loads((place / "rows" / "public" / "manifest.json").read_text())
    assert manifest["data"]["sha256"] in text
    if ending == "json":
        document = json.loads(text)
        assert document["releases"][0]["guarantees"] == manifest["guarantees"]
        assert document["evaluations"][0]["l"] == 2
    else:
        (row,) = csv.DictReader(text.splitlines())
        assert (row["recipient"], row["l"], row["status"]) == ("the city", "2", "published")
    with pytest.raises(UsageError, match="exists already"):
        export(place / "ledger.db", place / f"ledger.{ending}")
    with pytest.raises(UsageError, match=r"must end in \.json or \.csv"):
        export(place / "ledger.db", place / "ledger.txt")


def test_what_is_no_ledger_is_refused_before_work_begins(place: Path) -> None:
    ledger = place / "ledger.db"
    ledger.write_text("dear diary, " * 100)
    with pytest.raises(InputError, match="is not a ledger"):
        publish(place, "rows", "x")
    ledger.unlink()
    with sqlite3.connect(ledger) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    before = ledger.read_bytes()
    with pytest.raises(InputError, match="is not a ledger"):
        publish(place, "rows", "x")
    assert ledger.read_bytes() == before
    ledger.unlink()
    ledger.mkdir()
    with pytest.raises(UsageError, match="no ledger"):
        publish(place, "rows", "x")
    with pytest.raises(UsageError, match="its folder is not there"):
        shoal.anonymize(place / "people.csv", policy("x"), out=place / "rows", ledger=place / "no" / "ledger.db")
    assert not (place / "rows").exists()


def test_newer_and_older_ledgers(place: Path) -> None:
    publish(place, "rows", "x")
    with sqlite3.connect(place / "ledger.db") as connection:
        for form, said in (
            (book.FORM - 1, "an older version of shoal .*`shoal ledger add`"),
            (book.FORM + 1, "a newer version of shoal"),
        ):
            connection.execute(f"PRAGMA user_version = {form}")
            connection.commit()
            with pytest.raises(UsageError, match=said):
                publish(place, "columns", "y", warn=True)
    connection.close()
    assert not (place / "columns").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"population": " people"}, "a population is one line"),
        ({"population": ""}, "a population is one line"),
        ({"recipient": "a\nb"}, "a recipient is one line"),
        ({"recipient": "x" * 501}, "1 to 500"),
        ({"floor": 0}, "at least 1; received 0"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        LedgerOptions(Path("ledger.db"), **options)


def test_which_answer_stands() -> None:
    def answer(basis: Any, l: int, problem: str | None = None, attributes: tuple[str, ...] = ("x",)) -> Any:
        return checking.Evaluation((1,), "illness", attributes, basis, 2, l, 1, 1, 0, True, problem)

    answers = [answer("classes", 1), answer("source", 3), answer("classes", 2), answer("source", 4, "too many")]
    assert checking.standing(answers)["illness", (1,)].l == 3
    assert checking.standing([*answers, answer("people", 5)])["illness", (1,)].l == 3
    assert checking.standing([*answers, answer("classes", 1, None, ("x", "y"))])["illness", (1,)].l == 1
    assert checking.standing([answers[0], answers[2]])["illness", (1,)].l == 2
