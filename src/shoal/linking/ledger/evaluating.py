"""What sets of releases leave: for given people exactly, without them for whoever can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError, ShoalError, UsageError
from shoal.core.progress import Progress, Step
from shoal.core.wording import join_words
from shoal.linking.beliefs import BeliefJudge, Promised
from shoal.linking.kernels import stack_counts
from shoal.linking.ledger.records import Basis, Evaluation, Terms
from shoal.linking.linkable import Linkable
from shoal.linking.linking import judge_classes, link_classes
from shoal.linking.reading import explain_changes, read_linkables, refuse_common_tokens
from shoal.linking.space import Space, fold_name
from shoal.release.sliced.table import number_rows
from shoal.sources.base import Source

EXHAUSTIVE = 7  # of so many releases, every set is looked at


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A release that can be read: its number, its public folder, its manifest, and what its owner said of it."""

    number: int
    folder: Path
    manifest: Mapping[str, Any]
    terms: Terms = field(default_factory=Terms)

    def names(self, *roles: str) -> dict[str, str]:
        """Return the columns, of some roles or all, by the normal form of what the population's releases call them."""
        found: dict[str, str] = {}
        for name, entry in self.manifest["attributes"].items():
            if roles and entry["role"] not in roles:
                continue
            form = fold_name(self.terms.same_as.get(name, name))
            if form in found:
                raise InputError(
                    f"the columns {found[form]!r} and {name!r} have one name to a ledger; rename one of them in the "
                    "table, or leave it out"
                )
            found[form] = name
        return found

    def accepts(self, sensitive: str) -> str | None:
        """Return why its owner accepts that it is not linked by a sensitive attribute; None: nobody does."""
        reasons = {fold_name(self.terms.same_as.get(name, name)): why for name, why in self.terms.accepted.items()}
        return reasons.get(sensitive)


