"""Drafting a policy from a table: see ``docs/init.md``."""

from __future__ import annotations

from shoal.drafting.drafting import Draft, DraftColumn, draft_policy

__all__ = ["Draft", "DraftColumn", "draft_policy"]
