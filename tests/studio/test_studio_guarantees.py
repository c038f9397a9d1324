"""Guarantees in the studio: forms from declarations, a change of the policy for each, and hints that never promise."""

from __future__ import annotations

import re

import pytest

from shoal.core.registry import discover
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.studio.pages.guarantees import list_models, list_parameters, read_values, show_values, start_of

MODELS, METHODS = discover("shoal.models", PrivacyModel), discover("shoal.methods", Method)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_explained_and_begins_with_valid_parameters(name: str) -> None:
    (model,) = [each for each in list_models() if each.name == name]
    assert not model.explanation or model.explanation.endswith(".")
    assert model.weaknesses.endswith(".")
    assert model.example
    MODELS[name].model_validate(start_of(MODELS[name], list_parameters(MODELS[name])))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_begins_with_valid_parameters(name: str) -> None:
    METHODS[name].model_validate(start_of(METHODS[name], list_parameters(METHODS[name])))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("tau-l-diversity", {"tau": 0.5, "l": 3, "psi": [0.5, 0.7, 1], "weights": {"flu": 2, "gout": 1}}),
        ("confidence-bounding", {"most": 0.25, "harmless": ["none", "cold"], "separator": ";"}),
        ("t-closeness", {"t": 0.2, "distance": "ordered"}),
        ("beta-likeness", {"beta": 1, "enhanced": True}),
        ("slicing", {"columns": "each", "bucket_size": 4, "overlapping": True}),
        ("sweep", {"improve": False, "defend": False}),
        ("synthetic", {"epsilon": 0.5, "tree": [["age", "sex"]]}),
    ],
)
def test_what_a_form_shows_is_what_it_reads(name: str, given: dict) -> None:
    fields = list_parameters({**MODELS, **METHODS}[name])
    texts = {key: [value] for key, value in show_values(fields, given).items()}
    assert read_values(fields, texts) == given


def test_defaults_are_left_out_and_wrong_numbers_kept_for_the_message() -> None:
    fields = list_parameters(METHODS["incognito"])
    assert read_values(fields, {"measure": ["loss"], "time_budget": ["60"], "recode": []}) == {}
    assert read_values(fields, {"time_budget": ["soon"]}) == {"time_budget": "soon"}
    assert read_values(fields, {"time_budget": ["inf"]}) == {"time_budget": "inf"}


@pytest.fixture
def at(project):
    return f"/projects/{project.id}/guarantees"


def promised(project) -> list:
    return project.document["privacy"]


def test_the_page_names_every_model_and_the_fields_of_those_asked_for(browser, project, at: str) -> None:
    text = browser.get(at).text
    for name in MODELS:
        assert f'value="{name}"' in text
    for place, entry in enumerate(promised(project), start=1):
        ((name, given),) = entry.items()
        assert f'data-model="{name}"' in text
        for field in list_parameters(MODELS[name]):
            assert f'id="promise-{place}-{field.name}' in text
        assert f'value="{next(iter(given.values()))}"' in text
    assert " style=" not in text


def test_promises_are_added_changed_and_removed(browser, project, at: str) -> None:
    before = promised(project)
    assert browser.post(f"{at}/add", {"revision": project.revision, "model": "t-closeness"}).status_code == 303
    assert promised(project) == [*before, {"t-closeness": {"t": 0.3}}]
    place = len(before)
    fields = {"revision": project.revision, "place": place, "t": "0.25", "distance": "ordered", "attribute": "disease"}
    assert browser.post(f"{at}/change", fields).status_code == 303
    assert promised(project)[place] == {"t-closeness": {"t": 0.25, "distance": "ordered", "attribute": "disease"}}
    assert browser.post(f"{at}/remove", {"revision": project.revision, "place": place}).status_code == 303
    assert promised(project) == before


def test_several_attributes_mean_their_joint_values(browser, project, at: str) -> None:
    document = project.document
    document["attributes"]["town"] = {"role": "sensitive"}
    document["privacy"] = [{"distinct-l-diversity": {"l": 2}}]
    project.change(project.revision, document)
    fields = {"revision": project.revision, "place": 0, "l": "2", "attribute": ["town", "disease"]}
    browser.post(f"{at}/change", fields)
    assert promised(project) == [{"distinct-l-diversity": {"l": 2, "attribute": ["town", "disease"]}}]
    assert not project.problems()


def test_a_value_out_of_its_limits_is_a_problem_that_the_page_tells(browser, project, at: str) -> None:
    answer = browser.post(f"{at}/change", {"revision": project.revision, "place": 0, "k": "0"}, swap=True)
    assert answer.status_code == 200
    assert "must be at least 1" in answer.text
    assert [problem.message for problem in project.problems()] == [
        "privacy[0].k-anonymity.k: must be at least 1; received 0"
    ]


def test_a_second_tab_is_told_and_changes_nothing(browser, project, at: str) -> None:
    old = project.revision
    browser.post(f"{at}/change", {"revision": old, "place": 0, "k": "7"})
    answer = browser.post(f"{at}/change", {"revision": old, "place": 0, "k": "9"}, swap=True)
    assert answer.status_code == 409
    assert promised(project)[0] == {"k-anonymity": {"k": 7}}


def test_what_is_not_there_is_refused(browser, project, at: str) -> None:
    before = project.document
    for path, fields in (
        ("add", {"model": "m-invariance"}),
        ("change", {"place": "99", "k": "5"}),
        ("remove", {"place": "-1"}),
        ("method", {"method": "magic"}),
        ("options", {"max_withheld": "much", "missing": "drop"}),
    ):
        assert browser.post(f"{at}/{path}", {"revision": project.revision, **fields}).status_code == 422
    assert project.document == before


def test_the_method_and_the_options_are_taken(browser, project, at: str) -> None:
    browser.post(f"{at}/method", {"revision": project.revision, "method": "incognito", "cuts": "strict"})
    assert project.document["method"] == {"incognito": {}}
    fields = {"revision": project.revision, "method": "incognito", "measure": "um", "recode": "true"}
    browser.post(f"{at}/method", fields)
    assert project.document["method"] == {"incognito": {"measure": "um", "recode": True}}
    browser.post(f"{at}/options", {"revision": project.revision, "max_withheld": "0.05", "missing": "drop"})
    assert (project.document["max_withheld"], project.document["missing"]) == (0.05, "drop")
    assert not project.problems()


def test_the_hint_follows_the_policy(browser, project, at: str) -> None:
    def verdicts() -> list[str]:
        for _ in range(100):
            text = browser.get(f"{at}/hint").text
            if 'data-state="settled"' in text:
                return re.findall(r'data-verdict="(\w+)"', text)
        pytest.fail("the hint never came")

    assert set(verdicts()) == {"possible"}
    browser.post(f"{at}/change", {"revision": project.revision, "place": 0, "k": "121"})
    assert verdicts()[0] == "impossible"
    assert "only 120 records" in browser.get(f"{at}/hint").text
    browser.post(f"{at}/change", {"revision": project.revision, "place": 0, "k": "120"})
    assert verdicts()[0] == "possible"


def test_a_population_that_was_added_can_be_chosen(browser, project) -> None:
    assert browser.put(f"/projects/{project.id}/files", b"age,sex\n30,F\n", "census.csv").status_code == 200
    assert "census.csv" in browser.get(f"/projects/{project.id}/guarantees").text
