"""What the terminal says of a release: what was published, what it promises, what was done to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from shoal.cli.console import out
from shoal.cli.publishing import show_end

if TYPE_CHECKING:
    from shoal.release.release import Release


def show(release: Release) -> None:
    """Say in plain words what was published."""
    manifest, evidence = release.manifest, release.evidence
    _tell(_headline(release))
    _show_promises(manifest)
    _show_changes(manifest, evidence)
    for sentence in release.form.summary(evidence):
        _tell(_plain(sentence))
    for name, records in evidence["generalized_sensitive"].items():
        _tell(
            f"{_plain(name)} is suppressed in {records:,} of {manifest['rows']:,} records "
            f"({records / manifest['rows']:.1%}): they publish a more general label."
        )
    _tell_in_users_terms(evidence["utility"])
    show_end(release)


def _headline(release: Release) -> str:
    manifest, risks, groups = release.manifest, release.evidence["risk_after"], release.form.groups
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


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _tell(text: str) -> None:
    out().print(text, soft_wrap=True)
