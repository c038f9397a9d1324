"""How to analyse a release, with examples that run in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.release.forms.base import read_form

_NOISE = (
    "- Noise leaves means right and makes variances too large: take off {variances}. It draws the slope of a "
    "regression on such a column towards 0."
)


@dataclass(frozen=True, slots=True)
class Example:
    """Lines of code in one language."""

    language: str
    lines: str


@dataclass(frozen=True, slots=True)
class Advice:
    """Items of a list in Markdown, and examples."""

    items: tuple[str, ...]
    examples: tuple[Example, ...]


def advice(manifest: Mapping[str, Any]) -> Advice:
    """Return how to analyse such a release."""
    form = read_form(manifest)
    examples = tuple(Example(language, lines) for language, lines in form.examples())
    return Advice((*form.advice(), *_noise(manifest)), examples)


def _noise(manifest: Mapping[str, Any]) -> list[str]:
    """Say by how much noise makes variances too large, where no edge turned it back."""
    variances = []
    for name, entry in manifest.get("techniques", {}).items():
        if entry["technique"] != "noise" or "min" in entry or "max" in entry:
            continue
        square = 2 * entry["laplace"]["scale"] ** 2 if "laplace" in entry else entry["gaussian"]["sd"] ** 2
        variances.append(f"{square:,.6g} for {json.dumps(name, ensure_ascii=False)}")
    return [_NOISE.format(variances=", ".join(variances))] if variances else []
