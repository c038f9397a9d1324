"""Comparison in the studio: the command's options from a form, the frontier, and a row's policy taken over."""

from __future__ import annotations

import re

import pytest

from shoal.studio.answers import Form
from shoal.studio.pages.compare import arguments


def test_a_form_becomes_the_commands_options() -> None:
    pairs = [
        ("sweep k-anonymity.k", " 5, 10 ,,25"),
        ("sweep max_withheld", ""),
        ("sweep secret.key", "1"),
        ("method", "mondrian"),
        ("method", "synthetic"),
        ("method", "--out"),
        ("weight risk", "2"),
        ("weight marginals", "1"),
        ("hold-out", "0.3"),
        ("targets", ""),
    ]
    assert arguments(Form(pairs), ["k-anonymity.k", "max_withheld"]) == [
        *("--sweep", "k-anonymity.k=5,10,25"),
        *("--methods", "mondrian,synthetic{epsilon: 1}"),
        *("--weights", "risk=2"),
        *("--hold-out", "0.3"),
    ]


@pytest.fixture(scope="module")
def compared(solved):
    """The job of a comparison of two values, one of which no table reaches."""
    fields = {"revision": solved.project.revision, "sweep k-anonymity.k": "4, 500", "targets": "20", "hold-out": "0.3"}
    assert solved.browser.post(solved.at("/compare"), fields).status_code == 303
    job = solved.project.jobs_of("compare")[0]
    assert job.finished.wait(600)
    assert job.state == "done", job.message
    return job


def test_rows_are_ranked_drawn_and_linked(solved, compared) -> None:
    text = solved.browser.get(solved.at("/compare")).text
    made = [place for place, row in enumerate(compared.answer["rows"]) if row.get("rank") is not None]
    assert len(made) == 1
    for place in made:
        assert f'href="#row-{place}"' in text
    assert len(re.findall(r'<tr id="row-\d+"', text)) == len(compared.answer["rows"]) == 2
    assert "failed:" in text
    assert "First try" in text  # the session's own solutions
    assert 'value="4, 500"' in text  # the form stays as it was sent
