"""Where somebody can fix what made a run fail."""

from __future__ import annotations

from shoal.studio.jobs import Job


def mending(job: Job) -> tuple[str, str] | None:
    """Return words and the path of the page where a run that failed can be fixed; None if there is none."""
    if job.state != "failed" or not job.command.startswith("shoal anonymize "):
        return None
    words, page = _place(job.exit_code, job.message.lower())
    return words, f"/projects/{job.project.id}/{page}"


def _place(exit_code: int | None, message: str) -> tuple[str, str]:
    if exit_code == 3:
        return "Ask for less, allow records to be withheld, or choose another method", "guarantees"
    if message.startswith("method "):
        return "Change the method or the guarantees", "guarantees"
    if "declare it" in message:
        return "Look at the columns and their roles", "columns"
    if "taxonomy" in message or "taxonomies" in message:
        return "Fix the taxonomy", "taxonomies"
    if exit_code == 2 and "column" in message:
        return "Look at the columns and their roles", "columns"
    if exit_code == 2:
        return "Look at the policy", "policy"
    return "Look at the policy, and try again", "policy"
