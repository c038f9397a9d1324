"""The page that travels with the data: what the columns are and what their values mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.core.wording import code_cell, words
from shoal.release.forms.base import Form, Section, read_form
from shoal.reports.changes import changes, sample_told
from shoal.reports.columns import kind_of, meaning
from shoal.reports.promises import of_changed_values
from shoal.reports.public.advice import advice

_MOST_LABELS = 40


def public_readme(manifest: Mapping[str, Any]) -> str:
    """Return the README of a release; it tells only what the manifest tells."""
    form = read_form(manifest)
    lines = [
        "# About these data",
        "",
        origin_told(manifest),
        "",
        *_own_section(form.own_section()),
        *changes(manifest),
        "## What is promised",
        "",
        *form.promises(),
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
        *(f"| {own.name} | {own.role} | {own.kind} | {own.meaning} |" for own in form.own_columns()),
        *(_row(name, form) for name in manifest["attributes"]),
        "",
        form.describe_missing(),
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
    form = read_form(manifest)
    withheld = f"{manifest['withheld']:,} more records were withheld." if manifest["withheld"] else ""
    parts = (form.headline(), sample_told(manifest), form.describe_rows(), withheld)
    return " ".join(part for part in parts if part)


def _own_section(own: Section | None) -> list[str]:
    """Return what only this form has to explain; where columns are in parts, the table of these is its heading."""
    if own is None:
        return []
    heading = [f"## {own.title}", ""]
    if own.parts:
        rows = (f"| {number} | {words(', '.join(names))} |" for number, names in enumerate(own.parts, start=1))
        heading = ["| part | columns |", "|---|---|", *rows, ""]
    return [*heading, *own.lines, ""]


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


def _row(name: str, form: Form) -> str:
    entry = form.manifest["attributes"][name]
    description = f"{words(entry['description'])}; " if "description" in entry else ""
    return f"| {words(name)} | {entry['role']} | {kind_of(entry)} | {description}{form.published_as(name)} |"


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
