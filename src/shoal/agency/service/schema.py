"""The tables of an agency's service, the same on SQLite and PostgreSQL.

While there is one migration, what it makes is the schema; a second one comes with a schema of its own. Triggers refuse
what no code may do.
"""

from __future__ import annotations

from shoal.agency.service.migrations.versions.v0001_campaigns import (
    audit,
    campaigns,
    contributions,
    distributions,
    metadata,
    plans,
    releases,
    reports,
    tokens,
)

__all__ = ["audit", "campaigns", "contributions", "distributions", "metadata", "plans", "releases", "reports", "tokens"]
