"""Drafting a policy from a table: see ``docs/init.md``."""
