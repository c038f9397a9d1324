"""Hints for a project while it is edited: worked out beside the requests, the newest policy only."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from shoal.core.errors import ShoalError
from shoal.policy.policy import Policy
from shoal.studio.feasibility import Costs, Hint, Looked, costs, hints, looked_key
from shoal.studio.project import Project

MOST_LOOKED = 2  # projects whose tables are held as they were counted
PATIENCE = 0.12  # seconds that a request waits for the answer
_UNFORESEEN = "nothing can be said beforehand; the run will tell"


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is known so far; *pending* while some of it is still being counted."""

    hints: tuple[Hint, ...] = ()
    costs: Costs | None = None
    problem: str = ""
    pending: bool = False


class Foresight:
    """Answers for one project: the table is read once for as long as its attributes stay as they are."""

    def __init__(self) -> None:
        """Begin without having looked."""
        self._lock, self._working = threading.Lock(), threading.Lock()
        self._question: tuple[Any, ...] = ()
        self._first: Future[Foreseen] = Future()
        self._whole: Future[Foreseen] = Future()
        self._looked: tuple[str, Looked] | None = None

    @classmethod
    def of(cls, project: Project) -> Foresight:
        """Return the project's own."""
        found: Foresight = project.memory.setdefault("foresight", cls())
        return found

    def ask(self, project: Project, patience: float = PATIENCE) -> Foreseen:
        """Return what is known of the newest policy within *patience* seconds."""
        attached = tuple((name, (project.files / name).stat().st_mtime_ns) for name in project.attached())
        with self._lock:
            question = (project.revision, attached)
            if question != self._question:
                self._question, self._first, self._whole = question, Future(), Future()
                work = threading.Thread(
                    target=self._work,
                    args=(project, question, project.document, self._first, self._whole),
                    name="foresight",
                    daemon=True,
                )
                work.start()
            first, whole = self._first, self._whole
        try:
            return whole.result(timeout=patience)
        except TimeoutError:
            return first.result() if first.done() else Foreseen(pending=True)

    def _work(
        self,
        project: Project,
        question: tuple[Any, ...],
        document: dict[str, Any],
        first: Future[Foreseen],
        whole: Future[Foreseen],
    ) -> None:
        with self._working:
            found = Foreseen()
            try:
                if question == self._question:  # else nobody waits for it any more
                    policy = Policy.load(document, project.files)
                    looked = self._look(project, document, policy, question[1])
                    found = Foreseen(hints(looked, policy))
                    first.set_result(Foreseen(found.hints, pending=True))
                    found = Foreseen(found.hints, costs(looked, policy, lambda: question == self._question))
            except ShoalError as error:
                found = Foreseen(problem=str(error))
            except Exception:  # noqa: BLE001 - a hint is a courtesy, and its failure may quote a record
                found = Foreseen(problem=_UNFORESEEN)
            whole.set_result(found)

    def _look(self, project: Project, document: dict[str, Any], policy: Policy, attached: object) -> Looked:
        key = f"{looked_key(document)} {attached}"
        held = self._looked
        if held is not None and held[0] == key:
            return held[1]
        held = self._looked = None  # before the next one takes its memory
        looked = Looked.at(project.source, policy)
        self._looked = key, looked
        _LATEST.append(weakref.ref(self))
        while len(_LATEST) > MOST_LOOKED:
            earlier = _LATEST.popleft()()
            if earlier is not None and not any(other() is earlier for other in _LATEST):
                earlier.let_go()
        return looked

    def let_go(self) -> None:
        """Free what was counted; the next question counts again."""
        self._looked = None


_LATEST: deque[weakref.ref[Foresight]] = deque()  # those that counted a table last
