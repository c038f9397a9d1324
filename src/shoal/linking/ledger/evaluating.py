"""Evaluating sets of releases: exactly for given people, or by classes for any people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from shoal.core.errors import InputError, ShoalError
from shoal.core.progress import Progress, Step
from shoal.core.wording import join_words
from shoal.linking.beliefs import DISTINCT, BeliefJudge, Promise
from shoal.linking.ledger.comparing import LeftToPeople, OccupiedClasses, Set, count_sharing, subtract_classes
from shoal.linking.ledger.records import Basis, Evaluation, Terms
from shoal.linking.linkable import Linkable
from shoal.linking.linking import judge_classes, link_classes
from shoal.linking.reading import explain_changes, find_common_tokens, read_linkables
from shoal.linking.space import Space, fold_name
from shoal.manifest import Manifest
from shoal.release.forms.base import read_form
from shoal.release.published import encode_column, read_columns
from shoal.release.sliced.table import number_rows
from shoal.sources.base import Source

EXHAUSTIVE = 7  # largest number of releases of which all sets are evaluated
PEOPLE = ""  # replaces a sensitive attribute in evaluations of how many people share their classes
_SIZES = ("k-anonymity", "alpha-k-anonymity", "k-delta-anonymity")  # models that guarantee a class size


@dataclass(frozen=True, slots=True, eq=False)
class LinkedRelease:
    """A release that can be read: its number, its public folder, its manifest, and its owner's statements."""

    number: int
    folder: Path
    manifest: Manifest
    terms: Terms = field(default_factory=Terms)

    def names(self, *roles: str) -> dict[str, str]:
        """Return the columns, of some roles or all, by the normal form of their names in the population's releases."""
        found: dict[str, str] = {}
        for name in self.manifest.names(*roles):
            form = fold_name(self.terms.same_as.get(name, name))
            if form in found:
                raise InputError(
                    f"the columns {found[form]!r} and {name!r} have one name to a ledger; rename one of them in the "
                    "table, or drop it"
                )
            found[form] = name
        return found

    @property
    def k(self) -> int | None:
        """The class size that it guarantees; None if it guarantees none, or has no classes of whole records."""
        sizes = [one.parameters["k"] for one in self.manifest.guarantees if one.model in _SIZES]
        return max(sizes) if sizes and read_form(self.manifest).whole_records else None

    def accepts(self, sensitive: str) -> str | None:
        """Return why its owner accepts that it is not linked by a column, or by people; None if not accepted."""
        reasons = {fold_name(self.terms.same_as.get(name, name)): why for name, why in self.terms.accepted.items()}
        return reasons.get(sensitive)


