"""A part of a release with its part of the source: what one check looks at, and what it finds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TypeVar

from shoal.core.arrays import CodeArray, KeyArray
from shoal.verify.coding import CodedRows, CodedSource, Layout, SourceFacts, Subject
from shoal.verify.contents import Contents
from shoal.verify.counting import Counting, Table
from shoal.verify.covers import Covers
from shoal.verify.guarantees import Judged
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Promise
from shoal.verify.room import Room

Result = TypeVar("Result")


class Part(ABC):
    """Coded rows that can be checked by themselves: no class and no true pair of rows leads out of a part.

    All rows are read as often as they are asked for, in the same order; *work* may run ahead in other threads.
    """

    n_rows: int  # of the release, as far as is known

    @abstractmethod
    def release(
        self, work: Callable[[CodedRows], Result], *, labelled: bool
    ) -> Iterator[tuple[Result, tuple[CodeArray, ...]]]:
        """Yield work(batch) of every batch of the release, and the numbers of its values for each subject.

        Unless they are to be *labelled*, batches may come without labels.
        """

    @abstractmethod
    def source(self, work: Callable[[CodedSource], Result], title: str) -> Iterator[Result]:
        """Yield work(batch) of every batch of the source."""

    @abstractmethod
    def population(self, name: str, work: Callable[[CodeArray], Result]) -> Iterator[Result]:
        """Yield work(points) of every batch of a population."""

    @abstractmethod
    def tables(self) -> tuple[Table, ...]:
        """Return the values of each subject, once all rows of the release were read."""


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What is asked of a part; it is the same for all parts of a release."""

    manifest: Manifest
    layout: Layout
    subjects: tuple[Subject, ...]
    promises: tuple[Promise, ...]
    populations: tuple[str, ...]  # that classes are compared with
    key: KeyArray | None  # of contents, if rows are compared with a source
    covers: Mapping[str, Covers] | Future[dict[str, Covers]]  # what labels cover, once it was read

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        layout: Layout,
        promises: Sequence[Promise],
        populations: Collection[str],
        contents: Contents | None,
        covers: Mapping[str, Covers] | Future[dict[str, Covers]],
    ) -> Task:
        """Ask for all promises and, with the hasher of contents, for the truth."""
        subjects = {subject: None for promise in promises for subject in promise.subjects}
        key = None if contents is None else contents.key
        return cls(manifest, layout, tuple(subjects), tuple(promises), tuple(populations), key, covers)

    def settled(self) -> Task:
        """Return the same with covers that were read, which other processes can have."""
        return replace(self, covers=self._covers)

    @property
    def quasi(self) -> list[Covers]:
        """What labels of the attributes that make classes cover."""
        return [self._covers[self.layout.labelled[a]] for a in self.layout.quasi]

    @property
    def boxed(self) -> list[Covers]:
        """What labels of the attributes that rows are matched by cover."""
        return [self._covers[self.layout.labelled[a]] for a in self.layout.boxed]

    @property
    def _covers(self) -> Mapping[str, Covers]:
        return self.covers.result() if isinstance(self.covers, Future) else self.covers

    @property
    def promises_only(self) -> Task:
        """The same without a source."""
        return replace(self, key=None)

    @property
    def truth_only(self) -> Task:
        """The same without promises."""
        return replace(self, promises=(), subjects=(), populations=())

    def counting(self, room: Room) -> Counting:
        """Return what counts the rows of a part."""
        located = self.key is not None or bool(self.populations)
        n_subjects, with_classes = len(self.subjects), bool(self.promises)
        return Counting(self.layout, n_subjects, self.key, room, with_classes=with_classes, located=located)


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found in a part; findings of different parts can be joined."""

    judged: tuple[Judged, ...] | None = None  # of each promise; None if there are no rows
    uncovered: Mapping[str, int] | None = None  # rows of populations that no class covers
    false_rows: int = 0

    def joined(self, other: Findings, task: Task) -> Findings:
        """Return what was found in both."""
        judged = self.judged if other.judged is None else other.judged
        if self.judged is not None and other.judged is not None:
            both = zip(self.judged, other.judged, task.promises, strict=True)
            judged = tuple(one.joined(another, promise) for one, another, promise in both)
        uncovered = dict(self.uncovered or {})
        for name, rows in (other.uncovered or {}).items():
            uncovered[name] = uncovered.get(name, 0) + rows
        return Findings(judged, uncovered, self.false_rows + other.false_rows)


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """What was found in all rows."""

    found: Findings
    rows: int  # of the release
    facts: SourceFacts | None  # of the source, if there is one


def unchanged(batch: Result) -> Result:
    """Return a batch as it is."""
    return batch
