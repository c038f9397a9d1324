"""The sections of the page for users of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.core.wording import counted_text
from shoal.release.forms.base import read_form
from shoal.reports.changes import change_told
from shoal.reports.columns import kind_of, meaning
from shoal.reports.frame import Section
from shoal.reports.html import block, code, details, figure, marked, paragraph, sentences, table
from shoal.reports.plots.attribute_loss import attribute_loss
from shoal.reports.promises import of_changed_values
from shoal.reports.public.advice import advice
from shoal.reports.readme import origin_told

_MOST_LABELS = 200
_LOST = (
    "The share of its domain that a published value spans, on average over all records: 0% if values are as they were, "
    "100% if they say nothing. Withheld records count as lost."
)
_NOTHING_COMPARED = "Not told: rows were drawn from noisy counts, and are compared with no record."


def public_sections(manifest: Mapping[str, Any]) -> list[Section]:
    """Return all sections that this release has."""
    sections = [
        Section.of(
            "about", "What this is", sentences([origin_told(manifest), "", read_form(manifest).describe_missing()])
        ),
        _form(manifest),
        _changes(manifest),
        _promises(manifest),
        _columns(manifest),
        _values(manifest),
        _losses(manifest),
        _analysis(manifest),
        _checking(manifest),
    ]
    return [section for section in sections if section is not None]


def _about(manifest: Mapping[str, Any]) -> Section:
    lines = [origin_told(manifest), "", read_form(manifest).describe_missing()]
    return Section.of("about", "What this is", sentences(lines))


def _form(manifest: Mapping[str, Any]) -> Section | None:
    """Say what stays together in a row, where that is not everything."""
    own = read_form(manifest).own_section()
    if own is None:
        return None
    rows = ((str(place), ", ".join(names)) for place, names in enumerate(own.parts, start=1))
    parts = table("Columns that stay together", ("part", "columns"), rows) if own.parts else ""
    return Section.of(own.id, own.title, parts, sentences(own.lines))


def _changes(manifest: Mapping[str, Any]) -> Section | None:
    rows = [(name, marked(change_told(entry))) for name, entry in manifest.get("techniques", {}).items()]
    if not rows:
        return None
    told = "These columns do not hold the values of the original table"
    return Section.of("changes", "What was changed", table(told, ("column", "what was done"), rows))


def _promises(manifest: Mapping[str, Any]) -> Section:
    lines = read_form(manifest).promises()
    return Section.of("promises", "What is promised", sentences([*lines, *of_changed_values(manifest)]))


def _columns(manifest: Mapping[str, Any]) -> Section:
    form = read_form(manifest)
    rows = [(own.name, own.role, own.kind, own.meaning.replace("`", "")) for own in form.own_columns()]
    for name, entry in manifest["attributes"].items():
        description = f"{entry['description']}; " if "description" in entry else ""
        rows.append((name, entry["role"], kind_of(entry), f"{description}{form.published_as(name)}"))
    dictionary = table("Data dictionary", ("column", "role", "kind", "values"), rows)
    roles = (
        "Quasi columns are those by which people could be recognised; sensitive ones hold what is nobody's business; "
        "insensitive ones are neither."
    )
    return Section.of("columns", "Columns", dictionary, paragraph(roles))


def _values(manifest: Mapping[str, Any]) -> Section | None:
    parts = []
    for name, entry in manifest["attributes"].items():
        labels = entry.get("labels")
        if labels is None:
            continue
        rows = [(label, meaning(cover)) for label, cover in list(labels.items())[:_MOST_LABELS]]
        rest = len(labels) - len(rows)
        parts.append(
            details(
                f"{name}: {counted_text(len(labels), 'label')}",
                table(f"Labels of {name}", ("published", "stands for"), rows),
                paragraph(f"... and {rest:,} more, all listed in ", code("manifest.json"), ".") if rest else "",
            )
        )
    return Section.of("values", "What labels stand for", parts) if parts else None


def _losses(manifest: Mapping[str, Any]) -> Section:
    losses = manifest["utility"].get("attribute-loss")
    told = [paragraph(_NOTHING_COMPARED)] if not losses else [figure(attribute_loss(losses)), paragraph(_LOST)]
    return Section.of("loss", "Information lost", told)


def _analysis(manifest: Mapping[str, Any]) -> Section:
    found = advice(manifest)
    code_blocks = []
    for example in found.examples:
        title = f"An example in {example.language}"
        code_blocks += [paragraph(f"{title}, to be run in the folder of the data:"), block(example.lines, title)]
    return Section.of("analysis", "How to analyse these data", sentences(found.items), code_blocks)


def _checking(manifest: Mapping[str, Any]) -> Section:
    checked = "what files can show" if manifest.get("claims") else "all of this against the data file"
    lines = [f"`manifest.json` states this for machines; `shoal verify` on this folder checks {checked}."]
    if "data" in manifest:
        file, digest = manifest["data"]["file"], manifest["data"]["sha256"]
        lines += ["", f"To cite these data, name who published them and when, and the SHA-256 of `{file}`: `{digest}`."]
    return Section.of("checking", "How to verify and cite", sentences(lines))