@dataclass(frozen=True, slots=True)
class AttributeLinkage:
    """The evaluations for one sensitive attribute.

    ``below`` counts people who are below the floor by any set of releases, as far as they were counted. If the result
    is not ``complete``, only sets of up to three releases, and all releases together, were evaluated.
    """

    sensitive: str
    column: str  # its name in the newest release
    evaluations: tuple[Evaluation, ...]
    people: int
    below: int
    complete: bool

    @property
    def failing(self) -> list[Evaluation]:
        """The sets that violate a limit or could not be linked, worst first."""
        worst = sorted(self.evaluations, key=lambda each: (each.problem is not None, each.l or 0, len(each.releases)))
        return [each for each in worst if each.fails]

    @property
    def l(self) -> int | None:  # noqa: E743
        """The minimum number of values that any set leaves to a person."""
        return min((each.l for each in self.evaluations if each.l is not None), default=None)

    def as_dict(self) -> dict[str, object]:
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
    """Releases about one population whose sets are to be evaluated.

    With *newest*, only sets that contain it are. *people* are rows of its source, or of a table of people. Sets with a
    *known* evaluation are not evaluated again. The newest release is the last one.
    """

    releases: Sequence[LinkedRelease]
    floor: int
    newest: int | None = None
    people: Source | None = None
    known: Callable[[str, Set, set[str]], Evaluation | None] = field(default=lambda *_: None)

    @property
    def basis(self) -> Basis:
        return "people" if self.newest is None else "source"

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the people by the normal form of their names in releases."""
        same_as = self.releases[-1].terms.same_as if self.newest is not None else {}
        names = () if self.people is None else self.people.schema.names
        return {fold_name(same_as.get(name, name)): name for name in names}


def evaluate(question: Question, progress: Progress) -> list[AttributeLinkage]:
    """Evaluate every set of releases that has a sensitive attribute in common, attribute by attribute.

    An attribute that is quasi in one of the releases is assumed to be known in all of them.
    """
    quasi = {form for each in question.releases for form in each.names("quasi")}
    newest = [each for each in question.releases if each.number == question.newest] or question.releases
    published = {form for each in newest for form in each.names()}
    found = []
    for sensitive in dict.fromkeys(form for each in question.releases for form in each.names("sensitive")):
        if sensitive in published:
            with progress.step(f"linking {sensitive}", unit="sets") as step:
                found.append(_OneAttribute(question, sensitive, quasi - {sensitive}, step).link())
    sized = [each.number for each in question.releases if each.k is not None]
    if len(sized) > 1 and question.newest in (None, *sized):
        with progress.step("linking classes", unit="sets") as step:
            found.append(_JointClasses(question, PEOPLE, quasi, step).link())
    return [*found, *_find_tokens(question)]


def _find_tokens(question: Question) -> list[AttributeLinkage]:
    """Return for each column of tokens the pairs of releases whose rows it joins, which no class prevents."""
    found: dict[str, list[Evaluation]] = {}
    for first, second in combinations(question.releases, 2):
        pair = first.number, second.number
        if question.newest in (None, *pair):
            for column, reason in find_common_tokens(first.manifest, second.manifest).items():
                accepted = second.accepts(fold_name(second.terms.same_as.get(column, column)))
                one = Evaluation(pair, column, (column,), "classes", question.floor, None, 0, 0, 0, False)
                one = replace(one, problem=f"they have {reason}", accepted=accepted)
                found.setdefault(column, []).append(one)
    return [AttributeLinkage(column, column, tuple(each), 0, 0, True) for column, each in found.items()]


class _OneAttribute:
    """The evaluation of all sets for one sensitive attribute, given by its normal form."""

    smallest = 1  # releases of a set
    searches = True  # whether to search the worst of all sets

    def __init__(self, question: Question, sensitive: str, quasi: set[str], step: Step) -> None:
        self._question, self._form, self._step = question, sensitive, step
        by_number = {each.number: each for each in question.releases}
        self._columns = {
            number: each.names()[sensitive] for number, each in by_number.items() if sensitive in each.names()
        }
        self._sensitive = next(iter(self._columns.values()), PEOPLE)
        self._members = {number: each for number, each in by_number.items() if self._has(each)}
        self._told = {number: quasi & {*each.names("quasi", "insensitive")} for number, each in self._members.items()}
        self._read: dict[int, Linkable] = {}
        self._promised: dict[int, list[Promise]] = {}
        self._unread: dict[int, str] = {}
        self._partly: dict[int, str] = {}  # its quasi-identifiers that are not used
        otherwise = _find_other_groups(sorted(self._members.values(), key=lambda each: each.number != question.newest))
        for number, each in self._members.items():
            if number in otherwise:
                self._unread[number] = "items are in other groups, so people would not be found"
                continue
            try:
                self._read_release(each)
            except ShoalError as error:  # without the temporary folder in its message
                named = f"release {each.number}" if each.number else "this release"
                self._unread[number] = str(error).replace(str(each.folder), named)

    def _has(self, each: LinkedRelease) -> bool:
        return self._form in each.names("sensitive")

    def _read_release(self, each: LinkedRelease) -> None:
        """Read a release as far as possible: without quasi-identifiers that were changed."""
        own = {name: form for form, name in each.names().items() if form in self._told[each.number]}
        changed = explain_changes(each.manifest, own)
        if changed:
            self._partly[each.number] = "; ".join(changed.values())
        known = {name for name in own if name not in changed}
        column = self._columns.get(each.number, PEOPLE)
        (linkable,), _ = read_linkables([each.folder], sensitive=column, known=lambda _: known)
        columns = tuple(replace(one, name=own[one.name]) for one in linkable.columns)
        self._promised[each.number] = Promise.read(each.manifest, column) if column else []
        self._read[each.number] = replace(linkable, columns=columns)

    def link(self) -> AttributeLinkage:
        question = self._question
        numbers = tuple(self._members)
        sets = sets_among(numbers, question.newest) if question.newest in (None, *numbers) else []
        sets = [chosen for chosen in sets if len(chosen) >= self.smallest]
        answers = {chosen: question.known(self._sensitive, chosen, self._attributes(chosen)) for chosen in sets}
        found = [answer for answer in answers.values() if answer is not None]
        by_people = []
        # If the table of people lacks an attribute of the adversary, too many values would seem to remain.
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
        searched = self.searches and covered == {*numbers} and not self._list_promises(numbers, shares=True)
        complete = is_complete(len(numbers)) or searched
        below = max([below, *(each.below or 0 for each in found)])
        people = max([each.people for each in found], default=0)
        column = self._columns.get(question.newest or 0, self._sensitive)
        return AttributeLinkage(self._sensitive, column, tuple(found), people, below, complete)

    def _attributes(self, chosen: Set) -> set[str]:
        """Return the attributes of people that an adversary may know in a set of releases, as far as they are used."""
        read = [self._read[number] for number in chosen if number in self._read]
        return {column.name for each in read for column in each.columns}

    def _for_people(self, sets: Sequence[Set]) -> tuple[list[Evaluation], int, set[int]]:
        """Evaluate sets for the people, count people below the floor by any set, and list the releases covered."""
        question = self._question
        if question.people is None:
            raise TypeError("no people were given")
        numbers = tuple(number for number in self._read if any(number in chosen for chosen in sets))
        try:
            space = Space.of([self._read[number] for number in numbers], fold=True)
            left = LeftToPeople.of(numbers, space, question.people, question.columns)
        except ShoalError as error:
            if len(sets) == 1:
                return [self._problem(sets[0], str(error))], 0, set()
            each = [self._for_people([chosen]) for chosen in sets]  # some of them may go together
            return [one for found, _, _ in each for one in found], max(below for _, below, _ in each), set()
        anyset = left.anyset(question.floor, question.newest) if self.searches else None
        chosen = [*sets]
        if anyset is not None and anyset.worst not in set(sets):
            chosen.append(anyset.worst)
        found = []
        for one in chosen:
            try:
                found.append(self._for_set(one, left, space))
            except ShoalError as error:
                found.append(self._problem(one, str(error)))
            self._step.advance(1)
        return found, 0 if anyset is None else anyset.below, {*numbers}

    def _for_set(self, chosen: Set, left: LeftToPeople, space: Space) -> Evaluation:
        least, linked, low = left.count(chosen, self._question.floor)
        places = left.find_places(chosen)
        answer = self._evaluation(chosen, self._question.basis, least, left.people, linked, low)
        answer = self._believe(answer, space, places, partial(left.judge, space, chosen))
        if len(chosen) != 2 or not linked or not all(self._read[number].classes for number in chosen):
            return answer
        one, other = (self._occupy(number, left, space) for number in chosen)
        judge = BeliefJudge(self._list_promises(chosen), space.values, space.tables[places].sum(axis=0))
        exposed, least = subtract_classes(one, other, left.rows, self._question.floor, judge)
        return replace(answer, exposed=exposed, difference=least)

    def _occupy(self, number: int, left: LeftToPeople, space: Space) -> OccupiedClasses:
        (place,) = left.find_places((number,))
        return OccupiedClasses.of(left.found[place], space.releases[place], self._read[number].records, left.rows)

    def _list_promises(self, chosen: Set, *, shares: bool = False) -> list[Promise]:
        """Return the guarantees of releases about the attribute's values, or only the ones about shares."""
        promised = [one for number in chosen for one in self._promised.get(number, ())]
        return [one for one in promised if not shares or one.model.name != DISTINCT]

    def _for_classes(self, chosen: Set) -> Evaluation:
        """Evaluate a set for all possible people."""
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
                except InputError:  # no person can be in all of them
                    return self._evaluation(chosen, "classes", None, n_rows, 0, 0)
                counts = found["people"], found["people_linked"], found["people_below"]
                answer = self._evaluation(chosen, "classes", found["l"], *counts, exact=found["exact"])
            return self._believe(answer, space, range(len(chosen)), partial(judge_classes, space, linkables))
        except ShoalError as error:
            return self._problem(chosen, str(error))

    def _believe(
        self, answer: Evaluation, space: Space, places: Sequence[int], judge: Callable[[BeliefJudge], tuple[int, float]]
    ) -> Evaluation:
        """Add to an evaluation whether beliefs satisfy the releases' guarantees about shares."""
        promised = self._list_promises(answer.releases, shares=True)
        if not promised or not answer.linked:
            return answer
        asked = BeliefJudge(promised, space.values, space.tables[[*places]].sum(axis=0))
        unkept, belief = judge(asked)
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
        """Add why the owner of the set's newest release accepts that it is not linked, if so."""
        newest = next(each for each in self._question.releases if each.number == found.releases[-1])
        return replace(found, accepted=newest.accepts(self._form) if found.unlinked else None)

    def _find_unlinked(self) -> list[tuple[Set, str]]:
        """Return the pairs in which another release may reveal the attribute without being linked, and why."""
        found: list[tuple[Set, str]] = []
        for first, second in combinations(self._question.releases, 2):
            pair = first.number, second.number
            members = [each for each in (first, second) if each.number in self._members]
            if len(members) != 1 or self._question.newest not in (None, *pair):
                continue
            (member,) = members
            other = second if member is first else first
            if other.number in self._columns:
                reason = f"{self._sensitive!r} is sensitive in one release, and has another role in the other"
                found.append((pair, reason))
            elif member is second and (lacking := other.names("sensitive").keys() - member.names("sensitive").keys()):
                names = join_words([repr(other.names()[form]) for form in sorted(lacking)])
                found.append((pair, f"{self._columns[member.number]!r} may be another name of {names}"))
        return found


