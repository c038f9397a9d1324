"""The notebooks of the docs run from top to bottom, each in a fresh kernel, and show what they are about."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"
# What the outputs of each notebook must tell, in this order: patterns of the shown HTML or text.
EXPECTED = {
    "analysing-a-release": (
        r"2,000 of 2,000 records",
        r"<th>age_from</th>",
        r"CombinedEstimate\(value=(\d+)\.",
    ),
    "first-release": (
        r"5,000 of 5,000 records .* are published by the method mondrian",
        r"k-anonymity</th><td>k = 10</td><td[^>]*>\d+</td><td>holds",
        r"Risk of being found",
        r"'public/manifest\.json'",
        r"^True$",
    ),
    "taxonomies-and-audit": (
        r"records \([\d.]+%\) are unique on age, sex, postcode",
        r"k-anonymity</th><td>k = 10</td><td[^>]*>1</td><td>missed by [\d,]+ records",
        r"31 values of the kind category",
        r"<summary>In education",
        r"'\[30, 34\]', '\[30, 39\]'",
    ),
    "slicing-and-questions": (
        r"4,000 of 4,000 records .* are published by the method slicing in \d+ buckets",
        r"Bucket sizes",
        r"Estimate\(value=(\d+)\.0, error=0\.0\)",
        r"<th>insurance</th>",
    ),
    "compare-and-attack": (
        r"'singling-out': Estimate\(",
        r"<title id=\"plot-\w+-title\">Attacks</title>",
        r"Comparison of 3 releases",
        r"On the frontier (is|are) \d of 3 releases",
        r"mondrian, k=40",
    ),
}


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))


def executed(book: NotebookNode, folder: Path) -> NotebookNode:
    """Run a notebook; kernel and client talk by sockets that are files, and none but this user may open them."""
    with tempfile.TemporaryDirectory(prefix="shoal-") as place:  # names of sockets must be short
        sockets = Config({"KernelManager": {"transport": "ipc", "ip": f"{place}/kernel"}})
        where = {"metadata": {"path": str(folder)}}
        return NotebookClient(book, config=sockets, kernel_name="python3", timeout=180, resources=where).execute()


def shown(output: Mapping[str, Any]) -> str:
    data = output.get("data", {})
    return str(data.get("text/html", data.get("text/plain", output.get("text", ""))))


def test_every_notebook_is_known() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_notebook_ships_with_its_outputs_and_no_path_of_a_machine(name: str) -> None:
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    nbformat.validate(book)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    stated = "\n".join(shown(output) for cell in code for output in cell.outputs)
    assert all(re.search(pattern, stated, re.MULTILINE) for pattern in EXPECTED[name])
    assert not re.search(r"/(tmp|home|root|work)/", stated)
    assert book.cells[0].source.startswith("# ")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    book = executed(nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4), tmp_path)
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert not [output for output in outputs if output.output_type in ("error", "stream")]
    stated = "\n".join(map(shown, outputs))
    place = 0
    for pattern in EXPECTED[name]:
        found = re.compile(pattern, re.MULTILINE).search(stated, place)
        assert found, f"{pattern!r} is not shown, or not in its place"
        place = found.end()
    by_html = [output for output in outputs if 'class="shoal-output"' in output.get("data", {}).get("text/html", "")]
    assert by_html
    assert all(len(output.data["text/plain"]) < 20_000 for output in by_html)
