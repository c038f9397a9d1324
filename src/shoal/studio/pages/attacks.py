"""Attacks: the remaining disclosure risk of a release, measured with the holder's own table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.responses import Response

from shoal.attacks.base import FEWEST, Attack
from shoal.core.errors import UsageError
from shoal.core.registry import discover
from shoal.reports.plots import attack_risks
from shoal.studio.answers import Place, Visit, page
from shoal.studio.jobs import Job
from shoal.studio.pages.run import decision_of, describe_jobs, find_solution, folder_of, require_release, show_solution

_HERE = "/attacks"
_KIND = "attack"


def show(visit: Visit) -> Response:
    return show_solution(visit, "attacks.html", "Attacks", _describe)


def _describe(run: Job) -> Mapping[str, Any]:
    """Return the result of each attack, greatest risk first."""
    known = discover("shoal.attacks", Attack)
    jobs = run.project.jobs_of(_KIND, run=run.id)
    done = next((job for job in jobs if job.state == "done"), None)
    found = {} if done is None else done.answer
    tried = sorted(found.get("attacks", ()), key=lambda one: -one["risk"]["value"])
    return {
        "attacks": list(known.values()),
        "titles": {name: kind.title for name, kind in known.items()},
        "attached": run.project.list_attached(),
        **describe_jobs(jobs),
        "decision": decision_of(run),
        "done": done,
        "tried": tried,
        "refused": found.get("refused", []),
        "plot": attack_risks(tried, "Risk by attack") if tried else None,
    }


def start(visit: Visit) -> Response:
    """Attack a release; the results are recorded with it and in its internal report."""
    project, run = visit.project, find_solution(visit)
    chosen = [name for name in visit.form.getlist("attack") if name in discover("shoal.attacks", Attack)]
    targets = visit.form.get("targets").strip()
    if not (targets.isascii() and targets.isdigit() and FEWEST <= int(targets) <= 1_000_000):
        raise UsageError(f"the number of people must be at least {FEWEST}")
    arguments: list[str | Path] = [
        "attack",
        folder_of(run),
        "--source",
        project.source,
        "-p",
        run.memory["policy file"],
    ]
    for name in chosen:
        arguments += ["--attack", name]
    control = visit.form.get("control")
    if control:
        if control not in project.list_attached():
            raise UsageError("choose an attached control table")
        arguments += ["--control", project.files / control]
    visit.studio.jobs.start(project, _KIND, [*arguments, "--targets", targets, "--record"], run=run.id)
    return visit.to(visit.at(f"{_HERE}/{run.id}"))


place = Place("Attacks", _HERE, 70, require_release)
_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(f"{_PATH}/{{run}}", show),
    page(f"{_PATH}/{{run}}", start, "POST"),
]