class _JointClasses(_OneAttribute):
    """The evaluation of sets of releases that guarantee a class size: how many people share all classes."""

    smallest = 2
    searches = False

    def _has(self, each: LinkedRelease) -> bool:
        return each.k is not None

    def _find_unlinked(self) -> list[tuple[Set, str]]:
        return []

    def _for_classes(self, chosen: Set) -> Evaluation:
        self._step.advance(1)
        return self._problem(chosen, "how many people share their classes is not known without a table of the people")

    def _for_set(self, chosen: Set, left: LeftToPeople, space: Space) -> Evaluation:
        """Count the people who share the classes of a set, also by the insensitive columns that join its records."""
        question, members = self._question, [self._members[number] for number in chosen]
        changed = {
            form for each in members for form, name in each.names().items() if explain_changes(each.manifest, [name])
        }
        common = set.intersection(*({*each.names("insensitive")} for each in members)) & question.columns.keys()
        columns = [question.columns[form] for form in sorted(common - changed - self._attributes(chosen))]
        codes = []
        if columns and question.people is not None:
            codes = [encode_column(column)[0] for column in read_columns(question.people, columns).columns]
        split, _ = number_rows(codes, len(left.whose))
        alike, first = number_rows([left.whose, split], len(left.whose))
        rows = np.bincount(alike).astype(np.int64)
        occupied = [self._occupy(number, left, space) for number in chosen]
        sizes = count_sharing(occupied, left.whose[first], rows, split[first])
        linked, k = sizes > 0, min(each.k or 0 for each in members)
        n_linked, below, alone = (int(rows[some].sum()) for some in (linked, linked & (sizes < k), sizes == 1))
        least = int(sizes[linked].min()) if linked.any() else None
        answer = self._evaluation(chosen, question.basis, least, left.people, n_linked, below)
        return replace(answer, floor=k, joined=tuple(columns), alone=alone)


def _find_other_groups(releases: Sequence[LinkedRelease]) -> set[int]:
    """Return the releases in which the items of a column have other groups than in the first one with the column."""
    groups: dict[str, object] = {}
    return {
        each.number
        for each in releases
        for column, entry in each.manifest.items.items()
        if groups.setdefault(column, entry) != entry
    }


def sets_among(releases: Sequence[int], newest: int | None = None) -> list[Set]:
    """Return all sets of releases or, of many, sets of up to three and the whole; only sets with the *newest*.

    >>> sets_among([1, 2]), sets_among([1, 2, 3], 3)
    ([(1,), (2,), (1, 2)], [(3,), (1, 3), (2, 3), (1, 2, 3)])
    """
    n, fixed = len(releases), () if newest is None else (newest,)
    others = [number for number in releases if number != newest]
    sizes = range(1, n + 1) if is_complete(n) else (1, 2, 3, n)
    return [(*chosen, *fixed) for size in sizes for chosen in combinations(others, size - len(fixed))]


def is_complete(n_releases: int) -> bool:
    """Whether all sets of that many releases are evaluated."""
    return n_releases <= EXHAUSTIVE
