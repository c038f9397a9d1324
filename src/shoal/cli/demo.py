"""``shoal demo``: the whole story on generated hospital data: draft, audit, anonymize, verify, and what it cost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.console import JsonOption, answer, bars, reporting, say

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
    """What the demo did, step by step."""

    folder: Path
    draft: Draft
    audit: Audit
    release: Release
    verification: Verification

    def as_dict(self) -> dict[str, Any]:
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
    """Generate data into *folder* and go through every command on them."""
    from shoal.release.release import refuse_existing, write_text, writing

    refuse_existing(folder)
    with writing(folder):
        folder.mkdir(parents=True)
    try:
        policy = folder / "policy.yaml"
        with _compile_ahead():
            import yaml

            from shoal.anonymize import anonymize
            from shoal.audit.audit import audit
            from shoal.core.errors import VerificationError
            from shoal.datasets.hospital_files import write_stays
            from shoal.policy.drafting import draft_policy
            from shoal.sources.opening import open_source
            from shoal.verify.verifier import verify

            write_text(policy, yaml.safe_dump(demo_policy(), sort_keys=False, allow_unicode=True, width=110))
            data = write_stays(folder / "stays.csv", rows, seed, progress)
            draft = draft_policy(data, progress=progress)
            write_text(folder / "draft.yaml", draft.text)
            before = audit(data, policy, progress=progress)
        release = anonymize(data, policy, out=folder / "release", seed=seed, progress=progress)
        verification = verify(folder / "release", source=open_source(data), progress=progress)
        if not verification.verified:
            raise VerificationError("; ".join(verification.failures))
        return Story(folder, draft, before, release, verification)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextmanager
def _compile_ahead() -> Iterator[None]:
    """Compile in two processes what a machine has not compiled: another starts with Mondrian, this ends with the rest.

    Either anonymizes a few stays, and takes from disk what the other compiled meanwhile.
    """
    from shoal.core.kernels import is_compiled
    from shoal.methods.mondrian.kernels import rank_cuts

    if is_compiled(rank_cuts) or os.cpu_count() == 1:
        yield
        return
    program = "import shoal.cli.demo; shoal.cli.get_ready(); shoal.cli.demo.anonymize_few()"
    quiet = subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-c", program], stdout=quiet, stderr=quiet):  # noqa: S603 - this program
        yield
        anonymize_few(method="plain", privacy=[])


def anonymize_few(**changes: Any) -> None:
    """Anonymize a few stays by the demo's policy, but for these changes, and keep nothing."""
    from shoal.anonymize import anonymize
    from shoal.datasets.hospital_files import write_stays

    with TemporaryDirectory() as folder:
        few = write_stays(Path(folder, "few.csv"), 500, seed=1)
        anonymize(few, demo_policy() | changes, out=Path(folder, "out"))


def demo_policy() -> dict[str, Any]:
    """Return the policy for the stays with the costs rounded: to the cent, nearly each of them is one patient's."""
    from shoal.datasets.hospital import hospital_policy

    policy = hospital_policy()
    policy["attributes"]["cost"]["technique"] = {"rounding": {"base": 1000}}
    return policy


def show_story(story: Story) -> None:
    """Say in plain words what was protected and what it cost."""
    from shoal.utility.marginals import describe_marginals  # NumPy loads where it is used

    folder, manifest = story.folder, story.release.manifest
    reached = {entry["model"]: entry["achieved"] for entry in manifest["guarantees"]}
    done = sum(check.done for check in story.verification.checks)
    parts = {
        "The data": f"{story.audit.rows:,} generated hospital stays, one row per patient, in {folder}/stays.csv.",
        "The policy": (
            f"shoal init drafted {folder}/draft.yaml, with {story.draft.n_questions} open questions. "
            f"{folder}/policy.yaml answers them and adds taxonomies for occupation and diagnosis: others may know "
            f"{', '.join(story.audit.quasi)}; diagnosis must stay secret; patient is never published; cost is "
            "rounded to thousands."
        ),
        "The danger": _describe_danger(story.audit),
        "The release": (
            f"{manifest['rows']:,} rows in {story.release.evidence['risk_after']['classes']:,} classes, "
            f"{manifest['withheld']:,} withheld. Everybody shares all quasi-identifiers with at least "
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
        "Next": f"Look at {folder}/release/public, the folder to share, and {folder}/release/internal/report.html, "
        "which is for you alone.",
    }
    say(*(f"[bold]{head}.[/] {text}" for head, text in parts.items()))


def _describe_danger(found: Audit) -> str:
    certain, already = found.sensitive[0].certain_records, ""
    if found.minimal_sets:
        worst = found.minimal_sets[0]
        column, make = ("Column", "makes") if len(worst.attributes) == 1 else ("Columns", "make")
        already = f" {column} {' and '.join(worst.attributes)} alone {make} {worst.unique_share:.0%} of them unique."
    return f"{found.headline}{already} The quasi-identifiers reveal the diagnosis of {certain:,} people with certainty."


def _describe_findings(story: Story) -> str:
    """Say what the promises do not cover: what rounding repaired, and what is left for the steward to decide."""
    left = [one for one in story.release.findings if one.open]
    high = sum(one.severity == "high" for one in left)
    said = " ".join(one.text for one in left)
    exact = next((column for column in story.audit.columns if column.column == "cost"), None)
    before = "" if exact is None else f"Unrounded, cost alone would make {exact.unique_records:,} records unique. "
    return (
        f"{before}With rounding, {'no high finding is' if not high else f'{high} high findings are'} open. "
        f"{f'For you to decide: {said}' if left else 'There are no other findings.'}"
    )
