"""Entering a release, new or made before: linked with all earlier ones, written down, and described in words."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.core.errors import InputError, ShoalError, UnreachableError, UsageError, VerificationError, did_you_mean
from shoal.core.progress import Progress
from shoal.core.wording import count_noun, join_words
from shoal.linking.ledger.book import NEW, Entered, Ledger, Seen
from shoal.linking.ledger.evaluating import Finding, Held, Question, evaluate
from shoal.linking.ledger.records import (
    DEFAULT_FLOOR,
    EVERYBODY,
    Draft,
    Entry,
    Evaluation,
    LedgerOptions,
    Origin,
    Packed,
    digest_files,
)
from shoal.linking.reading import explain_unenterable
from shoal.release.release import PUBLIC, find_release
from shoal.sources.base import Source, SourceOptions
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify

_ATTEMPTS = 20  # to write an entry while others write theirs
MOST_TOLD = 3  # sets of releases in a message; --json has all


def check_ledger(options: LedgerOptions, destination: Path | None) -> None:
    """Raise before work begins if a release could not be entered."""
    if destination is None:
        raise UsageError("a ledger is for releases that are written; give a folder for this one, or no ledger")
    if _absent(options.path):
        parent = options.path.absolute().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise UsageError(f"cannot make the ledger {options.path}: its folder is not there, or not to be written to")
        return
    with Ledger.open(options.path, write=True) as ledger:
        _floor(options, ledger.look_at(ledger.choose(options.population)))


def enter_verified(
    options: LedgerOptions, public: Path, destination: Path, people: Source, progress: Progress
) -> Entered:
    """Link a verified release, which waits at *public*, with the earlier ones about its population, and enter it.

    *people* are the rows that it was made of. If any set of releases that it is in leaves less than the floor to
    anybody, it is refused, or entered with a warning where the ledger or the options say so. The context that comes
    back must hold the moving to *destination*.
    """
    try:
        return enter(options, read_release(NEW, public), destination, people, "made", progress)
    except UnreachableError:
        raise
    except ShoalError as error:
        raise type(error)(f"{error}; nothing was published") from None


def enter(
    options: LedgerOptions, release: Held, destination: Path, people: Source | None, origin: Origin, progress: Progress
) -> Entered:
    """Enter a release; one that was *added* exists already and is refused only if nothing can be linked with it."""
    reason = explain_unenterable(release.manifest)
    if reason is not None:
        raise InputError(f"the release cannot be entered into a ledger: {reason}")
    packed = Packed.of(release.folder)
    folder = os.fsencode(destination.absolute()).decode("utf-8", "replace")
    with unpack_releases() as unpacked:
        for _ in range(_ATTEMPTS):
            seen, known, earlier, releases = _look(options, unpacked)
            floor = _floor(options, seen)
            draft = Draft(seen.name, options.recipient, release.manifest, folder, origin)
            findings = evaluate(Question([*releases, release], floor, NEW, people), progress)
            failing = any(finding.failing for finding in findings)
            if failing and origin == "made" and not (options.warn or seen.warns):
                raise UnreachableError(refusal(findings, earlier, seen.name))
            said = [*warnings(findings, earlier), *notes(draft, findings, earlier, known)]
            evaluations = [each for finding in findings for each in finding.evaluations]
            with Ledger.open(options.path, create=True) as ledger:
                entry = ledger.enter(draft, packed, seen, floor, evaluations)
            if entry is not None:
                return Entered(options.path, entry, said, _evidence(entry, floor, findings, earlier))
    raise UsageError(f"other runs keep writing to {options.path}; try again")


def _absent(path: Path) -> bool:
    """Whether there is no ledger yet, or one that another run is about to make."""
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def _look(options: LedgerOptions, unpacked: UnpackedReleases) -> tuple[Seen, list[str], list[Entry], list[Held]]:
    """Return the population as it is now, the names of all, and its releases."""
    if _absent(options.path):
        return Seen(options.population or EVERYBODY, (), None, False), [], [], []
    with Ledger.open(options.path, write=True) as ledger:
        seen = ledger.look_at(ledger.choose(options.population))
        earlier = [entry for entry in ledger.entries(seen.name) if entry.number in seen.releases]
        return seen, list(ledger.populations()), earlier, [unpacked.read(ledger, entry) for entry in earlier]


def _floor(options: LedgerOptions, seen: Seen) -> int:
    """Return the floor that holds for a release: that of the population, unless it is raised."""
    if options.floor is None:
        return DEFAULT_FLOOR if seen.floor is None else seen.floor
    if seen.floor is not None and options.floor < seen.floor:
        raise UsageError(
            f"the floor of {seen.name!r} is {seen.floor}, and only `shoal ledger floor` lowers it; received "
            f"--floor {options.floor}"
        )
    return options.floor


def _evidence(entry: Entry, floor: int, findings: list[Finding], earlier: list[Entry]) -> dict[str, Any]:
    """Return what the evidence says of the ledger."""
    numbered = [
        replace(
            finding,
            evaluations=tuple(
                replace(each, releases=tuple(sorted(number or entry.number for number in each.releases)))
                for each in finding.evaluations
            ),
        )
        for finding in findings
    ]
    return {
        "ledger": {
            "number": entry.number,
            "population": entry.population,
            "recipient": entry.recipient,
            "floor": floor,
            "earlier": [each.number for each in earlier],
            "linked": [finding.as_dict() for finding in numbered],
        }
    }


class UnpackedReleases:
    """A folder that only its owner can read, with the public files of the releases that were asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[int, Held] = {}

    def read(self, ledger: Ledger, entry: Entry) -> Held:
        """Return a release of the ledger, unpacked once."""
        if entry.number not in self._held:
            folder = self._folder / str(entry.number)
            try:
                folder.mkdir()
                ledger.unpack(entry, folder)
            except OSError as error:
                raise UsageError(f"cannot unpack a release of the ledger: {error.strerror}") from None
            self._held[entry.number] = read_release(entry.number, folder)
        return self._held[entry.number]


