"""What owners, clients and staff send to an agency's service, and what they take from its answers."""

from __future__ import annotations

from shoal.agency.client.questions import AgencyClient

__all__ = ["AgencyClient"]