@dataclass(frozen=True, slots=True)
class AttributeLinkage:
    """What was found of one sensitive attribute.

    ``below`` counts people who are below the floor by any set of releases, as far as they were counted. If the answer
    is not ``complete``, sets of more than three releases, but for all together, were not looked at.
    """

    sensitive: str
    column: str  # what the newest release calls it
    evaluations: tuple[Evaluation, ...]
    people: int
    below: int
    complete: bool

    @property
    def failing(self) -> list[Evaluation]:
        """The sets that leave too little or are not known not to, worst first."""
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
    *known* answers are not looked at again. The newest comes last.
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

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the people by the normal form of what releases call them."""
        same_as = self.releases[-1].terms.same_as if self.newest is not None else {}
        names = () if self.people is None else self.people.schema.names
        return {fold_name(same_as.get(name, name)): name for name in names}


def evaluate(question: Question, progress: Progress) -> list[AttributeLinkage]:
    """Look at every set of releases that has a sensitive attribute in common, attribute by attribute.

    An attribute that is quasi in one of the releases is taken as known in all of them.
    """
    quasi = {form for each in question.releases for form in each.names("quasi")}
    newest = [each for each in question.releases if each.number == question.newest] or question.releases
    published = {form for each in newest for form in each.names()}
    found = []
    for sensitive in dict.fromkeys(form for each in question.releases for form in each.names("sensitive")):
        if sensitive in published:
            with progress.step(f"linking {sensitive}", unit="sets") as step:
                found.append(_OneAttribute(question, sensitive, quasi - {sensitive}, step).link())
    return found


class _OneAttribute:
    """The evaluation of all sets for one sensitive attribute, which is known by its normal form."""

    def __init__(self, question: Question, sensitive: str, quasi: set[str], step: Step) -> None:
        self._question, self._form, self._step = question, sensitive, step
        by_number = {each.number: each for each in question.releases}
        self._columns = {
            number: each.names()[sensitive] for number, each in by_number.items() if sensitive in each.names()
        }
        self._sensitive = next(iter(self._columns.values()))
        self._members = {number: each for number, each in by_number.items() if sensitive in each.names("sensitive")}
        self._told = {number: quasi & {*each.names("quasi", "insensitive")} for number, each in self._members.items()}
        self._read: dict[int, Linkable] = {}
        self._promised: dict[int, list[Promised]] = {}
        self._unread: dict[int, str] = {}
        self._partly: dict[int, str] = {}  # which of its quasi-identifiers are not looked at
        otherwise = _find_other_groups(sorted(self._members.values(), key=lambda each: each.number != question.newest))
        for number, each in self._members.items():
            if number in otherwise:
                self._unread[number] = "items are in other groups, so that nobody would be found"
                continue
            try:
                self._read_release(each)
            except ShoalError as error:  # said without the folder where it lies for the time being
                named = f"release {each.number}" if each.number else "this release"
                self._unread[number] = str(error).replace(str(each.folder), named)

    def _read_release(self, each: Held) -> None:
        """Read a release as far as it can be: without quasi-identifiers that were changed."""
        own = {name: form for form, name in each.names().items() if form in self._told[each.number]}
        changed = explain_changes(each.manifest, own)
        if changed:
            self._partly[each.number] = "; ".join(changed.values())
        known = {name for name in own if name not in changed}
        column = self._columns[each.number]
        (linkable,), _ = read_linkables([each.folder], sensitive=column, known=lambda _: known)
        columns = tuple(replace(one, name=own[one.name]) for one in linkable.columns)
        self._promised[each.number] = Promised.read(each.manifest, column)
        self._read[each.number] = replace(linkable, columns=columns)

    def link(self) -> AttributeLinkage:
        question = self._question
        numbers = tuple(self._members)
        sets = sets_among(numbers, question.newest) if question.newest in (None, *numbers) else []
        answers = {chosen: question.known(self._sensitive, chosen, self._attributes(chosen)) for chosen in sets}
        found = [answer for answer in answers.values() if answer is not None]
        by_people = []
        # Where the table of people lacks an attribute by which somebody could be found, too much would seem to be left.
        for chosen in (chosen for chosen, answer in answers.items() if answer is None):
            if unread := [self._unread[number] for number in chosen if number in self._unread]:
                if len(chosen) > 1:
                    found.append(self._problem(chosen, "; ".join(unread)))
            elif self._attributes(chosen) <= question.columns.keys():
                by_people.append(chosen)
            elif len(chosen) == 2 and not self._told[chosen[0]] & self._told[chosen[1]]:
                found.append(self._problem(chosen, "they have no quasi-identifier in common to look people up by"))
            else:
                found.append(self._for_classes(chosen))
        below, covered = 0, set[int]()
        if by_people:
            more, below, covered = self._for_people(by_people)
            found += more
        found += [self._problem(chosen, reason) for chosen, reason in self._find_unlinked()]
        complete = is_complete(len(numbers)) or (covered == {*numbers} and not any(self._promised.values()))
        below = max([below, *(each.below or 0 for each in found)])
        people = max([each.people for each in found], default=0)
        column = self._columns.get(question.newest or 0, self._sensitive)
        return AttributeLinkage(self._sensitive, column, tuple(found), people, below, complete)

    def _attributes(self, chosen: Set) -> set[str]:
        """Return what somebody may know of people in a set of releases, as far as it is looked at."""
        read = [self._read[number] for number in chosen if number in self._read]
        return {column.name for each in read for column in each.columns}

    def _for_people(self, sets: Sequence[Set]) -> tuple[list[Evaluation], int, set[int]]:
        """Evaluate sets for the people; also how many are below by any set, and among which releases."""
        question = self._question
        if question.people is None:
            raise TypeError("there are no people")
        numbers = tuple(number for number in self._read if any(number in chosen for chosen in sets))
        try:
            space = Space.of([self._read[number] for number in numbers], fold=True)
            left = LeftToPeople.of(numbers, space, question.people, question.columns)
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
            answer = self._evaluation(one, question.basis, least, left.people, linked, low)
            found.append(self._believe(answer, space, left.find_places(one), partial(left.judge, space, one)))
            self._step.advance(1)
        return found, 0 if anyset is None else anyset.below, {*numbers}

    def _for_classes(self, chosen: Set) -> Evaluation:
        """Evaluate a set for whoever can be."""
        linkables = [self._read[number] for number in chosen]
        self._step.advance(1)
        n_rows = min(each.n_rows for each in linkables)
        floor = self._question.floor
        try:
            space = Space.of(linkables, fold=True)
            if len(chosen) == 1:
                distinct = space.releases[0].histograms.distinct
                below = min(n_rows, linkables[0].records_in(np.flatnonzero(distinct < floor)))
                answer = self._evaluation(chosen, "classes", int(distinct.min()), n_rows, n_rows, below)
            else:
                try:
                    found = link_classes(space, linkables, floor)
                except InputError:  # nobody can be in all of them
                    return self._evaluation(chosen, "classes", None, n_rows, 0, 0)
                counts = found["people"], found["people_linked"], found["people_below"]
                answer = self._evaluation(chosen, "classes", found["l"], *counts, exact=found["exact"])
            return self._believe(answer, space, range(len(chosen)), partial(judge_classes, space, linkables))
        except ShoalError as error:
            return self._problem(chosen, str(error))

    def _believe(
        self, answer: Evaluation, space: Space, places: Sequence[int], judge: Callable[[BeliefJudge], tuple[int, float]]
    ) -> Evaluation:
        """Add to an answer whether beliefs keep what any of the releases promises about shares."""
        promised = [one for number in answer.releases for one in self._promised[number]]
        if not promised or not answer.linked:
            return answer
        asked = BeliefJudge(promised, space.values, space.tables[[*places]].sum(axis=0))
        try:
            unkept, belief = judge(asked)
        except ShoalError as error:
            return self._problem(answer.releases, str(error))
        return replace(answer, promised=asked.text, unkept=unkept, belief=belief)

    def _evaluation(
        self, chosen: Set, basis: Basis, l: int | None, people: int, linked: int, below: int, exact: bool = True
    ) -> Evaluation:
        known = tuple(sorted(self._attributes(chosen)))
        partly = [self._partly[number] for number in chosen if number in self._partly and len(chosen) > 1]
        counts = l, people, linked, below
        found = Evaluation(chosen, self._sensitive, known, basis, self._question.floor, *counts, exact)
        return self._accept(replace(found, problem="; ".join(partly) or None))

    def _problem(self, chosen: Set, reason: str) -> Evaluation:
        basis: Basis = "classes" if self._question.people is None else self._question.basis
        return self._accept(replace(self._evaluation(chosen, basis, None, 0, 0, 0, exact=False), problem=reason))

    def _accept(self, found: Evaluation) -> Evaluation:
        """Note why the owner of the set's newest release accepts that it is not linked, if it is not."""
        newest = next(each for each in self._question.releases if each.number == found.releases[-1])
        return replace(found, accepted=newest.accepts(self._form) if found.unlinked else None)

    def _find_unlinked(self) -> list[tuple[Set, str]]:
        """Return the pairs in which another release may give the attribute away without being linked, and why."""
        found: list[tuple[Set, str]] = []
        for first, second in combinations(self._question.releases, 2):
            pair = first.number, second.number
            members = [each for each in (first, second) if each.number in self._members]
            if not members or self._question.newest not in (None, *pair):
                continue
            if len(members) == 2:
                try:
                    refuse_common_tokens([(f"release {each.number or 'now'}", each.manifest) for each in members])
                except InputError as error:
                    found.append((pair, str(error)))
                continue
            (member,) = members
            other = second if member is first else first
            if other.number in self._columns:
                reason = f"{self._sensitive!r} is sensitive in one release, and published as something else in another"
                found.append((pair, reason))
            elif member is second and (lacking := other.names("sensitive").keys() - member.names("sensitive").keys()):
                names = join_words([repr(other.names()[form]) for form in sorted(lacking)])
                found.append((pair, f"{self._columns[member.number]!r} may be another name of {names}"))
        return found


