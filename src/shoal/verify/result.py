"""What a verification found: named checks, and each promise with what the data really keep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

FALSE_ALARM = 1e-12  # the chance with which a check of something random may fail an honest release


@dataclass(frozen=True, slots=True)
class Check:
    """One question asked of a release, with its answer in a plain sentence that quotes no record."""

    name: str
    ok: bool
    detail: str
    done: bool = True  # False: something that it needs was not given
    required: bool = False  # whether the verdict is incomplete if the check was not done

    @classmethod
    def of(cls, name: str, fault: object, good: str) -> Check:
        """Return the failed check of a *fault*, a sentence, or if there is none that it went *good*."""
        return cls(name, not fault, str(fault) if fault else good)

    def as_dict(self) -> dict[str, Any]:
        """Return it in the words of JSON."""
        found = {"name": self.name, "ok": self.ok, "detail": self.detail}
        return found if self.done else {**found, "done": False, "required": self.required}


@dataclass(frozen=True, slots=True)
class CheckedGuarantee:
    """A promise of the manifest beside the value recomputed from the published rows."""

    model: str
    parameters: Mapping[str, Any]
    claimed: float | None
    achieved: float | None
    ok: bool
    detail: str
    counts: str | None = None  # the people that it is about: a unit or a household; None: records
    partly: bool = False  # only what records show of it was checked
    done: bool = True  # False: something that it needs was not given

    def as_dict(self) -> dict[str, Any]:
        """Return it in the words of JSON; an infinite value, which JSON lacks, becomes null."""
        finite = self.achieved if self.achieved is not None and math.isfinite(self.achieved) else None
        return {
            "model": self.model,
            "parameters": dict(self.parameters),
            **({} if self.counts is None else {"counts": self.counts}),
            "claimed": self.claimed,
            "achieved": finite,
            "ok": self.ok,
            "detail": self.detail,
            **({"partly": True} if self.partly else {}),
            **({} if self.done else {"done": False}),
        }


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise that no file can show to be kept: it rests on how the release was made."""

    model: str
    parameters: Mapping[str, Any]
    detail: str

    def as_dict(self) -> dict[str, Any]:
        """Return it in the words of JSON."""
        return {
            "model": self.model,
            "parameters": dict(self.parameters),
            "checkable": False,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """The answer: verified only if every check and every guarantee held, and something is promised if it must be.

    The verdict is incomplete if nothing failed, but a required check lacked an input.
    """

    checks: tuple[Check, ...]
    guarantees: tuple[CheckedGuarantee, ...]
    claims: tuple[Claim, ...] = ()
    may_promise_nothing: bool = False  # of a method that publishes values as they are, or nobody's

    @property
    def verdict(self) -> Literal["verified", "failed", "incomplete"]:
        """The answer in one word."""
        promises = bool(self.guarantees) or self.may_promise_nothing
        if not promises or not self.checks or self.failures:
            return "failed"
        return "incomplete" if self.unchecked else "verified"

    @property
    def verified(self) -> bool:
        """Whether the verdict is *verified*."""
        return self.verdict == "verified"

    @property
    def failures(self) -> tuple[str, ...]:
        """The sentences of everything that failed, checks first."""
        return tuple(
            [f"{check.name}: {check.detail}" for check in self.checks if not check.ok]
            + [f"{promise.model}: {promise.detail}" for promise in self.guarantees if not promise.ok]
        )

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The sentences of required checks and of guarantees that lacked an input."""
        checks = [f"{check.name}: {check.detail}" for check in self.checks if check.required and not check.done]
        return (*checks, *(f"{one.model}: {one.detail}" for one in self.guarantees if one.ok and not one.done))

    @property
    def unshown(self) -> tuple[str, ...]:
        """The sentences of guarantees of which public files show a part."""
        return tuple(f"{one.model}: {one.detail}" for one in self.guarantees if one.partly and one.ok)

    @property
    def objections(self) -> tuple[str, ...]:
        """The failures or, if nothing failed, what was not checked."""
        return self.failures or self.unchecked or self.unshown

    def as_dict(self) -> dict[str, Any]:
        """Return the answer of ``shoal verify --json``."""
        return {
            "verified": self.verified,
            "verdict": self.verdict,
            "message": "verified as far as public files show" if self.verified and self.unshown else self.verdict,
            "unchecked": [*self.unchecked, *self.unshown],
            "guarantees": [promise.as_dict() for promise in self.guarantees],
            "claims": [claim.as_dict() for claim in self.claims],
            "checks": [check.as_dict() for check in self.checks],
        }
