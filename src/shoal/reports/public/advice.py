"""How to analyse a release, with an example that runs in its folder; one kind of release a function."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from shoal.release.forms.kinds import form_of
from shoal.release.sliced.table import published_columns

_RANGES = """
labels = json.loads(Path("manifest.json").read_text(encoding="utf-8"))["attributes"][{name}]["labels"]
edge = {edge}


def surely(cover):  # all of the range is at or above the edge
    return cover.get("from") is not None and cover["from"] >= edge


def possibly(cover):  # some of it is
    return cover.get("any") or ("from" in cover and (cover["below"] is None or cover["below"] > edge))


counts = data[{name}].value_counts()
least = sum(count for label, count in counts.items() if surely(labels[label]))
most = sum(count for label, count in counts.items() if possibly(labels[label]))
print("from", edge, "on: at least", least, "and at most", most, "records")
"""
_SETS = """
labels = json.loads(Path("manifest.json").read_text(encoding="utf-8"))["attributes"][{name}]["labels"]
value = {value}
counts = data[{name}].value_counts()
fits = [label for label, cover in labels.items() if cover.get("any") or value in cover.get("values", [])]
alone = [label for label in fits if labels[label].get("values") == [value]]
print("at least", counts.reindex(alone).sum(), "and at most", counts.reindex(fits).sum(), "records have", value)
"""
_LINKED_ROWS = """
first = data[{first}] == data[{first}].mode()[0]  # a condition on one part
second = data[{second}] == data[{second}].mode()[0]  # and one on another
bucket = data["bucket"]
expected = first.groupby(bucket).sum() * second.groupby(bucket).sum() / bucket.groupby(bucket).size()
print("about", round(expected.sum()), "records meet both")
"""
_IMPORTS = "import pandas as pd\n\n"
_LABEL_IMPORTS = "import json\nfrom pathlib import Path\n\nimport pandas as pd\n\n"
_EXACT = "- Columns that hold original values can be counted as they stand, for the records that were published."
_LABELS = (
    "- A label stands for a range or a set of values. Count records by label, or bound a count: at least those whose "
    "label lies wholly within what you ask for, at most those whose label overlaps with it. For one figure in between, "
    "spread the records of a label evenly over it."
)
_OVERLAP = (
    "- Labels of one column may overlap: `[20, 39]` and `[20, 59]` are not separate groups. To compare groups, combine "
    "labels until they do not overlap."
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


def examples_of(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (language, lines) of examples that suit a release."""
    form = form_of(manifest)
    if form == "buckets":
        first, second = (_quoted(part[0]) for part in published_columns(manifest["parts"])[:2])
        return [("Python", _IMPORTS + _read(manifest, texts=False) + _LINKED_ROWS.format(first=first, second=second))]
    if form == "classes" and "agreed" not in manifest:
        return _of_labels(manifest)
    return [("Python", _IMPORTS + _read(manifest, texts=False) + _counted(manifest, form))]


def _of_labels(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    labelled = {name: entry for name, entry in manifest["attributes"].items() if "labels" in entry}
    ranged = [name for name, entry in labelled.items() if any("below" in one for one in entry["labels"].values())]
    name = next(iter(ranged or labelled), None)
    if name is None:
        return []
    covers = labelled[name]["labels"].values()
    starts = [cover["from"] for cover in covers if "below" in cover and cover["from"] is not None]
    if starts:
        lines = _RANGES.format(name=_quoted(name), edge=_quoted(median_low(starts)))
    else:
        named = [value for cover in covers for value in cover.get("values", ())]
        lines = _SETS.format(name=_quoted(name), value=_quoted(named[0] if named else ""))
    found = [("Python", _LABEL_IMPORTS + _read(manifest, texts=True) + lines)]
    return [*found, ("R", _in_r(manifest, name))] if _file(manifest).endswith(".csv") else found


def _counted(manifest: Mapping[str, Any], form: str) -> str:
    """Return the lines of a count or an average, as suits the release."""
    by_role: dict[str, list[str]] = {"quasi": [], "sensitive": [], "insensitive": []}
    for name, entry in manifest["attributes"].items():
        by_role[entry["role"]].append(name)
    quasi, secret = by_role["quasi"], by_role["sensitive"]
    if "agreed" in manifest:
        return f'print(data.groupby("class")[{_quoted(secret[0])}].value_counts().head(20))\n'
    if form == "synthetic":
        pairs = manifest["synthetic"]["tree"]
        if pairs:
            first, second = pairs[0]
            return f'print(pd.crosstab(data[{_quoted(first)}], data[{_quoted(second)}], normalize="index").round(2))\n'
        return f"print(data[{_quoted(next(iter(manifest['attributes'])))}].value_counts(normalize=True).round(2))\n"
    numbers = [name for name in quasi if manifest["attributes"][name]["kind"] == "number"]
    if form == "centres" and numbers:
        grouped = f".groupby(data[{_quoted(secret[0])}])" if secret else ""
        return f"print(data[{_quoted(numbers[0])}]{grouped}.mean())\n"
    return f"print(data[{_quoted(next(iter(quasi or secret or by_role['insensitive'])))}].value_counts())\n"


def _read(manifest: Mapping[str, Any], *, texts: bool) -> str:
    file = _file(manifest)
    if file.endswith(".parquet"):
        return f'data = pd.read_parquet("{file}")\n'
    options = ", dtype=str, keep_default_na=False" if texts else ""
    return f'data = pd.read_csv("{file}"{options})\n'


def _in_r(manifest: Mapping[str, Any], name: str) -> str:
    return (
        f'data <- read.csv("{_file(manifest)}", colClasses = "character", check.names = FALSE)\n'
        f"sort(table(data[[{_quoted(name)}]]), decreasing = TRUE)\n"
    )


def _file(manifest: Mapping[str, Any]) -> str:
    return str(manifest["data"]["file"]) if "data" in manifest else "data.csv"


def _quoted(value: object) -> str:
    """Return a number or a text as Python and R write it."""
    return json.dumps(value, ensure_ascii=False)
