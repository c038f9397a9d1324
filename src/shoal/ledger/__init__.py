"""The ledger: what was released about whom, when and to whom, and what it leaves together."""

from __future__ import annotations

from shoal.ledger.options import LedgerOptions

__all__ = ["LedgerOptions"]
