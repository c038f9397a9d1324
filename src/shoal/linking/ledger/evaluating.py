"""What sets of releases leave: for given people exactly, without them for whoever can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from shoal.core.arrays import BoolArray, IntArray, KeyArray
from shoal.core.errors import InputError, ShoalError, UsageError
from shoal.core.progress import Progress, Step
from shoal.linking.ledger.records import Basis, Evaluation
from shoal.linking.linkable import Linkable
from shoal.linking.linking import link_classes
from shoal.linking.reading import read_linkables
from shoal.linking.space import Space
from shoal.sources.base import Source

EXHAUSTIVE = 7  # of so many releases, every set is looked at
_MOST_WORDS = 2**27
Set = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A release that can be read: its number, its public folder, and its manifest."""

    number: int
    folder: Path
    manifest: Mapping[str, Any]

    def of_role(self, role: str) -> list[str]:
        """Return the attributes of one role."""
        return [name for name, entry in self.manifest["attributes"].items() if entry["role"] == role]

    def tells(self, attributes: set[str]) -> set[str]:
        """Return which of these attributes the release publishes as something that somebody may know."""
        return attributes & ({*self.manifest["attributes"]} - {*self.of_role("sensitive")})


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one sensitive attribute.

    ``below`` counts people who are below the floor by any set of releases, as far as they were counted. If the answer
    is not ``complete``, sets of more than three releases, but for all together, were not looked at.
    """

    sensitive: str
    evaluations: tuple[Evaluation, ...]
    people: int
    below: int
    complete: bool

    @property
    def failing(self) -> list[Evaluation]:
        """The sets that are below the floor or not known not to be, worst first."""
        worst = sorted(self.evaluations, key=lambda each: (each.problem is not None, each.l or 0, len(each.releases)))
        return [each for each in worst if each.fails]

    @property
    def l(self) -> int | None:  # noqa: E743
        """The least that any set leaves to anybody."""
        return min((each.l for each in self.evaluations if each.l is not None), default=None)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "sensitive": self.sensitive,
            "l": self.l,
            "people": self.people,
            "people_below": self.below,
            "complete": self.complete,
            "sets": [each.as_dict() for each in self.evaluations],
        }


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Releases about one population, of which sets are to be looked at.

    With *newest* only sets that have it; *people* are rows of its source, or of a table of people. Sets for which
    *known* answers are not looked at again.
    """

    releases: Sequence[Held]
    floor: int
    newest: int | None = None
    people: Source | None = None
    known: Callable[[str, Set, set[str]], Evaluation | None] = field(default=lambda *_: None)

    @property
    def basis(self) -> Basis:
        """Whose rows the people are."""
        return "people" if self.newest is None else "source"


def evaluate(question: Question, progress: Progress) -> list[Finding]:
    """Look at every set of releases that has a sensitive attribute in common, attribute by attribute.

    An attribute that is quasi in one of the releases is taken as known in all of them.
    """
    quasi = {name for each in question.releases for name in each.of_role("quasi")}
    newest = [each for each in question.releases if each.number == question.newest] or question.releases
    published = {name for each in newest for name in each.manifest["attributes"]}
    found = []
    for sensitive in dict.fromkeys(name for each in question.releases for name in each.of_role("sensitive")):
        if sensitive not in published:
            continue
        with progress.step(f"linking {sensitive}", unit="sets") as step:
            found.append(_OneAttribute(question, sensitive, quasi - {sensitive}, step).finding())
    return found


