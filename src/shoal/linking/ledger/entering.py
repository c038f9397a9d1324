"""Entering a release, new or made before: linked with all earlier ones, written down, and described in words."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from shoal.core.errors import InputError, ShoalError, UnreachableError, UsageError, VerificationError, did_you_mean
from shoal.core.progress import Progress
from shoal.core.results import UNLINKED, Finding
from shoal.core.wording import count_noun, join_words
from shoal.linking.ledger.book import NEW, Entered, Ledger, Seen
from shoal.linking.ledger.evaluating import AttributeLinkage, Held, Question, evaluate
from shoal.linking.ledger.records import (
    EVERYBODY,
    Entry,
    Evaluation,
    LedgerOptions,
    Limits,
    Origin,
    Packed,
    Spending,
    Terms,
    digest_files,
)
from shoal.policy.policy import Policy
from shoal.release.forms.base import read_form
from shoal.release.published import read_options
from shoal.release.release import PUBLIC, find_release
from shoal.sources.base import Source
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
        _find_limits(options, ledger.look_at(ledger.choose(options.population)))


def enter_verified(
    options: LedgerOptions, public: Path, destination: Path, policy: Policy, people: Source, progress: Progress
) -> Entered:
    """Link a verified release, which waits at *public*, with the earlier ones about its population, and enter it.

    *people* are the rows that it was made of. If any set of releases that it is in leaves less to anybody than the
    floor or its promises, or cannot be linked, or if it costs more than the budget has left, it is refused, or entered
    with a warning where the ledger or the options say so. The context that comes back must hold the moving to
    *destination*.
    """
    try:
        release = read_release(NEW, public, Terms.of(policy, options.same_as))
        return enter(options, release, destination, people, "made", progress)
    except UnreachableError:
        raise
    except ShoalError as error:
        raise type(error)(f"{error}; nothing was published") from None


def enter(
    options: LedgerOptions, release: Held, destination: Path, people: Source | None, origin: Origin, progress: Progress
) -> Entered:
    """Enter a release; one that was *added* exists already and is not refused."""
    packed = Packed.of(release.folder)
    cost = read_form(release.manifest).cost
    sensitive = release.manifest.names("sensitive")
    draft = {
        "method": release.manifest.method,
        "guarantees": [one.model_dump(exclude_unset=True) for one in release.manifest.guarantees],
        "rows": release.manifest.rows,
        "sensitive": sensitive,
        "recipient": options.recipient,
        "folder": os.fsencode(destination.absolute()).decode("utf-8", "replace"),
        "origin": origin,
        "terms": asdict(release.terms),
        "cost": cost,
    }
    with UnpackedReleases.open() as unpacked:
        for _ in range(_ATTEMPTS):
            seen, known, earlier, releases = _look(options, unpacked)
            limits = _find_limits(options, seen)
            linked = []
            if cost is None:
                linked = evaluate(Question([*releases, release], limits.floor, NEW, people), progress)
            spending = Spending.of([*(each.cost for each in earlier), cost], limits)
            over = [f"together {spending.text}"] if cost is not None and spending.over else []
            refuses = origin == "made" and not (options.warn or limits.warns)
            failing = [*_failures(linked, earlier, "would" if refuses else "can"), *over]
            if failing and refuses:
                raise UnreachableError(refusal(failing, linked, earlier, seen.name))
            said = [f"below what the ledger asks for: {each}" for each in failing] + notes(seen.name, known, sensitive)
            evaluations = [each for one in linked for each in one.evaluations]
            with Ledger.open(options.path, create=True) as ledger:
                entry = ledger.enter(draft, packed, seen, limits, evaluations)
            if entry is not None:
                evidence = _evidence(entry, limits, linked, earlier, spending)
                return Entered(options.path, entry, said, evidence, find_unlinked(linked, earlier))
    raise UsageError(f"other runs keep writing to {options.path}; try again")


def _absent(path: Path) -> bool:
    """Whether there is no ledger yet, or one that another run is about to make."""
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def _look(options: LedgerOptions, unpacked: UnpackedReleases) -> tuple[Seen, list[str], list[Entry], list[Held]]:
    """Return the population as it is now, the names of all, and its releases."""
    if _absent(options.path):
        return Seen(options.population or EVERYBODY, (), None), [], [], []
    with Ledger.open(options.path, write=True) as ledger:
        seen = ledger.look_at(ledger.choose(options.population))
        earlier = [entry for entry in ledger.entries(seen.name) if entry.number in seen.releases]
        return seen, list(ledger.populations()), earlier, unpacked.read(ledger, earlier)


def _find_limits(options: LedgerOptions, seen: Seen) -> Limits:
    """Return what a release is held to: the limits of the population, with a floor that may be raised."""
    limits = seen.limits or Limits()
    if options.floor is None:
        return limits
    if seen.limits is not None and options.floor < limits.floor:
        raise UsageError(
            f"the floor of {seen.name!r} is {limits.floor}, and only `shoal ledger floor` lowers it; received "
            f"--floor {options.floor}"
        )
    return replace(limits, floor=options.floor)


def _evidence(
    entry: Entry, limits: Limits, linked: list[AttributeLinkage], earlier: list[Entry], spending: Spending
) -> dict[str, object]:
    """Return what the evidence says of the ledger."""
    numbered = [
        replace(one, evaluations=tuple(each.renumber(entry.number) for each in one.evaluations)) for one in linked
    ]
    return {
        "ledger": {
            "number": entry.number,
            "population": entry.population,
            "recipient": entry.recipient,
            "floor": limits.floor,
            "earlier": [each.number for each in earlier],
            "linked": [one.as_dict() for one in numbered],
            "spent": spending.as_dict(),
        }
    }


class UnpackedReleases:
    """A folder that only its owner can read, with the public files of the releases that were asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[int, Held] = {}

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[UnpackedReleases]:
        with tempfile.TemporaryDirectory(prefix="shoal-ledger-") as folder:
            yield cls(Path(folder))

    def read(self, ledger: Ledger, entries: Sequence[Entry]) -> list[Held]:
        """Return those that are linked, each unpacked once: what is differentially private is added up instead."""
        linked = [entry for entry in entries if entry.cost is None]
        for entry in linked:
            if entry.number not in self._held:
                folder = self._folder / str(entry.number)
                try:
                    folder.mkdir()
                    ledger.unpack(entry, folder)
                except OSError as error:
                    raise UsageError(f"cannot unpack a release of the ledger: {error.strerror}") from None
                self._held[entry.number] = read_release(entry.number, folder, entry.terms)
        return [self._held[entry.number] for entry in linked]


