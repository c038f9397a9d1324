"""What plots are made of: scales, texts that fit, figures as people read them, colours that can be told apart."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shoal.core.wording import percent
from shoal.reports.plots import DARK, LIGHT
from shoal.reports.svg import Scale, fit, text_width


@given(low=st.floats(-1e3, 1e3), span=st.floats(1e-3, 1e9))
def test_ticks_are_few_and_within(low: float, span: float) -> None:
    ticks = Scale(low, low + span, 0.0, 100.0).ticks()
    assert len(ticks) <= 5
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in ticks)


@given(share=st.floats(1e-9, 1 - 1e-9))
@example(share=0.99995)
@example(share=0.00004)
def test_only_nothing_is_written_as_nothing_and_only_all_as_all(share: float) -> None:
    assert percent(share) not in ("0%", "100%", "100.0%", "0.0%")
    assert (percent(0.0), percent(1.0)) == ("0%", "100%")


@given(words=st.text(max_size=60), width=st.floats(20, 300))
def test_what_is_fitted_fits(words: str, width: float) -> None:
    shown = fit(words, width)
    assert text_width(shown) <= width
    assert shown == words or shown.endswith("…")


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_contrast(colours: dict[str, str]) -> None:
    assert min(contrast(colours[name], colours["ground"]) for name in ("ink", "soft")) >= 4.5
    assert min(contrast(colours[name], colours["ground"]) for name in ("before", "after", "axis", "soft")) >= 3
