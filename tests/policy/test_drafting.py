"""Drafted policies: they load, they run, and they tell no values."""

from __future__ import annotations

import datetime
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cover

from shoal.anonymize import anonymize
from shoal.core.documents import flow
from shoal.core.errors import ShoalError
from shoal.datasets.hospital import stays
from shoal.policy.drafting import draft_policy
from shoal.policy.guessing import find_widths, round_domain
from shoal.policy.policy import Policy
from shoal.sources.base import SourceOptions

MONDRIAN = {"method": {"mondrian": {}}}  # a draft leaves the choice to shoal, which tries all methods: see Nursery


def roles_of(draft):
    return {column.name: column.role for column in draft.columns}


def runs(data, draft, tmp_path, **other):
    """Load the written draft and anonymize with it: the release has come through the verifier."""
    path = tmp_path / "policy.yaml"
    path.write_text(draft.text, encoding="utf-8")
    loaded = Policy.load(path)
    assert dict(loaded.document) == draft.policy
    return anonymize(data, draft.policy | other if other else path, seed=1)


def test_adult(shared_data, tmp_path):
    draft = draft_policy(shared_data / "adult.csv.gz")
    roles = roles_of(draft)
    assert roles["age"] == roles["sex"] == roles["native-country"] == roles["occupation"] == "quasi"
    assert roles["salary-class"] == "sensitive"
    assert roles["fnlwgt"] == "weight"
    assert draft.policy["source"] == {"missing": ["", "?"], "missing_in": {"capital-gain": ["99999"]}}
    assert draft.policy["privacy"][0] == {"k-anonymity": {"k": 10}}
    release = runs(shared_data / "adult.csv.gz", draft, tmp_path, **MONDRIAN)
    assert release.manifest["rows"] == 48_842


def areas(n=2000):
    """A density for each of 40 areas, and a district that follows from the area; their names say nothing."""
    rng = np.random.default_rng(4)
    area = rng.integers(0, 40, n)
    return pa.table(
        {
            "PUMA": [f"{300 + one:05d}" for one in area],
            "age": rng.integers(18, 90, n),
            "illness": rng.choice(["flu", "gout", "cold"], n),
            "x1": rng.permutation(np.arange(40) * 3.7)[area],
            "x2": area % 4 * 1.5,
            "x3": rng.integers(0, 9, n) * 1.5,
        }
    )


def test_a_column_that_determines_a_quasi_column_is_not_drafted_as_unchanged(tmp_path):
    table = areas()
    draft = draft_policy(table)
    roles = roles_of(draft)
    assert (roles["x1"], roles["x2"], roles["x3"]) == ("quasi", "quasi", "insensitive")
    said = " ".join(draft.text.replace("#", "").split())
    assert "it determines PUMA, or follows from it: published unchanged, it would undo" in said
    release = runs(table, draft, tmp_path, **MONDRIAN)
    assert "determined-quasi" not in {one.id for one in release.findings}
    unsafe = {
        name: entry | {"role": "insensitive"} for name, entry in draft.policy["attributes"].items() if name == "x1"
    }
    unsafe["x1"].pop("taxonomy")
    found = anonymize(table, draft.policy | MONDRIAN | {"attributes": draft.policy["attributes"] | unsafe}, seed=1)
    assert "determined-quasi" in {one.id for one in found.findings}


def test_hospital(tmp_path):
    table = pa.Table.from_batches(list(stays(5000, seed=2)))
    draft = draft_policy(table)
    assert roles_of(draft) == {
        "patient": "identifier",
        "age": "quasi",
        "sex": "quasi",
        "postcode": "quasi",
        "admitted": "quasi",
        "occupation": "quasi",
        "insurance": "quasi",
        "diagnosis": "sensitive",
        "cost": "insensitive",
    }
    attributes = draft.policy["attributes"]
    assert attributes["postcode"]["taxonomy"] == {"mask": {"length": 5}}
    assert attributes["age"]["taxonomy"]["intervals"]["max"] == 119
    assert attributes["admitted"]["taxonomy"]["dates"].keys() == {"levels"}  # no end is declared
    assert draft.policy["privacy"] == [
        {"k-anonymity": {"k": 5}},
        {"entropy-l-diversity": {"l": 3, "attribute": "diagnosis"}},
    ]
    release = runs(table, draft, tmp_path)
    assert "patient" not in release.data.column_names


