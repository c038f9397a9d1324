"""What was published, and the verdict, in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.wording import counted_text, listed
from shoal.reports.changes import change_told
from shoal.reports.frame import Section
from shoal.reports.html import Html, bullets, code, joined, marked, paragraph, table, tag
from shoal.reports.internal.given import Given

_QUESTIONS = (
    "Are the roles of all columns right: is there none among the insensitive ones that others can look up?",
    "Is what is promised enough for these people, these values and these recipients?",
    "Who receives the data, under which agreement, and what else do they have about the same people?",
    "What is done if somebody is found all the same?",
)
_ROLES = ("Prepared by", "Reviewed by", "Approved by")
_TITLES = {
    "groups": "groups of records that exchange values",
    "rows_alone_in_group": "records alone in their group",
    "rows_with_their_own_value": "records that have their own value",
}


def summary(given: Given) -> Section:
    """Return the verdict, and what became of the records."""
    return Section.of("summary", "Summary", _verdict(given), _records(given), _agreed(given), _changes(given))


def _verdict(given: Given) -> str:
    found = given.evidence["verification"]
    failed = [check["name"] for check in (*found["checks"], *_kept(given)) if not check["ok"]]
    if failed:
        return paragraph(f"Do not release: {listed(failed)} failed.", class_="verdict refused")
    n_checks = counted_text(sum(check.get("done", True) for check in found["checks"]), "check")
    if given.manifest.get("claims"):
        told = f"{n_checks} of the written files held. What is claimed about people, no file can show."
    elif not given.manifest["guarantees"]:
        told = f"{n_checks} of the written files held, but this release promises nothing about people."
    else:
        promises = counted_text(len(given.manifest["guarantees"]), "promise")
        told = (
            f"The verifier recomputed {promises} from the written files, and all hold; {n_checks} of the files passed."
        )
    high = sum(one["severity"] == "high" and one["accepted"] is None for one in given.evidence.get("findings", ()))
    if high:
        findings = counted_text(high, "high finding is", "high findings are")
        told = f"{told} {findings} open: see Findings before anything is shared."
    bad = high or not (given.manifest["guarantees"] or given.manifest.get("claims"))
    return paragraph(told, class_="verdict refused" if bad else "verdict")


def _kept(given: Given) -> list[dict[str, object]]:
    return [{"name": one["model"], "ok": one["ok"]} for one in given.evidence["verification"]["guarantees"]]


def _records(given: Given) -> Sequence[str]:
    manifest, source = given.manifest, given.evidence["source"]
    name, method = code(source["name"]), code(manifest["method"])
    if not given.form.of_people:
        told = (f"{manifest['rows']:,} rows were drawn from noisy counts of {source['rows']:,} records of ", name)
        return [paragraph(*told, " with the method ", method, ". No row is a record.")]
    lines = [
        paragraph(
            f"{manifest['rows']:,} of {source['rows']:,} records of ",
            name,
            " were published with the method ",
            method,
            f"; {manifest['withheld']:,} were withheld and {manifest['missing']['dropped']:,} dropped for missing "
            "values.",
        )
    ]
    if "sample" in given.evidence:
        drawn = given.evidence["sample"]
        share = manifest["sample"].get("share")
        how = (
            f"one of each {manifest['sample'].get('one_per')}"
            if share is None
            else f"each with a chance of {100 * share:g}%"
        )
        lines.append(
            paragraph(
                f"{drawn['sampled_rows']:,} of {drawn['source_rows']:,} records were drawn, {how}. How many there were "
                "is not published."
            )
        )
    for attribute, records in given.evidence["generalized_sensitive"].items():
        share = f"{records:,} of {manifest['rows']:,} records ({records / manifest['rows']:.1%})"
        lines.append(paragraph(code(attribute), f" is suppressed in {share}: they publish a more general label."))
    return lines


def _agreed(given: Given) -> Sequence[str]:
    """Say by which plan a release was made, what the plan asked for, and what was left out."""
    plan = given.manifest.get("agreed")
    if plan is None:
        return []
    lines = [
        paragraph(
            "It was made by the plan of an agency (digest ",
            code(plan["digest"]),
            f", {plan['classes']:,} classes), which asks for at least {given.evidence['records_needed']:,} records. "
            "Classes are those of the plan, in what follows too. That the plan was not made from these very records, "
            "nobody but you can know.",
        )
    ]
    names = given.evidence["left_out"]
    if names:
        shown = [code(names[0]), *(joined((", ", code(name))) for name in names[1:])]
        lines.append(paragraph("Columns that the plan does not know were left out: ", *shown, "."))
    return lines


def _changes(given: Given) -> Sequence[str]:
    if "techniques" not in given.evidence:
        return []
    rows = (
        (name, marked(change_told(entry)), _counts(given.evidence["techniques"][name]))
        for name, entry in given.manifest["techniques"].items()
    )
    return [table("Columns that do not hold the values of the source", ("column", "what was changed", "found"), rows)]


def _counts(found: dict[str, int]) -> str:
    return "; ".join(f"{_TITLES.get(name, name.replace('_', ' '))}: {count:,}" for name, count in found.items())


def sign_off(given: Given) -> Section:
    """Return what the board still has to answer, which files it is about, and lines to sign."""
    data = given.manifest.get("data")
    about = (
        paragraph("This decision is about ", code(data["file"]), " with the SHA-256 ", code(data["sha256"]), ".")
        if data
        else paragraph("This decision is about a release in memory, which has no files.")
    )
    empty = Html("&nbsp;")
    lines = [(role, empty, empty, empty) for role in _ROLES]
    choices = tag("p", "Decision: ☐ release  ☐ release under conditions  ☐ do not release")
    return Section.of(
        "sign-off",
        "Sign-off",
        about,
        paragraph("What no program can answer:"),
        bullets(_QUESTIONS),
        choices,
        tag("div", table("Signatures", ("role", "name", "date", "signature"), lines), class_="sign"),
    )
