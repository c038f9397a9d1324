"""The result of a verification: named checks, and each promise with the figure of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
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
        """Return a failed check with the sentence *fault*, or a passed one with the sentence *good*."""
        return cls(name, not fault, str(fault) if fault else good)


@dataclass(frozen=True, slots=True)
class CheckedGuarantee:
    """A promise of the manifest with the value recomputed from the published rows."""

    model: str
    parameters: Mapping[str, Any]
    claimed: float | None
    achieved: float | None
    ok: bool
    detail: str
    counts: str | None = None  # the people that it is about: a unit or a household; None: records
    partly: bool = False  # only what records show of it was checked
    done: bool = True  # False: something that it needs was not given


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise that files cannot show, because it depends on how the release was made."""

    model: str
    parameters: Mapping[str, Any]
    detail: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The answer: verified only if every check and every guarantee held, and something is promised if it must be.

    The verdict is incomplete if nothing failed, but a required check lacked an input.
    """

    checks: tuple[Check, ...]
    guarantees: tuple[CheckedGuarantee, ...]
    claims: tuple[Claim, ...] = ()
    may_promise_nothing: bool = False  # of plain and synthetic releases

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
        checks = [f"{check.name}: {check.detail}" for check in self.checks if not check.ok]
        return (*checks, *(f"{one.model}: {one.detail}" for one in self.guarantees if not one.ok))

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
        """The failures, or otherwise everything that was not checked."""
        return self.failures or self.unchecked or self.unshown

    def as_dict(self) -> dict[str, Any]:
        """Return the answer of ``shoal verify --json``; an infinite figure, which JSON lacks, becomes null."""
        finite = [one.achieved if math.isfinite(one.achieved or 0) else None for one in self.guarantees]
        guarantees = [replace(one, achieved=own) for one, own in zip(self.guarantees, finite, strict=True)]
        return {
            "verified": self.verified,
            "verdict": self.verdict,
            "message": "verified as far as public files show" if self.verified and self.unshown else self.verdict,
            "unchecked": [*self.unchecked, *self.unshown],
            "guarantees": [_list_fields(one) for one in guarantees],
            "claims": [{**_list_fields(claim), "checkable": False} for claim in self.claims],
            "checks": [_list_fields(check) for check in self.checks],
        }


def _list_fields(entry: Check | CheckedGuarantee | Claim) -> dict[str, Any]:
    """Return the fields of an entry that differ from their defaults."""
    found = {one: getattr(entry, one.name) for one in fields(entry)}
    return {one.name: value for one, value in found.items() if one.default is MISSING or value != one.default}