@pytest.mark.parametrize(
    ("columns", "roles"),
    [
        ({"age": [30, 31, 32]}, {"age": "quasi"}),
        ({"age": [30.0, None, 32.0], "sex": ["F", "M", None]}, {"age": "quasi", "sex": "quasi"}),
        ({"age": ["030", "031", "032"] * 4, "x": ["a"] * 12}, {"age": "quasi", "x": "insensitive"}),
        ({"flag": [True, False] * 4, "income": [1.5, 2.5] * 4}, {"flag": "quasi", "income": "sensitive"}),
        ({"sex": ["F", "M"] * 5, "disease": ["flu"] * 10}, {"sex": "quasi", "disease": "sensitive"}),
        ({"sex": ["F", "M"] * 5, "nothing": [None] * 10}, {"sex": "quasi", "nothing": "identifier"}),
        ({"height": [1.71, 1.82, 1.93, math.inf], "sex": list("FMFM")}, {"height": "quasi", "sex": "quasi"}),
        ({"year": [1987, 2001, 1999, 2023], "zip": [501, 10001, 94105, 60601]}, {"year": "quasi", "zip": "quasi"}),
        ({"temperature": [-12, -3, 25, 31] * 3, "no": [1, 2, 3, 4] * 3}, {"temperature": "quasi", "no": "quasi"}),
        ({"e-mail": ["a@b.c", "d@e.f"] * 9, "sex": ["F", "M"] * 9}, {"e-mail": "identifier", "sex": "quasi"}),
        ({"born": ["31.12.1999", "01.02.2003"] * 9}, {"born": "quasi"}),
        ({"seen": [datetime.datetime(2024, 3, 5, 12), datetime.datetime(2023, 1, 1)] * 5}, {"seen": "quasi"}),
        ({"at": [datetime.time(12), datetime.time(8, 30)] * 5}, {"at": "quasi"}),
        ({"on": ["a", "b"] * 5, "1": ["c", "d"] * 5, 'q"\n\x7f: #é😀': ["e", "f"] * 5}, None),
        ({"big": [2**60, 2**60 + 1, 7] * 4, "age": [200, -1, 3] * 4}, {"big": "insensitive", "age": "quasi"}),
        (
            {"sex": ["F", "M", "NA", "?"] * 3, "dose": ["1", "2", "N/A", "3"] * 3},
            {"sex": "quasi", "dose": "insensitive"},
        ),
    ],
)
def test_small_odd_tables_run(columns, roles, tmp_path):
    table = pa.table(columns)
    draft = draft_policy(table)
    if roles is not None:
        assert roles_of(draft) == roles
    assert runs(table, draft, tmp_path).manifest["rows"] == table.num_rows


