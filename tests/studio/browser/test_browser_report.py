"""Reports in a real browser: nothing is asked for elsewhere, nothing overflows, and they print on A4."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.tables import cover

import shoal

AUDIENCES = ("internal", "public")


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(1)
    n = 400
    long = "a column with a rather long name that does not end soon"
    table = pa.table(
        {
            "age": rng.integers(20, 90, n),
            long: rng.choice(["north", "south", "east", "west"], n),
            "illness": rng.choice([f"illness number {i} of many" for i in range(30)], n),
        }
    )
    attributes = {"age": {"role": "quasi"}, long: {"role": "quasi"}, "illness": {"role": "sensitive"}}
    policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 5}}], "method": "mondrian"}
    place = tmp_path_factory.mktemp("reported") / "out"
    shoal.anonymize(table, policy, out=place, format="csv", seed=1)
    return place


def opened(chromium: Any, page: Path, **options: Any) -> tuple[Any, list[str]]:
    """Open a page in a context of its own; return it with all that it asked for or complained of."""
    view = chromium.new_context(**options).new_page()
    heard: list[str] = []
    view.on("request", lambda request: heard.append(request.url))
    view.on("console", lambda said: heard.append(said.text))
    view.on("pageerror", lambda error: heard.append(str(error)))
    view.goto(page.as_uri())
    return view, heard


@pytest.mark.parametrize(("scheme", "width", "audience"), cover(["light", "dark"], [1280, 390], AUDIENCES))
def test_a_report_fits_and_asks_for_nothing(
    chromium: Any, released: Path, audience: str, width: int, scheme: str
) -> None:
    page = released / audience / "report.html"
    view, heard = opened(chromium, page, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert heard == [page.as_uri()]
    assert view.evaluate("document.documentElement.scrollWidth") <= width
    ground = view.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    view.keyboard.press("Tab")
    assert view.evaluate("document.activeElement.getAttribute('href')") == "#report"
    view.context.close()


@pytest.mark.parametrize("audience", AUDIENCES)
def test_a_report_prints_on_a4_with_everything_open(chromium: Any, released: Path, audience: str) -> None:
    view, _ = opened(chromium, released / audience / "report.html", color_scheme="dark")
    printed = view.pdf(prefer_css_page_size=True, print_background=True)
    assert printed.startswith(b"%PDF")
    n_pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 2 <= n_pages <= (10 if audience == "internal" else 6)
    sizes = set(re.findall(rb"/MediaBox\s*\[([^\]]+)\]", printed))
    ((_, _, width, height),) = (tuple(float(end) for end in size.split()) for size in sizes)
    assert (round(width), round(height)) == (595, 842)
    view.emulate_media(media="print")
    assert view.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    folded = "[...document.querySelectorAll('main details')].filter(one => !one.closest('figure'))"
    assert view.evaluate(f"{folded}.every(one => one.getBoundingClientRect().height > 30)")
    view.context.close()
