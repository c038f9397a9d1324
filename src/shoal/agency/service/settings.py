"""What an agency's service is run with: its database, its address and its limits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from shoal.core.errors import UsageError

PREFIX = "SHOAL_AGENCY_"
_MEBIBYTE = 2**20
_ENDLESS = 2**62


@dataclass(frozen=True, slots=True)
class Settings:
    """Every limit of the service; each may be set as ``SHOAL_AGENCY_`` and its name in capitals."""

    database: str = "sqlite:///agency.db"
    host: str = "127.0.0.1"
    port: int = 8321
    trusted_proxies: str = ""  # addresses whose X-Forwarded-For is believed
    rate: float = 500.0  # requests a second of a token
    burst: int = 1000
    address_rate: float = 100.0  # requests a second of an address, without a token
    address_burst: int = 200
    body_bytes: int = 64 * 1024
    manifest_bytes: int = 4 * _MEBIBYTE  # manifests, and domains of campaigns
    table_bytes: int = 32 * _MEBIBYTE  # counts and distributions
    waiting_bytes: int = 256 * _MEBIBYTE  # of all bodies that are being received or handled
    body_seconds: float = 60.0
    connections: int = 500
    idle_seconds: float = 10.0  # of a connection that sends no whole head of a request, or takes nothing of its answer
    campaigns: int = 1000
    tokens: int = 10_000  # that are not revoked
    attributes: int = 32
    values: int = 100_000  # of one attribute
    rows: int = 2_000_000  # of one table of counts
    points: int = 200_000  # up to which a plan has every combination of the quasi values
    releases: int = 1000  # of one owner in one campaign
    cache_bytes: int = 64 * _MEBIBYTE  # of plans, as they are sent
    shutdown_seconds: int = 20

    def __post_init__(self) -> None:
        """Refuse limits that would let nobody in."""
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "port" else 1e-9
            if isinstance(value, int | float) and not least <= value < _ENDLESS:
                raise UsageError(
                    f"the setting {field.name} of the agency's service must be a number above 0, got {value}"
                )
        if self.port > 65535:
            raise UsageError(f"--port must be at most 65535, got {self.port}")


def settings(environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """Return the settings: what is given (and not None), else what the environment says, else the defaults.

    >>> settings({"SHOAL_AGENCY_BURST": "20"}, port=9000).burst
    20
    """
    known = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    for field in fields(Settings):
        text = known.get(PREFIX + field.name.upper())
        if given.get(field.name) is not None:
            found[field.name] = given[field.name]
        elif text:
            found[field.name] = _read(field.name, text, type(field.default))
    return Settings(**found)


def _read(name: str, text: str, kind: Any) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{PREFIX}{name.upper()} must be a number, got {text!r}") from None