@contextmanager
def unpack_releases() -> Iterator[UnpackedReleases]:
    """Open a shelf that vanishes at the end."""
    with tempfile.TemporaryDirectory(prefix="shoal-ledger-") as folder:
        yield UnpackedReleases(Path(folder))


def read_release(number: int, public: Path) -> Held:
    """Return a public folder as a release to be linked."""
    found = find_release(public)
    if found is None:
        raise InputError(f"{public} is no release: it has no manifest.json")
    place, manifest = found
    return Held(number, place, manifest)


def add(options: LedgerOptions, folder: Path, source: Path | None, progress: Progress) -> Entered:
    """Verify a release and enter it as published; nothing can refuse what is out already.

    With its *source* the release is verified against it, and linked for its rows.
    """
    if not folder.is_dir():
        raise InputError(f"there is no release {folder}")
    check_ledger(options, folder)
    release = read_release(NEW, folder)
    tokens = release.manifest.get("missing", {}).get("tokens", [""])
    people = None if source is None else open_source(source, SourceOptions(missing=tokens))
    verification = verify(release.folder, source=people, progress=progress)
    if not verification.verified:
        raise VerificationError("the release was not entered: " + "; ".join(verification.failures))
    _refuse_known(options, release.folder)
    home = release.folder.parent if release.folder.name == PUBLIC else release.folder
    entered = enter(options, release, home, people, "added", progress)
    with entered:
        return entered


def _refuse_known(options: LedgerOptions, public: Path) -> None:
    """Raise if the same files were entered for the same recipient."""
    if not options.path.exists():
        return
    files = digest_files(public)
    with Ledger.open(options.path) as ledger:
        population = ledger.choose(options.population)
        for entry in ledger.entries(population):
            if entry.counts and entry.files == files and entry.recipient == options.recipient:
                raise UsageError(f"the release is in the ledger already, as number {entry.number}")


def refusal(findings: Sequence[Finding], earlier: Sequence[Entry], population: str) -> str:
    """Say why a release was not published, and what to do."""
    stated = "; ".join(_failures(findings, earlier, "would"))
    blamed = {number for finding in findings for each in finding.failing for number in each.releases}
    unfinished = [entry.number for entry in earlier if entry.status == "unfinished" and entry.number in blamed]
    more = ""
    if unfinished:
        names = join_words([str(number) for number in unfinished])
        more = f"; if {names} never was published, `shoal ledger strike` takes it out"
    return (
        f"nothing was published: {stated}. Publish coarser classes (other attributes or taxonomies, a higher l or k), "
        f"or publish it all the same with --warn; the floor of {population!r} is changed by `shoal ledger floor`{more}"
    )


def warnings(findings: Sequence[Finding], earlier: Sequence[Entry]) -> list[str]:
    """Say what is below the floor and published all the same."""
    return [f"below the floor of the ledger: {stated}" for stated in _failures(findings, earlier, "can")]


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
        names = [_name_releases(each, earlier) for each in strangers if each.problem is None]
        if names:
            said.append(
                f"nobody of this release can be in {join_words(names)}: if they are about the same people, values are "
                "written differently"
            )
    return said


def least_failing(finding: Finding) -> list[Evaluation]:
    """Return the sets that are below the floor without any smaller one being so: the others follow from them."""
    failing = finding.failing
    return [each for each in failing if not any({*other.releases} < {*each.releases} for other in failing)]


def describe_set(each: Evaluation, named: str, verb: str = "can") -> str:
    """Say what one set of releases leaves."""
    if each.problem is not None:
        return f"{named} cannot be linked: {each.problem}"
    if each.l is None:
        return f"{named}: nobody can be in all of them"
    if not each.fails:
        return f"{named}: everybody is left with at least {count_noun(each.l, 'value')} of {each.sensitive!r}"
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
        stated = []
        for each in least[:MOST_TOLD]:
            alone = each.releases == (NEW,)
            named = "by itself" if alone else f"together with {_name_releases(each, earlier)}"
            stated.append(describe_set(each, named, verb))
        if len(least) > MOST_TOLD:
            stated.append(f"and {len(least) - MOST_TOLD} more sets of releases")
        if finding.below > max((each.below or 0 for each in least), default=0):
            stated.append(f"{finding.below:,} of {finding.people:,} people in all")
        said += ["; ".join(stated)] if stated else []
    return said


def _name_releases(each: Evaluation, earlier: Sequence[Entry]) -> str:
    by_number: Mapping[int, str] = {entry.number: entry.title for entry in earlier}
    return join_words([by_number[number] for number in each.releases if number != NEW])
