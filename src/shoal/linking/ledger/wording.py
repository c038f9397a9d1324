"""What a ledger says to people about what releases leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.core.errors import did_you_mean
from shoal.core.wording import counted_text, listed
from shoal.linking.ledger.book import NEW
from shoal.linking.ledger.evaluating import Finding
from shoal.linking.ledger.records import Draft, Entry, Evaluation

MOST_TOLD = 3  # sets of releases in a message; --json has all


def refusal(findings: Sequence[Finding], earlier: Sequence[Entry], population: str) -> str:
    """Say why a release was not published, and what to do."""
    told = "; ".join(_failures(findings, earlier, "would"))
    unfinished = [entry.number for entry in earlier if entry.status == "unfinished" and _blames(findings, entry)]
    more = ""
    if unfinished:
        names = listed([str(number) for number in unfinished])
        more = f"; if {names} never was published, `shoal ledger strike` takes it out"
    return (
        f"nothing was published: {told}. Publish coarser classes (other attributes or taxonomies, a higher l or k), or "
        f"publish it all the same with --warn; the floor of {population!r} is changed by `shoal ledger floor`{more}"
    )


def warnings(findings: Sequence[Finding], earlier: Sequence[Entry]) -> list[str]:
    """Say what is below the floor and published all the same."""
    return [f"below the floor of the ledger: {told}" for told in _failures(findings, earlier, "can")]


def notes(draft: Draft, findings: Sequence[Finding], earlier: Sequence[Entry], known: Sequence[str]) -> list[str]:
    """Say what may be a mistake: a new population, an attribute without another release, or nobody in common."""
    said = []
    if known and draft.population not in known:
        nearest = did_you_mean(draft.population, known)
        said.append(f"{draft.population!r} is a new population, which is linked with no earlier release{nearest}")
    if not draft.sensitive:
        said.append("the release has no sensitive attribute, so there was nothing to link")
    hidden = dict.fromkeys(name for entry in earlier for name in entry.sensitive)
    said += [
        f"{name!r} is sensitive in no earlier release, so it was linked with none{did_you_mean(name, hidden)}"
        for name in draft.sensitive
        if hidden and name not in hidden
    ]
    for finding in findings:
        strangers = [each for each in finding.evaluations if len(each.releases) == 2 and each.l is None]
        names = [_named(each, earlier) for each in strangers if each.problem is None]
        if names:
            said.append(
                f"nobody of this release can be in {listed(names)}: if they are about the same people, values are "
                "written differently"
            )
    return said


def least_failing(finding: Finding) -> list[Evaluation]:
    """Return the sets that are below the floor without any smaller one being so: the others follow from them."""
    failing = finding.failing
    return [each for each in failing if not any({*other.releases} < {*each.releases} for other in failing)]


def told_of(each: Evaluation, named: str, verb: str = "can") -> str:
    """Say what one set of releases leaves."""
    if each.problem is not None:
        return f"{named} cannot be linked: {each.problem}"
    if each.l is None:
        return f"{named}: nobody can be in all of them"
    if not each.fails:
        return f"{named}: everybody is left with at least {counted_text(each.l, 'value')} of {each.sensitive!r}"
    values = f"fewer than {each.floor:,} values of {each.sensitive!r}"
    most = "" if each.basis != "classes" else "up to "
    least = f"at worst with {each.l}" if each.exact else f"with no fewer than {each.l}"
    who = "some" if each.below is None else f"{most}{each.below:,}"
    return f"{named}: {who} of {each.people:,} people {verb} be left with {values}, {least}"


def _failures(findings: Sequence[Finding], earlier: Sequence[Entry], verb: str) -> list[str]:
    """Say of every attribute which sets fail: those none of whose smaller sets does."""
    said = []
    for finding in findings:
        least = least_failing(finding)
        told = [told_of(each, _together(each, earlier), verb) for each in least[:MOST_TOLD]]
        if len(least) > MOST_TOLD:
            told.append(f"and {len(least) - MOST_TOLD} more sets of releases")
        if finding.below > max((each.below or 0 for each in least), default=0):
            told.append(f"{finding.below:,} of {finding.people:,} people in all")
        said += ["; ".join(told)] if told else []
    return said


def _together(each: Evaluation, earlier: Sequence[Entry]) -> str:
    return "by itself" if each.releases == (NEW,) else f"together with {_named(each, earlier)}"


def _named(each: Evaluation, earlier: Sequence[Entry]) -> str:
    by_number: Mapping[int, str] = {entry.number: entry.told for entry in earlier}
    return listed([by_number[number] for number in each.releases if number != NEW])


def _blames(findings: Sequence[Finding], entry: Entry) -> bool:
    return any(entry.number in each.releases for finding in findings for each in finding.failing)
