"""Results in the studio: what was achieved, rows and values before and after."""

from __future__ import annotations

import csv
import re

from shoal.sources.opening import open_source
from shoal.studio.pages.run import folder_of
from shoal.studio.tables import bars_of, first_rows, label_order, open_released


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
    assert "patient" not in released.columns
    assert "patient" in open_source(solved.table).schema.names


def test_rows_are_those_that_have_the_text(solved) -> None:
    path = solved.at(f"/results/{solved.run.id}/rows")
    text = solved.browser.post(path, {"column": "disease", "text": "GOU"}, swap=True).text
    cells = re.findall(r'<td title="(flu|gout|angina|cold)">', text)
    assert cells
    assert set(cells) == {"gout"}
    nothing = solved.browser.post(path, {"column": "disease", "text": "<b>"}, swap=True).text
    assert nothing.count("no such rows") == 2
    assert "<b>" not in nothing


def test_values_are_counted_before_and_after(solved) -> None:
    path = solved.at(f"/results/{solved.run.id}/values")
    text = solved.browser.post(path, {"column": "disease"}, swap=True).text
    with solved.table.open(encoding="utf-8") as file:
        diseases = [row["disease"] for row in csv.DictReader(file)]
    for disease in set(diseases):
        assert text.count(f'<th scope="row">{disease}</th><td class="number">{diseases.count(disease)}</td>') == 2
    assert "figure" not in solved.browser.post(path, {"column": "patient"}, swap=True).text


def test_counts_of_many_numbers_are_in_intervals_and_add_up(solved) -> None:
    found = bars_of(open_source(solved.table), "age")
    assert sum(found.counts) == 120
    assert len(found.labels) == 20
    released, manifest = open_released(folder_of(solved.run))
    after = bars_of(released.source, "age", label_order(manifest["attributes"]["age"]))
    assert sum(after.counts) == 120 or after.n_others


def test_labels_are_in_the_order_of_what_they_cover() -> None:
    labels = {
        "[30, 40)": {"from": 30, "below": 40},
        "< 5": {"from": None, "below": 5},
        "[9, 30)": {"from": 9, "below": 30},
    }
    assert label_order({"labels": {**labels, "*": {"any": True}}}) == ("< 5", "[9, 30)", "[30, 40)", "*")


def test_only_the_first_rows_are_read(solved) -> None:
    found = first_rows(open_source(solved.table), ["age", "town"], 5)
    assert (len(found.rows), found.more, found.columns) == (5, True, ("age", "town"))
    every = first_rows(open_source(solved.table), ["age"], 500)
    assert (len(every.rows), every.more) == (120, False)


def test_unknown_runs_are_not_found(solved) -> None:
    assert solved.browser.get(solved.at("/results/0123456789abcdef")).status_code == 404
    assert solved.browser.post(solved.at("/results/0123456789abcdef/rows"), {"text": "x"}).status_code == 404
