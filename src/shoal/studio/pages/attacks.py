"""Attacks: what somebody could still find out from a release, tried on the holder's own table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.responses import Response

from shoal.attacks.base import FEWEST, Attack
from shoal.core.errors import UsageError
from shoal.core.registry import discover
from shoal.core.wording import attack_text
from shoal.reports.plots import attack_risks
from shoal.studio.answers import Place, Visit, page
from shoal.studio.solutions import (
    demand_solution,
    describe_jobs,
    find_shown,
    folder_of,
    list_solutions,
    name_of,
    require_release,
)

_HERE = "/attacks"
_KIND = "attack"

place = Place("Attacks", _HERE, 70, require_release)


def show(visit: Visit) -> Response:
    """Show what can be tried on a release, how far that is, and what was found."""
    run = find_shown(visit)
    if run is None:
        return visit.render("nothing_yet.html", title="Attacks")
    jobs = [job for job in visit.studio.jobs.of(visit.project, _KIND) if job.memory.get("run") == run.id]
    done = next((job for job in jobs if job.state == "done"), None)
    attacks = [] if done is None else done.answer.get("attacks", ())
    tried = sorted(attacks, key=lambda one: -one["risk"]["value"])
    return visit.render(
        "attacks.html",
        run=run,
        name=name_of(run),
        others=[other for other in list_solutions(visit) if other is not run],
        attacks=list(discover("shoal.attacks", Attack).values()),
        attached=visit.project.list_attached(),
        **describe_jobs(jobs),
        done=done,
        found=_describe(tried),
        refused=[] if done is None else done.answer.get("refused", []),
        plot=attack_risks(tried, "Risk by attack") if tried else None,
    )


def _describe(tried: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what each attack found, in figures and words."""
    titles = {name: kind.title for name, kind in discover("shoal.attacks", Attack).items()}
    return [
        {
            "name": attack_text(one),
            "title": titles.get(one["name"], ""),
            "right": _rate(one.get("attack")),
            "baseline": _rate(one.get("baseline")),
            "control": _rate(one.get("control")),
            "risk": one["risk"],
            "verdict": one["verdict"].partition(": "),
            "found": one["risk"]["low"] > 0,
            "notes": one.get("notes", []),
        }
        for one in tried
    ]


def _rate(tally: Mapping[str, int] | None) -> str:
    return "–" if tally is None else f"{tally['success'] / tally['trials']:.1%}"


def start(visit: Visit) -> Response:
    """Attack a release; what is found is recorded with it, and its internal report is made anew."""
    project, run = visit.project, demand_solution(visit)
    chosen = [name for name in visit.form.all("attack") if name in discover("shoal.attacks", Attack)]
    targets = visit.form.get("targets").strip()
    if not (targets.isascii() and targets.isdigit() and FEWEST <= int(targets) <= 1_000_000):
        raise UsageError(f"attacks are tried on a number of people, at least {FEWEST}")
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
            raise UsageError("choose a control table that was added here")
        arguments += ["--control", project.files / control]
    job = visit.studio.jobs.start(project, _KIND, [*arguments, "--targets", targets, "--record"])
    job.memory["run"] = run.id
    return visit.to(visit.at(f"{_HERE}/{run.id}"))


_PATH = f"/projects/{{project}}{_HERE}"
routes = [
    page(_PATH, show),
    page(f"{_PATH}/{{run}}", show),
    page(f"{_PATH}/{{run}}", start, "POST"),
]
