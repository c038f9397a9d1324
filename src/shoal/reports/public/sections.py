"""The sections of the page for users of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.core.wording import counted_text
from shoal.release.sliced.table import is_sliced, published_columns
from shoal.reports.agreed_readme import agreed_promises, classes
from shoal.reports.changes import change_told
from shoal.reports.columns import kind_of, meaning, published_as
from shoal.reports.frame import Section
from shoal.reports.html import block, code, details, figure, marked, paragraph, sentences, table
from shoal.reports.plots.attribute_loss import attribute_loss
from shoal.reports.promises import of_changed_values, promises
from shoal.reports.public.advice import advice
from shoal.reports.readme import missing_told, origin_told
from shoal.reports.sliced_readme import parts_told, sliced_promises
from shoal.reports.synthetic_readme import kept

_MOST_LABELS = 200
_LOST = (
    "The share of its domain that a published value spans, on average over all records: 0% if values are as they were, "
    "100% if they say nothing. Withheld records count as lost."
)
_NOTHING_COMPARED = "Not told: rows were drawn from noisy counts, and are compared with no record."


def public_sections(manifest: Mapping[str, Any]) -> list[Section]:
    """Return all sections that this release has."""
    sections = [
        Section.of("about", "What this is", sentences([origin_told(manifest), "", missing_told(manifest)])),
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


def _form(manifest: Mapping[str, Any]) -> Section | None:
    """Say what stays together in a row, where that is not everything."""
    if is_sliced(manifest):
        columns = published_columns(manifest["parts"])
        rows = ((str(place), ", ".join(names)) for place, names in enumerate(columns, start=1))
        parts = table("Columns that stay together", ("part", "columns"), rows)
        return Section.of("parts", "Parts and buckets", parts, sentences(parts_told(manifest)))
    if "agreed" in manifest:
        return Section.of("classes", "Classes", sentences(classes(manifest)[1:]))
    if "synthetic" in manifest:
        return Section.of("kept", "What is kept", sentences(kept(manifest)[1:]))
    return None


def _changes(manifest: Mapping[str, Any]) -> Section | None:
    rows = [(name, marked(change_told(entry))) for name, entry in manifest.get("techniques", {}).items()]
    if not rows:
        return None
    told = "These columns do not hold the values of the original table"
    return Section.of("changes", "What was changed", table(told, ("column", "what was done"), rows))


def _promises(manifest: Mapping[str, Any]) -> Section:
    if is_sliced(manifest):
        lines = sliced_promises(manifest)
    else:
        lines = agreed_promises(manifest) if "agreed" in manifest else promises(manifest)
    return Section.of("promises", "What is promised", sentences([*lines, *of_changed_values(manifest)]))


def _columns(manifest: Mapping[str, Any]) -> Section:
    rows = []
    if is_sliced(manifest):
        rows.append(("bucket", "bucket", "number", "rows with the same number share a bucket"))
    if "agreed" in manifest:
        rows.append(("class", "class", "number", "the number of the record's class in plan.json"))
    for name, entry in manifest["attributes"].items():
        description = f"{entry['description']}; " if "description" in entry else ""
        rows.append((name, entry["role"], kind_of(entry), f"{description}{published_as(name, manifest)}"))
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
