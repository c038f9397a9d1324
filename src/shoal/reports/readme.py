"""The page that travels with the data: what the columns are and what their values mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.release.forms.kinds import form_of
from shoal.release.sliced.table import is_sliced
from shoal.reports.agreed_readme import CLASS_ROW, agreed_promises, classes
from shoal.reports.changes import changes, sample_told
from shoal.reports.columns import kind_of, meaning, published_as
from shoal.reports.promises import of_changed_values, promises
from shoal.reports.public.advice import advice
from shoal.reports.sliced_readme import sliced_promises, slices
from shoal.reports.synthetic_readme import drawn, kept
from shoal.reports.text import code_cell, words

_MOST_LABELS = 40
_RECORDS = "Each row is one record of the original table"
_ORDER = "Rows are in random order."


def public_readme(manifest: Mapping[str, Any]) -> str:
    """Return the README of a release; it tells only what the manifest tells."""
    sliced, agreed, synthetic = is_sliced(manifest), "agreed" in manifest, "synthetic" in manifest
    lines = [
        "# About these data",
        "",
        origin_told(manifest),
        "",
        *(slices(manifest) if sliced else ()),
        *(classes(manifest) if agreed else ()),
        *(kept(manifest) if synthetic else ()),
        *changes(manifest),
        "## What is promised",
        "",
        *(sliced_promises(manifest) if sliced else agreed_promises(manifest) if agreed else promises(manifest)),
        *of_changed_values(manifest),
        "",
        f"`manifest.json` states this for machines; `shoal verify` checks {_checked(manifest)}.",
        "",
        *_analysis(manifest),
        *_losses(manifest),
        "## Columns",
        "",
        "| column | role | kind | values |",
        "|---|---|---|---|",
        *(["| bucket | bucket | number | rows with the same number share a bucket |"] if sliced else ()),
        *([CLASS_ROW] if agreed else ()),
        *(_row(name, manifest) for name in manifest["attributes"]),
        "",
        missing_told(manifest),
    ]
    for name, entry in manifest["attributes"].items():
        if "labels" in entry:
            lines += ["", f"### {words(name)}", "", *_defended(entry), *_labels(entry)]
    return "\n".join(lines) + "\n"


def _checked(manifest: Mapping[str, Any]) -> str:
    if "people" in manifest:
        return "it with the original table, by which the data holder did: the data file does not say who is who"
    return "what files can show" if manifest.get("claims") else "it against the data file"


def origin_told(manifest: Mapping[str, Any]) -> str:
    """Say what the rows are, and how they were made."""
    if "synthetic" in manifest:
        return drawn(manifest)
    made = f"published with shoal {manifest['shoal_version']} (method `{manifest['method']}`)"
    head = f"{manifest['rows']:,} records, {made}."
    rows = _buckets(manifest) if is_sliced(manifest) else f"{_rows(manifest)} {_ORDER}"
    withheld = f"{manifest['withheld']:,} more records were withheld." if manifest["withheld"] else ""
    return " ".join(part for part in (head, sample_told(manifest), rows, withheld) if part)


def _analysis(manifest: Mapping[str, Any]) -> list[str]:
    found = advice(manifest)
    lines = ["## How to analyse these data", "", *found.items, ""]
    for example in found.examples:
        told = f"An example in {example.language}, to be run in the folder of the data:"
        lines += [told, "", f"```{example.language.lower()}", *example.lines.rstrip().splitlines(), "```", ""]
    return lines


def _losses(manifest: Mapping[str, Any]) -> list[str]:
    losses = manifest["utility"].get("attribute-loss")
    if not losses:
        return []
    told = "The share of its domain that a published value spans, on average: 0% is unchanged, 100% says nothing."
    rows = (f"| {words(name)} | {loss:.1%} |" for name, loss in losses.items())
    return ["## Information lost", "", told, "", "| column | lost |", "|---|---|", *rows, ""]


def _rows(manifest: Mapping[str, Any]) -> str:
    """Say what a row is, and how far its values are those of a record."""
    form = form_of(manifest)
    if form == "values":
        return f"{_RECORDS}."
    if form == "centres":
        return (
            f"{_RECORDS}, but its quasi columns hold averages: records were put into groups of similar ones, and all "
            "records of a group show the same."
        )
    attributes = manifest["attributes"]
    changed = any(attributes[name]["role"] == "quasi" for name in manifest.get("techniques", {}))
    contained = "original value, or the changed one where values were changed" if changed else "original value"
    return f"{_RECORDS}. Values of the generalized columns stand for a range or a set that contains the {contained}."


def _buckets(manifest: Mapping[str, Any]) -> str:
    return (
        f"They are in {manifest['buckets']:,} buckets, and their columns in {len(manifest['parts'])} parts. **Values "
        "in one row that are in different parts need not belong to the same person.**"
    )


def missing_told(manifest: Mapping[str, Any]) -> str:
    """Say how a missing value is published."""
    if "agreed" in manifest:
        return "No value is missing."
    if manifest["missing"]["policy"] == "drop":
        where = "generalized" if form_of(manifest) == "classes" else "quasi"
        return f"Records with a missing value in a {where} or sensitive column were left out."
    if "synthetic" in manifest:
        return "A missing value is published as `missing`."
    quasi = [entry for entry in manifest["attributes"].values() if entry["role"] == "quasi"]
    if not any("labels" in entry for entry in quasi):
        return "A missing value is published as empty."
    where = "generalized" if is_sliced(manifest) else "quasi"
    return f"A missing value is published as `missing` in {where} columns and as empty elsewhere."


def _row(name: str, manifest: Mapping[str, Any]) -> str:
    entry = manifest["attributes"][name]
    description = f"{words(entry['description'])}; " if "description" in entry else ""
    return f"| {words(name)} | {entry['role']} | {kind_of(entry)} | {description}{published_as(name, manifest)} |"


def _defended(entry: Mapping[str, Any]) -> list[str]:
    """Say what a label of sensitive values tells of a person."""
    if entry["role"] != "sensitive":
        return []
    if "defended" not in entry:
        return [
            "Who knows how labels were chosen may guess the value under one: they were chosen for frequent values.",
            "",
        ]
    told = (
        "Within a class, no value makes up more of the records under one label than the larger of tau and its share in "
        "the whole table. Nobody who knows that share can be kept below it."
    )
    return [told, ""]


def _labels(entry: Mapping[str, Any]) -> list[str]:
    shown = list(entry["labels"].items())[:_MOST_LABELS]
    lines = ["| published | stands for |", "|---|---|"]
    lines += [f"| {code_cell(label)} | {words(meaning(cover))} |" for label, cover in shown]
    if len(shown) < len(entry["labels"]):
        lines += ["", f"... and {len(entry['labels']) - len(shown)} more, all listed in `manifest.json`."]
    return lines
