"""Drafts of tables that look like real ones: how many roles, types and missing markers are right."""

from __future__ import annotations

import json
from functools import cache

import pytest
from tests.policy.codebook_tables import CODEBOOKS
from tests.policy.draft_tables import HEADLESS, HELD_OUT, N_ROWS, TABLES, make_table
from tests.policy.unfamiliar_tables import HOUSEHOLDS, UNFAMILIAR, UNITS

from shoal.anonymize import anonymize
from shoal.policy.drafting import draft_policy
from shoal.sources.base import SourceOptions

EVERY = (*TABLES, *HELD_OUT, *UNFAMILIAR, *CODEBOOKS)
MONDRIAN = {"method": {"mondrian": {}}}
AS_IT_IS = (TABLES[0], HELD_OUT[0])  # a draft leaves the choice of the method to shoal, which tries them all


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("drafts")


@cache
def draft(maker, folder):
    table = make_table(maker)
    path = table.write(folder / maker.__name__)
    return table, path, draft_policy(path, options=SourceOptions(**table.options))


def compare(maker, folder):
    """Return what was right, a list of truths for each of roles, types and markers, and what was not in words.

    Columns that have no marker and got none would flatter the score: the others are a list of their own.
    """
    table, _, drafted = draft(maker, folder)
    source = drafted.policy.get("source", {})
    everywhere, own = set(source.get("missing", ())) - {""}, source.get("missing_in", {})
    right = {"roles": [], "types": [], "markers": [], "columns with markers": []}
    wrong = []
    for column in drafted.columns:
        truth = table.columns[column.name]
        values = {value.strip() for value in truth.values}
        markers = everywhere & values | set(own.get(column.name, ()))
        checks = {
            "roles": (column.role in truth.role.split("|"), column.role, truth.role),
            "types": (column.type in truth.type.split("|"), column.type, truth.type),
            "markers": (markers == truth.missing, sorted(markers), sorted(truth.missing)),
        }
        if markers or truth.missing:
            right["columns with markers"].append(markers == truth.missing)
        for what, (correct, got, expected) in checks.items():
            right[what].append(correct)
            if not correct:
                wrong.append(f"{maker.__name__}.{column.name}: {what} {got}, not {expected}")
    return right, wrong


def share(truths):
    return sum(truths) / len(truths) if truths else 1.0


@pytest.mark.parametrize("maker", EVERY, ids=lambda maker: maker.__name__)
def test_most_of_each_table_is_right(maker, folder):
    right, wrong = compare(maker, folder)
    assert all(share(right[what]) >= 0.75 for what in ("roles", "types", "markers")), "\n".join(wrong)


@pytest.mark.parametrize(
    ("makers", "least"),
    [
        ((*TABLES, *HELD_OUT), {"roles": 0.98, "types": 0.99, "markers": 0.98, "columns with markers": 0.9}),
        (UNFAMILIAR, {"roles": 0.97, "types": 0.98, "markers": 0.98, "columns with markers": 0.95}),
        (CODEBOOKS, {"roles": 0.9, "types": 0.97, "markers": 0.95}),
    ],
    ids=["familiar", "unfamiliar", "codebooks"],
)
def test_nearly_all_are_right(makers, least, folder):
    right = {what: share([one for maker in makers for one in compare(maker, folder)[0][what]]) for what in least}
    assert {what: found for what, found in right.items() if found < least[what]} == {}


@pytest.mark.parametrize("maker", UNFAMILIAR, ids=lambda maker: maker.__name__)
def test_no_key_is_published_and_units_that_repeat_are_counted_or_asked_about(maker, folder):
    table, _, drafted = draft(maker, folder)
    columns = {column.name: column for column in drafted.columns}
    for name in UNITS.get(maker.__name__, ()):
        repeats = len(set(table.columns[name].values)) < N_ROWS
        asked = any("do several records belong" in question for question in columns[name].questions)
        several = any(question.startswith("which of these identifies people") for question in drafted.questions)
        assert columns[name].role == "identifier"
        counted = name in (drafted.policy.get("unit"), drafted.policy.get("household"))
        assert not repeats or counted or asked or several


@pytest.mark.parametrize("maker", EVERY, ids=lambda maker: maker.__name__)
def test_households_are_declared_with_a_question_and_nothing_else_is(maker, folder):
    _, _, drafted = draft(maker, folder)
    home = HOUSEHOLDS.get(maker.__name__)
    assert drafted.policy.get("household") == home
    (asked,) = [one.questions for one in drafted.columns if one.name == home] or [()]
    assert [f"does {home} identify households" in question for question in asked] == [True] * (home is not None)


@pytest.mark.parametrize("maker", UNFAMILIAR, ids=lambda maker: maker.__name__)
def test_nothing_that_others_could_know_is_published_unchanged_without_a_question(maker, folder):
    table, _, drafted = draft(maker, folder)
    told = " ".join(drafted.questions)
    unchanged = [name for name in drafted.names("insensitive") if table.columns[name].role == "quasi"]
    assert [name for name in unchanged if name not in told] == []


@pytest.mark.parametrize("maker", HEADLESS, ids=lambda maker: maker.__name__)
def test_values_show_what_names_do_not_say(maker, folder):
    table, path, drafted = draft(maker, folder)
    right, wrong = compare(maker, folder)
    assert all(share(right[what]) >= 0.9 for what in ("roles", "types")), "\n".join(wrong)
    for column in drafted.columns:
        expected = table.columns[column.name].looks
        shown = "" if column.look is None else column.look.what
        assert expected is None or shown.partition(":")[0] == expected, column.name
    told = drafted.text + json.dumps(drafted.as_dict())
    values = {value for truth in table.columns.values() if truth.looks for value in truth.values}
    assert not [value for value in values if len(value) > 6 and value in told]
    if drafted.names("quasi"):
        assert anonymize(path, drafted.policy | MONDRIAN, seed=1).manifest["rows"] == N_ROWS


@pytest.mark.parametrize("maker", EVERY, ids=lambda maker: maker.__name__)
def test_a_draft_runs(maker, folder):
    table, path, drafted = draft(maker, folder)
    assert len(drafted.names("quasi")) <= 12
    policy = drafted.policy if maker in AS_IT_IS else drafted.policy | MONDRIAN
    one_per = policy.get("sample", {}).get("one_per")
    people = len(set(table.columns[policy[one_per]].values)) if one_per else N_ROWS
    manifest = anonymize(path, policy, seed=1).manifest
    assert manifest["rows"] == people
    assert "household" not in policy or one_per or "household" in {one["counts"] for one in manifest["guarantees"]}
