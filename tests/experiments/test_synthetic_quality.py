"""The experiment on synthetic tables: its page is made of its figures, and the documentation has the page."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.synthetic import BEGIN, END, Quality, make_report

DOCS = Path(__file__).parent.parent.parent / "docs"


def test_figures_are_averaged_by_table_and_epsilon(tmp_path: Path) -> None:
    found = [Quality("Adult", 1.0, 0.01, pairs, 0.1, 0.8, 20, 1.0, 2.0) for pairs in (0.02, 0.04)]
    report = make_report([*found, Quality("survey", 1.0, 0.01, 0.5, 0.1, 0.8, 20, 1.0, 2.0)])
    assert "| Adult | 1 | 0.0100 ± 0.0000 | 0.0300 ± 0.0141 | 0.1000 ± 0.0000 |" in report.page
    assert "| survey | 1 | 0.0100 | 0.5000 |" in report.page
    (tmp_path / "figures").mkdir()
    (tmp_path / "synthetic.md").write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    report.write_docs(tmp_path, {})
    text = (tmp_path / "synthetic.md").read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text and report.page in text  # noqa: PT018


def test_the_page_is_that_of_the_stored_figures() -> None:
    stored = json.loads((DOCS / "figures" / "synthetic.json").read_text())
    page = make_report([Quality(**one) for one in stored["tables"]]).page
    assert page.strip() in (DOCS / "synthetic.md").read_text()