def _find_other_groups(releases: Sequence[Held]) -> set[int]:
    """Return the releases that have the items of a column in other groups than the first one that has it."""
    groups: dict[str, Any] = {}
    return {
        each.number
        for each in releases
        for column, entry in each.manifest.get("items", {}).items()
        if groups.setdefault(column, entry) != entry
    }


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


_MOST_WORDS = 2**27
Set = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Anyset:
    """The least that any set of releases leaves to anybody, whichever set it is."""

    l: int
    below: int  # people
    worst: Set  # a set that leaves l, none of whose releases could be missing


@dataclass(frozen=True, slots=True, eq=False)
class LeftToPeople:
    """Which sensitive values each release leaves to whom, and in which of its classes people are.

    Of a set of releases those values remain that all of them leave. Somebody may be in any of the sets that leave
    something: who has the value v is at most in the releases that leave v, and the more of them, the less remains.
    So of all 2^n sets only one for each value need be looked at, and :meth:`anyset` knows the least of all.
    """

    numbers: Set  # (n_releases,)
    bits: KeyArray  # (n_releases, n_queries, n_words) the values that remain
    rows: IntArray  # (n_queries,) people with these quasi values
    queries: CodeArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int32))
    boxes: IntArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))  # (n_releases, n_queries) or -1

    @classmethod
    def of(cls, numbers: Set, space: Space, people: Source, columns_of: Mapping[str, str]) -> LeftToPeople:
        """Look up the quasi values of all people in each release."""
        queries, whose = space.queries_of(people, columns_of)
        n_words = -(-len(space.values) // 64)
        if len(numbers) * len(queries) * n_words > _MOST_WORDS:
            raise UsageError("the releases have too many values, or there are too many people, to link them all")
        bits = np.zeros((len(numbers), len(queries), n_words), dtype=np.uint64)
        indexes = space.index()
        boxes = np.empty((len(numbers), len(queries)), dtype=np.int64)

        def keep(block: slice, sums: list[IntArray], found: list[IntArray]) -> None:
            boxes[:, block] = found
            for place, counts in enumerate(sums):
                packed = np.packbits(counts > 0, axis=1, bitorder="little")  # (n_block, n_bytes)
                bits[place, block].view(np.uint8)[:, : packed.shape[1]] = packed

        space.look_up_all(indexes, queries, keep)
        rows = np.bincount(whose, minlength=len(queries)).astype(np.int64)
        return cls(numbers, bits, rows, queries, boxes)

    @property
    def people(self) -> int:
        """How many people there are."""
        return int(self.rows.sum())

    def remaining(self, chosen: Set) -> IntArray:
        """(n_queries,) how many values a set of releases leaves; 0 to those who cannot be in all of them."""
        return count_bits(np.bitwise_and.reduce(self.bits[self.find_places(chosen)], axis=0))

    def find_places(self, chosen: Set) -> list[int]:
        """Return where releases stand among all of them."""
        return [self.numbers.index(number) for number in chosen]

    def count(self, chosen: Set, floor: int) -> tuple[int | None, int, int]:
        """Return the least that a set leaves to anybody, how many people can be in it, and how many are below."""
        left = self.remaining(chosen)
        linked = left > 0
        least = int(left[linked].min()) if linked.any() else None
        return least, int(self.rows[linked].sum()), int(self.rows[linked & (left < floor)].sum())

    def judge(self, whole: Space, chosen: Set, judge: BeliefJudge) -> tuple[int, float]:
        """Return to how many people a set keeps no promise, and the largest belief.

        Where labels overlap, people are in the class with the narrowest one; where these have no value in common, in
        all that cover them. A class with more or fewer records than there are people for it has others than these: so
        many of those who seem to share classes may not.
        """
        places, some = self.find_places(chosen), np.flatnonzero(self.remaining(chosen) > 0)
        space = replace(whole, releases=tuple(whole.releases[place] for place in places))
        boxes = self.boxes[places]
        owners = [each.owner[own] for each, own in zip(space.releases, boxes, strict=True)]
        group, first = number_rows([owner[some] for owner in owners], len(some))
        sharing = np.bincount(group, weights=self.rows[some]).astype(np.int64)
        example = some[first]
        others = np.zeros(len(example), dtype=np.int64)
        for each, own, owner in zip(space.releases, boxes, owners, strict=True):
            inside = np.where(own < 0, 0, self.rows)
            people = np.bincount(owner, weights=inside, minlength=int(each.owner.max()) + 1).astype(np.int64)
            records = np.add.reduceat(each.histograms.counts, each.histograms.start[:-1])
            others += np.abs(people[owner[example]] - records[own[example]])
        unkept, belief = 0, 0.0
        for block in space.blocks(len(example)):
            whom = example[block]
            left = stack_counts(space.releases, boxes[:, whom], len(space.values))
            apart = np.flatnonzero(left.min(axis=0).sum(axis=1) == 0)
            if len(apart):
                left[:, apart] = np.stack(space.look_up(space.index(), self.queries[whom[apart]])[0])
            kept, largest = judge.judge(left, np.maximum(sharing[block] - others[block], 1), sharing[block])
            unkept += int(sharing[block][~kept].sum())
            belief = max(belief, float(largest.max()))
        return unkept, belief

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
