"""Guarantees in the studio: forms from declarations, a change of the policy for each, and hints that never promise."""

from __future__ import annotations

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


def test_a_value_out_of_its_limits_is_a_problem_that_the_page_tells(browser, project, at: str) -> None:
    answer = browser.post(f"{at}/change", {"revision": project.revision, "place": 0, "k": "0"}, swap=True)
    assert answer.status_code == 200
    assert "must be at least 1" in answer.text
    assert [problem.message for problem in project.problems()] == [
        "privacy[0].k-anonymity.k: must be at least 1; received 0"
    ]


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
