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

from shoal.anonymize import anonymize
from shoal.core.errors import InputError, ShoalError
from shoal.datasets.hospital import stays
from shoal.datasets.uci import adult, nursery
from shoal.policy.drafting import draft_policy, flow, scalar
from shoal.policy.guessing import find_widths, round_domain
from shoal.policy.policy import Policy
from shoal.policy.profiling import MOST_DISTINCT
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


def test_adult_without_missing_values(shared_data, tmp_path):
    table = adult(shared_data)
    draft = draft_policy(table)
    assert draft.policy["source"] == {"missing_in": {"capital-gain": ["99999"]}}
    assert runs(table, draft, tmp_path, **MONDRIAN).manifest["rows"] == 45_222


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


def test_beyond_a_dozen_quasi_columns_one_that_determines_another_is_left_out():
    table = areas()
    for number in range(10):
        table = table.append_column(f"birth_country_{number}", table["age"].take(pa.array(np.arange(2000)[::-1])))
    draft = draft_policy(table)
    assert len(draft.names("quasi")) == 12
    assert {"x1", "x2"} <= set(draft.names("identifier"))


def test_nursery(shared_data, tmp_path):
    table = nursery(shared_data)
    draft = draft_policy(table)
    assert draft.names("sensitive") == ("health",)
    assert draft.names("quasi") == ("parents", "children", "housing")
    assert "source" not in draft.policy
    assert runs(table, draft, tmp_path).manifest["rows"] == 12_960


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


@pytest.mark.parametrize("name", ["Bemerkung", "comment", "remarks", "note", "Observaciones", "remarque", "uwagi"])
def test_remarks_are_identifiers_however_short(name):
    draft = draft_policy(pa.table({name: ["moved", "called", "none"] * 20, "age": list(range(60))}))
    assert roles_of(draft)[name] == "identifier"


@pytest.mark.parametrize("name", ["Zahlungsausfall", "default", "arrears", "Schulden", "impayé"])
def test_unpaid_debts_are_sensitive(name):
    draft = draft_policy(pa.table({name: ["ja", "nein", "nein"] * 20, "age": list(range(60))}))
    assert roles_of(draft)[name] == "sensitive"


