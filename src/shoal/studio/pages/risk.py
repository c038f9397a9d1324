"""Risk: the disclosure risk of the original table, and findings to decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.responses import Response

from shoal.core.errors import UsageError
from shoal.policy.policy import FINDINGS
from shoal.studio.answers import Content, Place, Visit, page, require_policy
from shoal.studio.pages.run import describe_jobs, refuse_problems

_HERE = "/risk"
_KIND = "audit"
_MOST_SETS = 10
_LONGEST = 500  # characters of a reason
# By the id of a finding: the page and the action that can fix it.
_PLACES = {
    "isolating-columns": ("columns", "Change the role, or add a technique"),
    "unprotected-sensitive": ("guarantees", "Add a guarantee"),
    "one-value-classes": ("guarantees", "Add a guarantee"),
    "repeated-people": ("import", "Choose the column that identifies people"),
    "no-promise": ("guarantees", "Add a guarantee"),
}


def show(visit: Visit) -> Response:
    """Show the newest audit, and whether the policy has changed since."""
    project = visit.project
    jobs = project.jobs_of(_KIND)
    done = next((job for job in jobs if job.state == "done"), None)
    found: Mapping[str, Any] = {} if done is None else done.answer
    return visit.render(
        "risk.html",
        **describe_jobs(jobs),
        done=done,
        found=found,
        stale=done is not None and done.revision != project.revision,
        sets=[one for one in found.get("sets", ()) if len(one["attributes"]) > 1][:_MOST_SETS],
        alone=[one for one in found.get("sets", ()) if len(one["attributes"]) == 1],
        decisions=describe_findings(found.get("findings", ()), project.document),
        fraction="" if done is None else done.memory.get("fraction", ""),
    )


def start(visit: Visit) -> Response:
    project = visit.project
    refuse_problems(project)
    arguments: list[str | Path] = ["audit", project.source, "-p", project.write_policy()]
    fraction = visit.form.get("fraction").strip()
    if fraction:
        arguments += ["--sample-fraction", fraction]
    visit.studio.jobs.start(project, _KIND, arguments, fraction=fraction)
    return visit.to(visit.at(_HERE))


def describe_findings(findings: Any, document: Mapping[str, Any]) -> list[Content]:
    """Return findings with the policy's decision and the page where each can be fixed."""
    accepted = [entry for entry in document.get("accept") or () if isinstance(entry, Mapping)]
    found = []
    for one in findings:
        mine = (entry for entry in accepted if _is_about(entry, one["id"], one["about"]))
        now = next((str(entry.get("reason")) for entry in mine), "")
        place = _PLACES.get(one["id"], ("policy", "Check the policy"))
        found.append({**one, "accepted_now": now, "why": now or one["accepted"], "place": place})
    return found


def _is_about(entry: Mapping[str, Any], finding: str, about: Sequence[str]) -> bool:
    return entry.get("finding") == finding and set(about) <= set(entry.get("about") or ())


def accept(visit: Visit) -> Response:
    """Accept a finding with a reason, or withdraw that; the policy records it."""
    form, document = visit.form, visit.project.document
    finding, about, reason = form.get("finding"), form.getlist("about"), " ".join(form.get("reason").split())
    if finding not in FINDINGS:
        raise UsageError("choose one of the findings")
    if len(reason) > _LONGEST:
        raise UsageError(f"a reason has at most {_LONGEST} characters")
    left = [entry for entry in document.get("accept") or () if not _is_about(entry, finding, about)]
    if "withdraw" not in form:
        if not reason:
            raise UsageError("enter a reason for accepting the finding; the report for the review board shows it")
        left.append({"finding": finding, **({"about": about} if about else {}), "reason": reason})
    document.pop("accept", None)
    visit.project.change(form.revision, {**document, "accept": left} if left else document)
    back = form.get("back")
    return visit.to(visit.at(f"/{back}" if back.startswith("release/") and back[8:].isalnum() else _HERE))


place = Place("Risk", _HERE, 35, require_policy)
_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(_PATH, start, "POST"),
    page(f"{_PATH}/accept", accept, "POST"),
]