class _OneAttribute:
    """The evaluation of all sets for one sensitive attribute."""

    def __init__(self, question: Question, sensitive: str, quasi: set[str], step: Step) -> None:
        self._question, self._sensitive, self._step = question, sensitive, step
        self._members = {each.number: each for each in question.releases if sensitive in each.of_role("sensitive")}
        self._openly = [
            each.number
            for each in question.releases
            if each.number not in self._members and sensitive in each.manifest["attributes"]
        ]
        self._told = {number: each.tells(quasi) for number, each in self._members.items()}
        self._read: dict[int, Linkable] = {}
        self._unread: dict[int, str] = {}
        otherwise = _find_other_groups(sorted(self._members.values(), key=lambda each: each.number != question.newest))
        for each in self._members.values():
            if each.number in otherwise:
                self._unread[each.number] = "items are in other groups, so that nobody would be found"
                continue
            try:
                (linkable,), _ = read_linkables([each.folder], sensitive=sensitive, known=lambda _: quasi)
                self._read[each.number] = linkable
            except ShoalError as error:
                self._unread[each.number] = _reason(error, each)

    def finding(self) -> Finding:
        question = self._question
        numbers = tuple(self._members)
        sets = sets_among(numbers, question.newest) if question.newest in (None, *numbers) else []
        answers = {chosen: question.known(self._sensitive, chosen, self._attributes(chosen)) for chosen in sets}
        found = [answer for answer in answers.values() if answer is not None]
        by_people = []
        # Where the table of people lacks an attribute by which somebody could be found, too much would seem to be left.
        people_have = None if question.people is None else {*question.people.schema.names}
        for chosen in (chosen for chosen, answer in answers.items() if answer is None):
            if unread := [self._unread[number] for number in chosen if number in self._unread]:
                found.append(self._problem(chosen, "; ".join(unread)))
            elif people_have is not None and self._attributes(chosen) <= people_have:
                by_people.append(chosen)
            else:
                found.append(self._for_classes(chosen))
        below, covered = 0, set[int]()
        if by_people:
            more, below, covered = self._for_people(by_people)
            found += more
        found += self._contradictions()
        complete = is_complete(len(numbers)) or covered == {*numbers}
        below = max([below, *(each.below or 0 for each in found)])
        people = max([each.people for each in found], default=0)
        return Finding(self._sensitive, tuple(found), people, below, complete)

    def _attributes(self, chosen: Set) -> set[str]:
        return {name for number in chosen for name in self._told.get(number, ())}

    def _for_people(self, sets: Sequence[Set]) -> tuple[list[Evaluation], int, set[int]]:
        """Evaluate sets for the people; also how many are below by any set, and among which releases."""
        question = self._question
        if question.people is None:
            raise TypeError("there are no people")
        numbers = tuple(number for number in self._read if any(number in chosen for chosen in sets))
        try:
            space = Space.of([self._read[number] for number in numbers])
            left = LeftToPeople.of(numbers, space, question.people)
        except ShoalError as error:
            if len(sets) == 1:
                return [self._problem(sets[0], str(error))], 0, set()
            each = [self._for_people([chosen]) for chosen in sets]  # some of them may go together
            return [one for found, _, _ in each for one in found], max(below for _, below, _ in each), set()
        anyset = left.anyset(question.floor, question.newest)
        chosen = [*sets]
        if anyset is not None and anyset.worst not in set(sets):
            chosen.append(anyset.worst)
        found = []
        for one in chosen:
            least, linked, low = left.count(one, question.floor)
            found.append(self._evaluation(one, question.basis, least, left.people, linked, low))
            self._step.advance(1)
        return found, 0 if anyset is None else anyset.below, {*numbers}

    def _for_classes(self, chosen: Set) -> Evaluation:
        """Evaluate a set for whoever can be."""
        linkables = [self._read[number] for number in chosen]
        floor = self._question.floor
        self._step.advance(1)
        result = partial(self._evaluation, chosen, "classes")
        if len(chosen) == 1:
            one, distinct = linkables[0], linkables[0].histograms.distinct
            below = min(one.n_rows, one.records_in(np.flatnonzero(distinct < floor)))
            return result(int(distinct.min()), one.n_rows, one.n_rows, below)
        try:
            space = Space.of(linkables)
        except ShoalError as error:
            return self._problem(chosen, str(error))
        try:
            found = link_classes(space, linkables, floor)
        except InputError:  # nobody can be in all of them
            return result(None, min(each.n_rows for each in linkables), 0, 0)
        except ShoalError as error:
            return self._problem(chosen, str(error))
        counts = found["people"], found["people_linked"], found["people_below"]
        return result(found["l"], *counts, exact=found["exact"])

    def _evaluation(
        self, chosen: Set, basis: Basis, l: int | None, people: int, linked: int, below: int, exact: bool = True
    ) -> Evaluation:
        known = tuple(sorted(self._attributes(chosen)))
        floor = self._question.floor
        return Evaluation(chosen, self._sensitive, known, basis, floor, l, people, linked, below, exact)

    def _problem(self, chosen: Set, reason: str) -> Evaluation:
        basis: Basis = "classes" if self._question.people is None else self._question.basis
        return replace(self._evaluation(chosen, basis, None, 0, 0, 0, exact=False), problem=reason)

    def _contradictions(self) -> list[Evaluation]:
        """Say which releases publish the attribute as something else than a sensitive one, which gives it away."""
        newest = self._question.newest
        reason = f"{self._sensitive!r} is sensitive in one release, and published as something else in another"
        return [
            self._problem((member, other), reason)
            for other in self._openly
            for member in self._members
            if newest is None or newest in (member, other)
        ]


def _find_other_groups(releases: Sequence[Held]) -> set[int]:
    """Return the releases that have the items of a column in other groups than the first one that has it."""
    groups: dict[str, Any] = {}
    return {
        each.number
        for each in releases
        for column, entry in each.manifest.get("items", {}).items()
        if groups.setdefault(column, entry) != entry
    }


def _reason(error: ShoalError, release: Held) -> str:
    """Return why a release cannot be read, without the folder where it lies for the time being."""
    return str(error).replace(str(release.folder), f"release {release.number}" if release.number else "this release")


def sets_among(releases: Sequence[int], newest: int | None = None) -> list[Set]:
    """Return all sets of releases, or of many those of up to three, and all together; only those with the *newest*.

    >>> sets_among([1, 2]), sets_among([1, 2, 3], 3)
    ([(1,), (2,), (1, 2)], [(3,), (1, 3), (2, 3), (1, 2, 3)])
    """
    n, fixed = len(releases), () if newest is None else (newest,)
    others = [number for number in releases if number != newest]
    sizes = range(1, n + 1) if is_complete(n) else (1, 2, 3, n)
    return [(*chosen, *fixed) for size in sizes for chosen in combinations(others, size - len(fixed))]


