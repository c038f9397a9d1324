"""A release in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from shoal.core.display import register
from shoal.core.wording import counted_text, model_text, parameters_text
from shoal.reports.notebook.page import INTERNAL, folded, heading, output, paragraph, plots, table
from shoal.reports.plots.evidence import release_plots
from shoal.reports.plots.svg import percent
from shoal.utility.base import told

if TYPE_CHECKING:
    from shoal.release.release import Release


@register("release")
def release_html(release: Release) -> str:
    """Return what was published, promised and kept, with its plots; the table itself is not shown."""
    manifest, evidence = release.manifest, release.evidence
    promises = [
        (
            model_text(one),
            parameters_text(one["parameters"]),
            _number(one["achieved"]),
            "holds" if one["ok"] else "fails",
        )
        for one in evidence["verification"]["guarantees"]
    ]
    claims = [(one["model"], parameters_text(one["parameters"])) for one in manifest.get("claims", ())]
    utility = [(name, title, _number(value)) for name, title, value in told(evidence["utility"])]
    findings = [(one.severity, one.id, one.text, one.accepted or "no") for one in release.findings]
    return output(
        heading("Release, verified" if release.verification.verified else "Release, not verified"),
        *map(paragraph, _summary(release)),
        table("Guarantees, as the verifier found them", ("model", "asked for", "achieved", "verdict"), promises),
        table("Claims that no file can show", ("model", "parameters"), claims),
        table("Findings: what no promise covers", ("severity", "finding", "what was found", "accepted"), findings),
        *(paragraph(f"Note: {warning}") for warning in evidence.get("warnings", ())),
        plots(release_plots(evidence)),
        folded("Utility", table("What is left of the information", ("measure", "meaning", "value"), utility)),
        paragraph(INTERNAL, "soft"),
    )


def _summary(release: Release) -> Iterator[str]:
    """Yield what became of the records, in sentences."""
    manifest, source = release.manifest, release.evidence["source"]
    if not release.form.of_people:
        yield f"{counted_text(manifest['rows'], 'row')} drawn from noisy counts of {source['name']}; none is a record."
    else:
        yield (
            f"{manifest['rows']:,} of {counted_text(source['rows'], 'record')} of {source['name']} are published by "
            f"the method {manifest['method']}{_groups(manifest, release.evidence)}; {manifest['withheld']:,} withheld, "
            f"{manifest['missing']['dropped']:,} dropped for missing values."
        )
    kept = release.evidence["utility"].get("um")
    if "buckets" in manifest:
        yield "What belongs together across parts is hidden within buckets."
    elif isinstance(kept, float):
        yield f"{percent(kept)} of the information is kept."
    if not manifest["guarantees"] and not manifest.get("claims"):
        yield "Nothing is promised about people."
    if release.folder is not None:
        yield f"Written to {release.folder}."


def _groups(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    if "buckets" in manifest:
        return f" in {counted_text(manifest['buckets'], 'bucket')}"
    classes = evidence.get("risk_after", {}).get("classes")
    return "" if classes is None else f" in {counted_text(classes, 'class', 'classes')}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.6g}"