def read_release(number: int, public: Path, terms: Terms) -> Held:
    """Return a public folder as a release to be linked."""
    found = find_release(public)
    if found is None:
        raise InputError(f"{public} is not a release: it has no manifest.json")
    place, manifest = found
    return Held(number, place, manifest, terms)


def add(
    options: LedgerOptions, folder: Path, source: Path | None, progress: Progress, policy: Path | None = None
) -> Entered:
    """Verify a release and enter it as published; nothing can refuse what is out already.

    With its *source* the release is verified against it, and linked for its rows. A *policy* says what its columns are
    the same as, and what is accepted.
    """
    if not folder.is_dir():
        raise InputError(f"there is no release {folder}")
    check_ledger(options, folder)
    release = read_release(NEW, folder, Terms() if policy is None else Terms.of(Policy.load(policy)))
    people = None if source is None else open_source(source, read_options(release.manifest))
    verification = verify(release.folder, source=people, progress=progress)
    if not verification.verified:
        raise VerificationError("the release was not entered: " + "; ".join(verification.objections))
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


def refusal(said: Sequence[str], linked: Sequence[AttributeLinkage], earlier: Sequence[Entry], population: str) -> str:
    """Say why a release was not published, and what to do."""
    blamed = {number for one in linked for each in one.failing for number in each.releases}
    unfinished = [entry.number for entry in earlier if entry.status == "unfinished" and entry.number in blamed]
    fixes = []
    if any(each.leaves_little for one in linked for each in one.failing):
        fixes.append("publish coarser classes (other attributes or taxonomies, a higher l or k)")
    if any(each.unlinked for one in linked for each in one.failing):
        fixes.append(
            "say in the policy what an attribute was called before (same_as), or accept there that it is not linked "
            f"(finding {UNLINKED} about the column, or about none for class sizes, with a reason)"
        )
    if not linked:
        fixes.append("ask for a smaller epsilon, or set the budget with `shoal ledger budget`")
    more = ""
    if unfinished:
        names = join_words([str(number) for number in unfinished])
        more = f"; if {names} never was published, `shoal ledger strike` takes it out"
    first, *rest = [*fixes, "publish it all the same with --warn"]
    return (
        f"nothing was published: {'; '.join(said)}. {'; '.join([first[0].upper() + first[1:], *rest])}; the floor of "
        f"{population!r} is changed by `shoal ledger floor`{more}"
    )


