"""Results in the studio: what was achieved, rows and values before and after."""

from __future__ import annotations

import csv
import re

from shoal.sources.opening import open_source
from shoal.studio.pages.run import folder_of
from shoal.studio.studio import open_released


def test_the_page_tells_what_was_achieved(solved) -> None:
    text = solved.browser.get(solved.at(f"/results/{solved.run.id}")).text
    assert "Results: First try" in text
    assert "120 of 120 records are published" in text
    for promise in solved.run.answer["guarantees"]:
        assert f'<th scope="row">{promise["model"]}</th>' in text
        assert f"<td>{promise['achieved']:.6g}</td>" in text
    for check in ("truth", "manifest"):
        assert check in text
    assert "not the same person as the row on the left" in text
    assert text.count('<figure class="plot-figure">') >= 5
    assert " style=" not in text
    assert solved.browser.get(solved.at("/results")).text.count("First try") == text.count("First try")


def test_identifiers_are_never_on_the_published_side(solved) -> None:
    released, _ = open_released(folder_of(solved.run))
    assert "patient" not in released.schema.names
    assert "patient" in open_source(solved.table).schema.names


def test_every_column_has_a_verdict_and_can_be_looked_at(solved) -> None:
    text = solved.browser.get(solved.at(f"/results/{solved.run.id}")).text
    assert re.search("<strong>Published unchanged:</strong>[^<]* disease", text)
    assert "<strong>Not published:</strong> patient" in text
    assert 'value="age">age</button>' in text
    assert re.search(r"[\d.]+% (unchanged|generalized|suppressed)[^<]* The mean of \d+ records with a value is", text)
    assert "<title" in text.split("Changes of each column")[1]  # the stacked bars
    path = solved.at(f"/results/{solved.run.id}/column")
    shown = solved.browser.post(path, {"column": "disease"}, swap=True).text
    with solved.table.open(encoding="utf-8") as file:
        diseases = [row["disease"] for row in csv.DictReader(file)]
    for disease in set(diseases):
        cells = f'<td class="number">{diseases.count(disease)}</td>' * 3
        assert f'<th scope="row">{disease}</th>{cells}' in shown
    assert "figure" not in solved.browser.post(path, {"column": "patient"}, swap=True).text
