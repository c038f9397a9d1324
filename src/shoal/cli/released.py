"""What the terminal says of a release: what was published, what it promises, what was done to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from shoal.cli.console import out
from shoal.cli.publishing import show_end

if TYPE_CHECKING:
    from shoal.release.release import Release


def show(release: Release) -> None:
    """Say in plain words what was published."""
    from shoal.release.sliced.table import is_sliced

    manifest, evidence = release.manifest, release.evidence
    _tell(_headline(release))
    _show_promises(manifest)
    _show_changes(manifest, evidence)
    if "synthetic" in manifest:
        _tell_distances(manifest, evidence["synthetic"])
    elif is_sliced(manifest):
        _tell_parts(release)
    else:
        _tell(_uniques(manifest, evidence))
    for name, records in evidence["generalized_sensitive"].items():
        _tell(
            f"{_plain(name)} is suppressed in {records:,} of {manifest['rows']:,} records "
            f"({records / manifest['rows']:.1%}): they publish a more general label."
        )
    _tell_in_users_terms(evidence["utility"])
    show_end(release)


def _headline(release: Release) -> str:
    from shoal.release.forms.kinds import form_of

    manifest, risks = release.manifest, release.evidence["risk_after"]
    groups = {"classes": "classes", "centres": "classes", "buckets": "buckets"}.get(form_of(manifest))
    what = f"{manifest['rows']:,} rows" + ("" if groups is None else f" in {risks[groups]:,} {groups}")
    withheld = f", {manifest['withheld']:,} withheld" if manifest["withheld"] else ""
    dropped = f", {manifest['missing']['dropped']:,} dropped" if manifest["missing"]["dropped"] else ""
    return f"[bold]Verified and published[/]: {what}{withheld}{dropped}  ->  {_plain(str(release.data_file))}"


def _show_promises(manifest: Mapping[str, Any]) -> None:
    """Show what was promised and achieved, what is claimed, or that nothing is."""
    from shoal.cli.tables import table_of
    from shoal.core.wording import model_text, parameters_text

    if manifest["guarantees"]:
        table = table_of("guarantee", "asked", "achieved")
        for entry in manifest["guarantees"]:
            table.add_row(model_text(entry), _plain(parameters_text(entry["parameters"])), f"{entry['achieved']:.6g}")
        out().print(table)
    for claim in manifest.get("claims", ()):
        told = f"{claim['model']} ({parameters_text(claim['parameters'])})"
        _tell(f"No row is a person. Claimed is {told}; no file can show that it was kept.")
    if not manifest["guarantees"] and not manifest.get("claims"):
        _tell(
            "[bold red]It promises nothing about people.[/] Verified are the form of the files, and that values are "
            "those of the source or changed as the policy says."
        )


def _show_changes(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> None:
    """Say which records were drawn, and which columns were changed how."""
    if "sample" in evidence:
        drawn = evidence["sample"]
        _tell(f"Drawn at random: {drawn['sampled_rows']:,} of {drawn['source_rows']:,} records.")
    if "techniques" in manifest:
        changed = (f"{_plain(name)} ({entry['technique']})" for name, entry in manifest["techniques"].items())
        _tell(f"Changed: {', '.join(changed)}. These are not the original values.")


def _uniques(manifest: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    """Say how many records, or people, are unique before and after, and what the method keeps of its table."""
    from shoal.release.forms.kinds import form_of

    before, after = evidence["risk_before"]["unique_records"], evidence["risk_after"]["unique_records"]
    whom = "People" if "counts" in evidence["risk_before"] else "Records"
    said = f"{whom} unique by their quasi-identifiers: {before:,} before, {after:,} after."
    if "variation_lost" in evidence["search"]:
        return f"{said} Variation kept: {1 - evidence['search']['variation_lost']:.1%}."
    if form_of(manifest) == "values":
        return said
    return f"{said} Information kept: {manifest['utility']['um']:.1%}."


def _tell_parts(release: Release) -> None:
    """Say which columns stay together, and among how many records the others hide."""
    from shoal.release.sliced.table import published_columns

    risks = release.evidence["risk_after"]
    for number, columns in enumerate(published_columns(release.manifest["parts"]), start=1):
        _tell(f"Part {number}: {_plain(', '.join(columns))}")
    _tell(
        "Within each bucket the parts are shuffled independently of each other. Records per bucket: at least "
        f"{risks['smallest_bucket']:,}, {risks['mean_bucket']:,.1f} on average."
    )
    for name, entry in release.manifest.get("tables", {}).items():
        _tell(f"The {name} values are also in public/{entry['file']}.")


def _tell_distances(manifest: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Say how far synthetic rows are from the records."""
    pairs = [" and ".join(pair) for pair in manifest["synthetic"]["tree"]]
    _tell(f"Pairs kept: {_plain('; '.join(pairs)) if pairs else 'none'}.")
    alone = _mean(found["attributes"].values())
    together = _mean(one["distance"] for one in found["pairs"])
    _tell(
        f"Shares of values are off by {alone:.1%} on average, those of pairs of values by {together:.1%}; these are "
        "figures for you alone."
    )


def _tell_in_users_terms(utility: Mapping[str, Any]) -> None:
    """Say what the release answers, where it was asked."""
    if "query-error" in utility:
        median, most = utility["query-error"], utility["query-error-95"]
        _tell(f"A random count is off by {median:.1%} in the median, by at most {most:.1%} for 95 of 100.")
    kept = []
    if "association-kept" in utility:
        kept.append(f"{utility['association-kept']:.0%} of the association between columns")
    if "accuracy-ratio" in utility:
        kept.append(f"{utility['accuracy-ratio']:.0%} of the accuracy of predictions")
    if kept:
        _tell(f"It keeps {' and '.join(kept)}.")


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _tell(text: str) -> None:
    out().print(text, soft_wrap=True)
