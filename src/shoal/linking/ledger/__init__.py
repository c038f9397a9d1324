"""The ledger: what was released about whom, when and to whom, and what it leaves together."""
