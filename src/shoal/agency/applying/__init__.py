"""The owner's side: records into the classes of an agency's plan, and a release by it or none."""

from __future__ import annotations

from shoal.agency.applying.release import agreed_policy, apply_plan

__all__ = ["agreed_policy", "apply_plan"]
