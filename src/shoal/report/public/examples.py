"""Examples of code for users of a release: they name its own columns and run in its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from statistics import median_low
from typing import Any

from shoal.forms import form_of
from shoal.sliced.table import published_columns

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
_LINKED = """
first = data[{first}] == data[{first}].mode()[0]  # a condition on one part
second = data[{second}] == data[{second}].mode()[0]  # and one on another
bucket = data["bucket"]
expected = first.groupby(bucket).sum() * second.groupby(bucket).sum() / bucket.groupby(bucket).size()
print("about", round(expected.sum()), "records meet both")
"""
_IMPORTS = "import pandas as pd\n\n"
_LABEL_IMPORTS = "import json\nfrom pathlib import Path\n\nimport pandas as pd\n\n"


def examples_of(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (language, lines) of examples that suit a release."""
    form = form_of(manifest)
    if form == "buckets":
        first, second = (_quoted(part[0]) for part in published_columns(manifest["parts"])[:2])
        return [("Python", _IMPORTS + _read(manifest, texts=False) + _LINKED.format(first=first, second=second))]
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
