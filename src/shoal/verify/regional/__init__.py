"""Checking a release larger than memory part by part, with the same answer."""

from __future__ import annotations

from shoal.verify.regional.checking import Means, check

__all__ = ["Means", "check"]
