"""Several releases together: what remains hidden of a person who is in all of them, and the ledger of releases."""
