"""An agency's service as data owners, clients and staff use it: one method a question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from shoal.agency.client.transport import PATIENCE, Address, Answer, exchange
from shoal.core.errors import InputError, UsageError
from shoal.release.release import write_bytes

if TYPE_CHECKING:
    from shoal.release.forms.agreed import AgreedPlan

LARGEST_PLAN = 512 * 2**20  # bytes
PLANNING = 600.0  # seconds that a plan may take
_PAGE = 1000
_REPORT = ("records", "needed", "missing", "enough")
_MOST_PAGES = 1000
_CAMPAIGN = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class AgencyClient:
    """Asks one service with one token; every refusal is an error in the service's own words."""

    address: Address
    token: str = field(repr=False)
    patience: float = PATIENCE

    @classmethod
    def at(cls, url: str, token: str, *, insecure: bool = False) -> AgencyClient:
        """Return a client for a URL; plain http only to this machine, unless *insecure*."""
        return cls(Address.of(url, insecure=insecure), token)

    def campaigns(self) -> list[dict[str, Any]]:
        """Return all campaigns."""
        return self._listed("/v1/campaigns", ("id", "name", "state", "l", "delta"))

    def campaign(self, campaign: str) -> dict[str, Any]:
        """Return one campaign with its domain."""
        return self._ask("GET", _of(campaign), keys=("id", "name", "state", "domain"))

    def open_campaign(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create a campaign (agency)."""
        return self._ask("POST", "/v1/campaigns", body, keys=("id",))

    def distribute(self, campaign: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Give a campaign its distribution (agency)."""
        return self._ask("PUT", f"{_of(campaign)}/distribution", body)

    def move(self, campaign: str, state: str) -> dict[str, Any]:
        """Move a campaign to a later state (agency)."""
        return self._ask("POST", f"{_of(campaign)}/state", {"state": state})

    def contribute(self, campaign: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Give this owner's counts, in place of earlier ones (owner)."""
        return self._ask("PUT", f"{_of(campaign)}/counts", body)

    def contributions(self, campaign: str) -> list[dict[str, Any]]:
        """Return who contributed how many records (agency)."""
        return self._listed(f"{_of(campaign)}/counts", ("owner", "records"))

    def settle(self, campaign: str, *, p: float | None = None, samples: int | None = None) -> dict[str, Any]:
        """Have the plan made, once and for all (agency)."""
        return self._ask(
            "POST",
            f"{_of(campaign)}/plan",
            {"p": p, "samples": samples},
            keys=("classes", "records", "digest"),
            patience=PLANNING,
        )

    def fetch(self, campaign: str, path: Path) -> AgreedPlan:
        """Write the plan to a new file, if its digest and all it says of itself are right (owner, agency)."""
        from shoal.release.forms.agreed import parse_plan  # which brings all of planning along

        if path.exists() or path.is_symlink():
            raise UsageError(f"{path} exists already; choose another file or remove it first")
        content = self._send("GET", f"{_of(campaign)}/plan", largest=LARGEST_PLAN).content
        plan = parse_plan(content, f"the plan of campaign {campaign}")
        write_bytes(path, content)
        return plan

    def report(self, campaign: str, records: int) -> dict[str, Any]:
        """Tell how many records this owner has (owner)."""
        return self._ask("PUT", f"{_of(campaign)}/records", {"records": records}, keys=_REPORT)

    def reports(self, campaign: str) -> list[dict[str, Any]]:
        """Return who has how many records (agency)."""
        return self._listed(f"{_of(campaign)}/records", ("owner", *_REPORT))

    def register(self, campaign: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Register a release by its manifest and digests (owner)."""
        return self._ask("POST", f"{_of(campaign)}/releases", body, keys=("id",))

    def releases(self, campaign: str) -> list[dict[str, Any]]:
        """Return the releases that are registered."""
        return self._listed(f"{_of(campaign)}/releases", ("id", "owner", "rows", "at"))

    def guarantee(self, campaign: str, releases: int | None = None) -> dict[str, Any]:
        """Return what holds for any so many releases together; without a number, for all registered."""
        query = "" if releases is None else f"?{urlencode({'releases': releases})}"
        return self._ask("GET", f"{_of(campaign)}/guarantee{query}", keys=("statement",))

    def _ask(
        self, method: str, path: str, body: Any = None, *, keys: tuple[str, ...] = (), patience: float | None = None
    ) -> dict[str, Any]:
        return _object(self._send(method, path, body, patience=patience).document(), keys)

    def _listed(self, path: str, keys: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return all entries of a list that comes in pages."""
        entries: list[dict[str, Any]] = []
        after = 0
        for _ in range(_MOST_PAGES):
            page = self._ask("GET", f"{path}?{urlencode({'after': after, 'limit': _PAGE})}", keys=("items", "next"))
            if not isinstance(page["items"], list):
                raise _strange()
            entries.extend(_object(entry, keys) for entry in page["items"])
            if page["next"] is None:
                return entries
            if type(page["next"]) is not int or page["next"] <= after:
                raise _strange()
            after = page["next"]
        raise InputError(f"the agency's list has more than {_MOST_PAGES * _PAGE:,} entries; shoal reads no further")

    def _send(
        self, method: str, path: str, body: Any = None, *, largest: int | None = None, patience: float | None = None
    ) -> Answer:
        options = {} if largest is None else {"largest": largest}
        return exchange(self.address, self.token, method, path, body, patience=patience or self.patience, **options)


def _of(campaign: str) -> str:
    if not _CAMPAIGN.fullmatch(campaign):
        raise UsageError("a campaign is named by its number, as `shoal agency campaigns` lists it")
    return f"/v1/campaigns/{quote(campaign)}"


def _object(found: Any, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return an answer that has what it must have."""
    if not isinstance(found, dict) or any(key not in found for key in keys):
        raise _strange()
    return found


def _strange() -> InputError:
    return InputError(
        "the answer is not what an agency's service says: is the address right, and its version of shoal the same?"
    )
