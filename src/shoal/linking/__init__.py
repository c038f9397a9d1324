"""Linking several releases of the same people, and the ledger of earlier releases."""