def test_identifiers_by_name_and_evidence():
    n = 40
    table = pa.table(
        {
            "patient_id": [str(i) for i in range(n)],
            "hospital_name": ["North", "South"] * (n // 2),
            "surname": ["Meier", "Rossi"] * (n // 2),
            "token": [f"t{i}" for i in range(n)],
            "person": [i // 2 for i in range(n)],
            "patient_nbr": [f"P{i // 3}" for i in range(n)],
            "patient age": list(range(n)),
            "remark": [f"this is a rather long remark about case {i % 3}, with words" for i in range(n)],
        }
    )
    draft = draft_policy(table)
    assert roles_of(draft) == {
        "patient_id": "identifier",
        "hospital_name": "quasi",
        "surname": "identifier",
        "token": "identifier",
        "person": "identifier",
        "patient_nbr": "identifier",
        "patient age": "quasi",
        "remark": "identifier",
    }
    assert draft.policy["unit"] == "person"
    assert any("which of these identifies people" in question for question in draft.questions)


@pytest.mark.parametrize(
    ("weights", "expected"), [([0.0, 1.5, 2.25], "wgt"), ([1.5, None, 2.0], None), ([-1.5, 2.0, 3.0], None)]
)
def test_survey_weights_are_named_if_every_record_has_one(weights, expected, tmp_path):
    table = pa.table({"wgt": weights * 20, "age": [30 + i // 12 for i in range(60)]})
    draft = draft_policy(table)
    assert draft.names("weight") == ((expected,) if expected else ())
    assert runs(table, draft, tmp_path).manifest["rows"] == 60


def repeating(n_people, column="patient_id"):
    """Stays of people of whom everybody has ten records, with any of six illnesses each."""
    rng = np.random.default_rng(n_people)
    who = np.repeat(np.arange(n_people), 10)
    return pa.table(
        {
            column: [f"P{person:05d}" for person in who],
            "age": rng.integers(18, 90, n_people)[who],
            "diagnosis": rng.choice(
                ["flu", "gout", "cold", "burn", "cut", "mumps"], len(who), p=[0.4, 0.2, *[0.1] * 4]
            ),
        }
    )


def test_people_with_several_records_are_counted(tmp_path):
    table = repeating(40).slice(0, 40)  # four people
    assert draft_policy(table).policy.get("unit") is None  # too few to be people
    draft = draft_policy(repeating(80))
    assert draft.policy["unit"] == "patient_id"
    assert draft.policy["sample"] == {"one_per": "unit"}  # nearly everybody had the flu once
    assert "One record per person" in draft.text
    release = runs(repeating(80), draft, tmp_path)
    assert release.manifest["rows"] == 80


def column_of(name, values, **others):
    """Draft a table with one column of interest and three that anybody knows."""
    n = len(values)
    rng = np.random.default_rng(n)
    table = pa.table(
        {
            "sex": rng.choice(["F", "M"], n),
            "birth_year": rng.integers(1940, 2004, n),
            "illness": rng.choice(["flu", "gout", "cold", "cut"], n),
            name: values,
            **others,
        }
    )
    draft = draft_policy(table)
    return next(column for column in draft.columns if column.name == name), draft, table


REPEATED = np.random.default_rng(1).permutation(np.repeat(np.arange(400), 3))


@pytest.mark.parametrize(
    ("form", "name"),
    cover(
        ["{}", "{:05d}", "K{:06d}"],
        [
            "personid",
            "custid",
            "empno",
            "memberid",
            "pid",
            "subject",
            "patient",
            "PersNr",
            "Kundennr",
            "idcliente",
            "numero_empleado",
            "klantnummer",
            "nr_pacjenta",
            "id_paziente",
            "numero_de_client",
        ],
    ),
)
def test_people_are_counted_under_any_name_of_a_key(name, form):
    column, draft, _ = column_of(name, [form.format(int(one)) for one in REPEATED])
    assert (column.role, draft.policy.get("unit")) == ("identifier", name)


@pytest.mark.parametrize(
    ("form", "name"),
    cover(
        ["{}", "{:05d}", "K{:06d}"],
        [
            "hhid",
            "household",
            "householdid",
            "dwelling_id",
            "family_no",
            "id_menage",
            "id_famille",
            "id_hogar",
            "Haushaltsnummer",
            "famiglia",
            "gezinsnummer",
            "nr_gospodarstwa",
        ],
    ),
)
def test_households_are_counted_under_any_name_of_a_key(name, form):
    column, draft, _ = column_of(name, [form.format(int(one)) for one in REPEATED])
    assert (column.role, draft.policy.get("household"), draft.policy.get("unit")) == ("identifier", name, None)
    assert any(question.startswith(f"does {name} identify households?") for question in column.questions)
    assert f"\nhousehold: {name}\n" in draft.text


@pytest.mark.parametrize("values", [np.arange(1200), REPEATED // 20, np.where(REPEATED % 7, REPEATED, None)])
def test_keys_of_households_that_are_alone_large_or_missing_are_asked_about_or_not_at_all(values):
    """A household for each record needs no counting; twenty groups are no households."""
    column, draft, _ = column_of("hhid", values)
    assert (column.role, draft.policy.get("household")) == ("identifier", None)


def test_dates_in_several_formats_are_asked_about_with_counts_and_no_values():
    days = [datetime.datetime(2021, 3, 4, 13, 45) + datetime.timedelta(hours=31 * i) for i in range(200)]
    forms = ("%m/%d/%Y %I:%M %p", "%Y-%m-%d", "%d.%m.%Y")
    values = [day.strftime(forms[0 if i < 120 else 1 if i < 170 else 2]) for i, day in enumerate(days)]
    column, draft, _ = column_of("reported", [*values[:-2], "soon", "later on"])
    assert (column.role, column.type) == ("identifier", "date")
    assert (
        "the dates of reported have? Found: %m/%d/%Y %I:%M %p (120 records), ISO 8601 (50 records), %d.%m.%Y (28 re"
        in (column.questions[0])
    )
    assert "no format (2 records)" in column.questions[0]
    assert not any(value in draft.text for value in values)


def test_no_sensitive_attribute_is_a_question():
    draft = draft_policy(pa.table({"sex": ["F", "M"] * 5}))
    assert any("must stay secret" in question for question in draft.questions)
    assert draft.policy["privacy"] == [{"k-anonymity": {"k": 5}}]


def test_a_diversity_that_is_reachable():
    def asked(values):
        table = pa.table({"sex": ["F", "M"] * 30, "disease": values})
        return draft_policy(table).policy["privacy"][1:]

    assert asked([str(i % 6) for i in range(60)]) == [{"entropy-l-diversity": {"l": 3, "attribute": "disease"}}]
    assert asked([str(i % 4) for i in range(60)]) == [{"entropy-l-diversity": {"l": 2, "attribute": "disease"}}]
    assert asked(["flu"] * 55 + ["gout"] * 5) == [{"distinct-l-diversity": {"l": 2, "attribute": "disease"}}]
    assert asked(["flu"] * 60) == []


def test_no_value_is_told():
    table = pa.table(
        {
            "secret-free-name": [f"secret-{i}" for i in range(30)],
            "town": [f"secret-town-{i % 20}" for i in range(30)],
            "age": [17 + 3 * (i % 25) for i in range(30)],
            "diagnosis": [f"secret-illness-{i % 3}" for i in range(30)],
            "income": [1234.5 + i for i in range(30)],
        }
    )
    text = draft_policy(table).text.replace("secret-free-name", "")
    assert "secret" not in text
    for value in ("17", "89", "1234", "1263"):
        assert value not in text


def test_the_smallest_and_largest_numbers_are_not_told():
    table = pa.table({"dose": [137 + i % 39 for i in range(40)], "level": [0.0137 + i / 1000 for i in range(40)]})
    intervals = draft_policy(table, options=SourceOptions()).policy["attributes"]["dose"]["taxonomy"]["intervals"]
    assert (intervals["min"], intervals["max"], intervals["open"]) == (100, 199, "both")


def test_days_of_the_data_are_no_declared_domain():
    days = [datetime.date(2021, 3, 4) + datetime.timedelta(days=i % 500) for i in range(600)]
    table = pa.table({"admitted": days, "sex": ["F", "M"] * 300})
    draft = draft_policy(table)
    assert "taken from the data" in " ".join(draft.text.replace("#", " ").split())
    assert "2021" not in draft.text
    private = draft.policy | {"privacy": [], "method": {"synthetic": {"epsilon": 1.0}}}
    with pytest.raises(ShoalError, match="taken from the data"):
        anonymize(table, private)


def test_rare_values_are_grouped_on_request(tmp_path):
    towns = ["Ulm"] * 200 + ["Bonn"] * 90 + ["Celle", "Jena", "Trier"] * 2 + ["other"] * 4
    table = pa.table({"town": towns, "age": [20 + i % 50 for i in range(300)]})
    assert not any(town in draft_policy(table).text for town in towns[:-4])
    draft = draft_policy(table, group_rare=5)
    groups = {"Bonn": {}, "Ulm": {}, "other (rare)": ["Celle", "Jena", "Trier", "other"]}
    assert draft.policy["attributes"]["town"]["taxonomy"] == {"groups": groups}
    assert "The group follows the data" in " ".join(draft.text.replace("#", " ").split())
    assert set(runs(table, draft, tmp_path).data["town"].to_pylist()) <= {"Bonn", "Ulm", "other (rare)", "*"}
    assert draft_policy(table, group_rare=2).policy == draft_policy(table).policy  # none is as rare as that


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9), st.booleans())
def test_domains_are_round_and_hold_the_data(lowest, span, whole):
    if whole:
        lowest, span = float(round(lowest)), float(round(span))
    low, high = round_domain(lowest, lowest + span, whole=whole)
    assert low <= Fraction(lowest)
    assert Fraction(lowest + span) < high if whole else Fraction(lowest + span) <= high
    widths = find_widths(high - low)
    assert all((wide / narrow).denominator == 1 for narrow, wide in pairwise(widths))
    assert all(((high - low) / width).denominator == 1 for width in widths)


@given(
    st.recursive(
        st.one_of(
            st.text(), st.integers(-(10**12), 10**12), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
        ),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
        max_leaves=6,
    )
)
def test_what_is_written_reads_back(value):
    assert yaml.safe_load(flow(value)) == value


COLUMN = st.one_of(
    st.integers(-(2**40), 2**40),
    st.integers(0, 30),
    st.floats(allow_nan=True, width=32).map(lambda number: number + 0.0),  # no negative zero
    st.floats(-100, 100).map(lambda number: round(number, 2) + 0.0),
    st.booleans(),
    st.dates(datetime.date(1890, 1, 1), datetime.date(2090, 12, 31)),
    st.dates(datetime.date(1990, 1, 1), datetime.date(2020, 12, 31)).map(lambda day: f"{day:%d/%m/%Y}"),
    st.integers(0, 99_999).map(lambda number: f"{number:05d}"),
    st.sampled_from(["a", "b", "c", "?", "NA", "", " ", "*", "missing", "1", "01"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5),
)
NAMES = ("age", "zip", "note", "salary", "when", "id", "level")


@st.composite
def tables(draw):
    n_rows = draw(st.integers(2, 25))  # one record can hide among none, and no draft asks for k = 1
    columns = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)):
        kind = draw(st.sampled_from(COLUMN.original_strategies))
        values = draw(st.lists(st.one_of(st.none(), kind), min_size=n_rows, max_size=n_rows))
        columns[name] = values
    return pa.table({"sex": (["F", "M"] * n_rows)[:n_rows], **columns})


@given(tables())
def test_whatever_the_table_the_draft_runs(table):
    draft = draft_policy(table)
    assert yaml.safe_load(draft.text) == draft.policy
    assert anonymize(table, draft.policy, seed=1).manifest["rows"] == table.num_rows
