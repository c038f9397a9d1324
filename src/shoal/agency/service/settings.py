"""The settings of an agency's service: database, address and limits."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shoal.core.errors import UsageError

PREFIX = "SHOAL_AGENCY_"
_MEBIBYTE = 2**20
Whole = Annotated[int, Field(gt=0, lt=2**62)]


class Settings(BaseModel):
    """The limits of the service; each can be set as ``SHOAL_AGENCY_`` and its name in capitals."""

    model_config = ConfigDict(frozen=True)

    database: str = "sqlite:///agency.db"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8321
    tls_cert: Path | None = None  # certificate with its chain
    tls_key: Path | None = None
    behind_proxy: bool = False  # whether a proxy with TLS is in front of a plain listener
    body_bytes: Whole = 64 * 1024
    manifest_bytes: Whole = 4 * _MEBIBYTE  # manifests, and domains of campaigns
    table_bytes: Whole = 32 * _MEBIBYTE  # counts and distributions
    connections: Whole = 500
    campaigns: Whole = 1000
    tokens: Whole = 10_000  # not revoked
    attributes: Whole = 32
    values: Whole = 100_000  # of one attribute
    rows: Whole = 2_000_000  # of one table of counts
    points: Whole = 200_000  # the largest domain that a plan covers completely
    releases: Whole = 1000  # of one owner in one campaign
    requests: Whole = 1000  # of one client
    shutdown_seconds: Whole = 20


def settings(environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """Return the settings: first those given (and not None), then the environment's, then the defaults.

    >>> settings({"SHOAL_AGENCY_TOKENS": "20"}, port=9000).tokens
    20
    """
    known = os.environ if environment is None else environment
    found: dict[str, Any] = {name: text for name in Settings.model_fields if (text := known.get(PREFIX + name.upper()))}
    found |= {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(**found)
    except ValidationError as error:
        problem = error.errors()[0]
        name, what = str(problem["loc"][0]), problem["msg"].lower()
        raise UsageError(
            f"the setting {name} of the agency's service ({PREFIX}{name.upper()}) is wrong: {what}"
        ) from None
