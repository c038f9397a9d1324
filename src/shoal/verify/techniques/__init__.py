"""Columns that were changed before anything else: what the manifest declares of them, and whether it is so."""

from __future__ import annotations

from shoal.verify.techniques.base import Declared
from shoal.verify.techniques.declaring import read_techniques

__all__ = ["Declared", "read_techniques"]
