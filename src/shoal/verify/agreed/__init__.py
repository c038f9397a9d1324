"""Checking releases by an agency's plan: a row says its class in the plan and its sensitive value, nothing more.

Rameshwar and Tandon, "(l,delta)-diversity", and ``docs/adr/0018-agreed-releases.md``.
"""

from __future__ import annotations

from shoal.verify.agreed.checking import verify_agreed
from shoal.verify.agreed.plan import Plan, read_plan

__all__ = ["Plan", "read_plan", "verify_agreed"]
