"""What the data holder wants: roles, taxonomies, techniques, privacy models, method."""

from __future__ import annotations

from shoal.policy.policy import AttributePolicy, Policy, Role, policy_schema

__all__ = ["AttributePolicy", "Policy", "Role", "policy_schema"]