def is_complete(n_releases: int) -> bool:
    """Whether every set of so many releases is looked at."""
    return n_releases <= EXHAUSTIVE


@dataclass(frozen=True, slots=True, eq=False)
class Anyset:
    """The least that any set of releases leaves to anybody, whichever set it is."""

    l: int
    below: int  # people
    worst: Set  # a set that leaves l, none of whose releases could be missing


@dataclass(frozen=True, slots=True, eq=False)
class LeftToPeople:
    """Which sensitive values each release leaves to whom.

    Of a set of releases those values remain that all of them leave. Somebody may be in any of the sets that leave
    something: who has the value v is at most in the releases that leave v, and the more of them, the less remains.
    So of all 2^n sets only one for each value need be looked at, and :meth:`anyset` knows the least of all.
    """

    numbers: Set  # (n_releases,)
    bits: KeyArray  # (n_releases, n_queries, n_words) the values that remain
    rows: IntArray  # (n_queries,) people with these quasi values

    @classmethod
    def of(cls, numbers: Set, space: Space, people: Source) -> LeftToPeople:
        """Look up the quasi values of all people in each release."""
        queries, whose = space.queries_of(people)
        n_words = -(-len(space.values) // 64)
        if len(numbers) * len(queries) * n_words > _MOST_WORDS:
            raise UsageError("the releases have too many values, or there are too many people, to link them all")
        bits = np.zeros((len(numbers), len(queries), n_words), dtype=np.uint64)
        indexes = space.index()
        for block in space.blocks(len(queries)):
            sums, _ = space.look_up(indexes, queries[block])
            for place, counts in enumerate(sums):
                packed = np.packbits(counts > 0, axis=1, bitorder="little")  # (n_block, n_bytes)
                bits[place, block].view(np.uint8)[:, : packed.shape[1]] = packed
        return cls(numbers, bits, np.bincount(whose, minlength=len(queries)).astype(np.int64))

    @property
    def people(self) -> int:
        """How many people there are."""
        return int(self.rows.sum())

    def remaining(self, chosen: Set) -> IntArray:
        """(n_queries,) how many values a set of releases leaves; 0 to those who cannot be in all of them."""
        places = [self.numbers.index(number) for number in chosen]
        return count_bits(np.bitwise_and.reduce(self.bits[places], axis=0))

    def count(self, chosen: Set, floor: int) -> tuple[int | None, int, int]:
        """Return the least that a set leaves to anybody, how many people can be in it, and how many are below."""
        left = self.remaining(chosen)
        linked = left > 0
        least = int(left[linked].min()) if linked.any() else None
        return least, int(self.rows[linked].sum()), int(self.rows[linked & (left < floor)].sum())

    def anyset(self, floor: int, newest: int | None = None) -> Anyset | None:
        """Return the least of all sets, of those with *newest* if it is given; None if nobody is in any release."""
        start = np.bitwise_or.reduce(self.bits, axis=0) if newest is None else self.bits[self.numbers.index(newest)]
        if not start.any():
            return None
        below = np.zeros(len(self.rows), dtype=np.bool_)
        least, worst = np.iinfo(np.int64).max, (0, 0)
        for value in range(64 * start.shape[1]):
            queries = np.flatnonzero(_has(start, value))
            if not len(queries):
                continue
            left = count_bits(self._with_value(queries, value))
            below[queries] |= left < floor
            place = int(left.argmin())
            if left[place] < least:
                least, worst = int(left[place]), (int(queries[place]), value)
        return Anyset(least, int(self.rows[below].sum()), self._minimal_set(*worst, newest))

    def _with_value(self, queries: IntArray, value: int) -> KeyArray:
        """(n_chosen, n_words) what all releases leave together that leave this value."""
        left = np.full((len(queries), self.bits.shape[2]), np.iinfo(np.uint64).max, dtype=np.uint64)
        for each in self.bits:
            own = each[queries]
            left &= np.where(_has(own, value)[:, None], own, np.iinfo(np.uint64).max)
        return left

    def _minimal_set(self, query: int, value: int, newest: int | None) -> Set:
        """Return releases that leave the same as all those that leave the value, none of them in vain."""
        chosen = [place for place in range(len(self.numbers)) if _has(self.bits[place, query][None], value)[0]]
        least = int(count_bits(np.bitwise_and.reduce(self.bits[chosen, query], axis=0)[None])[0])
        for place in list(chosen):
            fewer = [other for other in chosen if other != place]
            if not fewer or self.numbers[place] == newest:
                continue
            if int(count_bits(np.bitwise_and.reduce(self.bits[fewer, query], axis=0)[None])[0]) == least:
                chosen = fewer
        return tuple(self.numbers[place] for place in chosen)


def count_bits(bits: KeyArray) -> IntArray:
    """(n,) how many bits the words of each row have."""
    counts: IntArray = np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
    return counts


def _has(bits: KeyArray, value: int) -> BoolArray:
    """(n,) whether each row has this bit."""
    word, place = divmod(value, 64)
    return (bits[:, word] >> np.uint64(place)) & np.uint64(1) > 0
