"""Entering a release, new or existing: linking it with all earlier ones, recording it, and describing the result."""

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
from shoal.linking.ledger.book import NEW, Ledger, PendingEntry, PopulationState
from shoal.linking.ledger.evaluating import AttributeLinkage, LinkedRelease, Question, evaluate
from shoal.linking.ledger.records import (
    EVERYBODY,
    Entry,
    Evaluation,
    LedgerOptions,
    Limits,
    Origin,
    PackedFiles,
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
MOST_SETS = 3  # that a message describes; --json has all


def check_ledger(options: LedgerOptions, destination: Path | None) -> None:
    """Raise before work begins if a release could not be entered."""
    if destination is None:
        raise UsageError("a ledger is for releases that are written to a folder; give a folder, or no ledger")
    if _absent(options.path):
        parent = options.path.absolute().parent
        if not parent.is_dir() or not os.access(parent, os.W_OK):
            raise UsageError(f"cannot make the ledger {options.path}: its folder is not there or is not writable")
        return
    with Ledger.open(options.path, write=True) as ledger:
        _find_limits(options, ledger.look_at(ledger.choose(options.population)))


def enter_verified(
    options: LedgerOptions, public: Path, destination: Path, policy: Policy, people: Source, progress: Progress
) -> PendingEntry:
    """Link a verified release, which waits at *public*, with the earlier ones about its population, and enter it.

    *people* are the rows that it was made of. The release is refused if a set of releases with it leaves any person
    fewer values than the floor, violates its guarantees or cannot be linked, or if it exceeds the budget. The ledger or
    the options may replace the refusal by a warning. The caller must move the release to *destination* within the
    returned context.
    """
    try:
        release = read_release(NEW, public, Terms.of(policy, options.same_as))
        return enter(options, release, destination, people, "made", progress)
    except UnreachableError:
        raise
    except ShoalError as error:
        raise type(error)(f"{error}; nothing was published") from None


def enter(
    options: LedgerOptions,
    release: LinkedRelease,
    destination: Path,
    people: Source | None,
    origin: Origin,
    progress: Progress,
) -> PendingEntry:
    """Enter a release; an existing one, which was *added*, is not refused."""
    packed = PackedFiles.of(release.folder)
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
            warnings = [f"below the ledger's limits: {each}" for each in failing]
            if known and seen.name not in known:
                nearest = did_you_mean(seen.name, known)
                warnings.append(f"{seen.name!r} is a new population, which is linked with no earlier release{nearest}")
            if not sensitive:
                warnings.append("the release has no sensitive attribute, so only class sizes and tokens were compared")
            evaluations = [each for one in linked for each in one.evaluations]
            with Ledger.open(options.path, create=True) as ledger:
                entry = ledger.enter(draft, packed, seen, limits, evaluations)
            if entry is not None:
                evidence = _evidence(entry, limits, linked, earlier, spending)
                return PendingEntry(options.path, entry, warnings, evidence, find_unlinked(linked, earlier))
    raise UsageError(f"other runs keep writing to {options.path}; try again")


def _absent(path: Path) -> bool:
    """Whether the ledger does not exist, or another run is about to create it."""
    return not path.exists() or (path.is_file() and path.stat().st_size == 0)


def _look(
    options: LedgerOptions, unpacked: UnpackedReleases
) -> tuple[PopulationState, list[str], list[Entry], list[LinkedRelease]]:
    """Return the present state of the population, the names of all populations, and its releases."""
    if _absent(options.path):
        return PopulationState(options.population or EVERYBODY, (), None), [], [], []
    with Ledger.open(options.path, write=True) as ledger:
        seen = ledger.look_at(ledger.choose(options.population))
        earlier = [entry for entry in ledger.entries(seen.name) if entry.number in seen.releases]
        return seen, list(ledger.populations()), earlier, unpacked.read(ledger, earlier)


def _find_limits(options: LedgerOptions, seen: PopulationState) -> Limits:
    """Return the limits of the population, with a floor that the options may raise."""
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
    """A private temporary folder with the public files of releases."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[int, LinkedRelease] = {}

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[UnpackedReleases]:
        with tempfile.TemporaryDirectory(prefix="shoal-ledger-") as folder:
            yield cls(Path(folder))

    def read(self, ledger: Ledger, entries: Sequence[Entry]) -> list[LinkedRelease]:
        """Return the releases that are linked, each unpacked once; differentially private ones are not linked."""
        linked = [entry for entry in entries if entry.cost is None]
        for entry in linked:
            if entry.number not in self._read:
                folder = self._folder / str(entry.number)
                try:
                    folder.mkdir()
                    ledger.unpack(entry, folder)
                except OSError as error:
                    raise UsageError(f"cannot unpack a release of the ledger: {error.strerror}") from None
                self._read[entry.number] = read_release(entry.number, folder, entry.terms)
        return [self._read[entry.number] for entry in linked]


def read_release(number: int, public: Path, terms: Terms) -> LinkedRelease:
    found = find_release(public)
    if found is None:
        raise InputError(f"{public} is not a release: it has no manifest.json")
    return LinkedRelease(number, *found, terms)


def add(
    options: LedgerOptions, folder: Path, source: Path | None, progress: Progress, policy: Path | None = None
) -> PendingEntry:
    """Verify a release and enter it as published; it exists already, so it is not refused.

    With its *source*, the release is verified against it, and linked for its rows. A *policy* has the earlier names of
    its columns, and accepted findings.
    """
    if not folder.is_dir():
        raise InputError(f"there is no release {folder}")
    check_ledger(options, folder)
    release = read_release(NEW, folder, Terms() if policy is None else Terms.of(Policy.load(policy)))
    people = None if source is None else open_source(source, read_options(release.manifest))
    verification = verify(release.folder, source=people, progress=progress)
    if not verification.verified:
        raise VerificationError("the release was not entered: " + "; ".join(verification.objections))
    if options.path.exists():
        files = digest_files(release.folder)
        with Ledger.open(options.path) as ledger:
            for entry in ledger.entries(ledger.choose(options.population)):
                if entry.counts and entry.files == files and entry.recipient == options.recipient:
                    raise UsageError(f"the release is in the ledger already, as number {entry.number}")
    home = release.folder.parent if release.folder.name == PUBLIC else release.folder
    entered = enter(options, release, home, people, "added", progress)
    with entered:
        return entered


def refusal(said: Sequence[str], linked: Sequence[AttributeLinkage], earlier: Sequence[Entry], population: str) -> str:
    """Return the message about a refused release: the reasons, and what to do."""
    failing = [each for one in linked for each in one.failing]
    blamed = {number for each in failing for number in each.releases}
    unfinished = [entry.number for entry in earlier if entry.status == "unfinished" and entry.number in blamed]
    fixes = []
    if any(each.leaves_little for each in failing):
        fixes.append("publish coarser classes (other attributes or taxonomies, a higher l or k)")
    if any(each.unlinked for each in failing):
        fixes.append(
            "give the earlier name of an attribute in the policy (same_as), or accept there that it is not linked "
            f"(finding {UNLINKED} about the column, or about none for class sizes, with a reason)"
        )
    if not linked:
        fixes.append("ask for a smaller epsilon, or set the budget with `shoal ledger budget`")
    more = ""
    if unfinished:
        names = join_words([str(number) for number in unfinished])
        more = f"; if {names} never was published, `shoal ledger strike` removes it"
    first, *rest = [*fixes, "publish it nevertheless with --warn"]
    return (
        f"nothing was published: {'; '.join(said)}. {'; '.join([first[0].upper() + first[1:], *rest])}; the floor of "
        f"{population!r} is changed by `shoal ledger floor`{more}"
    )


def find_unlinked(linked: Sequence[AttributeLinkage], earlier: Sequence[Entry]) -> tuple[Finding, ...]:
    """Return the sets that could not be linked as findings, one for each sensitive column."""
    found = []
    for one in linked:
        pairs = [each for each in one.evaluations if each.unlinked and len(each.releases) == 2]
        said = "; ".join(describe_set(each, _name_releases(each, earlier)) for each in pairs[:MOST_SETS])
        about = (one.column,) if one.column else ()
        text = f"Earlier releases and this one together may disclose {one.column or 'who a record belongs to'}: {said}."
        fix = "Give the column's earlier name (same_as), write values in the same way, or leave the column out."
        if pairs:
            found.append(Finding(UNLINKED, "high", about, text, fix, pairs[0].accepted))
    return tuple(found)


def least_failing(linked: AttributeLinkage) -> list[Evaluation]:
    """Return the failing sets without a smaller failing set: the others follow from them."""
    failing = linked.failing
    return [each for each in failing if not any({*other.releases} < {*each.releases} for other in failing)]


def describe_set(each: Evaluation, named: str, verb: str = "can") -> str:
    """Describe the values that one set of releases leaves."""
    said = []
    if each.problem is not None:
        said.append(f"cannot be linked: {each.problem}")
    elif each.l is None:
        said.append("no one can be in all of them; if they are about the same people, values are written differently")
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
            f"for {most}{each.unkept:,} of {each.people:,} people the probability of one value of {each.sensitive!r} "
            f"{verb} be up to {each.belief:.2f}, although {each.promised} is guaranteed"
        )
    if each.exposed:
        who, least = count_noun(each.exposed, "person", "people"), count_noun(each.difference or 0, "value")
        said.append(
            f"subtracting classes of one from classes of the other {verb} expose {who}, at worst with {least} of "
            f"{each.sensitive!r}"
        )
    if not said:
        said.append(f"all people are left with at least {count_noun(each.l or 0, 'value')} of {each.sensitive!r}")
    joint = " " if each.problem is not None else ": "
    return f"{named}{joint}{'; '.join(said)}"


def _failures(linked: Sequence[AttributeLinkage], earlier: Sequence[Entry], verb: str) -> list[str]:
    """Describe the failing sets of every attribute that have no smaller failing set."""
    said = []
    for one in linked:
        least = least_failing(one)
        stated = []
        for each in least[:MOST_SETS]:
            alone = each.releases == (NEW,)
            named = "by itself" if alone else f"together with {_name_releases(each, earlier)}"
            stated.append(describe_set(each, named, verb))
        if len(least) > MOST_SETS:
            stated.append(f"and {len(least) - MOST_SETS} more sets of releases")
        if one.below > max((each.below or 0 for each in least), default=0):
            stated.append(f"{one.below:,} of {one.people:,} people in all")
        said += ["; ".join(stated)] if stated else []
    return said


def _name_releases(each: Evaluation, earlier: Sequence[Entry]) -> str:
    by_number: Mapping[int, str] = {entry.number: entry.title for entry in earlier}
    return join_words([by_number[number] for number in each.releases if number != NEW])