@pytest.mark.parametrize(
    ("weights", "expected"), [([0.0, 1.5, 2.25], "wgt"), ([1.5, None, 2.0], None), ([-1.5, 2.0, 3.0], None)]
)
def test_survey_weights_are_named_if_every_record_has_one(weights, expected, tmp_path):
    table = pa.table({"wgt": weights * 20, "age": [30 + i // 12 for i in range(60)]})
    draft = draft_policy(table)
    assert draft.names("weight") == ((expected,) if expected else ())
    assert runs(table, draft, tmp_path).manifest["rows"] == 60


def test_codes_of_several_lengths_are_grouped_by_how_they_begin(tmp_path):
    stems, ends = ["A01", "C10", "G47", "Q86"], ["", ".1", ".11", ".2"]
    industries = [stem + end for stem in stems for end in ends]
    occupations = [1, 2, 25, 251, 2511, 2512, 252, 26, 263, 2631, 3, 33, 331, 3311, 4, 41, 411, 4110]
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "nace": rng.choice(industries, 600),
            "isco": rng.choice(occupations, 600),
            "points": rng.choice(occupations, 600),  # the same numbers under a name that says nothing
            "age": rng.integers(20, 60, 600),
        }
    )
    draft = draft_policy(table)
    entries = draft.policy["attributes"]
    assert entries["nace"] == entries["isco"] == {"role": "quasi", "taxonomy": {"mask": {}}}
    assert next(column.type for column in draft.columns if column.name == "points") != "prefix"
    labels = set(runs(table, draft, tmp_path).data["nace"].to_pylist())
    assert any(label.endswith("*") and label != "*" for label in labels)


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


def test_people_with_one_illness_each_need_no_sample(tmp_path):
    table = repeating(80)
    ill = np.repeat(np.array(["flu", "gout", "cold", "burn"])[np.arange(80) % 4], 10)
    table = table.set_column(2, "diagnosis", pa.array(ill))
    draft = draft_policy(table)
    assert (draft.policy["unit"], draft.policy.get("sample")) == ("patient_id", None)
    assert {entry["counts"] for entry in runs(table, draft, tmp_path).manifest["guarantees"]} == {"unit"}


@pytest.mark.parametrize("column", ["provider_id", "batch_no"])
def test_other_keys_that_repeat_stay_a_question(column):
    draft = draft_policy(repeating(80, column))
    assert "unit" not in draft.policy


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


@pytest.mark.parametrize("form", ["{}", "{:05d}", "K{:06d}"])
@pytest.mark.parametrize(
    "name",
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
)
def test_people_are_counted_under_any_name_of_a_key(name, form):
    column, draft, _ = column_of(name, [form.format(int(one)) for one in REPEATED])
    assert (column.role, draft.policy.get("unit")) == ("identifier", name)


@pytest.mark.parametrize("form", ["{}", "{:05d}", "K{:06d}"])
@pytest.mark.parametrize(
    "name",
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
)
def test_households_are_counted_under_any_name_of_a_key(name, form):
    column, draft, _ = column_of(name, [form.format(int(one)) for one in REPEATED])
    assert (column.role, draft.policy.get("household"), draft.policy.get("unit")) == ("identifier", name, None)
    assert any(question.startswith(f"does {name} identify households?") for question in column.questions)
    assert f"\nhousehold: {name}\n" in draft.text


@pytest.mark.parametrize("own", [1, 2])
def test_people_and_their_households_are_counted_together(own, tmp_path):
    """Models are those that both reach: here every household has a case of flu, and no other value is as frequent."""
    person, home = np.arange(1200) // own, np.arange(1200) // 6
    illness = np.random.default_rng(5).choice(["gout", "cold", "pox", "flu"], 1200)
    _, draft, table = column_of("person_id", person, hhid=home, illness=illness)
    assert [draft.policy.get(key) for key in ("unit", "household")] == ["person_id" if own > 1 else None, "hhid"]
    counts = [one["counts"] for one in runs(table, draft, tmp_path, **MONDRIAN).manifest["guarantees"]]
    assert set(counts) == ({"unit", "household"} if own > 1 else {"household"})
    illness[::6] = "flu"
    _, draft, table = column_of("person_id", person, hhid=home, illness=illness)
    assert draft.policy["sample"] == {"one_per": "household"}
    assert runs(table, draft, tmp_path, **MONDRIAN).manifest["rows"] == 200


@pytest.mark.parametrize("values", [np.arange(1200), REPEATED // 20, np.where(REPEATED % 7, REPEATED, None)])
def test_keys_of_households_that_are_alone_large_or_missing_are_asked_about_or_not_at_all(values):
    """A household for each record needs no counting; twenty groups are no households."""
    column, draft, _ = column_of("hhid", values)
    assert (column.role, draft.policy.get("household")) == ("identifier", None)


@pytest.mark.parametrize("form", ["{}", "{:05d}", "K{:06d}"])
@pytest.mark.parametrize("name", ["caseid", "incident_no", "UnfallID", "v12"])
def test_keys_of_others_are_left_out_and_asked_about(name, form):
    known_to_others = np.random.default_rng(2).choice(list("ABCDE"), 400)[REPEATED]
    column, draft, _ = column_of(name, [form.format(int(one)) for one in REPEATED], region=known_to_others)
    assert (column.role, draft.policy.get("unit")) == ("identifier", None)
    assert any("do several records belong to one person, household or company" in one for one in column.questions)


def test_people_are_counted_by_their_names_if_nothing_else_identifies_them():
    values = [f"{'ABCDEFGHIJ'[one % 10]}{'abcdefghijklmnopqrst'[one // 20]}{'uvwxyz'[one % 6]}" for one in REPEATED]
    column, draft, _ = column_of("patient", values)
    assert (column.role, column.type, draft.policy.get("unit")) == ("identifier", "text", "patient")


def test_companies_are_counted_if_no_key_is_one_of_people(tmp_path):
    column, draft, table = column_of("company", REPEATED)
    assert (column.role, draft.policy["unit"]) == ("identifier", "company")
    assert {one["counts"] for one in runs(table, draft, tmp_path, **MONDRIAN).manifest["guarantees"]} == {"unit"}
    column, draft, _ = column_of("company", REPEATED, respondent=np.arange(len(REPEATED)))
    assert (column.role, draft.policy.get("unit"), len(column.questions)) == ("identifier", None, 1)


def test_a_column_that_determines_what_is_known_of_people_is_a_key():
    rng = np.random.default_rng(3)
    who = REPEATED * 1.5  # no whole numbers, and no name
    others = {"sex": rng.choice(["F", "M"], 400)[REPEATED], "birth_year": rng.integers(1940, 2004, 400)[REPEATED]}
    table = pa.table({"v1": who, **others, "illness": rng.choice(["flu", "gout", "cold"], 1200)})
    column = draft_policy(table).columns[0]
    assert (column.role, column.reason) == ("identifier", "it determines sex, birth_year, as a key does")


@pytest.mark.parametrize(("name", "step", "role"), [("v1", 1, "identifier"), ("v1", 500, "insensitive")])
def test_numbers_that_repeat_more_often_than_quantities_are_keys(name, step, role):
    """Rounded amounts repeat as often, but only because they are rounded."""
    rng = np.random.default_rng(8)
    numbers = rng.choice(rng.integers(1, 200, 400) * 500, 1200) if step > 1 else rng.integers(9, 900_000, 400)[REPEATED]
    column, _, _ = column_of(name, numbers)
    assert column.role == role


def test_words_are_known_without_umlauts():
    assert column_of("koerpergroesse", np.arange(150, 200).repeat(6))[0].role == "quasi"


@pytest.mark.parametrize("name", ["weight", "Gewicht", "poids", "peso", "waga"])
def test_weights_of_bodies_and_of_surveys_differ_by_their_values(name):
    rng = np.random.default_rng(4)
    for body in (rng.integers(45, 140, 900), np.round(rng.normal(75, 14, 900), 1)):
        column, _, _ = column_of(name, body)
        assert (column.role, column.type) == ("quasi", "number")
    for survey in (np.round(rng.lognormal(0, 0.4, 900), 4), np.round(1800 * rng.lognormal(0, 0.4, 900), 2)):
        assert column_of(name, survey)[0].role == "weight"
    assert column_of(f"design_{name}", 5 * np.round(rng.lognormal(1, 0.2, 900), 4))[0].role == "weight"


def test_only_one_weight_is_declared_and_no_other_is_published():
    weights = np.random.default_rng(4).lognormal(0, 0.4, 900)
    column, draft, _ = column_of("wgt1", weights, wgt2=weights * 2)
    assert (column.role, draft.names("weight"), draft.names("insensitive")) == ("weight", ("wgt1",), ())


SCALES = """
strongly disagree|disagree|neither agree nor disagree|agree|strongly agree
low|medium|high
niedrig|mittel|hoch
pas du tout d'accord|plutôt pas d'accord|plutôt d'accord|tout à fait d'accord
nunca|casi nunca|a veces|siempre
basso|medio|alto
zeer ontevreden|ontevreden|tevreden|zeer tevreden
nigdy|rzadko|często
unverletzt|leicht verletzt|schwer verletzt|getötet
<1000|1000-1999|2000-2999|3000+
0|1-4|5-9|10+
[0,9)|[9,80)|[80,200)
less than $10,000|$10,000 to $19,999|$20,000 or more
unter 1000|1000 bis unter 2000|2000 und mehr
moins de 1000 €|1000 à 1999 €|2000 € et plus
hasta 1000|1001 a 2000|más de 2000
fino a 1000|da 1001 a 2000|oltre 2000
minder dan 1.000|1.000 - 1.999|2.000 of meer
poniżej 18 lat|18-65 lat|powyżej 65 lat
""".strip().splitlines()


@pytest.mark.parametrize("steps", SCALES)
def test_scales_and_classes_keep_their_order(steps):
    steps = steps.split("|")
    values = [steps[i * 7 % len(steps)] for i in range(120)]
    for name, role in (("district_type", "quasi"), ("income_class", "sensitive")):
        column, _, _ = column_of(name, values)
        assert (column.role, column.type, column.taxonomy) == (role, "ordered", {"flat": {"values": steps}})


def test_a_scale_in_two_spellings_has_no_order_but_is_published():
    column, _, _ = column_of("stress_level", ["low", "Low", "medium", "high"] * 30)
    assert (column.role, column.type) == ("sensitive", "category")


@pytest.mark.parametrize("codes", ["12-345 45-123 33-210 50-100", "A14 A11 A12", "01-00100 01-00200 02-00100"])
def test_codes_are_not_classes(codes):
    column, _, _ = column_of("district", codes.split() * 40)
    assert column.type != "ordered"


AGES = {"min": 0, "max": 119, "widths": [5, 10, 20, 40], "open": "high"}


@pytest.mark.parametrize(("name", "marker"), [("Alter", "99"), ("age", "999"), ("edad", None)])
def test_ages_with_leading_zeros_are_numbers_and_some_mean_missing(name, marker):
    rng = np.random.default_rng(5)
    ages = [f"{one:02d}" for one in rng.integers(5, 97, 1200)]
    values = [marker if marker and drawn < 0.04 else one for one, drawn in zip(ages, rng.random(1200), strict=True)]
    column, draft, _ = column_of(name, values)
    assert (column.type, column.taxonomy) == ("age", {"intervals": AGES})
    assert draft.policy.get("source", {}).get("missing_in") == ({name: [marker]} if marker else None)


def test_an_age_of_99_that_is_as_rare_as_its_neighbours_is_an_age():
    ages = [str(age) for age in range(20, 100) for _ in range(4)]
    assert "source" not in column_of("age", ages)[1].policy


@pytest.mark.parametrize("name", ["day", "Tag", "jour", "dia_entrevista", "giorno", "dag", "dzien"])
def test_days_of_a_month_have_their_bounds(name):
    column, _, _ = column_of(name, [1 + i % 31 for i in range(310)])
    assert (column.taxonomy["intervals"]["min"], column.taxonomy["intervals"]["max"]) == (1, 31)


def test_quasi_columns_beyond_the_limit_are_left_out_and_named_in_a_question():
    rng = np.random.default_rng(6)
    others = {f"birth_country_{i}": rng.integers(0, 9, 300) for i in range(11)}
    column, draft, _ = column_of("marital_status", rng.choice(["single", "married"], 300), **others)
    assert len(draft.names("quasi")) == 12
    assert (column.role, column.questions[0][:28]) == ("identifier", "do users need marital_status")


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


@pytest.mark.parametrize("form", ["%d/%m/%Y %H:%M", "%m/%d/%Y %I:%M %p", "%d.%m.%y", "%b %d, %Y", "%Y-%m-%d %H:%M:%S"])
def test_dates_with_times_or_in_rarer_formats_are_dates(form, tmp_path):
    days = [datetime.datetime(2021, 3, 4, 13, 45) + datetime.timedelta(hours=31 * i) for i in range(200)]
    column, draft, table = column_of("visited", [day.strftime(form) for day in days])
    assert (column.role, column.type) == ("quasi", "date")
    assert any("time of day" in question for question in column.questions) == ("%M" in form)
    assert runs(table, draft, tmp_path, **MONDRIAN).manifest["rows"] == 200


@pytest.mark.parametrize(("town", "encoding"), [("Zürich", "cp1252"), ("Z\x81rich", "latin-1")])
def test_an_encoding_that_no_file_declares_is_found_and_asked_about(town, encoding, tmp_path):
    rows = "".join(f"{20 + i % 50},{town if i % 3 else 'Ulm'}\n" for i in range(60))
    path = tmp_path / "people.csv"
    path.write_bytes(f"age,town\n{rows}".encode("latin-1"))
    draft = draft_policy(path)
    assert draft.policy["source"] == {"encoding": encoding}
    assert any(encoding in question for question in draft.questions)
    assert town in runs(path, draft, tmp_path, **MONDRIAN).data["town"].to_pylist()


def test_no_quasi_attribute_is_still_yaml():
    draft = draft_policy(pa.table({"email": ["a", "b"], "salary": [1, 2]}))
    assert yaml.safe_load(draft.text) == draft.policy
    assert any("needs a quasi column" in question for question in draft.questions)
    assert "QUESTION: which columns could others know" in draft.text


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


def test_continuous_sensitive_numbers_stay_as_they_are_published(tmp_path):
    table = pa.table({"sex": ["F", "M", "F"] * 1000, "salary": [1000.25 + i * 1.5 for i in range(3000)]})
    draft = draft_policy(table)
    assert draft.policy["attributes"]["salary"] == {"role": "sensitive"}
    assert runs(table, draft, tmp_path).manifest["rows"] == 3000


def test_more_values_than_are_counted(tmp_path):
    n = MOST_DISTINCT + 5000
    table = pa.table(
        {
            "sex": ["F", "M"] * (n // 2),
            "code": [f"c{i:06d}" for i in range(n)],
            "cost": [i / 4 for i in range(n)],
            "income": [float(i % 101_000) + 0.5 for i in range(n)],
        }
    )
    draft = draft_policy(table)
    assert roles_of(draft) == {"sex": "quasi", "code": "identifier", "cost": "insensitive", "income": "identifier"}
    assert "which taxonomy fits it? It looks sensitive" in draft.text.replace("\n  #  ", "")
    assert "more than 100,000 values" in draft.text
    assert runs(table, draft, tmp_path).manifest["rows"] == n


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


def test_many_texts_ask_for_a_taxonomy():
    table = pa.table({"town": [f"town {i % 30}" for i in range(300)]})
    (column,) = draft_policy(table).columns
    assert column.taxonomy == {"flat": {}}
    assert any("belong together" in question for question in column.questions)


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
    assert "It follows the data" in " ".join(draft.text.replace("#", " ").split())
    assert set(runs(table, draft, tmp_path).data["town"].to_pylist()) <= {"Bonn", "Ulm", "other (rare)", "*"}
    assert draft_policy(table, group_rare=2).policy == draft_policy(table).policy  # none is as rare as that


def test_ambiguous_dates_are_a_question():
    table = pa.table({"visit": ["01/02/2024", "03/04/2024"] * 3})
    (column,) = draft_policy(table).columns
    assert column.taxonomy["dates"]["format"] == "%d/%m/%Y"
    assert any("format" in question for question in column.questions)


def test_empty_table():
    with pytest.raises(InputError, match="no rows"):
        draft_policy(pa.table({"age": pa.array([], pa.int64())}))


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


@pytest.mark.parametrize(
    "text", ["yes", "No", "null", "~", "1e5", "0x1f", "2024-01-01", "a b", "", "-", "*", "% a", "é"]
)
def test_texts_stay_texts(text):
    assert yaml.safe_load(scalar(text)) == text


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
