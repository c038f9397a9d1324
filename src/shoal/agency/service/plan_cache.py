"""Plans as they are sent: they never change, so each is read from the database once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentPlan:
    """The document of a plan and its digest."""

    digest: str
    content: bytes


class PlanCache:
    """The plans that were asked for last, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        """Begin empty."""
        self._most = most_bytes
        self._bytes = 0
        self._plans: OrderedDict[int, SentPlan] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, campaign: int) -> SentPlan | None:
        """Return the plan of a campaign, if it is here."""
        with self._lock:
            plan = self._plans.get(campaign)
            if plan is not None:
                self._plans.move_to_end(campaign)
            return plan

    def put(self, campaign: int, plan: SentPlan) -> None:
        """Keep a plan, and forget those that were not asked for longest; one that is too large is not kept."""
        if len(plan.content) > self._most:
            return
        with self._lock:
            before = self._plans.pop(campaign, None)
            self._bytes += len(plan.content) - (0 if before is None else len(before.content))
            self._plans[campaign] = plan
            while self._bytes > self._most:
                _, oldest = self._plans.popitem(last=False)
                self._bytes -= len(oldest.content)
