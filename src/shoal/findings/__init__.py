"""What a steward should know before sharing a release, beside what it promises: one file per finding."""

from __future__ import annotations

from shoal.findings.base import Acceptance, Check, Finding, PublishedTable, find_all

__all__ = ["Acceptance", "Check", "Finding", "PublishedTable", "find_all"]
