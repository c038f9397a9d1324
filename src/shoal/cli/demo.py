"""``shoal demo``: draft a policy, audit, anonymize and verify generated hospital data, and explain each step."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.console import JsonOption, answer, bars, reporting, say
from shoal.core.wording import count_noun, join_words, percent

if TYPE_CHECKING:
    from shoal.audit.result import Audit
    from shoal.core.progress import Progress
    from shoal.policy.drafting import Draft
    from shoal.release.release import Release
    from shoal.verify.result import Verification


def demo(
    folder: Annotated[
        Path | None, typer.Option("--out", "-o", help="New folder for the data, the policy and the release.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Number of hospital stays to generate.", min=100)] = 20_000,
    seed: Annotated[int | None, typer.Option(help="Make the run repeatable.", min=0)] = None,
    json_output: JsonOption = False,
) -> None:
    """Generate hospital stays, draft a policy, audit, anonymize and verify them, and explain each step."""
    with reporting(json_output):
        with bars() as progress:
            story = run_demo(folder or Path("shoal-demo"), rows, seed, progress)
        if json_output:
            answer(story.as_dict())
        else:
            show_story(story)


@dataclass(frozen=True, slots=True)
class Story:
    """The results of each step of the demo."""

    folder: Path
    draft: Draft
    audit: Audit
    release: Release
    verification: Verification

    def as_dict(self) -> dict[str, object]:
        """Return the steps for ``--json``."""
        return {
            "folder": str(self.folder),
            "draft": self.draft.as_dict(),
            "audit": self.audit.as_dict(),
            "release": {key: value for key, value in self.release.manifest.items() if key != "attributes"},
            "verification": self.verification.as_dict(),
            "findings": [finding.as_dict() for finding in self.release.findings],
        }


def run_demo(folder: Path, rows: int, seed: int | None, progress: Progress) -> Story:
    """Generate data in *folder* and run every command on them."""
    import yaml

    from shoal.anonymize import anonymize
    from shoal.audit.audit import audit
    from shoal.core.errors import VerificationError
    from shoal.datasets.hospital_files import write_stays
    from shoal.policy.drafting import draft_policy
    from shoal.release.release import refuse_existing, write_text, writing
    from shoal.reports.verifying import verify
    from shoal.sources.opening import open_source

    refuse_existing(folder)
    with writing(folder):
        folder.mkdir(parents=True)
    try:
        policy = folder / "policy.yaml"
        write_text(policy, yaml.safe_dump(demo_policy(), sort_keys=False, allow_unicode=True, width=110))
        data = write_stays(folder / "stays.csv", rows, seed, progress)
        draft = draft_policy(data, progress=progress)
        write_text(folder / "draft.yaml", draft.text)
        before = audit(data, policy, progress=progress)
        release = anonymize(data, policy, out=folder / "release", seed=seed, progress=progress)
        verification = verify(folder / "release", source=open_source(data), progress=progress)
        if not verification.verified:
            raise VerificationError("; ".join(verification.objections))
        return Story(folder, draft, before, release, verification)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def demo_policy() -> dict[str, Any]:
    """Return the policy for the stays with rounded costs: nearly every exact cost is unique."""
    from shoal.datasets.hospital import hospital_policy

    policy = hospital_policy()
    policy["attributes"]["cost"]["technique"] = {"rounding": {"base": 1000}}
    reason = "rounded costs are not known outside the hospital"
    policy["accept"] = [{"finding": "isolating-columns", "about": ["cost"], "reason": reason}]
    return policy


def show_story(story: Story) -> None:
    """Explain the steps and their results."""
    from shoal.utility.marginals import describe_marginals  # imports NumPy

    folder, manifest, decision = story.folder, story.release.manifest, story.release.decision
    reached = {entry["model"]: entry["achieved"] for entry in manifest["guarantees"]}
    done = sum(check.done for check in story.verification.checks)
    parts = {
        "The data": f"{story.audit.rows:,} generated hospital stays, one row per patient, in {folder}/stays.csv.",
        "The policy": (
            f"shoal init drafted {folder}/draft.yaml, with {count_noun(story.draft.n_questions, 'open question')}. "
            f"{folder}/policy.yaml answers them and adds taxonomies for occupation and diagnosis: others may know "
            f"{', '.join(story.audit.quasi)}; diagnosis must stay secret; patient is never published; cost is "
            "rounded to thousands."
        ),
        "The danger": _describe_danger(story.audit),
        "The release": (
            f"{manifest['rows']:,} rows in {story.release.evidence['risk_after']['classes']:,} classes, "
            f"{manifest['withheld']:,} withheld. Each record shares all quasi-identifiers with at least "
            f"{reached['k-anonymity'] - 1:.0f} others, and within each class the diagnosis is as uncertain as among "
            f"{reached['entropy-l-diversity']:.1f} equally likely ones."
        ),
        "The proof": (
            f"shoal verify compared the written file with the source: {len(story.verification.guarantees)} "
            f"guarantees and {done} other checks hold, and every published row matches a different source row."
        ),
        "The cost": (
            f"{' '.join(describe_marginals(story.release.evidence['marginals']))} Diagnosis is published unchanged. "
            f"The run took {sum(story.release.evidence['seconds'].values()):.1f} seconds."
        ),
        "The findings": _describe_findings(story),
        "The decision": f"{decision.verdict.capitalize()}. {decision.headline}",
        "Next": f"Look at {folder}/release/public, the folder to share, and {folder}/release/internal/report.html, "
        "which is for you alone.",
    }
    say(*(f"[bold]{head}.[/] {text}" for head, text in parts.items()))


def _describe_danger(found: Audit) -> str:
    certain, already = found.sensitive[0].certain_records, ""
    if found.minimal_sets:
        worst = found.minimal_sets[0]
        column, make = ("Column", "makes") if len(worst.attributes) == 1 else ("Columns", "make")
        already = f" {column} {join_words(worst.attributes)} alone {make} {percent(worst.unique_share)} of them unique."
    return f"{found.headline}{already} The quasi-identifiers reveal the diagnosis of {certain:,} people with certainty."


def _describe_findings(story: Story) -> str:
    """Describe the risk that rounding removed, the open findings, and the first accepted one."""
    findings = story.release.findings
    accepted = [f"{one.text} The policy accepts this: {one.accepted}." for one in findings if not one.open]
    exact = next((column for column in story.audit.columns if column.column == "cost"), None)
    before = "" if exact is None else f"Unrounded, cost alone would make {exact.unique_records:,} records unique. "
    return before + " ".join([*(one.text for one in findings if one.open), *accepted[:1]])
