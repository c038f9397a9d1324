"""How to analyse a release, with an example that runs in its folder; one kind of release a function."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.forms import form_of
from shoal.report.public.examples import examples_of

_EXACT = "- Columns that hold original values can be counted as they stand, for the records that were published."
_LABELS = (
    "- A label stands for a range or a set of values. Count records by label, or bound a count: at least those whose "
    "label lies wholly within what you ask for, at most those whose label overlaps with it. For one figure in between, "
    "spread the records of a label evenly over it."
)
_OVERLAP = (
    "- Labels of one column may overlap: `[20, 40)` and `[30, 50)` are no two groups. To compare groups, put labels "
    "together until they do not overlap."
)
_SAME_LEVEL = "- All records have labels of the same level, so labels do not overlap and can be used as groups."
_WITHHELD = "- Some records were left out, and not at random: they were those unlike others."
_CLASSES = "- Count and link by `class`. Ranges of other columns overlap, and only the plan tells which class is meant."
_ONE_PART = "- A question about columns of one part: use these columns as they are."
_SEVERAL_PARTS = (
    "- A question about columns of several parts: do not count rows, since each combines several people. In Python, "
    "`shoal.read_sliced` opens this folder, and its `estimate` answers counts and sums bucket by bucket. The error "
    "that it reports assumes random linking within buckets; where parts are associated there, the estimate is biased."
)
_LINKED = (
    "- Software that needs one record per row: `sample_table` links the parts within each bucket at random. Every call "
    "returns another, equally likely table; use several, as with multiple imputation."
)
_MEANS = "- The mean and the total of an averaged column are those of the records, up to rounding."
_MEDIANS = "- Medians of groups keep neither the mean nor the total of a column; the middle of a column is about right."
_SPREAD = (
    "- Variances are too small, and so are the extremes: within a group all records show the same. Associations "
    "between averaged columns look stronger than they are, those with other columns weaker."
)
_MODES = "- Most frequent values of groups make frequent values more frequent, and rare ones vanish."
_VALUES = (
    "- Values are those of records, or changed as told above: count and model them as you would the original ones."
)
_NOISE = (
    "- Noise leaves means right and makes variances too large: take off {variances}. It draws the slope of a "
    "regression on such a column towards 0."
)
_SHARES = "- Use shares, not counts: the number of rows is not that of people."
_PAIRS = "- Cross-tables of kept pairs are right up to the noise; other ones, and three columns at once, are not kept."
_RARE = "- Small shares are mostly noise. A finding that rests on a few rows is none."


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
    examples = tuple(Example(language, lines) for language, lines in examples_of(manifest))
    return Advice((*_items(manifest), *_noise(manifest)), examples)


def _items(manifest: Mapping[str, Any]) -> list[str]:
    left_out = [_WITHHELD] if manifest["withheld"] else []
    form = form_of(manifest)
    if form == "synthetic":
        return [_SHARES, _PAIRS, _RARE]
    if form == "buckets":
        return [_ONE_PART, _SEVERAL_PARTS, _LINKED, *left_out]
    if form == "values":
        return [_VALUES, *left_out]
    if form == "centres":
        kinds = {entry["kind"] for entry in manifest["attributes"].values() if entry["role"] == "quasi"}
        averaged = [_MEDIANS if manifest["method_parameters"].get("numbers") == "median" else _MEANS, _SPREAD]
        return [
            *(averaged if kinds & {"number", "date"} else ()),
            *([_MODES] if kinds - {"number", "date"} else ()),
            _EXACT,
            *left_out,
        ]
    if "agreed" in manifest:
        return [_CLASSES, _LABELS, _EXACT]
    return [_LABELS, _SAME_LEVEL if "levels" in manifest else _OVERLAP, _EXACT, *left_out]


def _noise(manifest: Mapping[str, Any]) -> list[str]:
    """Say by how much noise makes variances too large, where no edge turned it back."""
    variances = []
    for name, entry in manifest.get("techniques", {}).items():
        if entry["technique"] != "noise" or "min" in entry or "max" in entry:
            continue
        square = 2 * entry["laplace"]["scale"] ** 2 if "laplace" in entry else entry["gaussian"]["sd"] ** 2
        variances.append(f"{square:,.6g} for {json.dumps(name, ensure_ascii=False)}")
    return [_NOISE.format(variances=", ".join(variances))] if variances else []