def notes(population: str, known: Sequence[str], sensitive: Sequence[str]) -> list[str]:
    """Say what may be a mistake: a new population, or nothing to link."""
    said = []
    if known and population not in known:
        nearest = did_you_mean(population, known)
        said.append(f"{population!r} is a new population, which is linked with no earlier release{nearest}")
    if not sensitive:
        said.append("the release has no sensitive attribute, so only class sizes and tokens were compared")
    return said


def find_unlinked(linked: Sequence[AttributeLinkage], earlier: Sequence[Entry]) -> tuple[Finding, ...]:
    """Return what could not be linked as findings, one for each sensitive column."""
    found = []
    for one in linked:
        pairs = [each for each in one.evaluations if each.unlinked and len(each.releases) == 2]
        said = "; ".join(describe_set(each, _name_releases(each, earlier)) for each in pairs[:MOST_TOLD])
        about = (one.column,) if one.column else ()
        text = f"Earlier releases and this one together may disclose {one.column or 'who a record belongs to'}: {said}."
        fix = "Give the column's earlier name (same_as), write values in the same way, or leave the column out."
        if pairs:
            found.append(Finding(UNLINKED, "high", about, text, fix, pairs[0].accepted))
    return tuple(found)


def least_failing(linked: AttributeLinkage) -> list[Evaluation]:
    """Return the sets that leave too little without any smaller one doing so: the others follow from them."""
    failing = linked.failing
    return [each for each in failing if not any({*other.releases} < {*each.releases} for other in failing)]


def describe_set(each: Evaluation, named: str, verb: str = "can") -> str:
    """Say what one set of releases leaves."""
    said = []
    if each.problem is not None:
        said.append(f"cannot be linked: {each.problem}")
    elif each.l is None:
        said.append("nobody can be in all of them; if they are about the same people, values are written differently")
    most = "" if each.basis != "classes" else "up to "
    if not each.sensitive and each.l is not None:
        alone = f", {each.alone:,} of them alone" if each.alone else ""
        who = "no one" if each.l >= each.floor else f"{each.below:,} of {each.people:,} people"
        joined = "".join(f" and {name!r}" for name in each.joined)
        said.append(f"{who} {verb} be among fewer than {each.floor:,} people who share all classes{joined}{alone}")
    elif each.l is not None and each.l < each.floor:
        least = f"at worst with {each.l}" if each.exact else f"with no fewer than {each.l}"
        who = "some" if each.below is None else f"{most}{each.below:,}"
        values = f"fewer than {each.floor:,} values of {each.sensitive!r}"
        said.append(f"{who} of {each.people:,} people {verb} be left with {values}, {least}")
    if each.unkept:
        said.append(
            f"{most}{each.unkept:,} of {each.people:,} people {verb} be believed to have one value of "
            f"{each.sensitive!r} with up to {each.belief:.2f}, where {each.promised} was promised"
        )
    if each.exposed:
        who, least = count_noun(each.exposed, "person", "people"), count_noun(each.difference or 0, "value")
        said.append(
            f"subtracting classes of one from classes of the other {verb} expose {who}, at worst with {least} of "
            f"{each.sensitive!r}"
        )
    if not said:
        said.append(f"everybody is left with at least {count_noun(each.l or 0, 'value')} of {each.sensitive!r}")
    joint = " " if each.problem is not None else ": "
    return f"{named}{joint}{'; '.join(said)}"


def _failures(linked: Sequence[AttributeLinkage], earlier: Sequence[Entry], verb: str) -> list[str]:
    """Say of every attribute which sets fail: those none of whose smaller sets does."""
    said = []
    for one in linked:
        least = least_failing(one)
        stated = []
        for each in least[:MOST_TOLD]:
            alone = each.releases == (NEW,)
            named = "by itself" if alone else f"together with {_name_releases(each, earlier)}"
            stated.append(describe_set(each, named, verb))
        if len(least) > MOST_TOLD:
            stated.append(f"and {len(least) - MOST_TOLD} more sets of releases")
        if one.below > max((each.below or 0 for each in least), default=0):
            stated.append(f"{one.below:,} of {one.people:,} people in all")
        said += ["; ".join(stated)] if stated else []
    return said


def _name_releases(each: Evaluation, earlier: Sequence[Entry]) -> str:
    by_number: Mapping[int, str] = {entry.number: entry.title for entry in earlier}
    return join_words([by_number[number] for number in each.releases if number != NEW])
